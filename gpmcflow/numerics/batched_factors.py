"""Factorisations that every chain of a batch needs for itself, LAPACK called from compiled loops."""

from __future__ import annotations

import numba
import numpy as np

from gpmcflow.numerics.lapack import LOWER, PLAIN, POTRF, SYRK, TRANSPOSED, TRSV, TRTRI, call


@numba.njit(error_model="numpy", nogil=True, cache=True)
def factor_case_matrices(routines, gram, root, slots, keep, factors, active, sizes, log_det):
    """Cholesky factors of B = I + D^(1/2) K D^(1/2), one for each chain, on its active rows.

    ``root`` (chain, n) is D^(1/2), ``gram`` is K (n, n). Chain p goes into ``factors[slots[p]]``, as
    the lower triangle in Fortran order. Rows with d_i K_ii below ``keep`` change nothing above
    rounding and are left out: ``active`` (slot, n) lists the others, ``sizes`` (slot,) counts them.
    ``log_det`` (chain,) receives log |B|, nan where B does not factorise.
    """
    n = gram.shape[0]
    letters = np.array([LOWER], dtype=np.uint8)
    ints = np.zeros(3, dtype=np.int32)  # order, leading dimension, info
    ints[1] = n
    size = ints.itemsize
    for p in range(root.shape[0]):
        slot = slots[p]
        m = 0
        for i in range(n):
            if not root[p, i] * root[p, i] * gram[i, i] < keep:  # nan stays, and fails below
                active[slot, m] = i
                m += 1
        sizes[slot] = m
        rows = active[slot]
        matrix = factors[slot]
        for b in range(m):
            j = rows[b]
            scale = root[p, j]
            for a in range(b, m):
                i = rows[a]
                matrix[b, a] = scale * root[p, i] * gram[j, i]
            matrix[b, b] += 1.0
        ints[0] = m
        at = ints.ctypes.data
        pointers = (letters.ctypes.data, at, matrix.ctypes.data, at + size, at + 2 * size)
        call(routines[POTRF], pointers)
        total = 0.0
        for a in range(m):
            total += np.log(matrix[a, a])
        log_det[p] = 2.0 * total if ints[2] == 0 else np.nan


@numba.njit(error_model="numpy", nogil=True, cache=True)
def solve_case_matrices(routines, root, slots, factors, active, sizes, x, out):
    """D^(1/2) B^(-1) D^(1/2) x of each chain into ``out`` (chain, n), from `factor_case_matrices`."""
    n = x.shape[1]
    letters = np.array([LOWER, PLAIN, TRANSPOSED], dtype=np.uint8)
    ints = np.ones(3, dtype=np.int32)  # order, leading dimension, increment
    ints[1] = factors.shape[2]
    size = ints.itemsize
    work = np.empty(n)
    for p in range(x.shape[0]):
        slot = slots[p]
        rows, m = active[slot], sizes[slot]
        for a in range(m):
            work[a] = root[p, rows[a]] * x[p, rows[a]]
        ints[0] = m
        at, letter = ints.ctypes.data, letters.ctypes.data
        matrix = factors[slot].ctypes.data
        v, lda, inc = work.ctypes.data, at + size, at + 2 * size
        call(routines[TRSV], (letter, letter + 1, letter + 1, at, matrix, lda, v, inc))
        call(routines[TRSV], (letter, letter + 2, letter + 1, at, matrix, lda, v, inc))
        out[p] = 0.0
        for a in range(m):
            out[p, rows[a]] = root[p, rows[a]] * work[a]


@numba.njit(error_model="numpy", nogil=True, cache=True)
def case_inverse_diagonals(routines, slots, factors, active, sizes, out):
    """(B^(-1))_ii = |L_B^(-1) e_i|^2 of each chain into ``out`` (chain, n); 1 in inactive rows."""
    n = factors.shape[1]
    letters = np.array([LOWER, PLAIN], dtype=np.uint8)
    ints = np.zeros(3, dtype=np.int32)
    ints[1] = n
    size = ints.itemsize
    inverse = np.empty((n, n))
    for p in range(len(slots)):
        slot = slots[p]
        m = sizes[slot]
        for b in range(m):
            inverse[b, b:m] = factors[slot, b, b:m]
        ints[0] = m
        at, letter = ints.ctypes.data, letters.ctypes.data
        pointers = (letter, letter + 1, at, inverse.ctypes.data, at + size, at + 2 * size)
        call(routines[TRTRI], pointers)
        out[p] = 1.0
        for b in range(m):
            total = 0.0
            for a in range(b, m):
                total += inverse[b, a] * inverse[b, a]
            out[p, active[slot, b]] = total


@numba.njit(error_model="numpy", nogil=True, cache=True)
def factor_coordinate_matrices(routines, design, root, slots, factors, log_det):
    """Cholesky factors of I + U' D U, one for each chain, lower triangles in Fortran order.

    ``design`` is U (n, d) in C order, ``root`` (chain, n) is D^(1/2).
    """
    n, d = design.shape
    letters = np.array([LOWER, PLAIN], dtype=np.uint8)
    ints = np.zeros(4, dtype=np.int32)  # order, inner dimension, leading dimension, info
    ints[0], ints[1], ints[2] = d, n, d
    numbers = np.array([1.0, 0.0])
    scaled = np.empty((n, d))
    size = ints.itemsize
    for p in range(root.shape[0]):
        for i in range(n):
            for j in range(d):
                scaled[i, j] = root[p, i] * design[i, j]
        matrix = factors[slots[p]]
        at, letter, number = ints.ctypes.data, letters.ctypes.data, numbers.ctypes.data
        pointers = (
            letter, letter + 1, at, at + size, number, scaled.ctypes.data, at + 2 * size,
            number + numbers.itemsize, matrix.ctypes.data, at + 2 * size,
        )  # fmt: skip
        call(routines[SYRK], pointers)
        for j in range(d):
            matrix[j, j] += 1.0
        call(routines[POTRF], (letter, at, matrix.ctypes.data, at + 2 * size, at + 3 * size))
        total = 0.0
        for j in range(d):
            total += np.log(matrix[j, j])
        log_det[p] = 2.0 * total if ints[3] == 0 else np.nan


@numba.njit(error_model="numpy", nogil=True, cache=True)
def solve_coordinate_matrices(routines, slots, factors, x):
    """(I + U' D U)^(-1) x of each chain, in place, from `factor_coordinate_matrices`."""
    letters = np.array([LOWER, PLAIN, TRANSPOSED], dtype=np.uint8)
    ints = np.ones(2, dtype=np.int32)
    ints[0] = x.shape[1]
    for p in range(x.shape[0]):
        at, letter = ints.ctypes.data, letters.ctypes.data
        matrix, v, inc = factors[slots[p]].ctypes.data, x[p].ctypes.data, at + ints.itemsize
        call(routines[TRSV], (letter, letter + 1, letter + 1, at, matrix, at, v, inc))
        call(routines[TRSV], (letter, letter + 2, letter + 1, at, matrix, at, v, inc))


@numba.njit(error_model="numpy", nogil=True, cache=True)
def coordinate_variances(routines, design, slots, factors, out):
    """(U (I + U' D U)^(-1) U')_ii = |L^(-1) u_i|^2 of each chain into ``out`` (chain, n)."""
    n, d = design.shape
    letters = np.array([LOWER, PLAIN], dtype=np.uint8)
    ints = np.zeros(2, dtype=np.int32)
    ints[0] = d
    inverse = np.zeros((d, d))
    for p in range(len(slots)):
        for b in range(d):
            inverse[b, b:] = factors[slots[p], b, b:]
        at, letter = ints.ctypes.data, letters.ctypes.data
        pointers = (letter, letter + 1, at, inverse.ctypes.data, at, at + ints.itemsize)
        call(routines[TRTRI], pointers)
        image = np.dot(design, inverse)  # rows: L^(-1) u_i, the triangle being zero elsewhere
        for i in range(n):
            total = 0.0
            for j in range(d):
                total += image[i, j] * image[i, j]
            out[p, i] = total
