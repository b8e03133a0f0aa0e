"""The season of a model, and the times at which an effect that repeats is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.analysis.data import Data
from gpmcflow.analysis.models import functions_of
from gpmcflow.covariances.leaves import Periodic
from gpmcflow.data.seasons import calendar_name

PARTS = {"year": 12, "week": 7, "day": 24}  # months, weekdays, hours
_OTHER = 12  # parts of a period without a name
_ROUNDED = 0.003  # of a period: years are not all of one length, and 1950.083 is rounded
_MONDAY = -3.0  # 1970-01-01 was a Thursday


def season_of(model: Any, data: Data) -> dict[str, Any] | None:
    """Column, period in its units, and name of the first periodic term with a stated period, None without."""
    for leaf in functions_of(model)[0][0].leaves:
        if isinstance(leaf, Periodic) and isinstance(leaf.period, float):
            (column,) = leaf.columns
            return named_season(data, column, leaf.period * data.encoding.code(column).scale)
    return None


def named_season(data: Data, column: str, period: float) -> dict[str, Any]:
    """A season as `season_of`, with the name of its period."""
    code = data.encoding.code(column)
    values = data.encoding.natural(column, data.learning.X[column].to_numpy())
    name = calendar_name(period, values, code.kind == "date")
    return {"column": column, "period": period, "name": name}


def times_in_cycles(data: Data, season: dict[str, Any]) -> np.ndarray:
    """Times of each part of the first, a middle and the last whole cycle, in natural units.

    Those of the rows where each part has one, else the middles of the parts. None without three whole cycles.
    """
    column, period = season["column"], season["period"]
    code, start = data.encoding.code(column), _MONDAY if season["name"] == "week" else 0.0
    shift, n = code.origin - start, PARTS.get(season["name"], _OTHER)
    own = data.encoding.natural(column, data.learning.X[column].to_numpy())
    seen = np.unique((own + shift).round(6))
    cycle = np.floor(seen / period + _ROUNDED)
    cycles, counts = np.unique(cycle, return_counts=True)
    each = counts.max() <= n
    whole = cycles[counts == n] if each else np.arange(cycles[0] + 1, cycles[-1])
    if len(whole) < 3:
        return np.empty(0)
    some = whole[[0, len(whole) // 2, -1]]
    if each:
        return seen[np.isin(cycle, some)] - shift
    times = start + period * (some[:, None] + (np.arange(n) + 0.5) / n).ravel()
    if code.kind == "date" and not code.has_times:
        times = np.floor(times)
    return times - code.origin
