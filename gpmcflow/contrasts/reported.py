"""Responses as a report tells them: what is typical of y, also where a case has several functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gpmcflow.approximations.conditional import BasisPredictor, Conditional, Predictor
from gpmcflow.approximations.multi_prediction import MultiConditional, MultiPredictor
from gpmcflow.likelihoods import Distributional, Likelihood, Survival

N_SPREAD = 4000  # draws of the functions that the spread of a response is of


def typical_of(likelihood: Likelihood, eta: np.ndarray) -> np.ndarray:
    """What is reported of y at eta, (..., m) or (..., q, m): the median of a time, else the mean."""
    if isinstance(likelihood, Distributional):
        likelihood, eta = likelihood.at(eta)
    if isinstance(likelihood, Survival):
        return likelihood.conditional_median(eta)
    return likelihood.conditional_mean(eta)


def expected_quantiles(
    eta: Conditional | MultiConditional, levels: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Quantiles of E[y | eta], or of a time's median, under a log link (level, m), as eta and the
    likelihood's parameters vary; of several functions by draws of these."""
    if isinstance(eta, MultiConditional):
        drawn = [typical_of(own, each) for own, each in eta.simulate(rng, N_SPREAD)]
        return np.quantile(np.concatenate(drawn), levels, axis=0)
    at_zero = [float(typical_of(own, np.zeros(1))[0]) for own in eta.likelihoods]
    shifted = eta._replace(mean=eta.mean + np.log(at_zero)[:, None])
    return np.exp(shifted.quantiles(levels))


@dataclass(frozen=True, eq=False)
class ReportedFunctions:
    """A predictor of several functions, and the response that is reported: P(a class), or what is typical."""

    predictor: MultiPredictor
    place: int | None  #: of the class among the levels; None where y has no classes

    def averages(
        self,
        X: np.ndarray,
        over_rows: np.ndarray,
        rng: np.random.Generator,
        n: int,
        *,
        linear: bool,
    ) -> np.ndarray:
        """Joint draws (n, g) of averages ``over_rows`` (g, m) of the response at coded inputs (m, p).

        ``linear``: the response is the first function, of times their medians and geometric means.
        """
        likelihood = self.predictor.likelihood
        eta = self.predictor.draw(X, rng, n)
        if self.place is not None:
            return likelihood.class_probabilities(eta, np.zeros_like(eta))[self.place] @ over_rows.T
        if not linear:
            return typical_of(likelihood, eta) @ over_rows.T
        if not isinstance(likelihood.stated, Survival):
            return eta[:, 0] @ over_rows.T
        return np.exp(np.log(typical_of(likelihood, eta)) @ over_rows.T)

    def levels(self, X: np.ndarray, *, linear: bool) -> tuple[np.ndarray, str]:
        """Expected response at each of the coded inputs (m,), of times the log of the median, and the kind
        of outcome whose link it is averaged under."""
        eta, likelihood = self.predictor.moments(X), self.predictor.likelihood
        stated = likelihood.stated
        if self.place is not None:
            return eta.class_probabilities()[self.place], "binary"
        if isinstance(stated, Survival):
            return np.log(typical_of(likelihood, eta.mean)).mean(0), "real"
        if linear:
            return eta.mean[:, 0].mean(0), "real"
        if stated.log_link or stated.exponential_mean:
            return typical_of(likelihood, eta.mean).mean(0), "counts"
        each = [typical_of(likelihood, at).mean(0) for at in _corners(eta)]
        return np.mean(each, axis=0), "binary"

    def lasting(self, X: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Probability to last longer than each of the times at coded inputs (m, p), (time, m)."""
        eta, likelihood = self.predictor.moments(X), self.predictor.likelihood
        assert isinstance(likelihood, Distributional)
        points = [at for corner in _corners(eta) for at in corner]
        longer = np.zeros((len(times), len(X)))
        for at in points:
            law, own = likelihood.at(at)
            assert isinstance(law, Survival)
            longer += np.exp(law.log_survival(own, times[:, None])) / len(points)
        return longer


def _corners(eta: MultiConditional) -> Iterator[np.ndarray]:
    """Functions one standard deviation below or above their means, (draw, q, m), each choice in turn.

    The average over them is that over the normals but for fourth derivatives.
    """
    sd = np.sqrt(eta.variance)
    for signs in product((-1.0, 1.0), repeat=eta.mean.shape[1]):
        yield eta.mean + np.array(signs)[:, None] * sd


#: a predictor of the response that is reported
Reported = Predictor | BasisPredictor | ReportedFunctions
