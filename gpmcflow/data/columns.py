"""What the columns of a table hold: numbers, dates, categories, an id, or nothing of use."""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import yaml

from gpmcflow.data.csv_table import (
    MISSING_WORDS,
    SIGNS,
    THOUSANDS,
    CsvTable,
    amount_of,
    missing_cells,
    parse_numbers,
    plain_labels,
    row_problem,
)

# Dates, months and quarters as people write them, as days.

_TIME = (
    r"(?:[ T](?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?\s?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_MONTH = r"(?P<name>[^\W\d_]{3,})\.?"
FORMATS = {
    words: re.compile(pattern + _TIME)
    for words, pattern in {
        "YYYY-MM-DD": r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})",
        "YYYY/MM/DD": r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})",
        "YYYYMMDD": r"(?P<y>1[6-9]\d\d|20\d\d)(?P<m>\d{2})(?P<d>\d{2})",
        "YYMMDD": r"(?P<y>\d{2})(?P<m>\d{2})(?P<d>\d{2})",
        "DD.MM.YYYY": r"(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})",
        "DD/MM/YYYY": r"(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>\d{4})",
        "MM/DD/YYYY": r"(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})",
        "DD-MM-YYYY": r"(?P<d>\d{1,2})-(?P<m>\d{1,2})-(?P<y>\d{4})",
        "MM-DD-YYYY": r"(?P<m>\d{1,2})-(?P<d>\d{1,2})-(?P<y>\d{4})",
        "DD.MM.YY": r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{2})",
        "DD/MM/YY": r"(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>\d{2})",
        "MM/DD/YY": r"(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{2})",
        "DD Month YYYY": r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?[ -]*(?:de )?" + _MONTH
        + r"(?: de)?[ ,-]*(?P<y>\d{4})",
        "DD Month YY": r"(?P<d>\d{1,2})[ -]?" + _MONTH + r"[ -]?'?(?P<y>\d{2})",
        "Month DD, YYYY": _MONTH + r"[ -]?(?P<d>\d{1,2})(?:st|nd|rd|th)?,?[ -](?P<y>\d{4})",
        "Month YYYY": _MONTH + r",?[ -]?(?P<y>\d{4})",
        "YYYY Month": r"(?P<y>\d{4})[ -]?" + _MONTH,
        "Month YY": _MONTH + r"[ -]'?(?P<y>\d{2})",
        "YYYY-MM": r"(?P<y>\d{4})[-/](?P<m>\d{1,2})",
        "YYYYMmm": r"(?P<y>\d{4})[ -]?[mM](?P<m>\d{1,2})",
        "MM/YYYY": r"(?P<m>\d{1,2})[/.-](?P<y>\d{4})",
        "YYYY Qq": r"(?P<y>\d{4})[ ./:-]?[qQ](?P<q>[1-4])",
        "MM/YY": r"(?P<m>\d{1,2})/(?P<y>\d{2})",
        "Qq YYYY": r"[qQ](?P<q>[1-4])[ ./:-]?(?P<y>\d{4})",
        "Qq YY": r"[qQ](?P<q>[1-4])[ ./:'-]{0,2}(?P<y>\d{2})",
    }.items()
}  # fmt: skip
NUMERALS = ("YYYYMMDD", "YYMMDD")  # formats of numbers, the second in columns named like dates
TRIED = 100  # different cells, of which some must be dates
PIVOT = 69  # a year of two digits is from 1969 to 2068
_NAMES = """
    january janvier januar jan janv jänner enero ene gennaio gen janeiro januari
    february février februar feb fév févr fevrier febrero febbraio fevereiro fev februari
    march mars märz mar mrz maerz marzo março marco maart mrt
    april avril apr avr abril abr aprile
    may mai mayo maggio mag maio mei
    june juin juni jun junio giugno giu junho
    july juillet juli jul juil julio luglio lug julho
    august août aug aout agosto ago augustus
    september septembre sep sept septiembre settembre set setembro
    october octobre oktober oct okt octubre ottobre ott outubro out
    november novembre nov noviembre novembro
    december décembre dezember dec déc dez decembre diciembre dic dicembre dezembro
"""
MONTHS = {
    name: month for month, line in enumerate(_NAMES.split("\n")[1:13], 1) for name in line.split()
}


def parse_dates(cells: Sequence[str], words: str) -> np.ndarray:
    """Return days since 1970-01-01 (a time of day is a fraction), NaN for what is no such date.

    `words` is a key of `FORMATS`. A month or a quarter is its first day, a time with a zone is taken to UTC.
    """
    codes, different = pd.factorize(np.asarray(cells, dtype=object))
    pattern = FORMATS[words]
    iso = [_iso(pattern.fullmatch(cell)) for cell in different]
    times = pd.to_datetime(
        pd.Series(iso, dtype=object), format="ISO8601", utc=True, errors="coerce"
    )
    since = times.dt.as_unit("us") - pd.Timestamp(0, tz="UTC").as_unit("us")
    days = since / pd.Timedelta(days=1)
    return days.to_numpy(float)[codes]


def date_formats(cells: Sequence[str], *, time: bool = False) -> dict[str, np.ndarray]:
    """Return the days of the cells in each format that any of them has, most cells first.

    Only a column named like a `time` may have months such as 3/98, which elsewhere may be fractions, and
    quarters such as Q1-98, which may be questions.

    Of the two orders of day and month with strokes, the one that fits more cells (day first, if
    both do equally) comes first; the other is there only if it alone reads some cell.
    """
    never = {*NUMERALS} if time else {*NUMERALS, "MM/YY", "Qq YY"}
    tried = {words: pattern for words, pattern in FORMATS.items() if words not in never}
    some = list(dict.fromkeys(filter(None, cells)))[:TRIED]
    if not any(pattern.fullmatch(cell) for pattern in tried.values() for cell in some):
        return {}
    readings = {words: parse_dates(cells, words) for words in tried}
    readings = {words: days for words, days in readings.items() if np.isfinite(days).any()}
    ranked = sorted(readings, key=lambda words: -np.isfinite(readings[words]).sum())
    distinct: dict[str, np.ndarray] = {}
    for words in ranked:
        read = np.isfinite(readings[words])
        if all((read & ~np.isfinite(days)).any() for days in distinct.values()):
            distinct[words] = readings[words]
    return distinct


def looks_like_date(cell: str) -> bool:
    """Return whether a person would take the text for a date, in whatever notation."""
    if re.fullmatch(r"\d{1,4}\s?[-/.]\s?\d{1,2}\s?[-/.]\s?\d{1,4}(?:[ T].*)?", cell):
        return True
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", cell)]
    return any(word in MONTHS for word in words) and bool(re.search(r"\d", cell))


def date_text(days: float, *, times: bool = False) -> str:
    """Return the date of days since 1970-01-01 as YYYY-MM-DD, with ``times`` YYYY-MM-DD HH:MM.

    Rounding errors of midnight aside, days begin at midnight; times are to the nearest minute.
    """
    if times:
        minutes = np.timedelta64(round(days * 1440.0), "m")
        return str(np.datetime64("1970-01-01T00:00") + minutes).replace("T", " ")
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days + 1e-6)), "D"))


def _iso(match: re.Match | None) -> str | None:
    """Return a matched date in ISO form."""
    if match is None:
        return None
    found = match.groupdict()
    year = int(found["y"])
    if len(found["y"]) == 2:
        year += 1900 if year >= PIVOT else 2000
    if found.get("name"):
        month = MONTHS.get(found["name"].lower(), 0)
    else:
        month = 3 * int(found["q"]) - 2 if found.get("q") else int(found["m"])
    date = f"{year:04d}-{month:02d}-{int(found.get('d') or 1):02d}"
    if not found["time"]:
        return date
    hour, rest = found["time"].split(":", 1)
    hour = int(hour)
    if found["half"]:
        hour = hour % 12 + 12 * (found["half"] in "Pp")
    rest = rest[: len("MM:SS.ffffff")]  # a date of nanoseconds could not be after 2262
    return f"{date}T{hour:02d}:{rest}{(found['zone'] or '').replace('UTC', 'Z')}"


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
INDEX_NAME = "index"  # what a first column without a name is called
MOST_LEVELS = 20  # text with more different values is no category, unless the settings say so
MOSTLY = 0.8  # a column with this share of numbers (dates) is one of numbers (dates)
# different words among numbers that are bad cells, where half of the cells are numbers
MANY_WORDS = 3
ALMOST_ALL = 0.8  # text with so many different values among its cells is an id
ID_WORDS = {
    "id", "ids", "uuid", "guid", "identifier", "pid", "sid", "uid", "subjid", "patid", "caseid", "idno",
}  # fmt: skip
NUMBERED = re.compile(r"[a-z](id|Id|ID|no|No|nr|Nr)$")  # ends of names such as docno
COUNTER_WORDS = {
    "index", "key", "nr", "no", "num", "number", "code", "row", "case", "record", "subject",
    "obs", "observation",
}  # fmt: skip
CASE_WORDS = {"case", "record", "subject", "obs", "observation"}  # rise through a file, with gaps
LETTERED, PADDED = re.compile(r"\d+[A-Za-z]"), re.compile(r"0\d+")
ROW_NAMES = re.compile(
    r"index|unnamed:? ?\d*|\.{3}\d+|v1|row[ ._]?(names?|id|num(ber)?|nr|no|index)?|rn|obs(no|nr)?|n[or]\.",
    re.IGNORECASE,
)
SURE_ROW_NAMES = re.compile(r"unnamed:? ?\d*|\.{3}\d+|row[ ._]?names?|rowid", re.IGNORECASE)
TIME_WORDS = {
    "time", "times", "date", "day", "days", "week", "weeks", "month", "months", "year", "years", "yr",
    "quarter", "hour", "hours", "hr", "minute", "minutes", "min", "second", "seconds", "sec", "t", "step",
    "trial", "sequence", "seq", "period", "wave", "session", "visit", "generation", "tick",
    "doy", "decade", "season",
}  # fmt: skip


DATE_WORDS = {"date", "day", "dt"}
LARGEST = 1e150  # number in a file


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


def is_time(name: str) -> bool:
    """Return whether a column is one of times by its name."""
    return bool(name_words(name) & TIME_WORDS)


def name_words(name: str) -> set[str]:
    """Return the words of a column's name, in small letters: patientID -> patient, id."""
    return {word.lower() for word in _WORDS.findall(name)}


def last_word(name: str) -> str:
    """Return the last word of a column's name that is no number: what the column is about."""
    words = [word.lower() for word in _WORDS.findall(name) if not word.isdigit()]
    return words[-1] if words else ""


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
    values = parse_numbers(cells, decimal, clocks=not categorical)
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
    if (dates := _numerals(few)) is not None:
        return dates
    number = np.isfinite(values)
    words = len(set(labels[filled & ~number].tolist()))
    if (
        n > MOST_LEVELS
        and 2 * n <= filled.sum()
        and _are_names(name, labels[filled], number[filled])
    ):
        return _dates(table, few) or text
    few_words = words <= MANY_WORDS and n - words > MOST_LEVELS
    if number.sum() >= (0.5 if few_words else MOSTLY) * filled.sum():
        return _numbers(table, few, values, n, decimal)
    if (dates := _dates(table, few)) is not None:
        return dates
    if problem := _other_decimal(table, text, values, decimal):
        return replace(text, contents="numbers in another notation", problems=(problem,))
    is_id = n > max(2, ALMOST_ALL * filled.sum())
    if n <= MOST_LEVELS and not is_id:
        return replace(few, kind="category", contents=f"{n} categories{gaps}")
    if np.mean([looks_like_date(label) for label in levels[:MOST_LEVELS]]) >= MOSTLY:
        contents = "dates in a notation that is not read; write them as YYYY-MM-DD"
        return replace(text, contents=contents)
    return replace(few, kind="id") if is_id else text


def _are_names(name: str, labels: np.ndarray, number: np.ndarray) -> bool:
    """Return whether cells that mostly are numbers name something: 100 and 100a, or 007 and 012."""
    words = labels[~number].tolist()
    if words and (
        name_words(name) & (ID_WORDS | COUNTER_WORDS) or all(map(LETTERED.fullmatch, words))
    ):
        return True
    if words or is_time(name):
        return False
    padded = [label for label in labels.tolist() if PADDED.fullmatch(label)]
    return bool(padded) and len({len(label) for label in labels.tolist()}) == 1


def _numbers(
    table: CsvTable, column: Column, values: np.ndarray, n_different: int, decimal: str
) -> Column:
    """Return the column as one of numbers, with bad cells where some are none."""
    name, number = column.name, np.isfinite(values)
    bad = ~column.missing & ~number
    column = replace(column, values=values)
    if bad.any():
        hint = f"; or write categorical: [{yaml_text(name)}]" if n_different <= MOST_LEVELS else ""
        says = f"is not a number; add it to data.missing or correct the cell{hint}"
        problem = row_problem(table, name, bad, lambda cell: f'"{cell}" {says}')
        column = replace(column, problems=(problem,))
    far = number & (np.abs(values) > LARGEST)
    if far.any():
        says = f"is beyond {LARGEST:g}, too large to be squared; give the column in another unit"
        problem = row_problem(table, name, far, lambda cell: f'"{cell}" {says}')
        column = replace(column, problems=(*column.problems, problem))
    whole = bool((values[number] == np.floor(values[number])).all())
    named = bool(name_words(name) & ID_WORDS or NUMBERED.search(name))
    if named and whole and not bad.any() and n_different > ALMOST_ALL * len(values):
        return replace(column, kind="id", contents=f"{n_different} different numbers")
    if whole and n_different == len(values) and not bad.any():
        rises = bool((np.diff(values) > 0.0).all()) or SURE_ROW_NAMES.fullmatch(name.strip())
        if ROW_NAMES.fullmatch(name.strip()) and rises and len(table.columns) > 2:
            return replace(column, kind="id", contents="row number")
        if _id_like(name, values):
            return replace(column, kind="id", contents=f"{n_different} different numbers")
    kind, words = ("whole", "whole number") if whole else ("number", "number")
    table_cells = np.asarray(table.columns[name], dtype=object)
    cells = table_cells[number]
    signs = SIGNS - {decimal}
    marked = (cell for cell in cells if not signs.isdisjoint(cell))
    signed = next((cell for cell in marked if np.isfinite(amount_of(cell, decimal))), None)
    words += f' (as "{signed}")' if signed else ""
    words += f' of hours (as "{cells[0]}")' if ":" in cells[0] else ""
    if signed and _may_be_decimals(cells, table.separator, decimal):
        says = f'is {amount_of(signed, decimal):g} or {signed.replace(",", ".")}; write decimal: "," under'
        says += " data, or take the marks out of the file"
        problem = row_problem(table, name, table_cells == signed, lambda cell: f'"{cell}" {says}')
        column = replace(column, problems=(*column.problems, problem))
    return replace(column, kind=kind, contents=f"{words}, {missing_words(column.n_missing)}")


def _numerals(column: Column) -> Column | None:
    """Return the column as one of dates without marks, such as 19880806, None if a cell is no such date."""
    cells = np.where(column.missing, "", column.labels).tolist()
    first, named = next(filter(None, cells), ""), name_words(column.name)
    for words in NUMERALS if named & DATE_WORDS else NUMERALS[:1]:
        if not FORMATS[words].fullmatch(first):  # most columns end here
            continue
        days = parse_dates(cells, words)
        if np.isfinite(days[~column.missing]).all() and not named & ID_WORDS:
            return _as_dates(column, days, words)
    return None


def _dates(table: CsvTable, column: Column) -> Column | None:
    """Return the column as one of dates, None if it mostly holds others."""
    gaps = column.missing
    cells = ["" if gap else cell for cell, gap in zip(column.labels, gaps, strict=True)]
    readings = date_formats(cells, time=is_time(column.name))
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
        says = f"is not a date like {date_format}; add it to data.missing or correct the cell"
        problems.append(row_problem(table, column.name, bad, lambda cell: f'"{cell}" {says}'))
    other = date_format.replace("DD", "mm").replace("MM", "DD").replace("mm", "MM")
    words = ""
    if (
        other != date_format and other in FORMATS
        and np.isfinite(parse_dates(cells, other))[dated].all()
    ):  # fmt: skip
        words = f" (read as {date_format}; it could be {other})"
    return replace(_as_dates(column, days, date_format, words), problems=tuple(problems))


def _as_dates(column: Column, days: np.ndarray, date_format: str, words: str = "") -> Column:
    contents = f"dates, {date_text(np.nanmin(days))} to {date_text(np.nanmax(days))}{words}"
    contents += f", {missing_words(column.n_missing)}" if column.n_missing else ""
    return replace(column, kind="date", contents=contents, values=days, date_format=date_format)


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
    """Return one line if the column mostly holds numbers with the other decimal mark."""
    other = "," if decimal == "." else "."
    cells = column.labels.tolist()
    readable = np.isfinite(parse_numbers(cells, other)) | np.isfinite(values)
    if (readable & ~column.missing).sum() < MOSTLY * (~column.missing).sum():
        return None
    odd = readable & ~column.missing & ~np.isfinite(values)
    says = (
        f'looks like a number with the decimal mark {other!r}; write decimal: "{other}" under data'
    )
    return row_problem(table, column.name, odd, lambda cell: f'"{cell}" {says}')


def _may_be_decimals(cells: np.ndarray, separator: str, decimal: str) -> bool:
    """Return whether commas in numbers may be decimal marks, as where commas separate no cells."""
    if separator == "," or decimal == ",":
        return False
    matches = [THOUSANDS.fullmatch(cell) for cell in cells if "," in cell]
    return bool(matches) and all(m and m["rest"] is None and m[0].count(",") == 1 for m in matches)


def _id_like(name: str, values: np.ndarray) -> bool:
    """Return whether different whole numbers are an id: by the name, or by a weaker name if they
    are numbered through."""
    words = name_words(name)
    if words & ID_WORDS or name.lower() == INDEX_NAME:
        return True
    rises = bool(words & CASE_WORDS) and bool((np.diff(values) > 0.0).all())
    return rises or (bool(words & COUNTER_WORDS) and np.ptp(values) == len(values) - 1)
