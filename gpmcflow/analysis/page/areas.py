"""Areas on the page: maps of how each compares with the overall mean, those farthest from it, in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import panel
from gpmcflow.analysis.page.results import Analysis
from gpmcflow.plot.maps import area_frame, draw_areas, paths_of, round_levels

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
    what = "relative to the overall mean" if analysis.own.ratios else "less the overall mean"
    relative = "Relative risk" if analysis.kind == "counts" else "Ratio"
    title = (
        f"{relative}, {analysis.response}" if analysis.own.ratios else f"{analysis.response} {what}"
    )
    caption = (
        f"First: {analysis.response} of each area {what}, other columns at their mean. Second: probability "
        f"that it lies above it: {_areas(above)} with more than 95 %, {below} with less than 5 %."
    )
    caption += f" Dashed: {_areas(alone)} without rows." if alone else ""
    paths, without = paths_of(outlines), values["rows"] == 0
    levels = round_levels(values["relative"].to_numpy(), geometric=analysis.own.ratios)
    drawing = caption, area_frame(paths), draw_areas, paths
    shown = [(values["relative"], levels, words.capital(title), analysis.own.shares)]
    shown.append((values["above"], SHARES, "P(above the overall mean)", True))
    panels = [
        panel(analysis, f"areas-{k}", *drawing, of, steps, without, title=title, share=share)
        for k, (of, steps, title, share) in enumerate(shown)
    ]
    return html.figure(panels, caption)


def areas_answer(analysis: Analysis) -> Markup:
    """How many areas lie above and below the overall mean, and which the most; nothing without areas."""
    areas = analysis["areas"]
    if areas.empty:
        return Markup("")
    above, below = _sure(areas)
    if not above + below:
        return Markup("No area differs from the overall mean with a probability above 95 %.")
    lie = html.bold(f"{above} lie{'s' * (above == 1)}"), html.bold(str(below))
    counts = Markup(
        "Of {}, {} above the overall mean and {} below it, each with more than 95 % probability."
    ).format(_areas(len(areas)), *lie)
    named = [("highest", areas.iloc[areas["relative"].argmax()])] if above else []
    named += [("lowest", areas.iloc[areas["relative"].argmin()])] if below else []
    said = []
    for k, (side, row) in enumerate(named):
        size = _relative(analysis, row, first=k == 0)
        said.append(Markup("the {} is {}, {}").format(side, html.italic(row["area"]), size))
    return html.sentences(counts, Markup(words.capital(str(words.series(said)))) + ".")


def _relative(analysis: Analysis, row: pd.Series, *, first: bool) -> str:
    """``with 1.8 times the mean (95 % interval 1.3 to 2.4)``, ``12 points above it (..)``."""
    triple = [float(row[name]) for name in ("relative", "relative_low", "relative_high")]
    opening = "95 % interval " * first
    if analysis.own.ratios:
        middle, low, high = words.interval_parts(*triple)
        return f"with {middle} times the mean ({opening}{low} to {high})"
    side = "above" if triple[0] >= 0 else "below"
    if triple[0] < 0:
        triple = [-triple[0], -triple[2], -triple[1]]
    parts = words.points_parts if analysis.own.shares else words.interval_parts
    (middle, low, high), unit = parts(*triple), " points" if analysis.own.shares else analysis.unit
    return f"{middle}{unit} {side} the mean ({opening}{low} to {high})"


def _sure(areas: pd.DataFrame) -> tuple[int, int]:
    """How many areas lie above the overall mean, and below it, with more than 95 % probability."""
    above = areas["above"]
    return int((above > SURE).sum()), int((above < 1.0 - SURE).sum())


def _areas(n: int) -> str:
    return f"{n} area{'s' * (n != 1)}"


LISTED = 5  # areas at either end of the table


def area_section(analysis: Analysis) -> html.Section | None:
    """The areas most surely above and below the overall mean, and what the file of all of them holds."""
    areas = analysis["areas"]
    if areas.empty:
        return None
    what = "ratio to" if analysis.own.ratios else "difference from"
    risk = ", the relative risk" if analysis.kind == "counts" else ""
    text = Markup(
        "{} has a row for each of the {} areas: {} ({}), its {} the overall mean ({}{}), both with the ends "
        "of a 95 % interval ({}, {}), and the probability that it lies above the overall mean ({})."
    ).format(
        *(
            html.link("areas.csv"),
            words.count(len(areas)),
            analysis.response,
            html.code("mean"),
            what,
        ),
        *(html.code("relative"), risk, html.code("_low"), html.code("_high"), html.code("above")),
    )
    shown, some = areas, ""
    if len(areas) > 2 * LISTED:
        shown = pd.concat([areas.head(LISTED), areas.tail(LISTED)])
        some = (
            f"The {words.count(LISTED)} areas most probably above the overall mean, and the "
            f"{words.count(LISTED)} most probably below it."
        )
    head = "relative" if analysis.own.ratios else "difference"
    head += ", points" if analysis.own.shares else ""
    written = words.points_parts if analysis.own.shares else words.interval_parts
    heads = html.heads("area", "rows #~", f"{head} #", "95 % interval #", "P(above) #")
    cells = []
    for row in shown.itertuples(index=False, name="Row"):
        middle, low, high = written(row.relative, row.relative_low, row.relative_high)
        above = words.probability(row.above)
        cells.append((row.area, words.fixed(row.rows, 0), middle, f"{low} to {high}", above))
    return html.section(
        "areas", "Areas", html.paragraph(text), html.table(heads, cells), html.quiet(some)
    )
