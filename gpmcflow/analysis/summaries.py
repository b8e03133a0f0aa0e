"""What a fitted model says: predictions, effects of columns, a map, leave-one-out; of draws and of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.spatial import cKDTree

from gpmcflow.analysis import effects
from gpmcflow.analysis.areas import are_told_apart, area_summary, area_sweep
from gpmcflow.analysis.data import Data, Rows
from gpmcflow.analysis.grades import (
    average_grades,
    class_predictions,
    response_eta,
    with_response,
)
from gpmcflow.analysis.interactions import Pairs
from gpmcflow.analysis.models import functions_of
from gpmcflow.analysis.survival_curves import average_survival, times_of
from gpmcflow.approximations.conditional import Conditional, Predictor
from gpmcflow.approximations.leave_one_out import LeaveOneOut
from gpmcflow.approximations.multi_prediction import MultiConditional, multi_predictive
from gpmcflow.approximations.predictive import (
    QUANTILES,
    by_blocks,
    log_predictive_density,
    mixture,
    predictive,
    responses,
)
from gpmcflow.contrasts.reported import Reported, expected_quantiles
from gpmcflow.covariances.leaves import Linear, Periodic, Polynomial
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.data.times import last_of
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.gp_model import GPModel

N_EFFECTS = 120  # settings of the hyperparameters whose effects of columns are drawn
N_AVERAGES = 480  # joint draws of an effect, shared among them
N_SHIFTS = 4  # of them at which averages over all rows are compared with those over the joint ones
LARGEST_COUNT = 6  # counts whose probabilities are kept; those above are one class
MAP_POINTS = 41  # of the grid along the longer side of a map
AVERAGED_POINTS, MAP_ROWS = 31, 16  # and learning rows, where other columns are averaged over
N_MAPS = 40  # settings of the hyperparameters that such a map is drawn from, and bands of grades and times
NORMAL_95 = 1.96  # sd of half a 95 % interval: draws of neighbours differ by chance
MAP_BLOCK = 160  # rows of places drawn jointly
FAR, LEAST_FAR = 3.0, 0.08  # distances of neighbours, shares of a map: beyond, it is empty
CURVE_POINTS, CURVE_ROWS = 101, 300  # places of a curve: evenly spread, and of learning rows
HALF = 0.5  # correlation at which similarity has faded: how far it reaches
N_DISTANCES = 400


@dataclass(frozen=True)
class Places:
    """Inputs at which the response is predicted one by one: rows of files, and a map or a curve."""

    data: Data
    swept: Sequence[effects.Sweep]
    grid: pd.DataFrame | None  #: inputs of a map or a curve
    cells: effects.Sweep | None = (
        None  #: places of a map in some rows, where there are other columns
    )
    areas: effects.Sweep | None = None  #: areas of a map or a graph

    @classmethod
    def of(
        cls, data: Data, rng: np.random.Generator, season: dict[str, Any] | None = None
    ) -> Places:
        """Places of a data set: a map if it has coordinates, a curve of its one column of numbers or days.

        A column with a season, `season_of` a model, is looked at in parts of its cycles.
        """
        coordinates = list(data.encoding.coordinates)
        columns = [column for column in data.encoding.explaining if column not in coordinates]
        kept, grid, cells = effects.sweeps(data, rng, season), None, None
        grouped, X = bool(data.encoding.groups), data.learning.X
        if coordinates and (columns or grouped):
            rows = np.sort(rng.choice(len(X), min(MAP_ROWS, len(X)), replace=False))
            places = _map_inputs(data, coordinates, AVERAGED_POINTS)
            cells = effects.place_sweep(data, X.iloc[rows], places.to_numpy())
        elif coordinates:
            known = {name: 0.0 for name in data.encoding.names if name not in coordinates}
            grid = _map_inputs(data, coordinates, MAP_POINTS).assign(**known)[data.encoding.names]
        elif (
            len(columns) == 1 and not grouped and data.encoding.code(columns[0]).kind != "category"
        ):
            marks = dict.fromkeys(data.encoding.names[1:], 0.0)  # of missing cells
            grid = pd.DataFrame({columns[0]: _line(data, columns[0])}).assign(**marks)
        return cls(data, kept, grid, cells, area_sweep(data))

    def scored(self, alone: bool) -> Places:
        """With ``alone`` the held-out rows and no other place."""
        return Places(self.data._replace(new=None), (), None) if alone else self

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

    With a column of times also fitted, means at the learning rows; of times to an end also survival, shares
    that last longer by column; of grades also grades, the probability of each by column. Responses are in
    natural units.
    ``n_predictors`` settings of the hyperparameters share `N_AVERAGES` draws, at most `N_EFFECTS` of them.
    """
    data, kind, linear = places.data, places.data.target.kind, places.data.target.own.by_latents
    drawn = range(0, n_predictors, max(1, n_predictors // N_EFFECTS))
    n_each = max(1, N_AVERAGES // len(drawn))
    shifted = set(drawn[:: max(1, len(drawn) // N_SHIFTS)])
    mapped = set(drawn[:: max(1, len(drawn) // N_MAPS)])
    parts: dict[str, list[Conditional]] = {name: [] for name in places.tables}
    averages, shifts, longer, grades = ([[] for _ in places.swept] for _ in range(4))  # type: tuple[list[list], ...]
    maps, by_area, levels, fitted = ([] for _ in range(4))  # type: tuple[list[np.ndarray], ...]
    coded: dict[str, np.ndarray] = {}
    pairs: Pairs | None = None
    times = times_of(data) if kind == "survival" else np.empty(0)
    for k, predictor in enumerate(predictors):
        if k == 0:
            model = predictor.model
            coded = {name: model.new_inputs(X, "new") for name, X in places.tables.items()}
            swept = effects.CodedInputs(model, places.swept)
            joint = effects.CodedInputs(model, places.swept, joint=True)
            learnt = model.new_inputs(data.learning.X, "new") if _may_repeat(places) else None
            blocks = [
                (part, model.new_inputs(part.inputs, "new")) for part in _blocks(places.cells)
            ]
            areas = places.areas and model.new_inputs(places.areas.inputs, "new")
        for name, X in coded.items():
            parts[name].append(predictor.moments(X))
        if k not in drawn:
            continue
        own = as_reported(predictor, data)
        if len(places.swept) > 1:
            pairs = pairs or Pairs(own, model, places.swept, data, linear=linear)
            pairs.draw(own, n_each)
        for draws, sweep, X in zip(averages, places.swept, joint, strict=True):
            draws.append(effects.sampled_averages(own, sweep, X, rng, n_each, linear=linear))
        if k in shifted and learnt is not None:
            fitted.append(np.atleast_2d(predictor.moments(learnt).mean.mean(0))[0])
        for at, (sweep, X, some) in enumerate(zip(places.swept, swept, joint, strict=True)):
            if k in shifted:
                shifts[at].append(effects.average_shift(own, sweep, X, linear=linear))
            g = len(sweep.values)
            if k not in mapped:
                continue
            if kind == "survival":
                longer[at].append(average_survival(predictor, some, g, times / data.target.scale))
            if data.target.own.leveled:
                grades[at].append(average_grades(predictor, X, g))
        n = max(1, N_AVERAGES // len(mapped))
        if k in mapped and places.areas:
            by_area.append(
                effects.sampled_averages(own, places.areas, areas, rng, n, linear=linear)
            )
        if k in mapped and places.cells:
            of_blocks = [
                effects.sampled_averages(own, sweep, X, rng, n, linear=linear)
                for sweep, X in blocks
            ]
            maps.append(effects.on_link(np.concatenate(of_blocks, axis=1), kind))
            of_blocks = [effects.average_level(own, sweep, X, linear=linear) for sweep, X in blocks]
            levels.append(np.concatenate(of_blocks))
    groups = {}
    for name, own in parts.items():
        rows = {"held_out": data.held_out, "new": data.new}.get(name)
        units = {} if rows is None else rows.units(kind)
        eta = mixture([_plain(part) for part in own], **units)
        groups[name] = predictions_of(eta, rows, data)
    for draws, moved, sweep in zip(averages, shifts, places.swept, strict=True):
        over_all = effects.on_link(np.concatenate(draws), kind) + np.mean(moved, axis=0)
        average = ("sample", "value"), data.natural(effects.from_link(over_all, kind))
        groups[f"effects/{sweep.key}"] = xr.Dataset({"average": average})
    groups |= dict(pairs.groups(data)) if pairs else {}
    for own, sweep in zip(grades, places.swept, strict=True):
        if own:
            mean = ("grade", "value"), np.mean(own, axis=0)
            coords = {"grade": list(data.target.levels)}
            groups[f"grades/{sweep.key}"] = xr.Dataset({"probability": mean}, coords)
    for own, sweep in zip(longer, places.swept, strict=True):
        if own:
            mean = ("time", "value"), np.mean(own, axis=0)
            groups[f"survival/{sweep.key}"] = xr.Dataset({"longer": mean}, {"time": times})
    if fitted:
        mean = data.natural(effects.from_link(np.mean(fitted, axis=0), kind))
        groups["fitted"] = xr.Dataset({"mean": ("case", mean * data.learning.effort(kind))})
    if by_area and places.areas:
        values = data.natural(np.concatenate(by_area))
        if are_told_apart(values):
            groups["areas"] = area_summary(values, data, places.areas.column)
    if maps:
        level, sd = np.mean(levels, axis=0), np.concatenate(maps).std(0)
        ends = {"mean": level, "low": level - NORMAL_95 * sd, "high": level + NORMAL_95 * sd}
        natural = {name: data.natural(effects.from_link(end, kind)) for name, end in ends.items()}
        groups["map"] = xr.Dataset({name: ("case", end) for name, end in natural.items()})
    return xr.DataTree.from_dict(groups)


def _may_repeat(places: Places) -> bool:
    """Whether what is left unexplained is looked at for a season: of an answer, over a column of times."""
    data = places.data
    timed = bool(places.swept and data.encoding.times)
    return timed and data.target.kind in ("real", "positive", "counts")


def _blocks(cells: effects.Sweep | None) -> list[effects.Sweep]:
    """Places of a map, some at a time."""
    if cells is None:
        return []
    g = len(cells.values)
    size = max(1, MAP_BLOCK // len(cells.rows))
    return [
        cells._replace(values=cells.values[a:b], settings=cells.settings[a:b])
        for a, b in pairwise([*range(0, g, size), g])
    ]


def as_reported(predictor: Predictor, data: Data) -> Reported:
    """The predictor of the response that the page reports, for one unit of exposure."""
    likelihood = predictor.likelihood
    if not data.target.own.by_latents:
        likelihood = _without_units(likelihood)
    return with_response(replace(predictor, likelihood=likelihood), data)


def _without_units(likelihood: Likelihood) -> Likelihood:
    units = {name: 1.0 for name in ("exposure", "trials") if name in likelihood.constants}
    units |= dict.fromkeys(likelihood.of_observation)
    return likelihood.with_constants(**units) if units else likelihood


def _plain(part: Conditional) -> Conditional:
    return part._replace(likelihoods=[_without_units(own) for own in part.likelihoods])


def predictions_of(eta: Conditional, rows: Rows | None, data: Data) -> xr.Dataset:
    """Predictions by case in natural units; of rows with outcomes, the log density of these, too.

    ``eta`` are the predictors with the units of the rows.
    """
    kind, target, rng = data.target.kind, data.target, np.random.default_rng(0)
    several = isinstance(eta, MultiConditional)
    if several and kind == "classes":
        table = class_predictions(eta, target.split - 1, rng)
        table = table.assign_coords(grade=list(target.levels))
        if rows is not None and rows.y is not None:
            table["log_density"] = ("new_case", eta.log_density(rows.y))
        return table.rename(new_case="case")

    def described(part: Any) -> xr.Dataset:
        response = part.responses(rng) if several else responses(part, rng)
        table = (multi_predictive if several else predictive)(part, response)
        table = table.drop_vars(["latent_mean", "latent_sd"])
        if several:  # the quantiles of the first
            table = table.isel(function=0, drop=True)
        if kind == "counts":
            shares = [(response == count).mean(0) for count in range(LARGEST_COUNT + 1)]
            shares.append((response > LARGEST_COUNT).mean(0))
            table["share"] = (("count", "new_case"), np.stack(shares))
            rates = expected_quantiles(_plain(part), QUANTILES, rng)
            table["rate_quantile"] = (("quantile", "new_case"), rates)
        if target.own.scaling == "geometric":
            levels = expected_quantiles(part, QUANTILES, rng)
            table["level_quantile"] = (("quantile", "new_case"), levels * target.scale)
        return table

    table = by_blocks(response_eta(eta, data), described)
    if kind == "grades":
        table = table.drop_dims("class")
        table["grade_probability"] = (("grade", "new_case"), eta.class_probabilities())
        table = table.assign_coords(grade=list(target.levels))
    for name in ("response_mean", "response_quantile"):
        table[name] = data.natural(table[name])
    table["response_sd"] = table["response_sd"] * target.scale
    if rows is not None and rows.y is not None:
        density = _log_density(eta, rows.constants(target), rows.y)
        table["log_density"] = ("new_case", density - rows.log_units(target))
        if kind == "survival":
            # how likely it was to last longer; of an interval, longer than a time drawn within it
            low, high = rows.ends
            last = last_of(low, high)
            longer = _log_density(eta, {"event": np.zeros(len(last))}, last / target.scale)
            inside = np.where(low < last, np.exp(density), 0.0) * rng.random(len(last))
            table["survival"] = ("new_case", np.exp(longer) + inside)
    return table.rename(new_case="case")


def _log_density(
    eta: Conditional | MultiConditional, constants: dict[str, np.ndarray], y: np.ndarray
) -> np.ndarray:
    eta = eta._replace(likelihoods=[own.with_constants(**constants) for own in eta.likelihoods])
    return (
        eta.log_density(y) if isinstance(eta, MultiConditional) else log_predictive_density(eta, y)
    )


def with_leave_one_out(tree: xr.DataTree, loo: LeaveOneOut, data: Data) -> xr.DataTree:
    """The tree with group leave_one_out (case: log_density in natural units, pareto_k), and its method.

    Of grades and shares also what each case is predicted to be: grade_probability, or response_mean.
    """
    density = loo.log_density - data.learning.log_units(data.target)
    variables = {"log_density": ("case", density), "pareto_k": ("case", loo.pareto_k)}
    attributes = {"by": loo.by, "ep_difference": loo.ep_difference}
    table = xr.Dataset(variables, attrs=attributes)
    if loo.response is not None:
        of_grades = loo.response.ndim > 1
        name = "grade_probability" if of_grades else "response_mean"
        table[name] = (("grade", "case") if of_grades else "case", loo.response)
    tree["leave_one_out"] = xr.DataTree(table)
    return tree


def _map_inputs(data: Data, coordinates: list[str], n_points: int) -> pd.DataFrame:
    """Coordinates on a grid over the learning rows, as inputs, without those that no row is near."""
    X = data.learning.X
    low, high = X[coordinates].min().to_numpy(), X[coordinates].max().to_numpy()
    sides = high - low
    counts = np.maximum(2, np.rint(n_points * sides / sides.max())).astype(int)
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)]
    east, north = np.meshgrid(*axes)
    grid, seen = np.column_stack([east.ravel(), north.ravel()]), X[coordinates].drop_duplicates()
    tree = cKDTree(seen.to_numpy())
    neighbour = np.median(tree.query(seen.to_numpy(), k=min(2, len(seen)))[0][:, -1])
    near = tree.query(grid)[0] <= max(FAR * neighbour, LEAST_FAR * sides.max())
    return pd.DataFrame(grid[near], columns=coordinates)


def reach(model: GPModel, thetas: np.ndarray, data: Data) -> xr.DataTree:
    """Distances at which the prior correlation of two places is one half, (sample, direction), natural units.

    At each theta (sample, d), of the terms that fade in the direction. Infinite where the correlation stays
    above up to twice the longer side of the map, or no term fades.
    """
    whole, ((model, *_), (own, *_)) = model, functions_of(model)
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
            full = whole.full(theta)[own]
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
