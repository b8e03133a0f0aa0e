"""The section on areas: those farthest from the overall mean, and what the table of all of them holds."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.html import Head, Section, code, join, link, paragraph, quiet, table
from gpmcflow.analysis.page.results import Analysis

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
