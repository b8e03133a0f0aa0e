"""Periods at which an outcome repeats in time, seen in the autocorrelation about a trend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

YEAR = 365.25
KNOWN = {  # periods that calendars have, in days, with their names
    1.0: "day", 7.0: "week", YEAR / 12.0: "month", YEAR / 4.0: "quarter", YEAR: "year",
}  # fmt: skip
FEWEST_PERIODS = 3
LEAST_CORRELATION = 0.3  # of values one period apart
LEAST_OF_A_WAVE, SHORTEST_WAVE = 0.15, 12  # correlation and steps of a period of the calendar
MOST_BINS = 4096
TREND_DEGREE = 3


class Season(NamedTuple):
    """A period in units of its column (days for dates), and its name where calendars have one."""

    period: float
    name: str = ""


def find_season(times: np.ndarray, outcome: np.ndarray, *, is_date: bool = False) -> Season | None:
    """Return the period at which the outcome repeats over days of dates, or numbers; None if it does not.

    Means of the outcome over even bins of time, less a cubic trend, are correlated with themselves later by
    each lag; a season is the lag of a peak above 0.3 and three standard errors that comes again at twice the
    lag, with at least three periods in the data. The period is where two harmonics fit best, moved to a day,
    a week, a month, a quarter or a year where it is nearly one.
    """
    known = np.isfinite(outcome) & np.isfinite(times)
    times, values = times[known], outcome[known]
    different = np.unique(times)
    if len(different) < 4 * FEWEST_PERIODS:
        return None
    step = float(np.median(np.diff(different)))
    n_bins = round(np.ptp(times) / step) + 1 if step > 0 else 0
    if not 4 * FEWEST_PERIODS <= n_bins <= MOST_BINS * 8:
        return None
    if n_bins > MOST_BINS:
        step *= n_bins / MOST_BINS
        n_bins = round(np.ptp(times) / step) + 1
    places = np.rint((times - times.min()) / step).astype(int)
    counts = np.bincount(places, minlength=n_bins)
    means = np.bincount(places, weights=values, minlength=n_bins) / np.maximum(counts, 1)
    filled = counts > 0
    grid = np.linspace(-1.0, 1.0, n_bins)
    trend = np.polynomial.polynomial.polyfit(grid[filled], means[filled], TREND_DEGREE)
    rest = np.where(filled, means - np.polynomial.polynomial.polyval(grid, trend), 0.0)
    if rest.std() == 0:
        return None
    longest = n_bins // FEWEST_PERIODS
    size = 1 << (2 * n_bins - 1).bit_length()
    pairs = np.fft.irfft(np.abs(np.fft.rfft(filled.astype(float), size)) ** 2, size)[
        : 2 * longest + 2
    ]
    products = np.fft.irfft(np.abs(np.fft.rfft(rest, size)) ** 2, size)[: 2 * longest + 2]
    pairs = np.rint(pairs)
    variance = (rest[filled] ** 2).mean()
    r = np.where(pairs >= 2 * FEWEST_PERIODS, products / np.maximum(pairs, 1) / variance, 0.0)
    lag = _repeating_lag(r, pairs) or _calendar_lag(r, pairs, _calendar(times, is_date), step)
    if lag is None:
        return None
    bins = np.arange(n_bins)[filled]
    return _named_period(_refined(lag, bins, rest[filled]) * step, times, is_date, step)


def _repeating_lag(r: np.ndarray, pairs: np.ndarray) -> int | None:
    """The lag, in bins, of the shortest peak that is nearly as high as the highest and comes again.

    That of a wander does not come again at twice the lag.
    """
    inner = np.arange(2, len(r) // 2)  # at least three periods, so that twice the lag is there
    tops = inner[(r[inner] >= r[inner - 1]) & (r[inner] >= r[inner + 1])]
    lows = np.minimum.accumulate(r)  # a wander has no fall between lag 0 and a peak
    periods = len(pairs) * FEWEST_PERIODS / (2.0 * tops)  # few of them need to be alike
    tops = tops[(r[tops] - lows[tops] > 0.25) & (r[tops] > LEAST_CORRELATION * (1 + 3 / periods))]
    tops = tops[r[tops] > 3.0 / np.sqrt(pairs[tops])]
    tops = [top for top in tops if _near(r, 2 * top) > 0.5 * r[top]]
    if not tops:
        return None
    return next(top for top in tops if r[top] >= 0.75 * r[tops].max())


def _calendar_lag(
    r: np.ndarray, pairs: np.ndarray, calendar: Mapping[float, str], step: float
) -> int | None:
    """The lag of a period of the calendar at which a wave shows under much noise.

    Correlations a period and two apart are positive, those half a period off negative, each about as large.
    """
    for period in sorted(calendar, reverse=True):
        lag = period / step
        if lag < SHORTEST_WAVE or 2.5 * lag >= len(r) or pairs[round(lag)] == 0:
            continue
        wave = [_smooth(r, lag * half / 2.0) * (-1) ** half for half in (1, 2, 3, 4)]
        clear = LEAST_OF_A_WAVE * (1.0 + FEWEST_PERIODS * lag / len(pairs))
        if min(wave) > max(clear, 3.0 / np.sqrt(pairs[round(lag)])) and min(wave) > 0.5 * max(wave):
            return round(lag)
    return None


def _smooth(r: np.ndarray, lag: float) -> float:
    """The mean correlation within a twentieth of a lag."""
    wide = max(1, round(lag / 20.0))
    return float(r[round(lag) - wide : round(lag) + wide + 1].mean())


def _near(r: np.ndarray, lag: int) -> float:
    """The largest correlation within a tenth of a lag, minus infinity beyond the last."""
    wide = max(1, lag // 10)
    return float(r[lag - wide : lag + wide + 1].max(initial=-np.inf))


def _refined(lag: float, bins: np.ndarray, rest: np.ndarray) -> float:
    """The period near a lag whose first two harmonics explain most."""
    tried = lag * np.linspace(0.85, 1.15, 121)

    def explained(period: float) -> float:
        angles = 2.0 * np.pi * np.outer(bins / period, [1.0, 2.0])
        waves = np.column_stack([np.cos(angles), np.sin(angles), np.ones(len(bins))])
        return -float(np.linalg.lstsq(waves, rest, rcond=None)[1].sum())

    return float(max(tried, key=explained))


def _named_period(period: float, times: np.ndarray, is_date: bool, step: float) -> Season:
    """A period of the calendar, or a whole number of steps, where the one found is nearly that."""
    for known, name in _calendar(times, is_date).items():
        if abs(period - known) <= max(0.04 * known, 0.6 * step):
            return Season(known, name)
    whole = round(period / step)
    if abs(period / step - whole) < 0.25:
        period = whole * step
    return Season(float(f"{period:.6g}"))


def calendar_name(period: float, values: np.ndarray, is_date: bool) -> str:
    """The name of a period of days of dates, or of numbers; "" where calendars have none."""
    for known, name in _calendar(values, is_date).items():
        if abs(period - known) <= 0.002 * known:
            return name
    return ""


def _calendar(values: np.ndarray, is_date: bool) -> dict[float, str]:
    """Periods with a name in units of a column: days of dates, years like 1973.25."""
    return KNOWN if is_date else {1.0: "year"} if _decimal_years(values) else {}


def _decimal_years(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    inside = bool((values >= 1500).all() and (values <= 2100).all())
    return inside and bool((values != np.floor(values)).any())
