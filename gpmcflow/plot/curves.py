"""Pictures of the average response: effects of single columns, the curve of the only one, grades, times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import num2date
from matplotlib.ticker import FixedLocator, MaxNLocator

from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.plot.numbers import FEW_DAYS, natural, number, percent
from gpmcflow.plot.style import (
    ACCENT,
    DASHES,
    INK,
    MUTED,
    PAPER,
    STEPS,
    Frame,
    few_ticks,
    percent_axis,
    plain,
    top_left,
    wrapped,
)

_MOST_ACROSS = 6  # levels whose names fit side by side
_MONTHS = 120  # days of an axis from which ticks are told by months
_FEW_VALUES = 8  # whole numbers with up to so many values are dots, not a line


def effect_frame(part: pd.DataFrame, *, levels: bool) -> Frame:
    """A picture with room for the names of the levels of one column."""
    more = level_names(part["value"])[1] if levels else 0
    return Frame(244 + more, bottom=44 + more)


def effect(
    axes: Axes,
    part: pd.DataFrame,
    *,
    levels: bool,
    response: str,
    name: str,
    share: bool = False,
    whole: bool = False,
    limits: tuple[float, float] | None = None,
) -> bool:
    """Average response at values of one column, a band of numbers or dots with bars; whether it is dots.

    ``part`` has value, mean, low and high, ``levels`` says that values are words. ``share``: the response is
    in percent, of a ``whole``, from 0 to 100.
    """
    position = None if levels else positions(part["value"])
    dots = position is None or _whole(position)
    x = np.arange(len(part), dtype=float) if position is None else position
    if dots:
        axes.vlines(x, part["low"], part["high"], color=ACCENT, linewidth=1.8)
        axes.plot(x, part["mean"], "o", color=ACCENT, markersize=5.5)
        axes.set_xlim(x.min() - 0.6, x.max() + 0.6)
    else:
        axes.fill_between(x, part["low"], part["high"], color=ACCENT, alpha=0.18, linewidth=0)
        axes.plot(x, part["mean"], color=ACCENT, linewidth=1.8)
        axes.set_xlim(x.min(), x.max())
    if limits is not None:
        axes.set_ylim(limits)
    _ticks(axes, part["value"], position, dots, share=share, whole=whole)
    top_left(axes, response)
    axes.set_xlabel(wrapped(name, 48, 1))
    return dots


def effect_with_rows(
    axes: Axes,
    part: pd.DataFrame,
    points: pd.DataFrame,
    *,
    kind: str,
    levels: bool,
    response: str,
    name: str,
    limits: tuple[float, float],
    base: float,
    base_name: str,
    ends: tuple[str, str],
) -> None:
    """An `effect` with the rows that it was learnt from, and dashes at the level of all rows."""
    share, whole = KINDS[kind].shares, kind in ("binary", "binomial")
    dots = effect(
        axes, part, levels=levels, response=response, name=name, share=share, whole=whole, limits=limits
    )  # fmt: skip
    position = None if levels else positions(part["value"])
    _rug(axes, points, part["value"], position, kind, ends)
    axes.axhline(base, color=MUTED, linewidth=1, linestyle=DASHES, zorder=1)
    if share and base_name and not dots:
        _label_base(axes, base, base_name, part, limits)


_MOST_LINES = 4  # of a second column


def effect_by_frame(part: pd.DataFrame, *, levels: bool) -> Frame:
    """A picture as `effect_frame`, with room for the names of a second column's values."""
    return effect_frame(_first_of(part), levels=levels)._replace(right=_NAMES)


def effect_by(
    axes: Axes,
    part: pd.DataFrame,
    *,
    by: str,
    levels: bool,
    response: str,
    name: str,
    share: bool = False,
    whole: bool = False,
    limits: tuple[float, float] | None = None,
) -> None:
    """The average response at values of one column, for each value of a second: its name beside each line.

    ``part`` has value, by, mean, low and high; of many values of ``by`` some are drawn, the ends among them.
    """
    shown = list(dict.fromkeys(part["by"]))
    if len(shown) > _MOST_LINES:
        shown = [shown[k] for k in np.linspace(0, len(shown) - 1, 3).astype(int)]
    own = [part[part["by"] == value] for value in shown]
    position = None if levels else positions(own[0]["value"])
    dots = position is None or _whole(position)
    x = np.arange(len(own[0]), dtype=float) if position is None else position
    colours = [STEPS[round(step)] for step in np.linspace(3, 6, len(shown))]
    for k, (rows, colour) in enumerate(zip(own, colours, strict=True)):
        if dots:
            at = x + 0.12 * (k - (len(own) - 1) / 2)
            axes.vlines(at, rows["low"], rows["high"], color=colour, linewidth=1.8)
            axes.plot(at, rows["mean"], "o-", color=colour, markersize=4.5, linewidth=0.8)
        else:
            axes.fill_between(x, rows["low"], rows["high"], color=colour, alpha=0.16, linewidth=0)
            axes.plot(x, rows["mean"], color=colour, linewidth=1.8)
    axes.set_xlim(*((x.min() - 0.6, x.max() + 0.6) if dots else (x.min(), x.max())))
    if limits is not None:
        axes.set_ylim(limits)
    _ticks(axes, own[0]["value"], position, dots, share=share, whole=whole)
    low, high = axes.get_ylim()
    ends = np.array([rows["mean"].iloc[-1] for rows in own])
    order = np.argsort(ends, kind="stable")
    names = [natural(str(shown[k])) for k in order]
    names_beside(axes, names, (ends[order] - low) / (high - low))
    top_left(axes, f"{response}, by {by}")
    axes.set_xlabel(wrapped(name, 48, 1))


def _first_of(part: pd.DataFrame) -> pd.DataFrame:
    return part[part["by"] == part["by"].iloc[0]]


def _ticks(
    axes: Axes,
    values: pd.Series,
    position: np.ndarray | None,
    dots: bool,
    *,
    share: bool,
    whole: bool,
) -> None:
    """Ticks at the values of a column, and of the response."""
    if position is None:
        names, _ = level_names(values)
        axes.set_xticks(range(len(values)), names, rotation=90 if len(names) > _MOST_ACROSS else 0)
    elif is_date(values):
        date_axis(axes, position)
    else:
        few_ticks(axes, x=min(6, len(values)) if dots else 6, y=None)
    if whole:
        axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    else:
        few_ticks(axes, x=None)
    if share:
        percent_axis(axes.yaxis)


CURVE = Frame(270)


def curve(
    axes: Axes, curve: pd.DataFrame, rug: pd.DataFrame, *, kind: str, response: str, name: str
) -> None:
    """Average response over the only input, with the bands of the mean and of one new row."""
    x, dates = positions(curve["value"]), is_date(curve["value"])
    if kind != "binary":
        axes.fill_between(
            x, curve["predictive_low"], curve["predictive_high"], color=ACCENT, alpha=0.1, lw=0
        )
    axes.fill_between(x, curve["low"], curve["high"], color=ACCENT, alpha=0.28, linewidth=0)
    axes.plot(x, curve["mean"], color=ACCENT, linewidth=1.8)
    if kind == "binary":
        axes.set_ylim(-0.07, 1.07)
    elif not rug.empty:
        axes.plot(positions(rug["value"]), rug["outcome"], ".", color=MUTED, markersize=3.5)
    if KINDS[kind].shares:
        percent_axis(axes.yaxis)
    axes.set_xlim(x.min(), x.max())
    few_ticks(axes, x=None if dates else 6, y=None if kind == "binary" else 6)
    if dates:
        date_axis(axes, x)
    if kind == "binary":
        axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
        _rug(axes, rug, curve["value"], x, kind, ("", ""))
    top_left(axes, response)
    axes.set_xlabel(wrapped(name, 48, 1))


SURVIVAL = Frame(250, right=16)


def survival(axes: Axes, shares: pd.DataFrame, ends: tuple[str, str], time: str) -> None:
    """Shares that last longer than a time: predicted at two values of a column, and of all rows as seen."""
    seen = shares[~shares["of"].isin(ends)]
    axes.step(seen["time"], seen["longer"], where="post", color=MUTED, linewidth=1)
    for end, dashes in zip(ends, ("-", DASHES), strict=True):
        part = shares[shares["of"] == end].sort_values("time")
        axes.plot(part["time"], part["longer"], color=ACCENT, linewidth=1.8, linestyle=dashes)
    axes.set_ylim(-0.02, 1.04)
    axes.set_xlim(0.0, float(shares["time"].max()))
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    percent_axis(axes.yaxis)
    few_ticks(axes, y=None)
    top_left(axes, "share that lasts longer")
    axes.set_xlabel(wrapped(time, 48, 1))


def date_axis(axes: Axes, days: np.ndarray) -> None:
    """Ticks at days, told by their months where there are many, by times of day where there are few."""
    width = np.ptp(days)
    form = "%Y-%m" if width > _MONTHS else "%m-%d" if width > FEW_DAYS else "%m-%d %H:%M"
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda day, _: num2date(day).strftime(form))


def _rug(
    axes: Axes,
    points: pd.DataFrame,
    values: pd.Series,
    position: np.ndarray | None,
    kind: str,
    ends: tuple[str, str],
) -> None:
    """Learning rows: ticks at the two ends for yes and no, along the foot for counts, else dots."""
    if points.empty:
        return
    if position is None:
        place = {str(value): float(index) for index, value in enumerate(values)}
        x = points["value"].astype(str).map(place).to_numpy(float)
    else:
        x = positions(points["value"])
        if x is None:
            return
    y = points["outcome"].to_numpy(float)
    if position is None or _whole(position):
        # rows at the same value are spread side by side, in the order of the file
        order = pd.Series(x).groupby([x, y > 0]).cumcount().to_numpy()
        x = x + 0.3 * ((order * 0.6180339887) % 1 - 0.5) * 2
    low, high = axes.get_ylim()
    height = 0.035 * (high - low)
    foot = np.full(len(x), low + 0.2 * height)
    if KINDS[kind].measured:
        axes.plot(x, y, ".", color=MUTED, markersize=2.6, alpha=0.75, zorder=0)
        return
    if kind == "binary":
        foot = np.where(y > 0, high - 1.2 * height, low + 0.2 * height)
        left = axes.get_xlim()[0] + 0.015 * np.diff(axes.get_xlim())[0]
        for text, at, side in (
            (ends[0], high - 1.5 * height, "top"),
            (ends[1], low + 1.5 * height, "bottom"),
        ):
            axes.text(left, at, wrapped(text, 40, 1), color=MUTED, va=side, ha="left", fontsize=10)
    gap = np.full(len(x), np.nan)
    axes.plot(
        np.column_stack([x, x, gap]).ravel(),
        np.column_stack([foot, foot + height, gap]).ravel(),
        color=INK,
        linewidth=0.6,
        alpha=0.55,
        clip_on=False,
    )


def effect_limits(
    effects: pd.DataFrame, rug: pd.DataFrame, kind: str, base: float
) -> tuple[float, float]:
    """Limits of the vertical axis that all effects of an analysis share."""
    if kind == "binary":
        return -0.09, 1.09
    if kind == "binomial":
        return -0.02, 1.02
    low, high = min(effects["low"].min(), base), max(effects["high"].max(), base)
    if KINDS[kind].measured and not rug.empty:
        ends = rug["outcome"].quantile([0.005, 0.995])
        low, high = min(low, ends.iloc[0]), max(high, ends.iloc[1])
    if kind == "counts":
        return 0.0 - 0.06 * high, 1.06 * high
    if kind in ("positive", "survival"):  # no room below 0, which no amount has
        return max(low - 0.04 * (high - low), -0.02 * high), high + 0.04 * (high - low)
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _label_base(axes, base, name, part, limits) -> None:
    """The dashes' name, at the end where the curve is farther away, above or below the line."""
    mean = part["mean"].to_numpy(float)
    right = abs(mean[-1] - base) >= abs(mean[0] - base)
    above = (mean[-1] if right else mean[0]) < base
    axes.annotate(
        plain(name),
        xy=(axes.get_xlim()[1 if right else 0], base),
        xytext=(-3 if right else 3, 3 if above else -3),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom" if above else "top",
        color=MUTED,
        fontsize=10,
    )


def level_names(column: pd.Series) -> tuple[list[str], int]:
    """Tick labels of levels and the pixels they need below one line: upright where there are many."""
    if len(column) > _MOST_ACROSS:
        names = [wrapped(value, 14, 1) for value in column]
        return names, 7 * max(map(len, names)) - 12
    names = [wrapped(value, max(6, 44 // len(column)), 2) for value in column]
    return names, 13 * any("\n" in name for name in names)


def _whole(values: np.ndarray) -> bool:
    return len(values) <= _FEW_VALUES and bool((values == np.round(values)).all())


def base_name(share: bool, base: float) -> str:
    """Words at the dashes: ``all rows 43 %``."""
    return f"all rows {percent(base) if share else number(base)}"


# Bands of the grades.

_NAMES = 72  # pixels beside the bands, for the names of the grades
_APART = 0.075  # of two names, in units of the vertical axis
_MOST_NAMED = 10


def band_frame(values: pd.Series, *, levels: bool) -> Frame:
    """A picture of bands with room for the names of the grades, and of the levels of a column."""
    more = level_names(values)[1] if levels else 0
    return Frame(244 + more, right=_NAMES, bottom=44 + more)


def bands(
    axes: Axes,
    part: pd.DataFrame,
    own: pd.DataFrame,
    *,
    grades: Sequence[str],
    split: int,
    level: str,
    name: str,
    levels: bool,
) -> None:
    """Probabilities of the grades at values of one column, the first at the foot, and where they split."""
    shares = np.array([part.loc[part["grade"] == g, "probability"] for g in grades])
    values = part.loc[part["grade"] == grades[0], "value"]
    position = None if levels else positions(values)
    tops = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares, axis=0)])
    colours = [STEPS[round(step)] for step in np.linspace(0, 6, len(grades))]
    if position is None:
        ticks, more = level_names(values)
        x = np.arange(len(values), dtype=float)
        for low, share, colour in zip(tops, shares, colours, strict=False):
            axes.bar(x, share, 0.72, low, color=colour, edgecolor=PAPER, linewidth=0.6)
        axes.hlines(tops[split - 1], x - 0.36, x + 0.36, color=INK, linewidth=1.4)
        axes.vlines(
            x, 1.0 - own["high"], 1.0 - own["low"], color=INK, linewidth=1, linestyle=(0, (3, 2))
        )
        axes.set_xticks(x, ticks, rotation=90 if more > 13 else 0)
        axes.set_xlim(-0.5, len(x) - 0.5)
    else:
        x = position
        for low, high, colour in zip(tops, tops[1:], colours, strict=False):
            axes.fill_between(x, low, high, color=colour, linewidth=0)
            axes.plot(x, high, color=PAPER, linewidth=0.6)
        axes.plot(x, tops[split - 1], color=INK, linewidth=1.4)
        for end in ("low", "high"):
            axes.plot(x, 1.0 - own[end], color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
        axes.set_xlim(x.min(), x.max())
        if is_date(values):
            date_axis(axes, x)
        else:
            few_ticks(axes, y=None)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    percent_axis(axes.yaxis)
    names_beside(axes, grades, 0.5 * (tops[:-1, -1] + tops[1:, -1]))
    top_left(axes, f"probability of each {level}")
    axes.set_xlabel(wrapped(name, 48, 1))


def names_beside(axes: Axes, levels: Sequence[str], centres: np.ndarray) -> None:
    """Names of the grades beside the last value, each at its band or as near as its neighbours allow."""
    if len(levels) > _MOST_NAMED:
        return
    places = np.array(centres, dtype=float)
    for k in range(1, len(places)):  # from below
        places[k] = max(places[k], places[k - 1] + _APART)
    places[-1] = min(places[-1], 1.0)
    for k in range(len(places) - 2, -1, -1):  # and from above
        places[k] = min(places[k], places[k + 1] - _APART)
    for level, place in zip(levels, places, strict=True):
        axes.annotate(
            wrapped(level, 11, 1),
            xy=(1.0, place),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=10,
        )


def is_date(column: pd.Series) -> bool:
    """Whether all cells are dates, YYYY-MM-DD with or without a time."""
    return bool(column.astype(str).str.fullmatch(r"\d{4}-\d\d-\d\d([ T].*)?").all())


def positions(column: pd.Series) -> np.ndarray | None:
    """Numbers of a column, days since 1970-01-01 of one of dates, or None for levels."""
    if is_date(column):
        dates = pd.to_datetime(column.astype(str), format="ISO8601")
        since = dates.dt.as_unit("us") - pd.Timestamp(0).as_unit("us")
        return (since / pd.Timedelta(days=1)).to_numpy(float)
    numeric = pd.to_numeric(column, errors="coerce").to_numpy(float)
    return None if np.isnan(numeric).any() else numeric
