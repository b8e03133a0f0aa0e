"""Average effects: what is expected on average over the learning rows with a column set to each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.predictive import units_of
from gpmcflow.contrasts.draws_at import outcome_attributes
from gpmcflow.contrasts.latents import draw_latents
from gpmcflow.contrasts.responses import of_kind, require_kind
from gpmcflow.contrasts.summaries import (
    SCALES,
    compared,
    no_effect,
    require_interval,
    require_scale,
    summarised,
)
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gp_model import GPModel

N_DRAWS = 200
MOST_DENSE, MOST_BASIS = 1000, 20_000  # rows times values whose latents are drawn jointly
FEW_VALUES = 8  # a column of at most so many numbers is shown value by value
N_POINTS = 11  # of a grid
ENDS = (0.03, 0.97)  # quantiles between which a grid lies


class Grid(NamedTuple):
    """Values that a column is set to."""

    column: str
    values: np.ndarray  #: natural values, as new inputs have them
    is_number: bool
    is_date: bool

    @property
    def coordinate(self) -> np.ndarray:
        """Values as a coordinate: dates as such."""
        if self.is_date:
            return pd.Timestamp(0) + pd.to_timedelta(self.values, unit="D")
        return self.values

    def label(self, k: int) -> str:
        """A value in words."""
        if self.is_date:
            return f"{self.coordinate[k]:%Y-%m-%d}"
        return f"{self.values[k]:g}" if self.is_number else str(self.values[k])


def effects(
    draws: Any,
    column: str,
    *,
    by: str | None = None,
    at: Mapping[str, Any] | None = None,
    values: Sequence[Any] | None = None,
    compare: str | None = None,
    kind: str = "mean",
    of: str | None = None,
    interval: float = 0.95,
    n_rows: int | None = None,
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Average response over the learning rows with a column set to each of some values.

    Of each posterior draw it is mean_i E[y | x_i with column = v], all other columns as they are in the rows
    (a population-averaged prediction, or average counterfactual). ``compare`` says how these averages differ.

    Parameters
    ----------
    draws:
        As of `draws_at`.
    column:
        The column that is set.
    by:
        A second column that is set to each of its levels, or values, too.
    at:
        Other columns with the value that all rows have, such as ``{"ward": "a"}``.
    values:
        Values of the column; by default all levels of words, all numbers where they are few, else 11 from the
        3 % to the 97 % quantile.
    compare:
        None for the averages; "difference", "ratio" or "odds" of all pairs of levels, of numbers of the last
        and the first value; "slope" for the difference of these per unit of the column (per day of dates).
    kind:
        "mean", or "latent" for eta.
    of:
        Of classes, the one whose probability the mean is; of several latent functions, which one.
    interval:
        Probability of the interval, between quantiles of equal tails.
    n_rows:
        Learning rows that are averaged over, drawn at random if fewer than all: by default as many as keep
        rows times values within 1000, with basis functions 20,000, as they are drawn jointly.
    n_draws, model, seed:
        As of `draws_at`.

    Returns
    -------
    Variables mean, median, sd, low, high (column, by), or of comparisons (contrast, by), with probability,
    that of a difference above 0 or a ratio above 1. Attribute n_rows says how many rows were averaged over.

    Raises
    ------
    InputError:
        For a column that the model does not have, unknown values, and a slope of words.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> trial = {"dose": [0.0, 1.0, 2.0, 3.0] * 4, "sex": ["f"] * 8 + ["m"] * 8}
    >>> trial["gain"] = [0.1, 1.1, 1.9, 3.2, 0.0, 0.9, 2.1, 2.9, 1.1, 2.0, 3.1, 3.9, 0.9, 2.1, 2.9, 4.1]
    >>> model = gp.GPModel.from_frame(trial, "gain", "linear(dose) + group(sex)", mean=1.5)
    >>> draws = gp.sample(model, gp.UnivariateSlice(), n_draws=100, n_chains=2)
    >>> slope = gp.effects(draws, "dose", compare="slope")
    >>> bool(0.9 < slope["mean"] < 1.1)
    True
    >>> list(gp.effects(draws, "sex").sex.values)
    ['f', 'm']
    """
    require_kind("effects", kind)
    require_interval("effects", interval)
    if kind == "response":
        raise InputError('effects: kind is "response"; allowed: "mean" or "latent"')
    if compare is not None:
        require_scale("effects", compare, (*SCALES, "slope"))
    if n_rows is not None and (
        isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 1
    ):
        raise InputError(f"effects: n_rows is {n_rows!r}; allowed: a whole number >= 1")
    _require_columns(column, by, at)

    def grids_of(own: GPModel, frame: pd.DataFrame) -> list[Grid]:
        for name in (column, *([] if by is None else [by]), *(at or {})):
            if name not in own.inputs.names:
                raise unknown_name("effects: column", str(name), own.inputs.names)
        first = [grid_of(own, column, frame, values)]
        return first if by is None else [*first, grid_of(own, by, frame, None)]

    drawn_averages, grids, attributes = average_draws(
        draws,
        grids_of,
        at=at,
        kind=kind,
        of=of,
        n_rows=n_rows,
        n_draws=n_draws,
        model=model,
        seed=seed,
    )
    beside = {grid.column: grid.coordinate for grid in grids[1:]}
    if compare is None:
        coords = {column: grids[0].coordinate, **beside}
        table = summarised(drawn_averages, [column, *beside], coords, interval)
    else:
        labels, pairs = _compared(drawn_averages, grids[0], compare)
        table = summarised(
            pairs, ["contrast", *beside], {"contrast": labels, **beside}, interval, no_effect(compare)
        )  # fmt: skip
        attributes["scale"] = compare
    return table.assign_attrs(attributes)


def _require_columns(column: str, by: str | None, at: Mapping[str, Any] | None) -> None:
    if by == column or {column, by} & set(at or {}):
        raise InputError(
            f"effects: a column is set twice, among {column!r}, by {by!r} and at {sorted(at or {})}; set "
            "each once"
        )


def average_draws(
    draws: Any,
    grids_of: Callable[[GPModel, pd.DataFrame], list[Grid]],
    *,
    at: Mapping[str, Any] | None = None,
    kind: str = "mean",
    of: str | None = None,
    response: Callable[[Any, np.ndarray], np.ndarray] | None = None,
    n_rows: int | None = None,
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, list[Grid], dict[str, Any]]:
    """Draws (draw, *g) of the average response at all combinations of the values of some grids.

    ``grids_of`` names them, given the model and its learning rows. With them, the grids and attributes.
    ``response`` takes the place of a kind: it makes (draw, m, ..) of a likelihood and of draws of eta
    (draw, .., m), of which the last axes are kept.
    """
    rng = np.random.default_rng(seed)
    grids: list[Grid] = []
    used: list[int] = []

    def rows_of(own: GPModel) -> np.ndarray:
        frame = learning_frame(own)
        grids[:] = grids_of(own, frame)
        g = int(np.prod([len(grid.values) for grid in grids]))
        most = max(1, (MOST_BASIS if own.basis else MOST_DENSE) // g) if n_rows is None else n_rows
        if len(frame) > most:
            frame = frame.iloc[np.sort(rng.choice(len(frame), most, replace=False))]
        used[:] = [len(frame)]
        frame = frame.assign(**dict(at or {}))
        settings = product(*(grid.values for grid in grids))
        names = [grid.column for grid in grids]
        blocks = [frame.assign(**dict(zip(names, setting, strict=True))) for setting in settings]
        return own.new_inputs(pd.concat(blocks, ignore_index=True))

    _, drawn = draw_latents("effects", draws, rows_of, model=model, n_draws=n_draws, rng=rng)
    averages, attributes = [], {}
    for setting, eta in drawn:
        one = units_of(setting.likelihood, eta.shape[-1], "effects", exposure=None, trials=None)
        if response is None:
            values = of_kind(kind, setting.likelihood, eta, one, of=of)
        else:
            values = response(setting.likelihood, eta)
        shape = (len(eta), *(len(grid.values) for grid in grids), used[0], *values.shape[2:])
        averages.append(values.reshape(shape).mean(1 + len(grids)))
        attributes = outcome_attributes(setting.model, kind) | {"n_rows": used[0]}
    return np.concatenate(averages), grids, attributes


def learning_frame(model: GPModel) -> pd.DataFrame:
    """The inputs of the model's cases as a frame: words as words, numbers as they were, dates as days."""
    inputs: Inputs = model.inputs
    natural = inputs.values + inputs.shifts
    columns: dict[str, Any] = {}
    for k, name in enumerate(inputs.names):
        words = inputs.levels.get(name)
        cells = natural[:, k]
        columns[name] = cells if words is None else np.array(words, dtype=object)[cells.astype(int)]
    return pd.DataFrame(columns)


def grid_of(model: GPModel, column: str, frame: pd.DataFrame, values: Sequence[Any] | None) -> Grid:
    """The values that a column is set to: those stated, all levels or few numbers, else `N_POINTS`."""
    is_number = column not in model.inputs.levels
    is_date = column in model.inputs.dates
    if values is not None:
        stated = pd.Series(list(values), dtype=object)
        if not len(stated):
            raise InputError(f"effects: no values for {column!r}; give one or more")
        try:
            if is_date:
                days = pd.to_datetime(stated, utc=True) - pd.Timestamp(0, tz="UTC")
                stated = days / pd.Timedelta(days=1)
            kept = stated.astype(float if is_number else str)
        except (TypeError, ValueError):
            kind = "dates" if is_date else "numbers"
            raise InputError(
                f"effects: values of {column!r} are {list(values)!r}; allowed: {kind}"
            ) from None
        return Grid(column, kept.to_numpy(dtype=float if is_number else object), is_number, is_date)
    if not is_number:
        words = np.array(model.inputs.levels[column], dtype=object)
        return Grid(column, words, False, False)
    seen = frame[column].to_numpy()
    points = np.unique(seen)
    places = {k for leaf, own in zip(model.leaves, model._columns, strict=True)
              for k in own if leaf.levels_allowed}  # fmt: skip
    if len(points) > FEW_VALUES and model.inputs.names.index(column) not in places:
        low, high = np.quantile(seen, ENDS)
        ends = (low, high) if low < high else (points[0], points[-1])
        points = np.linspace(*ends, N_POINTS)
    return Grid(column, points, True, is_date)


def _compared(averages: np.ndarray, grid: Grid, scale: str) -> tuple[list[str], np.ndarray]:
    """Labels and draws (draw, contrast, ..) of the pairs of values: all of words, the ends of numbers."""
    n = len(grid.values)
    if n < 2:
        raise InputError(f"effects: {grid.column!r} has one value; allowed: two or more to compare")
    if scale == "slope":
        if not grid.is_number:
            raise InputError(
                f'effects: {grid.column!r} holds words, which have no slope; write compare="difference"'
            )
        run = float(grid.values[-1] - grid.values[0])
        return [f"per unit of {grid.column}"], (averages[:, -1:] - averages[:, :1]) / run
    pairs = [(n - 1, 0)] if grid.is_number else [(j, i) for i, j in combinations(range(n), 2)]
    sign = "-" if scale == "difference" else "/"
    labels = [f"{grid.label(j)} {sign} {grid.label(i)}" for j, i in pairs]
    values = [compared(averages[:, j], averages[:, i], scale, "effects") for j, i in pairs]
    return labels, np.stack(values, axis=1)
