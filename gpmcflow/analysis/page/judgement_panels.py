"""Panels that hold predictions against outcomes: calibration, quantiles, counts, a scatter."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.ticker import FixedLocator

from gpmcflow.analysis.page.canvas import (
    ACCENT,
    INK,
    MUTED,
    Canvas,
    few_ticks,
    percent_axis,
    plain,
    top_left,
    wrapped,
)
from gpmcflow.analysis.page.interval_panel import log_ticks
from gpmcflow.analysis.page.judging import CountBin, Group, QuantileShare

_DASHES = (0, (4, 3))
MOST_POINTS = 400  # of a scatter; a sample beyond


def calibration_panel(key: str, groups: list[Group], share_name: str, caption: str) -> Markup:
    """Share seen against probability promised, a dot a group with its 95 % interval."""
    with Canvas(300) as canvas:
        axes = canvas.axes(52, 26, 20, 44)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=_DASHES)
        for group in groups:
            axes.plot([group.promised] * 2, [group.low, group.high], color=ACCENT, linewidth=1.8)
            axes.plot(group.promised, group.share, "o", color=ACCENT, markersize=6)
        for group, at, side in zip(groups, *_places(groups), strict=True):
            axes.annotate(
                f"{group.seen} of {group.n}",
                xy=(group.promised, at),
                xytext=(0, 3 if side == "bottom" else -3),
                textcoords="offset points",
                ha="center",
                va=side,
                fontsize=10,
            )
        for limit, axis in ((axes.set_xlim, axes.xaxis), (axes.set_ylim, axes.yaxis)):
            limit(-0.04, 1.04)
            axis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
            percent_axis(axis)
        top_left(axes, share_name)
        axes.set_xlabel("probability the model gave")
        return canvas.svg(key, caption)


def quantile_panel(key: str, shares: list[QuantileShare], caption: str) -> Markup:
    """Share of rows below each stored quantile against what it promises."""
    with Canvas(270) as canvas:
        axes = canvas.axes(52, 26, 20, 44)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=_DASHES)
        for share in shares:
            axes.plot([share.level] * 2, [share.low, share.high], color=ACCENT, linewidth=1.8)
            axes.plot(share.level, share.share, "o", color=ACCENT, markersize=6)
        for limit, axis in ((axes.set_xlim, axes.xaxis), (axes.set_ylim, axes.yaxis)):
            limit(-0.04, 1.04)
            axis.set_major_locator(FixedLocator([0.025, 0.25, 0.5, 0.75, 0.975]))
            percent_axis(axis)
        top_left(axes, "share of outcomes below the quantile")
        axes.set_xlabel("predicted quantile")
        return canvas.svg(key, caption)


def rootogram_panel(key: str, bins: list[CountBin], outcome: str, caption: str) -> Markup:
    """Rows by their count: seen as dots, expected as lines with bands, on a square-root axis."""
    with Canvas(270) as canvas:
        axes = canvas.axes(46, 26, 12, 44)
        x = np.arange(len(bins), dtype=float)
        root = np.sqrt
        low, high = root([b.low for b in bins]), root([b.high for b in bins])
        seen, expected = root([b.seen for b in bins]), root([b.expected for b in bins])
        axes.bar(x, high - low, bottom=low, width=0.86, color=ACCENT, alpha=0.18, linewidth=0)
        axes.hlines(expected, x - 0.43, x + 0.43, color=ACCENT, linewidth=1.8)
        axes.vlines(x, 0, seen, color=INK, linewidth=1)
        axes.plot(x, seen, "o", color=INK, markersize=4.5)
        top = float(max(high.max(), seen.max()))
        step = max(1, int(np.ceil(top / 6)))
        ticks = np.arange(0, top + 1, step)
        axes.set_yticks(ticks, [f"{tick**2:.0f}" for tick in ticks])
        axes.set_ylim(-0.04 * top, 1.04 * top)
        axes.set_xticks(x, [b.name for b in bins])
        top_left(axes, "number of rows")
        axes.set_xlabel(wrapped(outcome, 48, 1))
        return canvas.svg(key, caption)


def scatter_panel(
    key: str,
    judged: pd.DataFrame,
    outcome: str,
    caption: str,
    *,
    counted: bool = False,
    logarithmic: bool = False,
) -> Markup:
    """Outcome against prediction, with the 95 % interval of each row; open circles lie outside."""
    part = sample(judged)
    x, y = part["mean"].to_numpy(float), part["outcome"].to_numpy(float)
    low, high = part["q025"].to_numpy(float), part["q975"].to_numpy(float)
    inside = (low <= y) & (y <= high)
    with Canvas(270) as canvas:
        axes = canvas.axes(50, 26, 12, 44)
        gap = np.full(len(x), np.nan)
        axes.plot(
            np.column_stack([x, x, gap]).ravel(),
            np.column_stack([low, high, gap]).ravel(),
            color=ACCENT,
            alpha=0.25,
            linewidth=1,
        )
        axes.plot(x[inside], y[inside], ".", color=INK, markersize=3.5)
        axes.plot(
            x[~inside], y[~inside], "o", markerfacecolor="none", markeredgecolor=INK, markersize=5
        )
        if logarithmic:
            axes.set_xscale("log")
            axes.set_yscale("log")
            for axis in (axes.xaxis, axes.yaxis):
                log_ticks(axis)
        else:
            few_ticks(axes)
        ends = np.array(axes.get_xlim())
        axes.plot(
            ends, ends, color=MUTED, linewidth=1, linestyle=_DASHES, scalex=False, scaley=False
        )
        top_left(axes, f"{'counted' if counted else 'measured'} {outcome}")
        axes.set_xlabel(plain(f"predicted {outcome}"))
        return canvas.svg(key, caption)


def sample(judged: pd.DataFrame) -> pd.DataFrame:
    """All rows, or evenly spaced ones of a table too long to draw."""
    if len(judged) <= MOST_POINTS:
        return judged
    return judged.iloc[np.linspace(0, len(judged) - 1, MOST_POINTS).astype(int)]


def _places(groups: list[Group]) -> tuple[list[float], list[str]]:
    """Height and side of each label: above or below its bar, where it crosses least."""
    wide, tall = 0.11, 0.07  # half a label's width and its height, in units of the axes
    taken = [
        (group.promised - 0.01, group.promised + 0.01, group.low, group.high) for group in groups
    ]
    heights, sides = [], []
    for index, group in enumerate(groups):
        boxes = {
            "bottom": (group.high, group.high + tall),
            "top": (group.low - tall, group.low),
        }
        crossed = {}
        for side, (low, high) in boxes.items():
            others = [box for k, box in enumerate(taken) if k != index]
            crossed[side] = sum(
                box[0] < group.promised + wide
                and box[1] > group.promised - wide
                and box[2] < high
                and box[3] > low
                for box in others
            ) + 10 * (low < -0.04 or high > 1.04)
        side = min(crossed, key=crossed.__getitem__)
        taken.append((group.promised - wide, group.promised + wide, *boxes[side]))
        heights.append(group.high if side == "bottom" else group.low)
        sides.append(side)
    return heights, sides
