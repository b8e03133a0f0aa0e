"""Models as a config states them: texts of covariances, names of hyperpriors, likelihoods with settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpmcflow.covariances.expressions import Covariance
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import Likelihood, likelihood
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior

MEAN_RATE = "mean-rate"


def priors_of(problem: Mapping, path: str) -> dict[str, Hyperprior | float]:
    """Hyperpriors of a problem by name."""
    given = problem.get("priors", {})
    return {name: hyperprior(value, f"{path}.priors.{name}") for name, value in given.items()}


def covariance_of(problem: Mapping, path: str) -> Covariance:
    """Covariance of a problem. Raises `InputError` that names the key."""
    return parse_covariance(problem["covariance"], priors_of(problem, path), f"{path}.covariance")


def likelihood_of(problem: Mapping, path: str = "problem") -> Likelihood:
    """Likelihood of a problem: a name, or {name: settings}, which may name hyperpriors.

    By its name alone a Gaussian has a noise level of 1, a Student-t likelihood scale and degrees of freedom
    of 1, where the model's hyperparameters are fixed; where they have hyperpriors, so has it.
    """
    given, where = problem["likelihood"], f"{path}.likelihood"
    name, settings = (given, {}) if isinstance(given, str) else next(iter(given.items()))
    priors = priors_of(problem, path)
    try:
        made = likelihood(name, **{key: _named(v, priors, where) for key, v in settings.items()})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    left_out = made.entries() and not settings and problem.get("model") != "joint"
    return made.with_values([1.0] * len(made.entries())) if left_out else made


def mean_of(problem: Mapping, path: str) -> Hyperprior | float | str | None:
    """Mean of a problem: a number, a hyperprior or the name of one, `MEAN_RATE`, or None for the default."""
    given = problem["mean"]
    if given is None or given == MEAN_RATE:
        return given
    named = _named(given, priors_of(problem, path), f"{path}.mean")
    return hyperprior(named, f"{path}.mean")


def check_models(config: Mapping) -> None:
    """Read the models of all problems. Raises `InputError` for the first that cannot be.

    Columns and observations are checked when a job has the data.
    """
    for name, problem in config["problems"].items():
        path = f"config: problems.{name}"
        if problem["likelihood"] != "multinomial" or problem["model"] != "linear":
            likelihood_of(problem, path)
        if problem["model"] == "joint":
            covariance_of(problem, path)
            mean_of(problem, path)


def _named(value: Any, priors: Mapping[str, Hyperprior | float], where: str) -> Any:
    if not isinstance(value, str):
        return value
    if value not in priors:
        raise unknown_name(f"{where}: hyperprior", value, priors)
    return priors[value]
