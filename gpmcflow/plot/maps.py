"""Maps: the expected outcome over a plane or by areas, and how far it can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.plot.numbers import number, percent
from gpmcflow.plot.style import INK, MUTED, PAPER, STEPS, WIDTH, Frame, few_ticks, plain, wrapped

_LEAST_SURE = 0.8  # the least certain fifth is hatched, where it is uncertain enough to matter
MOST_POINTS = 2000


class Grid(NamedTuple):
    """Axes and values (y, x) of a map; ``doubt`` is a factor under a log link, else half an interval."""

    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    doubt: np.ndarray


def grid_of(table: pd.DataFrame, kind: str) -> Grid:
    """The table of ``map.csv`` as arrays."""
    wide = {
        name: table.pivot(index="y", columns="x", values=name).to_numpy(float)
        for name in ("mean", "low", "high")
    }
    low, high = wide["low"], wide["high"]
    with np.errstate(divide="ignore", invalid="ignore"):
        doubt = np.sqrt(high / low) if KINDS[kind].ratios else (high - low) / 2.0
    x, y = (np.sort(table[axis].unique()).astype(float) for axis in ("x", "y"))
    return Grid(x, y, **wide, doubt=doubt)


def unsure_above(grid: Grid, kind: str) -> float:
    """Doubt above which a place is hatched: a factor of 2, or a half interval as large as the map's
    own variation, and more where that would hatch over a fifth of the map."""
    own = KINDS[kind]
    floor = 2.0 if own.ratios else 0.15 if own.shares else float(np.nanstd(grid.mean))
    return float(f"{max(floor, float(np.nanquantile(grid.doubt, _LEAST_SURE))):.2g}")


def map_frame(grid: Grid) -> Frame:
    """A picture with the map's own proportions, room for its title and for the bar of its colours."""
    left, right, top, bottom = 46, 12, 30, 84
    width, height = _size(grid, WIDTH - left - right)
    return Frame(height + top + bottom, left, top, WIDTH - left - width, bottom)


def draw_map(
    axes: Axes,
    grid: Grid,
    values: np.ndarray,
    points: pd.DataFrame,
    *,
    share: bool,
    title: str,
    names: tuple[str, str],
    geometric: bool = False,
    unsure: float | None = None,
) -> None:
    """A map of values (y, x) in seven steps of one hue, hatched where the doubt is above ``unsure``."""
    levels = round_levels(values, geometric=geometric)
    colours = [STEPS[step] for step in _spread(len(levels) - 1)]
    axes.contourf(
        *(grid.x, grid.y, np.ma.masked_invalid(values)),
        levels,
        colors=colours,
        extend="neither",
        antialiased=True,
    )
    if unsure is not None and (grid.doubt > unsure).any():
        axes.contourf(
            *(grid.x, grid.y, np.ma.masked_invalid(grid.doubt)),
            [unsure, np.inf],
            colors="none",
            hatches=["////"],
        )
    if not points.empty:
        part = points.iloc[np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).astype(int))]
        axes.plot(part["x"], part["y"], ".", color=INK, markersize=2.4, alpha=0.6)
    axes.set_xlim(grid.x[0], grid.x[-1])
    axes.set_ylim(grid.y[0], grid.y[-1])
    few_ticks(axes, x=7, y=6)
    axes.set_xlabel(wrapped(names[0], 44, 1), labelpad=2)
    axes.set_ylabel(wrapped(names[1], 30, 1), labelpad=2)
    axes.set_title(wrapped(title, 52, 1), loc="left", fontsize=11, x=0, pad=9)
    colour_bar(axes, levels, colours, share)


def colour_bar(
    axes: Axes, levels: np.ndarray, colours: list[str], share: bool, *, below: int = 66
) -> None:
    """Colours of the steps, 12 pixels high, their lower edge so many pixels below a map."""
    pixel = axes.figure.dpi / 72 / axes.get_window_extent().height
    axes = axes.inset_axes((0, -below * pixel, 1, 12 * pixel))
    norm = BoundaryNorm(np.arange(len(levels)), len(colours))
    steps = np.arange(len(levels))
    axes.pcolormesh(steps, [0, 1], steps[None, :-1] + 0.5, cmap=ListedColormap(colours), norm=norm)
    inner = steps[1:-1]
    texts = [percent(level) if share else number(level, 2) for level in levels[1:-1]]
    for digits in range(3, 8):  # as many as tell them apart
        if share or len(set(texts)) == len(texts):
            break
        texts = [number(level, digits) for level in levels[1:-1]]
    axes.set_xticks(inner, [plain(text) for text in texts], fontsize=10)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0, pad=3)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(MUTED)
        spine.set_linewidth(0.5)


def round_levels(values: np.ndarray, *, geometric: bool) -> np.ndarray:
    """Up to eight boundaries at round numbers; the outer two hold all values."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if high - low < 1e-9 * max(abs(high), 1e-300):
        return np.array([low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)])
    if geometric and low > 0 and high > 4 * low:
        inner = np.geomspace(*np.nanquantile(values, [0.08, 0.97]), 6)
        inner = np.unique([_round_number(value) for value in inner])
    else:
        inner = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        inner = np.round(inner, 12)
    inner = inner[(inner > low) & (inner < high)]
    if len(inner) == 0:
        inner = np.array([(low + high) / 2])
    margin = 1e-6 * (high - low)
    return np.concatenate([[low - margin], inner[:6], [high + margin]])


def _round_number(value: float) -> float:
    """Nearest of 1, 1.2, 1.5, 1.8, 2, 2.5, ... times a power of ten."""
    size = 10.0 ** np.floor(np.log10(value))
    steps = np.array([1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9, 10])
    return float(f"{steps[np.argmin(np.abs(np.log(steps * size / value)))] * size:.3g}")


def _spread(n: int) -> list[int]:
    """Steps of the hue for so many classes, the palest and the strongest always in use."""
    return [3] if n == 1 else [round(step) for step in np.linspace(0, 6, n)]


def _size(grid: Grid, most: float) -> tuple[float, float]:
    """Width and height of the map: one scale for both directions, within the panel."""
    ratio = (grid.y[-1] - grid.y[0]) / (grid.x[-1] - grid.x[0])
    width = min(most, 300 / ratio)
    return max(width, 90.0), max(min(width * ratio, 300.0), 60.0)


# Areas by their outlines.

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
