"""Gaussian likelihood: y = eta + noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y | eta) = N(y; eta, noise_sd^2); every approximation here is exact for it."""

    noise_sd: float = 1.0
    name = "gaussian"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise_sd) and self.noise_sd > 0):
            raise InputError(
                f"Gaussian likelihood: noise_sd is {self.noise_sd!r}; allowed: a positive number"
            )

    def validate(self, y: np.ndarray) -> None:
        """Accept every finite y; the model has refused the others."""

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log N(y; eta, s^2) over cases and (y - eta) / s^2."""
        value, slope, *_ = self.derivatives(eta, y)
        return value.sum(-1), slope

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log N(y; eta, s^2), (y - eta) / s^2, -1 / s^2, 0."""
        slope = (y - eta) / self.noise_sd**2
        value = -0.5 * (y - eta) * slope - np.log(self.noise_sd) - 0.5 * np.log(2.0 * np.pi)
        return value, slope, np.full_like(slope, -1.0 / self.noise_sd**2), np.zeros_like(slope)

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Closed form: Z = N(y; mean, variance + s^2)."""
        total = variance + self.noise_sd**2
        alpha = (y - mean) / total
        log_z = -0.5 * (y - mean) * alpha - 0.5 * np.log(2.0 * np.pi * total)
        return log_z, alpha, 1.0 / total

    def tilted_cumulants(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
    ) -> np.ndarray:
        """All zero: the tilted distribution is Gaussian."""
        return np.zeros((order - 2, *np.shape(mean)))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return eta plus noise."""
        return eta + self.noise_sd * rng.standard_normal(np.shape(eta))
