"""What the columns of a table hold: numbers, dates, categories, an id, or nothing of use."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gpmcflow.datasets.csv_table import CsvTable
from gpmcflow.datasets.dates import date_formats, date_text

MISSING_WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "?")
MOST_LEVELS = 20  # text with more different values is no category, unless the settings say so
MOSTLY = 0.8  # a column with this share of numbers (dates) is one of numbers (dates)
ID_WORDS = {"id", "ids", "uuid", "guid", "identifier", "index", "key"}
COUNTER_WORDS = {"nr", "no", "num", "number", "code", "row", "case", "record", "subject"}


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    `kind` is "number", "whole", "category", "date", "id", "constant", "empty" or "text"; `found`
    says it in words; `missing` marks the cells without a value, `n_missing` counts them. `levels`
    are the different values, most frequent first, where there are at most 20 or they are
    categories. `values` are numbers, or days since 1970-01-01 (NaN where missing or bad), else
    None; `labels` are the cells, numbers among them in one spelling. `problems` are lines about
    cells that are not what the column is.
    """

    name: str
    kind: str
    found: str
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


def missing_cells(cells: Sequence[str], words: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return which cells are empty or one of the words for "no value"; -999 is also -999.0."""
    no_value = {"", *words}
    empty = np.array([cell in no_value for cell in cells], dtype=bool)
    numbers = parse_numbers(words)
    numbers = numbers[np.isfinite(numbers)]
    return empty | np.isin(parse_numbers(cells, decimal), numbers) if len(numbers) else empty


def parse_numbers(cells: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return the cells as float64, NaN for those that are no finite number."""
    if decimal == ",":
        cells = [cell.replace(",", ".") if "." not in cell else "" for cell in cells]
    values = np.array([_number(cell) for cell in cells], dtype=float)
    values[np.isinf(values)] = np.nan
    return values


def plain_labels(cells: Sequence[str], values: np.ndarray | None) -> np.ndarray:
    """Return the cells as labels; `values`, if all cells are numbers, make 1 and 1.0 one label."""
    if values is None:
        return np.asarray(cells, dtype=object)
    return np.array([f"{value:.15g}" for value in values], dtype=object)


def row_problem(table: CsvTable, name: str, bad: np.ndarray, says: Callable[[str], str]) -> str:
    """Return one line about the first bad cell of a column, with the number of the others."""
    first = int(np.flatnonzero(bad)[0])
    more = int(bad.sum()) - 1
    others = f" ({more} more in this column)" if more else ""
    cell = table.columns[name][first]
    return f"row {table.rows[first]}, column {name}: {says(cell)}{others}"


def name_words(name: str) -> set[str]:
    """Return the words of a column's name, in small letters: patientID -> patient, id."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+", name)
    return {word.lower() for word in words}


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
    number = np.isfinite(values)
    all_numbers = bool(number[filled].all())
    labels = plain_labels(cells, values if all_numbers else None)
    counts = Counter(labels[filled].tolist())
    levels = tuple(sorted(counts, key=lambda level: (-counts[level], level)))
    few = levels if len(levels) <= MOST_LEVELS else ()
    numeric = values if all_numbers else None
    base = {"missing": no_value, "labels": labels}
    complete = f", {missing_words(no_value.sum())}" if no_value.any() else ""
    if categorical and (len(levels) > 1 or no_value.any()):
        found = f"{len(levels)} categor{'y' if len(levels) == 1 else 'ies'}{complete}"
        return Column(name, "category", found, levels=levels, values=numeric, **base)
    if len(levels) == 1:
        where = f" where filled in{complete}" if complete else ""
        found = f"always the same{where}"
        return Column(name, "constant", found, levels=levels, values=numeric, **base)
    if number.sum() >= MOSTLY * filled.sum():
        problems = _bad_numbers(table, name, filled & ~number, len(levels))
        base |= {"values": values, "levels": few, "problems": problems}
        whole = bool((values[number] == np.floor(values[number])).all())
        if all_numbers and whole and len(levels) == len(cells) and _id_like(name, values):
            return Column(name, "id", f"{len(levels)} different numbers", **base)
        kind, found = ("whole", "whole number") if whole else ("number", "number")
        return Column(name, kind, f"{found}, {missing_words(no_value.sum())}", **base)
    readings = date_formats([cell if use else "" for cell, use in zip(cells, filled, strict=True)])
    dated = np.zeros(len(cells), dtype=bool)
    for days in readings.values():
        dated |= np.isfinite(days)
    if dated.sum() >= MOSTLY * filled.sum():
        date_format, days = next(iter(readings.items()))
        problems = _bad_dates(table, name, filled & ~dated, readings)
        span = f"{date_text(np.nanmin(days))} to {date_text(np.nanmax(days))}"
        if date_format == "DD/MM/YYYY" and "MM/DD/YYYY" not in readings and _ambiguous(cells):
            span += " (read as DD/MM/YYYY; it could be MM/DD/YYYY)"
        return Column(
            name, "date", f"dates, {span}{complete}", levels=few, values=days,
            date_format=date_format, problems=problems, **base,
        )  # fmt: skip
    other = "," if decimal == "." else "."
    comma = np.isfinite(parse_numbers(cells, other))
    if comma[filled].sum() >= MOSTLY * filled.sum():
        hint = (
            f"looks like a number with the decimal mark {other!r}; write decimal: "
            f'"{other}" under data'
        )
        line = row_problem(
            table, name, comma & filled & ~number, lambda cell: f'"{cell}" {hint}'
        ).split(" (")[0]
        return Column(name, "text", "numbers with another decimal mark", problems=(line,), **base)
    if len(levels) == filled.sum() > 2:
        return Column(name, "id", f"{len(levels)} different texts", levels=few, **base)
    if len(levels) <= MOST_LEVELS:
        return Column(name, "category", f"{len(levels)} categories{complete}", levels=few, **base)
    return Column(name, "text", f"{len(levels)} different texts{complete}", **base)


def _number(cell: str) -> float:
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _id_like(name: str, values: np.ndarray) -> bool:
    """Return whether different whole numbers are an id: by the name, or by a weaker name if they
    are numbered through."""
    words = name_words(name)
    return bool(words & ID_WORDS) or (
        bool(words & COUNTER_WORDS) and np.ptp(values) == len(values) - 1
    )


def _bad_numbers(table: CsvTable, name: str, bad: np.ndarray, n_different: int) -> tuple[str, ...]:
    if not bad.any():
        return ()
    hint = f"; or write categorical: [{name}]" if n_different <= MOST_LEVELS else ""
    return (
        row_problem(
            table,
            name,
            bad,
            lambda cell: f'"{cell}" is not a number; add it to data.missing or mend the cell{hint}',
        ),
    )


def _bad_dates(
    table: CsvTable, name: str, bad: np.ndarray, readings: dict[str, np.ndarray]
) -> tuple[str, ...]:
    problems = []
    formats = list(readings)
    if len(formats) > 1:
        first, other = (np.isfinite(readings[words]) for words in formats[:2])
        rows = [int(np.flatnonzero(first & ~other)[0]), int(np.flatnonzero(other & ~first)[0])]
        one, two = (
            f'row {table.rows[i]} has "{table.columns[name][i]}" ({words})'
            for i, words in sorted(zip(rows, formats[:2], strict=True))
        )
        problems.append(f"column {name}: dates in two formats, {one} and {two}; write them in one")
    if bad.any():
        problems.append(
            row_problem(
                table,
                name,
                bad,
                lambda cell: (
                    f'"{cell}" is not a date like {formats[0]}; add it to data.missing '
                    "or mend the cell"
                ),
            )
        )
    return tuple(problems)


def _ambiguous(cells: Sequence[str]) -> bool:
    """Return whether the cells are dates with day first and with month first."""
    return len(date_formats(cells)) == 1 and all(
        int(part) <= 12 for cell in cells if "/" in cell for part in cell.split("/")[:2]
    )
