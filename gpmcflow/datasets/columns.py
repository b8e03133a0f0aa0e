"""What the columns of a table hold: numbers, dates, categories, an id, or nothing of use."""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import yaml

from gpmcflow.datasets.cells import (
    MISSING_WORDS,
    THOUSANDS,
    missing_cells,
    parse_numbers,
    plain_labels,
    row_problem,
)  # fmt: skip
from gpmcflow.datasets.csv_table import CsvTable
from gpmcflow.datasets.dates import date_formats, date_text, parse_dates

INDEX_NAME = "index"  # what a first column without a name is called
MOST_LEVELS = 20  # text with more different values is no category, unless the settings say so
MOSTLY = 0.8  # a column with this share of numbers (dates) is one of numbers (dates)
UNITS = re.compile(r"^([+\u2212-]?)\s*[$€£¥]\s*|\s*[%‰°$€£¥]$")  # before or behind a number
AMOUNT = re.compile(r"[+\u2212-]?\d{1,3}(?:[.,' ]?\d{3})*(?:[.,]\d+)?")  # with either decimal mark
ID_WORDS = {"id", "ids", "uuid", "guid", "identifier"}
COUNTER_WORDS = {
    "index",
    "key",
    "nr",
    "no",
    "num",
    "number",
    "code",
    "row",
    "case",
    "record",
    "subject",
}


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    `kind` is "number", "whole", "category", "date", "id", "constant", "empty" or "text"; `contents`
    says it in words; `missing` marks the cells without a value, `n_missing` counts them. `levels`
    are the different values, most frequent first, where there are at most 20 or they are
    categories. `values` are numbers, or days since 1970-01-01 (NaN where missing or bad), else
    None; `labels` are the cells, numbers among them in one spelling. `problems` are lines about
    cells that are not what the column is.
    """

    name: str
    kind: str
    contents: str
    missing: np.ndarray
    labels: np.ndarray
    levels: tuple[str, ...] = ()
    values: np.ndarray | None = None
    date_format: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def n_missing(self) -> int:
        """Number of cells without a value."""
        return int(self.missing.sum())


def describe_columns(
    table: CsvTable,
    *,
    missing: Sequence[str] = MISSING_WORDS,
    decimal: str = ".",
    categorical: Collection[str] = (),
) -> dict[str, Column]:
    """Return what each column of a table holds, by its name.

    `missing` are the words that mean "no value", beside the empty cell; `decimal` is the decimal
    mark; the columns in `categorical` are categories whatever they hold.
    """
    return {
        name: _describe(table, name, missing, decimal, name in categorical)
        for name in table.columns
    }


def name_words(name: str) -> set[str]:
    """Return the words of a column's name, in small letters: patientID -> patient, id."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+", name)
    return {word.lower() for word in words}


def as_argument(column: str) -> str:
    """Return a column as an argument of a covariance, in quotes unless Python reads it as that name."""
    bare = column.isidentifier() and column.isascii() and not keyword.iskeyword(column)
    return column if bare else repr(column)


def yaml_text(text: str) -> str:
    """Return text as a YAML scalar, in quotes where it needs them (also inside of a list)."""
    plain = re.fullmatch(r"[^\W\d][\w./ -]*", text) and yaml.safe_load(text) == text
    return text if plain else json.dumps(text, ensure_ascii=False)


def term_names(columns: Sequence[str]) -> dict[str, str]:
    """Return column -> name of a covariance's term, all different."""
    names: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"\W+", "_", column)
        while name in names.values():
            name += "_"
        names[column] = name
    return names


def missing_words(n_missing: int) -> str:
    """Return the words for the number of missing cells."""
    return f"{n_missing} cell{'' if n_missing == 1 else 's'} missing" if n_missing else "complete"


def _describe(
    table: CsvTable, name: str, words: Sequence[str], decimal: str, categorical: bool
) -> Column:
    cells = table.columns[name]
    no_value = missing_cells(cells, words, decimal)
    filled = ~no_value
    if not filled.any():
        return Column(name, "empty", "no cell filled in", no_value, np.asarray(cells, dtype=object))
    values = parse_numbers(cells, decimal)
    values[no_value] = np.nan
    numeric = values if np.isfinite(values[filled]).all() else None
    labels = plain_labels(cells, numeric)
    counts = Counter(labels[filled].tolist())
    levels = tuple(sorted(counts, key=lambda level: (-counts[level], level)))
    gaps = f", {missing_words(no_value.sum())}" if no_value.any() else ""
    n = len(levels)
    text = Column(name, "text", f"{n} different texts{gaps}", no_value, labels)
    few = replace(text, levels=levels if n <= MOST_LEVELS else ())
    if categorical and (n > 1 or gaps):
        contents = f"{n} categor{'y' if n == 1 else 'ies'}{gaps}"
        return replace(text, kind="category", contents=contents, levels=levels, values=numeric)
    if n == 1:
        contents = "always the same" + (f" where filled in{gaps}" if gaps else "")
        return replace(few, kind="constant", contents=contents, values=numeric)
    if np.isfinite(values).sum() >= MOSTLY * filled.sum():
        return _numbers(table, few, values, n)
    if (dates := _dates(table, few)) is not None:
        return dates
    if problem := _other_decimal(table, text, values, decimal):
        return replace(text, contents="numbers in another notation", problems=(problem,))
    all_different = n == filled.sum() > 2
    if n <= MOST_LEVELS and not all_different:
        return replace(few, kind="category", contents=f"{n} categories{gaps}")
    if problem := _with_units(table, few):
        return replace(text, contents="numbers with a unit or currency", problems=(problem,))
    return replace(few, kind="id") if all_different else text


def _numbers(table: CsvTable, column: Column, values: np.ndarray, n_different: int) -> Column:
    """Return the column as one of numbers, with bad cells where some are none."""
    name, number = column.name, np.isfinite(values)
    bad = ~column.missing & ~number
    column = replace(column, values=values)
    if bad.any():
        hint = f"; or write categorical: [{yaml_text(name)}]" if n_different <= MOST_LEVELS else ""
        says = f"is not a number; add it to data.missing or mend the cell{hint}"
        problem = row_problem(table, name, bad, lambda cell: f'"{cell}" {says}')
        column = replace(column, problems=(problem,))
    whole = bool((values[number] == np.floor(values[number])).all())
    if whole and n_different == len(values) and not bad.any() and _id_like(name, values):
        return replace(column, kind="id", contents=f"{n_different} different numbers")
    kind, words = ("whole", "whole number") if whole else ("number", "number")
    return replace(column, kind=kind, contents=f"{words}, {missing_words(column.n_missing)}")


def _dates(table: CsvTable, column: Column) -> Column | None:
    """Return the column as one of dates, None if it mostly holds others."""
    gaps = column.missing
    cells = ["" if gap else cell for cell, gap in zip(column.labels, gaps, strict=True)]
    readings = date_formats(cells)
    dated = np.zeros(len(cells), dtype=bool)
    for days in readings.values():
        dated |= np.isfinite(days)
    if not dated.any() or dated.sum() < MOSTLY * (~gaps).sum():
        return None
    date_format, days = next(iter(readings.items()))
    problems = []
    if len(readings) > 1:
        problems.append(_two_formats(table, column.name, readings))
    bad = ~gaps & ~dated
    if bad.any():
        says = f"is not a date like {date_format}; add it to data.missing or mend the cell"
        problems.append(row_problem(table, column.name, bad, lambda cell: f'"{cell}" {says}'))
    contents = f"dates, {date_text(np.nanmin(days))} to {date_text(np.nanmax(days))}"
    if date_format == "DD/MM/YYYY" and np.isfinite(parse_dates(cells, "MM/DD/YYYY"))[dated].all():
        contents += " (read as DD/MM/YYYY; it could be MM/DD/YYYY)"
    contents += f", {missing_words(column.n_missing)}" if gaps.any() else ""
    return replace(
        column, kind="date", contents=contents, values=days, date_format=date_format,
        problems=tuple(problems),
    )  # fmt: skip


def _two_formats(table: CsvTable, name: str, readings: dict[str, np.ndarray]) -> str:
    formats = list(readings)[:2]
    one, other = (np.isfinite(readings[words]) for words in formats)
    places = [int(np.flatnonzero(one & ~other)[0]), int(np.flatnonzero(other & ~one)[0])]
    first, second = (
        f'row {table.rows[i]} has "{table.columns[name][i]}" ({words})'
        for i, words in sorted(zip(places, formats, strict=True))
    )
    return f"column {name}: dates in two formats, {first} and {second}; write them in one"


def _other_decimal(table: CsvTable, column: Column, values: np.ndarray, decimal: str) -> str | None:
    """Return one line if the column mostly holds numbers with the other decimal mark, or with
    digits in groups of thousands."""
    other = "," if decimal == "." else "."
    filled = ~column.missing
    cells = column.labels.tolist()
    groups = [THOUSANDS.fullmatch(cell) for cell in cells]
    grouped = np.array([match is not None for match in groups])
    readable = np.isfinite(parse_numbers(cells, other)) | np.isfinite(values) | grouped
    if (readable & filled).sum() < MOSTLY * filled.sum():
        return None
    odd = readable & filled & ~np.isfinite(values)
    place = int(np.flatnonzero(odd)[0])
    says = (
        f'looks like a number with the decimal mark {other!r}; write decimal: "{other}" under data'
    )
    found = [match for match, is_odd in zip(groups, odd, strict=True) if match and is_odd]
    if len(found) == odd.sum():
        mark = found[0]["mark"]
        says = f"has its thousands set off by {mark!r}; take the marks out"
        if mark == other and not any(match["rest"] for match in found):
            says = (
                f"has its thousands set off by {other!r}, or that is a decimal mark; take the marks "
                f'out, or write decimal: "{other}" under data'
            )
    return f'row {table.rows[place]}, column {column.name}: "{cells[place]}" {says}'


def _with_units(table: CsvTable, column: Column) -> str | None:
    """Return one line if the column mostly holds numbers, some with a unit, such as 12.5 % or $3."""
    cells = column.labels.tolist()
    bare = [UNITS.sub(r"\1", cell) for cell in cells]
    amounts = ~column.missing & np.array([bool(AMOUNT.fullmatch(cell)) for cell in bare])
    with_unit = amounts & np.array([plain != cell for plain, cell in zip(bare, cells, strict=True)])
    if amounts.sum() < MOSTLY * (~column.missing).sum() or not with_unit.any():
        return None
    says = "is a number with a unit or currency; write the numbers of this column alone"
    return row_problem(table, column.name, with_unit, lambda cell: f'"{cell}" {says}')


def _id_like(name: str, values: np.ndarray) -> bool:
    """Return whether different whole numbers are an id: by the name, or by a weaker name if they
    are numbered through."""
    words = name_words(name)
    if words & ID_WORDS or name.lower() == INDEX_NAME:
        return True
    return bool(words & COUNTER_WORDS) and np.ptp(values) == len(values) - 1
