"""Products of one shared matrix with a batch of vectors, one BLAS call each."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from gpmcflow.numerics import lapack


def push_forward(factor: np.ndarray, batch: np.ndarray, triangular: bool) -> np.ndarray:
    """Rows factor @ v for every row v of the batch (..., d); factor is (n, d), result (..., n).

    A C-ordered batch is the transpose of a Fortran matrix, so that a lower triangular factor (in
    Fortran order) costs one dtrmm: n^2 flops a row, half of a general product.
    """
    return _product(factor, batch, triangular, transpose=0)


def pull_back(factor: np.ndarray, batch: np.ndarray, triangular: bool) -> np.ndarray:
    """Rows factor' @ g for every row g of the batch (..., n); the adjoint of `push_forward`."""
    return _product(factor, batch, triangular, transpose=1)


def solve(factor: np.ndarray, batch: np.ndarray, transpose: bool = False) -> np.ndarray:
    """Rows factor^{-1} v (or factor^{-T} v) for every row of the batch, factor lower triangular."""
    rows = np.array(batch, dtype=np.float64, order="C").reshape(-1, batch.shape[-1])
    out = blas.dtrsm(1.0, factor, rows.T, lower=1, trans_a=int(transpose), overwrite_b=1)
    return out.T.reshape(batch.shape)


def _product(factor: np.ndarray, batch: np.ndarray, triangular: bool, transpose: int) -> np.ndarray:
    lead = batch.shape[:-1]
    if triangular:
        rows = np.array(batch, dtype=np.float64, order="C").reshape(-1, batch.shape[-1])
        out = blas.dtrmm(1.0, factor, rows.T, lower=1, trans_a=transpose, overwrite_b=1)
        return out.T.reshape(batch.shape)
    rows = np.ascontiguousarray(batch, dtype=np.float64).reshape(-1, batch.shape[-1])
    out = blas.dgemm(1.0, factor, rows.T, trans_a=transpose)
    return out.T.reshape(*lead, -1)


def stacked_factor(functions: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Lower triangular L, in Fortran order, with L L' = V'V + F F', V (q, n), F lower triangular (n, n)."""
    columns = np.array(factor.T, order="C")
    lapack.add_functions(columns, 0.0, functions)
    return columns.T
