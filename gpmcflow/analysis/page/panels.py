"""Panels of the average response: the effects of single columns, and the curve of the only one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.dates import num2date
from matplotlib.ticker import FixedLocator, MaxNLocator

from gpmcflow.analysis.page.canvas import (
    ACCENT,
    INK,
    MUTED,
    PAPER,
    STEPS,
    Canvas,
    few_ticks,
    percent_axis,
    plain,
    top_left,
    wrapped,
)
from gpmcflow.analysis.page.results import is_date, positions
from gpmcflow.analysis.page.words import FEW_DAYS, number, percent
from gpmcflow.data.outcome_kinds import KINDS

_MOST_ACROSS = 6  # levels whose names fit side by side
_MONTHS = 120  # days of an axis from which ticks are told by months
_FEW_VALUES = 8  # whole numbers with up to so many values are dots, not a line


def effect_panels(
    key: str,
    effects: pd.DataFrame,
    rug: pd.DataFrame,
    *,
    kind: str,
    response: str,
    names: dict[str, str],
    categories: Collection[str],
    base: float,
    base_name: str,
    ends: tuple[str, str],
    caption: str,
) -> list[Markup]:
    """One panel a column: average response with its band, all on one vertical axis."""
    share, whole = KINDS[kind].shares, kind in ("binary", "binomial")
    limits = _limits(effects, rug, kind, base)
    panels = []
    for index, (column, part) in enumerate(effects.groupby("column", sort=False)):
        points = rug[rug["column"] == column]
        position = None if column in categories else positions(part["value"])
        dates = position is not None and is_date(part["value"])
        levels, more = level_names(part["value"]) if position is None else ([], 0)
        with Canvas(244 + more) as canvas:
            axes = canvas.axes(50, 26, 12, 44 + more)
            dots = position is None or _whole(position)
            x = np.arange(len(part), dtype=float) if position is None else position
            if dots:
                axes.vlines(x, part["low"], part["high"], color=ACCENT, linewidth=1.8)
                axes.plot(x, part["mean"], "o", color=ACCENT, markersize=5.5)
                axes.set_xlim(x.min() - 0.6, x.max() + 0.6)
            else:
                axes.fill_between(
                    x, part["low"], part["high"], color=ACCENT, alpha=0.18, linewidth=0
                )
                axes.plot(x, part["mean"], color=ACCENT, linewidth=1.8)
                axes.set_xlim(x.min(), x.max())
            axes.set_ylim(limits)
            if position is None:
                axes.set_xticks(x, levels, rotation=90 if len(levels) > _MOST_ACROSS else 0)
            elif dates:
                date_axis(axes, position)
            else:
                few_ticks(axes, x=min(6, len(part)) if dots else 6, y=None)
            if whole:
                axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
            else:
                few_ticks(axes, x=None)
            if share:
                percent_axis(axes.yaxis)
            _rug(axes, points, part["value"], position, kind, ends)
            axes.axhline(base, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            if share and index == 0 and not dots:
                _label_base(axes, base, base_name, part, x, limits)
            top_left(axes, response)
            axes.set_xlabel(wrapped(names[column], 48, 1))
            panels.append(canvas.svg(f"{key}-{index}", caption))
    return panels


def curve_panel(
    key: str,
    curve: pd.DataFrame,
    rug: pd.DataFrame,
    *,
    kind: str,
    response: str,
    name: str,
    caption: str,
) -> Markup:
    """Average response over the only input, with the bands of the mean and of one new row."""
    with Canvas(270) as canvas:
        axes = canvas.axes(50, 26, 12, 44)
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
        return canvas.svg(key, caption)


def survival_panel(
    key: str, shares: pd.DataFrame, ends: tuple[str, str], time: str, caption: str
) -> Markup:
    """Shares that last longer than a time: predicted at two values of a column, and of all rows as seen."""
    with Canvas(250) as canvas:
        axes = canvas.axes(50, 26, 16, 44)
        seen = shares[~shares["of"].isin(ends)]
        axes.step(seen["time"], seen["longer"], where="post", color=MUTED, linewidth=1)
        for end, dashes in zip(ends, ("-", (0, (4, 3))), strict=True):
            part = shares[shares["of"] == end].sort_values("time")
            axes.plot(part["time"], part["longer"], color=ACCENT, linewidth=1.8, linestyle=dashes)
        axes.set_ylim(-0.02, 1.04)
        axes.set_xlim(0.0, float(shares["time"].max()))
        axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
        percent_axis(axes.yaxis)
        few_ticks(axes, y=None)
        top_left(axes, "share that lasts longer")
        axes.set_xlabel(wrapped(time, 48, 1))
        return canvas.svg(key, caption)


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


def _limits(
    effects: pd.DataFrame, rug: pd.DataFrame, kind: str, base: float
) -> tuple[float, float]:
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


def _label_base(axes, base, name, part, x, limits) -> None:
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


def band_panels(
    key: str,
    grades: pd.DataFrame,
    effects: pd.DataFrame,
    *,
    levels: Sequence[str],
    split: int,
    level: str,
    names: dict[str, str],
    categories: Collection[str],
    caption: str,
) -> list[Markup]:
    """One panel a column: probabilities of the levels, the first at the foot, and where they are split."""
    panels = []
    colours = [STEPS[round(step)] for step in np.linspace(0, 6, len(levels))]
    for index, (column, part) in enumerate(grades.groupby("column", sort=False)):
        shares = np.array([part.loc[part["grade"] == g, "probability"] for g in levels])
        values = part.loc[part["grade"] == levels[0], "value"]
        position = None if column in categories else positions(values)
        ticks, more = level_names(values) if position is None else ([], 0)
        tops = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares, axis=0)])
        own = effects[effects["column"] == column]
        with Canvas(244 + more) as canvas:
            axes = canvas.axes(50, 26, _NAMES, 44 + more)
            if position is None:
                x = np.arange(len(values), dtype=float)
                for low, share, colour in zip(tops, shares, colours, strict=False):
                    axes.bar(x, share, 0.72, low, color=colour, edgecolor=PAPER, linewidth=0.6)
                axes.hlines(tops[split - 1], x - 0.36, x + 0.36, color=INK, linewidth=1.4)
                axes.vlines(
                    x,
                    1.0 - own["high"],
                    1.0 - own["low"],
                    color=INK,
                    linewidth=1,
                    linestyle=(0, (3, 2)),
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
            _name(axes, levels, 0.5 * (tops[:-1, -1] + tops[1:, -1]))
            top_left(axes, f"probability of each {level}")
            axes.set_xlabel(wrapped(names[column], 48, 1))
            panels.append(canvas.svg(f"{key}-{index}", caption))
    return panels


def _name(axes: Axes, levels: Sequence[str], centres: np.ndarray) -> None:
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
