"""How the shown model stands to no model and to a simple one, and which columns matter, in words."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.effects import CLEAR_CHANCE, LIKELY_CHANCE
from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.data.outcome_kinds import KINDS

# What is seen of an effect.
CLEAR, LIKELY, WEAK, UNSURE, NONE = "clear", "likely", "weak sign", "open", "no sign"
_WEAK, _UNSURE = 0.05, 0.1  # chance of such a difference in one column, were it flat


def against_base(analysis: Analysis) -> str:
    """``better``, ``unsure``, ``no better``, ``worse`` or ``unknown``: the log score beside the average's.

    Over all rows that a prediction had not seen, held out or left out: better from two standard errors, no
    better below one. Worse where the rows that scores are of say so. A quick fit, whose hyperparameters have
    seen the rows that are left out, also needs a column with an effect, or more evidence than a constant
    reaches by chance.
    """
    (scored, its_error), (unseen, error) = (
        [analysis.shown.get(f"{name}{end}", math.nan) for end in ("", "_se")]
        for name in ("base_difference", "unseen_difference")
    )
    if scored < 0 and words.resolution(scored, its_error) != "not resolved":
        return "worse"
    if not (math.isfinite(unseen) and math.isfinite(error)):
        return "unknown"
    tables = [analysis["relevance"], analysis["together"]]
    flat = all((table["chance"] * len(table) >= LIKELY_CHANCE).all() for table in tables)
    if flat and analysis.shown["evidence_beyond"] < analysis.shown["evidence_limit"]:
        return "no better"
    return "better" if unseen > 2 * error else "unsure" if unseen > error else "no better"


def nothing_learnt(analysis: Analysis) -> Markup:
    """That the model does no better than the average, or nothing where it does."""
    base = against_base(analysis)
    if base not in ("no better", "worse"):
        return Markup("")
    value = analysis.info["base"]
    average = f"the {analysis.own.overall}, {words.number(value)}{analysis.unit}"
    if analysis.own.shares:
        of = "the average" if analysis.own.measured else "always giving the overall share"
        average = f"{of}, {words.percent(value)}"
    return Markup(
        "The model predicts {} {} than {}, so nothing below should be read as an effect."
    ).format(html.italic(analysis.target), base, average)


def against_simple(analysis: Analysis) -> Markup:
    """One sentence on the shown model against the simple one, or nothing where it is not scored."""
    simple, shown = analysis.baseline("simple"), analysis.shown
    if simple is None or not math.isfinite(shown.get("difference", math.nan)):
        return Markup("")
    difference, error = shown["difference"], shown["difference_se"]
    state = words.resolution(difference, error)
    other = simple_name(analysis) + _errors(analysis, simple)
    if state == "not resolved":
        return Markup("These rows cannot tell whether the model beats {}.").format(other)
    evidence = ", though the evidence is weak" if state == "only just" else ""
    claim = f"the model beats {other}"
    if difference <= 0:
        claim = f"{other}, which is simpler, beats the model"
    size = words.likelier(abs(difference), "it")
    return Markup("{}{}: {} was {}.").format(
        words.capital(claim), evidence, analysis.own.came, size
    )


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
    error = row.get("error", math.nan)
    if not analysis.has_errors or not math.isfinite(error):
        return ""
    if analysis.own.classified:
        return f" (misclassifies {error:.0f})"
    if analysis.kind == "share":
        return f" (typical error {words.number(100 * error)} points)"
    return f" (typical error {words.number(error)}{analysis.unit})"


class Change(NamedTuple):
    """One column's change of the response and how firmly it is seen."""

    column: str
    kind: str
    low: str  # as words
    high: str
    value: float
    lower: float
    upper: float
    chance: float  # of such a difference, were this column flat
    state: str  # CLEAR, LIKELY, WEAK, UNSURE or NONE
    straight: bool  # whether it is not NONE as straight lines, which the rows do not rule out, show an effect

    @property
    def name(self) -> str:
        """Column as words."""
        return "location" if self.kind == "place" else label(self.column)

    @property
    def seen(self) -> bool:
        """Whether an effect is clear or likely, counting all columns."""
        return self.state in (CLEAR, LIKELY)

    def size(self, kind: str) -> float:
        """How large the change is, up or down."""
        return abs(math.log(self.value)) if KINDS[kind].ratios else abs(self.value)


def changes(analysis: Analysis) -> list[Change]:
    """All columns, most relevant first; none has an effect where nothing is learnt."""
    frame, learnt = analysis["relevance"], not nothing_learnt(analysis)
    found = []
    for row in frame.itertuples():
        state = _state(row.chance, len(frame)) if learnt else NONE
        straight = learnt and state == NONE and row.straight * len(frame) < LIKELY_CHANCE
        found.append(
            Change(
                *(row.column, row.kind, *_ends(row.kind, row.low, row.high)),
                *(row.change, row.change_low, row.change_high, row.chance),
                *(UNSURE if straight else state, straight),
            )
        )
    return found


class Together(NamedTuple):
    """A set of columns whose effect is seen, though none of theirs is clear."""

    columns: tuple[str, ...]
    alike: bool  # whether they go with each other
    value: float
    lower: float
    upper: float
    chance: float  # of so much difference, had they no effect
    state: str  # CLEAR or LIKELY


def together(analysis: Analysis) -> list[Together]:
    """Sets of columns with an effect: those that go with each other, or else all without a clear one."""
    frame = analysis["together"]
    if nothing_learnt(analysis):
        return []
    seen = [
        Together(
            tuple(json.loads(row.columns)),
            bool(row.alike),
            *(row.change, row.change_low, row.change_high, row.chance),
            _state(row.chance, len(frame)),
        )
        for row in frame.itertuples()
    ]
    order = [(CLEAR, True), (CLEAR, False), (LIKELY, True)]
    if not any(shift.seen for shift in changes(analysis)):  # which says more
        order.append((LIKELY, False))
    ranked = ([own for own in seen if (own.state, own.alike) == kind] for kind in order)
    return next((own for own in ranked if own), [])


def place_of(analysis: Analysis) -> Change | None:
    """The change from place to place, if there are coordinates."""
    return next((shift for shift in changes(analysis) if shift.kind == "place"), None)


def place_leads(analysis: Analysis) -> bool:
    """Whether the page opens with the map: no other column matters more than the place."""
    place = place_of(analysis)
    others = [shift for shift in changes(analysis) if shift.kind != "place"]
    if analysis["map"].empty or place is None or not others:
        return not analysis["map"].empty
    clear = [shift.size(analysis.kind) for shift in others if shift.state == CLEAR]
    return place.state == CLEAR and place.size(analysis.kind) >= max(clear, default=0.0)


def _ends(kind: str, *cells: object) -> tuple[str, str]:
    """Levels as they are, numbers with few digits."""
    low, high = ("" if pd.isna(cell) else str(cell) for cell in cells)
    if kind == "place":
        pairs = [words.ends(*pair) for pair in zip(low.split(", "), high.split(", "), strict=True)]
        return tuple(", ".join(parts) for parts in zip(*pairs, strict=True))
    return (low, high) if kind == "category" else words.ends(low, high)


def _state(chance: float, n: int) -> str:
    """By the chance that any of n columns would show such a difference, were all flat; weak: this one."""
    if chance * n < LIKELY_CHANCE:
        return CLEAR if chance * n < CLEAR_CHANCE else LIKELY
    return WEAK if chance < _WEAK else UNSURE if chance < _UNSURE else NONE


def ends(change: Change, analysis: Analysis) -> str:
    """``57 to 131``, with the column's unit."""
    if not change.low and not change.high:
        return ""
    unit = analysis.unit_after(change.column) if change.kind == "number" else ""
    return f"{change.low} to {change.high}{unit}"
