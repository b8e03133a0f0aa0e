"""Models as a config states them: texts of covariances, names of hyperpriors, likelihoods with settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpmcflow.covariances.expressions import Covariance
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    MULTI_LIKELIHOODS,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    MultiLikelihood,
    likelihood,
)
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior
from gpmcflow.parameters.parameter import own_units

MEAN_RATE = "mean-rate"
MEAN = "mean"  # the function that each likelihood has


def priors_of(problem: Mapping, path: str) -> dict[str, Hyperprior | float]:
    """Hyperpriors of a problem by name."""
    priors = problem.get("priors", {})
    return {name: hyperprior(value, f"{path}.priors.{name}") for name, value in priors.items()}


def covariance_of(
    problem: Mapping, path: str, known: Mapping[str, Any] | None = None
) -> Covariance:
    """Covariance of a problem, given graphs and correlations by name.

    Raises `InputError` that names the key.
    """
    priors, where = priors_of(problem, path), f"{path}.covariance"
    return parse_covariance(problem["covariance"], priors, where, known)


def covariances_of(
    problem: Mapping,
    path: str,
    likelihood_: Likelihood,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Covariance]:
    """Covariances by latent function, as a mapping states them; a text is that of all, named ``mean``.

    Raises `InputError` that names the key, for functions that the likelihood does not have or that are left
    out, too.
    """
    stated = problem["covariance"]
    if isinstance(stated, str):
        return {MEAN: covariance_of(problem, path, known)}
    if set(stated) != {MEAN}:
        _require_functions(stated, f"{path}.covariance", likelihood_)
    priors = priors_of(problem, path)
    return {
        name: parse_covariance(text, priors, f"{path}.covariance.{name}", known)
        for name, text in stated.items()
    }


def covariance_text(stated: str | Mapping[str, str]) -> str:
    """Covariances of a config in one line."""
    if isinstance(stated, str):
        return stated
    return "; ".join(f"{name}: {text}" for name, text in stated.items())


def _require_functions(stated: Mapping[str, str], where: str, likelihood_: Likelihood) -> None:
    """Refuse covariances but of the functions of a likelihood, with the line to write."""
    several = isinstance(likelihood_, MultiLikelihood)
    noise = "noise_sd" if type(likelihood_) is Gaussian else None
    if several and likelihood_.same_prior:
        allowed = [MEAN]
    elif several:
        allowed = list(likelihood_.functions)
    else:
        allowed = [MEAN, *(name for name in likelihood_.may_vary if name != noise)]
    if set(stated) <= set(allowed) and (set(stated) >= set(allowed) if several else MEAN in stated):
        return
    texts, write = [text for name, text in stated.items() if name != MEAN], ""
    if noise in stated:
        write = f"likelihood: {HeteroscedasticGaussian.name}, for noise that varies, and "
        allowed = list(HeteroscedasticGaussian.functions)
    shown = {name: json.dumps(stated.get(name, texts[0])) for name in allowed}
    line = ", ".join(f"{name}: {text}" for name, text in shown.items())
    raise InputError(
        f"{where}: found covariances of {', '.join(stated)} with the {likelihood_.name} likelihood; allowed: "
        f"{', '.join(allowed)}; write {write}covariance: "
        + (f"{{{line}}}" if len(allowed) > 1 else shown[MEAN])
    )


def likelihood_of(problem: Mapping, path: str = "problem") -> Likelihood:
    """Likelihood of a problem: a name, or {name: settings}, which may name hyperpriors.

    Parameters that are left out have their default hyperpriors with ``model: joint``. Other models hold them
    fixed: by the likelihood's name alone they are 1, probabilities 1/2, else numbers.
    """
    choice, where = problem["likelihood"], f"{path}.likelihood"
    name, settings = (choice, {}) if isinstance(choice, str) else next(iter(choice.items()))
    priors = priors_of(problem, path)
    kind = (LIKELIHOODS | MULTI_LIKELIHOODS).get(name)
    words = kind.options if kind is not None else ()
    stated = _settings(settings, priors, where, words)
    try:
        made = likelihood(name, **stated)
    except InputError as error:
        text = str(error).removeprefix("likelihood").removeprefix(":").strip()
        raise InputError(f"{where}: {text}") from None
    if problem.get("model") == "joint":
        return made
    if not settings:
        return made.with_values([own_units(0.0, entry.coordinate) for entry in made.entries()])
    for entry in made.entries():
        if not isinstance(entry.setting, float):
            raise InputError(
                f"{where}: {name}: {entry.name} is {entry.setting!r}; allowed: a number, as it is held fixed "
                f"with model: {problem.get('model', 'gp')}"
            )
    return made


def _settings(
    settings: Mapping,
    priors: Mapping[str, Hyperprior | float],
    where: str,
    words: Sequence[str] = (),
) -> dict:
    """Settings of a likelihood and its base, with hyperpriors instead of their names.

    Those in ``words`` are no parameters, and stay as they are.
    """
    stated = {}
    for key, value in settings.items():
        if key in words:
            stated[key] = value
        elif key != "base":
            stated[key] = _named(value, priors, where)
        elif isinstance(value, Mapping):
            stated[key] = {name: _settings(own, priors, where) for name, own in value.items()}
        else:
            stated[key] = value
    return stated


def mean_of(problem: Mapping, path: str, likelihood_: Likelihood) -> Hyperprior | float | str:
    """Mean of a problem: a number, a hyperprior, or `MEAN_RATE`, which is for counts and their default."""
    stated, where = problem["mean"], f"{path}.mean"
    if stated == MEAN_RATE and not likelihood_.counts:
        raise InputError(
            f"{where}: {MEAN_RATE} with the {likelihood_.name} likelihood; allowed: with counts only; leave "
            "it out"
        )
    if stated is None:
        return MEAN_RATE if likelihood_.counts else 0.0
    value = _named(stated, priors_of(problem, path), where, MEAN_RATE)
    return value if value == MEAN_RATE else hyperprior(value, where)


def check_models(config: Mapping, where: str = "config") -> None:
    """Read the models of all problems. Raises `InputError` for the first that cannot be.

    Columns and observations are checked when a job has the data. ``where`` starts the message.
    """
    for name, problem in config["problems"].items():
        path = f"{where}: problems.{name}"
        if problem["likelihood"] == "multinomial" and problem["model"] == "linear":
            continue  # of several linear predictors, and so none of the factorising likelihoods
        made = likelihood_of(problem, path)
        if problem["model"] == "joint":
            covariance_of(problem, path)
            mean_of(problem, path, made)


def _named(value: Any, priors: Mapping[str, Hyperprior | float], where: str, *others: str) -> Any:
    if not isinstance(value, str) or value in others:
        return value
    if value not in priors:
        raise unknown_name(f"{where}: hyperprior", value, (*priors, *others))
    return priors[value]
