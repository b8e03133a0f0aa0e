"""How good is it? Scores of the models beside no model and a simple one, as table and picture."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.canvas import drawn
from gpmcflow.analysis.page.html import (
    Head,
    Section,
    bold,
    figure,
    italic,
    join,
    paragraph,
    quiet,
    sentences,
    table,
)
from gpmcflow.analysis.page.results import ENOUGH_ROWS, Analysis, label
from gpmcflow.analysis.page.standing import simple_name, what_came
from gpmcflow.plot.rows import Bar, interval_rows, rows_frame


def scores(analysis: Analysis) -> Section:
    """Third section: one row a model; differences are paired, row by row, with the simple model."""
    order = score_rows(analysis)
    heading = "How good is it?"
    if order["test_score"].isna().all():
        return Section(
            "score", heading, paragraph("No rows were held out, and no score was computed.")
        )
    heads, cells = _columns(analysis, order)
    body = [paragraph(_introduction(analysis)), table(heads, cells, best=0)]
    simple = analysis.baseline("simple")
    if simple is not None:
        body.append(quiet(_comparison(analysis, order)))
        picture = _picture(analysis, order)
        if picture:
            body.append(picture)
    return Section("score", heading, join(body))


def score_rows(analysis: Analysis) -> pd.DataFrame:
    """Shown model, other models by score, simple model, base rate."""
    models = analysis["models"]
    parts = [analysis.models, models[models["role"] == "simple"], models[models["role"] == "base"]]
    return pd.concat(parts, ignore_index=True)


def _has_errors(analysis: Analysis) -> bool:
    """Whether the shown model has an error; leave-one-out has that of yes or no, grades and shares."""
    return math.isfinite(analysis.shown.get("error", math.nan))


def _whose(analysis: Analysis) -> Markup:
    """Whether the scored rows are new rows of known groups, such as subjects, or rows of new ones."""
    scored = "left_out" if analysis.by_loo else "held_out"
    known, new = (analysis.groups(scored, whether) for whether in (True, False))
    return sentences(
        [
            Markup(
                "Other rows with the same {} are among those to learn from: the scores are for new rows of a "
                "known one."
            ).format(words.series(known, "or"))
            if known
            else "",
            Markup(
                "The model has seen no other row with the same {}: the scores are for a new one."
            ).format(words.series(new, "or"))
            if new
            else "",
        ]
    )


def _introduction(analysis: Analysis) -> Markup:
    n = analysis.n_scored
    if analysis.by_loo:
        held = analysis.info["n_test"]
        why = "no rows were held out" if held == 0 else f"only {words.rows(held)} were held out"
        opening = (
            f"Because {why}, each of the {words.rows(n)} to learn from is predicted from all the others "
            "(leave-one-out)."
        )
    else:
        opening = f"Scores on the {words.rows(n)} held out."
        if n < ENOUGH_ROWS:
            opening += " These are too few to tell."
    whose = _whose(analysis)
    meaning: Markup | str = {
        "binary": Markup(
            "The <i>typical probability</i> is what a model gave to the actual outcome, averaged over "
            "rows (geometric mean); a coin gives 50 %."
        ),
        **dict.fromkeys(
            ("grades", "classes"),
            Markup(
                "The <i>typical probability</i> is what a model gave to the {} seen, averaged over rows "
                "(geometric mean); guessing among all {} gives {}."
            ).format(analysis.own.level, *_guessing(analysis)),
        ),
        "positive": Markup(
            "The <i>typical error</i> is the mean distance between outcome and predicted median."
        )
        if _has_errors(analysis)
        else "",
        "share": Markup(
            "The <i>typical error</i> is the root of the mean squared difference between prediction "
            "and outcome, in points of percent."
        )
        if _has_errors(analysis)
        else "",
        "survival": "A row counts by the density of its time if its end was seen, else by the probability of "
        "lasting longer than it was followed.",
        "real": Markup(
            "The <i>typical error</i> is the root of the mean squared difference between prediction "
            "and outcome."
        )
        if _has_errors(analysis)
        else "",
    }.get(
        analysis.kind,
        Markup(
            "The <i>typical probability</i> is what a model gave to the number counted, averaged over "
            "rows (geometric mean){}."
        ).format(
            Markup("; the <i>typical error</i> is the mean distance from prediction to count")
            if _has_errors(analysis)
            else ""
        ),
    )
    exposed = ""
    if analysis.info["target"].get("unit") and analysis.kind != "survival":
        exposed = f"All of them take {label(analysis.info['target']['unit'])} into account."
    shown = Markup("This page shows {}{}.").format(
        bold(analysis.shown["name"]),
        " (“Which model?” says why)" if len(analysis.models) > 1 else "",
    )
    return sentences([opening, whose, meaning, exposed, shown])


def _guessing(analysis: Analysis) -> tuple[str, str]:
    """How many grades there are, and the probability that each has where all are alike."""
    n = len(analysis.info["target"].get("levels") or ()) or 1
    return words.count(n), words.percent(1.0 / n)


def _columns(analysis: Analysis, order: pd.DataFrame) -> tuple[list[Head], list[list[object]]]:
    simple = analysis.baseline("simple")
    heads = [Head("model")]
    cells: list[list[object]] = [[label(name)] for name in order["name"]]

    def add(head: Head, values: list[object]) -> None:
        heads.append(head)
        for line, value in zip(cells, values, strict=True):
            line.append(value)

    rows = [row for _, row in order.iterrows()]
    if not analysis.measured:
        add(Head("typical probability, %", True), [_typical(row) for row in rows])
    if _has_errors(analysis):
        unit = analysis.info.get("units", {}).get(analysis.info["target"]["name"])
        if analysis.own.classified:
            head = Head(f"misclassified of {words.fixed(analysis.n_scored, 0)}", True, wrap=True)
            values = [_or_nothing(row["error"], lambda x: f"{x:.0f}") for row in rows]
        else:
            percent = 100.0 if analysis.kind == "share" else 1.0
            unit = "points" if analysis.kind == "share" else unit
            head = Head("typical error" + (f", {unit}" if unit else ""), True)
            values = [
                _or_nothing(
                    percent * row["error"],
                    lambda x, r=row: words.plus_minus(x, percent * r.get("error_se", math.nan)),
                )
                for row in rows
            ]
        add(head, values)
    if simple is not None:
        values = [
            "0"
            if row["role"] == "simple"
            else _or_nothing(
                row["difference"], lambda x, r=row: words.more_text(x, r["difference_se"])
            )
            for row in rows
        ]
        add(Head(f"ahead of {_short(simple_name(analysis))}*, %", True), values)
    return heads, cells


def _short(name: str) -> str:
    """``log. regr.`` for a narrow column."""
    known = {
        "logistic regression": "log. regr.",
        "ordered logistic regression": "ord. log. regr.",
        "beta regression": "beta regr.",
        "linear regression": "lin. regr.",
        "Poisson regression": "Poisson regr.",
        "negative binomial regression": "neg. bin. regr.",
        "zero-inflated regression": "zero-infl. regr.",
        "hurdle regression": "hurdle regr.",
        "beta-binomial regression": "beta-bin. regr.",
        "Student-t regression": "Student-t regr.",
        "log-linear regression": "log-linear regr.",
        "gamma regression": "gamma regr.",
        "Weibull regression": "Weibull regr.",
        "log-logistic regression": "log-logistic regr.",
        "log-normal regression": "log-normal regr.",
    }
    return known.get(name, name)


def _typical(row: pd.Series) -> str:
    if not math.isfinite(row["test_score"]):
        return ""
    value = 100 * math.exp(row["test_score"])
    return words.plus_minus(value, value * row.get("test_score_se", math.nan))


def _or_nothing(value: float, write) -> str:
    return write(value) if math.isfinite(value) else ""


def _comparison(analysis: Analysis, order: pd.DataFrame) -> Markup:
    """Footnote of the last column, and which of its differences are resolved."""
    simple = simple_name(analysis)
    note = (
        f"* How much more likely {what_came(analysis)} was under the model than under {simple}, "
        "compared row by row, ± one standard error. Its logarithm is the difference of the mean log "
        "scores."
    )
    by_state: dict[str, list[str]] = {}
    for _, row in order[order["role"] != "simple"].iterrows():
        if math.isfinite(row["difference"]):
            state = words.resolution(row["difference"], row["difference_se"])
            side = "" if state == "not resolved" else ("+" if row["difference"] > 0 else "-")
            by_state.setdefault(state + side, []).append(label(row["name"]))
    texts = {
        "clear+": "Clearly better",
        "only just+": "Better, on weak evidence",
        "not resolved": "No clear difference",
        "only just-": "Worse, on weak evidence",
        "clear-": "Clearly worse",
    }
    parts: list[Markup | str] = []
    for state, text in texts.items():
        names = by_state.get(state, [])
        if state == "not resolved" and len(names) > 1 and len(names) == len(order) - 1:
            parts.append("No difference is clear: all lie within two standard errors of zero.")
        elif names:
            parts.append(Markup("{}: {}.").format(text, words.series([italic(n) for n in names])))
    return sentences([note, *parts])


def _picture(analysis: Analysis, order: pd.DataFrame) -> Markup | None:
    bars = []
    for _, row in order[order["role"] != "simple"].iterrows():
        difference, error = row["difference"], row["difference_se"]
        if math.isfinite(difference) and math.isfinite(error):
            ends = [
                words.more_probability(difference + side * 2 * error, 0.0)[0] for side in (0, -1, 1)
            ]
            bars.append(
                Bar(label(row["name"]), *ends, accent=row["name"] == analysis.info["shown"])
            )
    if not bars:
        return None
    caption = (
        f"The last column as a picture. Dashes: {simple_name(analysis)}; bars: two standard errors to "
        "each side. Where a bar crosses the dashes, these rows cannot tell the two apart."
    )
    wide = max(abs(end) for bar in bars for end in (bar.low, bar.high)) > 900
    if wide:  # hundreds of percent are read better as a factor
        bars = [
            bar._replace(**{end: 1 + getattr(bar, end) / 100 for end in ("value", "low", "high")})
            for bar in bars
        ]
    panel = drawn(
        f"{analysis.info['name']}-scores",
        *(caption, rows_frame(bars), interval_rows, bars),
        f"how likely {what_came(analysis)} was, as a factor"
        if wide
        else f"how much more likely {what_came(analysis)} was (%)",
        at=1.0 if wide else 0.0,
        logarithmic=wide,
    )
    return figure([panel], caption)
