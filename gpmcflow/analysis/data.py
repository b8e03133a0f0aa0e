"""The prepared table of an analysis as a results file, and read from there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.data.codes import Encoding, GroupCode, NumberCode
from gpmcflow.data.outcome_again import Leak
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.data.own_table import Part, PreparedTable
from gpmcflow.data.target import Target
from gpmcflow.data.times import ends_of, middle_of

PARTS = {"learning": "train", "held_out": "test", "new": "new"}  # group -> field of the table


_OF_PREDICTIONS = re.compile(
    r"row|note|outcome|unit|mean|sd|q\d+|probability|rate_q\d+|grade|class|p_.+"
)


class Rows(NamedTuple):
    """Rows as a model takes them; see `gpmcflow.data.own_table.Part`."""

    row: np.ndarray  #: lines of the file (m,)
    X: pd.DataFrame  #: inputs (m, p)
    y: np.ndarray | None  #: as the model takes it (m,)
    outcome: np.ndarray | None  #: in natural units (m,)
    unit: np.ndarray | None  #: exposures, trials or events (m,)
    until: np.ndarray | None = None  #: upper ends of times in natural units, nan for none (m,)

    def units(self, kind: str) -> dict[str, np.ndarray]:
        """Exposures or trials by name, as `predict` takes them: what is known beforehand."""
        name = KINDS[kind].unit
        return {} if self.unit is None or name in (None, "event") else {name: self.unit}

    def effort(self, kind: str) -> np.ndarray:
        """Exposures or trials, 1 where there are none (m,)."""
        return next(iter(self.units(kind).values()), np.ones(len(self.row)))

    def constants(self, target: Target) -> dict[str, np.ndarray]:
        """Exposures, trials, events or upper ends by name, as likelihoods of observations take them."""
        own = {"event": self.unit} if target.kind == "survival" else self.units(target.kind)
        return own if self.until is None else {**own, "until": self.until / target.scale}

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Between which each time lies, see `ends_of` (m,)."""
        return ends_of(self.outcome, self.unit, self.until)

    @property
    def middle(self) -> np.ndarray:
        """A time for each row, see `middle_of` (m,)."""
        return middle_of(*self.ends)

    def seen(self, kind: str) -> np.ndarray:
        """Whether the outcome is known as a number, not to an interval (m,)."""
        return np.equal(*self.ends) if kind == "survival" else np.ones(len(self.row), dtype=bool)

    def log_units(self, target: Target) -> np.ndarray:
        """What is subtracted from log densities of y to have those of the outcome in natural units (m,).

        That a time lies in an interval has a probability, which has no units.
        """
        return self.seen(target.kind) * np.log(target.scale)

    def take(self, kept: np.ndarray) -> Rows:
        """Some of the rows, by a mask (m,)."""
        return Rows(*(None if own is None else own[kept] for own in self))


OF_CASES = Rows._fields[2:]  # numbers beside the inputs


class Data(NamedTuple):
    """What an analysis learns from, and predicts."""

    encoding: Encoding
    learning: Rows
    held_out: Rows | None
    new: Rows | None

    @property
    def target(self) -> Target:
        """Name, kind and coding of the outcome."""
        return self.encoding.target

    def natural(self, values: np.ndarray) -> np.ndarray:
        """Outcomes as the model takes them in natural units."""
        return values * self.target.scale + self.target.shift

    def whole(self) -> Data:
        """The same with all rows to learn from, held-out ones among them, in the order of the file.

        Codes stay those of the learning rows, but for the ranges that notes of new rows speak of.
        """
        if self.held_out is None:
            return self
        parts = self.learning, self.held_out
        order = np.argsort(np.concatenate([part.row for part in parts]), kind="stable")

        def joined(name: str) -> np.ndarray | None:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else np.concatenate(values)[order]

        X = pd.concat([part.X for part in parts], ignore_index=True).iloc[order]
        rows = Rows(joined("row"), X.reset_index(drop=True), *map(joined, OF_CASES))
        return Data(widened(self.encoding, self.held_out.X), rows, None, self.new)


def widened(encoding: Encoding, X: pd.DataFrame) -> Encoding:
    """The encoding with ranges of numbers that hold those of more inputs (m, p), and all names of groups."""
    codes = []
    for code in encoding.codes:
        if isinstance(code, NumberCode):
            given = X[f"{code.column} missing"] == 0.0 if code.has_missing else slice(None)
            values = X[code.column][given].to_numpy() * code.scale + code.mean
            low, high = values.min(initial=code.low), values.max(initial=code.high)
            code = replace(code, low=float(low), high=float(high))
        elif isinstance(code, GroupCode):
            code = replace(code, n_learnt=code.n_file or len(code.levels))
        codes.append(code)
    return replace(encoding, codes=tuple(codes))


def beside_predictions(column: str) -> str:
    """The name of a column of the file in tables of predictions, whose own columns keep theirs."""
    return f"{column} (column)" if _OF_PREDICTIONS.fullmatch(column) else column


def rows_of(part: Part | None) -> Rows | None:
    """Rows of a part of a prepared table."""
    if part is None:
        return None
    X = pd.DataFrame(part.X.to_numpy(dtype=np.float64), columns=list(map(str, part.X.columns)))
    units = (getattr(part, name) for name in OF_CASES)
    rest = (None if own is None else np.asarray(own, dtype=np.float64) for own in units)
    return Rows(np.asarray(part.row, dtype=np.int64), X, *rest)


def data_tree(table: PreparedTable) -> xr.DataTree:
    """Groups learning, held_out and new (X, y, .., until by case), with the encoding as an attribute."""
    leak = table.leak or Leak("", in_order=False)
    about = {"encoding": table.encoding.to_json(), "leak": leak.column}
    about["leak_in_order"] = int(leak.in_order)
    groups = {"/": xr.Dataset(attrs=about)}
    for group, field in PARTS.items():
        rows = rows_of(getattr(table, field))
        if rows is None:
            continue
        variables = {"X": (("case", "input"), rows.X.to_numpy())}
        for name in OF_CASES:
            if (values := getattr(rows, name)) is not None:
                variables[name] = ("case", values)
        names, file_rows = np.array(list(rows.X.columns)), ("case", rows.row)
        coords = {"case": np.arange(len(rows.row)), "input": names, "file_row": file_rows}
        groups[group] = xr.Dataset(variables, coords)
    return xr.DataTree.from_dict(groups)


def data_of(tree: xr.DataTree) -> Data:
    """The data that `data_tree` wrote."""
    parts = {group: _rows(tree[group].to_dataset()) if group in tree else None for group in PARTS}
    return Data(Encoding.from_json(tree.attrs["encoding"]), **parts)


def data_of_table(table: PreparedTable) -> Data:
    """The data of a table that was just prepared: `data_of` its `data_tree`, without loading dask.array."""
    parts = {group: rows_of(getattr(table, field)) for group, field in PARTS.items()}
    return Data(table.encoding, **parts)


def _rows(group: Mapping) -> Rows:
    X = pd.DataFrame(group["X"].values, columns=[str(name) for name in group["input"].values])
    rest = (group[name].values if name in group else None for name in OF_CASES)
    return Rows(group["file_row"].values, X, *rest)
