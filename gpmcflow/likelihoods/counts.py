"""What likelihoods of counts share: whole numbers, and a log link with an exposure."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.numerics.code_cache import compiled_elementwise

_LOG_FACTORIALS = gammaln(np.arange(1.0, 1025.0))
LARGEST_RATE = 1e18  # of simulated counts, which NumPy draws as 64-bit integers


def validate_counts(where: str, y: np.ndarray) -> None:
    """Raise `InputError` unless y holds counts."""
    wrong = np.flatnonzero((y < 0) | (y != np.floor(y)))
    if wrong.size:
        raise InputError(
            f"{where} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: counts 0, 1, 2, ..."
        )


@compiled_elementwise
def log_factorial(y):
    """Log y! of counts, elementwise: from a table where they are small, else they take most of a gradient."""
    return _LOG_FACTORIALS[int(y)] if y < _LOG_FACTORIALS.size else math.lgamma(y + 1.0)


class CountLikelihood(Likelihood):
    """Counts with mean e exp(eta); the exposure e is a number, or one for each case."""

    constants = ("exposure",)
    counts = log_link = True
    standard_sites = "laplace"
    exposure: float | np.ndarray

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, of as many cases as the exposure."""
        super().validate(y)
        validate_counts(self.name, y)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Exp(eta), for one unit of exposure."""
        return np.exp(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Exp(mean + variance / 2), for one unit of exposure."""
        with np.errstate(over="ignore"):
            return np.exp(mean + 0.5 * variance)

    def _log_exposure(self, y: np.ndarray) -> np.ndarray:
        """(1, n), for compiled loops."""
        return np.full((1, len(y)), np.log(self.exposure))

    def _rate(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.exposure * np.exp(eta)
