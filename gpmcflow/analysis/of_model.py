"""The report of a model made in Python: tables of an analysis from its draws or its fit, and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import gpmcflow
from gpmcflow.analysis import tables
from gpmcflow.analysis.baselines import separated
from gpmcflow.analysis.convergence import parameters
from gpmcflow.analysis.data import Data, Rows
from gpmcflow.analysis.effects import MOST_LEVELS, Effect, Sweep, effect, explained, sweeps
from gpmcflow.analysis.report import (
    can_do,
    checks,
    effect_tables,
    facts_of_target,
    facts_of_times,
    overall,
    write_page,
)
from gpmcflow.analysis.scores import LEAVE_ONE_OUT, Results, models_table
from gpmcflow.analysis.survival_curves import times_of
from gpmcflow.approximations.draws import evenly_spaced
from gpmcflow.approximations.integrated import IntegratedApproximation
from gpmcflow.approximations.stacking import leave_one_out
from gpmcflow.contrasts.average import N_DRAWS, Grid, average_draws, learning_frame
from gpmcflow.contrasts.explanations import thetas
from gpmcflow.contrasts.hyperparameters import prior_and_posterior
from gpmcflow.contrasts.latents import settings_of
from gpmcflow.covariances.expressions import short_text
from gpmcflow.data.codes import CategoryCode, Code, Encoding, GroupCode, NumberCode
from gpmcflow.data.column_uses import target_done
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.data.target import Target
from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest
from gpmcflow.likelihoods import Softmax, Survival
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

WHERE = "report"
NAME = "model"  # of the one model on the page
LEFT_OUT = "Left out, as this page is made from one model: {}."
_PARTS = ("rows held out", "predictions of new rows", "maps", "interactions")
_KINDS = {name: kind for kind in KINDS for name in KINDS[kind].likelihoods}
_SETTLE = {
    "leave-one-out": "look at the rows whose Pareto k in gp.leave_one_out(draws) is above 0.7",
    "settings": "sample the model: gp.sample(model)",
}


def write_model_report(
    draws: Any,
    folder: Path,
    *,
    title: str | None = None,
    model: GPModel | None = None,
    seed: int = 0,
) -> Path:
    """Write the tables and ``report.html`` of draws, or of an integrated fit, and return the page's path.

    Raises `InputError` for models that the page cannot show.
    """
    own = next(settings_of(WHERE, draws, model, 1)[1]).model
    data = data_of_model(own)
    sampled = isinstance(draws, xr.DataTree)
    if sampled:
        tree, after = _left_out(leave_one_out(draws, model=model)), parameters(draws)
    elif isinstance(draws, IntegratedApproximation):
        tree = _of_fit(draws, _left_out(leave_one_out(draws)))
        after = {name.replace("/", "_"): values for name, values in draws.parameters.items()}
    else:
        raise InputError(
            f"{WHERE}: found {type(draws).__name__}; allowed: draws of gp.sample(model), or "
            "gp.approximate(model, integrated=True)"
        )
    first = own.parts[0] if isinstance(own, MultiGPModel) else own
    law = own.likelihood.law if isinstance(own.likelihood, Survival) else own.likelihood.name
    both = (draws, tree) if sampled else ()
    results = {NAME: Results(short_text(first.covariance), law, np.nan, tree, *both)}
    words = can_do(first.covariance, data.encoding.explaining)
    models = models_table(data, results, {NAME: words}, NAME)
    effects, answer = _effects(draws, data, model, own, seed)
    made = {
        "models": models,
        "checks": _checks(models),
        "columns": _columns(data),
        "rows": pd.DataFrame({"row": data.learning.row, "use": "learning"}),
        **effect_tables(answer, effects, data),
    }
    if own.dim:
        table = prior_and_posterior(own, after)
        table.insert(0, "model", NAME)
        made["hyperparameters"] = table
    if data.target.kind == "binary":
        made["predictions_loo"] = tables.predictions_loo(tree, data)
    facts = _facts(data, own, title, quick=not sampled, seed=seed) | facts_of_times(data, law)
    write_page(folder, made, facts)
    return folder / "report.html"


def _effects(
    draws: Any, data: Data, model: GPModel | None, own: GPModel, seed: int
) -> tuple[dict[str, tuple[Sweep, Effect]], xr.DataTree]:
    """The effect of each column, the largest first; of levels the probability of each, of times survival, as
    `describe` has them."""
    kind = data.target.kind
    response, found, groups, kept = _response(data), {}, {}, []
    for sweep in sweeps(data, np.random.default_rng(seed)):
        grid = Grid(
            sweep.column, np.array(sweep.values), sweep.kind != "category", sweep.kind == "date"
        )
        averages, _, _ = average_draws(
            draws, lambda *_, g=grid: [g], response=response, model=model, seed=seed
        )
        if response is not None:
            averages, beside = averages[..., 0], averages[..., 1:].mean(0).T
            name = "survival" if kind == "survival" else "grades"
            variable, axis = ("longer", "time") if name == "survival" else ("probability", "grade")
            coords = times_of(data) if name == "survival" else list(data.target.levels)
            of_values = {variable: ((axis, "value"), beside)}
            groups[f"{name}/{sweep.key}"] = xr.Dataset(of_values, {axis: coords})
        if kind == "survival":
            averages = np.exp(averages)
        found[sweep.column] = (sweep, effect(sweep, averages, kind))
        kept.append((sweep, averages))
    if "modes" in getattr(draws, "children", ()):
        groups |= explained(own, draws, thetas(evenly_spaced(draws, N_DRAWS)), kept)
    return tables.by_size(found, kind), xr.DataTree.from_dict(groups)


def _response(data: Data) -> Callable[[Any, np.ndarray], np.ndarray] | None:
    """What the page reports of draws of eta (draw, .., m), (draw, m, 1 + more); None for the mean response.

    Of grades the probability of the upper ones, of classes that of the one shown, and then that of each; of
    times the log of the median, and the shares that last longer than `times_of`.
    """
    target = data.target

    def of_levels(likelihood: Any, eta: np.ndarray) -> np.ndarray:
        each = likelihood.class_probabilities(eta, np.zeros_like(eta))
        shown = (
            each[target.split - 1 :].sum(0) if target.kind == "grades" else each[target.split - 1]
        )
        return np.moveaxis(np.concatenate([shown[None], each]), 0, -1)

    def of_times(likelihood: Any, eta: np.ndarray) -> np.ndarray:
        longer = np.exp(likelihood.log_survival(eta[..., None], times_of(data)))
        return np.concatenate([np.log(likelihood.conditional_median(eta))[..., None], longer], -1)

    if target.kind == "survival":
        return of_times
    return of_levels if target.own.leveled else None


def data_of_model(model: GPModel | MultiGPModel) -> Data:
    """Inputs and outcomes of a model as those of an analysis, whose inputs are standardised."""
    several = isinstance(model, MultiGPModel)
    if several and not isinstance(model.likelihood, Softmax):
        raise InputError(
            f"{WHERE}: the {model.likelihood.name} likelihood has several latent functions; allowed: "
            "softmax, or a model of one"
        )
    kind = _KINDS.get(model.likelihood.name)
    if kind is None:
        raise InputError(
            f"{WHERE}: the likelihood is {model.likelihood.name}; allowed: {', '.join(_KINDS)}"
        )
    frame = learning_frame(model)
    codes = tuple(_code(model, frame[name]) for name in frame)
    X = pd.DataFrame({n: v for code in codes for n, v in _inputs(code, frame[code.column]).items()})
    unit, unit_name, until = None, KINDS[kind].unit, getattr(model.likelihood, "until", None)
    if unit_name is not None:
        stated = getattr(model.likelihood, unit_name)
        stated = np.asarray(1.0 if stated is None else stated, dtype=float)  # no event: all ended
        if unit_name in ("trials", "event") or (stated != 1.0).any():
            unit = np.broadcast_to(stated, model.y.shape).astype(float)
    outcome = (model.y > 0.0).astype(float) if kind == "binary" else model.y.astype(float)
    name, labels = ("y", ()) if model.outcome is None else model.outcome
    negative, positive = labels or (("-1", "1") if kind == "binary" else (None, None))
    target = Target(name, kind, positive, negative, unit=unit_name if unit is not None else None)
    if kind == "survival":
        ends = {} if until is None else {"unit": "until", "until": True}
        target = replace(target, positive="1", negative="0", **ends)
    elif target.own.leveled:
        target = replace(target, levels=_levels(model.likelihood)).standardised_by(outcome)
    row = np.arange(1, len(outcome) + 1)
    return Data(Encoding(target, codes), Rows(row, X, model.y, outcome, unit, until), None, None)


def _levels(likelihood: Any) -> tuple[str, ...]:
    """Names of grades or classes; their numbers where they have none."""
    names = likelihood.levels
    return tuple(map(str, names if isinstance(names, tuple) else range(1, likelihood.n_levels + 1)))


def _code(model: GPModel | MultiGPModel, column: pd.Series) -> Code:
    name = str(column.name)
    if name in model.inputs.levels:
        counts = Counter(column)
        levels = tuple(str(level) for level, _ in counts.most_common())
        if len(levels) > MOST_LEVELS:
            return GroupCode(name, levels, len(levels))
        return CategoryCode(name, levels, tuple(counts[level] / len(column) for level in levels))
    values, is_date = column.to_numpy(dtype=float), name in model.inputs.dates
    mean, sd, median = values.mean(), float(values.std()) or 1.0, float(np.median(values))
    kind, form = ("date", "%Y-%m-%d") if is_date else ("number", None)
    ends = float(values.min()), float(values.max())
    return NumberCode(name, kind, float(mean), sd, median, *ends, date_format=form)


def _inputs(code: Code, column: pd.Series) -> dict[str, np.ndarray]:
    if isinstance(code, CategoryCode):
        shown = zip(code.inputs, code.shown_levels, strict=True)
        return {name: (column == level).to_numpy(dtype=float) for name, level in shown}
    if isinstance(code, GroupCode):
        places = {level: place for place, level in enumerate(code.levels)}
        return {code.column: column.map(places).to_numpy(dtype=float)}
    return {code.column: (column.to_numpy(dtype=float) - code.mean) / code.scale}


def _left_out(scores: xr.Dataset) -> xr.DataTree:
    """Results as an analysis has them: leave-one-out, and no evidence."""
    loo = xr.Dataset(
        {"log_density": scores["elpd"], "pareto_k": scores["pareto_k"]},
        attrs={name: scores.attrs[name] for name in ("by", "ep_difference")},
    )
    none = xr.Dataset({"log_evidence": np.nan, "standard_error": np.nan}, attrs={"alarm": ""})
    return xr.DataTree.from_dict({"leave_one_out": loo, "evidence": none})


def _of_fit(fit: IntegratedApproximation, tree: xr.DataTree) -> xr.DataTree:
    """With the evidence of a fit, and the settings that it averages over."""
    evidence = {"log_evidence": fit.log_evidence, "standard_error": fit.standard_error}
    names = ("effective_size", "pareto_k", "ep_error")
    settings = {name: getattr(fit, name) for name in names}
    coords = {"setting": np.arange(len(fit.theta))}
    tree["evidence"] = xr.DataTree(xr.Dataset(evidence, attrs={"alarm": ""}))
    tree["settings"] = xr.DataTree(xr.Dataset(settings, coords))
    return tree


def _checks(models: pd.DataFrame) -> pd.DataFrame:
    """What was checked, and what to do in Python where it failed."""
    table = checks(models, NAME, "")
    table = table[np.isfinite(table["worst"].astype(float))].reset_index(drop=True)
    more = "take twice as many draws, n_draws= of gp.sample"
    settle = [
        next((text for start, text in _SETTLE.items() if check.startswith(start)), more)
        for check in table["check"]
    ]
    return table.assign(settle=settle)


def _columns(data: Data) -> pd.DataFrame:
    target, rows = data.target, []
    for code in data.encoding.codes:
        found, done = code.kind, "as it is"
        if not isinstance(code, NumberCode):
            found, done = f"{len(code.levels)} {code.kind}s".replace("ys", "ies"), "words"
        rows.append((code.column, found, done))
    rows.append((target.name, target.own.words.split(";")[0], target_done(target)))
    return pd.DataFrame(rows, columns=["column", "found", "done"])


def _facts(
    data: Data, model: GPModel | MultiGPModel, title: str | None, *, quick: bool, seed: int
) -> dict[str, Any]:
    target, learning, n = data.target, data.learning, len(data.learning.row)
    of_all = overall(data)
    if target.own.scaling == "geometric":
        of_all["base"] = float(np.exp(np.log(learning.outcome).mean()))
    return {
        **{"title": title, "name": NAME, "csv": "a frame", "new_csv": None, "new_checksum": None},
        **{"version": gpmcflow.__version__, "quick": quick, "share": False, "units": {}},
        "target": facts_of_target(target, {}),
        **{"coordinates": [], "n_rows": n, "n_learning": n, "n_used": n, "n_test": 0},
        **{"uses": {"learning": n}, "separated": separated(data), **of_all},
        **{"score_by": LEAVE_ONE_OUT, "groups": [], "ids": [], "leak": None, "season": None},
        **{"left_over": None, "checksum": array_digest({"X": model.X, "y": model.y}), "seed": seed},
        **{"seconds": 0.0, "shown": NAME, "shown_columns": [], "map_average": None, "yaml": None},
        **{
            "made_of": {},
            "left_out": LEFT_OUT.format(", ".join([*_PARTS, *["evidence"] * (not quick)])),
        },
    }
