"""SciPy's BLAS and LAPACK from compiled loops: one table of routines, and calls on triangles made of them.

Matrices are (column, row) arrays: their transposes are in Fortran order, and of a triangle or a symmetric
matrix only the lower triangle counts, which is ``matrix[column, row]`` for row >= column.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from gpmcflow.numerics.code_cache import compiled

_LAPACK = ("dpotrf", "dtrtri", "dlauum")
_BLAS = ("dtrsv", "dtrmv", "dtrmm", "dsyrk")
POTRF, TRTRI, LAUUM, TRSV, TRMV, TRMM, SYRK = range(7)
# Passed to the loops as an argument: what is compiled then holds no address and can be kept on disk.
ROUTINES = np.array(
    [get_cython_function_address("scipy.linalg.cython_lapack", name) for name in _LAPACK]
    + [get_cython_function_address("scipy.linalg.cython_blas", name) for name in _BLAS],
    dtype=np.int64,
)
LOWER, UPPER, LEFT, RIGHT, PLAIN, TRANSPOSED = (ord(letter) for letter in "LULRNT")
BLOCK = 32  # diagonal blocks inverted by dtrtri


@intrinsic
def call(typingctx, address, arguments):
    """Call a Fortran routine: its address, and a tuple of arguments, all passed by reference.

    An array stands for its first number. Letters and whole numbers may be wider than the routine reads:
    the low bytes come first. Returns the last argument, where that is LAPACK's info.
    """

    def codegen(context, builder, signature, args):
        byte, places = ir.IntType(8).as_pointer(), []
        for k, kind in enumerate(arguments.types):
            value = builder.extract_value(args[1], k)
            if isinstance(kind, types.Array):
                places.append(context.make_array(kind)(context, builder, value).data)
            else:
                places.append(cgutils.alloca_once_value(builder, value))
        routine = ir.FunctionType(ir.VoidType(), [byte] * len(places)).as_pointer()
        pointers = [builder.bitcast(place, byte) for place in places]
        builder.call(builder.inttoptr(args[0], routine), pointers)
        if isinstance(kind, types.Integer):
            return builder.load(places[-1])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64, arguments), codegen


@compiled
def in_place(routine, triangle, matrix):
    """Overwrite the triangle (a letter) of ``matrix`` by dpotrf or dlauum; LAPACK's info.

    Here and in `on_vector` the leading block of order m of a ``matrix`` is ``matrix[:m]``.
    """
    return call(routine, (triangle, matrix.shape[0], matrix, matrix.shape[1], 0))


@compiled
def on_vector(routine, triangle, transposed, matrix, vector):
    """T v or T'v by dtrmv, T^-1 v or T^-T v by dtrsv, in place, T a triangle (a letter) of ``matrix``."""
    letter = TRANSPOSED if transposed else PLAIN
    call(routine, (triangle, letter, PLAIN, vector.size, matrix, matrix.shape[1], vector, 1))


@compiled
def factorise(routines, triangle, matrix):
    """Cholesky factor over a triangle (a letter) of ``matrix``; log of its determinant, nan if it fails."""
    info, total = in_place(routines[POTRF], triangle, matrix), 0.0
    for j in range(matrix.shape[0]):
        total += np.log(matrix[j, j])
    return total if info == 0 else np.nan


@compiled
def factorise_lower(routines, matrix):
    """Cholesky factor over the lower triangle of ``matrix``; log of its determinant, nan if it fails."""
    return factorise(routines, LOWER, matrix)


@compiled
def factorise_copy(routines, matrix, factor):
    """Cholesky factor of ``matrix`` into ``factor``; log of its determinant, nan where it fails."""
    for j in range(matrix.shape[0]):
        factor[j, j:] = matrix[j, j:]
    return factorise_lower(routines, factor)


@compiled
def add_functions(matrix, log_det, functions):
    """Factor of L L' + V'V over L, the lower triangle of ``matrix``, for V (q, n); log of its determinant.

    ``log_det`` is log |L|, nan where there is none. By rotations of rows of V with columns of L: the QR
    decomposition of L' under V, in which large functions take no digits from L, as L L' + V'V itself would.
    """
    n = matrix.shape[0]
    if functions.shape[0] == 0 or log_det - log_det != 0.0:
        return log_det
    rows = functions.copy()
    for j in range(n):
        column = matrix[j]
        for k in range(rows.shape[0]):
            row = rows[k]
            radius = np.hypot(column[j], row[j])
            c, s = column[j] / radius, row[j] / radius
            for i in range(j, n):
                a, b = column[i], row[i]
                column[i] = c * a + s * b
                row[i] = c * b - s * a
    total = 0.0
    for j in range(n):
        total += np.log(matrix[j, j])
    return total


@compiled
def triangular_product(routines, matrix, transposed, vector):
    """L v or L'v in place."""
    on_vector(routines[TRMV], LOWER, transposed, matrix, vector)


@compiled
def triangular_solve(routines, matrix, transposed, vector):
    """L^-1 v or L^-T v in place."""
    on_vector(routines[TRSV], LOWER, transposed, matrix, vector)


@compiled
def triangular_products(routines, matrix, transposed, scale, rows):
    """scale * L v, or L'v, of each row v of ``rows`` (k, n), in place: one dtrmm."""
    letter, (k, n) = TRANSPOSED if transposed else PLAIN, rows.shape
    call(routines[TRMM], (LEFT, LOWER, letter, PLAIN, n, k, scale, matrix, n, rows, n))


@compiled
def invert_lower(routines, matrix):
    """Inverse of a lower triangle, in place.

    Diagonal blocks first, then [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1, D^-1] with A and D of twice the size
    each time: matrix products nearly throughout, which dtrtri has few of.
    """
    n = matrix.shape[0]
    for j in range(0, n, BLOCK):
        call(routines[TRTRI], (LOWER, PLAIN, min(BLOCK, n - j), matrix[j:, j:], n, 0))
    size = BLOCK
    while size < n:
        for j in range(0, n - size, 2 * size):
            k = j + size
            first, second, below = matrix[j:, j:], matrix[k:, k:], matrix[j:, k:]
            of_block = (PLAIN, PLAIN, min(size, n - k), size)
            call(routines[TRMM], (LEFT, LOWER, *of_block, 1.0, second, n, below, n))
            call(routines[TRMM], (RIGHT, LOWER, *of_block, -1.0, first, n, below, n))
        size *= 2


@compiled
def invert_factored(routines, matrix):
    """Inverse of L L' over its factor L, lower triangles; dpotri takes up to twice as long."""
    invert_lower(routines, matrix)
    in_place(routines[LAUUM], LOWER, matrix)


def lower_inverse(factor: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Return the inverse of a lower triangle (n, n), in Fortran order; what is above it counts as 0.

    ``overwrite``: over a factor in Fortran order, with what is above the triangle as it is.
    """
    columns = factor.T if overwrite else lower_columns(factor)
    invert_lower(ROUTINES, columns)
    return columns.T


def lower_columns(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangle of a matrix (n, n), 0 above, as a (column, row) array of its own."""
    columns = np.array(matrix.T, order="C")
    clear_above(columns)
    return columns


@compiled
def clear_above(matrix):
    """Overwrite what is above the diagonal by 0."""
    for j in range(matrix.shape[0]):
        for i in range(j):
            matrix[j, i] = 0.0
