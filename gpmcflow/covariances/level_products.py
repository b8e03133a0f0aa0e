"""Products of rows with numbers of their level, and sums of rows by level: ``codes`` (n,) are the levels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpmcflow.numerics.code_cache import compiled

WIDE = 8  # functions of each level from which a level's rows are one product of BLAS


@compiled(fastmath={"contract", "reassoc"})
def add_products(codes, rows, coefficients, out):
    """out_i += rows_i . coefficients_(codes_i), coefficients (levels, k)."""
    for i in range(codes.size):
        row, own, total = rows[i], coefficients[codes[i]], 0.0
        for a in range(row.size):
            total += row[a] * own[a]
        out[i] += total


@compiled(fastmath={"contract"})
def add_sums(codes, rows, v, out):
    """out_(codes_i) += v_i rows_i, out (levels, k)."""
    for i in range(codes.size):
        row, own, factor = rows[i], out[codes[i]], v[i]
        for a in range(row.size):
            own[a] += factor * row[a]


def add_outer(codes: np.ndarray, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """out_l += sum_i left_i right_i' over the rows of each level, out (levels, k, c)."""
    if left.shape[1] < WIDE:
        _add_outer(codes, left, right, out)
        return
    for level, rows in _rows_of_levels(codes, len(out)):
        out[level] += left[rows].T @ right[rows]


def products(codes: np.ndarray, rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """rows_i matrices_(codes_i) of matrices (levels, k, c), (n, c); 0 for a level that is not among them."""
    out = np.zeros((len(codes), matrices.shape[2]))
    if rows.shape[1] < WIDE:
        _products(codes, rows, np.ascontiguousarray(matrices), out)
        return out
    for level, own in _rows_of_levels(codes, len(matrices)):
        out[own] = rows[own] @ matrices[level]
    return out


def _rows_of_levels(codes: np.ndarray, n: int) -> Iterator[tuple[int, np.ndarray]]:
    """The levels below n that are among the codes, with their rows."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(n + 1))
    for level in np.flatnonzero(np.diff(ends)).tolist():
        yield level, order[ends[level] : ends[level + 1]]


@compiled
def _add_outer(codes, left, right, out):
    for i in range(codes.size):
        for a in range(left.shape[1]):
            for j in range(right.shape[1]):
                out[codes[i], a, j] += left[i, a] * right[i, j]


@compiled
def _products(codes, rows, matrices, out):
    for i in range(codes.size):
        if codes[i] < matrices.shape[0]:
            for a in range(rows.shape[1]):
                for j in range(out.shape[1]):
                    out[i, j] += rows[i, a] * matrices[codes[i], a, j]
