"""Cells of a table read as numbers, labels or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpmcflow.datasets.csv_table import CsvTable, number_of

MISSING_WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "?")
THOUSANDS = re.compile(  # grouped digits, as 1,234.50; 1,234 may have a decimal mark
    r"[+\u2212-]?[1-9]\d{0,2}(?P<mark>[.,'’ ])\d{3}(?:(?P=mark)\d{3})*(?P<rest>(?!(?P=mark))[.,]\d+)?"
)


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
    values = np.array([number_of(cell) for cell in cells], dtype=float)
    values[np.isinf(values)] = np.nan
    return values


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
