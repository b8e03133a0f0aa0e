"""Classes without an order: the probability of one, as one response, and that of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from gpmcflow.approximations.multi_prediction import MultiConditional, MultiPredictor
from gpmcflow.approximations.predictive import QUANTILES

N_SPREAD = 4000  # draws of the functions that the spread of a probability is of


@dataclass(frozen=True, eq=False)
class ClassPredictor:
    """A predictor of several functions whose response is the probability of one class."""

    predictor: MultiPredictor
    place: int  #: of the class among the levels

    def averages(
        self, X: np.ndarray, over_rows: np.ndarray, rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """Joint draws (n, g) of averages ``over_rows`` (g, m) of the probability at coded inputs (m, p)."""
        likelihood = self.predictor.likelihood
        eta = self.predictor.draw(X, rng, n)
        return likelihood.class_probabilities(eta, np.zeros_like(eta))[self.place] @ over_rows.T

    def mean_response(self, X: np.ndarray) -> np.ndarray:
        """P(the class) at each of the coded inputs (m, p), (m,)."""
        return self.predictor.moments(X).class_probabilities()[self.place]


def class_predictions(eta: MultiConditional, place: int, rng: np.random.Generator) -> xr.Dataset:
    """Probabilities of all classes, and mean, sd and quantiles of that of one, by new case."""
    each = -(-N_SPREAD // len(eta.mean))
    drawn = []
    for own, mean, variance in eta.rows():
        u = mean + np.sqrt(variance) * rng.standard_normal((each, *mean.shape))
        drawn.append(own.class_probabilities(u, np.zeros_like(u))[place])
    shown = np.concatenate(drawn)
    probabilities = eta.class_probabilities()
    levels: Sequence[float] = QUANTILES
    variables = {
        "response_mean": ("new_case", probabilities[place]),
        "response_sd": ("new_case", shown.std(0)),
        "response_quantile": (("quantile", "new_case"), np.quantile(shown, levels, axis=0)),
        "grade_probability": (("grade", "new_case"), probabilities),
    }
    return xr.Dataset(variables, {"quantile": list(levels)})
