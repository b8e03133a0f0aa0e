"""Factor of a covariance matrix whose hyperparameters move, K = L L', in buffers that are filled again."""

from __future__ import annotations

import itertools

import numpy as np

from gpmcflow.covariances.tape import CovarianceBuffers, Tape
from gpmcflow.numerics import lapack
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import ROUTINES

stamps = itertools.count(1)


@compiled
def weighted_gram(routines, matrix, weights, scale, out):
    """scale^2 L' diag(weights) L into the lower triangle of ``out`` (column, row), by dlauum."""
    n = weights.size
    root = np.sqrt(weights) * scale
    for j in range(n):
        for i in range(j, n):
            out[j, i] = root[i] * matrix[j, i]
    lapack.in_place(routines[lapack.LAUUM], lapack.LOWER, out)


class DenseFactor:
    """L of K at the coordinates ``full``, with the amplitude at place ``scale``, if there is one, taken as 1.

    ``columns`` holds L as (column, row): its transpose is in Fortran order, and only the lower triangle
    counts. ``stamp`` changes with every filling. Vectors are (n,), results are new arrays.
    """

    def __init__(self, tape: Tape, jitter: float, scale: int | None = None) -> None:
        self.n, self.scale = tape.n_cases, scale
        self._buffers = CovarianceBuffers(tape, jitter)
        self.drifts = self._buffers.drifts
        self.columns = np.empty((self.n, self.n))
        self.diagonal = np.empty(self.n)  #: K_ii, with jitter
        self._full = np.empty(0)
        self._gram: np.ndarray | None = None
        self._gram_stamp = self.stamp = 0
        self.log_det = np.nan

    def _unit(self, full: np.ndarray) -> np.ndarray:
        self._full = full.copy()
        if self.scale is not None:
            self._full[self.scale] = 0.0
        return self._full

    def fill(self, full: np.ndarray) -> bool:
        """Factorise, from the inputs; False if it is not positive definite."""
        self._buffers.fill(self._unit(full), self.columns)
        return self._factorise()

    def fill_from(self, other: DenseFactor, full: np.ndarray, place: int) -> bool:
        """As `fill`, where only the coordinate at ``place`` differs from ``other``'s."""
        before = other._full
        self._buffers.fill_from(other._buffers, self._unit(full), before, place, self.columns)
        return self._factorise()

    def _factorise(self) -> bool:
        self.diagonal = np.diagonal(self.columns).copy()
        self.log_det, self.stamp = lapack.factorise_lower(ROUTINES, self.columns), next(stamps)
        return self.log_det - self.log_det == 0.0  # finite

    def multiply(self, v: np.ndarray) -> np.ndarray:
        """L v."""
        out = v.copy()
        lapack.triangular_product(ROUTINES, self.columns, False, out)
        return out

    def multiply_rows(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """scale L v of each row of (k, n), in place."""
        lapack.triangular_products(ROUTINES, self.columns, False, scale, rows)
        return rows

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """L'v."""
        out = v.copy()
        lapack.triangular_product(ROUTINES, self.columns, True, out)
        return out

    def solve(self, v: np.ndarray) -> np.ndarray:
        """L^-1 v."""
        out = v.copy()
        lapack.triangular_solve(ROUTINES, self.columns, False, out)
        return out

    def dense(self) -> np.ndarray:
        """L as a matrix (n, n), zero above the diagonal."""
        return np.tril(self.columns.T)

    def weighted_gram(self, weights: np.ndarray, scale: float, out: np.ndarray) -> None:
        """scale^2 L' diag(weights) L into the lower triangle of ``out`` (column, row)."""
        weighted_gram(ROUTINES, self.columns, weights, scale, out)

    def gram(self) -> np.ndarray:
        """L'L (column, row), lower triangle; kept until the next filling."""
        if self._gram_stamp != self.stamp:
            if self._gram is None:
                self._gram = np.empty((self.n, self.n))
            self.weighted_gram(np.ones(self.n), 1.0, self._gram)
            self._gram_stamp = self.stamp
        return self._gram


class DenseCovariance(CovarianceBuffers):
    """K, its factor and the adjoint as `JointDensity` uses them, in matrices that it owns."""

    def factorise(self, K: np.ndarray, L: np.ndarray) -> float:
        """L of K = L L'; log |L|, nan where it fails."""
        return lapack.factorise_copy(ROUTINES, K, L)

    def invert(self, L: np.ndarray) -> None:
        """L^-1, in the place of L."""
        lapack.invert_lower(ROUTINES, L)
