"""Rows of dots with bars: differences of scores, changes by column, prior against posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import NullLocator

from gpmcflow.analysis.page.canvas import (
    ACCENT,
    INK,
    LINE,
    MUTED,
    Canvas,
    few_ticks,
    plain,
    wrapped,
)
from gpmcflow.analysis.page.words import number

_DECADES = [
    *(((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), 1), ((1, 1.5, 2, 3, 4, 5, 7), 1)),
    *(((1, 1.5, 2, 3, 5), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 5)),
]


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
            log_ticks(axes.xaxis)
        else:
            axes.margins(x=0.06)
            few_ticks(axes, x=6, y=None)
        if at is not None:
            axes.axvline(at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel(plain(xlabel))
        _centre_label(axes, xlabel)
        return canvas.svg(key, caption)


def log_ticks(axis: Axis) -> None:
    """At most six ticks: as many round numbers a decade as fit, or every few decades one."""
    low, high = axis.get_view_interval()
    exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for mantissas, stride in _DECADES:
        ticks = [m * 10.0**e for e in exponents if e % stride == 0 for m in mantissas]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 6:
            break
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(ticks, [number(tick) for tick in ticks])


def _centre_label(axes: Axes, text: str) -> None:
    """Axis label kept inside the panel where it is wider than the axes."""
    box = axes.get_position()
    half = 3.1 * len(text) / 360
    centre = min(max((box.x0 + box.x1) / 2, half + 0.02), max(1 - half - 0.02, 0.5))
    axes.xaxis.set_label_coords(
        (centre - box.x0) / (box.x1 - box.x0), -20 / (box.height * axes.figure.bbox.height)
    )
