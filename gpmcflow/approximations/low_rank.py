"""Likelihoods of y ~ N(0, B B' + D) with B (n, m) and D diagonal: what the low-rank stand-ins share."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.execution.digest import array_digest

LOG_2PI = np.log(2.0 * np.pi)


def low_rank_log_density(
    y: np.ndarray,
    noise: np.ndarray,
    B: np.ndarray,
    inverse_core: np.ndarray | None = None,
    core_log_det: float = 0.0,
) -> float:
    """log N(y; 0, B S B' + D), D = diag(noise) (n,), in O(n m^2).

    B is (n, m) in Fortran order and is overwritten by D^-1/2 B; ``inverse_core`` S^-1 (m, m), lower
    triangle, the identity if None, is overwritten; ``core_log_det`` is log det S. With
    G = S^-1 + B'D^-1 B: the quadratic form is y'D^-1 y - |L_G^-1 B'D^-1 y|^2, and
    log det = log det G + log det S + sum log d_i. Returns -inf where G is not positive definite.

    Source: Wang & Neal (2013), eqs. 32-38.
    """
    root = np.sqrt(noise)
    z = y / root
    B /= root[:, None]
    if inverse_core is None:
        G = blas.dsyrk(1.0, B, trans=1, lower=1)
        G[np.diag_indices_from(G)] += 1.0
    else:
        G = blas.dsyrk(1.0, B, beta=1.0, c=inverse_core, trans=1, lower=1, overwrite_c=1)
    L, info = lapack.dpotrf(G, lower=1, clean=0, overwrite_a=1)
    if info:
        return -np.inf
    v = lapack.dtrtrs(L, B.T @ z, lower=1)[0]
    log_det = 2.0 * (np.log(np.diagonal(L)).sum() + np.log(root).sum()) + core_log_det
    return float(-0.5 * (z @ z - v @ v + log_det + len(y) * LOG_2PI))


def array_text(**arrays: np.ndarray) -> str:
    """Short text that tells arrays apart, for a repr."""
    return array_digest(arrays)[:12]
