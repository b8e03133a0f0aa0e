"""A `GPModel` as plain values beside the data of a results file, and the model made of them again."""

from __future__ import annotations

import ast
from collections.abc import Mapping
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
from gpmcflow.likelihoods import LIKELIHOODS, likelihood
from gpmcflow.models.gp_model import GPModel


def describe(model: GPModel) -> dict[str, Any]:
    """All of a model but its numbers by case, as plain values.

    ``covariance`` is None where no text tells it, as it holds a function in Python, and ``likelihood`` for a
    class that is not the package's own.
    """
    own = LIKELIHOODS.get(model.likelihood.name) is type(model.likelihood)
    settings = {
        name: None if _by_case(model, name) else setting_text(value)
        for name, value in vars(model.likelihood).items()
        if not name.startswith("_") and value is not None
    }
    tellable = all(leaf.term in LEAVES for leaf in model.leaves)
    return {
        "covariance": model.covariance.text() if tellable else None,
        "likelihood": {"name": model.likelihood.name, **settings} if own else None,
        "mean": setting_text(model.mean),
        "jitter": None if model.jitter is None else float(model.jitter),
        "structure": asdict(model.structure) if model.basis else model.structure_name,
        "levels": {name: list(words) for name, words in model.inputs.levels.items()},
        "dates": list(model.inputs.dates),
    }


def _by_case(model: GPModel, name: str) -> bool:
    """Whether a field of the likelihood is a constant with one value for each case."""
    own = model.likelihood
    return name in own.constants and np.ndim(getattr(own, name)) == 1


def data_of(model: GPModel) -> dict[str, xr.Dataset]:
    """Groups ``observed_data`` and ``constant_data``: y, X, and constants of the likelihood by case."""
    cases = {"case": np.arange(model.n_cases)}
    by_case = {
        name: ("case", np.array(getattr(model.likelihood, name)))
        for name in model.likelihood.constants
        if _by_case(model, name)
    }
    features = {"feature": np.array(model.inputs.names)}
    constants = {"X": (("case", "feature"), model.X), **by_case}
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


def model_of(described: Mapping[str, Any], tree: xr.DataTree) -> GPModel:
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
    settings = dict(described["likelihood"])
    name = settings.pop("name")
    values = {
        key: constants[key].values if text is None else _setting(text, f"likelihood {name}")
        for key, text in settings.items()
    }
    names = tuple(str(feature) for feature in constants["feature"].values)
    levels = {column: tuple(words) for column, words in described["levels"].items()}
    structure = described["structure"]
    return GPModel(
        Inputs(
            np.array(constants["X"].values, order="C"),
            names,
            levels,
            tuple(described.get("dates", ())),
        ),
        tree["observed_data/y"].values,
        parse_covariance(described["covariance"]),
        likelihood(name, **values),
        parse_setting(described["mean"], "mean"),
        described["jitter"],
        structure if isinstance(structure, str) else BasisFunctions(**structure),
    )
