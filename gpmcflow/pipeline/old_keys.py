"""Keys and forms that a config had before its covariance was a text: each is refused with the new text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from gpmcflow.errors import InputError

# Of length and signal, where a config left them out.
_OLD_DEFAULT = {
    "distribution": "loguniform",
    "parameters": {"a": 0.1, "b": 10.0},
    "scale": "natural",
}


def refuse_old_keys(problem: Mapping, path: str) -> None:
    """One line with the new text for keys and forms that a config had before its covariance was a text."""
    stated = problem.get("likelihood")
    if isinstance(stated, dict) and "name" in stated:
        name = str(stated["name"])
        settings = {"noise_sd": 1.0} if name == "gaussian" else {}  # what was left out
        settings |= {key: value for key, value in stated.items() if key != "name"}
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
            shown = [_old_setting(item, f"{key}_{k + 1}", priors) for k, item in enumerate(value)]
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
