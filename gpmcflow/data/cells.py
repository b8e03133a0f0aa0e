"""Cells of a table read as numbers, labels or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpmcflow.data.csv_table import CsvTable, number_of

MISSING_WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "?")
THOUSANDS = re.compile(  # grouped digits, as 1,234.50; 1,234 may have a decimal mark
    r"[+\u2212-]?[1-9]\d{0,2}(?P<mark>[.,'’ ])\d{3}(?:(?P=mark)\d{3})*(?P<rest>(?!(?P=mark))[.,]\d+)?"
)
SIGNS = frozenset("$€£¥%‰°,.'’ ")  # beside or within a number
UNIT = re.compile(r"^([+\u2212-]?)\s*[$€£¥]\s*|\s*[%‰°$€£¥]$")  # before or behind a number


def missing_cells(cells: Sequence[str], words: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return which cells are empty or one of the words for "no value"; -999 is also -999.0."""
    no_value = {"", *words}
    empty = np.array([cell in no_value for cell in cells], dtype=bool)
    numbers = parse_numbers(words)
    numbers = numbers[np.isfinite(numbers)]
    return empty | np.isin(parse_numbers(cells, decimal), numbers) if len(numbers) else empty


def parse_numbers(cells: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return the cells as float64, NaN for those that are no finite number.

    A currency sign or a percent sign beside a number is left out ("12 %" is 12), and so are marks between
    groups of three digits other than the decimal mark ("1,234.5" is 1234.5).
    """
    values = plain_numbers(cells, decimal)
    odd = np.isnan(values)
    if odd.any():
        values[odd] = [amount_of(cells[i], decimal) for i in np.flatnonzero(odd)]
    return values


def plain_numbers(cells: Sequence[str], decimal: str) -> np.ndarray:
    """Return the cells as float64, NaN for those with any sign other than the decimal mark."""
    values = np.array([_plain_number(cell, decimal) for cell in cells], dtype=float)
    values[np.isinf(values)] = np.nan
    return values


def amount_of(cell: str, decimal: str) -> float:
    """The number in a cell such as "$1,234.50" or "12 %", NaN where there is none."""
    if not any(letter.isdigit() for letter in cell):
        return np.nan
    bare = UNIT.sub(r"\1", cell)
    grouped = THOUSANDS.fullmatch(bare)
    if grouped and grouped["mark"] != decimal:
        bare = bare.replace(grouped["mark"], "")
    elif bare == cell:
        return np.nan
    return _plain_number(bare, decimal)


def _plain_number(cell: str, decimal: str) -> float:
    if decimal == ",":
        cell = cell.replace(",", ".") if "." not in cell else ""
    return number_of(cell)


def plain_labels(cells: Sequence[str], values: np.ndarray | None) -> np.ndarray:
    """Return the cells as labels; `values`, if all cells are numbers, make 1 and 1.0 one label.

    Numbers with more digits than 15, such as long codes, are labels as they are written.
    """
    if values is None:
        return np.asarray(cells, dtype=object)
    labels = [
        f"{value:.15g}" if not abs(value) >= 1e15 else cell
        for cell, value in zip(cells, values, strict=True)
    ]
    return np.array(labels, dtype=object)


def row_problem(table: CsvTable, name: str, bad: np.ndarray, says: Callable[[str], str]) -> str:
    """Return one line about the first bad cell of a column, with the number of the others."""
    first = int(np.flatnonzero(bad)[0])
    more = int(bad.sum()) - 1
    others = f" ({more} more in this column)" if more else ""
    cell = table.columns[name][first]
    return f"row {table.rows[first]}, column {name}: {says(cell)}{others}"
