"""Maps of areas: how each compares with the overall mean, and how probable it is that it lies above."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.html import bold, figure, italic, sentences
from gpmcflow.analysis.page.results import Analysis
from gpmcflow.plot.areas import area_frame, draw_areas, paths_of
from gpmcflow.plot.maps import round_levels

SURE = 0.95  # probability above, or below, that the caption counts
SHARES = np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0])  # steps of the probability


def area_maps(analysis: Analysis) -> Markup | None:
    """The two maps with their caption, or none where an analysis has no areas with outlines."""
    areas, outlines = analysis["areas"], analysis["outlines"]
    if areas.empty or outlines.empty:
        return None
    values = areas[areas["area"].isin(outlines["area"])].set_index("area")
    above, below = _sure(values)
    alone = int((values["rows"] == 0).sum())
    what = "relative to the overall mean" if analysis.ratios else "less the overall mean"
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
    key, paths = f"{analysis.info['name']}-areas", paths_of(outlines)
    frame, without = area_frame(paths), values["rows"] == 0
    levels = round_levels(values["relative"].to_numpy(), geometric=analysis.ratios)
    panels = [
        drawn(
            *(f"{key}-0", caption, frame, draw_areas, paths, values["relative"], levels, without),
            **{"title": words.capital(title), "share": analysis.shares},
        ),
        drawn(
            *(f"{key}-1", caption, frame, draw_areas, paths, values["above"], SHARES, without),
            **{"title": "P(above the overall mean)", "share": True},
        ),
    ]
    return figure(panels, caption)


def areas_answer(analysis: Analysis) -> Markup:
    """How many areas lie above and below the overall mean, and which the most; nothing without areas."""
    areas = analysis["areas"]
    if areas.empty:
        return Markup("")
    above, below = _sure(areas)
    if not above + below:
        return Markup("No area differs from the overall mean with a probability above 95 %.")
    parts = [
        Markup("Of {}, {} above the overall mean and {} below it, each with more than 95 % probability.")
        .format(_areas(len(areas)), bold(f"{above} lie{'s' * (above == 1)}"), bold(str(below)))
    ]  # fmt: skip
    named = [("highest", areas.iloc[areas["relative"].argmax()])] if above else []
    named += [("lowest", areas.iloc[areas["relative"].argmin()])] if below else []
    said = [
        Markup("the {} is {}, {}").format(
            side, italic(row["area"]), _relative(analysis, row, first=k == 0)
        )
        for k, (side, row) in enumerate(named)
    ]
    return sentences([*parts, Markup(words.capital(str(words.series(said)))) + "."])


def _relative(analysis: Analysis, row: pd.Series, *, first: bool) -> str:
    """``with 1.8 times the mean (95 % interval 1.3 to 2.4)``, ``12 points above it (..)``."""
    triple = [float(row[name]) for name in ("relative", "relative_low", "relative_high")]
    opening = "95 % interval " * first
    if analysis.ratios:
        middle, low, high = words.interval_parts(*triple)
        return f"with {middle} times the mean ({opening}{low} to {high})"
    side = "above" if triple[0] >= 0 else "below"
    if triple[0] < 0:
        triple = [-triple[0], -triple[2], -triple[1]]
    if analysis.shares:
        middle, low, high = words.points_parts(*triple)
        return f"{middle} points {side} the mean ({opening}{low} to {high})"
    middle, low, high = words.interval_parts(*triple)
    unit = analysis.unit_after(analysis.info["target"]["name"])
    return f"{middle}{unit} {side} the mean ({opening}{low} to {high})"


def _sure(areas: pd.DataFrame) -> tuple[int, int]:
    """How many areas lie above the overall mean, and below it, with more than 95 % probability."""
    above = areas["above"]
    return int((above > SURE).sum()), int((above < 1.0 - SURE).sum())


def _areas(n: int) -> str:
    return f"{n} area{'s' * (n != 1)}"
