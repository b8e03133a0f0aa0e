"""Poisson likelihood with log link: counts of log-Gaussian Cox processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood


@dataclass(frozen=True)
class Poisson(Likelihood):
    """p(y | eta) = Poisson(y; exposure exp(eta)); exposure is the size of each cell."""

    exposure: float = 1.0
    name = "poisson"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.exposure) and self.exposure > 0):
            raise InputError(
                f"Poisson likelihood: exposure is {self.exposure!r}; allowed: a positive number"
            )

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts."""
        wrong = np.flatnonzero((y < 0) | (y != np.floor(y)))
        if wrong.size:
            raise InputError(
                f"poisson likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; "
                "allowed: counts 0, 1, 2, ..."
            )

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log Poisson(y; e exp(eta)) over cases and y - e exp(eta)."""
        rate = self._rate(eta)
        constant = (y * np.log(self.exposure) - gammaln(y + 1.0)).sum()
        with np.errstate(invalid="ignore"):  # an infinite rate ends as a rejected proposal
            return (eta * y - rate).sum(-1) + constant, y - rate

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log Poisson(y; r), y - r, -r, -r with r = e exp(eta)."""
        rate = self._rate(eta)
        with np.errstate(invalid="ignore"):
            value = y * (eta + np.log(self.exposure)) - rate - gammaln(y + 1.0)
        return value, y - rate, -rate, -rate

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Poisson counts with rate e exp(eta)."""
        return rng.poisson(self._rate(eta)).astype(np.float64)

    def _rate(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.exposure * np.exp(eta)
