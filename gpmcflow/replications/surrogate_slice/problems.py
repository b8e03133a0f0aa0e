"""A problem of the config with hyperpriors: data set, likelihood, covariance of unknown hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from gpmcflow.approximations.independent_sites import (
    ConstantSites,
    ScaledSites,
    SiteRule,
    site_rule,
)
from gpmcflow.errors import InputError
from gpmcflow.jobs.stated_models import MEAN_RATE, covariance_of, likelihood_of, mean_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.surrogate_slice.settings import OF_UPDATE
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.joint.hyperparameter_updates import MetropolisUpdate, SliceUpdate
from gpmcflow.samplers.joint.representations import Representation, representation

RATE_RANGE = 3.0  # of the mean's hyperprior about the log of the mean count
# What messages of a model begin with -> the key they are about.
_KEYS = {"Kronecker grid: ": "structure", "start of": "start", "mean": "mean", "X": "dataset"}
_UPDATES = {"slice": SliceUpdate, "metropolis": MetropolisUpdate}
# The paper's and the tables' names of theta, where a model has one squared exponential.
PUBLISHED = {"length_scale": "log_length", "signal_sd": "log_signal_sd", "mean": "offset"}


def build_joint_model(dataset: xr.Dataset, name: str, problem: Mapping) -> GPModel:
    """Return the model of a problem ``name`` of the config with ``model: joint``.

    A mean left out, or "mean-rate", is c ~ U(log ybar - 3, log ybar + 3) with the mean count ybar for counts,
    and 0 for others. Raises `InputError` with the path of the config's key.

    Source: Murray & Adams (2010), section 5; hyperpriors by their public code.
    """
    path = f"config: problems.{name}"
    likelihood, covariance = likelihood_of(problem, path), covariance_of(problem, path)
    y = dataset["y"].values
    try:
        likelihood.validate(y)
    except InputError as error:
        raise InputError(f"{path}.likelihood: data set {problem['dataset']}: {error}") from None
    mean = mean_of(problem, path, likelihood)
    mean = _mean_rate(path, y) if mean == MEAN_RATE else mean
    try:
        options = {key: problem[key] for key in ("jitter", "structure")}
        model = GPModel(dataset["X"], y, covariance, likelihood, mean, **options)
        return model.dense_if_exact()  # representations are of latents at all cases
    except InputError as error:
        raise InputError(at_key(path, error)) from None


def published_names(names: Sequence[str]) -> list[str]:
    """Names of theta in the paper's tables, where they have one, or log_name, in order."""
    bare = [name.split("[")[0] for name in names]
    numbered = bare.count("length_scale") > 1
    return [
        f"{PUBLISHED[stem]}_{k + 1}"
        if numbered and stem == "length_scale"
        else PUBLISHED.get(stem, f"log_{name}")
        for k, (stem, name) in enumerate(zip(bare, names, strict=True))
    ]


def at_key(path: str, error: Exception) -> str:
    """Message of a model's error, beginning with the path of the config's key it is about."""
    text = str(error).removeprefix("model: ")
    for beginning, key in _KEYS.items():
        if text.startswith(beginning):
            return f"{path}.{key}: {text}"
    return f"{path}.{'jitter' if 'jitter' in text else 'covariance'}: {text}"


def representation_of(method: Mapping) -> Representation:
    """Representation of a method's settings, with its sites."""
    if method["sites"] is None:
        return representation(method["representation"])
    rule: SiteRule = site_rule(method["sites"])
    if method["site_scale"] != 1.0:
        rule = ScaledSites(method["site_scale"], rule)
    if "site_variance" in method:
        rule = ConstantSites(method["site_variance"], rule)
    return representation(method["representation"], rule)


def sampler_of(method: Mapping) -> SurrogateSlice:
    """Sampler of a method's settings."""
    kind = method["update"]
    update = _UPDATES[kind](**{key: method[key] for key in OF_UPDATE[kind]})
    return SurrogateSlice(representation_of(method), update, method["elliptical"] or 0)


def start_of(model: GPModel, name: str, problem: Mapping) -> np.ndarray | None:
    """Theta of a problem's ``start``, or None."""
    if problem["start"] is None:
        return None
    try:
        return model.theta_of(problem["start"])
    except InputError as error:
        text = str(error).removeprefix("model: ")
        raise InputError(f"config: problems.{name}.start: {text}") from None


def _mean_rate(path: str, y: np.ndarray) -> Hyperprior:
    if not y.sum() > 0:
        raise InputError(f"{path}.mean: all counts are 0, so there is no mean rate; give numbers")
    centre = float(np.log(y.mean()))
    return Hyperprior("uniform", {"loc": centre - RATE_RANGE, "scale": 2.0 * RATE_RANGE})
