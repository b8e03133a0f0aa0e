"""Can I trust the computation? What was checked, what failed and what that touches, in words."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.results import Analysis, label, touches_evidence

_MANY_NOTES = 0.05  # share of new rows with a note above which trust speaks of it


def trust(analysis: Analysis) -> html.Section:
    """One paragraph; alarms come first, each with what it touches and how to settle it."""
    quick = bool(analysis.info.get("quick"))
    alarms = analysis.alarms
    first = [_failed(analysis, row) for _, row in alarms.iterrows()]
    if len(first) > 1:
        first.insert(0, Markup("{} checks failed.").format(words.capital(words.count(len(first)))))
    rest = [_quick(analysis)] if quick else [_agreement(analysis), _passed(analysis)]
    rest += [_quick_difference(analysis), _new_rows(analysis)]
    rest.append("No check can tell whether new rows will be like these.")
    parts = [[_opening(analysis, quick), *first], rest]
    if not first:
        parts = [[*parts[0], *rest]]
    return html.section(
        "trust", "Can I trust the computation?", *(html.paragraph(*own) for own in parts)
    )


def _opening(analysis: Analysis, quick: bool) -> Markup:
    alarms = analysis.alarms
    if alarms.empty:
        return Markup("Only roughly: this is a quick run.") if quick else Markup("Yes.")
    if analysis.provisional:
        return Markup("Not yet: what this page shows is provisional.")
    names = words.series(
        [html.italic(label(name)) for name in dict.fromkeys(alarms["model"].dropna())]
    )
    of_evidence = touches_evidence(alarms).all()
    if quick:
        what = "the evidence of" if of_evidence else "for"
        return Markup("Only roughly, and not {} {}: this is a quick run.").format(what, names)
    if of_evidence:
        return Markup("Yes, except for the evidence of {}.").format(names)
    good = [name for name in analysis.models["name"] if name not in set(alarms["model"])]
    return html.naming("For {}, yes.", html.names(good))


def _failed(analysis: Analysis, row: pd.Series) -> Markup:
    """One failed check: how far off it is, what it touches, what to run."""
    of = html.naming(" of {}", html.names([row["model"]] if isinstance(row["model"], str) else ()))
    opening = "One check failed: " if len(analysis.alarms) == 1 else ""
    reason = row["reason"] if isinstance(row["reason"], str) else ""
    text = (
        Markup("{}the evidence{} raised an alarm: {}.").format(opening, of, reason.rstrip("."))
        if reason
        else Markup("{}“{}”{} is {}; the limit is {}.").format(
            opening, row["check"], of, words.cell(row["worst"]), words.cell(row["limit"])
        )
    )
    text = text if opening else Markup(words.capital(str(text)))
    touches, settle = (
        str(row[key]).strip().rstrip(".") if isinstance(row[key], str) else ""
        for key in ("touches", "settle")
    )
    how = "To settle it: {}."
    if settle.startswith(("gpmcflow ", "snakemake ")):
        how, settle = "To settle it, run {}.", html.code(row["settle"].strip())
    told = [("It touches {}.", touches), (how, settle)]
    return html.sentences(text, *(Markup(t).format(value) for t, value in told if value))


def _quick(analysis: Analysis) -> Markup:
    info = analysis.info
    n = len(analysis["checks"])
    passed = f" {words.capital(_all_passed(n))}." if n and analysis.alarms.empty else ""
    how = (
        "A quick run makes no random draws. It takes the settings of the models as known and checks nothing "
        "against draws, so intervals may be too narrow."
    )
    if analysis.averaged:
        how = _approximation(analysis.shown)
    if not info["yaml"]:
        return Markup("{}{} For the full answer, sample the model.").format(how, passed)
    return Markup(
        "{}{} For the full answer run {}; take {} out of the file if it is there."
    ).format(how, passed, html.code(f"gpmcflow run {info['yaml']}"), html.code("quick: true"))


def _approximation(shown: pd.Series) -> str:
    """What a quick answer averages over, and how far off its approximation is."""
    n = words.count(int(shown["settings"]))
    error = shown["ep_error"]
    if error == 0.0:
        return (
            f"A quick run averages over {n} settings of the model in place of long chains of draws."
        )
    return (
        f"A quick run averages over {n} settings of the model in place of long chains of draws, and "
        "approximates the curve at each setting by a bell shape. Draws of the curve say that this changes "
        f"the probability of the data by {words.percent(abs(np.expm1(error)))}."
    )


def _agreement(analysis: Analysis) -> str:
    models = analysis.models
    chains = models["chains"].dropna()
    sizes = models[["ess_bulk", "ess_tail"]].min(axis=1).dropna()
    if chains.empty or sizes.empty:
        return ""
    if analysis.alarms["check"].astype(str).str.contains("R-hat").any():
        return ""
    n, size = int(chains.min()), sizes.min()
    worth = f"each parameter has draws worth at least {_down(size)} independent ones"
    if n == 1:
        return f"One chain was run, and {worth}."
    return f"{words.capital(words.count(n))} chains from different starts agree, and {worth}."


def _down(size: float) -> str:
    """Rounded down to two digits, so that "at least" holds."""
    size = math.floor(size)
    step = 10 ** max(len(str(size)) - 2, 0)
    return words.fixed(size // step * step, 0)


def _passed(analysis: Analysis) -> str:
    n, failed = len(analysis["checks"]), len(analysis.alarms)
    if n == 0:
        return ""
    if failed:
        left = n - failed
        if left == 1:
            return "The other check passed."
        return f"The other {words.count(left)} checks passed." if left else ""
    return words.capital(_all_passed(n)) + "."


def _all_passed(n: int) -> str:
    return {1: "the one check passed", 2: "both checks passed"}.get(
        n, f"all {words.count(n)} checks passed"
    )


def _quick_difference(analysis: Analysis) -> str:
    difference = analysis.shown.get("quick_difference", math.nan)
    if analysis.info.get("quick") or not math.isfinite(difference):
        return analysis.info.get("certified", "") if analysis.info.get("quick") else ""
    if analysis.own.classified:
        size = f"{words.number(100 * difference, 2)} points of probability"
    else:
        size = f"{words.percent(difference)} of the standard deviation of a prediction"
    return f"A quick run would have been off by at most {size}."


def _new_rows(analysis: Analysis) -> str:
    new = analysis["predictions_new"]
    if new.empty or "note" not in new:
        return ""
    marked = int(new["note"].notna().sum())
    if marked <= _MANY_NOTES * len(new):
        return ""
    return (
        f"{words.capital(words.count(marked))} of the {words.rows(len(new))} in "
        f"{analysis.info['new_csv']} {'is' if marked == 1 else 'are'} unlike the rows to learn from; "
        f"{'its prediction is' if marked == 1 else 'their predictions are'} marked."
    )
