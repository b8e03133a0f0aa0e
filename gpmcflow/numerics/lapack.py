"""SciPy's BLAS and LAPACK from compiled loops: one table of routines, and calls on triangles made of them.

Matrices are (column, row) arrays: their transposes are in Fortran order, and of a triangle or a symmetric
matrix only the lower triangle counts, which is ``matrix[column, row]`` for row >= column.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

_LAPACK = ("dpotrf", "dpotri", "dtrtri", "dlauum")
_BLAS = ("dtrsv", "dtrmv", "dtrmm", "dsyrk")
POTRF, POTRI, TRTRI, LAUUM, TRSV, TRMV, TRMM, SYRK = range(8)
# Passed to the loops as an argument: what is compiled then holds no address and can be kept on disk.
ROUTINES = np.array(
    [get_cython_function_address("scipy.linalg.cython_lapack", name) for name in _LAPACK]
    + [get_cython_function_address("scipy.linalg.cython_blas", name) for name in _BLAS],
    dtype=np.int64,
)
LOWER, UPPER, LEFT, RIGHT, PLAIN, TRANSPOSED = (ord(letter) for letter in "LULRNT")
BLOCK = 32  # diagonal blocks inverted by dtrtri


@intrinsic
def call(typingctx, address, pointers):
    """Call a Fortran routine: its address, and a tuple with the address of each argument."""
    count = pointers.count

    def codegen(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        routine = ir.FunctionType(ir.VoidType(), [byte] * count).as_pointer()
        given = [builder.inttoptr(builder.extract_value(args[1], k), byte) for k in range(count)]
        builder.call(builder.inttoptr(args[0], routine), given)
        return context.get_dummy_value()

    return types.void(types.int64, pointers), codegen


@numba.njit(cache=True, nogil=True, error_model="numpy")
def in_place(routine, triangle, matrix):
    """Overwrite the triangle (a letter) of ``matrix`` by dpotrf, dpotri or dlauum; LAPACK's info."""
    letters = np.array([triangle], dtype=np.uint8)
    ints = np.zeros(2, dtype=np.int32)
    ints[0] = matrix.shape[0]
    at = ints.ctypes.data
    call(routine, (letters.ctypes.data, at, matrix.ctypes.data, at, at + ints.itemsize))
    return ints[1]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def on_vector(routine, triangle, transposed, matrix, vector):
    """T v or T'v by dtrmv, T^-1 v or T^-T v by dtrsv, in place, T a triangle (a letter) of ``matrix``."""
    letters = np.array([triangle, TRANSPOSED if transposed else PLAIN, PLAIN], dtype=np.uint8)
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
    """Cholesky factor over a triangle (a letter) of ``matrix``; log of its determinant, nan if it fails."""
    info, total = in_place(routines[POTRF], triangle, matrix), 0.0
    for j in range(matrix.shape[0]):
        total += np.log(matrix[j, j])
    return total if info == 0 else np.nan


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factorise_lower(routines, matrix):
    """Cholesky factor over the lower triangle of ``matrix``; log of its determinant, nan if it fails."""
    return factorise(routines, LOWER, matrix)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def factorise_copy(routines, matrix, factor):
    """Cholesky factor of ``matrix`` into ``factor``; log of its determinant, nan where it fails."""
    for j in range(matrix.shape[0]):
        factor[j, j:] = matrix[j, j:]
    return factorise_lower(routines, factor)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_product(routines, matrix, transposed, vector):
    """L v or L'v in place."""
    on_vector(routines[TRMV], LOWER, transposed, matrix, vector)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_solve(routines, matrix, transposed, vector):
    """L^-1 v or L^-T v in place."""
    on_vector(routines[TRSV], LOWER, transposed, matrix, vector)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def triangular_products(routines, matrix, transposed, scale, rows):
    """scale * L v, or L'v, of each row v of ``rows`` (k, n), in place: one dtrmm."""
    letters = np.array([LEFT, LOWER, TRANSPOSED if transposed else PLAIN, PLAIN], dtype=np.uint8)
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
def invert_lower(routines, matrix):
    """Inverse of a lower triangle, in place.

    Diagonal blocks first, then [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1, D^-1] with A and D of twice the size
    each time: matrix products nearly throughout, which dtrtri has few of.
    """
    n = matrix.shape[0]
    letters = np.array([LEFT, RIGHT, LOWER, PLAIN], dtype=np.uint8)
    ints = np.zeros(4, dtype=np.int32)  # leading dimension, rows, columns, info
    ints[0] = n
    numbers = np.array([1.0, -1.0])
    left, at, one = letters.ctypes.data, ints.ctypes.data, numbers.ctypes.data
    right, lower, plain = left + 1, left + 2, left + 3
    rows, columns, info = at + ints.itemsize, at + 2 * ints.itemsize, at + 3 * ints.itemsize
    data, word = matrix.ctypes.data, matrix.itemsize
    for j in range(0, n, BLOCK):
        ints[1] = min(BLOCK, n - j)
        corner = data + word * j * (n + 1)
        call(routines[TRTRI], (lower, plain, rows, corner, at, info))
    size = BLOCK
    while size < n:
        for j in range(0, n - size, 2 * size):
            ints[1], ints[2] = min(size, n - j - size), size
            first = data + word * j * (n + 1)
            second = first + word * size * (n + 1)
            below = first + word * size
            call(
                routines[TRMM],
                (left, lower, plain, plain, rows, columns, one, second, at, below, at),
            )
            call(
                routines[TRMM],
                (right, lower, plain, plain, rows, columns, one + word, first, at, below, at),
            )
        size *= 2
