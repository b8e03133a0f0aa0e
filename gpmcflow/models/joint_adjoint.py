"""Site posterior of latents as a function of a covariance K, and the adjoint of all that, in compiled loops.

K = L L' (n, n), sites of precision omega_i^2 and mean gamma_i, B = I + omega K omega, P = omega B^-1 omega.
Unit normals z_1, z_2 give an exact draw of the latents' site posterior by pathwise conditioning,

    v = L z_1,   a = omega B^-1 (omega (gamma - v) - z_2),   t = v + K a = L (z_1 + L'a),

and log Z = -gamma'P gamma / 2 - log|B| / 2 is the evidence of the sites. Matrices are (column, row): their
transposes are in Fortran order, and of symmetric ones the lower triangle counts. The dense route takes
8 n^3 / 3 flops for a gradient, whatever the number of length scales.
"""

from __future__ import annotations

import numba
import numpy as np

from gpmcflow.models.joint_covariance import (
    LAUUM,
    SYMM,
    TRMM,
    TRTRI,
    exponentials,
    factorise_lower,
    in_place,
    squared_distances_below,
    triangular_product,
    triangular_solve,
)
from gpmcflow.numerics.lapack import call

_L, _R, _N, _T = ord("L"), ord("R"), ord("N"), ord("T")
BLOCK = 32  # diagonal blocks inverted by dtrtri
TILE = 32  # side of the squares in which a matrix and its transpose are added


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def fill_covariance(Xt, log_lengths, jitter, matrix):
    """exp(-sum_d (x_di - x_dj)^2 exp(-2 log l_d) / 2) + jitter I, lower triangle."""
    n = Xt.shape[1]
    rates = np.exp(-2.0 * log_lengths)
    squared, scratch = np.empty(n), np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        column = squared[: n - j]
        squared_distances_below(Xt, rates, j, column)
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def fill_isotropic(distances, log_length, jitter, matrix):
    """As `fill_covariance` for one length scale; ``distances`` are the squares, lower triangle."""
    n, rate = matrix.shape[0], np.exp(-2.0 * log_length)
    squared, scratch = np.empty(n), np.empty(n)
    bits, out_bits = scratch.view(np.int64), matrix.view(np.int64)
    for j in range(n):
        column = squared[: n - j]
        column[:] = rate * distances[j, j:]
        exponentials(column, matrix[j, j:], out_bits[j, j:], scratch, bits)
        matrix[j, j] += jitter


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_kronecker(first, second, out):
    """first x second, of lower triangles or symmetric matrices (column, row), lower triangle."""
    m = second.shape[0]
    for j1 in range(first.shape[0]):
        for j2 in range(m):
            column = out[j1 * m + j2]
            for i1 in range(j1, first.shape[0]):
                for i2 in range(m):
                    column[i1 * m + i2] = first[j1, i1] * second[j2, i2]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factorise_copy(routines, matrix, factor):
    """Cholesky factor of ``matrix`` into ``factor``; its log det, nan where it fails."""
    for j in range(matrix.shape[0]):
        factor[j, j:] = matrix[j, j:]
    return factorise_lower(routines, factor)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def invert_lower(routines, matrix):
    """Inverse of a lower triangle, in place.

    Diagonal blocks first, then [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1, D^-1] with A and D of twice the size
    each time: matrix products nearly throughout, which dtrtri has few of.
    """
    n = matrix.shape[0]
    letters = np.array([_L, _R, _N], dtype=np.uint8)
    ints = np.zeros(4, dtype=np.int32)  # leading dimension, rows, columns, info
    ints[0] = n
    numbers = np.array([1.0, -1.0])
    left, at, one = letters.ctypes.data, ints.ctypes.data, numbers.ctypes.data
    right, plain = left + 1, left + 2
    rows, columns, info = at + ints.itemsize, at + 2 * ints.itemsize, at + 3 * ints.itemsize
    data, word = matrix.ctypes.data, matrix.itemsize
    for j in range(0, n, BLOCK):
        ints[1] = min(BLOCK, n - j)
        corner = data + word * j * (n + 1)
        call(routines[TRTRI], (left, plain, rows, corner, at, info))
    size = BLOCK
    while size < n:
        for j in range(0, n - size, 2 * size):
            ints[1], ints[2] = min(size, n - j - size), size
            first = data + word * j * (n + 1)
            second = first + word * size * (n + 1)
            below = first + word * size
            call(
                routines[TRMM],
                (left, left, plain, plain, rows, columns, one, second, at, below, at),
            )
            call(
                routines[TRMM],
                (right, left, plain, plain, rows, columns, one + word, first, at, below, at),
            )
        size *= 2


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _transposed_product(routines, triangle, matrix):
    """L' M in place, L a lower triangle and M a full matrix."""
    letters = np.array([_L, _L, _T, _N], dtype=np.uint8)
    ints = np.array([matrix.shape[0]], dtype=np.int32)
    number = np.ones(1)
    at, letter = ints.ctypes.data, letters.ctypes.data
    pointers = (
        letter, letter + 1, letter + 2, letter + 3, at, at, number.ctypes.data,
        triangle.ctypes.data, at, matrix.ctypes.data, at,
    )  # fmt: skip
    call(routines[TRMM], pointers)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _symmetric_product(routines, matrix, rows, out):
    """H r of each row r of ``rows`` (k, n) into ``out``, H symmetric with its lower triangle given."""
    letters = np.array([_L, _L], dtype=np.uint8)
    ints = np.empty(2, dtype=np.int32)
    ints[0], ints[1] = rows.shape[1], rows.shape[0]
    numbers = np.array([1.0, 0.0])
    at, letter, number = ints.ctypes.data, letters.ctypes.data, numbers.ctypes.data
    pointers = (
        letter, letter + 1, at, at + ints.itemsize, number, matrix.ctypes.data, at,
        rows.ctypes.data, at, number + numbers.itemsize, out.ctypes.data, at,
    )  # fmt: skip
    call(routines[SYMM], pointers)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def condition(routines, K, L, B, omega, gamma, z1, z2, a, alpha, whitened, t):
    """Log Z; fills the factor of B, a, alpha = P gamma, L^-1 t = z_1 + L'a, and t; nan where B fails."""
    n = omega.size
    for j in range(n):
        scale = omega[j]
        for i in range(j, n):
            B[j, i] = scale * omega[i] * K[j, i]
        B[j, j] += 1.0
    log_det = factorise_lower(routines, B)
    if not np.isfinite(log_det):
        return np.nan
    t[:] = z1
    triangular_product(routines, L, False, t)
    for i in range(n):
        a[i] = omega[i] * (gamma[i] - t[i]) - z2[i]
        alpha[i] = omega[i] * gamma[i]
    for x in (a, alpha):
        triangular_solve(routines, B, False, x)
        triangular_solve(routines, B, True, x)
        for i in range(n):
            x[i] *= omega[i]
    whitened[:] = a
    triangular_product(routines, L, True, whitened)
    for i in range(n):
        whitened[i] += z1[i]
    t[:] = whitened
    triangular_product(routines, L, False, t)
    return -0.5 * np.dot(gamma, alpha) - log_det


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pull_back(routines, L, B, omega, rho, adjoint, slope1, slope2):
    """Gradients by z_1 and z_2 of a function of t with gradient rho; and v-bar = rho - P K rho."""
    n = omega.size
    slope2[:] = rho
    triangular_product(routines, L, True, slope2)
    triangular_product(routines, L, False, slope2)
    for i in range(n):
        slope2[i] *= -omega[i]
    triangular_solve(routines, B, False, slope2)
    triangular_solve(routines, B, True, slope2)
    for i in range(n):
        adjoint[i] = rho[i] + omega[i] * slope2[i]
    slope1[:] = adjoint
    triangular_product(routines, L, True, slope1)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _rank_one_triangle(inverse, p, z, out):
    """Phi(p z') L^-1 from L^-1, Phi the lower triangle with half its diagonal: sums down each column."""
    n = p.size
    for j in range(n):
        column, given = out[j], inverse[j]
        column[:j] = 0.0
        total = 0.0
        for i in range(j, n):
            term = z[i] * given[i]
            column[i] = p[i] * (total + 0.5 * term)
            total += term


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _assemble(K, H, S, omega, alpha, a, adjoint):
    """H = K-bar o K, lower triangle, over B^-1 in ``H``; S is L^-T Phi(p z') L^-1."""
    n = omega.size
    for low in range(0, n, TILE):
        for left in range(0, low + 1, TILE):
            for j in range(left, min(left + TILE, n)):
                alpha_j, omega_j, a_j, adjoint_j = alpha[j], omega[j], a[j], adjoint[j]
                for i in range(max(low, j), min(low + TILE, n)):
                    found = alpha_j * alpha[i] - omega_j * omega[i] * H[j, i]
                    found += adjoint_j * a[i] + a_j * adjoint[i] + S[j, i] + S[i, j]
                    H[j, i] = 0.5 * found * K[j, i]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _pairwise(H, Xt, rates, slopes):
    """sum_ij H_ij rates_d (x_di - x_dj)^2 into ``slopes``; the sum of H."""
    n = H.shape[0]
    slopes[:] = 0.0
    total = 0.0
    for j in range(n):
        column = H[j, j + 1 :]
        subtotal = 0.0
        for i in range(column.size):
            subtotal += column[i]
        total += H[j, j] + 2.0 * subtotal
        for k in range(Xt.shape[0]):
            x, at, found = Xt[k, j + 1 :], Xt[k, j], 0.0
            for i in range(column.size):
                found += column[i] * (x[i] - at) * (x[i] - at)
            slopes[k] += found
    for k in range(Xt.shape[0]):
        slopes[k] *= 2.0 * rates[k]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _by_products(routines, H, rows, products, rates, slopes):
    """As `_pairwise`, for many features: 2 [sum_i x_di^2 (H 1)_i - x_d'H x_d], rows are X' and ones."""
    _symmetric_product(routines, H, rows, products)
    n, p = H.shape[0], rates.size
    sums, total = products[p], 0.0
    for i in range(n):
        total += sums[i]
    for k in range(p):
        x, image, found = rows[k], products[k], 0.0
        for i in range(n):
            found += x[i] * (x[i] * sums[i] - image[i])
        slopes[k] = 2.0 * rates[k] * found
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _isotropic(H, distances, rate, slopes):
    """As `_pairwise`, for one length scale and squared distances, lower triangle."""
    total, found = 0.0, 0.0
    for j in range(H.shape[0]):
        column, squared, subtotal = H[j, j + 1 :], distances[j, j + 1 :], 0.0
        for i in range(column.size):
            subtotal += column[i]
            found += column[i] * squared[i]
        total += H[j, j] + 2.0 * subtotal
    slopes[0] = 2.0 * rate * found
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def covariance_adjoint(routines, K, inverse, B, S, omega, alpha, a, adjoint, p, z1):
    """H = K-bar o K into ``B``, which comes as the factor of B; ``inverse`` is L^-1.

    K-bar = (alpha alpha' - P) / 2 + sym(v-bar a') + sym(L^-T Phi(p z_1') L^-1) is the derivative by K of
    log Z plus a function of t, p = L'v-bar; the last term is that of the Cholesky factor.
    """
    invert_lower(routines, B)
    in_place(routines[LAUUM], _L, B)  # B^-1
    _rank_one_triangle(inverse, p, z1, S)
    _transposed_product(routines, inverse, S)
    _assemble(K, B, S, omega, alpha, a, adjoint)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def length_slopes(routines, H, rows, products, distances, log_lengths, slopes):
    """Derivatives by log length scales, from H = K-bar o K, into ``slopes``; the sum of H.

    ``rows`` (p + 1, n) holds X' and ones; ``distances`` is used where it is not empty, ``products`` else
    where it is not empty.
    """
    rates = np.exp(-2.0 * log_lengths)
    if distances.size:
        return _isotropic(H, distances, rates[0], slopes)
    if products.size:
        return _by_products(routines, H, rows, products, rates, slopes)
    return _pairwise(H, rows[: rates.size], rates, slopes)
