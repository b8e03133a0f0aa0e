"""How the shown model stands to no model and to a simple one, and which columns matter, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup

from gpmcflow.studies.analysis.page import words
from gpmcflow.studies.analysis.page.results import Analysis, label

_WHAT_CAME = {
    "binary": "what happened",
    "counts": "what was counted",
    "binomial": "what was counted",
    "real": "what was measured",
}
# a highest minus lowest is never negative: it is seen where its interval stays away from zero
_SEEN, _CLEAR = 1 / 6, 1 / 3  # lower end over upper end


def what_came(analysis: Analysis) -> str:
    """Words for the outcomes: "what happened", "what was counted"."""
    return _WHAT_CAME[analysis.kind]


def against_base(analysis: Analysis) -> str:
    """``better``, ``not resolved``, ``worse`` or ``unknown`` against no model at all."""
    difference, error = (
        analysis.shown.get(name, math.nan) for name in ("base_difference", "base_difference_se")
    )
    if not math.isfinite(difference):
        return "unknown"
    state = words.resolution(difference, error)
    if state == "not resolved":
        return state
    return "worse" if difference < 0 else "better"


def against_simple(analysis: Analysis) -> Markup:
    """One sentence on the shown model against the simple one, or nothing where it is not scored."""
    simple, shown = analysis.baseline("simple"), analysis.shown
    if simple is None or not math.isfinite(shown.get("difference", math.nan)):
        return Markup("")
    difference, error = shown["difference"], shown["difference_se"]
    state = words.resolution(difference, error)
    name = simple_name(analysis)
    if state == "not resolved":
        return Markup("Whether the model beats {}{} is not resolved with this many rows.").format(
            name, _errors(analysis, simple)
        )
    size = words.more_phrase(abs(difference), error) + " probability"
    other = name + _errors(analysis, simple)
    if difference > 0:
        claim = f"the model beats {other}"
    else:
        claim = f"{other}, which is simpler, does better than the model"
    if state == "only just":
        claim = f"that {claim} is resolved, but only just"
    return Markup("{}: it gave {} {}.").format(words.capital(claim), what_came(analysis), size)


def one_class(analysis: Analysis) -> str:
    """That none or all of the rows a yes/no outcome is judged by are positive, or nothing."""
    outcomes = analysis.judged["outcome"]
    if analysis.kind != "binary" or outcomes.nunique() != 1:
        return ""
    rows = words.rows(len(outcomes)) + " held out" * (not analysis.by_loo)
    every = f"All {rows} are" if outcomes.iloc[0] > 0.5 else f"None of the {rows} is"
    return f"{every} “{analysis.info['target']['positive']}”"


def simple_name(analysis: Analysis) -> str:
    """Name of the simple model as words."""
    simple = analysis.baseline("simple")
    return label(simple["name"]) if simple is not None else "a simple model"


def _errors(analysis: Analysis, row: pd.Series) -> str:
    """The error of a model, beside that of the shown one; nothing where that is not known."""
    if not math.isfinite(analysis.shown.get("error", math.nan)):
        return ""
    if analysis.kind == "binary" and math.isfinite(row.get("error", math.nan)):
        return f" (wrong for {row['error']:.0f})"
    if math.isfinite(row.get("error", math.nan)):
        return f" (typical error {words.number(row['error'])}{error_unit(analysis)})"
    return ""


def error_unit(analysis: Analysis) -> str:
    """Unit of the typical error, with a space before it, or nothing."""
    return analysis.unit_after(analysis.info["target"]["name"])


class Change(NamedTuple):
    """One column's change of the response and how firmly it is seen."""

    column: str
    kind: str
    low: str  # as words
    high: str
    value: float
    lower: float
    upper: float
    state: str  # clear, only just, not resolved

    @property
    def name(self) -> str:
        """Column as words."""
        return label(self.column)


def changes(analysis: Analysis) -> list[Change]:
    """All columns, most relevant first; the outcome's kind decides what no change is."""
    return [
        Change(
            *(row.column, row.kind, *_ends(row.kind, row.low, row.high)),
            *(row.change, row.change_low, row.change_high),
            _state(analysis.kind, row.change, row.change_low, row.change_high),
        )
        for row in analysis["relevance"].itertuples()
    ]


def _ends(kind: str, *cells: object) -> tuple[str, str]:
    """Levels as they are, numbers with few digits."""
    low, high = ("" if pd.isna(cell) else str(cell) for cell in cells)
    return (low, high) if kind == "category" else words.ends(low, high)


def _state(kind: str, value: float, low: float, high: float) -> str:
    if kind == "counts":
        if min(value, low, high) <= 0:
            return "not resolved"
        return words.interval_resolution(math.log(value), math.log(low), math.log(high))
    if kind == "real":
        if low <= 0 or low < _SEEN * high:
            return "not resolved"
        return "clear" if low >= _CLEAR * high else "only just"
    return words.interval_resolution(value, low, high)


def ends(change: Change, analysis: Analysis) -> str:
    """``57 to 131``, with the column's unit."""
    if not change.low and not change.high:
        return ""
    unit = analysis.unit_after(change.column) if change.kind == "number" else ""
    return f"{change.low} to {change.high}{unit}"
