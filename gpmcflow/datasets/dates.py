"""Dates as people write them, as days."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

_TIME = r"(?:[ T](?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
FORMATS = {
    words: re.compile(pattern + _TIME)
    for words, pattern in {
        "YYYY-MM-DD": r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})",
        "YYYY/MM/DD": r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})",
        "DD.MM.YYYY": r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})",
        "DD/MM/YYYY": r"(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>\d{4})",
        "MM/DD/YYYY": r"(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})",
    }.items()
}


def parse_dates(cells: Sequence[str], words: str) -> np.ndarray:
    """Return days since 1970-01-01 (a time of day is a fraction), NaN for what is no such date.

    `words` is a key of `FORMATS`. A time with a zone is taken to UTC.
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


def date_formats(cells: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the days of the cells in each format that any of them has, most cells first.

    Of the two orders of day and month with strokes, the one that fits more cells (day first, if
    both do equally) comes first; the other is there only if it alone reads some cell.
    """
    readings = {words: parse_dates(cells, words) for words in FORMATS}
    readings = {words: days for words, days in readings.items() if np.isfinite(days).any()}
    ranked = sorted(readings, key=lambda words: -np.isfinite(readings[words]).sum())
    distinct: dict[str, np.ndarray] = {}
    for words in ranked:
        read = np.isfinite(readings[words])
        if all((read & ~np.isfinite(days)).any() for days in distinct.values()):
            distinct[words] = readings[words]
    return distinct


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
    date = f"{match['y']}-{int(match['m']):02d}-{int(match['d']):02d}"
    if not match["time"]:
        return date
    hour, rest = match["time"].split(":", 1)
    rest = rest[: len("MM:SS.ffffff")]  # a date of nanoseconds could not be after 2262
    return f"{date}T{int(hour):02d}:{rest}{match['zone'] or ''}"
