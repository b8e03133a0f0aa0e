"""Probabilities of ordered grades as stacked bands, one panel a column."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from gpmcflow.analysis.page.canvas import (
    INK,
    PAPER,
    STEPS,
    Canvas,
    few_ticks,
    percent_axis,
    top_left,
    wrapped,
)
from gpmcflow.analysis.page.panels import date_axis, level_names
from gpmcflow.analysis.page.results import is_date, positions

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
    names: dict[str, str],
    categories: Collection[str],
    caption: str,
) -> list[Markup]:
    """One panel a column: probabilities of the grades, the lowest at the foot, and where they are split."""
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
            top_left(axes, "probability of each grade")
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
