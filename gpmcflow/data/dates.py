"""Dates, months and quarters as people write them, as days."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

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
    }.items()
}  # fmt: skip
NUMERALS = "YYYYMMDD"  # the format whose dates are also numbers
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

    Only a column named like a `time` may have months such as 3/98, which elsewhere may be fractions.

    Of the two orders of day and month with strokes, the one that fits more cells (day first, if
    both do equally) comes first; the other is there only if it alone reads some cell.
    """
    never = {NUMERALS} if time else {NUMERALS, "MM/YY"}
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
