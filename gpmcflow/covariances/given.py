"""Covariances whose matrix NumPy computes, and gives to the tape before each pass."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Leaf


@dataclass(frozen=True, repr=False)
class GivenLeaf(Leaf):
    """A leaf that computes k / s^2 as a matrix; its amplitude s, if it has one, is the tape's concern."""

    kind = nodes.GIVEN

    @abstractmethod
    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k / s^2 of rows of its columns (n, p) and (m, p) at the coordinates of its parameters, (n, m)."""

    @abstractmethod
    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """Derivatives of k / s^2 by the coordinates of its parameters but the amplitude, (n, n) each."""

    def diagonal_of(self, X: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k(x, x) / s^2 of rows of its columns, (n,)."""
        return np.array([self.matrix(x[None], x[None], own)[0, 0] for x in X])


def _given(tape):
    """(leaf, columns, places) of the tape's given leaves, in the order of their matrices."""
    bound = zip(tape.leaves, tape.leaf_columns, tape.leaf_places, strict=True)
    return [
        (
            leaf,
            list(columns),
            np.asarray(places, dtype=np.int64)[: len(places) - leaf.has_amplitude],
        )
        for leaf, columns, places in bound
        if leaf.kind == nodes.GIVEN
    ]


def given_matrices(tape, full: np.ndarray, X: np.ndarray, X2: np.ndarray) -> np.ndarray:
    """Values between cases and new ones as (leaf, new case, case)."""
    out = np.empty((tape.n_given, len(X2), len(X)))
    for k, (leaf, columns, places) in enumerate(_given(tape)):
        out[k] = leaf.matrix(X[:, columns], X2[:, columns], full[places]).T
    return out


def given_diagonals(tape, full: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Prior variances at inputs over the amplitude's square, (leaf, 1, case)."""
    out = np.empty((tape.n_given, 1, len(X)))
    for k, (leaf, columns, places) in enumerate(_given(tape)):
        out[k, 0] = leaf.diagonal_of(X[:, columns], full[places])
    return out


def add_given_slopes(tape, full: np.ndarray, adjoints: np.ndarray, slopes: np.ndarray) -> None:
    """Contract the leaves' adjoints, whose lower triangles stand for both, with their derivatives."""
    for adjoint, (leaf, columns, places) in zip(adjoints, _given(tape), strict=True):
        if not len(places):  # nothing but an amplitude, which the pass over the tape sees to
            continue
        weight = np.triu(adjoint)  # (column, row): rows at or below the diagonal
        for place, slope in zip(places, leaf.slopes(tape.X[:, columns], full[places]), strict=True):
            slopes[place] += float((weight * slope).sum())
