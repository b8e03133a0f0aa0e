"""Weights w ~ N(0, I) of basis functions under a Gaussian likelihood: factor, evidence and their adjoints.

The predictor is Phi beta, beta = s w, the data's part exp(r'beta - beta'G beta / 2). With Q = I + S G S =
C C', S = diag(s), mu = Q^-1 S r: w = mu + C^-T z, log Z = -sum log C_ii + (S r)'mu / 2.

Sources: Rasmussen & Williams (2006), section 2.1.2; Murray (2016) for the adjoint of a Cholesky factor.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular


class WeightPosterior:
    """N(w; mu, Q^-1) at scales s (m,), for G (m, m) and r (m,).

    Attributes
    ----------
    mean, log_evidence:
        mu (m,) and log Z; nan where Q does not factorise.
    """

    def __init__(self, G: np.ndarray, r: np.ndarray, s: np.ndarray) -> None:
        self.G, self.r, self.s = G, r, s
        Q = np.multiply(G, s[:, None])
        Q *= s
        Q.reshape(-1)[:: len(s) + 1] += 1.0
        # the transpose of a symmetric matrix is in Fortran order
        self._C, info = lapack.dpotrf(Q.T, lower=1, clean=1, overwrite_a=1)
        self._scaled = s * r
        if info:
            self.mean, self.log_evidence = np.full(len(s), np.nan), np.nan
            return
        whitened = self.solve(self._scaled)
        self.mean = self.solve(whitened, transposed=True)
        log_det = float(np.log(np.diagonal(self._C)).sum())
        self.log_evidence = 0.5 * float(whitened @ whitened) - log_det

    def solve(self, v: np.ndarray, transposed: bool = False) -> np.ndarray:
        """C^-1 v or C^-T v."""
        return blas.dtrsv(self._C, v, lower=1, trans=int(transposed))

    def weights(self, z: np.ndarray) -> np.ndarray:
        """w = mu + C^-T z."""
        return self.mean + self.solve(z, transposed=True)

    def covariance_root(self) -> np.ndarray:
        """C^-T: its product with its transpose is the covariance Q^-1."""
        return solve_triangular(self._C, np.eye(len(self.s)), lower=True).T

    def whitened(self, w: np.ndarray) -> np.ndarray:
        """z = C' (w - mu)."""
        return blas.dtrmv(self._C, w - self.mean, lower=1, trans=1)

    def scale_slopes(
        self,
        z: np.ndarray | None = None,
        slope_z: np.ndarray | None = None,
        solved: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adjoint of s by log Z, plus g(w) at fixed z where its slopes are given, and (Q-bar o G) s.

        ``slope_z`` = C^-1 dg/dw and ``solved`` = C^-T slope_z. Uses up the factor. With T = C^-1,
        Q-bar = -sym(T'(T / 2 + P T)) - mu mu' / 2 - sym(q mu'), P the lower triangle of z slope_z' with half
        its diagonal.
        """
        T, _ = lapack.dtrtri(self._C, lower=1, overwrite_c=1)
        right, G, s = 0.5 * T, self.G, self.s
        tilted = 0.5 * self.mean
        if z is not None:
            rows = slope_z[:, None] * T
            sums = np.cumsum(rows, axis=0)
            sums -= 0.5 * rows
            sums *= z[:, None]
            right += sums
            tilted += solved
        M = blas.dtrmm(1.0, T, np.asfortranarray(right), side=0, lower=1, trans_a=1)
        M *= G
        inner = M @ s
        inner += s @ M
        inner += self.mean * (G @ (tilted * s)) + tilted * (G @ (self.mean * s))
        inner *= -0.5
        lever = self.mean if solved is None else self.mean + solved
        return 2.0 * inner + self.r * lever, inner
