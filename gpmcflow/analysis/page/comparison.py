"""Which model? By leave-one-out, averaged over the hyperparameters, with the evidence beside it."""

from __future__ import annotations

import math

import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.choice import BAD_SHARE
from gpmcflow.analysis.page import html, words
from gpmcflow.analysis.page.evidence import by_evidence
from gpmcflow.analysis.page.results import Analysis, are_averaged, label, touches_evidence


def which_model(analysis: Analysis) -> html.Section:
    """One row a model, the shown one first."""
    heading = "Which model?"
    models = analysis.models
    if len(models) == 1:
        return html.section("models", heading, html.paragraph(_only_one(analysis)))
    averaged = not analysis["evidence"].empty
    cells = [
        [label(row["name"]), _can_do(row), _loo_cell(analysis, row)]
        + ([] if averaged else [_odds_cell(analysis, row)])
        for _, row in models.iterrows()
    ]
    heads = html.heads("model", "what it can do")
    heads.append(html.Head(f"{label(analysis.shown['name'])} ahead*, %", True, wrap=True))
    heads += [] if averaged else html.heads("odds by the evidence† #&")
    others = models.iloc[1:]
    of_fits = others[others["name"].isin(analysis.ruled_out)] if averaged else others
    return html.section(
        *("models", heading),
        html.paragraph(*_by_leave_one_out(analysis), *_by_evidence(analysis, of_fits)),
        html.paragraph(_why(analysis), _ruled_out(analysis)),
        html.table(heads, cells, best=0),
        html.quiet(*_notes(analysis), *([] if averaged else _notes_on_evidence(analysis))),
        by_evidence(analysis),
    )


def _why(analysis: Analysis) -> Markup:
    """Why the shown model is the one that is shown."""
    choice = analysis.info.get("choice")
    if choice is None:
        return Markup("")
    among = html.names(name for name in choice["among"] if name != analysis.info["shown"])
    others, this = words.series(among), html.bold(label(analysis.info["shown"]))
    which = " that was sampled" * bool(analysis.ruled_out)
    if choice["by"] == "evidence":
        text = (
            "This page shows {}: leave-one-out cannot tell it from {} (one standard error), and its "
            "evidence is more than three times as large."
        )
    elif choice["by"] == "simplicity":
        even = analysis.models[analysis.models["name"].isin(choice["among"])]
        known = not any(touched_by_alarm(row) for _, row in even.iterrows())
        tests, unknown = "leave-one-out (one standard error)", ""
        if known:
            tests += " and the evidence (a factor of three)"
        else:
            unknown = " The evidence has no say, as not every model has one without an alarm."
        text = (
            f"This page shows {{}}: {tests} cannot tell it from {{}}, and none of them has fewer "
            f"hyperparameters to learn.{unknown}"
        )
    elif choice["by"] == "first fits":
        text = "This page shows {}, the only model that is left."
    elif choice["by"] == "convergence":
        text = "This page shows {}, the only model whose draws passed their checks."
    else:
        text = (
            f"This page shows {{}}: by leave-one-out every other model{which} is more than one standard "
            "error behind it."
        )
    without = choice["without"] if choice["by"] != "convergence" else ()
    failed = "The draws of {} failed a check, so they do not count here."
    return html.sentences(
        Markup(text).format(this, others), html.naming(failed, html.names(without))
    )


def _ruled_out(analysis: Analysis) -> Markup:
    """Of which models no draws were made, and what to write for them."""
    out = html.names(analysis.ruled_out)
    one = len(out) == 1
    it, fits = ("it", "that fit") if one else ("them", "those fits")
    text = (
        f"No draws were made of {{}}: first fits of all models leave no doubt that this page would not show "
        f"{it}. What it says of {it} comes from {fits}."
    )
    said = html.naming(text, out)
    if not said or not analysis.info["yaml"]:
        return said
    line = html.code("sampling: {every_model: true}")
    return html.sentences(
        said,
        Markup("For draws of every model write {} in {}.").format(
            line, html.code(analysis.info["yaml"])
        ),
    )


def _only_one(analysis: Analysis) -> Markup:
    row = analysis.shown
    if not analysis.info["yaml"]:
        return Markup("One model was run, {} ({}).").format(html.bold(row["name"]), _can_do(row))
    return Markup("One model was run, {} ({}); add a second under {} in {} to compare.").format(
        html.bold(row["name"]), _can_do(row), html.code("models:"), html.code(analysis.info["yaml"])
    )


def _can_do(row: pd.Series) -> str:
    """What a model can describe, and what it takes the outcome for."""
    return f"{row['can_do']}; {words.LIKELIHOODS[row['likelihood']]}"


def loo_per_row(analysis: Analysis, row: pd.Series) -> tuple[float, float]:
    """Leave-one-out of a model minus that of the shown one, a learning row, with its error."""
    n = int(analysis.info["n_learning"])
    return row["loo_difference"] / n, row["loo_difference_se"] / n


def touched_by_alarm(row: pd.Series) -> bool:
    """Whether the evidence of this model raised an alarm."""
    return isinstance(row["evidence_alarm"], str) and bool(row["evidence_alarm"].strip())


def _unreliable(analysis: Analysis, row: pd.Series) -> bool:
    """Whether leave-one-out of this model or of the shown one is touched by a failed check."""
    return _doubtful(analysis, row) or _doubtful(analysis, analysis.shown)


def _doubtful(analysis: Analysis, row: pd.Series) -> bool:
    alarms = analysis.alarms
    of_draws = ~touches_evidence(alarms)
    return row["loo_bad_share"] > BAD_SHARE or bool(
        (alarms[of_draws]["model"] == row["name"]).any()
    )


def _by_leave_one_out(analysis: Analysis) -> list[Markup]:
    shown = analysis.shown
    ahead = (analysis.models["loo_difference"] > 0).any()
    n = int(analysis.info["n_learning"])
    opening = Markup(
        "When each of the {} to learn from is predicted from all the others, {}{} ({})"
    ).format(
        words.rows(n),
        html.bold(label(shown["name"])),
        " is shown" if ahead else " does best",
        _can_do(shown),
    )
    alike, unclear, leads = [], [], {"clear": [], "only just": [], "not resolved": []}
    for _, row in analysis.models.iloc[1:].iterrows():
        difference, error = loo_per_row(analysis, row)
        name = html.italic(label(row["name"]))
        if not math.isfinite(difference):
            continue
        state = words.resolution(difference, error)
        if _unreliable(analysis, row):
            unclear.append(Markup("{} ‡").format(name))
            continue
        if not abs(difference) > error:
            alike.append(name)
            continue
        size = words.more_text(abs(difference), error).lstrip("+")
        size = size if size.startswith("×") else f"{size}{words.SPACE}%"
        side = "behind" if difference > 0 else "ahead of"
        leads[state].append(Markup("{} {} {}").format(size, side, name))
    phrases = [
        html.naming("it cannot be told apart from {}", alike, "or"),
        *(html.naming(f"it is {{}}{_doubt(k, len(own))}", own) for k, own in leads.items()),
        html.naming("its comparison with {} is unclear", unclear),
    ]
    phrases = [phrase for phrase in phrases if phrase]
    if not phrases:
        return [opening + "."]
    return [opening + ": " + Markup("; ").join(phrases) + "."]


def _doubt(state: str, n: int) -> str:
    """How firm ``n`` differences are, after a comma: ``which may be chance``, ``both on weak evidence``."""
    all_of = {1: "", 2: "both "}.get(n, "all ")
    if state == "only just":
        return f", {all_of}on weak evidence"
    if state == "not resolved":
        return f", {all_of}{'of ' if all_of else ''}which may be chance"
    return ""


def _by_evidence(analysis: Analysis, others: pd.DataFrame) -> list[Markup]:
    """What the evidence of the first fits says of the shown model beside others."""
    shown = analysis.shown
    rows = [row for _, row in others.iterrows()]
    rows = [r for r in rows if math.isfinite(r["log_evidence"] - shown["log_evidence"])]
    if rows and touched_by_alarm(shown):
        text = "The evidence of {} raised an alarm, so it ranks no models."
        return [html.naming(text, html.names([shown["name"]]))]
    agree, hardly, against = [], [], []
    for row in rows:
        if touched_by_alarm(row):
            continue
        log_odds, error = _log_odds(analysis, row)
        name = html.italic(label(row["name"]))
        if abs(log_odds) < max(words.HARDLY, 2 * error):
            hardly.append(name)
        else:
            group = agree if log_odds > 0 else against
            group.append(Markup("{} ({})").format(name, words.odds_phrase(log_odds, error)))
    where = "" if are_averaged(others) else ", at each model’s best settings,"
    by_score = analysis.info.get("choice", {}).get("by") == "leave-one-out"
    decides = "; this page goes by leave-one-out" if by_score else ""
    return [
        html.naming("The evidence favours it over {}.", agree),
        html.naming(f"The evidence{where} prefers {{}}{decides}.", against),
        html.naming("The evidence hardly tells it from {}.", hardly),
    ]


def _log_odds(analysis: Analysis, row: pd.Series) -> tuple[float, float]:
    shown = analysis.shown
    errors = [
        0.0 if pd.isna(one["log_evidence_se"]) else one["log_evidence_se"] for one in (row, shown)
    ]
    return shown["log_evidence"] - row["log_evidence"], math.hypot(*errors)


def _loo_cell(analysis: Analysis, row: pd.Series) -> str:
    if row["name"] == analysis.info["shown"]:
        return "shown"
    difference, error = loo_per_row(analysis, row)
    if not math.isfinite(difference):
        return ""
    if _unreliable(analysis, row):
        return "unclear ‡"
    mark = " ¶" * (row["name"] in analysis.ruled_out)
    return words.more_text(-difference, error) + mark


def _odds_cell(analysis: Analysis, row: pd.Series) -> Markup | str:
    if row["name"] == analysis.info["shown"]:
        return ""
    log_odds, error = _log_odds(analysis, row)
    if not math.isfinite(log_odds):
        return ""
    if touched_by_alarm(row) or touched_by_alarm(analysis.shown):
        return "unclear §"
    return words.odds(log_odds, error)


def _notes(analysis: Analysis) -> list[Markup | str]:
    shown = label(analysis.shown["name"])
    how = "hyperparameters averaged over" if analysis.averaged else "at each model’s best settings"
    new = set(analysis.groups("held_out", False)) if not analysis.by_loo else ()
    other = [name for name in analysis.groups("left_out", True) if name in new]
    doubtful = [row["name"] for _, row in analysis.models.iterrows() if _doubtful(analysis, row)]
    out = analysis.models[analysis.models["name"].isin(analysis.ruled_out)]
    compared = [not _unreliable(analysis, row) for _, row in out.iterrows()]
    return [
        f"* How much more likely a row that was left out is under {shown} (leave-one-out, {how}), "
        "compared row by row, ± one standard error.",
        _left_out_by(analysis.shown),
        f"¶ By first fits of both this model and {shown}." * any(compared),
        html.naming(
            "Rows with the same {} as a row that is left out stay among those to learn from, unlike those of "
            "the rows held out.",
            *(other, "or"),
        ),
        html.naming(
            "‡ A check of {} failed, or its leave-one-out is unreliable for more than "
            f"{words.percent(BAD_SHARE)} of the rows (Pareto k above 0.7).",
            *(html.names(doubtful), "or"),
        ),
    ]


def _left_out_by(row: pd.Series) -> str:
    """How the latent value of a row was left out, where that is not in closed form."""
    by, apart = row.get("loo_by"), row.get("loo_ep_difference", math.nan)
    if by == "draws":
        nats = f"{apart:.2g} nats in a row, Monte Carlo error included"
        compared = f"; expectation propagation differs by up to {nats}" * math.isfinite(apart)
        return f"Rows are left out by weighting the draws of the latent values{compared}."
    method = {"EP": "EP, expectation propagation", "Laplace": "Laplace’s method"}.get(by)
    return f"Rows are left out by {method}, an approximation." if method else ""


def _notes_on_evidence(analysis: Analysis) -> list[Markup | str]:
    models, shown = analysis.models, label(analysis.shown["name"])
    how = "at its best settings"
    then = " It favours models with more settings somewhat, as it is not averaged over them."
    if are_averaged(models):
        how, then = "averaged over its settings as its priors weigh them", ""
    alarmed = [row["name"] for _, row in models.iterrows() if touched_by_alarm(row)]
    return [
        f"† For {shown} against the model. The evidence is the probability that a model, {how}, gave to all "
        f"{words.rows(int(analysis.info['n_learning']))} together before it saw any.{then}",
        html.naming(
            "§ The evidence of {} raised an alarm; its number is in the folded tables and should not be "
            "quoted.",
            html.names(alarmed),
        ),
    ]
