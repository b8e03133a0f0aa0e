"""What a factorising likelihood offers, and the quadrature that serves any log-concave one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import comb

import numpy as np

# Nodes of the sinh-spaced trapezoid rule. log Z and the tilted variance agree with exact integrals to
# 1e-8 (probit) and 1e-9 (logistic, Poisson) at cavity variances up to 1e3
# (tests/models/likelihoods/test_tilted.py). Far beyond, as at 1e6, EP can fail to converge on it.
N_NODES = 241
CAVITY_WIDTH = 12.0


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
        log_z, weight, nodes = self._tilted_quadrature(y, mean, variance)
        _, slope, curvature, _ = self.derivatives(nodes, y)
        held = weight > 0.0  # far nodes may have infinite rates
        slope, curvature = np.where(held, slope, 0.0), np.where(held, curvature, 0.0)
        alpha = (weight * slope).sum(0)
        deviation = nodes - (weight * nodes).sum(0)
        shrink = (weight * deviation**2).sum(0) / variance  # tilted over cavity variance
        # Two forms of r, each where the other is a difference of nearly equal numbers: an informative
        # factor leaves a small variance, a flat one has small derivatives.
        from_variance = (1.0 - shrink) / variance
        from_slopes = (weight * (-curvature - (slope - alpha) ** 2)).sum(0)
        r = np.where(shrink < 0.5, from_variance, from_slopes)
        return log_z, alpha, np.clip(r, 0.0, (1.0 - 1e-13) / variance)  # its range if log-concave

    def tilted_cumulants(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
    ) -> np.ndarray:
        """Cumulants 3..order of the tilted distribution, shape (order - 2, n)."""
        _, weight, nodes = self._tilted_quadrature(y, mean, variance)
        deviation = nodes - (weight * nodes).sum(0)
        central = np.stack([(weight * deviation**k).sum(0) for k in range(order + 1)])
        return central_moments_to_cumulants(central)[3 : order + 1]

    def _tilted_quadrature(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log Z (n,), and weights that sum to one and nodes (N_NODES, n) of the tilted distribution.

        Trapezoid rule in t with eta = mode + scale sinh(t): dense where the tilted density peaks,
        reaching CAVITY_WIDTH cavity standard deviations, so that one rule serves narrow (large
        counts) and wide (flat likelihood) cases. A Gauss-Hermite rule on the cavity misses the
        narrow ones.
        """
        mode = self._tilted_mode(y, mean, variance)
        curvature = -self.derivatives(mode, y)[2]
        scale = 1.0 / np.sqrt(1.0 / variance + curvature)
        reach = CAVITY_WIDTH * np.sqrt(variance) + np.abs(mode - mean)
        t = np.linspace(-1.0, 1.0, N_NODES)[:, None] * np.arcsinh(reach / scale)
        nodes = mode + scale * np.sinh(t)
        log_f = self.derivatives(nodes, y)[0] - 0.5 * (nodes - mean) ** 2 / variance
        top = log_f.max(0)
        weight = np.exp(log_f - top) * scale * np.cosh(t)
        total = weight.sum(0)
        log_z = top + np.log(total * (t[1] - t[0])) - 0.5 * np.log(2.0 * np.pi * variance)
        return log_z, weight / total, nodes

    def _tilted_mode(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Solve (eta - mean) / variance = d log p / d eta by Newton steps kept inside a bracket.

        The left side minus the right is increasing for a log-concave likelihood, so the bracket
        grows from the mean until the sign changes. Where a Newton step leaves the bracket or is not
        half the step before (far up an exponential it is 1, however far), the bracket is halved.
        """
        eta = np.array(mean, dtype=np.float64)
        side = np.sign(self.derivatives(eta, y)[1])
        reach = np.sqrt(variance)
        for _ in range(60):
            far = mean + side * reach
            short = side * (side * reach / variance - self.derivatives(far, y)[1]) < 0.0
            if not short.any():
                break
            reach = np.where(short, 2.0 * reach, reach)
        low, high = np.minimum(mean, far), np.maximum(mean, far)
        last = high - low
        for _ in range(200):
            _, first, second, _ = self.derivatives(eta, y)
            slope = (eta - mean) / variance - first
            low, high = np.where(slope < 0, eta, low), np.where(slope > 0, eta, high)
            with np.errstate(invalid="ignore"):  # an infinite rate has no Newton step
                step = -slope / (1.0 / variance - second)
            inside = (eta + step > low) & (eta + step < high)
            newton = (inside & (np.abs(step) < 0.5 * last)) | (slope == 0.0)
            following = np.where(newton, eta + step, 0.5 * (low + high))
            last = np.abs(following - eta)
            if np.all(last <= 1e-10 * (1.0 + np.abs(eta))):
                return following
            eta = following
        return eta


def flat_rows(eta: np.ndarray) -> np.ndarray:
    """Predictors (..., n) as contiguous rows (batch, n), for compiled loops."""
    return np.ascontiguousarray(eta, dtype=np.float64).reshape(-1, eta.shape[-1])


def central_moments_to_cumulants(central: np.ndarray) -> np.ndarray:
    """Cumulants 0..order from central moments 0..order (leading axis); the first is zero.

    Recursion kappa_k = m_k - sum_{j=1}^{k-1} C(k-1, j-1) kappa_j m_{k-j}.
    """
    cumulants = np.zeros_like(central)
    for k in range(2, len(central)):
        lower = sum(comb(k - 1, j - 1) * cumulants[j] * central[k - j] for j in range(2, k))
        cumulants[k] = central[k] - lower
    return cumulants
