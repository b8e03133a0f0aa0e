"""The one picture: a map, a curve, or the effects of the most relevant columns."""

from __future__ import annotations

from functools import partial

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.effects import MOST_LEVELS
from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.areas import area_maps
from gpmcflow.analysis.page.canvas import one_panel, panel
from gpmcflow.analysis.page.places import doubt_sentence
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.standing import place_leads, place_of
from gpmcflow.plot import curves
from gpmcflow.plot.maps import MOST_POINTS, draw_map, grid_of, map_frame, unsure_above


def picture(analysis: Analysis) -> html.Section | None:
    """Second section, or none where an analysis has left nothing to draw."""
    areas, by_table = area_maps(analysis), {"grades": _grades, "curve": _curve, "effects": _effects}
    draw = next((own for name, own in by_table.items() if not analysis[name].empty), None)
    draw = _map if place_leads(analysis) else draw
    if draw is None:
        return None if areas is None else html.section("picture", "The picture", areas)
    parts = [areas or "", draw(analysis)]
    place = place_of(analysis)
    if place is not None and place.seen and not place_leads(analysis):
        parts.append(_map(analysis))
    if not analysis["survival"].empty:
        parts.append(_survival(analysis))
    if not analysis["explanations"].empty:
        parts.append(_explanations(analysis))
    return html.section("picture", "The picture", *parts)


def _map(analysis: Analysis) -> Markup:
    grid = grid_of(analysis["map"], analysis.kind)
    points = analysis["points"].iloc[:0] if analysis.info.get("share") else analysis["points"]
    x, y = analysis.info["coordinates"]
    factor, of = (" as a factor", " a factor of") if analysis.own.ratios else ("", "")
    dots = ""
    if len(points):
        some = "" if len(points) <= MOST_POINTS else f"{MOST_POINTS} of "
        dots = f"Dots: {some}the {words.rows(len(points))}."
    caption = _caption(
        f"First: {analysis.response}.",
        f"Second: how far the truth may lie from the map,{factor} up or down, with 95 % probability.",
        dots,
        doubt_sentence(analysis, grid),
    )
    names, share = (analysis.with_unit(x), analysis.with_unit(y)), analysis.own.shares
    drawing = caption, map_frame(grid), partial(draw_map, names=names, share=share), grid
    panels = [
        panel(
            *(analysis, "map-0", *drawing, grid.mean, points),
            title=words.capital(analysis.response),
            geometric=analysis.own.ratios,
            unsure=unsure_above(grid, analysis.kind),
        ),
        panel(
            *(analysis, "map-1", *drawing, grid.doubt, points),
            title=f"Uncertainty (95 %): within{of}",
        ),
    ]
    return html.figure(panels, caption)


def _caption(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _curve(analysis: Analysis) -> Markup:
    curve, rug = analysis["curve"].sort_values("value"), _rug(analysis)
    used = analysis["relevance"]["column"]
    name = used.iloc[0] if len(used) else ""
    line = "median" if analysis.kind == "survival" else "mean"
    parts = [f"{words.capital(analysis.response)}. Line: {line}; inner band: its 95 % interval."]
    if analysis.kind == "binary":
        parts[0] = parts[0].replace("inner band", "band")
        if len(rug):
            parts.append(f"{_ticks(analysis)}.")
    else:
        parts.append("Outer band: 95 % interval of one new row.")
        if len(rug):
            parts.append(_ends(analysis, rug) or f"Dots: {_some(analysis, len(rug))}.")
    caption = " ".join(parts)
    return one_panel(
        *(analysis, "curve", caption, curves.CURVE, curves.curve, curve, rug),
        kind=analysis.kind,
        response=words.capital(_axis(analysis)),
        name=analysis.with_unit(name) if name else "input",
    )


def _explanations(analysis: Analysis) -> Markup:
    """The curves of each explanation, where the hyperparameters have several modes."""
    table, panels = analysis["explanations"], []
    told = table["in_words"].iloc[0]
    caption = (
        f"{words.capital(words.count(table['by'].nunique()))} explanations of these rows are left: {told}. "
        f"Lines: {analysis.response} by each; bands: 95 % intervals. The other sections average over them."
    )
    for index, (column, part) in enumerate(table.groupby("column", sort=False)):
        levels = column in _categories(analysis)
        shared = {"levels": levels, "share": analysis.own.shares, "by": "explanation"}
        drawing = curves.effect_by_frame(part, levels=levels), curves.effect_by, part
        named = {"response": _axis(analysis), "name": analysis.with_unit(column)}
        panels.append(panel(analysis, f"explained-{index}", caption, *drawing, **shared, **named))
    return html.figure(panels, caption)


def _survival(analysis: Analysis) -> Markup:
    strongest = analysis["relevance"].query("kind != 'place'").iloc[0]
    name = label(strongest["column"])
    low, high = words.ends(str(strongest["low"]), str(strongest["high"]))
    by = "by Kaplan-Meier, which allows for those not seen to end"
    if analysis.by_interval:
        by = (
            "by Turnbull's method, which allows for intervals; each step is at the upper end of one"
        )
    caption = (
        f"Share that lasts longer than a time, as predicted on average with {name} at {high} (solid) and at "
        f"{low} (dashed), other things equal. Grey steps: all rows {by}."
    )
    ends, time = (strongest["high"], strongest["low"]), analysis.info["target"]["name"]
    return one_panel(
        *(analysis, "survival", caption, curves.SURVIVAL, curves.survival),
        *(analysis["survival"], ends, analysis.with_unit(time)),
    )


def _grades(analysis: Analysis) -> Markup:
    table, target, level = analysis["grades"], analysis.info["target"], analysis.own.level
    levels, split = list(target["levels"]), int(target["split"])
    if analysis.kind == "classes":  # the class that the page reports stands above the others
        levels = [name for name in levels if name != target["positive"]] + [target["positive"]]
        split = len(levels)
    caption = (
        f"Probability of each {level} of {analysis.target} when one column is set to a value, other things "
        f"equal{'; the lowest grade is at the bottom' if level == 'grade' else ''}. Below the line: "
        f"{target['negative']}; above it: {target['positive']}; dashes: its 95 % interval."
    )
    panels, shared = [], {"grades": levels, "split": split, "level": level}
    for index, (column, part) in enumerate(table.groupby("column", sort=False)):
        words_of = column in _categories(analysis)
        values = part.loc[part["grade"] == levels[0], "value"]
        own = analysis["effects"][analysis["effects"]["column"] == column]
        drawing = curves.band_frame(values, levels=words_of), curves.bands, part, own
        named = {"levels": words_of, "name": analysis.with_unit(column)}
        panels.append(panel(analysis, f"grades-{index}", caption, *drawing, **shared, **named))
    return html.figure(panels, caption)


def _categories(analysis: Analysis) -> set[str]:
    relevance = analysis["relevance"]
    return set(relevance.loc[relevance["kind"] == "category", "column"])


def _effects(analysis: Analysis) -> Markup:
    effects, rug = analysis["effects"], _rug(analysis)
    target = analysis.info["target"]
    names = {column: analysis.with_unit(column) for column in effects["column"].unique()}
    mean = "geometric mean" if analysis.kind == "survival" else "average"
    overall = "share" if analysis.own.shares and not analysis.own.measured else analysis.own.overall
    parts = [
        f"{words.capital(analysis.response)} when one column is set to a value, other things equal.",
        f"Line or dots: {mean} over the rows; band or bars: its 95 % interval; dashes: "
        f"{overall} of all rows, {_base(analysis)}.",
    ]
    first = rug[rug["column"] == effects["column"].iloc[0]]
    if len(first):
        some = _some(analysis, len(first))
        if analysis.kind == "binary":
            parts.append(f"{_ticks(analysis)} ({some}).")
        elif analysis.kind == "survival":
            parts.append(_ends(analysis, first))
        elif analysis.own.measured:
            parts.append(f"Grey dots: measured rows ({some}).")
        else:
            parts.append(f"Each tick is a row ({some}).")
    if len(names) > 1:
        every = "Both" if len(names) == 2 else f"All {words.count(len(names))}"
        parts.append(f"{every} pictures share one vertical axis.")
    categories = _categories(analysis)
    if any(effects.loc[effects["column"].isin(categories), "column"].value_counts() >= MOST_LEVELS):
        parts.append(f"Of a category the {MOST_LEVELS} most frequent levels are shown.")
    caption = " ".join(parts)
    base = float(analysis.info["base"])
    ends = str(target.get("positive")), str(target.get("negative"))
    shared = {"kind": analysis.kind, "base": base, "response": _axis(analysis), "ends": ends}
    shared["limits"] = curves.effect_limits(effects, rug, analysis.kind, base)
    panels = []
    for index, (column, part) in enumerate(effects.groupby("column", sort=False)):
        levels = column in categories
        drawing = curves.effect_frame(part, levels=levels), curves.effect_with_rows, part
        own = {"levels": levels, "name": names[column]}
        own["base_name"] = curves.base_name(analysis.own.shares, base) if index == 0 else ""
        rows = rug[rug["column"] == column]
        panels.append(panel(analysis, f"effects-{index}", caption, *drawing, rows, **shared, **own))
    return html.figure(panels, caption)


def _ends(analysis: Analysis, rug: pd.DataFrame) -> str:
    """What the dots of times are: those that had ended; nothing where each row is drawn at its time."""
    n = int(rug["outcome"].notna().sum())
    middle = " An interval is drawn at its middle." * analysis.by_interval
    if n == len(rug):
        return f"Dots: {_some(analysis, n)}.{middle}" if middle else ""
    which = "that had ended" if middle else "whose end was seen"
    return (
        f"Dots: the {words.rows(n)}, of {len(rug)}, {which}; the others lasted longer than they were "
        f"followed, and are not drawn.{middle}"
    )


def _base(analysis: Analysis) -> str:
    if analysis.own.shares:
        return words.percent(analysis.info["base"])
    per = f" {analysis.per}" if analysis.kind == "counts" and analysis.per else ""
    return words.number(analysis.info["base"]) + analysis.unit + per


def _axis(analysis: Analysis) -> str:
    """What the vertical axis shows, with the unit of a measurement."""
    unit = analysis.info.get("units", {}).get(analysis.info["target"]["name"])
    return f"{analysis.response} ({unit})" if unit else analysis.response


def _ticks(analysis: Analysis) -> str:
    target = analysis.info["target"]
    return (
        f"Each tick is a row, {target['positive']} at the top, {target['negative']} at the bottom"
    )


def _rug(analysis: Analysis) -> pd.DataFrame:
    return analysis["rug"].iloc[:0] if analysis.info.get("share") else analysis["rug"]


def _some(analysis: Analysis, drawn: int) -> str:
    n = int(analysis.info["n_used"])
    return f"all {words.rows(n)}" if drawn >= n else f"{drawn} of {words.rows(n)}"
