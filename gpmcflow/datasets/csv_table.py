"""Read a CSV file as text, so that every complaint can name the column and the row."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gpmcflow.errors import InputError, InputErrors, unknown_name
from gpmcflow.storage.input_files import is_file

MISSING = {"", "na", "n/a", "nan", "null", "?"}
SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file as strings, their white space tidied to single blanks.

    `columns` maps a name to its cells; `rows` are the cells' 1-based rows in the file, the header
    being row 1; `empty_rows` those of the rows that hold separators only; `checksum` is the SHA-256
    of the file.
    """

    path: Path
    columns: dict[str, list[str]]
    rows: np.ndarray
    empty_rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    checksum: str = ""

    def take(self, places: np.ndarray) -> CsvTable:
        """Return the table of some of its cases, by their places 0..n-1."""
        chosen = places.tolist()
        columns = {name: [cells[i] for i in chosen] for name, cells in self.columns.items()}
        return replace(self, columns=columns, rows=self.rows[places])

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
        values = np.array([number_of(cell) for cell in self.columns[name]])
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            more = f" ({len(bad) - 1} more such cells in this column)" if len(bad) > 1 else ""
            cell = self.columns[name][bad[0]]
            raise self._wrong_cell(name, self.rows[bad[0]], cell, "a finite number", more)
        return values

    def _wrong_cell(self, name: str, row: int, cell: str, allowed: str, more: str) -> InputError:
        shown = f"missing value {cell!r}" if cell.lower() in MISSING else repr(cell)
        return InputError(
            f"{self.path}: column {name!r}, row {row}: found {shown}, allowed: {allowed}{more}; "
            "correct the file or drop the row"
        )


def read_csv(path: Path, separator: str = ",", index_name: str | None = None) -> CsvTable:
    """Return the table of a separated UTF-8 file with one header row.

    Lines with no cell filled in are left out. A first column without a name, as programs write an
    index, is called `index_name` where that is given. Raises InputError for a file that is missing,
    unreadable or empty, and InputErrors for headers with an empty or repeated name and for rows
    that are longer or shorter than the header.
    """
    if not is_file(path):
        raise InputError(f"{path}: no such file; give the path of an existing CSV file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); check its permissions") from None
    records, empty_rows = _read_records(path, data, separator)
    if not records:
        raise InputError(f"{path}: the file is empty; allowed: a header row and data rows")
    names = records[0][1]
    if index_name is not None and not names[0] and index_name not in names:
        names[0] = index_name
    problems = _header_problems(path, names)
    if len(records) == 1:
        problems.append(f"{path}: found a header and no data rows; add the cases below it")
    wrong = [(row, len(cells)) for row, cells in records[1:] if len(cells) != len(names)]
    if wrong:
        more = f" ({len(wrong) - 1} more such rows)" if len(wrong) > 1 else ""
        problems.append(
            f"{path}: row {wrong[0][0]} has {wrong[0][1]} cells, the header has {len(names)}{more}; "
            "correct the row"
        )
    if problems:
        raise InputErrors(problems)
    rows = np.array([row for row, _ in records[1:]], dtype=np.int64)
    cells_by_column = zip(*(cells for _, cells in records[1:]), strict=True)
    columns = {name: list(cells) for name, cells in zip(names, cells_by_column, strict=True)}
    return CsvTable(path, columns, rows, empty_rows, hashlib.sha256(data).hexdigest())


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank, "" if there is none."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
            return next((line for line in stream if line.strip()), "")
    except OSError:
        return ""  # whoever reads the whole file says why


def find_separator(path: Path) -> str:
    """Return the separator, of comma, semicolon and tab, that cuts the header into most columns."""
    header = first_line(path)
    counts = [len(next(csv.reader([header], delimiter=mark), [])) for mark in SEPARATORS]
    return SEPARATORS[int(np.argmax(counts))]


def _read_records(
    path: Path, data: bytes, separator: str
) -> tuple[list[tuple[int, list[str]]], np.ndarray]:
    """Return the rows with any cell filled in, each as its first line in the file and its cells;
    and the lines of the data rows with none."""
    records, empty_rows, next_line = [], [], 1
    try:
        stream = io.StringIO(data.decode("utf-8-sig"), newline="")
        reader = csv.reader(stream, delimiter=separator, strict=True)
        for cells in reader:
            line, next_line = next_line, reader.line_num + 1
            tidy = [" ".join(cell.split()) for cell in cells]
            if any(tidy):
                records.append((line, tidy))
            elif len(tidy) > 1 and records:
                empty_rows.append(line)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}, row {line}); save it as CSV in UTF-8"
        ) from None
    except csv.Error as error:
        raise InputError(
            f"{path}: row {next_line}: cannot be read as separated text ({error}); "
            "check the quotes in that row"
        ) from None
    return records, np.array(empty_rows, dtype=np.int64)


def _header_problems(path: Path, names: list[str]) -> list[str]:
    problems = []
    for position, name in enumerate(names, start=1):
        if not name:
            problems.append(
                f"{path}: column {position} has no name in the header (an index column?); "
                "name it or drop the column"
            )
        elif names.index(name) < position - 1:
            problems.append(
                f"{path}: columns {names.index(name) + 1} and {position} are both named {name!r}; "
                "rename one"
            )
    return problems


def number_of(cell: str) -> float:
    """The number in a cell, with either minus, NaN where there is none; 1_5 is a name, not 15."""
    try:
        return math.nan if "_" in cell else float(cell.replace("\u2212", "-"))
    except ValueError:
        return math.nan
