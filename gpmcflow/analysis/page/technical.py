"""What the data taught the models, and the technical tables, folded away."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import panel
from gpmcflow.analysis.page.comparison import touched_by_alarm
from gpmcflow.analysis.page.evidence import how_computed
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.analysis.page.scores import score_rows
from gpmcflow.plot.rows import parameter_name, prior_and_posterior, prior_frame

_MOST_PARAMETERS = 15
_LEARNED = 0.5  # an interval shorter than so much of the prior's has learned from the data
_FILES = {
    "predictions_new": "mean, standard deviation, quantiles, source row, note",
    "predictions_test": "mean, standard deviation and quantiles of held-out rows, with the outcome",
    "relevance": "every column, its change and interval",
    "together": "sets of columns without clear effects of their own, and what they change together",
    "explanations": "average response by each of several explanations",
    "interactions": "how the change with one column differs between values of another",
    "pairs": "average response as two columns are set to values",
    "effects": "average response as the most relevant columns are set to values",
    "curve": "average response over the input, with bands",
    "map": "response, interval and doubt on a grid",
    "survival": "share that lasts longer, at the two ends of the strongest column and of all rows",
    "grades": "probability of each grade or class as the most relevant columns are set to values",
    "reach": "distances over which places stay similar",
    "models": "evidence, scores, standard errors, sampler, seconds",
    "hyperparameters": "prior and posterior of every parameter",
    "checks": "what was checked, the limit and the worst value",
    "evidence": "evidence averaged over the hyperparameters, its error, and how it was computed",
    "ladder": "mean and standard deviation of u along the ladders of temperatures",
}
_WORDS = {
    "Probability": "How sure the model is. Of many rows with 30 %, about 30 in 100 should turn out so.",
    "Point": "A difference between two probabilities: from 20 % to 25 % is 5 points.",
    "95 % interval": "Given the data and the model, the value lies in this range with 95 % "
    "probability.",
    "Held-out rows": "Rows put aside before learning. Scores use these rows only.",
    "Leave-one-out": "Each row predicted from all the others, without running the whole analysis "
    "again for each.",
    "±": "One standard error. A difference from two of them is taken as real, up to three on weak "
    "evidence.",
    "Typical probability": "The geometric mean of the probabilities that a model gave to what "
    "happened; its logarithm is the mean log score.",
    "Typical error": "For measurements the root of the mean squared difference between prediction and "
    "outcome, for counts the mean difference, up or down, for positive amounts the mean difference from the "
    "predicted median.",
    "Evidence": "The probability that the model gave to the rows it learned from before it saw them. It "
    "rewards fit and punishes needless freedom.",
}


def learned(analysis: Analysis) -> html.Section | None:
    """Prior against posterior of each parameter of the shown model; none where none was stored."""
    frame = analysis["hyperparameters"]
    frame = frame[frame["model"] == analysis.info["shown"]]
    if frame.empty:
        return None
    taught, n = sum(_is_taught(row) for _, row in frame.iterrows()), len(frame)
    answer = f"Yes, for {_all_parameters(n)} of {{}}."
    if taught == 0:
        answer = f"Hardly: for the {_parameters(n)} of {{}}, what was assumed still decides."
    elif taught < n:
        rest = "other" if n - taught == 1 else "others"
        answer = (
            f"Yes, for {words.count(taught)} of the {_parameters(n)} of {{}}; for the {rest}, what was "
            "assumed still decides."
        )
    answer = html.naming(answer, html.names([analysis.info["shown"]]))
    caption = (
        "Broad grey line: 95 % interval that was assumed before the data; dot and narrow line: median "
        "and 95 % interval after them."
    )
    shown = frame.head(_MOST_PARAMETERS)
    if n > _MOST_PARAMETERS:
        caption += f" The first {_MOST_PARAMETERS} of {n}; all: hyperparameters.csv."
    positive = (shown[["prior_q025", "q025"]] > 0).all(axis=1)
    panels = []
    for part, logarithmic in ((shown[positive], True), (shown[~positive], False)):
        if len(part):
            drawing = caption, prior_frame(part), prior_and_posterior, part
            key = f"prior-{'log' if logarithmic else 'linear'}"
            panels.append(panel(analysis, key, *drawing, logarithmic=logarithmic))
    scale = " (on a logarithmic scale where parameters are positive)" * bool(positive.any())
    measure = (
        f"Taught means: the 95 % interval is less than half as long as before the data{scale}."
    )
    text, pictures = html.paragraph(answer, measure), html.figure(panels, caption)
    return html.section("learned", "Did the data teach the model anything?", text, pictures)


def _is_taught(row: pd.Series) -> bool:
    ends = np.array([row["q025"], row["q975"], row["prior_q025"], row["prior_q975"]], float)
    if (ends > 0).all():
        ends = np.log(ends)
    return bool(ends[1] - ends[0] < _LEARNED * (ends[3] - ends[2]))


def _all_parameters(n: int) -> str:
    return {1: "the one parameter", 2: "both parameters"}.get(n, f"all {_parameters(n)}")


def _parameters(n: int) -> str:
    return f"{words.count(n)} parameter{'s' * (n != 1)}"


def technical(analysis: Analysis) -> html.Section:
    """Evidence and scores in nats, the sampler, the checks, all parameters, files, and words."""
    parts = [html.folded("Evidence and scores, in nats", _nats(analysis))]
    if not analysis["evidence"].empty:
        parts.append(html.folded("How the evidence was computed", how_computed(analysis)))
    if not analysis.info.get("quick"):
        parts.append(html.folded("Sampler: R-hat, effective sizes, acceptance", _sampler(analysis)))
    parts.append(html.folded("Checks and alarms", _checks(analysis)))
    if not analysis["hyperparameters"].empty:
        parts.append(
            html.folded("Parameters, before and after the data", _parameters_table(analysis))
        )
    parts += [html.folded("Files", _files(analysis)), html.folded("Words used here", _words_list())]
    return html.section("technical", "Technical tables", *parts)


def _nats(analysis: Analysis) -> Markup:
    held = "leave-one-out" if analysis.by_loo else "held-out"
    heads = html.heads("model", "log evidence #", f"{held} log score a row #")
    heads += html.heads("sum of leave-one-out #~", "k > 0.7 #~", "time #~")
    cells = [
        [
            *(label(row["name"]), _evidence(row)),
            *(_cell(row, name, f"{name}_se") for name in ("test_score", "elpd_loo")),
            _or_empty(row.get("loo_bad_share"), words.percent),
            _or_empty(row.get("seconds"), words.duration),
        ]
        for _, row in score_rows(analysis).iterrows()
    ]
    covariances = [
        Markup("<dt>{}</dt><dd>{}; {}</dd>").format(
            label(row["name"]), html.code(row["covariance"]), words.LIKELIHOODS[row["likelihood"]]
        )
        for _, row in analysis.models.iterrows()
    ]
    return html.join(
        html.table(heads, cells, best=0), Markup("<dl>{}</dl>").format(html.join(*covariances))
    )


def _evidence(row: pd.Series) -> str:
    value, error = row.get("log_evidence", math.nan), row.get("log_evidence_se", math.nan)
    if not math.isfinite(value):
        return ""
    alarm = ", alarm" if touched_by_alarm(row) else ""
    if error == 0:
        return f"{words.fixed(value, 1)} (exact){alarm}"
    return words.plus_minus(value, error) + alarm


def _cell(row: pd.Series, name: str, error: str) -> str:
    value = row.get(name, math.nan)
    return words.plus_minus(value, row.get(error, math.nan)) if math.isfinite(value) else ""


def _or_empty(value: float | None, write) -> str:
    return write(value) if value is not None and math.isfinite(value) else ""


def _sampler(analysis: Analysis) -> Markup:
    heads = html.heads("model", "draws #", "R-hat #", "ESS bulk #", "ESS tail #~", "accepted #~")
    cells = []
    for _, row in analysis.models.iterrows():
        draws = f"{row['chains']:.0f} × {row['draws']:.0f}" if math.isfinite(row["chains"]) else ""
        decimals = {"r_hat": 3, "ess_bulk": 0, "ess_tail": 0, "acceptance": 2}
        numbers = (
            _or_empty(row[name], partial(words.fixed, decimals=n)) for name, n in decimals.items()
        )
        cells.append([label(row["name"]), draws, *numbers])
    return html.table(heads, cells, best=0)


def _checks(analysis: Analysis) -> Markup:
    alarmed = set(analysis.alarms.index)
    heads = html.heads("check", "model ~", "limit #", "worst #", "alarm")
    cells = [
        [
            *(row["check"], label(row["model"]) if isinstance(row["model"], str) else "all"),
            *(words.cell(row["limit"], 4), words.cell(row["worst"], 4)),
            "alarm" if index in alarmed else "none",
        ]
        for index, row in analysis["checks"].iterrows()
    ]
    return html.table(heads, cells) if cells else html.paragraph("No check applies to this run.")


def _parameters_table(analysis: Analysis) -> Markup:
    median = "median (95 % interval) #"
    heads = html.heads("model ~", "parameter", f"before: {median}", f"after: {median}")
    cells = [
        [
            *(label(row.model), parameter_name(row.parameter)),
            _median(row.prior_q50, row.prior_q025, row.prior_q975),
            _median(row.q50, row.q025, row.q975),
        ]
        for row in analysis["hyperparameters"].itertuples()
    ]
    return html.table(heads, cells)


def _median(middle: float, low: float, high: float) -> str:
    return f"{words.number(middle)} ({words.number(low)} to {words.number(high)})"


def _files(analysis: Analysis) -> Markup:
    cells = [
        [html.link(f"{name}.csv"), what]
        for name, what in _FILES.items()
        if not analysis[name].empty
    ]
    cells.append([html.link("rows.csv"), "what became of every row of the file"])
    return html.table(html.heads("file", "holds"), cells)


def _words_list() -> Markup:
    lines = [Markup("<dt>{}</dt><dd>{}</dd>").format(term, text) for term, text in _WORDS.items()]
    lines.append(
        Markup(
            "<dt>e<sup>15</sup> to 1</dt><dd>Odds above 200\u00a0000 to 1. e<sup>15</sup> to 1 is about 3 "
            "million to 1, e<sup>20</sup> to 1 500 million to 1.</dd>"
        )
    )
    return Markup("<dl>{}</dl>").format(html.join(*lines))
