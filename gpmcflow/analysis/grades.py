"""Outcomes that are one of several levels, grades or classes: the probability of some, and of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis.data import Data
from gpmcflow.approximations.conditional import Conditional, Predictor
from gpmcflow.approximations.multi_prediction import MultiConditional, MultiPredictor
from gpmcflow.approximations.predictive import QUANTILES
from gpmcflow.contrasts.reported import N_SPREAD, Reported, ReportedFunctions
from gpmcflow.likelihoods import Likelihood, Ordinal

PREFIX = "p_"  # of the columns of probabilities in tables of predictions


@dataclass(frozen=True, eq=False, repr=False)
class UpperGrades(Ordinal):
    """Two groups of grades, of one cutpoint: the response is the probability of the upper one."""

    name = "upper_grades"
    binary = True

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """P(upper | eta)."""
        return super().conditional_mean(eta) - 1.0

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(upper), averaged over eta ~ N(mean, variance)."""
        return self.class_probabilities(mean, variance)[1]


def response_of(likelihood: Likelihood, data: Data) -> Likelihood:
    """The likelihood whose response the page reports: of grades the two groups, else itself."""
    if not isinstance(likelihood, Ordinal):
        return likelihood
    assert likelihood.cutpoints is not None
    cut = float(likelihood.cutpoints[data.target.split - 2])
    return UpperGrades(link=likelihood.link, cutpoints=(cut,))


def response_eta(eta: Conditional, data: Data) -> Conditional:
    """The predictors with the likelihoods of `response_of`."""
    return eta._replace(likelihoods=[response_of(own, data) for own in eta.likelihoods])


def with_response(predictor: Predictor | MultiPredictor, data: Data) -> Reported:
    """The predictor with the likelihood of `response_of`; of several functions that of their response."""
    if isinstance(predictor, MultiPredictor):
        of_class = data.target.kind == "classes"
        return ReportedFunctions(predictor, data.target.split - 1 if of_class else None)
    return replace(predictor, likelihood=response_of(predictor.likelihood, data))


def average_grades(predictor: Predictor, X: np.ndarray, g: int) -> np.ndarray:
    """Mean probability of each grade over rows of coded inputs X (g * rows, p) of each value, (grade, g)."""
    probabilities = predictor.moments(X).class_probabilities()
    assert probabilities is not None
    return probabilities.reshape(len(probabilities), g, -1).mean(-1)


def most_probable(group: xr.Dataset) -> np.ndarray:
    """The most probable grade of each row, 1, 2, .. (m,)."""
    return 1.0 + group["grade_probability"].values.argmax(0)


def probabilities(group: xr.Dataset, levels: tuple[str, ...], name: str) -> pd.DataFrame:
    """The most probable grade or class of each row, as column ``name``, and the probability of each."""
    table = pd.DataFrame({name: [levels[int(k) - 1] for k in most_probable(group)]})
    names = [PREFIX + level for level in levels]
    return table.assign(**dict(zip(names, group["grade_probability"].values, strict=True)))


def class_predictions(eta: MultiConditional, place: int, rng: np.random.Generator) -> xr.Dataset:
    """Probabilities of all classes, and mean, sd and quantiles of that of one, by new case."""
    draws = eta.simulate(rng, N_SPREAD)
    shown = np.concatenate(
        [own.class_probabilities(u, np.zeros_like(u))[place] for own, u in draws]
    )
    probabilities = eta.class_probabilities()
    variables = {
        "response_mean": ("new_case", probabilities[place]),
        "response_sd": ("new_case", shown.std(0)),
        "response_quantile": (("quantile", "new_case"), np.quantile(shown, QUANTILES, axis=0)),
        "grade_probability": (("grade", "new_case"), probabilities),
    }
    return xr.Dataset(variables, {"quantile": list(QUANTILES)})
