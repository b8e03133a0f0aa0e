"""What a factorising likelihood offers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from gpmcflow.likelihoods.tilted import tilted_cumulants, tilted_moments


class Likelihood(ABC):
    """p(y | eta) = prod_i p(y_i | eta_i), log-concave in each linear predictor eta_i.

    Arrays of predictors have shape (..., n), observations y have shape (n,). Everything is
    elementwise: batch axes stay in front.
    """

    name: str

    @abstractmethod
    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` for observations this likelihood cannot have."""

    @abstractmethod
    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | eta) summed over cases, shape (...), and its gradient (..., n)."""

    @abstractmethod
    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p(y_i | eta_i) and its derivatives 1, 2, 3 by eta_i, each (..., n)."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draw observations given predictors, shape of eta."""

    def gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return d log p(y_i | eta_i) / d eta_i, shape (..., n)."""
        return self.log_density_and_gradient(eta, y)[1]

    def log_density(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log p(y | eta) summed over cases, shape (...)."""
        return self.log_density_and_gradient(eta, y)[0]

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log normaliser of the tilted distribution N(eta; mean, variance) p(y | eta), elementwise.

        Returns log Z, alpha = d log Z / d mean and r = -d^2 log Z / d mean^2. The tilted mean is
        mean + variance alpha and the tilted variance is variance (1 - variance r). By quadrature
        unless the likelihood has a closed form.
        """
        return tilted_moments(self, y, mean, variance)

    def tilted_cumulants(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
    ) -> np.ndarray:
        """Cumulants 3..order of the tilted distribution, shape (order - 2, n)."""
        return tilted_cumulants(self, y, mean, variance, order)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Centres and widths (n,) that a factor which is not log-concave adds to the quadrature."""
        return None

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A precision >= 0 with which Newton steps to a mode always ascend, shape of eta."""
        return -self.derivatives(eta, y)[2]


def flat_rows(eta: np.ndarray) -> np.ndarray:
    """Predictors (..., n) as contiguous rows (batch, n), for compiled loops."""
    return np.ascontiguousarray(eta, dtype=np.float64).reshape(-1, eta.shape[-1])
