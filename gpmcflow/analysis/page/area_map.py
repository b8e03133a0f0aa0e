"""Areas: how each compares with the overall mean, and how probable it is that it lies above; in words and as
maps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.html import (
    Head,
    Section,
    code,
    figure,
    join,
    link,
    paragraph,
    quiet,
    table,
)
from gpmcflow.analysis.page.results import Analysis
from gpmcflow.plot.areas import area_frame, draw_areas, paths_of
from gpmcflow.plot.maps import round_levels

SURE = 0.95  # probability above, or below, that the caption counts
SHARES = np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0])  # steps of the probability
LISTED = 5  # areas at either end of the table


def area_section(analysis: Analysis) -> Section | None:
    """The areas most surely above and below the overall mean, and what the file of all of them holds."""
    areas = analysis["areas"]
    if areas.empty:
        return None
    what = "ratio to" if analysis.ratios else "difference from"
    risk = ", the relative risk" if analysis.kind == "counts" else ""
    text = Markup(
        "{} has a row for each of the {} areas: {} ({}), its {} the overall mean ({}{}), both with the ends "
        "of a 95 % interval ({}, {}), and the probability that it lies above the overall mean ({})."
    ).format(
        *(link("areas.csv"), words.count(len(areas)), analysis.response, code("mean"), what),
        *(code("relative"), risk, code("_low"), code("_high"), code("above")),
    )
    shown, some = areas, ""
    if len(areas) > 2 * LISTED:
        shown = pd.concat([areas.head(LISTED), areas.tail(LISTED)])
        some = (
            f"The {words.count(LISTED)} areas most probably above the overall mean, and the "
            f"{words.count(LISTED)} most probably below it."
        )
    head = "relative" if analysis.ratios else "difference"
    head += ", points" if analysis.shares else ""
    written = words.points_parts if analysis.shares else words.interval_parts
    heads = [Head("area"), Head("rows", number=True, wide=True), Head(head, number=True),
             Head("95 % interval", number=True), Head("P(above)", number=True)]  # fmt: skip
    cells = []
    for row in shown.itertuples(index=False, name="Row"):
        middle, low, high = written(row.relative, row.relative_low, row.relative_high)
        above = words.probability(row.above)
        cells.append((row.area, words.fixed(row.rows, 0), middle, f"{low} to {high}", above))
    return Section("areas", "Areas", join([paragraph(text), table(heads, cells), quiet(some)]))


def area_maps(analysis: Analysis) -> Markup | None:
    """The two maps with their caption, or none where an analysis has no areas with outlines."""
    areas, outlines = analysis["areas"], analysis["outlines"]
    if areas.empty or outlines.empty:
        return None
    values = areas[areas["area"].isin(outlines["area"])].set_index("area")
    above, below = int((values["above"] > SURE).sum()), int((values["above"] < 1.0 - SURE).sum())
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


def _areas(n: int) -> str:
    return f"{n} area{'s' * (n != 1)}"
