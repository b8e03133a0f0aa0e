"""Covariances on a grid: K = K_1 x K_2 = L L' with L = L_1 x L_2, the jitter on each axis.

Cases may come in any order, several in a cell or none: latents are then those of the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


MOST_CELLS = 4  # times the cases: with fewer in a cell there is no grid to speak of


class Grid(NamedTuple):
    """Cells n_1 x n_2, row by row, and where the cases are."""

    axes: tuple[np.ndarray, np.ndarray]  #: coordinates (n_1,) and (n_2,)
    cells: (
        np.ndarray | None
    )  #: cell of each case (n,); None where the cases are the cells, in order


def grid_of(X: np.ndarray) -> Grid:
    """The grid of the distinct coordinates of cases (n, 2).

    `InputError` for other than two columns, and where fewer than one in `MOST_CELLS` cells has a case.
    """
    if X.shape[1] != 2:
        raise InputError(
            f'Kronecker grid: {X.shape[1]} columns; allowed: 2; take structure="dense"'
        )
    axes = tuple(np.array(list(dict.fromkeys(column.tolist()))) for column in X.T)
    n, (first, second) = len(X), (len(axis) for axis in axes)
    if n == first * second:
        row = np.arange(n)
        in_order = np.column_stack([axes[0][row // second], axes[1][row % second]])
        if np.array_equal(in_order, X):
            return Grid(axes, None)
    (rows, columns), sorted_axes = _places(X)
    cells = rows * second + columns
    n_with = len(np.unique(cells))
    if first * second > MOST_CELLS * n_with:
        raise InputError(
            f"Kronecker grid: {n} cases at {first} x {second} distinct coordinates are no grid: {n_with} of "
            f"the {first * second} cells have a case; allowed: one in {MOST_CELLS} or more; take "
            'structure="dense"'
        )
    return Grid(sorted_axes, cells)


def _places(X: np.ndarray) -> tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Of each case on each axis, whose coordinates ascend: the order of the cases does not matter."""
    found = [np.unique(column, return_inverse=True) for column in X.T]
    return [places for _, places in found], (found[0][0], found[1][0])


def axis_tapes(
    covariance: Covariance,
    columns: Sequence[tuple[int, ...]],
    places: Sequence[np.ndarray],
    free: np.ndarray,
    axes: tuple[np.ndarray, np.ndarray],
) -> tuple[Tape, Tape]:
    """A tape for each axis of a product of covariances on a grid; see `Tape` for the arguments.

    A squared exponential of both columns is the product of one of each. Raises `InputError` where a factor of
    the product needs both columns.
    """
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
    """L = L_1 x L_2 for the cells of a grid, row by row; as `DenseFactor`.

    Products and solves cost O(n^1.5). The jitter stands on each axis' matrix, so that this is a slightly
    different model from the dense one. Source: Murray & Adams (2010) has no such form.
    """

    drifts = False

    def __init__(self, tapes: tuple[Tape, Tape], jitter: float, scale: int | None = None) -> None:
        self.parts = [DenseFactor(CovarianceBuffers(tape, jitter), scale) for tape in tapes]
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


class KroneckerBuffers:
    """K = K_1 x K_2 by the matrices of its axes, one of which has the amplitude, in buffers of one chain.

    `fill` and `adjoint` are those of `CovarianceBuffers`, with matrices of n x n.
    """

    def __init__(self, tapes: tuple[Tape, Tape], jitter: float) -> None:
        self.shape = tuple(tape.n_cases for tape in tapes)
        self._buffers = [CovarianceBuffers(tape, jitter) for tape in tapes]
        self._K = [np.empty((m, m)) for m in self.shape]
        self.V = np.empty((0, self.shape[0] * self.shape[1]))  #: no functions stand apart

    def fill_axes(self, full: np.ndarray) -> list[np.ndarray]:
        """K_1 and K_2, with their jitter, both triangles."""
        for buffers, K in zip(self._buffers, self._K, strict=True):
            buffers.fill(full, K)
        return [symmetric(K) for K in self._K]

    def adjoint_of_axes(self, full: np.ndarray, S: Sequence[np.ndarray]) -> np.ndarray:
        """<S_1, dK_1 / d full_k> + <S_2, dK_2 / d full_k> at what was filled last, S_a symmetric, (size,)."""
        parts = zip(self._buffers, S, self._K, strict=True)
        return sum(
            own.adjoint(full, np.ascontiguousarray(weights), 0.0, K) for own, weights, K in parts
        )

    def cross_of_axes(self, full: np.ndarray, axes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Covariances of new coordinates (m_a,) of the axes with their own, (m_a, n_a), no jitter."""
        parts = zip(self._buffers, axes, strict=True)
        return [own.cross(full, np.ascontiguousarray(new[:, None])) for own, new in parts]

    def fill(self, full: np.ndarray, K: np.ndarray) -> float:
        """K (n, n); its trace."""
        K[:] = np.kron(*self.fill_axes(full))
        return float(K.trace())

    def adjoint(
        self,
        full: np.ndarray,
        S: np.ndarray,
        shift: float = 0.0,
        K: np.ndarray | None = None,
        squares: np.ndarray | None = None,
    ) -> np.ndarray:
        """sum_ij (S + shift I)_ij dK_ij / d full_k at what was filled last, (size,); others have no use."""
        S = symmetric(S)
        S.flat[:: len(S) + 1] += shift
        S = S.reshape(*self.shape, *self.shape)
        first, second = (symmetric(K) for K in self._K)
        axes = np.einsum("ijkl,jl->ik", S, second), np.einsum("ijkl,ik->jl", S, first)
        return self.adjoint_of_axes(full, axes)
