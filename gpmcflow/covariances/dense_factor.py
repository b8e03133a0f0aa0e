"""Factor of a covariance matrix whose hyperparameters move, K = L L', in buffers that are filled again."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from gpmcflow.covariances.tape import CovarianceBuffers, OwnJitter
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


Functions = Callable[[np.ndarray], np.ndarray]  # V (q, n) at the coordinates ``full``


class DenseFactor:
    """L of K at the coordinates ``full``, with the amplitude at place ``scale``, if there is one, taken as 1.

    K = R + V'V: R as ``rest`` fills it, V of few ``functions``, if there are any, which leave R its digits.

    ``columns`` holds L as (column, row): its transpose is in Fortran order, and only the lower triangle
    counts. ``stamp`` changes with every filling. Vectors are (n,), results are new arrays.
    """

    def __init__(
        self,
        rest: CovarianceBuffers | OwnJitter,
        scale: int | None = None,
        functions: Functions | None = None,
    ) -> None:
        self.n, self.scale = rest.tape.n_cases, scale
        self._buffers, self._functions, self.drifts = rest, functions, rest.drifts
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
        buffers: tuple = self._buffers, other._buffers  # of one kind
        buffers[0].fill_from(buffers[1], self._unit(full), before, place, self.columns)
        return self._factorise()

    def _factorise(self) -> bool:
        self.diagonal = np.diagonal(self.columns).copy()
        self.log_det, self.stamp = lapack.factorise_lower(ROUTINES, self.columns), next(stamps)
        if self._functions is not None:
            V = self._functions(self._full)
            self.diagonal += np.square(V).sum(0)
            self.log_det = lapack.add_functions(self.columns, self.log_det, V)
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


class DenseCovariance:
    """K = R + V'V, its factor and the adjoint as `JointDensity` uses them, in matrices that it owns.

    ``rest`` fills R. V (q, n) are few ``functions`` at what was filled last; ``exponents`` (q, size) are the
    slopes of the logs of their scales.
    """

    def __init__(
        self,
        rest: CovarianceBuffers | OwnJitter,
        functions: Functions | None = None,
        exponents: np.ndarray | None = None,
    ) -> None:
        self.rest, self._functions, self._exponents = rest, functions, exponents
        self.V = np.empty((0, rest.tape.n_cases))

    def fill(self, full: np.ndarray, R: np.ndarray) -> float:
        """R with its jitter into the lower triangle of ``R`` (column, row); the trace of K."""
        trace = self.rest.fill(full, R)
        if self._functions is None:
            return trace
        self.V = self._functions(full)
        return trace + float(np.square(self.V).sum())

    def factorise(self, R: np.ndarray, L: np.ndarray) -> float:
        """L of K = L L'; log |L|, nan where it fails."""
        log_det = lapack.factorise_copy(ROUTINES, R, L)
        return lapack.add_functions(L, log_det, self.V) if len(self.V) else log_det

    def invert(self, L: np.ndarray) -> None:
        """L^-1, in the place of L."""
        lapack.invert_lower(ROUTINES, L)

    def adjoint(
        self,
        full: np.ndarray,
        S: np.ndarray,
        shift: float,
        R: np.ndarray,
        squares: np.ndarray,
    ) -> np.ndarray:
        """sum_ij (S + shift I)_ij dK_ij / d full_k of all coordinates; see `CovarianceBuffers.adjoint`.

        ``squares`` are v_j' S v_j (q,), which S itself would give with few digits.
        """
        slopes = self.rest.adjoint(full, S, shift, R)
        if self._exponents is None:
            return slopes
        return slopes + self._exponents.T @ (2.0 * (squares + shift * np.square(self.V).sum(1)))
