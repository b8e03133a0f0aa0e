"""The answer in words: what goes with the outcome, how good the model is, how to read it."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, standing, words
from gpmcflow.analysis.page.areas import areas_answer
from gpmcflow.analysis.page.columns import besides_location, columns_answer, curve_answer
from gpmcflow.analysis.page.places import map_answer
from gpmcflow.analysis.page.results import ENOUGH_ROWS, Analysis, label
from gpmcflow.data.columns import is_time


def title_of(analysis: Analysis) -> str:
    """Title of the config, else "readmitted, from patients.csv"."""
    return analysis.info.get("title") or f"{analysis.target}, from {analysis.info['csv']}"


def answer(analysis: Analysis) -> html.Section:
    """First section: what goes with the outcome, by how much, how sure, and how good it is."""
    if standing.place_leads(analysis):
        main = html.sentences(map_answer(analysis), besides_location(analysis))
    elif not analysis["curve"].empty:
        main = curve_answer(analysis)
    else:
        main = columns_answer(analysis)
    if not standing.nothing_learnt(analysis):
        main = html.sentences(areas_answer(analysis), main)
    if analysis.provisional:
        main = Markup(
            "<b>Provisional:</b> {} failed (see “Can I trust the computation?”). {}"
        ).format(_failed(len(analysis.alarms)), main)
    return html.section(
        *("answer", "The answer"),
        html.paragraph(_leak(analysis)),
        html.paragraph(main, kind="answer"),
        html.paragraph(_score(analysis)),
        html.paragraph(_left_over(analysis)),
        html.quiet(_notes(analysis)),
    )


def _left_over(analysis: Analysis) -> Markup:
    """That the outcome still repeats in time where the model has been taken away, and what to write."""
    season = analysis.info.get("left_over")
    if not season:
        return Markup("")
    column, period = season["column"], f"{season['period']:.10g}"
    return Markup(
        "What the model leaves unexplained still repeats every {} of {}, so a model with this season would "
        "predict better: add periodic({}, period={}) to its covariance."
    ).format(season["name"] or period, html.italic(label(column)), column, period)


def _leak(analysis: Analysis) -> Markup:
    """What may make the answer one to another question: it stands before all else."""
    leak = analysis.info.get("leak")
    if not leak:
        return Markup("")
    how, cause = "alone it almost determines", "is made from that, or was known only after it"
    if leak["in_order"]:
        how = "it follows the order of the file and almost determines"
        cause = "is a row number, or was known only after the outcome"
    return Markup(
        "<b>Check the column {}:</b> {} {}. If it {}, leave it out (drop: [{}]) and run again; the answer "
        "below rests on it."
    ).format(label(leak["column"]), how, label(analysis.target), cause, leak["column"])


def _failed(n: int) -> str:
    return "one check" if n == 1 else f"{words.count(n)} checks"


def _score(analysis: Analysis) -> Markup:
    """The held-out score beside no model and a simple one."""
    shown, base, n = analysis.shown, analysis.baseline("base"), analysis.n_scored
    if n == 0 or not math.isfinite(shown["test_score"]):
        return Markup("No rows were held out, so the model has no score.")
    opening = f"On the {words.rows(n)} held out"
    if analysis.by_loo:
        opening = f"When each of the {words.rows(n)} is predicted from the others"
    if one := standing.one_class(analysis):
        text = f"{one}, so they cannot show how well the model tells “{{}}” from “{{}}”."
        return Markup(text).format(*(analysis.info["target"][k] for k in ("positive", "negative")))
    error, parts = shown.get("error", math.nan), []
    judged = base is not None and math.isfinite(base.get("error", math.nan))
    if analysis.own.classified and math.isfinite(error):
        text = f"{opening}, the model misclassifies {error:.0f}"
        if judged:
            text += f"; always answering “{analysis.usual}” misclassifies {base['error']:.0f}"
        parts.append(text + ".")
    elif math.isfinite(error):
        text = f"{opening}, predictions are typically off by {_error(analysis, shown)}"
        text += " points" if analysis.kind == "share" else analysis.unit
        if judged:
            typical = analysis.own.typical
            text += f"; always answering with the {typical} is off by {_error(analysis, base)}"
        measure = dict.fromkeys(("real", "share"), "root of the mean squared error")
        measure["positive"] = "mean distance from the predicted median"
        measure = measure.get(analysis.kind, "mean distance")
        parts.append(f"{text} ({measure}, ± one standard error).")
    elif not analysis.own.measured:
        parts.append(
            f"{opening}, the model gave {analysis.own.seen} a probability of "
            f"{words.percent(math.exp(shown['test_score']))} on average (geometric mean)."
        )
    elif base is not None:
        more = shown["test_score"] - base["test_score"]
        survival = analysis.kind == "survival"
        alone = "a model without any column" if survival else f"the {analysis.own.typical} alone"
        order = ("the model", alone)[:: 1 if more > 0 else -1]
        came = analysis.own.came
        parts.append(f"{opening}, {came} was {words.likelier(abs(more), *order)}.")
    parts += [standing.against_simple(analysis), _none_seen(analysis), _separated(analysis)]
    if not analysis.by_loo and n < ENOUGH_ROWS:
        parts.append("That is too few rows to judge by.")
    return html.sentences(*parts)


def _separated(analysis: Analysis) -> Markup:
    """That the classes of the learning rows can be told apart perfectly."""
    column, target = analysis.info.get("separated"), analysis.info["target"]
    if column is None:
        return Markup("")
    alone = html.naming("{} alone separates", html.names([column] if column else []))
    return Markup(
        "In these rows, {} “{}” from “{}” without a single error, so they put no upper limit on the "
        "effect."
    ).format(alone or "the columns separate", target["positive"], target["negative"])


def _none_seen(analysis: Analysis) -> Markup:
    """Columns that may matter or not, and those without any sign of an effect, where others have one."""
    shared = {column for own in standing.together(analysis) for column in own.columns}
    shifts = [s for s in standing.changes(analysis) if s.kind != "place"]
    if not any(s.seen for s in shifts) or standing.nothing_learnt(analysis):
        return Markup("")
    parts, none = [], "{{}} show{} no sign of an effect."
    unsure = "It remains open whether {{}} matter{}."
    for state, sentence in ((standing.UNSURE, unsure), (standing.NONE, none)):
        names = [s.name for s in shifts if s.state == state and s.column not in shared]
        if len(names) <= 4:
            parts.append(html.naming(sentence.format("s" * (len(names) == 1)), html.names(names)))
    return html.sentences(*parts)


def _error(analysis: Analysis, row: pd.Series) -> str:
    scale = 100.0 if analysis.kind == "share" else 1.0
    return words.plus_minus(scale * row["error"], scale * row.get("error_se", math.nan))


def _notes(analysis: Analysis) -> Markup:
    about = fits = narrow = ""
    shifts = [s for s in standing.changes(analysis) if s.kind == "number" and s.seen]
    if names := [s.name for s in shifts if not is_time(s.column)]:
        about = f" These are associations: changing {names[0]} need not change the outcome."
    learning, used = (int(analysis.info[name]) for name in ("n_learning", "n_used"))
    if used > learning:
        fits = (
            f" Effects and predictions of new rows come from a fit to all {words.rows(used)}, scores from a "
            f"fit to {words.fixed(learning, 0)} of them."
        )
    if analysis.info.get("quick"):
        narrow = " This is the quick answer: its intervals may be too narrow."
        if analysis.averaged:
            narrow = (
                " This is the quick answer, by an approximation that the full run does without."
            )
    return Markup(
        "A 95 % interval holds the value with 95 % probability, if the model is right.{}{}{} {}"
    ).format(fits, about, narrow, analysis.info.get("left_out", ""))
