"""Which columns matter, in natural units; for a map, how far similarity reaches."""

from __future__ import annotations

import math

from markupsafe import Markup

from gpmcflow.analysis.page import html, standing, words
from gpmcflow.analysis.page.canvas import one_panel
from gpmcflow.analysis.page.columns import season_ends
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.plot.rows import Bar, interval_rows, rows_frame

_MOST_ROWS, _MOST_BARS = 8, 15
_LEAST_CHANCE = 1e-4  # that is printed as a number


def columns_that_matter(analysis: Analysis) -> html.Section | None:
    """Change of the response with each column, as picture and table; none without such columns."""
    shifts = standing.changes(analysis)
    if all(shift.kind == "place" for shift in shifts):
        return None
    bars, caption = shifts[:_MOST_BARS], "Dot: change; bar: 95 % interval; dashes: no change."
    if len(shifts) > _MOST_BARS:
        caption += f" The first {_MOST_BARS} of {len(shifts)} columns."
    scale = 100 if analysis.own.shares else 1
    rows = [Bar(s.name, *(scale * x for x in (s.value, s.lower, s.upper))) for s in bars]
    picture = one_panel(
        *(analysis, "relevance"),
        *(caption, rows_frame(rows), interval_rows, rows, _axis(analysis)),
        at=1.0 if analysis.own.ratios else 0.0,
        logarithmic=analysis.own.ratios,
    )
    heads = [*html.heads("column", "from … to"), html.Head(_change_head(analysis))]
    heads += html.heads("an effect is &", "chance* #")
    sets = standing.together(analysis)
    shared = {column for own in sets if own.alike for column in own.columns}
    cells = []
    for shift in shifts[:_MOST_ROWS]:
        ends = season_ends(analysis, shift.column) or standing.ends(shift, analysis)
        change, state = _change(analysis, shift), _state(shift, shared)
        cells.append([shift.name, ends, change, state, _chance(shift)])
    cells += [
        [_set_name(own, len(shifts)), "", _change(analysis, own), own.state, _chance(own)]
        for own in sets
    ]
    return html.section(
        *("relevance", "Which columns matter?"),
        html.paragraph(_introduction(analysis)),
        picture,
        html.table(heads, cells),
        html.quiet(_note(analysis, shifts)),
    )


def reach(analysis: Analysis) -> html.Section | None:
    """Distance over which two places stay similar, one row a direction; none where nothing fades."""
    frame = analysis["reach"]
    if (frame["low"] == math.inf).all():  # so without coordinates, too
        return None
    unit = analysis.info["coordinates"][0] if analysis.info.get("coordinates") else ""
    after = analysis.unit_after(unit)
    known = (frame["low"] == frame["high"]).all()  # at one setting there is no interval
    cells = []
    for row in frame.itertuples():
        middle, low, high = words.interval_parts(row.distance, row.low, row.high)
        interval = [] if known else [f"{low} to {high}{after}"]
        cells.append([label(row.direction), f"{middle}{after}", *interval])
    overlap = frame["low"].max() <= frame["high"].min()
    stretched = ""
    shared = (frame[["distance", "low", "high"]].nunique() == 1).all()  # one length scale
    if not shared and not known and not analysis.info.get("quick"):
        stretched = (
            "The intervals overlap, so the reach may be the same in both directions."
            if overlap
            else "The intervals do not overlap: similarity reaches farther in one direction."
        )
    at = ", at the settings that fit best," if known else ","
    heads = html.heads("direction", "distance #", "95 % interval #")
    return html.section(
        *("reach", "How far does similarity reach?"),
        html.paragraph(
            f"At these distances{at} the correlation between two places has fallen to one half."
        ),
        html.table(heads[: 3 - known], cells),
        html.quiet(stretched),
    )


def _introduction(analysis: Analysis) -> str:
    how = {"log": "The factor by which", "logit": "How many points", "identity": "How much"}
    what = f"{how[analysis.own.link]} the {analysis.response} changes"
    return (
        f"{what} when a column goes from a low value (one row in ten is lower) to a high one (one in "
        "ten is higher), other things equal; where the curve clearly turns in between, from or to the "
        "turning point. Averages are over the rows of the file."
    )


def _axis(analysis: Analysis) -> str:
    if analysis.own.shares:
        return "change in points" + " of probability" * (analysis.kind != "share")
    if analysis.own.ratios:
        return f"{analysis.response}, as a factor"
    return f"change of {analysis.with_unit(analysis.info['target']['name'])}"


def _change_head(analysis: Analysis) -> str:
    if analysis.own.shares:
        return "change in points (95 % interval)"
    if analysis.own.ratios:
        return "factor (95 % interval)"
    unit = analysis.unit.strip()
    return f"change{f' in {unit}' if unit else ''} (95 % interval)"


def _state(shift: standing.Change, shared: set[str]) -> str:
    """How firmly an effect is seen; "only together" of a column that shares one."""
    return "only together" if not shift.seen and shift.column in shared else shift.state


def _set_name(own: standing.Together, n: int) -> str:
    """``a and b together``, ``a and two more together``, ``all others together``; the answer has all."""
    if own.alike:
        first, *more = map(label, own.columns)
        rest = more[0] if len(more) == 1 else f"{words.count(len(more))} more"
        return f"{first} and {rest} together"
    return "all together" if len(own.columns) == n else "all others together"


def _change(analysis: Analysis, shift: standing.Change | standing.Together) -> str:
    """Change with its interval; nothing of columns that do not go with each other."""
    if not math.isfinite(shift.value):
        return ""
    return analysis.change_in_words(shift.value, shift.lower, shift.upper)


def _chance(shift: standing.Change | standing.Together) -> str:
    """``0.08 %``, ``42 %``."""
    if shift.chance < _LEAST_CHANCE:
        return f"<{words.number(100 * _LEAST_CHANCE)}{words.SPACE}%"
    return f"{words.number(100 * shift.chance, 2)}{words.SPACE}%"


def _grades(analysis: Analysis, n: int) -> str:
    """What the chance of a column is, and what the words for an effect mean."""
    what = (
        "* Chance that a column without any effect shows as large a change, or as steady a trend."
    )
    if standing.nothing_learnt(analysis):
        return f"The model does no better than the average, so no change here counts as an effect. {what}"
    if n == 1:
        return f"{what} Below 1 % an effect is clear, below 5 % likely, below 10 % open."
    return (
        f"{what} Counting all {words.count(n)} columns (the chance times {n}), an effect is clear below 1 % "
        "and likely below 5 %. A chance below 5 % for the column alone is a weak sign: one in twenty columns "
        "without any effect gets there by luck. Up to 10 % it remains open whether it matters."
    )


def _note(analysis: Analysis, shifts: list[standing.Change]) -> Markup:
    kinds = {shift.kind for shift in shifts}
    parts = [_grades(analysis, len(shifts))]
    if straight := [shift.name for shift in shifts if shift.straight]:
        sentence = (
            "{} remain{} open, as straight lines, which these rows do not rule out, show an effect."
        )
        parts.append(
            html.naming(sentence.format("{}", "s" * (len(straight) == 1)), html.names(straight))
        )
    parts.append(Markup("All columns: {}.").format(html.link("relevance.csv")))
    if "category" in kinds:
        parts.append("For categories: the one that differs most from the most frequent one.")
    if "place" in kinds:
        parts.append(
            "For location: a place that one in ten lie below, and one that one in ten lie above."
        )
    if any(own.alike for own in standing.together(analysis)):
        parts.append(
            "Columns that go with each other may share an effect that none of them shows alone: “together” "
            "moves them along what they have in common (their first principal component)."
        )
    return html.sentences(*parts)
