"""The evidence of each model, its ladder, and what it says of their order."""

from __future__ import annotations

import math
import re

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import one_panel, panel
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.plot.ladders import LADDER, ladder
from gpmcflow.plot.rows import EVIDENCE, evidence_bars, interval_rows, rows_frame

# Which model do the data favour? By the evidence, averaged over the hyperparameters.

ROUGH = "rough"
UNKNOWN = 10.0  # nats of standard error from which a rough evidence says nothing


def by_evidence(analysis: Analysis) -> Markup:
    """A paragraph, the table, the hyperpriors and the ladders; nothing where fewer than two were averaged."""
    rows = analysis["evidence"]
    if len(rows) < 2:
        return Markup("")
    sound = rows[rows["verdict"] != ROUGH]
    said = [_favoured(analysis, sound)] if len(sound) > 1 else []
    rough = rows[rows["verdict"] == ROUGH].groupby("settle", sort=False)
    said += [_rough(analysis, settle, group, len(sound)) for settle, group in rough]
    said.append(_difference(analysis))
    return html.join(
        html.paragraph(*said),
        _picture(analysis, sound),
        _table(rows, best=0 if len(sound) > 1 else -1),
        html.quiet(_notes(len(sound), len(rows) - len(sound))),
        html.quiet(_hyperpriors(analysis)),
        _ladders(analysis),
    )


def _favoured(analysis: Analysis, sound: pd.DataFrame) -> Markup:
    """What the data favour, over what, by how much, and what they cannot tell apart."""
    best, others = sound.iloc[0], sound.iloc[1:]
    name = html.bold(label(best["model"]))
    texts = {
        "worse": "By the evidence the data favour {}: it is {}.",
        "no preference": "The evidence leans towards {}, which is {}.",
        "not resolved": "{} and {} cannot be told apart by the evidence.",
    }
    parts = []
    for verdict, text in texts.items():
        behind = [row for _, row in others.iterrows() if row["verdict"] == verdict]
        named = [_name(row) for row in behind]
        if verdict != "not resolved":
            named = [words.times_phrase(-row["log_bayes_factor"], _name(row)) for row in behind]
        if behind:
            parts.append(Markup(text).format(name, words.series(named)))
    shown = analysis.info["shown"]
    if shown in set(others.loc[others["verdict"] == "worse", "model"]):
        text = "This page shows {} all the same, for its predictions."
        parts.append(Markup(text).format(html.italic(label(shown))))
    return html.sentences(*parts)


def _picture(analysis: Analysis, sound: pd.DataFrame) -> Markup:
    """The evidences side by side, where there are two that are not rough."""
    if len(sound) < 2:
        return Markup("")
    caption = (
        "Log evidence of each model less that of the best; bars: two standard errors to each side. A step of "
        "2.3 nats is a factor of ten in probability."
    )
    names = [label(name) for name in sound["model"]]
    bars = evidence_bars(names, sound["log_evidence"], sound["standard_error"])
    return one_panel(
        *(analysis, "evidence", caption, rows_frame(bars), interval_rows), *(bars, EVIDENCE)
    )


def _name(row: pd.Series) -> Markup:
    return html.italic(label(row["model"]))


def _rough(analysis: Analysis, settle: str, rows: pd.DataFrame, n_sound: int) -> Markup:
    """That no order is claimed, and how to get better numbers."""
    alone = len(rows) == 1
    left_out = f"{'it has' if alone else 'they have'} no place in the order"
    if n_sound < 2:
        left_out = f"no order is claimed from {'it' if alone else 'them'}"
    return Markup(
        "The evidence of {} is rough, and {}; for a better one write {} in {}, and {} tells what that "
        "costs."
    ).format(
        words.series(html.names(rows["model"])),
        left_out,
        html.code(settle),
        html.code(analysis.info["yaml"]),
        html.code(f"gpmcflow check {analysis.info['yaml']}"),
    )


def _difference(analysis: Analysis) -> str:
    n = words.rows(int(analysis.info["n_learning"]))
    return (
        f"The evidence asks how probable a model, its hyperpriors included, had made all {n} together "
        "before it saw any; leave-one-out asks how well it predicts a row once it has seen the others."
    )


def _table(rows: pd.DataFrame, best: int) -> Markup:
    probability = "probability† #&" if best == 0 else "probability #&"
    heads = html.heads("model", "log evidence* #", "fit* #~", "complexity* #~", probability)
    cells = []
    for _, row in rows.iterrows():
        rough, shown_error = row["verdict"] == ROUGH, max(row["standard_error"], 0.01)
        decimals = 0 if rough else min(max(words.decimals_of(shown_error), 1), 2)
        value, error = (
            words.fixed(number, decimals) for number in (row["log_evidence"], shown_error)
        )
        fit, complexity = (words.fixed(row[name], 1 - rough) for name in ("fit", "complexity"))
        evidence = f"about {value} ‡" if rough else f"{value} ± {error}"
        if rough and not row["standard_error"] < UNKNOWN:
            evidence, complexity = "unknown ‡", ""
        cells.append([label(row["model"]), evidence, fit, complexity, _probability(row)])
    return html.table(heads, cells, best=best)


def _probability(row: pd.Series) -> str:
    if not math.isfinite(row["probability"]):
        return ""
    value, *ends = (words.probability(row[name]) for name in ("probability", "low", "high"))
    if set(ends) == {value}:
        return value
    return words.percent_interval(row["probability"], row["low"], row["high"])


def _notes(n_sound: int, n_rough: int) -> Markup:
    parts: list[Markup | str] = [
        "* In nats, ± one standard error. Fit: mean log probability of the rows after learning from them; "
        "complexity: how far learning took the model from its priors, fit minus log evidence.",
    ]
    if n_sound > 1:
        of = "the models that are not rough" if n_rough else "these models"
        parts.append(
            f"† Of {of}, were they equally probable before the data and one of them right (95 % interval)."
        )
    if n_rough:
        parts.append("‡ It raised an alarm, and should not be quoted.")
    return html.sentences(*parts, Markup("All: {}.").format(html.link("evidence.csv")))


def _hyperpriors(analysis: Analysis) -> Markup:
    """Of each kind of parameter, with the models that have it where not all do."""
    frame = analysis["hyperparameters"]
    models = list(dict.fromkeys(frame["model"]))
    kinds: dict[tuple[str, str], list[str]] = {}
    for row in frame.itertuples():
        name = label(re.sub(r"\[.*\]$", "", row.parameter).split(".")[-1])
        span = f"{words.number(row.prior_q025, 2)} to {words.number(row.prior_q975, 2)}"
        having = kinds.setdefault((name, span), [])
        having += [row.model] * (row.model not in having)
    parts = []
    for (name, span), having in kinds.items():
        of = html.naming(" ({})", html.names(having) if len(having) < len(models) else ())
        parts.append(Markup("{} {}{}").format(name, span, of))
    text = (
        "The hyperpriors are part of the models, and wider ones cost evidence. With 95 % probability before "
        "the data: {}."
    )
    return Markup(text).format(Markup("; ").join(parts)) if parts else Markup("")


def _ladders(analysis: Analysis) -> Markup:
    """A picture of each ladder, folded away."""
    frame = analysis["ladder"]
    if frame.empty:
        return Markup("")
    caption = (
        "u, the log of the joint density over that of the fitted Gaussian, along the ladder between the two. "
        "Dots and bars: mean and standard deviation of the ladder’s draws; square and circle: of "
        "independent draws of the Gaussian, and of the posterior draws (a triangle: their mean, off the "
        "picture). Dashes: the log evidence, which "
        "is the mean of the curve. Bars of neighbours should overlap."
    )
    values = analysis["evidence"].set_index("model")["log_evidence"]
    panels = [
        panel(analysis, f"ladder-{name}", caption, LADDER, ladder, rows, values[name], label(name))
        for name, rows in frame.groupby("model", sort=False)
    ]
    return html.folded(
        "From the fitted Gaussian to the posterior: the ladders", html.figure(panels, caption)
    )


def how_computed(analysis: Analysis) -> Markup:
    """Route, effective draws, overlap and alarm of each model."""
    routes = {"two_ended": "bridge", "ladder": "ladder", "mixture": "importance sampling"}
    heads = html.heads("model", "route", "effective draws #", "variance of terms #~", "alarm")
    cells = [
        [
            *(label(row.model), routes[row.route], words.fixed(row.effective_size, 0)),
            *(words.number(row.overlap, 2), row.alarm if isinstance(row.alarm, str) else "none"),
        ]
        for row in analysis["evidence"].itertuples()
    ]
    return html.table(heads, cells)
