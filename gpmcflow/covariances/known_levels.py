"""Terms of one column of levels whose dependence is known beforehand: areas with neighbours, pedigrees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from gpmcflow.covariances.given import GivenLeaf
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.errors import InputError

EQUAL = 1e-9  # of the largest eigenvalue: closer ones count as one
LEAST = 1e-3  # length of what is left of a unit vector, beyond which it gives a direction


def eigen_basis(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (L,) and orthonormal eigenvectors (L, L) of a symmetric matrix, the same at each call.

    Where eigenvalues are equal, as those of a symmetric map are, LAPACK's vectors are any of their space, and
    change with threads and addresses, while weights that were drawn for some are stored. Here they are the
    unit vectors in their order, projected on the space and made orthonormal; signs follow, too.
    """
    c, U = np.linalg.eigh(C)
    starts = np.flatnonzero(np.append(True, np.diff(c) > EQUAL * np.abs(c).max()))
    for first, last in zip(starts, np.append(starts[1:], len(c)), strict=True):
        c[first:last] = c[first:last].mean()
        U[:, first:last] = _ordered_basis(U[:, first:last])
    return c, U


def _ordered_basis(V: np.ndarray) -> np.ndarray:
    """Orthonormal basis (L, k) of the space of V (L, k), which depends on the space alone."""
    found = np.zeros((V.shape[1], V.shape[1]))  # coordinates in V
    n = 0
    for row in V:  # those of a unit vector's projection
        rest = row - found[:n].T @ (found[:n] @ row)
        length = np.linalg.norm(rest)
        if length > LEAST:
            rest -= found[:n].T @ (found[:n] @ rest)  # again, for the digits
            found[n] = rest / np.linalg.norm(rest)
            n += 1
            if n == len(found):
                break
    return V @ found.T


def level_name(level: Any) -> str:
    """A level's name as text, whole numbers without a point."""
    return f"{level:g}" if isinstance(level, (int, float, np.number)) else str(level)


class KnownLevels(GivenLeaf):
    """A leaf of one column, whose matrix is made of a given one between levels, ``structure``."""

    levels_allowed, n_columns = True, 1

    @abstractmethod
    def known(self) -> set[str]:
        """Names of the levels that it knows of."""

    @abstractmethod
    def structure_of(self, places: Mapping[str, int]) -> np.ndarray:
        """The given matrix (L, L) of all levels, whose places are given by name."""

    @abstractmethod
    def variances(self, c: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Eigenvalues of k / s^2 from those of the structure (L,), and their slopes by its parameters."""

    @property
    @abstractmethod
    def table_name(self) -> str:
        """The parameter with what is known."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same with other names of its levels."""

    def more_levels(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Levels that it knows of and its column does not have."""
        return tuple(sorted(self.known() - set(known)))

    def bound_to(self, inputs: Inputs, places: tuple[int, ...]) -> Self:
        """Levels by the codes of the column, and the structure."""
        name, values = inputs.names[places[0]], inputs.values[:, places[0]]
        if name in inputs.levels:
            codes = {level: float(code) for code, level in enumerate(inputs.levels[name])}
        else:
            known = sorted(self.known())
            try:
                codes = {level: float(level) for level in known}
            except ValueError:
                raise InputError(
                    f"{self.who}: column {name!r} holds numbers, {self.table_name} names such as "
                    f"{known[0]!r}; give both the same names"
                ) from None
            codes |= {f"{code:g}": code for code in np.unique(values).tolist()}
        seen = {float(code) for code in np.unique(values).tolist()}
        self.check_levels(name, [level for level, code in codes.items() if code in seen])
        bound = replace(self)
        order = np.argsort(list(codes.values()))
        structure = self.structure_of({level: place for place, level in enumerate(codes)})
        object.__setattr__(bound, "_codes", np.array(list(codes.values()))[order])
        object.__setattr__(bound, "_structure", structure[np.ix_(order, order)])
        return bound

    def check_levels(self, column: str, seen: list[str]) -> None:
        """Raise `InputError` for levels in the data that it has to know of and does not."""

    @property
    def who(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def codes(self) -> np.ndarray:
        """Codes of the levels in the column, in order (L,); of a leaf that meets inputs."""
        return self._codes  # type: ignore[attr-defined]

    @property
    def structure(self) -> np.ndarray:
        """The given matrix (L, L); of a leaf that meets inputs."""
        return self._structure  # type: ignore[attr-defined]

    @property
    def n_levels(self) -> int:
        """Number of levels, in the data or known."""
        return len(self.codes)

    def places_of(self, X: np.ndarray) -> np.ndarray:
        """Places of the levels of its column (n, 1) among `codes`, ``n_levels`` for another, (n,)."""
        places = np.searchsorted(self.codes, X[:, 0])
        unknown = self.codes[np.minimum(places, self.n_levels - 1)] != X[:, 0]
        return np.where(unknown, self.n_levels, places)

    def between(self, X: np.ndarray, X2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The structure between rows (n, 1) and (m, 1), of a new level as of an island, and [x = x']."""
        a, b = self.places_of(X), self.places_of(X2)
        same = X[:, [0]] == X2[:, 0]
        last = self.n_levels - 1
        inside = (a[:, None] <= last) & (b <= last)
        structure = self.structure[np.ix_(np.minimum(a, last), np.minimum(b, last))]
        return np.where(inside, structure, same), same

    def own_variance(self, X: np.ndarray) -> np.ndarray:
        """Diagonal of the structure at rows (n, 1), 1 for a new level, (n,)."""
        return np.append(np.diag(self.structure), 1.0)[self.places_of(X)]
