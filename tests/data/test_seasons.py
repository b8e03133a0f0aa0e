from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.data.columns import Column
from gpmcflow.data.seasons import YEAR, calendar_name, find_season
from tests.data.small_files import seen


def times(values, kind="number"):
    values = np.asarray(values, dtype=float)
    return Column("time", kind, "", ~np.isfinite(values), values.astype(str), values=values)


@pytest.mark.parametrize(
    ("column", "period", "name"),
    [
        (times(np.arange(4 * 365.0), "date"), YEAR, "year"),
        (times(np.arange(200.0), "date"), 7.0, "week"),
        (times(np.arange(24 * 9.0) / 24, "date"), 1.0, "day"),
        (times(np.round(np.arange(40) * YEAR / 4), "date"), YEAR, "year"),
        (times(1950 + np.arange(120) / 12), 1.0, "year"),
        (times(np.arange(120.0)), 12.0, ""),
        (times(np.arange(120.0) * 0.5 + 3), 6.0, ""),
    ],
)
def test_the_period_is_that_of_the_wave(column, period, name):
    """Also with a trend, and with gaps and repeats in random order."""
    rng = np.random.default_rng(1)
    t = column.values
    y = np.sin(2 * np.pi * t / period) + 0.3 * rng.normal(size=len(t)) + 3 * t / np.ptp(t)
    is_date = column.kind == "date"
    assert find_season(t, y, is_date=is_date) == (pytest.approx(period, rel=0.01), name)
    kept = rng.permutation(np.concatenate([rng.permutation(len(t))[: 9 * len(t) // 10], [0, 0, 1]]))
    found = find_season(t[kept], y[kept], is_date=is_date)
    assert found == (pytest.approx(period, rel=0.01), name)


def test_no_season_in_noise_in_a_wander_and_in_two_periods():
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        steps = rng.normal(size=rng.integers(30, 300))
        for y in (steps, np.cumsum(steps)):
            found += find_season(np.arange(float(len(y))), y) is not None
    assert found <= 4  # of 200; a cycle of three periods can come about in a wander
    t = np.arange(24.0)
    assert find_season(t, np.sin(2 * np.pi * t / 12)) is None
    assert find_season(t, np.ones(24)) is None


def test_periods_that_calendars_have_are_named():
    days, years = np.arange(400.0), np.array([1950.0, 1950.5])
    assert [calendar_name(p, days, True) for p in (365.0, YEAR, 7.0, 9.0)] == [
        "year",
        "year",
        "week",
        "",
    ]
    assert [calendar_name(p, years, False) for p in (1.0, 11.0)] == ["year", ""]
    assert calendar_name(1.0, days, False) == ""


def test_a_year_under_much_noise_is_seen_in_days_of_dates(tmp_path):
    """As of the flow of a river, which is modelled on the log scale; a wander hardly ever makes one."""
    rng = np.random.default_rng(2)
    t = np.arange(8 * 365.0)
    wave, short = np.sin(2 * np.pi * t / YEAR), np.empty(len(t))
    short[0] = 0.0
    for k, step in enumerate(rng.normal(size=len(t) - 1), 1):
        short[k] = 0.9 * short[k - 1] + 0.436 * step
    noisy = 0.9 * wave + short
    assert find_season(t, noisy, is_date=True) == (YEAR, "year")
    assert find_season(t, noisy) is None  # numbers of no calendar
    assert find_season(t, short, is_date=True) is None
    found = 0
    for seed in range(60):
        y = np.cumsum(np.random.default_rng(seed).normal(size=1500))
        found += find_season(np.arange(1500.0), y, is_date=True) is not None
    assert found <= 2
    flow = np.exp(3.0 + 1.1 * noisy).round(2)
    days = np.datetime64("1979-01-01") + t.astype(int)
    found = seen(tmp_path, "flow", date=days, rain=rng.exponential(size=len(t)).round(1), flow=flow)
    assert found.reading.kind == "positive"
    assert found.season == ("date", (YEAR, "year"))
    assert find_season(t, flow, is_date=True) is None
