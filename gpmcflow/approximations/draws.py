"""Draws of a model as results hold them, read again with their model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.models.description import model_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.outcome import Outcome

NOUNS = {"latent": "cases", "weight": "weights", "cell": "cells"}


def evenly_spaced(tree: xr.DataTree, n_draws: int) -> xr.DataTree:
    """The tree with at most ``n_draws`` draws of its posterior, spread evenly over each chain."""
    if "posterior" not in tree.children:
        return tree
    posterior = tree["posterior"].to_dataset()
    n_chains, n = posterior.sizes["chain"], posterior.sizes["draw"]
    kept = np.linspace(0, n - 1, min(n, max(1, n_draws // n_chains))).astype(int)
    tree = tree.copy()
    tree["posterior"] = xr.DataTree(posterior.isel(draw=kept))
    return tree


def read_draws(
    who: str, tree: xr.DataTree, model: GPModel | MultiGPModel | None, n_draws: int
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """The model of draws, theta (draw, d) or (1, d) where it is fixed, and eta (draw, n) if latents are kept.

    It takes evenly spaced draws. With basis functions it returns weights (draw, m) instead of eta,
    eta (draw, n_latents) at the cells of a grid that are not the cases, and latents (draw, n_latents) of
    several functions.
    """
    settings = json.loads(tree.attrs.get("settings", "{}"))
    if "posterior" not in tree.children or (model is None and "model" not in settings):
        raise InputError(
            f"{who}: these draws do not tell their model; give draws of sample from a GPModel"
            f"{', or model=' * (who == 'predict')}"
        )
    if model is None and "constant_data" not in tree.children:
        raise InputError(f"{who}: these results hold no data; give draws of sample from a GPModel")
    if not isinstance(model, GPModel | MultiGPModel | None):
        raise InputError(f"{who}: model is a {type(model).__name__}; allowed: a GPModel")
    model = model_of(settings["model"], tree) if model is None else model
    posterior = tree["posterior"].to_dataset()
    n_all = posterior.sizes["chain"] * posterior.sizes["draw"]
    rows = np.linspace(0, n_all - 1, min(n_draws, n_all)).astype(int)

    def taken(name: str) -> np.ndarray | None:
        if name not in posterior:
            return None
        values = posterior[name].transpose("chain", "draw", ...)
        chain, draw = np.divmod(rows, values.sizes["draw"])
        return np.concatenate([values[c, draw[chain == c]].values for c in np.unique(chain)])

    thetas = taken("theta")
    latents = taken("latent" if thetas is None else model.latent_variable)
    if latents is not None and isinstance(model, MultiGPModel):
        latents = latents.reshape(len(latents), -1)
    if latents is not None and latents.shape[-1] != model.n_latents:
        raise InputError(
            f"{who}: draws of {latents.shape[-1]} latents for a model of {model.n_latents} "
            f"{NOUNS[model.latent_variable]}; give the model they were drawn from"
        )
    if thetas is None:  # latents at fixed hyperparameters are eta itself
        full = np.array(settings["full"]) if "full" in settings else model.full(np.empty(0))
        return model, full[model.free][None], latents
    if latents is not None and isinstance(model, GPModel) and not model.basis:
        latents = latents + np.array([[model.mean_at(model.full(theta))] for theta in thetas])
    return model, thetas, latents


def outcome_of(source: object) -> Outcome | None:
    """What y is in the frame that the model of draws, or a model, was made of."""
    if isinstance(source, GPModel | MultiGPModel):
        return source.outcome
    if not isinstance(source, xr.DataTree):
        return None
    described = json.loads(source.attrs.get("settings", "{}")).get("model") or {}
    return Outcome.of(described.get("outcome"))
