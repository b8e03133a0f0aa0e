"""Read a CSV file as text, its cells as numbers, labels or nothing; complaints name column and row."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gc
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpmcflow.errors import InputError, InputErrors, unknown_name
from gpmcflow.storage.input_files import is_file

# Read a CSV file as text, so that every complaint can name the column and the row.

MISSING = {"", "na", "n/a", "nan", "null", "?"}
SEPARATORS = (",", ";", "\t")
SPACE = " "  # or several: the columns of tables in text are often aligned by them
SEPARATOR_LINE = re.compile(r'"?sep=(?P<mark>[,;]|\t|\\t|)"?', re.IGNORECASE)  # for Excel
BEFORE_LINE_END = re.compile(r"[ \t]+(?=[\r\n]|\Z)")  # spaces that part nothing
FIRST_LINES, FIRST_BYTES = 50, 65536  # of a file, to find its separator and its header
WAYS: tuple[dict[str, Any], ...] = (  # of csv, the first that can read a file
    {"skipinitialspace": True},
    {"skipinitialspace": True, "escapechar": "\\"},
    {},
)
MOST_TITLES = 10  # lines above a header
ROWS_AT_ONCE = 10_000  # made columns of, so that no step of a large file takes seconds


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file as strings, their white space tidied to single blanks.

    `columns` maps a name to its cells; `rows` are the cells' 1-based lines in the file; `empty_rows`
    those of the rows that hold separators only; `checksum` is the SHA-256 of the file. `notes` are
    lines on how the file was read, where it is not plain UTF-8 that begins with its header.
    """

    path: Path
    columns: dict[str, list[str]]
    rows: np.ndarray
    empty_rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    checksum: str = ""
    notes: tuple[str, ...] = ()
    separator: str = ","

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


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No passes of the garbage collector: each looks at all rows so far, for seconds, and finds nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_uncollected()
def read_csv(path: Path, separator: str = ",", index_name: str | None = None) -> CsvTable:
    """Return the table of a separated text file with one header row.

    The text is UTF-8, UTF-16 with its mark, or else Windows-1252. A line that states the separator
    (``sep=;``), comments and titles above the header are skipped, and lines with no cell filled in are
    left out. A first column without a name, as programs write an index, is called `index_name` where
    that is given. Raises InputError for a file that is missing, unreadable or empty, and InputErrors
    for headers with an empty or repeated name and for rows that are longer or shorter than the header.
    """
    if not is_file(path):
        raise InputError(f"{path}: no such file; give the path of an existing CSV file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); check its permissions") from None
    text, notes = _decoded(data)
    if "\0" in text:
        raise InputError(f"{path}: holds bytes that no text has; save the table as CSV in UTF-8")
    records, empty_rows = _read_records(path, text, separator)
    above = _lines_above(records)
    titles = [" ".join(filter(None, cells)) for _, cells in records[:above]]
    titles = [title for title in titles if not SEPARATOR_LINE.match(title)]
    if titles:
        n = len(titles)
        notes.append(
            f'{n} line{"s" * (n > 1)} above the header skipped, the first: "{titles[0][:60]}"'
        )
    records = records[above:]
    if not records:
        raise InputError(f"{path}: the file is empty; allowed: a header row and data rows")
    names = records[0][1]
    if separator == SPACE and _named(records) > len(names):
        names.insert(0, "")
    if index_name is not None and not names[0]:
        names[0] = UNNAMED if index_name in names else index_name
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
    columns: dict[str, list[str]] = {name: [] for name in names}
    for first in range(1, len(records), ROWS_AT_ONCE):
        some = zip(*(cells for _, cells in records[first : first + ROWS_AT_ONCE]), strict=True)
        for name, cells in zip(names, some, strict=True):
            columns[name] += cells
    checksum = hashlib.sha256(data).hexdigest()
    return CsvTable(path, columns, rows, empty_rows, checksum, tuple(notes), separator)


def header_line(path: Path) -> str:
    """Return the line of the header of a file, "" if there is none."""
    separator = find_separator(path)
    lines = _first_lines(path)
    records, _ = _read_records(path, "".join(lines), separator, strict=False)
    above = _lines_above(records)
    return lines[records[above][0] - 1] if above < len(records) else ""


def find_separator(path: Path) -> str:
    """Return the separator, of comma, semicolon and tab, that cuts most of the first lines alike.

    A cut is alike where it gives the same number of cells. A tie goes to the separator with more cells. Where
    none of them stands in a line, it is the space if that cuts all lines alike, as R's write.table does.
    """
    lines = _first_lines(path)
    if lines and (stated := SEPARATOR_LINE.fullmatch(lines[0].strip())):
        return stated["mark"] if stated["mark"] in SEPARATORS else "\t"
    scores = []
    for mark in SEPARATORS:
        records, _ = _read_records(path, "".join(lines), mark, strict=False)
        widths = Counter(len(cells) for _, cells in records if len(cells) > 1)
        width, alike = max(widths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        scores.append((alike, width))
    if not any(alike for alike, _ in scores):
        records, _ = _read_records(path, "".join(lines), SPACE, strict=False)
        widths = {len(cells) for _, cells in records[1:]}
        if len(widths) == 1 and len(records[0][1]) > 1 and widths == {_named(records)}:
            return SPACE
    return SEPARATORS[max(range(len(SEPARATORS)), key=lambda k: (scores[k], -k))]


def _named(records: list[tuple[int, list[str]]]) -> int:
    """Cells of the header; one more where all rows begin with a row name, which R writes no name above."""
    n = len(records[0][1])
    rows = {len(cells) for _, cells in records[1:]}
    return n + 1 if rows == {n + 1} else n


def _first_lines(path: Path) -> list[str]:
    """The first lines of a file; none if it cannot be read, which whoever reads it all reports."""
    try:
        with path.open("rb") as stream:
            data = stream.read(FIRST_BYTES)
    except OSError:
        return []
    text, _ = _decoded(data)
    lines = text.splitlines(keepends=True)
    cut = len(data) == FIRST_BYTES and len(lines) > 1  # the last line may go on
    return lines[: -1 if cut else None][:FIRST_LINES]


def _decoded(data: bytes) -> tuple[str, list[str]]:
    """Return the text of a file, and a line if it is not UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace"), ["read as UTF-16"]
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        if len(data) - error.start < 4 and len(data) == FIRST_BYTES:  # cut within a character
            return data[: error.start].decode("utf-8-sig"), []
        line = data.count(b"\n", 0, error.start) + 1
    return (
        data.decode("cp1252", errors="replace"),
        [f"read as Windows-1252, as line {line} is not UTF-8"],
    )


def _lines_above(records: list[tuple[int, list[str]]]) -> int:
    """Return how many of the first records are no header: sep=, comments, and titles of one cell.

    A title is above a record with all its cells filled in, of as many cells as most records have.
    """
    count = 0
    if records and SEPARATOR_LINE.fullmatch(",".join(records[0][1]).strip('"')):
        count = 1
    widths = Counter(len(cells) for _, cells in records[count:FIRST_LINES])
    width = max(widths, key=lambda n: (widths[n], n), default=1)
    for place in range(count, min(count + MOST_TITLES, len(records))):
        cells = records[place][1]
        if len(cells) == width and (sum(map(bool, cells)) > 1 or width == 1):
            names = all(cells) and np.isnan([number_of(cell) for cell in cells]).all()
            return place if place == count or names else count
    return count


def _read_records(
    path: Path, text: str, separator: str, *, strict: bool = True
) -> tuple[list[tuple[int, list[str]]], np.ndarray]:
    """Return the rows with any cell filled in, each as its first line in the file and its cells;
    and the lines of the data rows with none.

    Blanks before a cell are left out, before its quotes too, and a quote within a cell is doubled or stands
    behind a backslash. A file that cannot be read so is read with the blanks as part of the cells.
    """
    text = BEFORE_LINE_END.sub("", text) if separator == SPACE else text
    problems = []
    for way in WAYS if strict else WAYS[:1]:
        records, empty_rows, problem = _parsed(text, delimiter=separator, strict=strict, **way)
        if not problem or not strict:
            return records, np.array(empty_rows, dtype=np.int64)
        problems.append(problem)
    raise InputError(f"{path}: {problems[0]}; check the quotes in that row")


def _parsed(text: str, **way: Any) -> tuple[list[tuple[int, list[str]]], list[int], str]:
    """Return what `_read_records` does, and what is wrong with the first row that csv cannot read so."""
    records: list[tuple[int, list[str]]] = []
    empty_rows, next_line = [], 1
    reader = csv.reader(io.StringIO(text, newline=""), **way)
    try:
        for cells in reader:
            line, next_line = next_line, reader.line_num + 1
            tidy = [" ".join(cell.split()) for cell in cells]
            if any(tidy):
                records.append((line, tidy))
            elif len(tidy) > 1 and records:
                empty_rows.append(line)
    except csv.Error as error:
        return records, empty_rows, f"row {next_line}: cannot be read as separated text ({error})"
    return records, empty_rows, ""


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


# Cells of a table read as numbers, labels or nothing.

UNNAMED = "Unnamed: 0"  # what pandas calls a first column without a name
MISSING_WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "?")
THOUSANDS = re.compile(  # grouped digits, as 1,234.50; 1,234 may have a decimal mark
    r"[+\u2212-]?[1-9]\d{0,2}(?P<mark>[.,'’ ])\d{3}(?:(?P=mark)\d{3})*(?P<rest>(?!(?P=mark))[.,]\d+)?"
)
SIGNS = frozenset("$€£¥%‰°,.'’ ")  # beside or within a number
CLOCK = re.compile(  # a time of day, or a duration
    r"(?P<hour>\d{1,3}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d+)?))?(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
UNIT = re.compile(r"^([+\u2212-]?)\s*[$€£¥]\s*|\s*[%‰°$€£¥]$")  # before or behind a number


def missing_cells(cells: Sequence[str], words: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return which cells are empty or one of the words for "no value"; -999 is also -999.0."""
    no_value = {"", *words}
    empty = np.array([cell in no_value for cell in cells], dtype=bool)
    numbers = parse_numbers(words)
    numbers = numbers[np.isfinite(numbers)]
    return empty | np.isin(parse_numbers(cells, decimal), numbers) if len(numbers) else empty


def parse_numbers(cells: Sequence[str], decimal: str = ".", *, clocks: bool = True) -> np.ndarray:
    """Return the cells as float64, NaN for those that are no finite number.

    A currency sign or a percent sign beside a number is left out ("12 %" is 12), and so are marks between
    groups of three digits other than the decimal mark ("1,234.5" is 1234.5). Times of day are hours ("08:30"
    is 8.5) with `clocks`, where no cell is another number or beyond 24:00, as minutes and seconds are.
    """
    values = plain_numbers(cells, decimal)
    odd = np.isnan(values)
    if clocks and odd.all() and any(CLOCK.fullmatch(cell) for cell in cells if ":" in cell):
        hours = np.array([hours_of(cell) for cell in cells])
        return values if np.nanmax(hours) > 24.0 else hours
    if odd.any():
        values[odd] = [amount_of(cells[i], decimal) for i in np.flatnonzero(odd)]
    return values


def hours_of(cell: str) -> float:
    """The hours of a clock time such as 8:30, 08:30:15 or 8:30 pm, NaN where there is none."""
    if (match := CLOCK.fullmatch(cell)) is None:
        return math.nan
    hour = int(match["hour"])
    if half := match["half"]:
        hour = hour % 12 + 12 * (half in "pP")
    return hour + int(match["minute"]) / 60.0 + float(match["second"] or 0.0) / 3600.0


def plain_numbers(cells: Sequence[str], decimal: str) -> np.ndarray:
    """Return the cells as float64, NaN for those with any sign other than the decimal mark."""
    texts = cells if decimal != "," else [_with_point(cell) for cell in cells]
    try:  # most columns of numbers are plain; others mostly fail at the first cell
        if "_" in "".join(texts):
            raise ValueError("a mark that Python leaves out of numbers")
        values = np.array([float(cell) if cell else math.nan for cell in texts])
    except ValueError:
        values = np.array([number_of(cell) for cell in texts], dtype=float)
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
    return number_of(_with_point(cell) if decimal == "," else cell)


def _with_point(cell: str) -> str:
    """A cell with a decimal comma as Python writes numbers; nothing where there is a point."""
    return cell.replace(",", ".") if "." not in cell else ""


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
