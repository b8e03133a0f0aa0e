"""Where the outcome is high: a map, and what it shows in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import maximum_filter

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import (
    INK,
    MUTED,
    STEPS,
    WIDTH,
    Canvas,
    few_ticks,
    plain,
    wrapped,
)
from gpmcflow.analysis.page.html import bold, sentences
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.standing import NONE, nothing_learnt, place_of
from gpmcflow.analysis.page.words import number, percent
from gpmcflow.data.outcome_kinds import KINDS

# The map of the expected outcome, and the map of how far it can be relied on.

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
        for name in ("mean", "low", "high", "factor")
    }
    factor = wide.pop("factor")
    doubt = factor if KINDS[kind].ratios else (wide["high"] - wide["low"]) / 2
    x, y = (np.sort(table[axis].unique()).astype(float) for axis in ("x", "y"))
    return Grid(x, y, **wide, doubt=doubt)


def unsure_above(grid: Grid, kind: str) -> float:
    """Doubt above which a place is hatched: a factor of 2, or a half interval as large as the map's
    own variation, and more where that would hatch over a fifth of the map."""
    own = KINDS[kind]
    floor = 2.0 if own.ratios else 0.15 if own.shares else float(np.nanstd(grid.mean))
    return float(f"{max(floor, float(np.nanquantile(grid.doubt, _LEAST_SURE))):.2g}")


def map_panels(
    key: str,
    grid: Grid,
    points: pd.DataFrame,
    *,
    kind: str,
    titles: tuple[str, str],
    names: tuple[str, str],
    caption: str,
) -> list[Markup]:
    """Two maps in seven steps of one hue: the mean, hatched where unsure, and the doubt."""
    share = KINDS[kind].shares
    limit = unsure_above(grid, kind)
    panels = []
    for index, values in enumerate((grid.mean, grid.doubt)):
        levels = _levels(values, geometric=KINDS[kind].ratios and index == 0)
        left, right, top = 46, 12, 30
        width, height = _size(grid, WIDTH - left - right)
        with Canvas(height + top + 84) as canvas:
            axes = canvas.axes(left, top, WIDTH - left - width, 84)
            colours = [STEPS[step] for step in _spread(len(levels) - 1)]
            axes.contourf(
                *(grid.x, grid.y, np.ma.masked_invalid(values)),
                levels,
                colors=colours,
                extend="neither",
                antialiased=True,
            )
            if index == 0 and (grid.doubt > limit).any():
                axes.contourf(
                    *(grid.x, grid.y, np.ma.masked_invalid(grid.doubt)),
                    [limit, np.inf],
                    colors="none",
                    hatches=["////"],
                )
            if not points.empty:
                part = points.iloc[
                    np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).astype(int))
                ]
                axes.plot(part["x"], part["y"], ".", color=INK, markersize=2.4, alpha=0.6)
            axes.set_xlim(grid.x[0], grid.x[-1])
            axes.set_ylim(grid.y[0], grid.y[-1])
            few_ticks(axes, x=7, y=6)
            axes.set_xlabel(wrapped(names[0], 44, 1), labelpad=2)
            axes.set_ylabel(wrapped(names[1], 30, 1), labelpad=2)
            axes.set_title(wrapped(titles[index], 52, 1), loc="left", fontsize=11, x=0, pad=9)
            _colour_bar(canvas, left, width, levels, colours, share)
            panels.append(canvas.svg(f"{key}-{index}", caption))
    return panels


def _colour_bar(canvas, left, width, levels, colours, share) -> None:
    axes = canvas.axes(left, canvas.height - 30, WIDTH - left - width, 18)
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


def _levels(values: np.ndarray, *, geometric: bool) -> np.ndarray:
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


# A map in words: the places that stand above the average, and how sure that is.

_MOST = 3  # places that are named
_APART = 0.08  # of the map's longer side: nearer maxima are one place


class Place(NamedTuple):
    """A local maximum (or minimum) of the map with its 95 % interval."""

    x: float
    y: float
    mean: float
    low: float
    high: float


def centres(grid: Grid, base: float) -> tuple[list[Place], list[Place]]:
    """Local maxima above ``base``, highest first: those whose whole interval is, and the others."""
    span = max(grid.x[-1] - grid.x[0], grid.y[-1] - grid.y[0])
    reach = [
        2 * max(1, round(_APART * span / max(np.diff(axis).mean(), 1e-300))) + 1
        for axis in (grid.y, grid.x)
    ]
    filled = np.where(np.isfinite(grid.mean), grid.mean, -np.inf)
    top = filled == maximum_filter(filled, size=reach, mode="nearest")
    row, column = np.nonzero(top & (filled > base))
    # a level plain is no centre: one cell of it stands for all
    order = np.argsort(-grid.mean[row, column], kind="stable")
    places: list[Place] = []
    for index in order:
        i, j = row[index], column[index]
        place = Place(grid.x[j], grid.y[i], grid.mean[i, j], grid.low[i, j], grid.high[i, j])
        if all(np.hypot(p.x - place.x, p.y - place.y) > _APART * span for p in places):
            places.append(place)
    return [p for p in places if p.low > base], [p for p in places if p.low <= base]


def map_answer(analysis: Analysis) -> Markup:
    """The centres of the map against its average, and where the map is a guess."""
    if nothing := nothing_learnt(analysis):
        return nothing
    grid = grid_of(analysis["map"], analysis.kind)
    base = float(analysis.info["map_average"])
    sure, unsure = centres(grid, base)
    lowest, place = _lowest(grid), place_of(analysis)
    average, subject = _amount(analysis, base), f"The {analysis.response}"
    if (not sure and lowest.high >= base) or (place is not None and place.state == NONE):
        text = "{} shows no clear differences from place to place: it is {} on average."
        return Markup(text).format(subject, average)
    parts: list[Markup | str] = [Markup("{} differs from place to place.").format(subject)]
    if sure:
        named = sure[:_MOST]
        places = [_place(analysis, one, first=k == 0) for k, one in enumerate(named)]
        what = f"{words.count(len(sure))} centre{'s' * (len(sure) > 1)}"
        highest = "" if len(sure) <= _MOST else f", the {words.count(len(named))} highest"
        parts.append(
            Markup("It is high in {}{}: {}, against {} on average.").format(
                bold(what), highest, words.series(places), average
            )
        )
    if (not sure or analysis.measured) and lowest.high < base:
        against = "" if sure else f", against {average} on average"
        parts.append(f"It is lowest {_place(analysis, lowest, first=not sure)}{against}.")
    unsure = [one for one in unsure if one.mean - base > 0.5 * (np.nanmax(grid.mean) - base)]
    if unsure and len(sure) < _MOST:
        opening = "It may also be high" if sure else "It may be high"
        parts.append(f"{opening} {_place(analysis, unsure[0])}.")
    return sentences(parts)


def doubt_sentence(analysis: Analysis, grid: Grid) -> str:
    """What hatching means, or that there is none."""
    limit = unsure_above(grid, analysis.kind)
    if not (grid.doubt > limit).any():
        return ""
    if analysis.ratios:
        return f"Hatched: uncertain by more than a factor of {words.number(limit, 2)}."
    size = (
        f"{words.number(100 * limit, 2)} points"
        if analysis.shares
        else words.number(limit, 2) + analysis.unit_after(analysis.info["target"]["name"])
    )
    return f"Hatched: uncertain by more than {size} up or down."


def _lowest(grid: Grid) -> Place:
    i, j = np.unravel_index(int(np.nanargmin(grid.high)), grid.high.shape)
    return Place(grid.x[j], grid.y[i], grid.mean[i, j], grid.low[i, j], grid.high[i, j])


def _place(analysis: Analysis, place: Place, *, first: bool = False) -> str:
    x, y = analysis.info["coordinates"]
    where = ", ".join(
        f"{label(name)} {words.near(value, np.ptp(analysis['map'][axis]))}{analysis.unit_after(name)}"
        for name, value, axis in ((x, place.x, "x"), (y, place.y, "y"))
    )
    if analysis.shares:
        size = words.percent_interval(place.mean, place.low, place.high, first=first)
    else:
        unit = analysis.unit_after(analysis.info["target"]["name"])
        size = words.interval(place.mean, place.low, place.high, unit=unit, first=first)
    return f"near {where} with {size}"


def _amount(analysis: Analysis, value: float) -> str:
    return (
        words.percent(value)
        if analysis.shares
        else words.number(value, 2 if analysis.kind == "counts" else 3)
    )
