"""A problem of the config with hyperpriors: data set, likelihood, covariance of unknown hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.independent_sites import (
    ConstantSites,
    ScaledSites,
    SiteRule,
    site_rule,
)
from gpmcflow.errors import InputError
from gpmcflow.models.joint_model import JointModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.hyperparameter_updates import HyperparameterUpdate, hyperparameter_update
from gpmcflow.samplers.representations import Representation, representation
from gpmcflow.studies.problems import make_likelihood
from gpmcflow.studies.surrogate_slice.settings import OF_UPDATE, has_counts

RATE_RANGE = 3.0  # of the offset's hyperprior about the log of the mean count
KEYS = ("length", "signal", "offset", "jitter", "start")


def build_joint_model(dataset: xr.Dataset, name: str, problem: Mapping) -> JointModel:
    """Return the model of a problem ``name`` of the config with ``model: joint``.

    An offset left out, or "mean-rate", is c ~ U(log ybar - 3, log ybar + 3) with the mean count ybar for
    Poisson data; other likelihoods have none. Raises `InputError` with the path of the config's key.

    Source: Murray & Adams (2010), section 5; hyperpriors by their public code.
    """
    path = f"config: problems.{name}"
    factor = make_likelihood(problem)
    X, y = dataset["X"].values, dataset["y"].values
    try:
        factor.validate(y)
    except InputError as error:
        raise InputError(f"{path}.likelihood: data set {problem['dataset']}: {error}") from None
    offset = problem["offset"]
    if offset is None:
        offset = "mean-rate" if has_counts(problem) else 0.0
    if offset == "mean-rate":
        offset = _mean_rate(path, problem, y)
    try:
        return JointModel(
            factor,
            X,
            y,
            _quick(problem["length"]),
            _quick(problem["signal"]),
            offset,
            isotropic=problem["isotropic"],
            jitter=problem["jitter"],
            kronecker=problem["kronecker"],
        )
    except InputError as error:
        raise InputError(at_key(path, error)) from None


def at_key(path: str, error: Exception) -> str:
    """Message of a model's error, beginning with the path of the config's key it is about."""
    text = str(error).removeprefix("joint model: ")
    if text.startswith("Kronecker grid: "):
        return f"{path}.kronecker: {text.removeprefix('Kronecker grid: ')}"
    if text.startswith(KEYS):
        return f"{path}.{text}"
    return f"{path}.jitter: {text}" if "jitter" in text else f"{path}: {text}"


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


def update_of(method: Mapping) -> HyperparameterUpdate:
    """Update of the hyperparameters of a method's settings."""
    kind = method["update"]
    return hyperparameter_update(kind, **{key: method[key] for key in OF_UPDATE[kind]})


def _mean_rate(path: str, problem: Mapping, y: np.ndarray) -> Hyperprior:
    if not has_counts(problem):
        raise InputError(
            f"{path}.offset: found mean-rate with a likelihood that has no counts; leave it out"
        )
    if not y.sum() > 0:
        raise InputError(f"{path}.offset: all counts are 0, so there is no mean rate; give numbers")
    centre = float(np.log(y.mean()))
    return Hyperprior("uniform", {"loc": centre - RATE_RANGE, "scale": 2.0 * RATE_RANGE})


def _quick(setting: Any) -> Any:
    """A setting of the config, log-uniform ones on the log scale: the same density, without SciPy's calls."""
    if isinstance(setting, list):
        return [_quick(each) for each in setting]
    if not isinstance(setting, Mapping) or setting.get("distribution") != "loguniform":
        return setting
    given = setting.get("parameters", {})
    if setting.get("scale") != "natural" or set(given) != {"a", "b"}:
        return setting
    return (
        Hyperprior.log_uniform(given["a"], given["b"]) if 0.0 < given["a"] < given["b"] else setting
    )
