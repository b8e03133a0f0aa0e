"""The answer in words: what goes with the outcome, how good the model is, how to read it."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from gpmcflow.studies.analysis.page import words
from gpmcflow.studies.analysis.page.columns import columns_answer, curve_answer
from gpmcflow.studies.analysis.page.html import (
    Section,
    bold,
    italic,
    join,
    paragraph,
    quiet,
    sentences,
)
from gpmcflow.studies.analysis.page.places import map_answer
from gpmcflow.studies.analysis.page.results import ENOUGH_ROWS, Analysis
from gpmcflow.studies.analysis.page.standing import (
    against_simple,
    changes,
    error_unit,
    one_class,
)


def title_of(analysis: Analysis) -> str:
    """Title of the config, else "readmitted, from patients.csv"."""
    return analysis.info.get("title") or f"{analysis.target}, from {analysis.info['csv']}"


def answer(analysis: Analysis) -> Section:
    """First section: what goes with the outcome, by how much, how sure, and how good it is."""
    if not analysis["map"].empty:
        main = sentences([map_answer(analysis), _beside_the_place(analysis)])
    elif not analysis["curve"].empty:
        main = curve_answer(analysis)
    else:
        main = columns_answer(analysis)
    if analysis.provisional:
        main = Markup(
            "<b>Provisional:</b> {} failed (see “Can I trust the computation?”). {}"
        ).format(_failed(len(analysis.alarms)), main)
    return Section(
        "answer",
        "The answer",
        join([paragraph(main, "answer"), paragraph(_score(analysis)), quiet(_notes(analysis))]),
    )


def _failed(n: int) -> str:
    return "one check" if n == 1 else f"{words.count(n)} checks"


def _beside_the_place(analysis: Analysis) -> Markup:
    """Columns other than the coordinates that stand out."""
    clear = [
        bold(shift.name)
        for shift in changes(analysis)
        if shift.state == "clear" and shift.column not in analysis.info["coordinates"]
    ]
    if not clear:
        return Markup("")
    verb = "stands" if len(clear) == 1 else "stand"
    return Markup("Beside the place, {} {} out.").format(words.series(clear[:4]), verb)


def _score(analysis: Analysis) -> Markup:
    """The held-out score beside no model and a simple one."""
    shown, base, n = analysis.shown, analysis.baseline("base"), analysis.n_scored
    if n == 0 or not math.isfinite(shown["test_score"]):
        return Markup("No rows were held out, and no score was computed.")
    opening = (
        f"When each of the {words.rows(n)} is predicted from the others"
        if analysis.by_loo
        else f"On the {words.rows(n)} held out"
    )
    if one := one_class(analysis):
        target = analysis.info["target"]
        return Markup("{}, so they cannot show how well the model tells “{}” from “{}”.").format(
            one, target["positive"], target["negative"]
        )
    error = shown.get("error", math.nan)
    parts: list[Markup | str] = []
    if analysis.kind == "binary" and math.isfinite(error):
        target = analysis.info["target"]
        text = f"{opening}, the model is wrong for {error:.0f}"
        if base is not None and math.isfinite(base.get("error", math.nan)):
            usual = target["positive"] if analysis.info["base"] > 0.5 else target["negative"]
            text += f"; always answering “{usual}” is wrong for {base['error']:.0f}"
        parts.append(text + ".")
    elif math.isfinite(error):
        text = f"{opening}, the typical error is {_error(shown)}{error_unit(analysis)}"
        if base is not None and math.isfinite(base.get("error", math.nan)):
            text += f"; always answering with the average gives {_error(base)}"
        parts.append(text + ".")
    else:
        parts.append(
            f"{opening}, the mean log score is "
            f"{words.plus_minus(shown['test_score'], shown['test_score_se'])}."
        )
    parts += [against_simple(analysis), _none_seen(analysis)]
    if not analysis.by_loo and n < ENOUGH_ROWS:
        parts.append("That is too few rows to judge by.")
    return sentences(parts)


def _none_seen(analysis: Analysis) -> Markup:
    """Columns of a regression without a visible influence, where they are few."""
    shifts = changes(analysis) if analysis.kind == "real" and analysis["map"].empty else []
    names = [shift.name for shift in shifts if shift.state == "not resolved"]
    if not 0 < len(names) <= 4 or len(names) == len(shifts):
        return Markup("")
    n = words.rows(int(analysis.info["n_learning"]))
    return Markup("For {}, {} reveal no influence.").format(
        words.series([italic(name) for name in names]), n
    )


def _error(row: pd.Series) -> str:
    return words.plus_minus(row["error"], row.get("error_se", math.nan))


def _notes(analysis: Analysis) -> Markup:
    shifts = [
        shift
        for shift in changes(analysis)
        if shift.kind == "number" and shift.state != "not resolved"
    ]
    about = (
        f" These are associations: changing {shifts[0].name} need not change the outcome."
        if shifts
        else ""
    )
    narrow = (
        Markup(" This is the quick answer: its intervals may be too narrow.")
        if analysis.info.get("quick")
        else Markup("")
    )
    return Markup(
        "A 95 % interval holds the value with 95 % probability, given the data and the model.{}{}"
    ).format(about, narrow)
