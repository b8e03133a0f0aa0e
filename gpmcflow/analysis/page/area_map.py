"""Maps of areas: how each compares with the overall mean, and how probable it is that it lies above."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.html import figure
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
