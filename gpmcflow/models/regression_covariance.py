"""Covariance matrices of GP regression and their factors, in buffers that are filled again each time."""

from __future__ import annotations

import numba
import numpy as np
from scipy.linalg import lapack

LARGEST = 300.0  # |theta| above which squares overflow: such a point has no density


@numba.njit(cache=True, nogil=True, error_model="numpy")
def unpack(theta, has_noise, inverse_scales):
    """Fill 1/rho_k; return eta^2, sigma^2 (0 where it is given), and whether all are in range."""
    for t in theta:
        if not abs(t) < LARGEST:
            return 0.0, 0.0, False
    first = 2 if has_noise else 1
    if theta.size == first + 1:
        inverse_scales[:] = np.exp(-theta[first])
    else:
        for k in range(inverse_scales.size):
            inverse_scales[k] = np.exp(-theta[first + k])
    return np.exp(2.0 * theta[0]), np.exp(2.0 * theta[1]) if has_noise else 0.0, True


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def negative_distances(Xt, inverse_scales, out):
    """-sum_k (x_ik - x_jk)^2 / rho_k^2 into out, the lower triangle column by column, n (n + 1) / 2.

    Made from X (p, n) each time: p subtractions and products a pair, less than reading stored D_k.
    """
    p, n = Xt.shape
    begin = 0
    for j in range(n):
        column = out[begin : begin + n - j]
        for k in range(p):
            scale = Xt.dtype.type(inverse_scales[k])
            x, at = Xt[k, j:], Xt[k, j]
            if k == 0:
                for i in range(n - j):
                    z = (x[i] - at) * scale
                    column[i] = -z * z
            else:
                for i in range(n - j):
                    z = (x[i] - at) * scale
                    column[i] -= z * z
        begin += n - j


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def negative_cross_distances(Xt, others, inverse_scales, out):
    """-sum_k (x_ik - z_jk)^2 / rho_k^2 into out (m, n) for X (p, n) and Z (p, m)."""
    p, n = Xt.shape
    for j in range(others.shape[1]):
        column = out[j]
        column[:] = 0.0
        for k in range(p):
            scale, x, at = inverse_scales[k], Xt[k], others[k, j]
            for i in range(n):
                z = (x[i] - at) * scale
                column[i] -= z * z


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_lower(packed, out, factor, constant, diagonal):
    """factor * E + constant + diag(diagonal) into the lower triangle; out is the transpose (column, row)."""
    n = out.shape[0]
    begin = 0
    for j in range(n):
        column = out[j, j:]
        for i in range(n - j):
            column[i] = packed[begin + i] * factor + constant
        column[0] += diagonal[j]
        begin += n - j


@numba.njit(cache=True, nogil=True, error_model="numpy")
def squares_and_log_diagonal(factor, u):
    """sum u_i^2 and sum log L_ii, in float64."""
    squares = logs = 0.0
    for i in range(factor.shape[0]):
        squares += np.float64(u[i]) * np.float64(u[i])
        logs += np.log(np.float64(factor[i, i]))
    return squares, logs


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_normal(theta, mean, sd):
    """Sum of log N(theta_j; mean_j, sd_j^2)."""
    total = -0.5 * np.log(2.0 * np.pi) * theta.size
    for j in range(theta.size):
        z = (theta[j] - mean[j]) / sd[j]
        total -= 0.5 * z * z + np.log(sd[j])
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def contract_gradient(packed, inverse, alpha, Xt, inverse_scales, eta2, out):
    """Fill out = (g_eta, g_rho_1..p): half the trace of (alpha alpha' - C^-1) dC / d log.

    ``inverse`` holds C^-1 in its lower triangle (as the transpose: column, row). Returns the trace of
    alpha alpha' - C^-1, by which the noise is multiplied.
    """
    p, n = Xt.shape
    out[:] = 0.0
    trace = 0.0
    weight = np.empty(n)
    begin = 0
    for j in range(n):
        difference = alpha[j] * alpha[j] - inverse[j, j]
        trace += difference
        E, column, a, w = packed[begin : begin + n - j], inverse[j, j:], alpha[j:], weight[: n - j]
        total = 0.0
        for i in range(n - j):
            w[i] = 2.0 * eta2 * E[i] * (a[i] * alpha[j] - column[i])  # twice: both triangles
            total += w[i]
        out[0] += total - eta2 * difference  # the diagonal once
        for k in range(p):
            x, at, scale = Xt[k, j:], Xt[k, j], inverse_scales[k]
            total = 0.0
            for i in range(n - j):
                z = (x[i] - at) * scale
                total += w[i] * z * z
            out[1 + k] += total
        begin += n - j
    return trace


class Workspace:
    """Buffers for one covariance matrix of n cases; E is kept as long as the length scales stay.

    ``X`` is (n, p). E = exp(-sum_k D_k / rho_k^2) is held as its lower triangle (half the
    exponentials); `factorise` writes eta^2 E + constant + diagonal over the last factor, in place.
    With float32 half the memory moves, at the precision of a stand-in.
    """

    def __init__(self, X: np.ndarray, dtype: type = np.float64) -> None:
        n, p = X.shape
        self.Xt = np.ascontiguousarray(X.T, dtype=dtype)
        self.inverse_scales = np.empty(p)
        self.packed = np.empty(n * (n + 1) // 2, dtype=dtype)
        self.factor = np.empty((n, n), dtype=dtype, order="F")
        self.diagonal = np.empty(n, dtype=dtype)
        self._transposed = self.factor.T
        double = dtype is np.float64
        self._potrf = lapack.dpotrf if double else lapack.spotrf
        self._trtrs = lapack.dtrtrs if double else lapack.strtrs
        self._type = dtype
        self._key: bytes | None = None

    def correlate(self) -> None:
        """Fill E for the length scales in ``inverse_scales``, unless it is there already."""
        key = self.inverse_scales.tobytes()
        if key != self._key:
            negative_distances(self.Xt, self.inverse_scales, self.packed)
            np.exp(self.packed, out=self.packed)
            self._key = key

    def factorise(self, factor: float, constant: float) -> bool:
        """Cholesky factor of factor * E + constant + diag(`diagonal`); False if it is not positive."""
        kind = self._type
        fill_lower(self.packed, self._transposed, kind(factor), kind(constant), self.diagonal)
        return self._potrf(self.factor, lower=1, clean=0, overwrite_a=1)[1] == 0

    def solve(self, rhs: np.ndarray, transposed: bool = False) -> np.ndarray:
        """L^-1 rhs, or L^-T rhs."""
        return self._trtrs(self.factor, rhs, lower=1, trans=int(transposed))[0]

    def invert(self) -> np.ndarray:
        """C^-1 over the factor: its lower triangle, as the transpose (column, row)."""
        lapack.dpotri(self.factor, lower=1, overwrite_c=1)
        return self._transposed
