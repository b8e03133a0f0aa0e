"""Slopes, effects of groups and shares of the variance of a model, in the units of the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from gpmcflow.analysis.data import Data
from gpmcflow.contrasts.coefficients import coefficients
from gpmcflow.contrasts.terms import terms_of
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.leaves import Constant, Group, Linear
from gpmcflow.data.codes import Encoding, GroupCode, NumberCode
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

SMALL, N_SMALL, N_LARGE = 500, 400, 200  # rows; draws, each of which is a factorisation
SHOWN = ("intercept", "slope", "level", "sd", "share")


def has_coefficients(model: GPModel | MultiGPModel) -> bool:
    """Whether a model of one function has a term that is slopes or effects of groups."""
    if isinstance(model, MultiGPModel):
        return False
    return any(isinstance(term, Linear | Group | KnownLevels) for term in terms_of(model))


def is_straight(model: GPModel | MultiGPModel) -> bool:
    """Whether the effects of columns are slopes, beside which there are groups at most."""
    if isinstance(model, MultiGPModel):
        return False
    terms = terms_of(model)
    straight = all(isinstance(term, Constant | Linear | Group | KnownLevels) for term in terms)
    return straight and any(isinstance(term, Linear) for term in terms)


def with_coefficients(
    tree: xr.DataTree, source: Any, model: GPModel | MultiGPModel, seed: int
) -> xr.DataTree:
    """The tree with group coefficients, `gp.coefficients` of draws or of a fit, where the model has some."""
    if not has_coefficients(model):
        return tree
    assert isinstance(model, GPModel)
    n = N_SMALL if model.basis or model.n_cases <= SMALL else N_LARGE
    of_draws = {"model": model} if isinstance(source, xr.DataTree) else {}
    table = coefficients(source, n_draws=n, seed=seed, **of_draws)
    names = {key: ("coefficient", table[key].values.astype(str)) for key in ("coefficient", "kind")}
    tree["coefficients"] = xr.DataTree(table.assign_coords(names))
    return tree


def straight_chances(fits: Sequence[xr.DataTree], columns: Iterable[str]) -> list[float]:
    """Chance of so large a slope of each column, were it flat: the least of some fits, nan without a slope.

    2 Phi(-|mean| / sd) of the posterior, which is shrunk, so that it is rather too large than too small.
    """
    least: dict[str, float] = {}
    for fit in fits:
        frame = fit["coefficients"].to_dataset().to_dataframe().reset_index()
        for row in frame[frame["kind"] == "slope"].itertuples():
            chance = 2.0 * float(ndtr(-abs(row.mean) / row.sd))
            least[row.coefficient] = min(chance, least.get(row.coefficient, 1.0))
    return [least.get(column, np.nan) for column in columns]


def coefficient_table(answer: xr.DataTree, data: Data) -> pd.DataFrame:
    """Name, kind, mean, sd, low, high: slopes per unit of their columns, levels by their names.

    All are on the scale of the latent function, of a real outcome in its units. The intercept is where all
    columns are at their means.
    """
    frame = answer["coefficients"].to_dataset().to_dataframe().reset_index()
    frame = frame[frame["kind"].isin(SHOWN)]
    scale = data.target.scale if data.target.kind == "real" else 1.0
    rows = []
    for row in frame.itertuples(index=False):
        unit = (
            scale / _per(row.coefficient, row.kind, data.encoding) if row.kind != "share" else 1.0
        )
        shift = data.target.shift if row.kind == "intercept" and data.target.kind == "real" else 0.0
        numbers = {key: unit * getattr(row, key) for key in ("mean", "sd", "low", "high")}
        numbers |= {key: numbers[key] + shift for key in ("mean", "low", "high")}
        rows.append({"name": _name(row.coefficient, data.encoding), "kind": row.kind, **numbers})
    return pd.DataFrame(rows, columns=["name", "kind", "mean", "sd", "low", "high"])


def _per(name: str, kind: str, encoding: Encoding) -> float:
    """Units of a column that its input's one is, of slopes and of their spread among levels.

    The standard deviation of a curve, which may have the name of its column, is in units of the outcome.
    """
    inside = name.removeprefix("sd(").removesuffix(")") if kind == "sd" else name
    column, of_levels, _ = inside.partition(":")
    if not (kind == "slope" or (kind == "sd" and of_levels)) or column not in encoding.columns:
        return 1.0
    code = encoding.code(column)
    return code.scale if isinstance(code, NumberCode) else 1.0


def _name(name: str, encoding: Encoding) -> str:
    """A coefficient with names of levels instead of their codes."""
    if not name.endswith("]"):
        return name
    front, _, inside = name[:-1].rpartition("[")
    columns, codes = front.rpartition(":")[2].split(", "), inside.split(", ")
    if len(columns) != len(codes):
        return name
    return f"{front}[{', '.join(map(_level, columns, codes, [encoding] * len(codes)))}]"


def _level(column: str, text: str, encoding: Encoding) -> str:
    code = encoding.code(column) if column in encoding.columns else None
    if not isinstance(code, GroupCode):
        return text
    place = int(float(text))
    return code.levels[place] if 0 <= place < len(code.levels) else "(no name)"
