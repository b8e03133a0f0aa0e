"""An outcome that repeats with the calendar, in words: the month, weekday or hour where it is highest."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.results import Analysis, is_date, positions

_EVERY = {"year": "every year", "week": "every week", "day": "every day"}
_FEWEST_CYCLES = 3
_ROUNDED = 0.02  # months by which years like 1920.083 miss the beginning of one
_DAYS = [f"on {day}s" for day in calendar.day_name]  # 1970-01-01 was a Thursday
_MONTHS = [f"in {month}" for month in calendar.month_name[1:]]
_HOURS = [f"around {hour}:00" for hour in range(24)]


class Turn(NamedTuple):
    """Where a curve is extreme ("in July"), and its mean there over all cycles, with its interval."""

    when: str
    mean: float
    low: float
    high: float


def season_of(analysis: Analysis, column: str) -> str | None:
    """How often a term of the shown model repeats over a column ("every year"), None if none does."""
    season = analysis.info.get("season") or {}
    if season.get("column") != column:
        return None
    period = words.number(season["period"])
    return _EVERY.get(season["name"]) or f"every {season['name'] or period}"


def turns(analysis: Analysis, curve: pd.DataFrame) -> tuple[Turn, Turn] | None:
    """Where in its cycle a curve over time is highest and lowest, None where the bands cannot tell."""
    name = (analysis.info.get("season") or {}).get("name")
    parts = _parts(curve["value"], name)
    if parts is None:
        return None
    part, labels, cycle = parts
    grouped = curve[["mean", "low", "high"]].astype(float).groupby(part).mean()
    if len(grouped) < len(labels) or len(np.unique(cycle)) < _FEWEST_CYCLES:
        return None
    top, foot = int(grouped["mean"].idxmax()), int(grouped["mean"].idxmin())
    if grouped["low"][top] <= grouped["high"][foot]:
        return None
    high = _run(top, grouped["mean"].to_numpy() >= grouped["low"][top])
    low = _run(foot, grouped["mean"].to_numpy() <= grouped["high"][foot])
    return (
        Turn(_named(labels, high), *grouped.loc[top]),
        Turn(_named(labels, low), *grouped.loc[foot]),
    )


def _run(extreme: int, alike: np.ndarray) -> tuple[int, int]:
    """First and last of the parts in a row, around the cycle, that cannot be told from the extreme one."""
    n, first, last = len(alike), extreme, extreme
    while last - first < n - 1 and alike[(first - 1) % n]:
        first -= 1
    while last - first < n - 1 and alike[(last + 1) % n]:
        last += 1
    return first % n, last % n


def _named(labels: list[str], run: tuple[int, int]) -> str:
    """``in July``, ``in June and July``, ``from June to August``."""
    first, last = (labels[k] for k in run)
    if run[0] == run[1]:
        return first
    if (run[0] + 1) % len(labels) == run[1]:
        return f"{first} and {last.split(' ', 1)[1]}"
    return f"from {first.split(' ', 1)[1]} to {last.split(' ', 1)[1]}"


def _parts(value: pd.Series, name: str | None) -> tuple[np.ndarray, list[str], np.ndarray] | None:
    """Part of the cycle of each place of a curve, the words for the parts, and its cycle."""
    if is_date(value):
        dates = pd.to_datetime(value.astype(str), format="ISO8601").dt
        days = np.floor(positions(value))
        kinds = {
            "year": (lambda: dates.month - 1, _MONTHS, lambda: dates.year),
            "week": (lambda: dates.day_of_week, _DAYS, lambda: (days + 3) // 7),
            "day": (lambda: dates.hour, _HOURS, lambda: days),
        }  # type: dict[str | None, tuple[Callable, list[str], Callable]]
        if name not in kinds:
            return None
        part, labels, cycle = kinds[name]
        return np.asarray(part()), labels, np.asarray(cycle())
    if name != "year":
        return None
    years = pd.to_numeric(value).to_numpy(float)
    months = np.floor(12.0 * years + _ROUNDED).astype(int)
    return months % 12, _MONTHS, months // 12


def level(curve: pd.DataFrame, *, last: bool) -> pd.Series:
    """Mean of a curve over its first or its last whole year, with its interval."""
    value = positions(curve["value"])
    year = 365.25 if is_date(curve["value"]) else 1.0
    end = value.max() if last else value.min()
    near = np.abs(value - end) < year
    return curve.loc[near, ["mean", "low", "high"]].astype(float).mean()


def season_answer(
    analysis: Analysis, curve: pd.DataFrame, column: Markup, say: Callable[..., str]
) -> list[Markup]:
    """Sentences on where in its cycle the only curve is highest and lowest, and how it moves over the years.

    ``say(row, opening=..)`` words a mean with its interval.
    """
    found, every = turns(analysis, curve), season_of(analysis, analysis.info["season"]["column"])
    assert every is not None
    if found is None:
        return [Markup("The {} repeats {} of {}.").format(analysis.response, every, column)]
    top, foot = found
    parts = [
        Markup("The {} repeats {}: on average it is highest {}, with {}, and lowest {}, with {}.")
        .format(
            *(analysis.response, every, Markup("<b>{}</b>").format(top.when)),
            *(say(top._asdict(), opening=True), Markup("<b>{}</b>").format(foot.when)),
            say(foot._asdict()),
        )
    ]  # fmt: skip
    if analysis.info["season"]["name"] == "year":
        first, last = (level(curve, last=side) for side in (False, True))
        moved = (
            "rises"
            if last["low"] > first["high"]
            else "falls"
            if last["high"] < first["low"]
            else ""
        )
        ends = f"{say(first)} over the first year to {say(last)} over the last"
        if moved:
            parts.append(Markup("Beside the season it {}: from {}.").format(moved, ends))
        else:
            parts.append(Markup("Beside the season it does not clearly change."))
    return parts
