"""Factorisations that every chain of a batch needs for itself, LAPACK called from compiled loops."""

from __future__ import annotations

import numpy as np

from gpmcflow.numerics import lapack
from gpmcflow.numerics.code_cache import compiled


@compiled
def factor_case_matrices(routines, gram, root, slots, keep, factors, active, sizes, log_det):
    """Cholesky factors of B = I + D^(1/2) K D^(1/2), one for each chain, on its active rows.

    ``root`` (chain, n) is D^(1/2), ``gram`` is K (n, n). Chain p goes into ``factors[slots[p]]``, as
    the lower triangle in Fortran order. Rows with d_i K_ii below ``keep`` change nothing above
    rounding and are left out: ``active`` (slot, n) lists the others, ``sizes`` (slot,) counts them.
    ``log_det`` (chain,) receives log |B|, nan where B does not factorise.
    """
    n = gram.shape[0]
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
        log_det[p] = 2.0 * lapack.factorise_lower(routines, matrix[:m])


@compiled
def solve_case_matrices(routines, root, slots, factors, active, sizes, x, out):
    """D^(1/2) B^(-1) D^(1/2) x of each chain into ``out`` (chain, n), from `factor_case_matrices`."""
    work = np.empty(x.shape[1])
    for p in range(x.shape[0]):
        slot = slots[p]
        rows, m = active[slot], sizes[slot]
        for a in range(m):
            work[a] = root[p, rows[a]] * x[p, rows[a]]
        lapack.triangular_solve(routines, factors[slot], False, work[:m])
        lapack.triangular_solve(routines, factors[slot], True, work[:m])
        out[p] = 0.0
        for a in range(m):
            out[p, rows[a]] = root[p, rows[a]] * work[a]


@compiled
def case_inverse_diagonals(routines, slots, factors, active, sizes, out):
    """(B^(-1))_ii = |L_B^(-1) e_i|^2 of each chain into ``out`` (chain, n); 1 in inactive rows."""
    n = factors.shape[1]
    inverse = np.empty((n, n))
    for p in range(len(slots)):
        slot = slots[p]
        m = sizes[slot]
        for b in range(m):
            inverse[b, b:m] = factors[slot, b, b:m]
        lapack.call(routines[lapack.TRTRI], (lapack.LOWER, lapack.PLAIN, m, inverse, n, 0))
        out[p] = 1.0
        for b in range(m):
            total = 0.0
            for a in range(b, m):
                total += inverse[b, a] * inverse[b, a]
            out[p, active[slot, b]] = total


@compiled
def factor_coordinate_matrices(routines, design, root, slots, factors, log_det):
    """Cholesky factors of I + U' D U, one for each chain, lower triangles in Fortran order.

    ``design`` is U (n, d) in C order, ``root`` (chain, n) is D^(1/2).
    """
    n, d = design.shape
    scaled = np.empty((n, d))
    for p in range(root.shape[0]):
        for i in range(n):
            for j in range(d):
                scaled[i, j] = root[p, i] * design[i, j]
        matrix = factors[slots[p]]
        lapack.call(
            routines[lapack.SYRK],
            (lapack.LOWER, lapack.PLAIN, d, n, 1.0, scaled, d, 0.0, matrix, d),
        )
        for j in range(d):
            matrix[j, j] += 1.0
        log_det[p] = 2.0 * lapack.factorise_lower(routines, matrix)


@compiled
def solve_coordinate_matrices(routines, slots, factors, x):
    """(I + U' D U)^(-1) x of each chain, in place, from `factor_coordinate_matrices`."""
    for p in range(x.shape[0]):
        lapack.triangular_solve(routines, factors[slots[p]], False, x[p])
        lapack.triangular_solve(routines, factors[slots[p]], True, x[p])


@compiled
def coordinate_variances(routines, design, slots, factors, out):
    """(U (I + U' D U)^(-1) U')_ii = |L^(-1) u_i|^2 of each chain into ``out`` (chain, n)."""
    n, d = design.shape
    inverse = np.zeros((d, d))
    for p in range(len(slots)):
        for b in range(d):
            inverse[b, b:] = factors[slots[p], b, b:]
        lapack.call(routines[lapack.TRTRI], (lapack.LOWER, lapack.PLAIN, d, inverse, d, 0))
        image = np.dot(design, inverse)  # rows: L^(-1) u_i, the triangle being zero elsewhere
        for i in range(n):
            total = 0.0
            for j in range(d):
                total += image[i, j] * image[i, j]
            out[p, i] = total
