"""Times that are known to an interval only: by the columns of its two ends, and as `Survival` takes them."""

from __future__ import annotations

import numpy as np

from gpmcflow.data.columns import Column
from gpmcflow.data.csv_table import CsvTable, row_problem

INFINITE = ("Inf", "inf", "INF", "+Inf", "Infinity", "infinity")  # upper ends where there is none

KNOWN = {  # how a time is known, in words
    "seen": "were seen exactly",
    "within": "lie in an interval",
    "before": "ended before they were first looked at",
    "later": "had not ended",
}


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


def not_a_time(cell: str) -> str:
    """Return the words for a cell that is no positive time."""
    return (
        f'"{cell}" is not above 0, and a time has to be; correct the cell (half a day for an end on the '
        "first day) or empty it"
    )
