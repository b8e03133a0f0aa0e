"""Maps of areas: how each compares with the overall mean, and how probable it is that it lies above."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.collections import PathCollection
from matplotlib.path import Path

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import INK, PAPER, STEPS, WIDTH, Canvas, plain, wrapped
from gpmcflow.analysis.page.html import figure
from gpmcflow.analysis.page.places import _colour_bar, _levels
from gpmcflow.analysis.page.results import Analysis

SURE = 0.95  # probability above, or below, that the caption counts
SHARES = np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0])  # steps of the probability
TALLEST = 400  # pixels


def area_maps(analysis: Analysis) -> Markup | None:
    """The two maps with their caption, or none where an analysis has no areas with outlines."""
    areas, outlines = analysis["areas"], analysis["outlines"]
    if areas.empty or outlines.empty:
        return None
    values = areas.set_index("area")
    above, below = int((areas["above"] > SURE).sum()), int((areas["above"] < 1.0 - SURE).sum())
    alone = int((areas["rows"] == 0).sum())
    what = "to the overall mean" if analysis.ratios else "less the overall mean"
    relative = "Relative risk" if analysis.kind == "counts" else "Ratio"
    title = f"{relative}, {analysis.response}" if analysis.ratios else f"{analysis.response} {what}"
    caption = " ".join(
        part
        for part in (
            f"First: {analysis.response} of each area {what}, other columns at their mean.",
            f"Second: probability that it lies above it: {_areas(above)} with more than 95 %, "
            f"{below} with less than 5 %.",
            f"Dashed: {_areas(alone)} without rows." if alone else "",
        )
        if part
    )
    key = f"{analysis.info['name']}-areas"
    paths = _paths(outlines)
    levels = _levels(values["relative"].to_numpy(), geometric=analysis.ratios)
    panels = [
        _panel(f"{key}-0", paths, values["relative"], levels, words.capital(title), values, caption,
               analysis.shares),
        _panel(f"{key}-1", paths, values["above"], SHARES, "P(above the overall mean)", values, caption,
               share=True),
    ]  # fmt: skip
    return figure(panels, caption)


def _areas(n: int) -> str:
    return f"{n} area{'s' * (n != 1)}"


def _paths(outlines: pd.DataFrame) -> dict[str, Path]:
    """A path of all rings of each area; holes are where two of them overlap."""
    paths = {}
    for area, corners in outlines.groupby("area", sort=False):
        rings = [ring[["x", "y"]].to_numpy(float) for _, ring in corners.groupby("ring")]
        codes = [[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings]
        paths[str(area)] = Path(np.concatenate(rings), np.concatenate(codes))
    return paths


def _panel(
    key: str,
    paths: dict[str, Path],
    shown: pd.Series,
    levels: Sequence[float],
    title: str,
    values: pd.DataFrame,
    caption: str,
    share: bool,
) -> Markup:
    corners = np.concatenate([path.vertices for path in paths.values()])
    low, high = corners.min(0), corners.max(0)
    span = np.maximum(high - low, 1e-300)
    left, top, bottom = 12, 30, 60
    width = WIDTH - 2 * left
    height = min(width * span[1] / span[0], TALLEST)
    width = min(width, height * span[0] / span[1])
    colours = [
        STEPS[step] for step in np.linspace(0, len(STEPS) - 1, len(levels) - 1).round().astype(int)
    ]
    with Canvas(height + top + bottom) as canvas:
        axes = canvas.axes(left, top, WIDTH - left - width, bottom)
        drawn = [area for area in paths if area in shown.index]
        steps = np.clip(
            np.searchsorted(levels, shown[drawn], side="right") - 1, 0, len(colours) - 1
        )
        alone = values.loc[drawn, "rows"].to_numpy() == 0
        axes.add_collection(
            PathCollection(
                [paths[area] for area in drawn],
                facecolors=[colours[step] for step in steps],
                edgecolors=[INK if own else PAPER for own in alone],
                linewidths=[0.9 if own else 0.5 for own in alone],
                linestyles=[(0, (2, 2)) if own else "solid" for own in alone],
                zorder=1,
            )
        )
        margin = 0.005 * span.max()
        axes.set_xlim(low[0] - margin, high[0] + margin)
        axes.set_ylim(low[1] - margin, high[1] + margin)
        axes.set_axis_off()
        axes.set_title(wrapped(title, 52, 1), loc="left", fontsize=11, x=0, pad=9)
        _colour_bar(canvas, left, width, levels, colours, share)
        return canvas.svg(plain(key), caption)
