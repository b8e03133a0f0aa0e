"""How the average response changes with one column, everything else about the rows staying as it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import lapack

from gpmcflow.approximations.conditional import Predictor
from gpmcflow.datasets.codes import CategoryCode
from gpmcflow.studies.analysis.data import Data

N_ROWS = 40  # learning rows that averages are taken over
N_POINTS = 14  # of a curve, beside the ends of the usual range
N_ALONE = 151  # of that of the only column
FEW_VALUES = 8  # a column of at most so many whole numbers is shown value by value
MOST_LEVELS = 20  # of a category, the most frequent ones
USUAL = (0.1, 0.9)  # quantiles of the usual range of a column
SHOWN = (0.03, 0.97)  # quantiles between which a curve is drawn
LEAST_VARIANCE = 1e-11  # relative; what is left of a joint covariance below it is not drawn


class Sweep(NamedTuple):
    """A column set to some values in turn, in each of some rows."""

    column: str
    kind: str  #: number, date or category
    values: tuple  #: natural numbers (g), or the most frequent levels (g)
    usual: tuple[int, int]  #: places of the ends of the usual range; of a category 0 and 0
    inputs: pd.DataFrame  #: (g * rows, p), the rows of one value together


class Effect(NamedTuple):
    """What a sweep does to the average response."""

    mean: np.ndarray  #: (g,)
    low: np.ndarray  #: 2.5 % quantiles (g,)
    high: np.ndarray
    places: tuple[int, int]  #: of the two values whose difference is the change
    change: tuple[float, float, float]  #: mean, 2.5 % and 97.5 % quantile


def sweeps(data: Data, rng: np.random.Generator) -> list[Sweep]:
    """A sweep of every column that inputs are made of, over the same random learning rows."""
    X, columns = data.learning.X, data.encoding.explaining
    chosen = np.sort(rng.choice(len(X), min(N_ROWS, len(X)), replace=False))
    if (
        len(data.encoding.codes) == 1 and columns
    ):  # all rows of a value are the same; more values see what repeats fast
        return [_sweep(data, columns[0], X.iloc[chosen[:1]], N_ALONE)]
    return [_sweep(data, column, X.iloc[chosen], N_POINTS) for column in columns]


def _sweep(data: Data, column: str, rows: pd.DataFrame, n_points: int) -> Sweep:
    encoding = data.encoding
    code, names = encoding.code(column), encoding.inputs_of(column)
    if isinstance(code, CategoryCode):
        values, usual, kind = code.levels[:MOST_LEVELS], (0, 0), "category"
        shown = [f"{column}={level}" for level in values]
        settings = [{name: float(name == own) for name in names} for own in shown]
    else:
        seen = encoding.natural(column, data.learning.X[column].to_numpy())
        if code.has_missing:
            seen = seen[data.learning.X[f"{column} missing"].to_numpy() == 0.0]
        different = np.unique(seen)
        ends = np.quantile(seen, USUAL, method="nearest")
        if len(different) <= FEW_VALUES:
            points = different
        else:
            low, high = np.quantile(seen, SHOWN)
            if low == high:  # nearly all rows have one value
                low, high = different[[0, -1]]
            points = np.union1d(np.linspace(low, high, n_points), ends)
        values = tuple(float(value) for value in points)
        usual = tuple(int(np.argmin(np.abs(points - end))) for end in ends)
        if usual[0] == usual[1]:
            usual = (0, len(points) - 1)
        kind = "date" if code.date_format else "number"
        settings = [
            dict.fromkeys(names, 0.0) | {column: float(encoding.standardised(column, value))}
            for value in values
        ]
    blocks = [rows.assign(**setting) for setting in settings]
    return Sweep(column, kind, values, usual, pd.concat(blocks, ignore_index=True))


def sampled_averages(
    predictor: Predictor,
    sweep: Sweep,
    X: np.ndarray,
    rng: np.random.Generator,
    n_draws: int,
    *,
    linear: bool,
) -> np.ndarray:
    """Draws (n_draws, g) of the average response at each value of a sweep of coded inputs X (g * rows, p).

    The latent function at all rows is drawn jointly, so that averages and their differences have the
    uncertainty of the function between the cases. ``linear``: the response is the latent value itself, and
    averages of it are drawn as such.
    """
    g = len(sweep.values)
    over_rows = np.kron(np.eye(g), np.full((1, len(X) // g), g / len(X)))
    mean, covariance = predictor.joint(X, over_rows if linear else None)
    root = _root(covariance)
    eta = mean[:1] + rng.standard_normal((n_draws, root.shape[1])) @ root.T
    return eta if linear else predictor.likelihood.conditional_mean(eta) @ over_rows.T


def _root(covariance: np.ndarray) -> np.ndarray:
    """R (m, rank) with R R' = covariance; rows of the same inputs, for which it is singular, are equal."""
    least = LEAST_VARIANCE * max(float(np.diag(covariance).max()), 0.0)
    factor, order, rank, _ = lapack.dpstrf(covariance, tol=least, lower=1)
    root = np.empty((len(covariance), rank))
    root[order - 1] = np.tril(factor)[:, :rank]
    return root


def effect(sweep: Sweep, averages: np.ndarray, kind: str) -> Effect:
    """Summary of draws (draw, g) of averages in natural units.

    The change of a probability is the difference of the ends of the usual range, of a rate their ratio; of a
    real outcome the difference of the highest and lowest average within the usual range, or of two levels.
    Where a probability or a rate clearly turns within that range, it is that from the turning point to the
    farther end, in the order of the values. Of a category the ends are the most frequent level and the one
    that differs from it most.
    """
    low, high = np.quantile(averages, [0.025, 0.975], axis=0)
    # under a log link few draws can make the mean, which may be infinite
    mean = np.median(averages, axis=0) if kind == "counts" else averages.mean(0)
    first, last = sweep.usual
    if sweep.kind == "category":
        distance = np.log(mean / mean[0]) if kind == "counts" else mean - mean[0]
        last = int(np.argmax(np.abs(distance)))
    elif kind != "real":
        first, last = _turned(np.log(averages) if kind == "counts" else averages, first, last)
    ends = averages[:, first], averages[:, last]
    if kind == "counts":
        change = ends[1] / ends[0]
    elif kind == "real" and sweep.kind != "category":
        change = np.ptp(averages[:, first : last + 1], axis=1)
    else:
        change = ends[1] - ends[0]
    if kind == "real" and change.mean() < 0.0:  # of a category: told from the lower end
        first, last, change = last, first, -change
    summary = (float(change.mean()), *(float(q) for q in np.quantile(change, [0.025, 0.975])))
    return Effect(mean, low, high, (first, last), summary)


def _turned(draws: np.ndarray, first: int, last: int) -> tuple[int, int]:
    """The ends, or a turning point and one end of draws (draw, g) between ``first`` and ``last``.

    It is the highest or the lowest point of the mean, if 97.5 % of the draws have it beyond either end, on
    the same side; the end is the one that is farther away.
    """
    mean = draws[:, first : last + 1].mean(0)
    for turn in (first + int(mean.argmax()), first + int(mean.argmin())):
        gaps = draws[:, [turn]] - draws[:, [first, last]]
        side = np.sign(gaps.mean())
        if first < turn < last and np.all((side * gaps > 0.0).mean(0) >= 0.975):
            end = (first, last)[int(np.argmax(np.abs(gaps.mean(0))))]
            return min(turn, end), max(turn, end)
    return first, last
