"""The prior and its Gaussian sites in whitened form: one factorisation that every representation shares.

With Sigma = L L', W = diag(w): C = I + L'WL, whose eigenvalues are >= 1, C = U U' with U upper triangular.
Then R = (Sigma^-1 + W)^-1 = L C^-1 L' has the lower Cholesky factor L_R = L U^-T and m = R b = L u with
u = C^-1 L'b. R itself is never formed: that would cancel for large or small site variances.

Source: Murray & Adams (2010), section 3; the whitened form is ours.
"""

from __future__ import annotations

import itertools

import numpy as np

from gpmcflow.approximations.independent_sites import Sites
from gpmcflow.covariances.dense_factor import DenseFactor
from gpmcflow.covariances.kronecker import KroneckerFactor
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import ROUTINES, TRMV, TRSV, UPPER, factorise, on_vector

_stamps = itertools.count(1)


@compiled
def _reverse_factor(routines, gram, weight, out):
    """J U'J into ``out``, for C = I + weight * gram = U U' and J the reversal of order; log |U|.

    J C J = (J U'J)'(J U'J) with an upper triangular factor: an ordinary Cholesky factorisation of C seen
    from its last element. ``gram`` (column, row) counts in its lower triangle, ``out`` in its upper.
    """
    n = gram.shape[0]
    for j in range(n):
        row, column = gram[j], out[n - 1 - j]
        for i in range(n - j):
            column[i] = weight * row[n - 1 - i]
        column[n - 1 - j] += 1.0
    return factorise(routines, UPPER, out)


@compiled
def _apply(routines, factor, routine, transposed, vector, out):
    """J op(F) J v into ``out``, F the upper triangle of ``factor``, op a product or a solve."""
    n = vector.size
    work = np.empty(n)
    for i in range(n):
        work[i] = vector[n - 1 - i]
    on_vector(routines[routine], UPPER, transposed, factor, work)
    for i in range(n):
        out[i] = work[n - 1 - i]


class WhitenedFactors:
    """U of C = I + sigma^2 L_K'W L_K, in buffers filled again; ``stamp`` changes with every filling."""

    def __init__(self, n: int) -> None:
        self.columns = np.empty((n, n))
        self._gram = np.empty((n, n))
        self.log_det = np.nan  # log |U|
        self.stamp = 0

    def fill(self, factor: DenseFactor | KroneckerFactor, sd: float, sites: Sites) -> bool:
        """Factorise for L = sd * factor; False if it fails.

        With equal precisions L_K'L_K is kept from the last time L_K was filled, so that a new sd costs one
        factorisation and no product.
        """
        if sites.equal:
            gram, weight = factor.gram(), sd * sd * sites.precision[0]
        else:
            gram, weight = self._gram, 1.0
            factor.weighted_gram(sites.precision, sd, gram)
        self.log_det = _reverse_factor(ROUTINES, gram, weight, self.columns)
        self.stamp = next(_stamps)
        return bool(np.isfinite(self.log_det))

    def solve(self, v: np.ndarray) -> np.ndarray:
        """U^-1 v."""
        return self._new(TRSV, True, v)

    def solve_transposed(self, v: np.ndarray) -> np.ndarray:
        """U^-T v."""
        return self._new(TRSV, False, v)

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """U'v."""
        return self._new(TRMV, False, v)

    def dense(self) -> np.ndarray:
        """U as a matrix (n, n)."""
        return np.triu(np.triu(self.columns.T)[::-1, ::-1].T)

    def _new(self, routine: int, transposed: bool, v: np.ndarray) -> np.ndarray:
        out = np.empty(len(v))
        _apply(ROUTINES, self.columns, routine, transposed, v, out)
        return out
