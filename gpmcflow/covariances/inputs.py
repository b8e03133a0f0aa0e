"""Inputs as covariances see them: numbers, names of columns, levels of columns with words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.errors import InputError, unknown_name


class Inputs(NamedTuple):
    """n cases of p columns."""

    values: np.ndarray  #: (n, p); codes 0, 1, .. in columns of words
    names: tuple[str, ...]  #: (p,)
    levels: dict[
        str, tuple[str, ...]
    ]  #: words of each column that has them, in the order of their codes

    @property
    def numeric(self) -> tuple[int, ...]:
        """Places of the columns that hold numbers."""
        return tuple(k for k, name in enumerate(self.names) if name not in self.levels)

    def place(self, column: str | int, where: str) -> int:
        """Place of a column by its name or place; `InputError` with the nearest name."""
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if -len(self.names) <= column < len(self.names):
                return int(column) % len(self.names)
            raise InputError(
                f"{where}: column {column}; allowed: 0 to {len(self.names) - 1}, or a name"
            )
        if column not in self.names:
            raise unknown_name(f"{where}: column", str(column), self.names)
        return self.names.index(column)


def inputs_of(X: Any) -> Inputs:
    """Inputs of an array (n, p) or (n,), a DataFrame, or an xarray variable with a feature coordinate.

    Columns of an array are x1, x2, ... Raises `InputError` for other than finite numbers in columns of
    numbers, and for missing words.
    """
    if isinstance(X, Inputs):
        return X
    if isinstance(X, pd.Series):
        X = X.to_frame()
    if isinstance(X, pd.DataFrame):
        names = tuple(str(name) for name in X.columns)
        columns, levels = [], {}
        for k, name in enumerate(names):
            column = X.iloc[:, k]
            require_plain(f"X: column {name!r}", column)
            if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
                columns.append(column.to_numpy(dtype=np.float64))
                continue
            if column.isna().any():
                row = int(np.flatnonzero(column.isna())[0])
                raise InputError(
                    f"X: column {name!r}, row {row} is missing; drop the row, or fill it in"
                )
            words = column.astype(str)
            levels[name] = tuple(sorted(words.unique()))
            codes = {word: float(code) for code, word in enumerate(levels[name])}
            columns.append(words.map(codes).to_numpy(dtype=np.float64))
        values = np.column_stack(columns) if columns else np.empty((len(X), 0))
    else:
        names, levels = None, {}
        if isinstance(X, xr.DataArray):
            dim = X.dims[-1]
            if X.ndim == 2 and dim in X.coords:
                names = tuple(str(name) for name in X[dim].values)
            X = X.values
        require_plain("X", X)
        try:
            values = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "X: an array of other than numbers; give a DataFrame for columns with words"
            ) from None
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2:
            raise InputError(f"X has shape {values.shape}; allowed: (n, p) or (n,)")
        names = names or tuple(f"x{k + 1}" for k in range(values.shape[1]))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"X: two columns are named {twice!r}; rename one")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, k = (int(i) for i in wrong[0])
        raise InputError(
            f"X: column {names[k]!r}, row {row} is {values[row, k]}; give finite numbers, or drop the row"
        )
    return Inputs(np.array(values, order="C"), names, levels)


def require_plain(name: str, values: Any) -> None:
    """Raise `InputError` for dates, complex numbers and masked values, which float64 would hide."""
    if np.ma.is_masked(values):
        where = np.argwhere(np.ma.getmaskarray(values))[0]
        raise InputError(f"{name}{[int(i) for i in where]} is masked; drop the row, or fill it in")
    values = values if hasattr(values, "dtype") else np.asarray(values)
    dates = pd.api.types.is_datetime64_any_dtype(values)
    if dates or pd.api.types.is_timedelta64_dtype(values):
        raise InputError(f"{name} holds dates; convert it to a number, such as days")
    if pd.api.types.is_complex_dtype(values):
        raise InputError(f"{name} holds complex numbers; give real ones")


def new_inputs(
    X: Any, like: Inputs, kinds: Mapping[str, set[str]], unseen: str = "error"
) -> Inputs:
    """New inputs with the columns and codes of those a model was made with.

    ``kinds`` holds the covariances that use each column; others are left at 0. A DataFrame, or an xarray
    variable with named features, may have more columns, in any order. A level not seen before is a new group
    in columns of group alone; elsewhere `InputError`, unless ``unseen`` is "new", which takes it as different
    from all.
    """
    if unseen not in ("error", "new"):
        raise unknown_name("predict: unseen", unseen, ("error", "new"))
    frame = _as_frame(X, like)
    values = np.zeros((len(frame), len(like.names)))
    for k, name in enumerate(like.names):
        if name not in kinds:
            continue
        if name not in frame.columns:
            raise unknown_name("new inputs: column", name, tuple(frame.columns))
        if list(frame.columns).count(name) > 1:
            raise InputError(f"new inputs: two columns are named {name!r}; rename one")
        column, where = frame[name], f"new inputs: column {name!r}, row"
        require_plain(f"new inputs: column {name!r}", column)
        if column.isna().any():
            raise InputError(
                f"{where} {int(np.argmax(column.isna()))} is missing; fill it in, or drop the row"
            )
        if name in like.levels:
            words = column.astype(str)
            codes = {word: float(code) for code, word in enumerate(like.levels[name])}
            values[:, k], seen = words.map(codes), like.levels[name]
            fresh = np.flatnonzero(np.isnan(values[:, k]))
            values[fresh, k] = len(codes) + np.unique(words.iloc[fresh], return_inverse=True)[1]
        else:
            values[:, k] = pd.to_numeric(column, errors="coerce")
            wrong = np.flatnonzero(~np.isfinite(values[:, k]))
            if wrong.size:
                raise InputError(
                    f"{where} {wrong[0]} is {str(column.iloc[wrong[0]])!r}; give finite numbers"
                )
            seen, fresh = (), np.empty(0, dtype=int)
            if "categorical" in kinds[name]:
                seen = tuple(f"{v:g}" for v in np.unique(like.values[:, k]))
                fresh = np.flatnonzero(~np.isin(values[:, k], like.values[:, k]))
        if fresh.size and unseen == "error" and kinds[name] != {"group"}:
            level = str(column.iloc[fresh[0]])
            raise InputError(
                f"{where} {fresh[0]} has the level {level!r}, which was not seen; allowed: "
                f'{", ".join(seen)}; or unseen="new"'
            )
    return Inputs(values, like.names, like.levels)


def _as_frame(X: Any, like: Inputs) -> pd.DataFrame:
    """New inputs as a table; columns without names are those of ``like``, in order."""
    if isinstance(X, pd.DataFrame):
        return X.rename(columns=str)
    inputs = inputs_of(X)
    if isinstance(X, xr.DataArray) and set(inputs.names) & set(like.names):
        return pd.DataFrame(inputs.values, columns=list(inputs.names))
    if inputs.values.shape[1] != len(like.names):
        raise InputError(
            f"new inputs have {inputs.values.shape[1]} columns; allowed: {len(like.names)}: "
            f"{', '.join(like.names)}"
        )
    if like.levels:
        raise InputError(
            f"new inputs: columns {', '.join(like.levels)} hold words; give a DataFrame with them"
        )
    return pd.DataFrame(inputs.values, columns=list(like.names))
