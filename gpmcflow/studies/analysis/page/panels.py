"""Panels that several kinds of outcome share: rows of intervals, effects, curve, prior to posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from gpmcflow.studies.analysis.page.canvas import (
    ACCENT,
    INK,
    LINE,
    MUTED,
    Canvas,
    few_ticks,
    percent_axis,
    plain,
    top_left,
    wrapped,
)
from gpmcflow.studies.analysis.page.words import number, percent

_FEW_VALUES = 8  # whole numbers with up to so many values are dots, not a line


class Bar(NamedTuple):
    """One row of an interval picture."""

    label: str
    value: float
    low: float
    high: float
    accent: bool = True


def interval_rows(
    key: str,
    bars: Sequence[Bar],
    xlabel: str,
    caption: str,
    *,
    at: float | None = 0.0,
    logarithmic: bool = False,
    prior: Sequence[tuple[float, float]] | None = None,
) -> Markup:
    """Dots with bars, one row each, first on top; dashes at ``at``, a broad line for each prior."""
    labels = [wrapped(bar.label) for bar in bars]
    longest = max(len(line) for text in labels for line in text.split("\n"))
    left = min(16 + 6.6 * longest, 158)
    pitch = 30 if any("\n" in text for text in labels) else 25
    with Canvas(pitch * len(bars) + 60) as canvas:
        axes = canvas.axes(left, 10, 14, 44)
        if logarithmic:
            axes.set_xscale("log")
        for row, bar in enumerate(bars):
            axes.axhline(row, color=LINE, linewidth=0.8, zorder=0)
            colour, shape = (ACCENT, "o") if bar.accent else (INK, "s")
            if prior is not None:
                axes.plot(prior[row], [row, row], color=MUTED, alpha=0.35, linewidth=7)
            axes.plot([bar.low, bar.high], [row, row], color=colour, linewidth=1.8)
            axes.plot(bar.value, row, shape, color=colour, markersize=5.5 if bar.accent else 4.5)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_yticks(range(len(bars)), labels, ma="right")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        if logarithmic:
            _log_ticks(axes)
        else:
            axes.margins(x=0.06)
            few_ticks(axes, x=6, y=None)
        if at is not None:
            axes.axvline(at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel(plain(xlabel))
        _centre_label(axes, xlabel)
        return canvas.svg(key, caption)


def effect_panels(
    key: str,
    effects: pd.DataFrame,
    rug: pd.DataFrame,
    *,
    kind: str,
    response: str,
    names: dict[str, str],
    base: float,
    base_name: str,
    ends: tuple[str, str],
    caption: str,
) -> list[Markup]:
    """One panel a column: average response with its band, all on one vertical axis."""
    share = kind in ("binary", "binomial")
    limits = _limits(effects, rug, kind)
    panels = []
    for index, (column, part) in enumerate(effects.groupby("column", sort=False)):
        points = rug[rug["column"] == column]
        with Canvas(244) as canvas:
            axes = canvas.axes(50, 26, 12, 44)
            position = _values(part["value"])
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
                width = max(6, 44 // len(part))
                axes.set_xticks(x, [wrapped(value, width, 2) for value in part["value"]])
            else:
                few_ticks(axes, x=min(6, len(part)) if dots else 6, y=None)
            if share:
                axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
                percent_axis(axes.yaxis)
            else:
                few_ticks(axes, x=None)
            _rug(axes, points, part["value"], position, kind, ends)
            axes.axhline(base, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            if share and index == 0:
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
        x = curve["value"].to_numpy(float)
        if kind != "binary":
            axes.fill_between(
                x, curve["predictive_low"], curve["predictive_high"], color=ACCENT, alpha=0.1, lw=0
            )
        axes.fill_between(x, curve["low"], curve["high"], color=ACCENT, alpha=0.28, linewidth=0)
        axes.plot(x, curve["mean"], color=ACCENT, linewidth=1.8)
        if kind == "binary":
            axes.set_ylim(-0.07, 1.07)
        elif not rug.empty:
            axes.plot(rug["value"].astype(float), rug["outcome"], ".", color=MUTED, markersize=3.5)
        if kind in ("binary", "binomial"):
            percent_axis(axes.yaxis)
        axes.set_xlim(x.min(), x.max())
        few_ticks(axes, y=None if kind == "binary" else 6)
        if kind == "binary":
            axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
            _rug(axes, rug, curve["value"], x, kind, ("", ""))
        top_left(axes, response)
        axes.set_xlabel(wrapped(name, 48, 1))
        return canvas.svg(key, caption)


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
        x = pd.to_numeric(points["value"], errors="coerce").to_numpy(float)
    y = points["outcome"].to_numpy(float)
    if position is None or _whole(position):
        # rows at the same value are spread side by side, in the order of the file
        order = pd.Series(x).groupby([x, y > 0]).cumcount().to_numpy()
        x = x + 0.3 * ((order * 0.6180339887) % 1 - 0.5) * 2
    low, high = axes.get_ylim()
    height = 0.035 * (high - low)
    foot = np.full(len(x), low + 0.2 * height)
    if kind == "real":
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


def _limits(effects: pd.DataFrame, rug: pd.DataFrame, kind: str) -> tuple[float, float]:
    if kind == "binary":
        return -0.09, 1.09
    if kind == "binomial":
        return -0.02, 1.02
    low, high = effects["low"].min(), effects["high"].max()
    if kind == "real" and not rug.empty:
        ends = rug["outcome"].quantile([0.005, 0.995])
        low, high = min(low, ends.iloc[0]), max(high, ends.iloc[1])
    if kind == "counts":
        return 0.0 - 0.06 * high, 1.06 * high
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


def _values(column: pd.Series) -> np.ndarray | None:
    """Numbers of a column of text, or None for levels."""
    numeric = pd.to_numeric(column, errors="coerce").to_numpy(float)
    return None if np.isnan(numeric).any() else numeric


def _whole(values: np.ndarray) -> bool:
    return len(values) <= _FEW_VALUES and bool((values == np.round(values)).all())


def _log_ticks(axes: Axes) -> None:
    """At most five ticks at 1, 2, 5 times powers of ten, fewer kinds where the axis is long."""
    low, high = axes.get_xlim()
    for mantissas, stride in (
        ((1, 2, 5), 1),
        ((1, 3), 1),
        ((1,), 1),
        ((1,), 2),
        ((1,), 3),
        ((1,), 5),
    ):
        exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        ticks = [m * 10.0**e for e in exponents if e % stride == 0 for m in mantissas]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 6:
            break
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [number(tick) for tick in ticks])


def _centre_label(axes: Axes, text: str) -> None:
    """Axis label kept inside the panel where it is wider than the axes."""
    box = axes.get_position()
    half = 3.1 * len(text) / 360
    centre = min(max((box.x0 + box.x1) / 2, half + 0.02), max(1 - half - 0.02, 0.5))
    axes.xaxis.set_label_coords(
        (centre - box.x0) / (box.x1 - box.x0), -20 / (box.height * axes.figure.bbox.height)
    )


def base_name(share: bool, base: float) -> str:
    """Words at the dashes: ``all rows 43 %``."""
    return f"all rows {percent(base) if share else number(base)}"
