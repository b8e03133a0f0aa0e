"""What the studies of a config refer to, and the settings of their jobs.

Imported by the rules, which are parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.studies.fast_likelihood.types import REAL_CASES, fast_likelihood_types
from gpmcflow.studies.surrogate_slice.settings import (
    JOINT,
    METHODS,
    OF_UPDATE,
    SURROGATES,
    WITHOUT_SITES,
    likelihood_name,
    surrogate_slice_methods,
)

# What every fit and every chain depends on, for the ``code`` of rules.
MODEL_CODE = (
    "numerics", "parameters", "covariances", "likelihoods", "models", "approximations",
)  # fmt: skip


def _require_problem(name: str, problems: dict, model: str, place: str) -> None:
    if name not in problems:
        raise unknown_name(place, name, problems)
    found = problems[name]["model"]
    if found != model:
        raise InputError(
            f"{place}: found {name!r}, which has model: {found}; "
            f"allowed: problems with model: {model}"
        )


def _check_rmhmc_ais(study: dict, problems: dict, path: str) -> None:
    for position, name in enumerate(study["problems"]):
        _require_problem(name, problems, "gp", f"{path}.problems[{position}]")
    if study["map"] is not None:
        _require_problem(study["map"]["problem"], problems, "gp", f"{path}.map.problem")
    for name, method in study["methods"].items():
        given = [key for key in ("step_size", "n_steps") if method.get(key) is not None]
        if len(given) == 1:
            raise InputError(
                f"{path}.methods.{name}.{given[0]}: found without its partner; "
                "give step_size and n_steps together, or neither"
            )
        _check_route(f"{path}.methods.{name}", method)


def _check_route(path: str, method: dict) -> None:
    """Settings of a method that do not go together."""
    riemannian = method.get("sampler") == "rmhmc"
    if method.get("fixed_iters") is not None and not riemannian:
        raise InputError(
            f"{path}.fixed_iters: found with sampler: {method['sampler']}; allowed: with rmhmc only"
        )
    if riemannian and method.get("coordinates") == "mode":
        raise InputError(
            f"{path}.coordinates: found mode with sampler: rmhmc, whose metric follows the curvature "
            "by itself; leave coordinates out"
        )
    if method.get("effective_fraction") is not None and len(method["temperatures"]) > 1:
        raise InputError(
            f"{path}.temperatures: found {len(method['temperatures'])} lengths with "
            "effective_fraction, which makes one ladder of its own; give one number"
        )
    ancestors = method.get("moves", 0) + 1
    if method.get("waste_free") and (
        method["particles"] % ancestors or method["adaptive_particles"]
    ):
        raise InputError(
            f"{path}.particles: with waste_free allowed: a fixed number, a multiple of moves + 1 = "
            f"{ancestors}"
        )


def _check_split_hmc(study: dict, problems: dict, path: str) -> None:
    for problem, methods in split_hmc_methods(study).items():
        _require_problem(problem, problems, "linear", f"{path}.problems")
        for name, method in methods.items():
            place = f"{path}.problems.{problem}.{name}"
            if name == "fit":
                raise InputError(f"{place}: the name of the file of the Gaussian fit; rename it")
            if method.get("step_size") is not None and method["n_steps"] is None:
                raise InputError(f"{place}.step_size: found without n_steps; give n_steps, too")
            if method["draws"] % study["thin"]:
                raise InputError(
                    f"{path}.thin: found {study['thin']}; allowed: what divides the draws of each "
                    f"method, and {problem}.{name} has {method['draws']}"
                )


def _check_fast_likelihood(study: dict, problems: dict, path: str) -> None:
    for name, settings in fast_likelihood_types(study).items():
        place = f"{path}.types.{name}"
        if settings["data"] == "diabetes" and settings["n"] > REAL_CASES:
            raise InputError(f"{place}.n: found {settings['n']}; allowed: at most {REAL_CASES}")
        if not settings["methods"]:
            raise InputError(
                f"{place}.methods: none of them has a size in the paper for this type; give sizes, or "
                "other methods"
            )
        if "standard" not in settings["methods"]:
            raise InputError(
                f"{place}.methods: found without standard, to which all others are compared; add it"
            )
        for key, size in settings["sizes"].items():
            sizes = size if isinstance(size, list) else [] if size is None else [size]
            if len(sizes) > 2:
                raise InputError(f"{place}.sizes.{key}: found {len(sizes)}; allowed: one or two")
            if max(sizes, default=0) > settings["n"]:
                raise InputError(
                    f"{place}.sizes.{key}: found {size}; allowed: at most n = {settings['n']}"
                )


def _check_surrogate_slice(study: dict, problems: dict, path: str) -> None:
    for problem, methods in study["problems"].items():
        _require_problem(problem, problems, "joint", f"{path}.problems")
        for name, method in methods.items():
            _check_representation(f"{path}.problems.{problem}.{name}", name, method)
    for problem, methods in surrogate_slice_methods(study).items():
        for name, method in methods.items():
            place = f"{path}.problems.{problem}.{name}"
            _check_sites(place, method, problems[problem])
            for key in ("iterations", "warmup"):
                if method[key] % method["thin"]:
                    raise InputError(
                        f"{place}.thin: found {method['thin']}; allowed: what divides {key}, which are "
                        f"{method[key]}"
                    )
            if method["elliptical"] == 0 and method["representation"] not in SURROGATES:
                raise InputError(
                    f"{place}.elliptical: found 0 with representation {method['representation']}, which "
                    f"then never reaches all latents; allowed: with {' or '.join(SURROGATES)} only"
                )


def _check_representation(place: str, name: str, method: dict) -> None:
    kind = method.get("representation", name)
    if kind not in METHODS:
        raise InputError(
            f"{place}.representation: missing, and the method's name is none; give one of "
            f"{', '.join(METHODS)}"
        )
    if kind == JOINT:
        _check_joint_split(place, method)
    given = [key for key in ("sites", "site_variance") if key in method]
    given += ["site_scale"] if method["site_scale"] != 1.0 else []
    if given and kind in WITHOUT_SITES:
        raise InputError(
            f"{place}.{given[0]}: found with representation {kind}, which has no sites; leave it out"
        )
    if "site_variance" in method and method["site_scale"] != 1.0:
        raise InputError(
            f"{place}.site_variance: found with site_scale, which it overrides; leave one out"
        )


def _check_joint_split(place: str, method: dict) -> None:
    """Settings of slice sampling and of Metropolis updates, which joint split HMC has no use for."""
    usual = {"update": "slice", "width": 1.0, "max_steps": 1, "site_scale": 1.0}
    slicing = {"sites", "site_variance", "elliptical", *usual, *OF_UPDATE["metropolis"]}
    given = [key for key in method if key in slicing and method[key] != usual.get(key)]
    if given:
        raise InputError(
            f"{place}.{given[0]}: found with representation {JOINT}, which sets itself up; leave it out"
        )


def _check_sites(place: str, method: dict, problem: dict) -> None:
    """An expansion of a likelihood that has no maximum."""
    name = likelihood_name(problem)
    if method["sites"] == "taylor" and name not in ("gaussian", "poisson"):
        raise InputError(
            f"{place}.sites: found taylor with likelihood {name}, which has no maximum to expand at; "
            "allowed: standard, laplace, moments"
        )


# Of length and signal, where a config left them out.
_OLD_DEFAULT = {
    "distribution": "loguniform",
    "parameters": {"a": 0.1, "b": 10.0},
    "scale": "natural",
}


def refuse_old_keys(problem: Mapping, path: str) -> None:
    """One line with the new text for keys and forms that a config had before its covariance was a text."""
    given = problem.get("likelihood")
    if isinstance(given, dict) and "name" in given:
        name = str(given["name"])
        settings = {"noise_sd": 1.0} if name == "gaussian" else {}  # what was left out
        settings |= {key: value for key, value in given.items() if key != "name"}
        new = {name: settings} if settings else name
        raise InputError(
            f"{path}.likelihood: found a mapping with name; write likelihood: {_yaml(new)}"
        )
    if problem.get("model") != "joint":
        return
    if "kronecker" in problem:
        structure = "kronecker" if problem["kronecker"] else "dense"
        raise InputError(f"{path}.kronecker: is now structure; write structure: {structure}")
    if "offset" in problem:
        raise InputError(f"{path}.offset: is now mean; write mean: {_yaml(problem['offset'])}")
    old = [key for key in ("length", "signal", "isotropic") if key in problem]
    if not old:
        return
    texts, priors = {"length": "length_scale", "signal": "signal_sd"}, {}
    settings = []
    for key, parameter in texts.items():
        value = problem.get(key, _OLD_DEFAULT)
        name = key if key in problem else "wide"
        if isinstance(value, list):
            shown = [_old_setting(each, f"{key}_{k + 1}", priors) for k, each in enumerate(value)]
            settings.append(f"{parameter}=({', '.join(shown)},)")
        else:
            settings.append(f"{parameter}={_old_setting(value, name, priors)}")
    settings += [] if problem.get("isotropic") else ["ard=True"]
    text = f"squared_exponential({', '.join(settings)})"
    more = f" and priors: {_yaml(priors)}" if priors else ""
    raise InputError(
        f'{path}.{old[0]}: is now part of the covariance; write covariance: "{text}"{more}'
    )


def _old_setting(value: Any, name: str, priors: dict) -> str:
    """What a covariance's text says of a number or a hyperprior, which gets this name."""
    if not isinstance(value, dict):
        return str(value)
    priors[name] = value
    return name


def _yaml(value: Any) -> str:
    """A value as a config may have it, in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("...\n").strip()


STUDY_CHECKS = {
    "rmhmc_ais": _check_rmhmc_ais,
    "split_hmc": _check_split_hmc,
    "fast_likelihood": _check_fast_likelihood,
    "surrogate_slice": _check_surrogate_slice,
}


def split_hmc_methods(study: dict) -> dict[str, dict[str, dict]]:
    """Return {problem: {method: settings}} of study split_hmc, each with its chains, draws and thin.

    The draws of a method go before those of the study.
    """
    shared = {key: study[key] for key in ("chains", "draws", "thin")}
    return {
        problem: {
            name: {**method, **shared, "draws": method["draws"] or study["draws"]}
            for name, method in methods.items()
        }
        for problem, methods in study["problems"].items()
    }


def count_runs(config: Mapping[str, Any]) -> int:
    """Return how many times a study of the config runs a method on a problem."""
    runs = 0
    for study in config["studies"].values():
        if "types" in study:
            found = fast_likelihood_types(study).values()
            runs += sum(len(each["methods"]) * each["replicates"] for each in found)
        elif "elliptical" in study:
            found = surrogate_slice_methods(study).values()
            runs += sum(each["replicates"] for methods in found for each in methods.values())
        elif "methods" in study:  # each of them on each problem
            runs += len(study["problems"]) * len(study["methods"])
        else:
            runs += sum(map(len, study["problems"].values()))
    return runs


def marked_settings(config: dict, study: str) -> dict[str, list[float]]:
    """Return {problem: [log length scale, log signal sd]} of a study's problems on its map's data set.

    Only stated, isotropic hyperparameters have a place on the map.
    """
    problems = config["problems"]
    dataset = problems[config["studies"][study]["map"]["problem"]]["dataset"]
    found = {}
    for name in config["studies"][study]["problems"]:
        stated = problems[name]["hyperparameters"]
        place = [stated.get("log_length_scale"), stated.get("log_signal_sd")]
        numbers = all(isinstance(value, (int, float)) for value in place)
        if problems[name]["dataset"] == dataset and numbers:
            found[name] = [float(value) for value in place]
    return found
