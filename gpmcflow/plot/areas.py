"""A map of areas by their outlines, in steps of one hue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.path import Path

from gpmcflow.plot.maps import colour_bar
from gpmcflow.plot.style import INK, PAPER, STEPS, WIDTH, Frame, wrapped

SIDE, TOP, BOTTOM = 12, 30, 40  # pixels around the map, title and colour bar in them
BAR = 22  # pixels from the map to the lower edge of its colour bar
TALLEST = 400  # pixels


def paths_of(outlines: pd.DataFrame) -> dict[str, Path]:
    """A path of all rings of each area; holes are where two of them overlap."""
    paths = {}
    for area, corners in outlines.groupby("area", sort=False):
        rings = [ring[["x", "y"]].to_numpy(float) for _, ring in corners.groupby("ring")]
        codes = [[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings]
        paths[str(area)] = Path(np.concatenate(rings), np.concatenate(codes))
    return paths


def _extent(paths: dict[str, Path]) -> tuple[np.ndarray, np.ndarray]:
    corners = np.concatenate([path.vertices for path in paths.values()])
    return corners.min(0), corners.max(0)


def area_frame(paths: dict[str, Path]) -> Frame:
    """A picture with the map's own proportions."""
    low, high = _extent(paths)
    span = np.maximum(high - low, 1e-300)
    most = WIDTH - 2 * SIDE
    height = min(most * span[1] / span[0], TALLEST)
    width = min(most, height * span[0] / span[1])
    return Frame(height + TOP + BOTTOM, SIDE, TOP, WIDTH - SIDE - width, BOTTOM)


def draw_areas(
    axes: Axes,
    paths: dict[str, Path],
    shown: pd.Series,
    levels: Sequence[float] | np.ndarray,
    alone: pd.Series,
    *,
    title: str,
    share: bool,
) -> None:
    """Areas filled by the step of ``levels`` that ``shown`` is in; dashed where ``alone`` is true."""
    low, high = _extent(paths)
    steps = np.linspace(0, len(STEPS) - 1, len(levels) - 1).round().astype(int)
    colours = [STEPS[step] for step in steps]
    drawn = [area for area in paths if area in shown.index]
    of_areas = np.searchsorted(levels, shown[drawn], side="right") - 1
    of_areas = np.clip(of_areas, 0, len(colours) - 1)
    axes.add_collection(
        PathCollection(
            [paths[area] for area in drawn],
            facecolors=[colours[step] for step in of_areas],
            edgecolors=[INK if own else PAPER for own in alone[drawn]],
            linewidths=[0.9 if own else 0.5 for own in alone[drawn]],
            linestyles=[(0, (2, 2)) if own else "solid" for own in alone[drawn]],
            zorder=1,
        )
    )
    margin = 0.005 * (high - low).max()
    axes.set_xlim(low[0] - margin, high[0] + margin)
    axes.set_ylim(low[1] - margin, high[1] + margin)
    axes.set_axis_off()
    axes.set_title(wrapped(title, 52, 1), loc="left", fontsize=11, x=0, pad=9)
    colour_bar(axes, levels, colours, share, below=BAR)
