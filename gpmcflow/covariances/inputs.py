"""Inputs as covariances see them: numbers, names of columns, levels of columns with words."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.errors import InputError, unknown_name

DATES = (datetime.date, pd.Period, np.datetime64)
SPANS = (datetime.time, datetime.timedelta, np.timedelta64)


class Inputs(NamedTuple):
    """n cases of p columns."""

    values: np.ndarray  #: (n, p); codes 0, 1, .. in columns of words
    names: tuple[str, ...]  #: (p,)
    levels: dict[
        str, tuple[str, ...]
    ]  #: words of each column that has them, in the order of their codes
    dates: tuple[str, ...] = ()  #: columns that held dates, as days since 1970-01-01
    centres: tuple[tuple[str, float], ...] = ()  #: columns that are less their mean, with it

    @property
    def numeric(self) -> tuple[int, ...]:
        """Places of the columns that hold numbers."""
        return tuple(k for k, name in enumerate(self.names) if name not in self.levels)

    @property
    def shifts(self) -> np.ndarray:
        """What columns are less, (p,): their centres, or 0."""
        centres = dict(self.centres)
        return np.array([centres.get(name, 0.0) for name in self.names])

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
    """Inputs of an array (n, p) or (n,), a table, or an xarray variable with a feature coordinate.

    Columns of an array are x1, x2, ... A column of a table that holds numbers is one of numbers, whatever
    its type (objects, decimals, text of numbers); dates are days since 1970-01-01; a categorical column is
    one of words. Raises `InputError` for other than finite numbers in columns of numbers, and for missing
    words.
    """
    if isinstance(X, Inputs):
        return X
    if isinstance(X, pd.Series):
        X = X.to_frame()
    frame = table_of(X)
    if frame is not None:
        X = frame
        names = tuple(str(name) for name in X.columns)
        columns, levels, dates = [], {}, []
        for k, name in enumerate(names):
            column = X.iloc[:, k]
            if holds(column, DATES):
                dates.append(name)
                column = days_of(f"X: column {name!r}", column)
            require_plain(f"X: column {name!r}", column)
            if column.isna().any():
                row = int(np.flatnonzero(column.isna())[0])
                raise InputError(
                    f"X: column {name!r}, row {row} is missing; drop the row, or fill it in"
                )
            numbers = _numbers(column)
            if numbers is not None:
                columns.append(numbers)
                continue
            words = column.astype(str)
            levels[name] = tuple(sorted(words.unique()))
            codes = {word: float(code) for code, word in enumerate(levels[name])}
            columns.append(words.map(codes).to_numpy(dtype=np.float64))
        values = np.column_stack(columns) if columns else np.empty((len(X), 0))
    else:
        names, levels, dates = None, {}, []
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
    return Inputs(np.array(values, order="C"), names, levels, tuple(dates))


def table_of(X: Any) -> pd.DataFrame | None:
    """A table of pandas, polars, pyarrow or another library that narwhals reads, None for anything else.

    A dict has a column for each key; values without a length are the same in all rows. Raises `InputError`
    for a table with two columns of one name, and columns of other lengths.
    """
    if isinstance(X, pd.DataFrame):
        return X
    if isinstance(X, dict):
        return _table_of_columns(X)
    if isinstance(X, np.ndarray | xr.DataArray | list | tuple | pd.Series | Number):
        return None
    import narwhals as nw  # here: arrays need it not

    try:
        frame: Any = nw.from_native(X, pass_through=True, allow_series=True)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        frame = frame.to_frame() if isinstance(frame, nw.Series) else frame
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"X: two columns have one name ({error}); rename one") from None
    if not isinstance(frame, nw.DataFrame):
        return None
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"X: two columns are named {twice!r}; rename one")
    return pd.DataFrame({name: _pandas_column(frame[name]) for name in names})


def _table_of_columns(columns: dict) -> pd.DataFrame:
    many = {name: not isinstance(v, str) and np.ndim(v) > 0 for name, v in columns.items()}
    index = None if any(many.values()) else [0]
    try:
        return pd.DataFrame({str(name): value for name, value in columns.items()}, index=index)
    except ValueError:
        sizes = {str(name): np.shape(v) for name, v in columns.items() if many[name]}
        raise InputError(
            f"X: a dict of columns of shapes {sizes}; allowed: one number of rows for all"
        ) from None


def row_labels(X: Any, dim: str) -> xr.Coordinates:
    """The index of a DataFrame, or the first coordinate of an xarray variable, along ``dim``."""
    if isinstance(X, xr.DataArray):
        own = X.dims[0]
        return xr.Coordinates({dim: X[own].values} if own in X.coords else {})
    index = getattr(X, "index", None)
    if isinstance(index, pd.MultiIndex):
        return xr.Coordinates.from_pandas_multiindex(index, dim)
    if not isinstance(index, pd.Index):
        return xr.Coordinates({})
    labels = index.to_numpy()
    if labels.dtype == object and not all(isinstance(label, str) for label in labels):
        labels = index.astype(
            str
        ).to_numpy()  # times with a zone, periods: NetCDF has no type for them
    return xr.Coordinates({dim: labels})


def _pandas_column(column: Any) -> pd.Series:
    """A column of narwhals: categories stay categories, and what is no plain number is held as objects."""
    import narwhals as nw

    if column.dtype == nw.Enum:
        return pd.Series(pd.Categorical(column.to_list(), column.dtype.categories, ordered=True))
    if column.dtype == nw.Categorical:
        return pd.Series(pd.Categorical(column.to_list()))
    plain = (column.dtype.is_integer() or column.dtype.is_float()) and not column.is_null().any()
    return pd.Series(
        column.to_numpy() if plain else column.to_list(), dtype=None if plain else object
    )


def _numbers(column: pd.Series) -> np.ndarray | None:
    """A column's numbers (n,), nan where one is missing or no number; None for words and categories.

    Text with leading zeros (postcodes, ids) is words.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = column.to_numpy(dtype=object)
    are_numbers = all(
        issubclass(kind, Number | np.bool_) for kind in {type(cell) for cell in cells}
    )
    if are_numbers and len(cells):
        return np.array([float(cell) for cell in cells])
    if any(isinstance(cell, str) and re.match(r"\s*[+-]?0\d", cell) for cell in cells):
        return None
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return None if np.isnan(numbers).any() else numbers


def require_plain(name: str, values: Any) -> None:
    """Raise `InputError` for dates, complex numbers and masked values, which float64 would hide."""
    if np.ma.is_masked(values):
        where = np.argwhere(np.ma.getmaskarray(values))[0]
        raise InputError(f"{name}{[int(i) for i in where]} is masked; drop the row, or fill it in")
    values = values if hasattr(values, "dtype") else np.asarray(values)
    if holds(values, DATES + SPANS):
        raise InputError(f"{name} holds dates; convert it to a number, such as days")
    if holds(values, (complex, np.complexfloating)):
        raise InputError(f"{name} holds complex numbers; give real ones")


def holds(values: Any, kinds: tuple[type, ...]) -> bool:
    """Whether any cell of an array or a column is of one of these kinds, whatever its type says."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype) or dtype.kind in "biufUS":
        return False
    cells = values if isinstance(values, pd.Series) else np.asarray(values).ravel()
    first = cells[:1] if dtype.kind in "mMc" else cells  # all cells are of one kind
    found = {type(cell) for cell in np.asarray(first, dtype=object) if cell is not pd.NaT}
    if dtype.kind in "mM":  # objects of NumPy's dates may be whole numbers
        found = {np.datetime64 if dtype.kind == "M" else np.timedelta64}
    return any(issubclass(kind, kinds) for kind in found)


def days_of(name: str, column: pd.Series) -> pd.Series:
    """Days since 1970-01-01 of dates, a time of day as a fraction; a period stands for its start.

    Times with a zone are taken to UTC. Raises `InputError` for what is no date among them.
    """
    start = column.map(lambda cell: cell.start_time if isinstance(cell, pd.Period) else cell)
    try:
        if any(isinstance(cell, Number) and not pd.isna(cell) for cell in start.astype(object)):
            raise TypeError  # which pandas would read as nanoseconds
        times = pd.to_datetime(start.astype(object), utc=True)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds dates and other values; give one kind") from None
    return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


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
    frame = frame_of(X, like)
    values, centres = np.zeros((len(frame), len(like.names))), dict(like.centres)
    repeated = set(frame.columns[frame.columns.duplicated()])
    for k, name in enumerate(like.names):
        if name not in kinds:
            continue
        if name not in frame.columns:
            raise unknown_name("new inputs: column", name, tuple(frame.columns))
        if name in repeated:
            raise InputError(f"new inputs: two columns are named {name!r}; rename one")
        column, where = frame[name], f"new inputs: column {name!r}, row"
        if name in like.dates and holds(column, DATES):
            column = days_of(f"new inputs: column {name!r}", column)
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
            numbers = _numbers(column)
            if numbers is None:
                numbers = pd.to_numeric(column.astype(object), errors="coerce")
            values[:, k] = numbers
            wrong = np.flatnonzero(~np.isfinite(values[:, k]))
            if wrong.size:
                raise InputError(
                    f"{where} {wrong[0]} is {str(column.iloc[wrong[0]])!r}; give finite numbers"
                )
            seen, fresh = (), np.empty(0, dtype=int)
            if "categorical" in kinds[name]:
                seen = tuple(f"{v:g}" for v in np.unique(like.values[:, k]))
                fresh = np.flatnonzero(~np.isin(values[:, k], like.values[:, k]))
        values[:, k] -= centres.get(name, 0.0)
        if fresh.size and unseen == "error" and kinds[name] != {"group"}:
            level = str(column.iloc[fresh[0]])
            raise InputError(
                f"{where} {fresh[0]} has the level {level!r}, which was not seen; allowed: "
                f'{", ".join(seen)}; or unseen="new"'
            )
    return like._replace(values=values)


def frame_of(X: Any, like: Inputs) -> pd.DataFrame:
    """New inputs as a table; columns without names are those of ``like``, in order."""
    frame = None if isinstance(X, Inputs) else table_of(X)
    if frame is not None:
        return frame.rename(columns=str)
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
