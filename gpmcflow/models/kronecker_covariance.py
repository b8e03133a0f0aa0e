"""Factor of a GP prior on a grid: (K_1 + eps I) x (K_2 + eps I) = L L' with L = L_1 x L_2."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from gpmcflow.errors import InputError
from gpmcflow.models.joint_covariance import DenseFactor, stamps


class KroneckerFactor:
    """L = L_1 x L_2 of (K_1 + eps I) x (K_2 + eps I) for cases on a grid, row by row; as `DenseFactor`.

    Products and solves cost O(n^1.5). The jitter stands on each axis' matrix, so that this is a
    slightly different model from K + eps I. Source: Murray & Adams (2010) has no such form.
    """

    def __init__(self, axes: tuple[np.ndarray, np.ndarray], isotropic: bool, jitter: float) -> None:
        self.parts = [DenseFactor(axis[:, None], False, jitter) for axis in axes]
        self.shape = tuple(len(axis) for axis in axes)
        self.n, self.jitter, self.isotropic = self.shape[0] * self.shape[1], jitter, isotropic
        self._dense = [np.zeros((m, m)) for m in self.shape]
        self._gram: np.ndarray | None = None
        self._gram_stamp = self.stamp = 0
        self.log_det = np.nan

    def fill(self, log_lengths: np.ndarray) -> bool:
        """Factorise both axes; False if one is not positive definite."""
        lengths = np.broadcast_to(log_lengths, (2,))
        sound = [part.fill(lengths[a : a + 1]) for a, part in enumerate(self.parts)]
        self._dense = [part.dense() for part in self.parts]
        first, second = self.shape
        self.log_det = second * self.parts[0].log_det + first * self.parts[1].log_det
        self.stamp = next(stamps)
        return all(sound)

    def fill_from(self, other: KroneckerFactor, log_lengths: np.ndarray, coordinate: int) -> bool:
        """As `fill`: two small factorisations cost next to nothing."""
        return self.fill(log_lengths)

    @property
    def diagonal(self) -> float:
        """(1 + eps)^2."""
        return (1.0 + self.jitter) ** 2

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
        found = products[0].T @ (scale**2 * weights.reshape(self.shape)) @ products[1]
        first, second = self.shape
        out.reshape(first, second, first, second)[:] = found.reshape(
            first, first, second, second
        ).transpose(0, 2, 1, 3)

    def gram(self) -> np.ndarray:
        """L'L; kept until the next filling."""
        if self._gram_stamp != self.stamp:
            self._gram = np.kron(*(L.T @ L for L in self._dense))
            self._gram_stamp = self.stamp
        return self._gram


def grid_axes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the axes of a grid whose cases come row by row; `InputError` if X is no such grid."""
    if X.shape[1] != 2:
        raise InputError(
            f"Kronecker grid: found {X.shape[1]} features; allowed: 2; take kronecker=False"
        )
    first = list(dict.fromkeys(X[:, 0].tolist()))
    second = list(dict.fromkeys(X[:, 1].tolist()))
    axes = np.array(first), np.array(second)
    expected = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    if expected.shape != X.shape:
        raise InputError(
            f"Kronecker grid: {len(X)} cases at {len(first)} x {len(second)} distinct coordinates are no "
            "grid; give one case at each of them, or take kronecker=False"
        )
    wrong = np.flatnonzero(np.any(expected != X, axis=1))
    if wrong.size:
        raise InputError(
            f"Kronecker grid: case {wrong[0]} is at {X[wrong[0]].tolist()}, a grid row by row has "
            f"{expected[wrong[0]].tolist()} there; sort the cases, or take kronecker=False"
        )
    return axes
