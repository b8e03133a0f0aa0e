"""A `GPModel` as plain values beside the data of a results file, and the model made of them again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.expressions import setting_text
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.covariances.leaves import LEAVES
from gpmcflow.covariances.text import parse_covariance, parse_setting
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood, is_own, likelihood
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.outcome import Outcome


def describe(model: GPModel | MultiGPModel) -> dict[str, Any]:
    """All of a model but its numbers by case, as plain values.

    ``covariance`` is None where no text tells it, as it holds a function in Python, and ``likelihood`` for a
    class that is not the package's own.
    """
    stated = model.likelihood.stated
    own = is_own(stated)
    if isinstance(model, MultiGPModel):
        parts = dict(zip(model.covariance, model.parts, strict=False))
        texts = {name: _covariance_text(part) for name, part in parts.items()}
        prior = {
            "covariance": None if None in texts.values() else texts,
            "mean": {name: setting_text(mean) for name, mean in model.mean.items()},
            "structure": _structure(model.structure),
        }
    else:
        prior = {
            "covariance": _covariance_text(model),
            "mean": setting_text(model.mean),
            "structure": asdict(model.basis_settings) if model.basis else model.structure_name,
        }
    return {
        **prior,
        "likelihood": _described(stated) if own else None,
        "jitter": None if model.jitter is None else float(model.jitter),
        "levels": {name: list(words) for name, words in model.inputs.levels.items()},
        "dates": list(model.inputs.dates),
        **_of_frame(model),
    }


def _covariance_text(model: GPModel) -> str | None:
    tellable = all(leaf.term in LEAVES for leaf in model.leaves)
    return model.covariance.text() if tellable else None


def _structure(stated: str | BasisFunctions) -> Any:
    return stated if isinstance(stated, str) else asdict(stated)


def _of_frame(model: GPModel) -> dict[str, Any]:
    """What a model that was made of a frame knows beside its data."""
    if model.outcome is None:
        return {}
    name, labels = model.outcome
    centres = [list(pair) for pair in model.inputs.centres]
    return {"outcome": [name, list(labels)], "centres": centres}


def _described(likelihood: Likelihood) -> dict[str, Any]:
    """Name and settings as text, of a base as a mapping again; None for arrays by case."""
    settings: dict[str, Any] = {}
    for name, value in vars(likelihood).items():
        if isinstance(value, Likelihood):
            settings[name] = _described(value)
        elif not name.startswith("_") and value is not None:
            settings[name] = None if _by_case(likelihood, name) else setting_text(value)
    return {"name": likelihood.name, **settings}


def _by_case(likelihood: Likelihood, name: str) -> bool:
    """Whether a field is a constant with one value for each case."""
    return name in likelihood.constants and np.ndim(getattr(likelihood, name)) == 1


def _arrays(likelihood: Likelihood) -> dict[str, np.ndarray]:
    """What a likelihood, or its base, holds by case."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in vars(likelihood).items():
        if isinstance(value, Likelihood):
            arrays |= _arrays(value)
        elif _by_case(likelihood, name):
            arrays[name] = np.array(value)
    return arrays


def _likelihood_of(described: Mapping[str, Any], constants: xr.Dataset) -> Likelihood:
    settings = dict(described)
    name = settings.pop("name")
    for key, text in settings.items():
        if text is None:
            settings[key] = constants[key].values
        elif isinstance(text, Mapping):
            settings[key] = _likelihood_of(text, constants)
        else:
            settings[key] = _setting(text, f"likelihood {name}")
    return likelihood(name, **settings)


def data_of(model: GPModel | MultiGPModel) -> dict[str, xr.Dataset]:
    """Groups ``observed_data`` and ``constant_data``: y, X, and constants of the likelihood by case."""
    cases = {"case": np.arange(model.n_cases)}
    by_case = {name: ("case", value) for name, value in _arrays(model.likelihood.stated).items()}
    features = {"feature": np.array(model.inputs.names)}
    constants = {"X": (("case", "feature"), model.X + model.inputs.shifts), **by_case}
    return {
        "observed_data": xr.Dataset({"y": ("case", model.y)}, cases),
        "constant_data": xr.Dataset(constants, cases | features),
    }


def _setting(text: str, where: str) -> Any:
    """A setting of a likelihood of its text: a number, words, or what a parameter may be."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return parse_setting(text, where)


def _each(described: Any, parsed: Callable[[str], Any]) -> Any:
    """What a text says, or the texts of several functions."""
    if isinstance(described, Mapping):
        return {name: parsed(text) for name, text in described.items()}
    return parsed(described)


def model_of(described: Mapping[str, Any], tree: xr.DataTree) -> GPModel | MultiGPModel:
    """The model of a description, with the data of a tree of results.

    Raises `InputError` for a covariance or a likelihood that no text tells.
    """
    for part in ("covariance", "likelihood"):
        if described[part] is None:
            raise InputError(
                f"predict: the {part} of these draws is written in Python, which results do not hold; "
                "give model="
            )
    constants = tree["constant_data"].to_dataset()
    names = tuple(str(feature) for feature in constants["feature"].values)
    levels = {column: tuple(words) for column, words in described["levels"].items()}
    structure = described["structure"]
    centres = tuple((name, centre) for name, centre in described.get("centres", ()))
    inputs = Inputs(
        constants["X"].values, names, levels, tuple(described.get("dates", ())), centres
    )
    return GPModel(
        inputs._replace(values=np.array(inputs.values - inputs.shifts, order="C")),
        tree["observed_data/y"].values,
        _each(described["covariance"], parse_covariance),
        _likelihood_of(described["likelihood"], constants),
        _each(described["mean"], lambda text: parse_setting(text, "mean")),
        described["jitter"],
        structure if isinstance(structure, str) else BasisFunctions(**structure),
        Outcome.of(described.get("outcome")),
    )
