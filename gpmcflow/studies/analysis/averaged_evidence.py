"""The evidence of a model averaged over its hyperparameters, from the posterior draws of an analysis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from gpmcflow.evidence.model_evidence import model_evidence
from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel

IN_UNITS = ("log_evidence", "interval_low", "interval_high", "replicate_log_evidence", "fit")


def evidence_of(
    model: GPModel,
    draws: xr.DataTree,
    settings: Mapping,
    *,
    scale: float,
    seed: int,
    key: tuple,
    execution: Execution | None = None,
) -> xr.DataTree:
    """`model_evidence` of a model from its draws, log densities in nats of outcomes in natural units.

    Draws of `JointSplitHMC` bring their pilot along, and a bridge costs values of the density alone; others
    have none, and a pilot runs for each chain. ``scale`` is that of the outcomes: one standardised unit.
    """
    tree = model_evidence(
        model,
        draws=draws,
        route=settings["route"],
        n_draws=settings["draws"],
        target_error=settings["target_error"],
        seed=seed,
        key=key,
        execution=execution,
    )
    group, shift = tree["evidence"].to_dataset(), -model.n_cases * np.log(scale)
    natural = {name: group[name] + shift for name in IN_UNITS}
    tree["evidence"] = xr.DataTree(group.assign(natural))
    return tree
