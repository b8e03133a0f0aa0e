"""Mixtures of Gaussians: a density that is not log-concave, with everything in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """p(x) = sum_k w_k N(x; mu_k, Sigma_k) in d dimensions.

    Attributes
    ----------
    weights:
        w (k,), positive, of sum 1.
    means, covariances:
        mu (k, d) and Sigma (k, d, d), positive definite.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @property
    def dim(self) -> int:
        """Number d of dimensions."""
        return self.means.shape[1]

    @cached_property
    def _cholesky(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariances)

    @cached_property
    def precisions(self) -> np.ndarray:
        """P_k, inverses of the covariances (k, d, d)."""
        inverse = np.linalg.inv(self._cholesky)
        return inverse.transpose(0, 2, 1) @ inverse

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (n,), responsibilities r (n, k) and a_k = P_k (x - mu_k) (n, k, d) at x (n, d)."""
        away = x[:, None, :] - self.means
        pull = np.einsum("kij,nkj->nki", self.precisions, away)
        log_det = 2.0 * np.log(np.einsum("kii->ki", self._cholesky)).sum(1)
        constant = np.log(self.weights) - 0.5 * (log_det + self.dim * np.log(2.0 * np.pi))
        shares = constant - 0.5 * np.einsum("nki,nki->nk", away, pull)
        log_density = logsumexp(shares, axis=1)
        return log_density, np.exp(shares - log_density[:, None]), pull

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log p(x) for x (n, d), shape (n,)."""
        return self.evaluate(x)[0]

    def responsibilities(self, x: np.ndarray) -> np.ndarray:
        """r_k(x) = w_k N(x; mu_k, Sigma_k) / p(x), shape (n, k)."""
        return self.evaluate(x)[1]

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of log p: -sum_k r_k a_k, shape (n, d)."""
        _, r, pull = self.evaluate(x)
        return -np.einsum("nk,nki->ni", r, pull)

    def simulate(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws (n, d)."""
        which = rng.choice(len(self.weights), size=n, p=self.weights)
        normals = rng.standard_normal((n, self.dim))
        return self.means[which] + np.einsum("nij,nj->ni", self._cholesky[which], normals)
