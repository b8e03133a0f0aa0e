"""Read a CSV file as text, so that every complaint can name the column and the row."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpmcflow.errors import InputError, unknown_name

MISSING = {"", "na", "n/a", "nan", "null", "?"}


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file as strings, their white space tidied to single blanks.

    `columns` maps a name to its cells; `rows` are the cells' 1-based rows in the file, the header
    being row 1.
    """

    path: Path
    columns: dict[str, list[str]]
    rows: np.ndarray

    def require(self, name: str) -> list[str]:
        """Return the cells of a target column, none of them missing."""
        if name not in self.columns:
            error = unknown_name(f"{self.path}: target column", name, self.columns)
            if len(self.columns) == 1:
                error = InputError(f"{error}; the file has one column: is it comma-separated?")
            raise error
        cells = self.columns[name]
        for row, cell in zip(self.rows, cells, strict=True):
            if cell.lower() in MISSING:
                raise self._wrong_cell(name, row, cell, "a value", "")
        return cells

    def numbers(self, name: str) -> np.ndarray:
        """Return a column as float64; raise InputError at the first cell that is no finite one."""
        values = np.array([_number(cell) for cell in self.columns[name]])
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            more = f" ({len(bad) - 1} more such cells in this column)" if len(bad) > 1 else ""
            cell = self.columns[name][bad[0]]
            raise self._wrong_cell(name, self.rows[bad[0]], cell, "a finite number", more)
        return values

    def _wrong_cell(self, name: str, row: int, cell: str, allowed: str, more: str) -> InputError:
        found = f"missing value {cell!r}" if cell.lower() in MISSING else repr(cell)
        return InputError(
            f"{self.path}: column {name!r}, row {row}: found {found}, allowed: {allowed}{more}; "
            "correct the file or drop the row"
        )


def read_csv(path: Path) -> CsvTable:
    """Return the table of a comma-separated UTF-8 file with one header row.

    Lines with no cell filled in are left out. Raises InputError for a file that is missing,
    unreadable or empty, for a header with an empty or repeated name, and for a row that is longer
    or shorter than the header.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the path of an existing CSV file")
    records = _read_records(path)
    if not records:
        raise InputError(f"{path}: the file is empty; allowed: a header row and data rows")
    names = records[0][1]
    _check_header(path, names)
    if len(records) == 1:
        raise InputError(f"{path}: found a header and no data rows; add the cases below it")
    for row, cells in records[1:]:
        if len(cells) != len(names):
            raise InputError(
                f"{path}: row {row} has {len(cells)} cells, the header has {len(names)}; "
                "correct the row"
            )
    rows = np.array([row for row, _ in records[1:]], dtype=np.int64)
    cells_by_column = zip(*(cells for _, cells in records[1:]), strict=True)
    columns = {name: list(cells) for name, cells in zip(names, cells_by_column, strict=True)}
    return CsvTable(path, columns, rows)


def _read_records(path: Path) -> list[tuple[int, list[str]]]:
    """Return the rows with any cell filled in, each as its first line in the file and its cells."""
    records, next_line = [], 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            for cells in reader:
                line, next_line = next_line, reader.line_num + 1
                tidy = [" ".join(cell.split()) for cell in cells]
                if any(tidy):
                    records.append((line, tidy))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}); save it as CSV in UTF-8"
        ) from None
    except (OSError, csv.Error) as error:
        raise InputError(
            f"{path}: row {next_line}: cannot be read as comma-separated text ({error}); "
            "check the quotes in that row and the file's permissions"
        ) from None
    return records


def _check_header(path: Path, names: list[str]) -> None:
    for position, name in enumerate(names, start=1):
        if not name:
            raise InputError(
                f"{path}: column {position} has no name in the header (an index column?); "
                "name it or drop the column"
            )
        if names.index(name) < position - 1:
            raise InputError(
                f"{path}: columns {names.index(name) + 1} and {position} are both named {name!r}; "
                "rename one"
            )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
