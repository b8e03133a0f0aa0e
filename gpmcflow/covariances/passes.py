"""Compiled passes over the tape of a covariance expression: values, cross covariances, and the adjoint.

A tape is a table of whole numbers, one row a node, children before parents, the root last (`Tape` builds it).
A pass goes panel by panel, a few columns of the matrix at a time: every node's values go into a flat buffer
that stays in cache, leaves as loops over flat numbers, sums and products combining buffers. The adjoint
evaluates each panel again and walks the tape backwards; so there is no n x n work array, and nothing is
compiled for a new expression.

Matrices are (column, row); of symmetric ones the lower triangle counts. Panels are rectangles: the numbers
they cover above the diagonal are overwritten.
"""

from __future__ import annotations

import numpy as np

from gpmcflow.covariances.leaf_slopes import pull_leaf
from gpmcflow.covariances.leaf_values import leaf_values, put
from gpmcflow.covariances.nodes import (
    ADJOINT,
    CODE,
    CROSS,
    DIAGONAL,
    DIRECT,
    EXTRA,
    FILL,
    GIVEN,
    JITTER,
    LEFT,
    N_COLUMNS,
    N_SCALES,
    PANEL,
    PERIODIC,
    POLYNOMIAL,
    PRODUCT,
    RATIONAL_QUADRATIC,
    RIGHT,
    ROW,
    SCALE,
    SCALED,
    SLOT,
    SUM,
)
from gpmcflow.numerics.code_cache import compiled


@compiled(fastmath={"contract"})
def _combine(product, a, b, out):
    if product:
        for i in range(out.size):
            out[i] = a[i] * b[i]
    else:
        for i in range(out.size):
            out[i] = a[i] + b[i]


@compiled(fastmath={"contract"})
def _seed(S, shift, j, w, m, out):
    """Adjoint of the root: of K_ij for i > j both triangles, nothing above the diagonal."""
    top, size = np.uint64(j), np.uint64(m)
    for c in range(w):
        k, begin = np.uint64(j + c), np.uint64(c * m)
        for i in range(size):
            out[begin + i] = 2.0 * S[k, top + i]
        for i in range(np.uint64(c)):
            out[begin + i] = 0.0
        out[c * m + c] = S[j + c, j + c] + shift


@compiled
def sweep(
    mode, table, params, wanted, Zr, Zc, source, change, old, slots, given, twins, K, jitter, shift,
    matrix, slopes,
):  # fmt: skip
    """One pass over all panels.

    FILL writes K into the lower triangle of ``matrix``, diagonals of nodes with JITTER times 1 + ``jitter``,
    and returns its trace; CROSS the covariances of all cases (rows of Zr) with those of Zc into ``matrix``
    (new case, case), without jitter; DIAGONAL the prior variances into matrix[0], with it. ADJOINT adds
    sum_ij S_ij dK_ij / d params_k to ``slopes`` for S = ``matrix`` plus ``shift`` times I, and leaves the
    adjoint of each given matrix in ``twins``.

    ``source`` says for each node where its distances come from: the inputs, its slot of ``old``, that slot
    changed by ``change`` times the squared differences of the last row of Z, or that slot over l^2. They
    are kept in ``slots``, where that is not empty.
    """
    n_nodes, n, n_columns = table.shape[0], Zr.shape[1], Zc.shape[1]
    capacity = max(PANEL, n)
    value, argument = np.empty((n_nodes, capacity)), np.empty((n_nodes, capacity))
    bars = np.empty((n_nodes, capacity) if mode == ADJOINT else (0, 0))
    owner = np.empty(n_nodes, dtype=np.int64)
    second = np.empty((n_nodes, capacity))
    n_slots = old.shape[0] if mode == ADJOINT else 0
    sums, crossed = np.zeros((n_slots, n)), np.zeros((n_slots, Zr.shape[0]))
    root, trace, j = n_nodes - 1, 0.0, 0
    while j < n_columns:
        top = 0 if mode == CROSS else j
        m = 1 if mode == DIAGONAL else n - top
        w = 1 if mode == DIAGONAL else min(max(1, PANEL // m), n_columns - j)
        size = w * m
        for k in range(n_nodes):
            if table[k, CODE] >= SUM:
                _combine(
                    table[k, CODE] == PRODUCT, value[table[k, LEFT], :size],
                    value[table[k, RIGHT], :size], value[k, :size],
                )  # fmt: skip
            else:
                leaf_values(
                    table, params, k, Zr, Zc, top, m, j, w, mode, source, change, old, slots, given,
                    K, jitter, value[k], argument[k], second[k],
                )  # fmt: skip
            if table[k, JITTER] == 1 and mode in (FILL, DIAGONAL):
                for c in range(w):
                    value[k, c * m + c] *= 1.0 + jitter
        if mode == ADJOINT:
            _seed(matrix, shift, j, w, m, bars[root])
            owner[root] = root
            for k in range(n_nodes - 1, -1, -1):
                bar = bars[owner[k], :size]
                if table[k, JITTER] == 1:
                    for c in range(w):
                        bar[c * m + c] *= 1.0 + jitter
                if table[k, CODE] == SUM:
                    # one child may use its buffer up, so the other has its own
                    left, right = table[k, LEFT], table[k, RIGHT]
                    owner[left], owner[right] = owner[k], right
                    bars[right, :size] = bar
                elif table[k, CODE] == PRODUCT:
                    left, right = table[k, LEFT], table[k, RIGHT]
                    owner[left], owner[right] = owner[k], right
                    _combine(True, bar, value[left, :size], bars[right, :size])
                    _combine(True, bar, value[right, :size], bar)
                elif table[k, CODE] == GIVEN:
                    for c in range(w):
                        twins[table[k, SLOT], j + c, j : j + m] = bar[c * m : c * m + m]
                else:
                    pull_leaf(
                        table, params, wanted, k, Zr, j, m, w, bar, value[k, :size],
                        argument[k, :size], second[k, :size], sums, crossed, slopes,
                    )  # fmt: skip
        else:
            for c in range(w):
                at, first = (0, j) if mode == DIAGONAL else (j + c, top)
                put(value[root], c * m, m, matrix, at, first)
                if mode == FILL:
                    trace += matrix[j + c, j + c]
        j += w
    if mode == ADJOINT:
        for k in range(n_nodes):
            slot, p = table[k, SLOT], table[k, N_COLUMNS]
            if slot >= 0 and table[k, CODE] < PERIODIC and table[k, N_SCALES] > 1 and p > DIRECT:
                for d in range(p):
                    z = Zr[table[k, ROW] + d]
                    total = 0.0
                    for i in range(n):
                        total += z[i] * z[i] * sums[slot, i]
                    slopes[table[k, SCALE] + d] += total - 2.0 * crossed[slot, d]
    return trace


@compiled
def prepare(table, columns, params, source, Xt, centre, Z):
    """Fill the rows of Z (rows, n) that the leaves read, from X' (p, n); O(n p).

    Stationary leaves: (x - centre) / l, unless their slot has all that is needed; linear and polynomial
    ones: x sd; periodic ones: sine, cosine and value of pi x / p; the others: codes.
    """
    n = Xt.shape[1]
    for k in range(table.shape[0]):
        code, row, first = table[k, CODE], table[k, ROW], table[k, SCALE]
        if source[k] == SCALED:
            continue
        if code == PERIODIC:
            rate = np.pi * np.exp(-params[table[k, EXTRA]])
            x = Xt[columns[row]]
            for i in range(n):
                v = rate * (x[i] - centre[columns[row]])
                Z[row, i], Z[row + 1, i], Z[row + 2, i] = np.sin(v), np.cos(v), v
            continue
        for d in range(table[k, N_COLUMNS]):
            x, middle = Xt[columns[row + d]], centre[columns[row + d]]
            place = first + (d if table[k, N_SCALES] > 1 else 0)
            if code <= RATIONAL_QUADRATIC:
                rate = np.exp(-params[place])
                for i in range(n):
                    Z[row + d, i] = rate * (x[i] - middle)
            elif code == POLYNOMIAL:
                rate = np.exp(params[place])
                for i in range(n):
                    Z[row + d, i] = rate * x[i]
            else:
                Z[row + d] = x
