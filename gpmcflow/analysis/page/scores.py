"""How good is it? Scores of the models beside no model and a simple one, as table and picture."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.canvas import one_panel
from gpmcflow.analysis.page.results import ENOUGH_ROWS, Analysis, label
from gpmcflow.analysis.page.standing import simple_name
from gpmcflow.plot.rows import Bar, interval_rows, rows_frame

_SHORTER = {
    **{"logistic": "log.", "ordered logistic": "ord. log.", "linear": "lin."},
    **{
        "negative binomial": "neg. bin.",
        "zero-inflated": "zero-infl.",
        "beta-binomial": "beta-bin.",
    },
}


def scores(analysis: Analysis) -> html.Section:
    """Third section: one row a model; differences are paired, row by row, with the simple model."""
    order = score_rows(analysis)
    heading = "How good is it?"
    if order["test_score"].isna().all():
        text = "No rows were held out, and no score was computed."
        return html.section("score", heading, html.paragraph(text))
    heads, cells = _columns(analysis, order)
    body = [html.paragraph(*_introduction(analysis)), html.table(heads, cells, best=0)]
    if analysis.baseline("simple") is not None:
        body += [html.quiet(*_comparison(analysis, order)), _picture(analysis, order)]
    return html.section("score", heading, *body)


def score_rows(analysis: Analysis) -> pd.DataFrame:
    """Shown model, other models by score, simple model, base rate."""
    models = analysis["models"]
    parts = [analysis.models, models[models["role"] == "simple"], models[models["role"] == "base"]]
    return pd.concat(parts, ignore_index=True)


def _whose(analysis: Analysis) -> Markup:
    """Whether the scored rows are new rows of known groups, such as subjects, or rows of new ones."""
    scored = "left_out" if analysis.by_loo else "held_out"
    known, new = (analysis.groups(scored, whether) for whether in (True, False))
    texts = {
        "Other rows with the same {} are among those to learn from: the scores are for new rows of a known "
        "one.": known,
        "The model has seen no other row with the same {}: the scores are for a new one.": new,
    }
    named = texts.items()
    return html.sentences(*(Markup(t).format(words.series(own, "or")) for t, own in named if own))


def _introduction(analysis: Analysis) -> list[Markup | str]:
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
    whose, meaning = _whose(analysis), _meaning(analysis)
    exposed = ""
    if analysis.info["target"].get("unit") and analysis.kind != "survival":
        exposed = f"All of them take {label(analysis.info['target']['unit'])} into account."
    shown = Markup("This page shows {}{}.").format(
        html.bold(analysis.shown["name"]),
        " (“Which model?” says why)" if len(analysis.models) > 1 else "",
    )
    first = html.naming("Scores of {} are of first fits.", html.names(analysis.ruled_out))
    return [opening, whose, meaning, exposed, shown, first]


def _meaning(analysis: Analysis) -> Markup | str:
    """What the typical probability is, or the typical error."""
    if analysis.kind == "survival":
        others = "of its interval, or " * analysis.by_interval
        return (
            "A row counts by the density of its time if its end was seen, else by the probability "
            f"{others}of lasting longer than it was followed."
        )
    if analysis.own.measured:
        root = "the root of the mean squared difference between prediction and outcome"
        error = {
            "positive": "the mean distance between outcome and predicted median",
            "share": f"{root}, in points of percent",
        }.get(analysis.kind, root)
        text = Markup("The <i>typical error</i> is {}.")
        return text.format(error) if analysis.has_errors else ""
    seen, after = analysis.own.seen or "the actual outcome", ""
    if analysis.kind == "binary":
        after = "; a coin gives 50 %"
    elif analysis.own.leveled:
        n = len(analysis.info["target"].get("levels") or ()) or 1
        after = f"; guessing among all {words.count(n)} gives {words.percent(1.0 / n)}"
    elif analysis.has_errors:
        after = Markup("; the <i>typical error</i> is the mean distance from prediction to count")
    return Markup(
        "The <i>typical probability</i> is what a model gave to {}, averaged over rows (geometric mean){}."
    ).format(seen, after)


def _columns(analysis: Analysis, order: pd.DataFrame) -> tuple[list[html.Head], list[list[object]]]:
    simple = analysis.baseline("simple")
    heads = [html.Head("model")]
    cells: list[list[object]] = [[label(name)] for name in order["name"]]

    def add(head: html.Head, values: list[object]) -> None:
        heads.append(head)
        for line, value in zip(cells, values, strict=True):
            line.append(value)

    rows = [row for _, row in order.iterrows()]
    if not analysis.own.measured:
        add(html.Head("typical probability, %", True), [_typical(row) for row in rows])
    if analysis.has_errors:
        unit = analysis.info.get("units", {}).get(analysis.info["target"]["name"])
        if analysis.own.classified:
            head = html.heads(f"misclassified of {words.fixed(analysis.n_scored, 0)} #&")[0]
            values = [f"{row['error']:.0f}" if math.isfinite(row["error"]) else "" for row in rows]
        else:
            percent = 100.0 if analysis.kind == "share" else 1.0
            unit = "points" if analysis.kind == "share" else unit
            head = html.Head("typical error" + (f", {unit}" if unit else ""), True)
            errors = percent * order.reindex(columns=["error", "error_se"]).to_numpy(float)
            values = [words.plus_minus(*pair) if math.isfinite(pair[0]) else "" for pair in errors]
        add(head, values)
    if simple is not None:
        ahead = [(row["difference"], row["difference_se"]) for row in rows]
        values = [words.more_text(*pair) if math.isfinite(pair[0]) else "" for pair in ahead]
        values = ["0" if r["role"] == "simple" else v for r, v in zip(rows, values, strict=True)]
        add(html.Head(f"ahead of {_short(simple_name(analysis))}*, %", True), values)
    return heads, cells


def _short(name: str) -> str:
    """``log. regr.`` for a narrow column."""
    kind = name.removesuffix(" regression")
    if kind == name or kind.startswith("multinomial"):
        return name
    return f"{_SHORTER.get(kind, kind)} regr."


def _typical(row: pd.Series) -> str:
    if not math.isfinite(row["test_score"]):
        return ""
    value = 100 * math.exp(row["test_score"])
    return words.plus_minus(value, value * row.get("test_score_se", math.nan))


def _comparison(analysis: Analysis, order: pd.DataFrame) -> list[Markup | str]:
    """Footnote of the last column, and which of its differences are resolved."""
    simple = simple_name(analysis)
    note = (
        f"* How much more likely {analysis.own.came} was under the model than under {simple}, "
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
    parts: list[Markup | str] = [note]
    for state, text in texts.items():
        names = by_state.get(state, [])
        if state == "not resolved" and len(names) > 1 and len(names) == len(order) - 1:
            parts.append("No difference is clear: all lie within two standard errors of zero.")
        else:
            parts.append(html.naming(f"{text}: {{}}.", html.names(names)))
    return parts


def _picture(analysis: Analysis, order: pd.DataFrame) -> Markup:
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
        return Markup("")
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
    came = analysis.own.came
    axis = f"how likely {came} was, as a factor" if wide else f"how much more likely {came} was (%)"
    return one_panel(
        *(analysis, "scores", caption, rows_frame(bars), interval_rows, bars, axis),
        at=1.0 if wide else 0.0,
        logarithmic=wide,
    )
