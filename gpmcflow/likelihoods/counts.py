"""What likelihoods of counts share: whole numbers, and a log link with an exposure."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood
from gpmcflow.numerics.code_cache import compiled_elementwise

_LOG_FACTORIALS = gammaln(np.arange(1.0, 1025.0))
LARGEST_FINITE = 1e300  # rate in terms of p(0), which is 0 long before
SMALLEST_RATE = 1e-300
LARGEST_RATE = 1e18  # of simulated counts, which NumPy draws as 64-bit integers


def validate_counts(where: str, y: np.ndarray) -> None:
    """Raise `InputError` unless y holds counts."""
    wrong = np.flatnonzero((y < 0) | (y != np.floor(y)))
    if wrong.size:
        raise InputError(
            f"{where} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: counts 0, 1, 2, ..."
        )


def share_after_first(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The share of (0, x) that follows the first event of a Poisson process, given that there is one."""
    first = -np.log1p(rng.random(np.shape(x)) * np.expm1(-x))
    return np.clip(1.0 - first / np.maximum(x, SMALLEST_RATE), 0.0, 1.0)


@compiled_elementwise
def log_factorial(y):
    """Log y! of counts, elementwise: from a table where they are small, else they take most of a gradient."""
    return _LOG_FACTORIALS[int(y)] if y < _LOG_FACTORIALS.size else math.lgamma(y + 1.0)


class ZeroTerms(NamedTuple):
    """p(0) = exp(-x) of counts with log p(y) = y each - x + what is the same for all eta, each (..., n).

    The derivatives of x by eta are s, s p, s p (p - q), that of ``each`` is p.
    """

    x: np.ndarray
    each: np.ndarray
    s: np.ndarray
    p: np.ndarray | float
    q: np.ndarray | float  #: 1 - p


class CountLikelihood(Likelihood):
    """Counts with mean e exp(eta); the exposure e is a number, or one for each case."""

    constants = ("exposure",)
    discrete = counts = log_link = True
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

    @abstractmethod
    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Its first constant is added to eta + offset; the size, if there is one, is its one parameter."""

    @abstractmethod
    def zero_terms(self, eta: np.ndarray) -> ZeroTerms:
        """Minus log p(0), and its derivatives."""

    @abstractmethod
    def eta_of_zero(self, x: float) -> np.ndarray:
        """Predictors at which minus log p(0) is x, () or one a case."""

    @abstractmethod
    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`parameter_gradient` of each case, (..., n, k)."""

    @abstractmethod
    def simulate_positive(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draws given that they are not zero, shape of eta."""

    def _log_exposure(self, y: np.ndarray) -> np.ndarray:
        """(1, n), for compiled loops."""
        return np.full((1, len(y)), np.log(self.exposure))

    def _rate(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.exposure * np.exp(eta)
