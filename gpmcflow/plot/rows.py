"""Rows of dots with bars: differences of scores, changes by column, prior against posterior."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from gpmcflow.plot.numbers import label
from gpmcflow.plot.style import (
    ACCENT,
    DASHES,
    INK,
    LINE,
    MUTED,
    Frame,
    few_ticks,
    log_ticks,
    plain,
    stands_alone,
    wrapped,
)


class Bar(NamedTuple):
    """One row of an interval picture."""

    label: str
    value: float
    low: float
    high: float
    accent: bool = True


def rows_frame(bars: Sequence[Bar]) -> Frame:
    """A picture with room for so many rows and their labels."""
    labels = [wrapped(bar.label) for bar in bars]
    longest = max(len(line) for text in labels for line in text.split("\n"))
    pitch = 30 if any("\n" in text for text in labels) else 25
    return Frame(pitch * len(bars) + 60, min(16 + 6.6 * longest, 158), 10, 14, 44)


def interval_rows(
    axes: Axes,
    bars: Sequence[Bar],
    xlabel: str,
    *,
    at: float | None = 0.0,
    logarithmic: bool = False,
    prior: Sequence[tuple[float, float]] | None = None,
) -> None:
    """Dots with bars, one row each, first on top; dashes at ``at``, a broad line for each prior."""
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
    axes.set_yticks(range(len(bars)), [wrapped(bar.label) for bar in bars], ma="right")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if logarithmic:
        log_ticks(axes.xaxis)
    else:
        axes.margins(x=0.06)
        few_ticks(axes, x=6, y=None)
    if at is not None:
        axes.axvline(at, color=MUTED, linewidth=1, linestyle=DASHES, zorder=1)
    axes.set_xlabel(plain(xlabel))
    if stands_alone(axes):
        _centre_label(axes, xlabel)


def _centre_label(axes: Axes, text: str) -> None:
    """Axis label kept inside the panel where it is wider than the axes."""
    box = axes.get_position()
    half = 3.1 * len(text) / 360
    centre = min(max((box.x0 + box.x1) / 2, half + 0.02), max(1 - half - 0.02, 0.5))
    axes.xaxis.set_label_coords(
        (centre - box.x0) / (box.x1 - box.x0), -20 / 72 / (box.height * axes.figure.get_figheight())
    )


def prior_frame(part: pd.DataFrame) -> Frame:
    """A picture for these parameters."""
    return rows_frame(_parameter_bars(part))


def prior_and_posterior(axes: Axes, part: pd.DataFrame, *, logarithmic: bool) -> None:
    """Parameters (prior_q025, prior_q975, q025, q50, q975) before and after the data."""
    prior = list(zip(part["prior_q025"], part["prior_q975"], strict=True))
    if logarithmic:  # a prior over many powers of ten is cut where the posteriors end
        low = part["q025"].min() / 1e3
        high = part["q975"].max() * 1e3
        prior = [(max(a, low), min(b, high)) for a, b in prior]
    bars = _parameter_bars(part)
    interval_rows(axes, bars, "value", at=None, logarithmic=logarithmic, prior=prior)


def _parameter_bars(part: pd.DataFrame) -> list[Bar]:
    return [
        Bar(parameter_name(row.parameter), row.q50, row.q025, row.q975) for row in part.itertuples()
    ]


def parameter_name(name: str) -> str:
    """``length_scale[age]`` as ``length scale, age``."""
    return label(re.sub(r"\[(.*)\]$", r", \1", name.replace(".", " ")))


EVIDENCE = "log evidence less that of the best model, nats"


def evidence_bars(names: Sequence[str], values: pd.Series, errors: pd.Series) -> list[Bar]:
    """Log evidences less the largest, with two joint standard errors; the largest first."""
    value, error = np.asarray(values, dtype=float), np.asarray(errors, dtype=float)
    order = np.argsort(-value, kind="stable")
    best, bars = order[0], []
    for k in order:
        joint = 0.0 if k == best else float(np.hypot(error[k], error[best]))
        less = float(value[k] - value[best])
        bars.append(Bar(names[k], less, less - 2 * joint, less + 2 * joint, k == best))
    return bars
