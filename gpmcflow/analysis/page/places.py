"""Where the outcome is high: a map, and what it shows in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.ndimage import maximum_filter

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.standing import nothing_learnt, place_of
from gpmcflow.plot.maps import Grid, grid_of, unsure_above

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
    if (not sure and lowest.high >= base) or (place is not None and not place.seen):
        text = "{} shows no clear differences from place to place: it is {} on average."
        return Markup(text).format(subject, average)
    parts: list[Markup | str] = [Markup("{} differs from place to place.").format(subject)]
    if sure:
        named = sure[:_MOST]
        places = words.series([_place(analysis, one, first=k == 0) for k, one in enumerate(named)])
        what = html.bold(f"{words.count(len(sure))} centre{'s' * (len(sure) > 1)}")
        highest = "" if len(sure) <= _MOST else f", the {words.count(len(named))} highest"
        text = Markup("It is high in {}{}: {}, against {} on average.")
        parts.append(text.format(what, highest, places, average))
    if (not sure or analysis.own.measured) and lowest.high < base:
        against = "" if sure else f", against {average} on average"
        parts.append(f"It is lowest {_place(analysis, lowest, first=not sure)}{against}.")
    unsure = [one for one in unsure if one.mean - base > 0.5 * (np.nanmax(grid.mean) - base)]
    if unsure and len(sure) < _MOST:
        opening = "It may also be high" if sure else "It may be high"
        parts.append(f"{opening} {_place(analysis, unsure[0])}.")
    return html.sentences(*parts)


def doubt_sentence(analysis: Analysis, grid: Grid) -> str:
    """What hatching means, or that there is none."""
    limit = unsure_above(grid, analysis.kind)
    if not (grid.doubt > limit).any():
        return ""
    if analysis.own.ratios:
        return f"Hatched: uncertain by more than a factor of {words.number(limit, 2)}."
    size = (
        f"{words.number(100 * limit, 2)} points"
        if analysis.own.shares
        else words.number(limit, 2) + analysis.unit
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
    if analysis.own.shares:
        size = words.percent_interval(place.mean, place.low, place.high, first=first)
    else:
        triple = place.mean, place.low, place.high
        size = words.interval(*triple, unit=analysis.unit, first=first)
    return f"near {where} with {size}"


def _amount(analysis: Analysis, value: float) -> str:
    return (
        words.percent(value)
        if analysis.own.shares
        else words.number(value, 2 if analysis.kind == "counts" else 3)
    )
