"""Logistic likelihood: p(y | eta) = 1 / (1 + exp(-y eta)), y in {-1, +1}."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gpmcflow.models.likelihoods.base import Likelihood
from gpmcflow.models.likelihoods.labels import draw_labels, validate_labels


@dataclass(frozen=True)
class Logistic(Likelihood):
    """p(y | eta) = sigma(y eta), y in {-1, +1}, sigma(z) = 1 / (1 + exp(-z))."""

    name = "logistic"

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless every label is -1 or +1."""
        validate_labels(self.name, y)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log sigma(y eta) over cases and y sigma(-y eta)."""
        z = y * eta
        small = np.exp(-np.abs(z))  # never overflows; both value and gradient follow from it
        value = np.minimum(z, 0.0) - np.log1p(small)
        slope = np.where(z >= 0.0, small, 1.0) / (1.0 + small)
        return value.sum(-1), y * slope

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log sigma(z), y q, -p q, -y p q (q - p) at z = y eta; p = sigma(z), q = sigma(-z)."""
        z = np.asarray(y) * eta
        p, q = expit(z), expit(-z)
        value = np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))
        return value, y * q, -p * q, -y * p * q * (q - p)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """+1 with probability sigma(eta), else -1."""
        return draw_labels(rng, expit(eta))
