"""Tables, figures and the page of an analysis, and the checks that it reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import yaml

import gpmcflow
from gpmcflow.analysis import tables
from gpmcflow.analysis.areas import area_table, outline_table
from gpmcflow.analysis.baselines import baselines, separated
from gpmcflow.analysis.choice import BAD_SHARE, RULED_OUT
from gpmcflow.analysis.coefficients import coefficient_table, straight_chances
from gpmcflow.analysis.convergence import FEWEST_EFFECTIVE, NOT_ANNEALED, convergence
from gpmcflow.analysis.data import Data, beside_predictions, data_of
from gpmcflow.analysis.effects import Effect, Sweep
from gpmcflow.analysis.evidence_tables import evidence_table, ladder_table
from gpmcflow.analysis.fitting import ALL_ROWS
from gpmcflow.analysis.interactions import interaction_tables
from gpmcflow.analysis.models import build_model, known_of, model_statement
from gpmcflow.analysis.page.page import build_page
from gpmcflow.analysis.scores import LEAVE_ONE_OUT, Results, choice_of, models_table, score_kind
from gpmcflow.analysis.seasons import named_season, season_of
from gpmcflow.analysis.study import OPTIONAL_TABLES, final_kinds, kinds_of, made_of
from gpmcflow.analysis.summaries import Places
from gpmcflow.analysis.survival_curves import curves_of
from gpmcflow.analysis.together import together_table
from gpmcflow.approximations.integrated import FEWEST
from gpmcflow.certificate.quick_answers import quick_answers_in_words
from gpmcflow.contrasts.explanations import explanation_table
from gpmcflow.covariances.expressions import Covariance
from gpmcflow.data.seasons import find_season
from gpmcflow.data.target import Target
from gpmcflow.data.times import counts_of
from gpmcflow.diagnostics.convergence import LEAST
from gpmcflow.diagnostics.importance_weights import BAD_K
from gpmcflow.execution import chain_generators
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.stated_models import MEAN, covariance_text, covariances_of, likelihood_of
from gpmcflow.likelihoods import Survival
from gpmcflow.storage import (
    load_results,
    read_csv,
    read_sidecar,
    remove,
    write_csv,
    write_result_text,
)
from gpmcflow.storage.input_files import user_path

# What was checked of each model of an analysis: `checks.csv`.

LARGEST_EVIDENCE_ERROR = 0.5  # nats
COLUMNS = ("check", "model", "limit", "worst", "alarm", "reason", "touches", "settle")


def checks(
    models: pd.DataFrame,
    shown: str,
    again: str,
    evidence: pd.DataFrame | None = None,
    final: xr.DataTree | None = None,
) -> pd.DataFrame:
    """What was checked of each model, the limit, the worst value, and what to do where it failed.

    ``final`` are the draws of the shown one given all rows, if there are any.
    ``again`` is the command that runs the analysis, ``evidence`` its `evidence_table` if it has one: rows of
    it begin with "evidence" and touch nothing but the order of the models.
    """
    rows = []
    for row in models[models["role"] == "model"].to_dict("records"):
        name, own = row["name"], []
        if np.isfinite(row.get("r_hat", np.nan)):
            more = _longer(row["chains"], row["draws"], again)
            own += _of_draws(row, more)
            if final and name == shown:
                own += _of_draws(convergence(final), more, ", all rows")
            check, bad = (
                "leave-one-out, share of rows with Pareto k above 0.7",
                row["loo_bad_share"],
            )
            settle = "judge by the held-out rows instead"
            own.append((check, BAD_SHARE, bad, bad > BAD_SHARE, settle))
        if np.isfinite(row.get("settings", np.nan)):
            own += _of_settings(row, again)
        touches = "what is shown" if name == shown else f"the comparison with {name}"
        rows += [_row(name, touches, each) for each in own]
        if row.get("ruled_out", False):
            of_evidence = []
        elif evidence is None:
            of_evidence = _of_quick_evidence(row, again)
        else:
            of_evidence = [_averaged(evidence.set_index("model").loc[name], again)]
        rows += [_row(name, "only its place by the evidence", each) for each in of_evidence]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _longer(chains: float, draws: float, again: str) -> str:
    """What to write for twice as many draws as were made."""
    settings = f"sampling: {{chains: {chains:.0f}, draws: {2 * draws:.0f}}}"
    return f"write the line {settings} into the config, then: {again}"


def _of_draws(row: Mapping[str, Any], more: str, of: str = "") -> list[tuple]:
    """R-hat, and the smallest effective size."""
    fewest, limit = min(row["ess_bulk"], row["ess_tail"]), row.get("r_hat_limit", LEAST)
    limit = np.nan_to_num(limit, nan=LEAST)
    return [
        (f"R-hat{of}", limit, row["r_hat"], row["r_hat"] > limit, more),
        (f"effective draws{of}", FEWEST_EFFECTIVE, fewest, fewest < FEWEST_EFFECTIVE, more),
    ]


def _of_settings(row: Mapping[str, Any], again: str) -> list[tuple]:
    """Whether the settings of a quick fit stand for the posterior of the hyperparameters."""
    k, size = row["settings_k"], row["settings_effective"]
    enough = ("effective settings", FEWEST, size, size < FEWEST, again)
    if size < FEWEST:  # then their weights have a heavy tail, too
        return [enough]
    return [enough, ("settings, Pareto k", BAD_K, k, k > BAD_K, again)]


def _row(model: str, touches: str, each: tuple) -> dict[str, Any]:
    names = ("check", "limit", "worst", "alarm", "settle", "reason")
    return {"model": model, "touches": touches, **dict(zip(names, each, strict=False))}


def _of_quick_evidence(row: dict[str, Any], again: str) -> list[tuple]:
    if str(row["evidence_alarm"]).startswith(NOT_ANNEALED):  # which the comparison says
        return []
    longer = f"write the line evidence: {{temperatures: 200}} into the config, then: {again}"
    if np.isfinite(row.get("settings", np.nan)):  # averaged: a full run has more draws
        longer = again
    error, limit, alarm = row["log_evidence_se"], LARGEST_EVIDENCE_ERROR, row["evidence_alarm"]
    size = ("evidence, standard error", limit, error, error > limit, longer)
    return [size, _doubts(alarm, longer)] if alarm else [size]


def _doubts(alarm: str, settle: str) -> tuple:
    """The alarms of an evidence, which name themselves."""
    n = len(alarm.split("; ")) if alarm else 0
    return ("evidence, alarms", 0, n, n > 0, settle if n else "", alarm)


def _averaged(row: pd.Series, again: str) -> tuple:
    return _doubts(row["alarm"], f"write the line {row['settle']} into the config, then: {again}")


# The last step of an analysis: its tables, `info.json` and the page made of them.

N_SHOWN_COLUMNS = 4  # input columns beside predictions on the page


def read_results(folder: Path, settings: Mapping, data: Data) -> dict[str, Results]:
    """What the jobs of each model left in the folder of an analysis."""
    results = {}
    for model in settings["models"]:
        paths = {kind: Path(folder, model, f"{kind}.nc") for kind in kinds_of(settings)}
        trees = {kind: load_results(path) for kind, path in paths.items()}
        seconds = sum(read_sidecar(path).get("job_seconds", 0.0) for path in paths.values())
        statement = model_statement(settings, model, data.target.kind)
        stated = likelihood_of(statement, f"models.{model}")
        likelihood = stated.law if isinstance(stated, Survival) else stated.name
        texts = covariance_text(statement["covariance"])
        if out := any(RULED_OUT in tree.attrs for tree in trees.values()):
            trees = {"fit": trees["fit"]}
        rest = (trees.get(kind) for kind in ("posterior", "summary", "evidence"))
        results[model] = Results(texts, likelihood, seconds, trees["fit"], *rest, ruled_out=out)
    return results


def report(job: Job) -> None:
    """Tables, predictions and the page of an analysis."""
    write_result_text(yaml.safe_dump(job.settings, sort_keys=False), job.output.config)
    folder, config = Path(job.output.report).parent, job.config["config_file"]
    write_report(folder, job.wildcards.analysis, job.settings, seed=job.seed, config=config)


def write_report(
    folder: str | Path, name: str, settings: Mapping, *, seed: int, config: str
) -> None:
    """Write the tables, `info.json` and `report.html` of an analysis into its folder.

    ``config`` is the name of the file that the analysis stands in, for the commands that run it again.
    Raises `StorageError` for a results file that is missing or damaged.
    """
    folder = Path(folder)
    stored = load_results(folder / "data.nc")
    data = data_of(stored)
    results = read_results(folder, settings, data)
    choice = choice_of(results)
    shown = choice.name
    own, key = results[shown].shown, (name, shown)
    answer, whole, finals = own, data, final_kinds(settings)
    if finals:  # all that the page answers is of the fit to all rows
        answer, whole, key = load_results(folder / "final.nc"), data.whole(), (*key, ALL_ROWS)
    rng = chain_generators(seed, *key, "quick", chains=range(1)).generator(0)
    built = {m: build_model(settings, m, data, name) for m in results}
    season = season_of(built[shown], whole)
    places = Places.of(whole, rng, season)
    effects = tables.effects_of(answer, list(places.swept), data.target.kind)
    words, told = {}, {m: model_statement(settings, m, data.target.kind) for m in results}
    for m, stated in told.items():
        each = covariances_of(stated, m, likelihood_of(stated, m), known_of(data.encoding))
        parts = {name: can_do(part, data.encoding.explaining) for name, part in each.items()}
        varying = [f"{NOUNS.get(f, f)} that varies ({parts[f]})" for f in parts if f != MEAN]
        words[m] = "; ".join([parts[MEAN], *varying])
    models = models_table(data, results, words, shown)
    again = f"gpmcflow run {config}"
    made: dict[str, pd.DataFrame] = {
        "models": models,
        "hyperparameters": tables.hyperparameters(built, results, data.encoding),
        **effect_tables(answer, effects, whole),
    }
    made["relevance"]["straight"] = straight_chances(
        [results[m].fit for m in _near(models, shown) if "coefficients" in results[m].fit],
        made["relevance"]["column"],
    )
    written = {s.column: partial(tables.value_text, whole, s.column) for s in places.swept}
    made |= interaction_tables(answer, places.swept, whole, written)
    if len(sets := together_table(answer, data.target.kind)):
        made["together"] = sets
    evidences = {name: model.evidence for name, model in results.items() if model.evidence}
    if evidences:
        made["evidence"] = evidence_table(evidences, settings)
        ladders = ladder_table(evidences)
        made |= {"ladder": ladders} if len(ladders) else {}
    drawn = load_results(folder / "final_posterior.nc") if "final_posterior" in finals else None
    made["checks"] = checks(models, shown, again, made.get("evidence"), drawn)
    if data.held_out is not None:
        made["predictions_test"] = tables.predictions_test(own, data)
    if score_kind(data) == LEAVE_ONE_OUT and data.target.kind == "binary":
        made["predictions_loo"] = tables.predictions_loo(own, data)
    if data.new is not None:
        cells = read_csv(folder / "new_rows.csv", dtype=str, na_values=[])
        made["predictions_new"] = tables.predictions_new(answer["new"].to_dataset(), data, cells)
    if places.grid is not None:
        made |= tables.grid(answer, places.grid, whole)
    if places.cells is not None:
        made["map"] = tables.averaged_map(answer, places.cells, whole)
    if data.encoding.coordinates:
        made["points"], made["reach"] = tables.points(whole), tables.reach(answer)
    if "coefficients" in answer:
        made["coefficients"] = coefficient_table(answer, whole)
    if "areas" in answer:
        made["areas"], outlines = area_table(answer), outline_table(whole)
        made |= {"outlines": outlines} if len(outlines) else {}
    seconds = sum(result.seconds for result in results.values())
    seconds += sum(read_sidecar(folder / f"{k}.nc").get("job_seconds", 0.0) for k in finals)
    kept = [f"{m}/{k}.nc" for m in results for k in kinds_of(settings)]
    kept += [f"{k}.nc" for k in finals]
    leak = stored.attrs["leak"]
    facts = _facts(settings, data, whole, folder) | {
        "name": name,
        "leak": {"column": leak, "in_order": bool(stored.attrs["leak_in_order"])} if leak else None,
        "season": season,
        "left_over": left_over(answer, whole),
        "checksum": (checksum := stored.attrs["data_checksum"]),
        "certified": quick_answers_in_words(folder / "certificate.csv", checksum, told[shown]),
        "seed": seed,
        "seconds": seconds,
        "shown": shown,
        "choice": choice._asdict(),
        "shown_columns": [*map(beside_predictions, _first(effects, data))][:N_SHOWN_COLUMNS],
        "map_average": tables.map_average(made["map"], made["points"]) if "map" in made else None,
        **facts_of_times(whole, results[shown].likelihood),
        "yaml": config,
        "made_of": made_of(folder, kept),
    }
    write_page(folder, made, facts)


def _near(models: pd.DataFrame, shown: str) -> list[str]:
    """Other models that are not a twentieth as probable as the shown one."""
    own = models[models["role"] == "model"].set_index("name")["log_evidence"].drop(shown)
    least = models.set_index("name")["log_evidence"][shown] - np.log(20.0)
    return list(own.index[own > least])


def effect_tables(
    answer: xr.DataTree, effects: Mapping[str, tuple[Sweep, Effect]], data: Data
) -> dict[str, pd.DataFrame]:
    """Tables of the effects of columns; of levels the probability of each, of times survival, and the curves
    of several explanations, too."""
    relevance = tables.relevance(effects, data)
    shown = tables.of_columns(effects)[: tables.N_CURVES]
    made = {"effects": tables.curves(effects, data), "rug": tables.rug(shown, data)}
    if data.target.own.leveled:
        made["grades"] = tables.grade_bands(answer, effects, data)
    if data.target.kind == "survival":
        ends = relevance.set_index("column")[["low", "high"]].T.to_dict("list")
        if (longer := curves_of(answer, effects, ends, data)) is not None:
            made["survival"] = longer
    if "explanations" in answer:
        texts = {
            sweep.key: (column, [tables.value_text(data, column, value) for value in sweep.values])
            for column, (sweep, _) in effects.items()
        }
        made["explanations"] = explanation_table(answer["explanations"], texts)
    return made | {"relevance": relevance}


def write_page(folder: Path, made: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> None:
    """Write tables, `info.json` and the page that is made of them."""
    stale = set(OPTIONAL_TABLES) - set(made)  # of an earlier page of another outcome, or settings
    for name in stale:
        remove(folder / f"{name}.csv")
    for name, table in made.items():
        write_csv(table, folder / f"{name}.csv")
    write_result_text(json.dumps(facts, indent=1), folder / "info.json")
    write_result_text(build_page(folder, facts), folder / "report.html")


def facts_of_times(whole: Data, likelihood: str) -> dict[str, Any]:
    """Of times to an end: how many are known how, and the median time of all rows."""
    if whole.target.kind != "survival":
        return {}
    base = next(b for b in baselines(whole, whole.learning, likelihood) if b.role == "base")
    return {"times": counts_of(*whole.learning.ends), "base": float(base.mean[0])}


def _first(effects: Mapping, data: Data) -> list[str]:
    """Columns by the size of their effects, the place as its coordinates."""
    places = list(data.encoding.coordinates)
    kinds = {name: sweep.kind for name, (sweep, _) in effects.items()}
    return [c for name, kind in kinds.items() for c in (places if kind == "place" else [name])]


def overall(data: Data) -> dict[str, Any]:
    """Base, the average outcome of the learning rows, and the usual level, None where there are none."""
    target, learning = data.target, data.learning
    seen, usual = learning.outcome, None
    base = float(seen.sum() / learning.effort(target.kind).sum())
    if target.own.leveled:
        of_class = target.kind == "classes"
        base = float((seen == target.split if of_class else seen >= target.split).mean())
        usual = target.levels[int(np.bincount(seen.astype(int)).argmax()) - 1]
    return {"base": base, "usual": usual}


def facts_of_target(target: Target, units: Mapping[str, str]) -> dict[str, Any]:
    """Name and coding of the outcome, and the unit of the column beside it."""
    names = ("name", "kind", "positive", "negative", "unit", "log_unit", "until", "levels", "split")
    return {n: getattr(target, n) for n in names} | {"unit_text": units.get(target.unit)}


def _facts(settings: Mapping, data: Data, whole: Data, folder: Path) -> dict[str, Any]:
    """What the page says of settings and data beside the tables."""
    target, of_data, learning = data.target, settings["data"], whole.learning
    rows = read_csv(folder / "rows.csv")
    new_csv, read = of_data.get("new"), read_sidecar(folder / "data.nc").get("made_of", {})
    return {
        "title": settings["title"],
        "csv": Path(of_data.get("csv") or f"{of_data['table']}.csv").name,
        "new_csv": None if new_csv is None else Path(new_csv).name,
        "new_checksum": None if new_csv is None else read.get(str(user_path(new_csv))),
        "version": gpmcflow.__version__,
        "quick": bool(settings["quick"]),
        "share": bool(settings["share"]),
        "target": facts_of_target(target, settings["units"]),
        "weights": settings["data"].get("weights"),
        "units": dict(settings["units"]),
        "coordinates": list(data.encoding.coordinates),
        "n_rows": len(rows),
        "n_learning": len(data.learning.row),
        "n_used": len(learning.row),
        "n_test": 0 if data.held_out is None else len(data.held_out.row),
        "uses": {str(use): int(n) for use, n in rows["use"].value_counts(sort=False).items()},
        **overall(whole),
        "separated": separated(whole),
        "score_by": score_kind(data),
        "groups": groups_scored(data),
        "ids": [beside_predictions(name) for name in data.encoding.ids],
    }


def groups_scored(data: Data) -> list[dict[str, Any]]:
    """Whether rows held out, and rows left out, have others of their group to learn from, for each column."""
    found = []
    for column in data.encoding.groups:
        (name,) = data.encoding.inputs_of(column)
        levels = data.learning.X[name]
        held_out = () if data.held_out is None else data.held_out.X[name]
        known, repeated = bool(set(held_out) & set(levels)), bool(levels.duplicated().any())
        found.append({"name": column, "held_out": known, "left_out": repeated})
    return found


def left_over(answer: xr.DataTree, data: Data) -> dict[str, Any] | None:
    """The season of what the shown model leaves unexplained, as `season_of`; None if nothing repeats."""
    if "fitted" not in answer:
        return None
    mean, outcome = answer["fitted/mean"].values, data.learning.outcome
    rest = outcome - mean
    if data.target.kind == "positive":
        rest = np.log(outcome / mean)
    elif data.target.kind != "real":
        rest = rest / np.sqrt(np.maximum(mean, 1e-6))
    for column in data.encoding.times:
        values = data.encoding.natural(column, data.learning.X[column].to_numpy())
        code = data.encoding.code(column)
        if season := find_season(values + code.origin, rest, is_date=code.kind == "date"):
            return named_season(data, column, season.period)
    return None


NOUNS = {"log_sd": "noise", "noise_sd": "noise", "df": "heaviness of tails"}  # of functions
CAN_DO = {
    "linear": "straight lines",
    "polynomial": "curves of a fixed form",
    "squared_exponential": "smooth curves",
    "rational_quadratic": "smooth curves",
    "matern52": "curves",
    "matern32": "curves that may bend sharply",
    "matern12": "rough curves",
    "periodic": "repeating curves",
    "group": "a level of its own for each group",
    "areal": "levels of areas that resemble their neighbours",
    "wiener": "a random walk",
    "integrated_wiener": "a smoothing spline",
    "ar1": "deviations that fade",
}


def can_do(covariance: Covariance, columns: Sequence[str]) -> str:
    """What a model of the columns can describe, in words."""
    phrases: dict[str, None] = {}
    for leaf in covariance.leaves():
        if leaf.term not in CAN_DO:
            continue
        where = ""
        if len(leaf.columns or columns) > 1:
            scales = getattr(leaf, leaf.scales or "", None)
            if getattr(leaf, "ard", False) or isinstance(scales, tuple):
                where = ", own weight for each column"
            elif leaf.columns is None and leaf.term != "linear":
                where = ", all columns alike"
        phrases[CAN_DO[leaf.term] + where] = None
    *first, last = phrases or ["one level"]
    comma = "," * (len(first) > 1 or "," in "".join(phrases))
    return ", ".join(first) + f"{comma} and " * bool(first) + last
