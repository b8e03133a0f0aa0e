"""What columns say together, where none of them has a clear effect of its own: they may share one.

"Other things equal" takes a column away from those that it goes with, to where few rows are. Here columns
that go with each other move along, as in the rows of the file; and the effects of all are judged at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis import effects
from gpmcflow.analysis.data import Data
from gpmcflow.analysis.summaries import Places, as_reported
from gpmcflow.data.codes import NumberCode

ALIKE = 0.5  # share of the variance of one column that another knows, from which they go together
N_STEPS, FEWEST = 12, 3  # steps of rows in the order of what a set has in common, and rows in each
N_ROWS_ALL = 16  # rows that the averages of all columns are over
N_SETTINGS, N_DRAWS = 40, 480  # of the hyperparameters, and draws that they share
N_FLAT = 20_000
_COLUMNS = ("columns", "alike", "change", "change_low", "change_high", "chance")


def with_together(
    tree: xr.DataTree, predictors: Iterable[Any], n_predictors: int, places: Places
) -> xr.DataTree:
    """The tree with groups ``together``: draws of the average response at values of a set of columns.

    The sets are those of `sets_of` among the columns whose effects in the tree are not clear. ``predictors``
    are those that `describe` took.
    """
    data, rng = places.data, np.random.default_rng(0)
    kind, linear = data.target.kind, data.target.own.by_latents
    unclear = []
    for sweep in places.swept:
        averages = tree[f"effects/{sweep.key}/average"].values
        chance = effects.effect(sweep, averages, kind).chance
        if sweep.kind != "place" and chance * len(places.swept) >= effects.CLEAR_CHANCE:
            unclear.append(sweep.column)
    sets = sets_of(data, unclear)
    if not sets:
        return tree
    swept = [(line if alike else each)(data, columns, rng) for columns, alike in sets]
    drawn = range(0, n_predictors, max(1, n_predictors // N_SETTINGS))
    draws: list[list[np.ndarray]] = [[] for _ in sets]
    coded: list[np.ndarray] = []
    for k, predictor in enumerate(predictors):
        if k not in drawn:
            continue
        coded = coded or [predictor.model.new_inputs(sweep.inputs, "new") for sweep in swept]
        own, n = as_reported(predictor, data), max(1, N_DRAWS // len(drawn))
        for kept, sweep, X in zip(draws, swept, coded, strict=True):
            kept.append(effects.sampled_averages(own, sweep, X, rng, n, linear=linear))
    for k, (kept, sweep, (columns, alike)) in enumerate(zip(draws, swept, sets, strict=True)):
        values = data.natural(np.concatenate(kept))
        about = {"columns": json.dumps(columns), "alike": int(alike), "usual": sweep.usual}
        found = xr.Dataset({"average": (("sample", "value"), values)}, attrs=about)
        at = np.array(sweep.values).reshape(len(values[0]), -1)
        found["at"] = (("value", "of"), at)
        tree[f"together/{k}"] = xr.DataTree(found)
    return tree


def sets_of(data: Data, columns: Sequence[str]) -> list[tuple[list[str], bool]]:
    """Sets of at least two of some columns, and whether they go with each other.

    First those that are joined by pairs of which one knows at least `ALIKE` of the other, then all of them.
    """
    alike = {column: {column} for column in columns}
    bases = {column: basis_of(data, column) for column in columns}
    for first, second in combinations(columns, 2):
        if association(bases[first], bases[second]) >= ALIKE:
            both = alike[first] | alike[second]
            alike |= dict.fromkeys(both, both)
    joined = {frozenset(own) for own in alike.values() if len(own) > 1}
    sets = [([c for c in columns if c in own], True) for own in joined]
    sets.sort(key=lambda found: columns.index(found[0][0]))
    if len(columns) > 1 and all(len(own) < len(columns) for own, _ in sets):
        sets.append((list(columns), False))
    return sets


def basis_of(data: Data, column: str) -> np.ndarray:
    """Orthonormal columns that span the centred inputs of a column (n, rank)."""
    X = data.learning.X[_inputs(data, column)].to_numpy(float)
    left, sizes, _ = np.linalg.svd(X - X.mean(0), full_matrices=False)
    return left[:, sizes > 1e-9 * max(sizes.max(), 1.0)]


def association(first: np.ndarray, second: np.ndarray) -> float:
    """Squared canonical correlation of two bases: r^2 of numbers, eta^2 of a category."""
    product = first.T @ second
    return float(np.linalg.svd(product, compute_uv=False)[0] ** 2) if product.size else 0.0


def line(data: Data, columns: Sequence[str], rng: np.random.Generator) -> effects.Sweep:
    """Columns that go with each other set to their means along what they have in common, in other rows.

    That is the first principal component of their inputs; rows in its order are taken in `N_STEPS` steps.
    Categories take their most frequent level; no cell is missing.
    """
    X, encoding = data.learning.X, data.encoding
    alone = set(columns) == set(encoding.explaining) and not encoding.groups
    rows = X.iloc[
        np.sort(rng.choice(len(X), 1 if alone else min(effects.N_JOINT, len(X)), replace=False))
    ]
    names = [name for column in columns for name in _inputs(data, column)]
    own = X[names].to_numpy(float)
    own = own - own.mean(0)
    score = np.linalg.svd(own / np.maximum(own.std(0), 1e-9), full_matrices=False)[0][:, 0]
    numbers = [name for name in names if name in columns]  # from low to high, the first of them
    score *= np.sign(score @ own[:, names.index(numbers[0]) if numbers else 0]) or 1.0
    steps = np.array_split(np.argsort(score, kind="stable"), max(2, min(N_STEPS, len(X) // FEWEST)))
    settings = []
    for step in steps:
        setting = {name: 0.0 for column in columns for name in encoding.inputs_of(column)}
        for column in columns:
            mean = X.iloc[step][_inputs(data, column)].mean()
            if not isinstance(encoding.code(column), NumberCode):
                mean = 1.0 * (mean.index == mean.idxmax()) if mean.sum() >= 0.5 else 0.0 * mean
                mean = pd.Series(mean, _inputs(data, column))
            setting |= mean.to_dict()
        settings.append(setting)
    values = tuple(float(score[step].mean()) for step in steps)
    usual = (1, len(steps) - 2) if len(steps) >= 10 else (0, len(steps) - 1)
    return effects.Sweep(", ".join(columns), "number", values, usual, rows, tuple(settings))


def each(data: Data, columns: Sequence[str], rng: np.random.Generator) -> effects.Sweep:
    """Each of some columns set to some values, one column after another, over the same rows.

    The values are (place of the column, share of the rows): levels, few numbers as they are, or quantiles.
    """
    X, encoding = data.learning.X, data.encoding
    rows = X.iloc[np.sort(rng.choice(len(X), min(N_ROWS_ALL, len(X)), replace=False))]
    values, settings = [], []
    for place, column in enumerate(columns):
        names = _inputs(data, column)
        found = X[names].value_counts(normalize=True)
        if len(names) == 1 and len(found) > effects.FEW_VALUES:
            parts = np.array_split(np.sort(X[column].to_numpy()), effects.FEW_VALUES)
            found = pd.Series({(float(np.median(part)),): len(part) / len(X) for part in parts})
        for cells, share in found.items():
            known = dict.fromkeys(encoding.inputs_of(column), 0.0)
            settings.append(known | dict(zip(names, cells, strict=True)))
            values.append((place, share))
    return effects.Sweep(", ".join(columns), "each", tuple(values), (0, 0), rows, tuple(settings))


def _inputs(data: Data, column: str) -> list[str]:
    """Inputs of a column, but for that of missing cells."""
    names = data.encoding.inputs_of(column)
    if isinstance(data.encoding.code(column), NumberCode):
        return [column]
    return [name for name in names if name != f"{column} missing"]


def spread_chance(draws: np.ndarray, at: np.ndarray) -> float:
    """Chance of averages that differ as much as the mean of draws (draw, g), had no column an effect.

    ``at`` (g, 2) are the columns that each is of and the shares of the rows. The weighted sum of squares
    about the mean of each column is compared with that of averages that vary about equal ones as the draws do
    about their mean. The posterior is shrunk, so that the chance is rather too large than too small.
    """
    apart = draws.copy()
    for place in np.unique(at[:, 0]):
        own = at[:, 0] == place
        apart[:, own] -= np.average(draws[:, own], axis=1, weights=at[own, 1])[:, None]
    apart *= np.sqrt(at[:, 1])
    level = apart.mean(0)
    variances = np.linalg.svd(apart - level, compute_uv=False) ** 2 / max(len(draws) - 1, 1)
    if len(draws) < 2 or variances.sum() <= 1e-16 * draws.var():
        return 1.0
    flat = np.random.default_rng(0).chisquare(1.0, (N_FLAT, len(variances))) @ variances
    return float((1 + (flat >= np.sum(level**2)).sum()) / (1 + N_FLAT))


def together_table(answer: xr.DataTree, kind: str) -> pd.DataFrame:
    """A row a set: its columns as JSON, whether they go together, then also the change, and the chance."""
    rows = []
    for group in answer["together"].children.values() if "together" in answer.children else ():
        averages, at = group["average"].values, group["at"].values
        columns, alike = group.attrs["columns"], int(group.attrs["alike"])
        if alike:
            usual = tuple(int(end) for end in group.attrs["usual"])
            sweep = effects.Sweep(columns, "number", tuple(at[:, 0]), usual, pd.DataFrame())
            found = effects.effect(sweep, averages, kind)
            rows.append((columns, alike, *found.change, found.chance))
        else:
            chance = spread_chance(effects.on_link(averages, kind), at)
            rows.append((columns, alike, np.nan, np.nan, np.nan, chance))
    return pd.DataFrame(rows, columns=list(_COLUMNS))
