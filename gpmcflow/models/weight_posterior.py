"""Weights w ~ N(0, I) of basis functions under a Gaussian likelihood: factor, evidence and their adjoints.

The predictor is Phi beta, beta = s w, the data's part exp(r'beta - beta'G beta / 2). With S = diag(s) and
Q = I + S G S = C C', mu = Q^-1 S r: w = mu + C^-T z, log Z = -sum log C_ii + (S r)'mu / 2.

G is diagonal at the levels of a group (`ArrowMatrix`), which come first in C = [[A, 0], [B, R]], A diagonal:
O(L k^2 + k^3) for L levels and k other weights.

Sources: Rasmussen & Williams (2006), section 2.1.2; Murray (2016) for the adjoint of a Cholesky factor.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.covariances.basis_design import ArrowMatrix


class WeightPosterior:
    """N(w; mu, Q^-1) at scales s (m,), for G and r (m,).

    Attributes
    ----------
    mean, log_evidence, log_det:
        mu (m,), log Z and sum log C_ii; nan where Q does not factorise.
    """

    def __init__(self, G: ArrowMatrix, r: np.ndarray, s: np.ndarray) -> None:
        self.G, self.r, self.s = G, r, s
        tips, rest = s[G.tips], s[G.rest]
        self._A = np.sqrt(1.0 + tips * tips * G.d)
        self._B = rest[:, None] * G.E * (tips / self._A)
        Q = rest[:, None] * G.F * rest
        Q.reshape(-1)[:: len(rest) + 1] += 1.0
        if len(tips):
            Q -= self._B @ self._B.T
        # the transpose of a symmetric matrix is in Fortran order
        self._R, info = lapack.dpotrf(Q.T, lower=1, clean=1, overwrite_a=1)
        if info:
            self.mean, self.log_evidence = np.full(len(s), np.nan), np.nan
            return
        self.log_det = float(np.log(np.diagonal(self._R)).sum() + np.log(self._A).sum())
        whitened = self.solve(s * r)
        self.mean = self.solve(whitened, transposed=True)
        self.log_evidence = 0.5 * float(whitened @ whitened) - self.log_det

    def solve(self, v: np.ndarray, transposed: bool = False) -> np.ndarray:
        """C^-1 v or C^-T v."""
        tips, rest, out = self.G.tips, self.G.rest, np.empty(len(v))
        if transposed:
            out[rest] = below = self._solve_rest(v[rest], 1)
            out[tips] = (v[tips] - below @ self._B) / self._A
        else:
            out[tips] = above = v[tips] / self._A
            out[rest] = self._solve_rest(v[rest] - self._B @ above, 0)
        return out

    def _solve_rest(self, v: np.ndarray, trans: int) -> np.ndarray:
        return blas.dtrsv(self._R, v, lower=1, trans=trans) if len(v) else v

    def weights(self, z: np.ndarray) -> np.ndarray:
        """w = mu + C^-T z."""
        return self.mean + self.solve(z, transposed=True)

    def covariance_root(self) -> np.ndarray:
        """C^-T: its product with its transpose is the covariance Q^-1."""
        return np.array([self.solve(e, transposed=True) for e in np.eye(len(self.s))]).T

    def whitened(self, w: np.ndarray) -> np.ndarray:
        """z = C' (w - mu)."""
        v, tips, rest = w - self.mean, self.G.tips, self.G.rest
        out = np.empty(len(v))
        out[tips] = self._A * v[tips] + v[rest] @ self._B
        if len(rest):
            out[rest] = blas.dtrmv(self._R, v[rest], lower=1, trans=1)
        return out

    def scale_slopes(
        self,
        z: np.ndarray | None = None,
        slope_z: np.ndarray | None = None,
        solved: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adjoint of s by log Z, plus g(w) at fixed z where its slopes are given, and (Q-bar o G) s.

        ``slope_z`` = C^-1 dg/dw and ``solved`` = C^-T slope_z. Uses up the factor. With T = C^-1,
        Q-bar = -sym(T'N) - mu mu' / 2 - sym(q mu'), N = T / 2 + P T, P the lower triangle of z slope_z' with
        half its diagonal. Of T'N only what G is not zero at is computed.
        """
        G, s = self.G, self.s
        tips, rest = G.tips, G.rest
        T = lapack.dtrtri(self._R, lower=1, overwrite_c=1)[0] if len(rest) else self._R
        above = 1.0 / self._A
        below = -blas.dtrmm(1.0, T, self._B * above, lower=1) if len(tips) else self._B
        N, N_below, N_above = 0.5 * T, 0.5 * below, 0.5 * above
        tilted = 0.5 * self.mean
        if z is not None:
            slopes, own = slope_z[rest, None], z[rest, None]
            N += own * _sums_before(slopes * T)
            if len(tips):
                N_below += own * (slope_z[tips] * above + _sums_before(slopes * below))
                N_above += 0.5 * z[tips] * slope_z[tips] * above
            tilted += solved
        M = blas.dtrmm(1.0, T, np.asfortranarray(N), side=0, lower=1, trans_a=1)
        M *= G.F
        inner = np.empty(len(s))
        inner[rest] = M @ s[rest] + s[rest] @ M
        if len(tips):
            diagonal = above * N_above + np.einsum("ij,ij->j", below, N_below)
            cross = N.T @ below + blas.dtrmm(1.0, T, N_below, lower=1, trans_a=1)
            cross *= G.E
            inner[rest] += cross @ s[tips]
            inner[tips] = 2.0 * G.d * diagonal * s[tips] + s[rest] @ cross
        inner += self.mean * G.dot(tilted * s) + tilted * G.dot(self.mean * s)
        inner *= -0.5
        lever = self.mean if solved is None else self.mean + solved
        return 2.0 * inner + self.r * lever, inner


def _sums_before(rows: np.ndarray) -> np.ndarray:
    """Of each row the sum of those before it, and half of its own."""
    sums = np.cumsum(rows, axis=0)
    sums -= 0.5 * rows
    return sums
