"""Covariances on a grid: K = K_1 x K_2 = L L' with L = L_1 x L_2, the jitter on each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from scipy.linalg import blas

from gpmcflow.covariances.dense_factor import DenseFactor, stamps
from gpmcflow.covariances.expressions import Covariance, Product
from gpmcflow.covariances.leaves import SquaredExponential, White
from gpmcflow.covariances.tape import CovarianceBuffers, Tape, symmetric
from gpmcflow.errors import InputError


@dataclass(frozen=True, repr=False)
class _UnitSquaredExponential(SquaredExponential):
    """The factor of a squared exponential that leaves the amplitude to another axis."""

    has_amplitude = False


def grid_axes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the axes of a grid whose cases come row by row; `InputError` if X is no such grid."""
    if X.shape[1] != 2:
        raise InputError(
            f'Kronecker grid: {X.shape[1]} columns; allowed: 2; take structure="dense"'
        )
    first = list(dict.fromkeys(X[:, 0].tolist()))
    second = list(dict.fromkeys(X[:, 1].tolist()))
    axes = np.array(first), np.array(second)
    expected = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    if expected.shape != X.shape:
        raise InputError(
            f"Kronecker grid: {len(X)} cases at {len(first)} x {len(second)} distinct coordinates are no "
            'grid; give one case at each of them, or take structure="dense"'
        )
    wrong = np.flatnonzero(np.any(expected != X, axis=1))
    if wrong.size:
        raise InputError(
            f"Kronecker grid: case {wrong[0]} is at {X[wrong[0]].tolist()}, a grid row by row has "
            f'{expected[wrong[0]].tolist()} there; sort the cases, or take structure="dense"'
        )
    return axes


def axis_tapes(
    covariance: Covariance,
    columns: Sequence[tuple[int, ...]],
    places: Sequence[np.ndarray],
    free: np.ndarray,
    X: np.ndarray,
) -> tuple[Tape, Tape]:
    """A tape for each axis of a product of covariances on a grid; see `Tape` for the arguments.

    A squared exponential of both columns is the product of one of each. Raises `InputError` where the cases
    are no grid, or a factor of the product needs both columns.
    """
    axes = grid_axes(X)
    factors = covariance.operands() if isinstance(covariance, Product) else [covariance]
    bound = iter(zip(columns, places, strict=True))
    parts: tuple[list, list] = ([], [])
    for factor in factors:
        own = [next(bound) for _ in factor.leaves()]
        used = {column for leaf_columns, _ in own for column in leaf_columns}
        if any(isinstance(leaf, White) for leaf in factor.leaves()):
            raise InputError('Kronecker grid: white noise is no product; take structure="dense"')
        if len(used) < 2:
            parts[used.pop() if used else 0].append((factor, own))
        elif isinstance(factor, SquaredExponential):
            (leaf_columns, leaf_places) = own[0]
            for k, column in enumerate(leaf_columns):
                scale = leaf_places[k : k + 1] if len(leaf_places) > 2 else leaf_places[:1]
                amplitude = leaf_places[-1:] if k == 0 else leaf_places[:0]
                leaf = SquaredExponential() if k == 0 else _UnitSquaredExponential()
                parts[column].append((leaf, [((0,), np.concatenate([scale, amplitude]))]))
        else:
            raise InputError(
                f"Kronecker grid: {factor} needs both columns; give a product of covariances of one column "
                'each, or take structure="dense"'
            )
    if not all(parts):
        raise InputError('Kronecker grid: a column is in no covariance; take structure="dense"')
    return tuple(_axis_tape(part, free, axis) for part, axis in zip(parts, axes, strict=True))


def _axis_tape(part: list, free: np.ndarray, axis: np.ndarray) -> Tape:
    covariance, bound = part[0]
    for factor, more in part[1:]:
        covariance, bound = Product(covariance, factor), bound + more
    columns = [tuple(0 for _ in leaf_columns) for leaf_columns, _ in bound]
    return Tape(covariance, columns, [places for _, places in bound], free, axis[:, None])


class KroneckerFactor:
    """L = L_1 x L_2 for cases on a grid, row by row; as `DenseFactor`.

    Products and solves cost O(n^1.5). The jitter stands on each axis' matrix, so that this is a slightly
    different model from the dense one. Source: Murray & Adams (2010) has no such form.
    """

    drifts = False

    def __init__(self, tapes: tuple[Tape, Tape], jitter: float, scale: int | None = None) -> None:
        self.parts = [DenseFactor(tape, jitter, scale) for tape in tapes]
        self.shape = tuple(tape.n_cases for tape in tapes)
        self.n, self.scale = self.shape[0] * self.shape[1], scale
        self._dense = [np.zeros((m, m)) for m in self.shape]
        self.diagonal = np.empty(self.n)
        self._gram: np.ndarray | None = None
        self._gram_stamp = self.stamp = 0
        self.log_det = np.nan

    def fill(self, full: np.ndarray) -> bool:
        """Factorise both axes; False if one is not positive definite."""
        sound = [part.fill(full) for part in self.parts]
        self._dense = [part.dense() for part in self.parts]
        self.diagonal = np.outer(*(part.diagonal for part in self.parts)).ravel()
        first, second = self.shape
        self.log_det = second * self.parts[0].log_det + first * self.parts[1].log_det
        self.stamp = next(stamps)
        return all(sound)

    def fill_from(self, other: KroneckerFactor, full: np.ndarray, place: int) -> bool:
        """As `fill`: two small factorisations cost next to nothing."""
        return self.fill(full)

    def multiply(self, v: np.ndarray) -> np.ndarray:
        """L v."""
        first, second = self._dense
        return (first @ v.reshape(self.shape) @ second.T).ravel()

    def multiply_rows(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """scale L v of each row of (k, n), in place."""
        first, second = self._dense
        rows[:] = (scale * (first @ rows.reshape(-1, *self.shape) @ second.T)).reshape(rows.shape)
        return rows

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """L'v."""
        first, second = self._dense
        return (first.T @ v.reshape(self.shape) @ second).ravel()

    def solve(self, v: np.ndarray) -> np.ndarray:
        """L^-1 v."""
        first, second = self._dense
        left = blas.dtrsm(1.0, first.T, v.reshape(self.shape), lower=0, trans_a=1)
        return np.ascontiguousarray(blas.dtrsm(1.0, second.T, left, side=1, lower=0)).ravel()

    def dense(self) -> np.ndarray:
        """L as a matrix (n, n)."""
        return np.kron(*self._dense)

    def weighted_gram(self, weights: np.ndarray, scale: float, out: np.ndarray) -> None:
        """scale^2 L' diag(weights) L: P_1' W P_2 rearranged, P_a the products L_a[i, p] L_a[i, q]."""
        products = [np.einsum("ip,iq->ipq", L, L).reshape(len(L), -1) for L in self._dense]
        gram = products[0].T @ (scale**2 * weights.reshape(self.shape)) @ products[1]
        first, second = self.shape
        out.reshape(first, second, first, second)[:] = gram.reshape(
            first, first, second, second
        ).transpose(0, 2, 1, 3)

    def gram(self) -> np.ndarray:
        """L'L; kept until the next filling."""
        if self._gram_stamp != self.stamp:
            self._gram = np.kron(*(L.T @ L for L in self._dense))
            self._gram_stamp = self.stamp
        return self._gram


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_kronecker(first, second, out):
    """first x second, of lower triangles or symmetric matrices (column, row), lower triangle."""
    m = second.shape[0]
    for j1 in range(first.shape[0]):
        for j2 in range(m):
            column = out[j1 * m + j2]
            for i1 in range(j1, first.shape[0]):
                for i2 in range(m):
                    column[i1 * m + i2] = first[j1, i1] * second[j2, i2]


class KroneckerCovariance:
    """As `DenseCovariance`: K dense, its factor and inverse made of those of the axes."""

    def __init__(self, tapes: tuple[Tape, Tape], jitter: float) -> None:
        self._buffers = [CovarianceBuffers(tape, jitter) for tape in tapes]
        self._K = [np.empty((tape.n_cases, tape.n_cases)) for tape in tapes]
        self._L = [np.empty_like(K) for K in self._K]

    def fill(self, full: np.ndarray, K: np.ndarray) -> float:
        """K into its lower triangle (column, row); its trace."""
        traces = [work.fill(full, axis) for work, axis in zip(self._buffers, self._K, strict=True)]
        for axis in self._K:
            axis[:] = symmetric(axis)
        fill_kronecker(*self._K, K)
        return traces[0] * traces[1]

    def factorise(self, K: np.ndarray, L: np.ndarray) -> float:
        """L of K = L L'; log |L|, nan where it fails."""
        try:
            factors = [np.linalg.cholesky(axis) for axis in self._K]
        except np.linalg.LinAlgError:
            return np.nan
        self._L = [np.ascontiguousarray(factor.T) for factor in factors]
        fill_kronecker(*self._L, L)
        logs = [float(np.log(np.diagonal(factor)).sum()) for factor in factors]
        return len(factors[1]) * logs[0] + len(factors[0]) * logs[1]

    def invert(self, L: np.ndarray) -> None:
        """L^-1, in the place of L."""
        fill_kronecker(*(np.triu(np.linalg.inv(factor)) for factor in self._L), L)

    def adjoint(
        self, full: np.ndarray, S: np.ndarray, shift: float = 0.0, K: np.ndarray | None = None
    ) -> np.ndarray:
        """sum_ij (S + shift I)_ij dK_ij / d full_k at what was filled last, (size,); K has no use."""
        first, second = self._K
        S = symmetric(S)
        S.flat[:: len(S) + 1] += shift
        S = S.reshape(len(first), len(second), len(first), len(second))
        by_first = np.einsum("ijkl,jl->ik", S, second)
        by_second = np.einsum("ijkl,ik->jl", S, first)
        pairs = zip(self._buffers, (by_first, by_second), strict=True)
        return sum(work.adjoint(full, np.ascontiguousarray(each)) for work, each in pairs)
