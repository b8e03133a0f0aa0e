"""The evidence of a model averaged over its hyperparameters, from the posterior draws of an analysis."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from gpmcflow.evidence.model_evidence import model_evidence
from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel

LOG_DENSITIES = {  # of the outcomes, by group
    "evidence": ("log_evidence", "interval_low", "interval_high", "replicate_log_evidence", "fit"),
    "sample_stats": ("log_ratio", "sum_log_likelihood"),
    "reference": ("log_ratio",),
    "tempered": ("log_ratio",),
}


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

    Draws of `JointSplitHMC` bring their pilot along, and a bridge costs values of the density alone; others
    have none, and a pilot runs for each chain. ``log_units`` is the sum of `Rows.log_units`.
    """
    tree = model_evidence(
        model,
        draws=draws,
        route=settings["route"],
        n_draws=settings["draws"],
        target_error=settings["target_error"],
        predictive=False,
        seed=seed,
        key=key,
        execution=execution,
    )
    for name in LOG_DENSITIES.keys() & tree.children.keys():
        group = tree[name].to_dataset()
        natural = {each: group[each] - log_units for each in LOG_DENSITIES[name]}
        tree[name] = xr.DataTree(group.assign(natural))
    return tree.drop_nodes("observed_data")
