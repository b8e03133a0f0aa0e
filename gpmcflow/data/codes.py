"""How columns of a table become inputs: fixed by the learning rows, applied to any others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from gpmcflow.data.area_names import nearest_code
from gpmcflow.data.columns import Column, date_text, is_time, parse_dates
from gpmcflow.data.csv_table import (
    CsvTable,
    missing_cells,
    parse_numbers,
    plain_labels,
    row_problem,
)
from gpmcflow.data.known_files import KnownFiles
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.data.target import Target
from gpmcflow.errors import InputError, InputErrors, unknown_name

# How a column of a table becomes inputs: fixed by the learning rows, applied to any others.

MOST_HINTS, MOST_COMPARED = 20, 1000  # unknown names, and known ones that they are compared with


@dataclass(frozen=True)
class NumberCode:
    """A column of numbers or dates: z = (value - `mean`) / `scale`.

    Values are in natural units, days since `origin` (in days since 1970-01-01) for dates. `median`,
    `low` and `high` are of the learning rows; `has_missing` says that some of them miss the value.
    """

    column: str
    kind: str
    mean: float
    scale: float
    median: float
    low: float
    high: float
    has_missing: bool = False
    origin: float = 0.0
    date_format: str | None = None

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs made of the column."""
        return [self.column] + ([f"{self.column} missing"] if self.has_missing else [])

    def read(self, cells: Sequence[str], decimal: str) -> np.ndarray:
        """Return the values in natural units, NaN for cells that are none."""
        if self.date_format:
            return parse_dates(cells, self.date_format) - self.origin
        return parse_numbers(cells, decimal)

    @property
    def has_times(self) -> bool:
        """Whether the dates of the learning rows have times of day, by those known."""
        days = np.array([self.low, self.median, self.high]) + self.origin
        middle = 2.0 * days[1]  # of two days, it may be noon
        known = np.array([days[0], middle, days[2]])
        return bool(self.date_format) and bool((np.abs(known - np.round(known)) > 1e-6).any())

    def text(self, value: float) -> str:
        """Return a value in natural units as people write it."""
        if not self.date_format:
            return f"{value:.10g}"
        return date_text(value + self.origin, times=self.has_times)

    def encode(
        self, table: CsvTable, empty: np.ndarray, decimal: str, notes: list[str]
    ) -> tuple[list[np.ndarray], list[str]]:
        """Return the inputs, and one line if a cell cannot be read; add to the notes of cases.

        `empty` marks the cells without a value.
        """
        cells = table.columns[self.column]
        values = self.read(cells, decimal)
        bad = ~empty & ~np.isfinite(values)
        problems = []
        if bad.any():
            kind = f"date like {self.date_format}" if self.date_format else "number"
            says = f"is not a {kind}; correct or empty the cell"
            problems = [row_problem(table, self.column, bad, lambda cell: f'"{cell}" {says}')]
        seen = f"{self.text(self.low)} to {self.text(self.high)} seen in learning"
        with np.errstate(invalid="ignore"):
            sides = {
                "after" if self.date_format else "above": ~empty & (values > self.high),
                "before" if self.date_format else "below": ~empty & (values < self.low),
            }
        for side, outside in sides.items():
            for i in np.flatnonzero(outside):
                _note(notes, i, f"{self.column} {cells[i]} is {side} {seen}")
        for i in np.flatnonzero(empty):
            _note(notes, i, f"{self.column} is empty: middle value {self.text(self.median)} taken")
        values = np.where(empty, self.median, values)
        inputs = [(values - self.mean) / self.scale]
        return inputs + ([empty.astype(float)] if self.has_missing else []), problems


@dataclass(frozen=True)
class CategoryCode:
    """A column of categories: `levels` of the learning rows, most frequent first, and the `shares`
    of the rows that they have. `numeric` says that all levels are numbers (so 1 and 1.0 are one).
    """

    column: str
    levels: tuple[str, ...]
    shares: tuple[float, ...]
    has_missing: bool = False
    numeric: bool = False
    kind: str = "category"

    @property
    def shown_levels(self) -> tuple[str, ...]:
        """Levels with an input of their own: all, or the second of two, or none of one."""
        return self.levels if len(self.levels) > 2 else self.levels[1:]

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs made of the column."""
        names = [f"{self.column}={level}" for level in self.shown_levels]
        return names + ([f"{self.column} missing"] if self.has_missing else [])

    def encode(
        self, table: CsvTable, empty: np.ndarray, decimal: str, notes: list[str]
    ) -> tuple[list[np.ndarray], list[str]]:
        """Return the inputs, and no problems; add to the notes of cases.

        A level that the learning rows do not have, or none, is 0 in all inputs; with two levels it
        is the learning share, so between the two.
        """
        cells = table.columns[self.column]
        labels = _labels(cells, self.numeric, decimal)
        unseen = ~empty & ~np.isin(labels.astype(str), np.array(self.levels, dtype=str))
        for i in np.flatnonzero(unseen):
            _note(notes, i, f'{self.column} "{cells[i]}" was not seen: treated as unknown')
        like = "like the cells empty in learning" if self.has_missing else "as unknown"
        for i in np.flatnonzero(empty):
            _note(notes, i, f"{self.column} is empty: treated {like}")
        inputs = [(labels == level).astype(float) for level in self.shown_levels]
        if len(self.levels) == 2:
            inputs[0][unseen | empty] = self.shares[1]
        return inputs + ([empty.astype(float)] if self.has_missing else []), []


@dataclass(frozen=True)
class GroupCode:
    """A column of names of subjects and the like: one input, the place of the name among `levels`.

    These are the `n_file` names of the file (None: all), the first `n_learnt` those of the learning rows,
    then those that only files of graphs, correlations and maps have; `known` are all names of these files.
    Another name gets a negative number, the same in all its rows, and each row without a name one of its own;
    `taken` negative numbers are those of the file's rows without a name, which no other row may share.
    """

    column: str
    levels: tuple[str, ...]
    n_learnt: int
    has_missing: bool = False
    numeric: bool = False
    kind: str = "group"
    n_file: int | None = None
    known: tuple[str, ...] = ()
    taken: int = 0

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs made of the column."""
        return [self.column]

    def beyond(self, codes: np.ndarray) -> GroupCode:
        """The code whose further negative numbers lie below those among these."""
        return replace(self, taken=max(self.taken, -int(codes.min(initial=0.0))))

    def knowing(self, names: Sequence[str]) -> GroupCode:
        """The code with the names that files beside the table know."""
        others = [name for name in names if name not in self.levels]
        levels = (*self.levels, *others)
        return replace(self, levels=levels, n_file=len(self.levels), known=tuple(names))

    def encode(
        self, table: CsvTable, empty: np.ndarray, decimal: str, notes: list[str]
    ) -> tuple[list[np.ndarray], list[str]]:
        """Return the input, and no problems; add to the notes of cases."""
        labels = _labels(table.columns[self.column], self.numeric, decimal)
        places = {level: float(place) for place, level in enumerate(self.levels)}
        codes, hints = np.empty(len(labels)), {}
        for i, label in enumerate(labels):
            name = f"\0{i}" if empty[i] else str(label)
            further = len(places) - len(self.levels) + self.taken + 1
            codes[i] = places.setdefault(name, float(-further))
            if not 0 <= codes[i] < self.n_learnt:
                hint = "" if codes[i] >= 0.0 or empty[i] else self._hint(name, hints)
                cell = "is empty" if empty[i] else f'"{label}" was not seen{hint}'
                how = (
                    "predicted from what resembles it"
                    if name in self.known
                    else "treated as a new one"
                )
                _note(notes, i, f"{self.column} {cell}: {how}")
        return [codes], []

    def _hint(self, name: str, hints: dict[str, str]) -> str:
        """The name that is meant by one that nothing knows, for the first `MOST_HINTS` of few names."""
        if name not in hints and len(hints) < MOST_HINTS and len(self.levels) <= MOST_COMPARED:
            near = nearest_code(name, self.levels)
            hints[name] = f' (did you mean "{near}"?)' if near else ""
        return hints.get(name, "")


Code = NumberCode | CategoryCode | GroupCode


def _note(notes: list[str], i: int, text: str) -> None:
    """Add to the note of case i: texts, as the garbage collector would look at a list for each case."""
    notes[i] = f"{notes[i]}; {text}" if notes[i] else text


def _labels(cells: Sequence[str], numeric: bool, decimal: str) -> np.ndarray:
    """Cells as labels, numbers among them in one spelling if all levels are numbers."""
    labels = plain_labels(cells, None)
    if numeric:
        values = parse_numbers(cells, decimal)
        number = np.isfinite(values)
        labels[number] = plain_labels(labels[number], values[number])
    return labels


def fit_codes(
    columns: dict[str, Column], used: list[str], learning: np.ndarray, settings: TableSettings
) -> tuple[Code, ...]:
    """Return the codes of the columns used, by the learning rows (their places).

    Columns that are constant in them have none. Two coordinates share one scale, so that the map
    keeps its shape.
    """
    fitted = [
        fit_code(
            columns[name], learning, name in settings.categorical, group=name in settings.groups
        )
        for name in used
    ]
    codes = [code for code in fitted if code is not None]
    scales = [code.scale for code in codes if code.column in settings.coordinates]
    if len(scales) == 2:
        common = float(np.sqrt(np.mean(np.square(scales))))
        codes = [
            replace(code, scale=common) if code.column in settings.coordinates else code
            for code in codes
        ]
    return tuple(codes)


def fit_code(
    column: Column, learning: np.ndarray, in_settings: bool = False, *, group: bool = False
) -> Code | None:
    """Return the code of a column by the learning rows (places), None if it is constant there.

    A category of one level, named in the settings (`in_settings`), is used for being filled in or
    not.
    """
    missing = column.missing[learning]
    has_missing = bool(missing.any())
    if column.kind == "category":
        labels = column.labels[learning][~missing]
        counts = Counter(labels.tolist())
        if len(counts) < 2 and not (in_settings and counts and has_missing):
            return None
        levels = tuple(sorted(counts, key=lambda level: (-counts[level], level)))
        if group:
            others = sorted(set(column.labels[~column.missing].tolist()) - set(levels))
            numeric = column.values is not None
            return GroupCode(column.name, (*levels, *others), len(levels), False, numeric)
        shares = tuple(counts[level] / len(labels) for level in levels)
        return CategoryCode(column.name, levels, shares, has_missing, column.values is not None)
    days = column.values[learning][~missing]
    if len(days) < 2 or np.ptp(days) == 0:
        return None
    origin = float(days.min()) if column.date_format else 0.0
    values = days - origin
    filled = np.where(missing, np.median(values), 0.0)
    filled[~missing] = values
    return NumberCode(
        column.name,
        column.kind,
        mean=float(filled.mean()),
        scale=float(filled.std(ddof=1)),
        median=float(np.median(values)),
        low=float(values.min()),
        high=float(values.max()),
        has_missing=has_missing,
        origin=origin,
        date_format=column.date_format,
    )


# Columns of a table as inputs of a model, by codes that the learning rows fix.


@dataclass(frozen=True)
class Encoding:
    """What is kept of the learning rows, to make inputs of any other rows.

    `codes` are those of the columns used, in the order of the file; `ids` name columns that go
    beside predictions; `missing`, `separator` and `decimal` say how a file is read.
    """

    target: Target
    codes: tuple[Code, ...]
    ids: tuple[str, ...] = ()
    coordinates: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    separator: str = ","
    decimal: str = "."
    known: KnownFiles = field(default_factory=KnownFiles)

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [name for code in self.codes for name in code.inputs]

    @property
    def columns(self) -> list[str]:
        """Names of the columns that inputs are made of."""
        return [code.column for code in self.codes]

    @property
    def groups(self) -> list[str]:
        """Names of the columns that only terms of groups use."""
        return [code.column for code in self.codes if isinstance(code, GroupCode)]

    @property
    def explaining(self) -> list[str]:
        """Names of the columns used, but for those of groups."""
        return [code.column for code in self.codes if not isinstance(code, GroupCode)]

    @property
    def times(self) -> list[str]:
        """Names of the columns used that hold times: dates, and numbers that are named so."""
        numbers = [code for code in self.codes if isinstance(code, NumberCode)]
        return [code.column for code in numbers if code.date_format or is_time(code.column)]

    def code(self, column: str) -> Code:
        """Return the code of a column; raise InputError for one that is not used."""
        if column not in self._by_column:
            raise unknown_name("encoding: column", column, self.columns)
        return self._by_column[column]

    @cached_property
    def _by_column(self) -> dict[str, Code]:
        return {code.column: code for code in self.codes}

    def inputs_of(self, column: str) -> list[str]:
        """Return the names of the inputs made of a column."""
        return self.code(column).inputs

    def natural(self, column: str, standardised: np.ndarray | float) -> np.ndarray:
        """Return values of a number or date column in its units (dates: days since the first)."""
        code = self._number(column)
        return np.asarray(standardised, dtype=float) * code.scale + code.mean

    def standardised(self, column: str, natural: np.ndarray | float) -> np.ndarray:
        """Return the input that values of a number or date column become."""
        code = self._number(column)
        return (np.asarray(natural, dtype=float) - code.mean) / code.scale

    def encode(self, table: CsvTable) -> tuple[pd.DataFrame, list[str]]:
        """Return the inputs of all cases of a table, and a note for each ("" for nothing to say).

        A note names cells that are empty, outside of the range of the learning rows, or of a level
        that they do not have. Raises InputErrors for cells that cannot be read.
        """
        notes = [""] * len(table.rows)
        problems: list[str] = []
        inputs: dict[str, np.ndarray] = {}
        for code in self.codes:
            empty = missing_cells(table.columns[code.column], self.missing, self.decimal)
            columns, wrong = code.encode(table, empty, self.decimal, notes)
            problems += [f"{table.path.name}: {line}" for line in wrong]
            inputs.update(zip(code.inputs, columns, strict=True))
        if problems:
            raise InputErrors(problems)
        frame = pd.DataFrame(inputs, index=pd.RangeIndex(len(table.rows)), dtype=float)
        return frame, notes

    def beyond(self, X: pd.DataFrame) -> Encoding:
        """Return the encoding whose rows without a name share no number with those of X (m, p)."""
        codes = [
            code.beyond(X[code.column].to_numpy()) if isinstance(code, GroupCode) else code
            for code in self.codes
        ]
        return replace(self, codes=tuple(codes))

    def to_json(self) -> str:
        """Return the encoding as JSON text, every number to the last bit."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Encoding:
        """Return the encoding that `to_json` wrote."""
        stored = json.loads(text)
        target = stored["target"]
        stored["target"] = Target(**{**target, "levels": tuple(target.get("levels", ()))})
        stored["codes"] = tuple(_code(code) for code in stored["codes"])
        stored["known"] = KnownFiles(**stored.get("known", {}))
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})

    def _number(self, column: str) -> NumberCode:
        code = self.code(column)
        if not isinstance(code, NumberCode):
            raise InputError(f"encoding: column {column!r} holds names, which have no scale")
        return code


def _code(stored: dict) -> Code:
    kinds = {"category": CategoryCode, "group": GroupCode}
    kind = kinds.get(stored["kind"], NumberCode)
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})
