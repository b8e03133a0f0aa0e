"""Draws of the posterior that another run made, as `model_evidence` takes them."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.evidence.two_ends import GivenDraws
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.description import data_of, describe
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity

LEAST_DRAWS = 100  # of a chain
_WHERE = "model_evidence: draws"


def draws_of(
    tree: xr.DataTree, model: GPModel, most: int
) -> tuple[GivenDraws, dict[str, np.ndarray] | None]:
    """At most so many draws a chain of results of `sample`, and the last stage of their pilot if any.

    That pilot's reference was frozen before the first of these draws, which a reference must be: one fitted
    to draws that are then bridged is biased (Overstall & Forster, 2010).

    Raises `InputError` for draws without latents, of another model or other data, and fewer than 100 a chain.
    """
    groups = getattr(tree, "children", {})
    if "posterior" not in groups or "theta" not in tree["posterior"]:
        raise InputError(
            f"{_WHERE}: found no group posterior with theta; allowed: what sample(model) returns"
        )
    _require_same(tree, model)
    posterior = tree["posterior"].to_dataset().transpose("chain", "draw", ...)
    n_draws = posterior.sizes["draw"]
    if n_draws < LEAST_DRAWS:
        raise InputError(
            f"{_WHERE}: found {n_draws} draws a chain; allowed: {LEAST_DRAWS} or more; run longer chains"
        )
    evenly = {"draw": slice(None, None, -(-n_draws // most))}
    theta = posterior["theta"].isel(evenly).values
    stage = _last_stage(tree["pilot"].to_dataset()) if "pilot" in groups else None
    if model.likelihood.conjugate:
        return GivenDraws(theta), stage
    name = model.latent_variable
    if name not in posterior:
        raise InputError(f"{_WHERE}: found no {name}; sample with keep_latents=True")
    stats = tree["sample_stats"].to_dataset().transpose("chain", "draw", ...)
    own = (values.isel(evenly).values for values in (posterior[name], stats["sum_log_likelihood"]))
    latents, log_likelihood = own
    return GivenDraws(theta, latents.reshape(*theta.shape[:2], -1), log_likelihood), stage


def as_drawn(model: GPModel, tree: xr.DataTree) -> GPModel:
    """The model, without its exact basis where a sampler had to do without it."""
    settings = json.loads(getattr(tree, "attrs", {}).get("settings", "{}"))
    dense = settings.get("model", {}).get("structure") == "dense"
    return model.dense_if_exact() if dense else model


def _require_same(tree: xr.DataTree, model: GPModel) -> None:
    settings = json.loads(tree.attrs.get("settings", "{}"))
    own = json.loads(json.dumps(describe(model)))
    checksums = [array_digest({"X": model.X, "y": model.y})]
    if model.likelihood.conjugate:  # draws of a log density name that
        checksums.append(text_digest(RegressionDensity(model).digest()))
    if tree.attrs.get("data_checksum") not in checksums:
        raise InputError(f"{_WHERE}: they are of other data than the model; draw from this model")
    constants = data_of(model)["constant_data"].drop_vars("X")
    stored = tree["constant_data"].to_dataset() if "constant_data" in tree.children else {}
    for name, values in constants.items():
        if name in stored and not np.array_equal(stored[name].values, values.values):
            raise InputError(f"{_WHERE}: they are of another {name}; draw from this model")
    for name, value in own.items():
        if name in settings.get("model", {}) and settings["model"][name] != value:
            raise InputError(
                f"{_WHERE}: they are of another model, whose {name} is {settings['model'][name]}, not "
                f"{value}; draw from this model"
            )


def _last_stage(pilot: xr.Dataset) -> dict[str, np.ndarray] | None:
    """Fields of `Stage` by name, one row."""
    if "precision" not in pilot:
        return None
    pilot = pilot.transpose("stage", "theta_dim", "scale_dim", ..., "case")
    for name in ("precision", "shift"):  # of several functions one row each
        pilot[name] = "site", pilot[name].values.ravel()
    last = pilot.isel(stage=-1)
    names = (
        "center", "scale", "precision", "shift", "step_size", "n_steps", "acceptance_rate", "n_gradient",
        "n_diverging",
    )  # fmt: skip
    row = {name: last[name].values[None] for name in names}
    return row | {"x": row["center"], "latents": np.empty((1, 0))}
