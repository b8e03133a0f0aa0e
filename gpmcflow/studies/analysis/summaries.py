"""What a fitted model says: predictions, effects of columns, a map, leave-one-out; of draws and of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.conditional import Conditional, Predictor
from gpmcflow.approximations.predictive import (
    by_blocks,
    log_predictive_density,
    mixture,
    predictive,
    responses,
)
from gpmcflow.covariances.leaves import Linear, Periodic, Polynomial
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.gp_model import GPModel
from gpmcflow.studies.analysis.data import Data, Rows
from gpmcflow.studies.analysis.effects import Sweep, sampled_averages, sweeps
from gpmcflow.studies.analysis.leave_one_out import LeaveOneOut

N_EFFECTS = 120  # joint draws of the latent function that effects of columns are averaged over
LARGEST_COUNT = 6  # counts whose probabilities are kept; those above are one class
MAP_POINTS = 41  # of the grid along the longer side of a map
CURVE_POINTS, CURVE_ROWS = 101, 300  # places of a curve: evenly spread, and of learning rows
HALF = 0.5  # correlation at which similarity has faded: how far it reaches
N_DISTANCES = 400


@dataclass(frozen=True)
class Places:
    """Inputs at which the response is predicted one by one: rows of files, and a map or a curve."""

    data: Data
    swept: Sequence[Sweep]
    grid: pd.DataFrame | None  #: inputs of a map or a curve

    @classmethod
    def of(cls, data: Data, rng: np.random.Generator) -> Places:
        """Places of a data set: a map if it has coordinates, a curve of its one column of numbers or days."""
        coordinates = list(data.encoding.coordinates)
        columns = [column for column in data.encoding.explaining if column not in coordinates]
        kept = [sweep for sweep in sweeps(data, rng) if sweep.column in columns]
        if coordinates:
            return cls(data, kept, _map_inputs(data, coordinates))
        alone = len(columns) == 1 and not data.encoding.groups
        if not alone or data.encoding.code(columns[0]).kind == "category":
            return cls(data, kept, None)
        line = pd.DataFrame({columns[0]: _line(data, columns[0])})
        marks = dict.fromkeys(data.encoding.names[1:], 0.0)  # of missing cells
        return cls(data, kept, line.assign(**marks))

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Inputs by name of the group of results."""
        rows = {"held_out": self.data.held_out, "new": self.data.new}
        tables = {name: part.X for name, part in rows.items() if part is not None and len(part.X)}
        return tables if self.grid is None else {**tables, "grid": self.grid}


def _line(data: Data, column: str) -> np.ndarray:
    """Inputs of a curve over the learning rows and a little beyond; dates without times at whole days.

    Some of the rows are among them, so that what repeats faster than evenly spread ones show is seen.
    """
    encoding = data.encoding
    X = data.learning.X
    filled = X[encoding.names[1:]].to_numpy().sum(1) > 0.0
    seen = np.unique(encoding.natural(column, X[column].to_numpy()[~filled]))
    margin = 0.05 * np.ptp(seen)
    even = np.linspace(seen[0] - margin, seen[-1] + margin, CURVE_POINTS)
    code = encoding.code(column)
    if code.kind == "date" and not code.has_times:
        seen, even = np.round(seen), np.round(even)
    rows = np.linspace(0, len(seen) - 1, min(CURVE_ROWS, len(seen))).astype(int)
    return encoding.standardised(column, np.union1d(even, seen[rows]))


def describe(
    predictors: Iterable[Predictor], n_predictors: int, places: Places, rng: np.random.Generator
) -> xr.DataTree:
    """Groups held_out, new, grid (predictions by case) and effects (draws of averages by column).

    Responses are in natural units. ``n_predictors`` settings of the hyperparameters share `N_EFFECTS` draws.
    """
    data, kind = places.data, places.data.target.kind
    every, n_each = max(1, n_predictors // N_EFFECTS), max(1, N_EFFECTS // n_predictors)
    parts: dict[str, list[Conditional]] = {name: [] for name in places.tables}
    averages: list[list[np.ndarray]] = [[] for _ in places.swept]
    coded: dict[str, np.ndarray] = {}
    for k, predictor in enumerate(predictors):
        if not coded:
            model = predictor.model
            coded = {name: model.new_inputs(X) for name, X in places.tables.items()}
            swept = [model.new_inputs(sweep.inputs) for sweep in places.swept]
            likelihood = _without_units(predictor.likelihood)
        for name, X in coded.items():
            parts[name].append(predictor.moments(X))
        if k % every == 0:
            own = replace(
                predictor, likelihood=likelihood if kind != "real" else predictor.likelihood
            )
            for draws, sweep, X in zip(averages, places.swept, swept, strict=True):
                draws.append(sampled_averages(own, sweep, X, rng, n_each, linear=kind == "real"))
    groups = {}
    for name, own in parts.items():
        rows = {"held_out": data.held_out, "new": data.new}.get(name)
        units = {} if rows is None else rows.units(kind)
        eta = mixture([_plain(part) for part in own], **units)
        groups[name] = predictions_of(eta, rows, data)
    for draws, sweep in zip(averages, places.swept, strict=True):
        values = _natural(data, np.concatenate(draws))
        groups[f"effects/{sweep.column.replace('/', '_')}"] = xr.Dataset(
            {"average": (("sample", "value"), values)}
        )
    return xr.DataTree.from_dict(groups)


def _without_units(likelihood: Likelihood) -> Likelihood:
    units = {name: 1.0 for name in ("exposure", "trials") if name in likelihood.constants}
    return likelihood.with_constants(**units) if units else likelihood


def _plain(part: Conditional) -> Conditional:
    return part._replace(likelihoods=[_without_units(own) for own in part.likelihoods])


def _natural(data: Data, values: np.ndarray) -> np.ndarray:
    target = data.target
    return values * target.scale + target.shift


def predictions_of(eta: Conditional, rows: Rows | None, data: Data) -> xr.Dataset:
    """Predictions by case in natural units; of rows with outcomes, the log density of these, too.

    ``eta`` are the predictors with the units of the rows.
    """
    kind, target, rng = data.target.kind, data.target, np.random.default_rng(0)

    def described(part: Conditional) -> xr.Dataset:
        response = responses(part, rng)
        table = predictive(part, response).drop_vars(["latent_mean", "latent_sd"])
        if kind == "counts":
            shares = [(response == count).mean(0) for count in range(LARGEST_COUNT + 1)]
            shares.append((response > LARGEST_COUNT).mean(0))
            table["share"] = (("count", "new_case"), np.stack(shares))
            table["rate_quantile"] = np.exp(table["latent_quantile"])
        return table

    table = by_blocks(eta, described)
    for name in ("response_mean", "response_quantile"):
        table[name] = table[name] * target.scale + target.shift
    table["response_sd"] = table["response_sd"] * target.scale
    if rows is not None and rows.y is not None:
        density = log_predictive_density(eta, rows.y)
        table["log_density"] = ("new_case", density - np.log(target.scale))
    return table.rename(new_case="case")


def with_leave_one_out(tree: xr.DataTree, loo: LeaveOneOut, data: Data) -> xr.DataTree:
    """The tree with group leave_one_out (case: log_density in natural units, pareto_k), and its method."""
    density = loo.log_density - np.log(data.target.scale)
    variables = {"log_density": ("case", density), "pareto_k": ("case", loo.pareto_k)}
    attributes = {"by": loo.by, "ep_difference": loo.ep_difference}
    tree["leave_one_out"] = xr.DataTree(xr.Dataset(variables, attrs=attributes))
    return tree


def _map_inputs(data: Data, coordinates: list[str]) -> pd.DataFrame:
    """Inputs on a grid over the learning rows; other inputs at their means."""
    X = data.learning.X
    low, high = X[coordinates].min().to_numpy(), X[coordinates].max().to_numpy()
    sides = high - low
    counts = np.maximum(2, np.rint(MAP_POINTS * sides / sides.max())).astype(int)
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)]
    east, north = np.meshgrid(*axes)
    grid = pd.DataFrame({name: np.full(east.size, X[name].mean()) for name in X.columns})
    grid[coordinates[0]], grid[coordinates[1]] = east.ravel(), north.ravel()
    return grid


def reach(model: GPModel, thetas: np.ndarray, data: Data) -> xr.DataTree:
    """Distances at which the prior correlation of two places is one half, (sample, direction), natural units.

    At each theta (sample, d), of the terms that fade in the direction. Infinite where the correlation stays
    above up to twice the longer side of the map, or no term fades.
    """
    coordinates, X = list(data.encoding.coordinates), data.learning.X
    origin = pd.DataFrame([X.mean()])
    at, distances = model.new_inputs(origin), np.full((len(thetas), len(coordinates)), np.inf)
    longest = np.ptp(X[coordinates].to_numpy(), axis=0).max()
    steps = np.linspace(0.0, 2.0 * longest, N_DISTANCES + 1)[1:]
    for column, name in enumerate(coordinates):
        if (fading := _fading(model, name)) is None:
            continue
        line = pd.concat([origin] * N_DISTANCES, ignore_index=True)
        line[name] += steps
        away, unit = model.new_inputs(line), data.encoding.code(name).scale
        for row, theta in enumerate(thetas):
            full = model.full(theta)
            sd = np.sqrt(fading.diagonal(full, at) * fading.diagonal(full, away))
            below = np.flatnonzero(fading.cross(full, away, at)[:, 0] < HALF * sd)
            if below.size:
                distances[row, column] = unit * steps[below[0]]
    variables = {"distance": (("sample", "direction"), distances)}
    return xr.DataTree(xr.Dataset(variables, {"direction": np.array(coordinates)}))


def _fading(model: GPModel, coordinate: str) -> CovarianceBuffers | None:
    """The sum of the terms that fade with the distance along a coordinate; None if there is none.

    Constants, straight lines, polynomials, periodic terms and those of other columns do not.
    """
    return model.terms_that(
        lambda term: any(
            not isinstance(leaf, (Linear, Polynomial, Periodic))
            and coordinate in (leaf.columns or ())
            for leaf in term.leaves()
        )
    )
