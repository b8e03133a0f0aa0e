"""Groups whose correlation is known: species of a phylogeny, animals of a pedigree, kinship."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.covariances.known_levels import KnownLevels, level_name
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting

_ALLOWED = (
    "a square DataFrame with the levels' names in rows and columns, such as pd.DataFrame(R, names, names), "
    "or an xarray variable with them as coordinates"
)
ROUNDING = 1e-8  # of the largest entry, of what is symmetric, and of the largest eigenvalue


class Correlation:
    """A positive semidefinite matrix between named levels.

    Attributes
    ----------
    names:
        Names of the levels (L,).
    matrix:
        Values (L, L).
    """

    def __init__(self, names: tuple[str, ...], matrix: np.ndarray) -> None:
        self.names, self.matrix = names, matrix

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Correlation):
            return False
        return self.names == other.names and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.names, self.matrix.tobytes()))

    def __repr__(self) -> str:
        return f"<{len(self.names)} levels>"

    @property
    def told(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Names and lower triangle, row by row, as texts of covariances have them."""
        return self.names, tuple(self.matrix[np.tril_indices(len(self.names))].tolist())


def correlation_of(value: Any, who: str = "Group: correlation") -> Correlation:
    """The matrix of a square table, an xarray variable, or of names and a lower triangle.

    Raises `InputError` for a matrix without names, with other names in rows than in columns, that is not
    symmetric or not positive semidefinite, and for a level whose variance is not positive.
    """
    if isinstance(value, Correlation):
        return value
    if isinstance(value, xr.DataArray):
        if value.ndim != 2 or any(dim not in value.coords for dim in value.dims):
            raise InputError(f"{who} has no names of levels; allowed: {_ALLOWED}")
        rows, columns = (value[dim].values for dim in value.dims)
        value = pd.DataFrame(value.values, rows, columns)
    if isinstance(value, tuple) and len(value) == 2:
        value = _of_triangle(*value, who)
    if not isinstance(value, pd.DataFrame):
        raise InputError(f"{who} is {type(value).__name__}; allowed: {_ALLOWED}")
    names = tuple(level_name(name) for name in value.columns)
    if value.shape[0] != value.shape[1] or not names:
        raise InputError(f"{who} has shape {value.shape}; allowed: {_ALLOWED}")
    if [level_name(name) for name in value.index] != list(names):
        raise InputError(f"{who} has other names in its rows than in its columns; give the same")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{who} has {twice!r} twice; give each level once")
    try:
        R = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{who} holds other than numbers; give numbers") from None
    _check(R, names, who)
    return Correlation(names, 0.5 * (R + R.T))


def _of_triangle(names: Any, lower: Any, who: str) -> Any:
    try:
        R = np.zeros((len(names),) * 2)
        R[np.tril_indices(len(names))] = lower
    except (TypeError, ValueError):
        raise InputError(f"{who} cannot be read; allowed: names and a lower triangle") from None
    return pd.DataFrame(R + np.tril(R, -1).T, list(names), list(names))


def _check(R: np.ndarray, names: tuple[str, ...], who: str) -> None:
    wrong = np.argwhere(~np.isfinite(R))
    if wrong.size:
        i, j = wrong[0]
        raise InputError(
            f"{who} is {R[i, j]} for {names[i]!r} and {names[j]!r}; give finite numbers"
        )
    wrong = np.argwhere(np.abs(R - R.T) > ROUNDING * np.abs(R).max())
    if wrong.size:
        i, j = wrong[0]
        raise InputError(
            f"{who} is not symmetric: {R[i, j]:g} for {names[i]!r} and {names[j]!r}, {R[j, i]:g} the other "
            "way round; give (R + R.T) / 2, or correct the entry"
        )
    flat = np.flatnonzero(np.diag(R) <= 0.0)
    if flat.size:
        k = flat[0]
        raise InputError(
            f"{who} gives {names[k]!r} the variance {R[k, k]:g}; allowed: a positive number, 1 in a "
            "correlation"
        )
    values = np.linalg.eigvalsh(0.5 * (R + R.T))
    if values[0] < -ROUNDING * values[-1]:
        share = np.ceil(-100.0 * values[0] / (1.0 - values[0])) / 100.0
        raise InputError(
            f"{who} is not positive definite: its least eigenvalue is {values[0]:.3g}; allowed: 0 or more; "
            f"give {1.0 - share:g} * R + {share:g} * np.eye({len(R)}), or correct the entries"
        )


@dataclass(frozen=True, repr=False)
class CorrelatedGroup(KnownLevels):
    """What `Group` is with a ``correlation``: k = s^2 R[x, x']."""

    signal_sd: Setting | None = None
    correlation: Any = None

    term, who, table_name = "group", "Group", "correlation"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "correlation", correlation_of(self.correlation))

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"correlation": self.correlation.told}

    def __repr__(self) -> str:
        settings = {**self._settings(), "correlation": self.correlation, "columns": self.columns}
        return f"Group({', '.join(f'{key}={value!r}' for key, value in settings.items())})"

    def known(self) -> set[str]:
        """Levels of the matrix."""
        return set(self.correlation.names)

    def renamed(self, names: Mapping[str, str]) -> CorrelatedGroup:
        """The same with other names of its levels."""
        own = tuple(names[name] for name in self.correlation.names)
        return replace(self, correlation=Correlation(own, self.correlation.matrix))

    def check_levels(self, column: str, seen: list[str]) -> None:
        """Raise `InputError` for a level in the data that the matrix does not have."""
        missing = [level for level in seen if level not in self.known()]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(
                f"Group: correlation has no level {missing[0]!r}{more}, which column {column!r} has; add its "
                "row and column, or drop the rows of the data"
            )

    def structure_of(self, places: Mapping[str, int]) -> np.ndarray:
        """R (L, L)."""
        R = np.eye(len(places))
        own = [places[name] for name in self.correlation.names]
        R[np.ix_(own, own)] = self.correlation.matrix
        return R

    def variances(self, c: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """They are those of the matrix."""
        return c, []

    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """R; a level that it does not have is independent of all, with variance 1."""
        return np.asarray(self.between(X, X2)[0], dtype=np.float64)

    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """It has no parameter but the amplitude."""
        return []

    def diagonal_of(self, X: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k(x, x) / s^2, (n,)."""
        return self.own_variance(X)
