"""Factors of a GP prior whose hyperparameters move, K + eps I = L L', in compiled loops and LAPACK."""

from __future__ import annotations

import itertools

import numba
import numpy as np
from numba.extending import get_cython_function_address

from gpmcflow.numerics.lapack import call

POTRF, LAUUM, TRSV, TRMV, TRMM, TRTRI, SYMM = range(7)
# As in `compiled_lapack`: given to the loops as an argument, so that they can be kept on disk.
ROUTINES = np.array(
    [
        get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf"),
        get_cython_function_address("scipy.linalg.cython_lapack", "dlauum"),
        *(
            get_cython_function_address("scipy.linalg.cython_blas", name)
            for name in ("dtrsv", "dtrmv", "dtrmm")
        ),
        get_cython_function_address("scipy.linalg.cython_lapack", "dtrtri"),
        get_cython_function_address("scipy.linalg.cython_blas", "dsymm"),
    ],
    dtype=np.int64,
)
_L, _U, _N, _T = ord("L"), ord("U"), ord("N"), ord("T")
DIRECT = 4  # features up to which all distances are summed again: cheap, and free of drift
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest whole number in the low bits
stamps = itertools.count(1)


@numba.njit(inline="always", error_model="numpy")
def exponentials(squared, out, out_bits, scratch, bits):
    """out = exp(-squared / 2), squared >= 0, relative error 4e-16; two passes the compiler can vectorise.

    ``out_bits`` and ``bits`` are ``out`` and ``scratch`` seen as whole numbers: 2^k goes straight into the
    exponent. Below exp(-300) everything is exp(-300): far below rounding, and products of two are no
    denormal numbers.
    """
    for i in range(squared.size):
        x = max(-0.5 * squared[i], -300.0)
        shifted = x * _LOG2E + _MAGIC
        k = shifted - _MAGIC
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        scratch[i] = shifted
        out[i] = p
    for i in range(squared.size):
        out_bits[i] += bits[i] << 52


@numba.njit(inline="always", error_model="numpy")
def squared_distances_below(Xt, rates, j, column):
    """sum_d rates_d (x_di - x_dj)^2 for i >= j into ``column``."""
    x, at, rate = Xt[0, j:], Xt[0, j], rates[0]
    for i in range(column.size):
        z = x[i] - at
        column[i] = rate * z * z
    for k in range(1, Xt.shape[0]):
        x, at, rate = Xt[k, j:], Xt[k, j], rates[k]
        for i in range(column.size):
            z = x[i] - at
            column[i] += rate * z * z


@numba.njit(cache=True, nogil=True, error_model="numpy")
def in_place(routine, triangle, matrix):
    """Overwrite the triangle (a letter) of ``matrix`` by ``routine``, dpotrf or dlauum; LAPACK's info."""
    letters = np.array([triangle], dtype=np.uint8)
    ints = np.zeros(2, dtype=np.int32)
    ints[0] = matrix.shape[0]
    at = ints.ctypes.data
    call(routine, (letters.ctypes.data, at, matrix.ctypes.data, at, at + ints.itemsize))
    return ints[1]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def on_vector(routine, triangle, transposed, matrix, vector):
    """T v or T'v by dtrmv, T^-1 v or T^-T v by dtrsv, in place, T a triangle (a letter) of ``matrix``."""
    letters = np.array([triangle, _T if transposed else _N, _N], dtype=np.uint8)
    ints = np.ones(2, dtype=np.int32)
    ints[0] = vector.size
    at, letter = ints.ctypes.data, letters.ctypes.data
    pointers = (
        letter, letter + 1, letter + 2, at, matrix.ctypes.data, at,
        vector.ctypes.data, at + ints.itemsize,
    )  # fmt: skip
    call(routine, pointers)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factorise(routines, triangle, matrix):
    """Cholesky factor over a triangle (a letter) of ``matrix``; its log det, nan if it fails."""
    info, total = in_place(routines[POTRF], triangle, matrix), 0.0
    for j in range(matrix.shape[0]):
        total += np.log(matrix[j, j])
    return total if info == 0 else np.nan


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factorise_lower(routines, matrix):
    """Cholesky factor over the lower triangle of ``matrix`` (column, row); its log det, nan if it fails."""
    return factorise(routines, _L, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _direct(routines, Xt, log_lengths, rates, jitter, matrix):
    """Factor of exp(-sum_d rates_d (x_di - x_dj)^2 / 2) + jitter I into ``matrix`` (column, row).

    rates_d = exp(-2 log l_d), filled in.
    """
    n = Xt.shape[1]
    rates[:] = np.exp(-2.0 * log_lengths)
    squared, scratch = np.empty(n), np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        column = squared[: n - j]
        squared_distances_below(Xt, rates, j, column)
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter
    return factorise_lower(routines, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _summed(routines, Xt, log_lengths, rates, distances, jitter, matrix):
    """As `_direct`, keeping the sums of the exponent in ``distances`` (column, row)."""
    n = Xt.shape[1]
    rates[:] = np.exp(-2.0 * log_lengths)
    scratch = np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        column = distances[j, j:]
        squared_distances_below(Xt, rates, j, column)
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter
    return factorise_lower(routines, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _moved(routines, x, change, old, distances, jitter, matrix):
    """As `_summed` for one length scale changed: ``old`` + change (x_i - x_j)^2; O(1) a pair."""
    n = x.size
    scratch = np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        before, column, others, at = old[j, j:], distances[j, j:], x[j:], x[j]
        for i in range(column.size):
            z = others[i] - at
            column[i] = max(before[i] + change * z * z, 0.0)
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter
    return factorise_lower(routines, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _scaled(routines, distances, log_length, jitter, matrix):
    """As `_direct` for one length scale of all features: ``distances`` (column, row) are those of X."""
    n = matrix.shape[0]
    rate = np.exp(-2.0 * log_length)
    squared, scratch = np.empty(n), np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        column, given = squared[: n - j], distances[j, j:]
        for i in range(column.size):
            column[i] = rate * given[i]
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter
    return factorise_lower(routines, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def plain_distances(Xt, out):
    """Squared distances of the cases, lower triangle (column, row)."""
    ones = np.ones(Xt.shape[0])
    for j in range(Xt.shape[1]):
        squared_distances_below(Xt, ones, j, out[j, j:])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_product(routines, matrix, transposed, vector):
    """L v or L'v in place, L the lower triangle of ``matrix`` (column, row)."""
    on_vector(routines[TRMV], _L, transposed, matrix, vector)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_products(routines, matrix, scale, rows):
    """scale * L v of each row v of ``rows`` (k, n), in place: one matrix product."""
    letters = np.array([_L, _L, _N, _N], dtype=np.uint8)
    ints = np.empty(2, dtype=np.int32)
    ints[0], ints[1] = rows.shape[1], rows.shape[0]
    number = np.array([scale])
    at, letter = ints.ctypes.data, letters.ctypes.data
    pointers = (
        letter, letter + 1, letter + 2, letter + 3, at, at + ints.itemsize, number.ctypes.data,
        matrix.ctypes.data, at, rows.ctypes.data, at,
    )  # fmt: skip
    call(routines[TRMM], pointers)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_solve(routines, matrix, transposed, vector):
    """L^-1 v or L^-T v in place."""
    on_vector(routines[TRSV], _L, transposed, matrix, vector)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def weighted_gram(routines, matrix, weights, scale, out):
    """scale^2 L' diag(weights) L into the lower triangle of ``out`` (column, row), by dlauum."""
    n = weights.size
    root = np.sqrt(weights) * scale
    for j in range(n):
        for i in range(j, n):
            out[j, i] = root[i] * matrix[j, i]
    in_place(routines[LAUUM], _L, out)


class DenseFactor:
    """L of K + eps I, K_ij = exp(-sum_d (x_di - x_dj)^2 exp(-2 log l_d) / 2), in buffers filled again.

    ``columns`` holds L as (column, row): its transpose is in Fortran order, and only the lower triangle
    counts. ``stamp`` changes with every filling. Vectors are (n,), results are new arrays.
    """

    def __init__(self, X: np.ndarray, isotropic: bool, jitter: float) -> None:
        n, p = X.shape
        self.n, self.jitter = n, jitter
        self.isotropic = isotropic and p > 1
        self.Xt = np.ascontiguousarray(X.T)
        self.rates = np.empty(p)
        self.columns = np.empty((n, n))
        self.keeps_distances = p > DIRECT and not isotropic
        kept = self.keeps_distances or self.isotropic
        self.distances = np.empty((n, n)) if kept else None
        if self.isotropic:
            plain_distances(self.Xt, self.distances)
        self._gram: np.ndarray | None = None
        self._gram_stamp = self.stamp = 0
        self.log_det = np.nan

    def fill(self, log_lengths: np.ndarray) -> bool:
        """Factorise at log length scales, from the inputs; False if it is not positive definite."""
        if self.isotropic:
            arguments = (ROUTINES, self.distances, log_lengths[0])
            return self._done(_scaled(*arguments, self.jitter, self.columns))
        arguments = (ROUTINES, self.Xt, log_lengths, self.rates)
        if self.keeps_distances:
            return self._done(_summed(*arguments, self.distances, self.jitter, self.columns))
        return self._done(_direct(*arguments, self.jitter, self.columns))

    def fill_from(self, other: DenseFactor, log_lengths: np.ndarray, coordinate: int) -> bool:
        """As `fill`, where only one length scale differs from ``other``'s."""
        if not self.keeps_distances:
            return self.fill(log_lengths)
        self.rates[:] = other.rates
        self.rates[coordinate] = rate = float(np.exp(-2.0 * log_lengths[coordinate]))
        change = rate - other.rates[coordinate]
        x = self.Xt[coordinate]
        arguments = (ROUTINES, x, change, other.distances, self.distances)
        return self._done(_moved(*arguments, self.jitter, self.columns))

    def _done(self, log_det: float) -> bool:
        self.log_det, self.stamp = log_det, next(stamps)
        return log_det - log_det == 0.0  # finite

    @property
    def diagonal(self) -> float:
        """K_ii + eps."""
        return 1.0 + self.jitter

    def multiply(self, v: np.ndarray) -> np.ndarray:
        """L v."""
        out = v.copy()
        triangular_product(ROUTINES, self.columns, False, out)
        return out

    def multiply_rows(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """scale L v of each row of (k, n), in place."""
        triangular_products(ROUTINES, self.columns, scale, rows)
        return rows

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """L'v."""
        out = v.copy()
        triangular_product(ROUTINES, self.columns, True, out)
        return out

    def solve(self, v: np.ndarray) -> np.ndarray:
        """L^-1 v."""
        out = v.copy()
        triangular_solve(ROUTINES, self.columns, False, out)
        return out

    def dense(self) -> np.ndarray:
        """L as a matrix (n, n), zero above the diagonal."""
        return np.tril(self.columns.T)

    def weighted_gram(self, weights: np.ndarray, scale: float, out: np.ndarray) -> None:
        """scale^2 L' diag(weights) L into the lower triangle of ``out`` (column, row)."""
        weighted_gram(ROUTINES, self.columns, weights, scale, out)

    def gram(self) -> np.ndarray:
        """L'L (column, row), lower triangle; kept until the next filling."""
        if self._gram_stamp != self.stamp:
            if self._gram is None:
                self._gram = np.empty((self.n, self.n))
            self.weighted_gram(np.ones(self.n), 1.0, self._gram)
            self._gram_stamp = self.stamp
        return self._gram
