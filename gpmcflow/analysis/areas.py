"""The response area by area, and how probable it is that one lies above the overall mean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis.data import Data
from gpmcflow.analysis.effects import Sweep
from gpmcflow.data.codes import GroupCode
from gpmcflow.data.known_files import MAP
from gpmcflow.data.outcome_kinds import KINDS

ROUNDING = 1e-9  # of the largest response: areas that differ by less are not told apart


def area_sweep(data: Data) -> Sweep | None:
    """All areas in turn, in a row that has the mean of all other inputs; None without a map or a graph.

    Of other columns of groups the row has the first name.
    """
    column = data.encoding.known.column
    if column is None:
        return None
    row = data.learning.X.mean().to_frame().T
    for name in data.encoding.groups:
        row[name] = 0.0
    areas = _names(data, column)
    settings = tuple({column: float(code)} for code in range(len(areas)))
    return Sweep(column, MAP, areas, (0, 0), row, settings)


def _names(data: Data, column: str) -> tuple[str, ...]:
    code = data.encoding.code(column)
    assert isinstance(code, GroupCode)
    return code.levels


def area_weights(data: Data, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from of each area, and their units: exposures or trials (A,)."""
    codes = data.learning.X[column].to_numpy().astype(int)
    named = codes >= 0  # a row without a name has a code of its own
    n = len(_names(data, column))
    units = data.learning.effort(data.target.kind)[named]
    return np.bincount(codes[named], minlength=n), np.bincount(codes[named], units, minlength=n)


def are_told_apart(draws: np.ndarray) -> bool:
    """Whether draws (draw, A) differ from area to area by more than rounding does."""
    return bool(np.ptp(draws, axis=1).max() > ROUNDING * np.abs(draws).max())


def area_summary(draws: np.ndarray, data: Data, column: str) -> xr.Dataset:
    """Response of each area, what it is to the overall mean, and P(above it), of draws (draw, A).

    The overall mean is that of the areas with rows, each by its rows' exposures, trials or number, in each
    draw. Under a log link ``relative`` is the ratio to it, the relative risk; else the difference.
    """
    rows, units = area_weights(data, column)
    overall = draws @ (units / units.sum())
    ratios = KINDS[data.target.kind].ratios
    relative = draws / overall[:, None] if ratios else draws - overall[:, None]
    table: dict = {"rows": ("area", rows)}
    middles = {"mean": (draws, draws.mean(0)), "relative": (relative, np.median(relative, axis=0))}
    for name, (values, middle) in middles.items():
        ends = np.quantile(values, [0.025, 0.975], axis=0)
        table |= {name: ("area", middle)}
        table |= {
            f"{name}_{end}": ("area", own) for end, own in zip(("low", "high"), ends, strict=True)
        }
    table["above"] = ("area", (draws > overall[:, None]).mean(0))
    return xr.Dataset(table, {"area": np.array(_names(data, column), dtype=object).astype(str)})


def area_table(answer: xr.DataTree) -> pd.DataFrame:
    """Areas, the most probably above the overall mean first."""
    table = answer["areas"].to_dataset().to_dataframe().reset_index()
    order = ["above", "relative"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def outline_table(data: Data) -> pd.DataFrame:
    """Corners of the outlines: area, ring, x, y."""
    rows = [
        (area, number, x, y)
        for area, rings in data.encoding.known.outlines.items()
        for number, ring in enumerate(rings)
        for x, y in ring
    ]
    return pd.DataFrame(rows, columns=["area", "ring", "x", "y"])
