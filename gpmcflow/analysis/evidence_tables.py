"""Evidence of the models of an analysis: averaged over their hyperparameters, and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.mixture import has_normal_coordinates
from gpmcflow.diagnostics.importance_weights import BAD_K
from gpmcflow.evidence.alarms import MAX_BRIDGE_VARIANCE
from gpmcflow.evidence.mixture_evidence import weights_of_proposals
from gpmcflow.evidence.model_comparison import compare_models
from gpmcflow.evidence.model_evidence import model_evidence
from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel

# The evidence of a model averaged over its hyperparameters, from the posterior draws of an analysis.

LOG_DENSITIES = {  # of the outcomes, by group
    "evidence": ("log_evidence", "interval_low", "interval_high", "replicate_log_evidence", "fit"),
    "sample_stats": ("log_ratio", "sum_log_likelihood"),
    "reference": ("log_ratio",),
    "tempered": ("log_ratio",),
}


MIXTURE_GROWTH = 4  # times as many draws of a mixture, if too few, before a bridge is tried


def evidence_of(
    model: GPModel,
    draws: xr.DataTree,
    settings: Mapping,
    *,
    log_units: float,
    seed: int,
    key: tuple,
    execution: Execution | None = None,
) -> xr.DataTree:
    """`model_evidence` of a model from its draws, log densities in nats of outcomes in natural units.

    Observations and log likelihoods by case, all of standardised outcomes, stand beside the draws themselves.

    Draws of a regression lend a density to sample from; they are bridged only where its weights raise an
    alarm. Of others those of `PseudoMarginalIndependence` hold weights whose mean is the evidence; those of
    `JointSplitHMC` and `PseudoMarginalHMC` bring a pilot along, and a bridge costs values of the density
    alone. ``log_units`` is the sum of `Rows.log_units`.
    """
    first = settings["route"]
    lent = model.likelihood.conjugate and has_normal_coordinates(model)
    if first == "two_ended" and (lent or weights_of_proposals(draws) is not None):
        first = "mixture"
    for route in dict.fromkeys((first, settings["route"])):
        tree = model_evidence(
            model,
            draws=draws,
            route=route,
            n_draws=settings["draws"] * (MIXTURE_GROWTH if route == "mixture" else 1),
            target_error=settings["target_error"],
            predictive=False,
            seed=seed,
            key=key,
            execution=execution,
        )
        if not str(evidence_row(tree)["alarm"].values):
            break
    for name in LOG_DENSITIES.keys() & tree.children.keys():
        group = tree[name].to_dataset()
        held = [each for each in LOG_DENSITIES[name] if each in group]
        natural = {each: group[each] - log_units for each in held}
        tree[name] = xr.DataTree(group.assign(natural))
    return tree.drop_nodes("observed_data")


# Evidences averaged over the hyperparameters as tables: `evidence.csv`, and `ladder.csv` of ladders.

ROUGH = "rough"  # verdict of an evidence that raised an alarm, of which no order is claimed
COLUMNS = (
    "model", "log_evidence", "standard_error", "fit", "complexity", "log_bayes_factor", "bayes_factor_error",
    "probability", "low", "high", "verdict", "route", "effective_size", "overlap", "pareto_k", "alarm",
    "settle",
)  # fmt: skip
OWN = ("log_evidence", "standard_error", "fit", "complexity")
HOW = ("effective_size", "overlap", "pareto_k")


def evidence_row(tree: xr.DataTree) -> xr.Dataset:
    """Group evidence of `model_evidence`, by the estimator that is its result."""
    return tree["evidence"].to_dataset().isel(estimator=0)


def evidence_table(trees: Mapping[str, xr.DataTree], settings: Mapping) -> pd.DataFrame:
    """A row a model, the best first, as `compare_models` has them; then the rough ones, which it leaves out.

    A rough evidence, one with an alarm, has no probability and no verdict but that; ``settle`` is what to
    write into the config for a better one. ``settings`` are those of the analysis.
    """
    own = {name: evidence_row(tree) for name, tree in trees.items()}
    sound = {name: tree for name, tree in trees.items() if not str(own[name]["alarm"].values)}
    compared = compare_models(sound) if len(sound) > 1 else pd.DataFrame(index=list(sound))
    order = [*compared.index, *(name for name in trees if name not in sound)]
    rows = []
    for name in order:
        group, row = own[name], {"model": name}
        row |= {column: float(group[column]) for column in (*OWN, *HOW)}
        row |= compared.loc[name].to_dict() if name in compared.index else {}
        row |= {"route": group.attrs["route"], "alarm": str(group["alarm"].values)}
        if name not in sound:
            row |= {"verdict": ROUGH, "settle": _settle(group, settings["evidence"])}
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _settle(group: xr.Dataset, settings: Mapping) -> str:
    """A ladder where two ends overlap too little, else more draws."""
    poor = float(group["overlap"]) > MAX_BRIDGE_VARIANCE or float(group["pareto_k"]) > BAD_K
    if poor and group.attrs["route"] == "two_ended":
        return "evidence: {route: auto}"
    return f"evidence: {{route: {settings['route']}, draws: {2 * settings['draws']}}}"


def ladder_table(trees: Mapping[str, xr.DataTree]) -> pd.DataFrame:
    """Mean and standard deviation of u along each ladder, and at the draws of both its ends.

    ``of`` says of which draws: "ladder", or "reference" and "posterior", those that a bridge would join.
    """
    rows: list[dict[str, Any]] = []
    for name, tree in trees.items():
        if "tempered" not in tree.children:
            continue
        tempered = tree["tempered"].to_dataset()
        u = tempered["log_ratio"].transpose("temperature", "chain", "draw").values
        for beta, values in zip(tempered["beta"].values, u, strict=True):
            rows.append(_at(name, "ladder", beta, values))
        rows.append(_at(name, "reference", 0.0, tree["reference/log_ratio"].values))
        rows.append(_at(name, "posterior", 1.0, tree["sample_stats/log_ratio"].values))
    return pd.DataFrame(rows, columns=["model", "of", "beta", "mean", "sd"])


def _at(model: str, of: str, beta: float, u: np.ndarray) -> dict[str, Any]:
    finite = u[np.isfinite(u)]
    return {"model": model, "of": of, "beta": beta, "mean": finite.mean(), "sd": finite.std()}
