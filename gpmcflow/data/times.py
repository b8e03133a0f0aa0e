"""Times that are known to an interval only: by the columns of its two ends, and as `Survival` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpmcflow.data.columns import TIME_WORDS, Column, describe_columns, name_words
from gpmcflow.data.csv_table import CsvTable, row_problem
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.data.roles import SURELY, find_status

INFINITE = ("Inf", "inf", "INF", "+Inf", "Infinity", "infinity")  # upper ends where there is none

KNOWN = {  # how a time is known, in words
    "seen": "were seen exactly",
    "within": "lie in an interval",
    "before": "ended before they were first looked at",
    "later": "had not ended",
}

SIDES = (("left", "right"), ("l", "r"), ("lower", "upper"), ("l", "u"), ("from", "to"), ("1", "2"))
SURE_SIDES = SIDES[:2]  # lower ends of 0 say enough; bounds of an estimate, or a start, may be 0


def known_times(left: Column, right: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, events, and upper ends of intervals (nan where there is none), as `Survival` takes them.

    As in interval2 of R: a time without an upper end had not ended (event 0), one whose ends are the same was
    seen (1), and one whose lower end is missing or 0 ended before the upper one (-1). Without either end
    nothing is known: the time is nan.
    """
    low = np.where(left.missing, 0.0, left.values)
    high = np.where(right.missing, np.inf, right.values)
    before = low == 0.0
    time = np.where(before, np.where(right.missing, np.nan, high), low)
    event = np.select([before, right.missing], [-1.0, 0.0], 1.0)
    return time, event, np.where((event == 1.0) & (low < high), high, np.nan)


def ends_of(
    time: np.ndarray, event: np.ndarray, until: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends between which times lie: the same where one was seen, 0 below one that ended before it
    was looked at, inf above one that had not ended."""
    high = np.where(event == 0.0, np.inf, time)
    if until is not None:
        high = np.where(np.isnan(until), high, until)
    return np.where(event < 0.0, 0.0, time), high


def last_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the upper ends, the lower ones where there are none."""
    return np.where(np.isinf(high), low, high)


def middle_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the middle between two ends, the lower one where there is no upper one."""
    return 0.5 * (low + last_of(low, high))


def counts_of(low: np.ndarray, high: np.ndarray) -> dict[str, int]:
    """Return how many times there are of each of `KNOWN`."""
    how = np.select(
        [low == high, low == 0.0, np.isinf(high)], ["seen", "before", "later"], "within"
    )
    return {name: int((how == name).sum()) for name in KNOWN}


def until_problems(table: CsvTable, left: Column, right: Column, where: str) -> list[str]:
    """Return what is wrong with the upper ends of times, and with lower ends below 0."""
    if right.values is None or right.kind == "date":
        return [
            f"{where}.until: column {right.name} holds {right.contents}; allowed: numbers, upper ends of "
            f"{left.name}; name another column"
        ]
    problems, low = list(right.problems), np.where(left.missing, 0.0, left.values)
    for column, bad in ((left, low < 0.0), (right, right.values <= 0.0)):
        if bad.any():
            problems.append(row_problem(table, column.name, bad, not_a_time))
    if (turned := (right.values > 0.0) & (right.values < low)).any():
        lower = table.columns[left.name][int(np.flatnonzero(turned)[0])]
        says = f'is below "{lower}" of {left.name}, and an upper end is not; correct the row'
        problems.append(row_problem(table, right.name, turned, lambda cell: f'"{cell}" {says}'))
    return problems


def describe_until(table: CsvTable, name: str, settings: TableSettings) -> Column:
    """Return what a column of upper ends holds, where words for infinity are "no value", too."""
    own, missing = replace(table, columns={name: table.columns[name]}), settings.missing
    missing = (*missing, *INFINITE)
    return describe_columns(own, missing=missing, decimal=settings.decimal)[name]


def find_interval(
    table: CsvTable, columns: Mapping[str, Column], settings: TableSettings
) -> tuple[str, str] | None:
    """Return the columns of the lower and the upper ends of times, the target among them; None in doubt.

    They are named as two ends, of times or of nothing else; no upper end is below the lower one, in enough
    rows; and in some rows one end is not there. Beside a column that says how cases ended they are no
    intervals.
    """
    if find_status({n: c for n, c in columns.items() if n != settings.target}, settings.target):
        return None
    words = {name: name_words(name) for name in columns}
    for sides in SIDES:
        for own, other in (sides, sides[::-1]):
            rest = words[settings.target] - {own}
            if own not in words[settings.target] or not _of_times(sides, rest):
                continue
            for name in (name for name in columns if words[name] == rest | {other}):
                low, high = (settings.target, name)[:: 1 if own == sides[0] else -1]
                right = describe_until(table, high, settings)
                if _are_ends(columns[low], right, zeros=sides in SURE_SIDES):
                    return low, high
    return None


def _of_times(sides: tuple[str, str], rest: set[str]) -> bool:
    """Whether two names that differ in two sides are of times: T1 and T2 may be any two measurements."""
    if sides == ("1", "2"):
        return rest == {"time"}
    return rest <= TIME_WORDS and bool(rest or sides != ("from", "to"))


def _are_ends(left: Column, right: Column, *, zeros: bool) -> bool:
    """Whether two columns may be the ends of intervals of time, by their cells."""
    for column in (left, right):
        if column.kind not in ("number", "whole") or column.problems or (column.values < 0).any():
            return False
    both = ~left.missing & ~right.missing
    low, high = left.values[both], right.values[both]
    later, before = ~left.missing & right.missing, left.missing & ~right.missing
    alone = (later & (left.values > 0.0)) | before
    if zeros:
        alone |= ~right.missing & (left.values == 0.0)
    ordered = len(low) >= SURELY and (low <= high).all() and (low < high).any()
    return bool(ordered and (high > 0.0).all() and alone.any())


def not_a_time(cell: str) -> str:
    """Return the words for a cell that is no positive time."""
    return (
        f'"{cell}" is not above 0, and a time has to be; correct the cell (half a day for an end on the '
        "first day) or empty it"
    )
