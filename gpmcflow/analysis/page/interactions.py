"""Do columns act together? How the change with one column differs between values of another."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import panel
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.standing import nothing_learnt
from gpmcflow.plot.curves import effect_by, effect_by_frame, positions

_CLEAR, _WEAK = 0.01, 0.05


def interactions(analysis: Analysis) -> html.Section | None:
    """A picture and a row for each pair that acts together; none where there is no such pair."""
    frame = analysis["interactions"]
    frame = frame[frame["chance"] < _WEAK]
    if frame.empty or nothing_learnt(analysis):
        return None
    caption = (
        f"{words.capital(analysis.response)} with one column along the axis and another at some of its "
        "values; bands: 95 % intervals. Averages are over rows of the file."
    )
    note = Markup(
        "An interaction is shown if changes that do not depend on the other column would differ so much with "
        "a chance below 5 %, counting all pairs that share a term of the model. All: {}, {}."
    ).format(html.link("interactions.csv"), html.link("pairs.csv"))
    return html.section(
        *("interactions", "Do columns act together?"),
        html.paragraph(*(_sentence(analysis, row) for _, row in frame.iterrows())),
        html.figure([_picture(analysis, row, caption) for _, row in frame.iterrows()], caption),
        _table(analysis, frame),
        html.quiet(note),
    )


def _sentence(analysis: Analysis, row: pd.Series) -> Markup:
    evidence = "" if row["chance"] < _CLEAR else ", though the evidence is weak"
    return Markup(
        "The effect of {} depends on {}{}: from {} to {} it is {} with {} at {}, and {} at {}."
    ).format(
        *(html.italic(label(row["column"])), html.italic(label(row["by"])), evidence),
        *words.ends(str(row["low"]), str(row["high"])),
        *(_amount(analysis, row, "at_low"), label(row["by"]), words.natural(str(row["by_low"]))),
        *(_amount(analysis, row, "at_high"), words.natural(str(row["by_high"]))),
    )


def _amount(analysis: Analysis, row: pd.Series, name: str) -> str:
    triple = (row[name], row[f"{name}_low"], row[f"{name}_high"])
    if analysis.own.shares:
        return words.points(*triple, noun=" points")
    if analysis.own.ratios:
        return f"a factor of {words.interval(*triple)}"
    return words.interval(*triple, unit=analysis.unit)


def _picture(analysis: Analysis, row: pd.Series, caption: str) -> Markup:
    pairs = analysis["pairs"]
    part = pairs[(pairs["column"] == row["column"]) & (pairs["by"] == row["by"])]
    part = part.drop(columns="by").rename(columns={"by_value": "by"})
    levels = positions(part["value"]) is None
    return panel(
        *(analysis, f"pair-{row.name}"),
        *(caption, effect_by_frame(part, levels=levels), effect_by, part),
        **{"levels": levels, "share": analysis.own.shares, "by": label(row["by"])},
        response=analysis.response,
        name=analysis.with_unit(row["column"]),
    )


def _table(analysis: Analysis, frame: pd.DataFrame) -> Markup:
    of = "ratio of the factors" if analysis.own.ratios else "difference"
    at = "at the first #&", "at the second #&"
    heads = html.heads("column", "from … to", "by", *at, f"{of} #&")
    cells = []
    for _, row in frame.iterrows():
        low, high = words.ends(str(row["low"]), str(row["high"]))
        values = (words.natural(str(row[name])) for name in ("by_low", "by_high"))
        cells.append(
            [
                *(label(row["column"]), f"{low} to {high}"),
                f"{label(row['by'])} {' and '.join(values)}",
                *(_cell(analysis, row, name) for name in ("at_low", "at_high", "difference")),
            ]
        )
    return html.table(heads, cells)


def _cell(analysis: Analysis, row: pd.Series, name: str) -> str:
    triple = (row[name], row[f"{name}_low"], row[f"{name}_high"])
    if analysis.own.shares and name == "difference":  # which may be 150 points
        return words.interval(*(100.0 * end for end in triple))
    return analysis.change_in_words(*triple)
