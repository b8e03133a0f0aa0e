"""How the average response changes with one column, or with the place, other things equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, logit

from gpmcflow.analysis.data import Data
from gpmcflow.analysis.seasons import times_in_cycles
from gpmcflow.approximations.conditional import Predictor, root_of
from gpmcflow.contrasts.explanations import Average, explanation_groups
from gpmcflow.contrasts.flat_curves import flat_chance
from gpmcflow.contrasts.reported import Reported, ReportedFunctions, typical_of
from gpmcflow.data.codes import CategoryCode
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.likelihoods import Survival
from gpmcflow.models.gp_model import GPModel

MOST_KEPT = 200_000_000  # bytes of the inputs of all sweeps
N_ROWS = 400  # learning rows that averages are taken over
N_JOINT = 40  # of them, whose latent values are drawn jointly: the spread of an average
N_POINTS = 14  # of a curve, beside the ends of the usual range
N_ALONE = 151  # of that of the only column
FEW_VALUES = 8  # a column of at most so many whole numbers is shown value by value
MOST_LEVELS = 20  # of a category, the most frequent ones
N_PLACES, N_PLACES_ALONE = 24, 60  # that stand for all, beside other columns and without
USUAL = (0.1, 0.9)  # quantiles of the usual range of a column
SHOWN = (0.03, 0.97)  # quantiles between which a curve is drawn
CLEAR_CHANCE = 0.01  # of what is seen, were there no effect: below it, an effect is clear
LIKELY_CHANCE = 0.05


class Sweep(NamedTuple):
    """A column set to some values in turn, in each of some rows."""

    column: str
    kind: str  #: number, date, category or place
    values: tuple  #: natural numbers (g), the most frequent levels (g), or pairs of coordinates (g)
    usual: tuple[int, int]  #: places of the ends of the usual range; else 0 and 0
    rows: pd.DataFrame  #: inputs of the rows (rows, p)
    settings: tuple[dict[str, float], ...] = ()  #: inputs of the column at each value

    @property
    def key(self) -> str:
        """Name of its group of results."""
        return self.column.replace("/", "_")

    @property
    def inputs(self) -> pd.DataFrame:
        """Rows of one value together (g * rows, p), made when asked for: of many columns they are large."""
        blocks = [self.rows.assign(**setting) for setting in self.settings]
        return pd.concat(blocks, ignore_index=True) if blocks else self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of `inputs`."""
        return 8 * self.rows.size * max(1, len(self.settings))

    def joint(self, X: np.ndarray) -> np.ndarray:
        """Of the inputs as a model takes them (g * rows, p), the first `N_JOINT` rows of each value."""
        g = len(self.values)
        return X.reshape(g, len(X) // g, -1)[:, :N_JOINT].reshape(-1, X.shape[1])


class CodedInputs:
    """Inputs of sweeps as a model takes them, one after another, as often as asked for.

    They are kept where all together are small, else made anew each time. ``joint``: of the first `N_JOINT`
    rows of each value.
    """

    def __init__(self, model: GPModel, swept: Sequence[Sweep], *, joint: bool = False) -> None:
        self._model, self._swept, self._joint = model, swept, joint
        small = sum(sweep.nbytes for sweep in swept) <= MOST_KEPT
        self._kept = list(self._made()) if small else None

    def _made(self) -> Iterator[np.ndarray]:
        for sweep in self._swept:
            X = self._model.new_inputs(sweep.inputs, "new")
            yield sweep.joint(X) if self._joint else X

    def __iter__(self) -> Iterator[np.ndarray]:
        return self._made() if self._kept is None else iter(self._kept)


class Effect(NamedTuple):
    """What a sweep does to the average response."""

    mean: np.ndarray  #: medians (g,), which lie within the quantiles
    low: np.ndarray  #: 2.5 % quantiles (g,)
    high: np.ndarray
    places: tuple[int, int]  #: of the two values whose difference is the change
    change: tuple[float, float, float]  #: median, 2.5 % and 97.5 % quantile
    chance: float  #: of so large a difference, or so steady a trend, of a flat curve: `flat_chance`


def sweeps(
    data: Data, rng: np.random.Generator, season: dict[str, Any] | None = None
) -> list[Sweep]:
    """A sweep of every column that inputs are made of, over the same random learning rows.

    Two coordinates are one, `place`. A column with a season is set to the parts of some of its cycles.
    """
    X, columns = data.learning.X, data.encoding.explaining
    places = list(data.encoding.coordinates)
    grouped = bool(data.encoding.groups)
    chosen = rng.choice(len(X), min(N_ROWS, len(X)), replace=False)
    chosen = np.concatenate([np.sort(part) for part in np.split(chosen, [N_JOINT])])
    # All rows of the only column's value are the same; more values see what repeats fast.
    if len(columns) == 1 and not grouped:
        return [_sweep(data, columns[0], X.iloc[chosen[:1]], N_ALONE)]
    if set(columns) == set(places) and columns and not grouped:
        return [_place_sweep(data, X.iloc[chosen[:1]], N_PLACES_ALONE)]
    rows = X.iloc[chosen]
    times = times_in_cycles(data, season) if season else np.empty(0)
    kept = [
        _sweep(data, column, rows, N_POINTS, times if season and column == season["column"] else ())
        for column in columns
        if column not in places
    ]
    return [*kept, _place_sweep(data, rows, N_PLACES)] if places else kept


def _place_sweep(data: Data, rows: pd.DataFrame, n: int) -> Sweep:
    """Learning rows' places set in turn: of all of them ``n`` that lie far from each other."""
    names, X = list(data.encoding.coordinates), data.learning.X
    places = X[names].drop_duplicates().to_numpy()
    away = np.linalg.norm(places - places.mean(0), axis=1)
    chosen = [int(away.argmin())]
    away = np.linalg.norm(places - places[chosen[0]], axis=1)
    while len(chosen) < min(n, len(places)):
        chosen.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(places - places[chosen[-1]], axis=1))
    return place_sweep(data, rows, places[np.sort(chosen)])


def place_sweep(data: Data, rows: pd.DataFrame, places: np.ndarray) -> Sweep:
    """Places (g, 2), as inputs, set in each of some rows in turn."""
    names = list(data.encoding.coordinates)
    natural = [data.encoding.natural(n, places[:, k]) for k, n in enumerate(names)]
    known = {mark: 0.0 for name in names for mark in data.encoding.inputs_of(name)[1:]}
    settings = tuple({**known, **dict(zip(names, place, strict=True))} for place in places)
    values = tuple(zip(*natural, strict=True))
    return Sweep(", ".join(names), "place", values, (0, 0), rows, settings)


def _sweep(
    data: Data, column: str, rows: pd.DataFrame, n_points: int, times: Sequence[float] = ()
) -> Sweep:
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
        if len(times):
            points = np.asarray(times)
        elif len(different) <= FEW_VALUES:
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
    return Sweep(column, kind, values, usual, rows, tuple(settings))


def sampled_averages(
    predictor: Reported,
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
    averages of it are drawn as such; of times, whose logarithm it is, they are geometric means of medians.
    """
    g = len(sweep.values)
    over_rows = np.kron(np.eye(g), np.full((1, len(X) // g), g / len(X)))
    if isinstance(predictor, ReportedFunctions):
        return predictor.averages(X, over_rows, rng, n_draws, linear=linear)
    mean, covariance = predictor.joint(X, over_rows if linear else None)
    root = root_of(covariance)
    eta = mean[:1] + rng.standard_normal((n_draws, root.shape[1])) @ root.T
    if linear:
        return typical_of(predictor.likelihood, eta) if _timed(predictor) else eta
    return predictor.likelihood.conditional_mean(eta) @ over_rows.T


def average_shift(predictor: Reported, sweep: Sweep, X: np.ndarray, *, linear: bool) -> np.ndarray:
    """Average response over all rows of coded inputs X (g * rows, p) less that over `joint` ones, (g,).

    On the scale of the link, where draws of averages over the joint rows become those over all when it is
    added.
    """
    g = len(sweep.values)
    if len(X) <= g * N_JOINT:
        return np.zeros(g)
    rows, kind = _responses(predictor, X, g, linear)
    return on_link(rows.mean(1), kind) - on_link(rows[:, :N_JOINT].mean(1), kind)


def average_level(predictor: Reported, sweep: Sweep, X: np.ndarray, *, linear: bool) -> np.ndarray:
    """Average response over rows of coded inputs X (g * rows, p) at each value, (g,), on the link's scale."""
    rows, kind = _responses(predictor, X, len(sweep.values), linear)
    return on_link(rows.mean(1), kind)


def _responses(predictor: Reported, X: np.ndarray, g: int, linear: bool) -> tuple[np.ndarray, str]:
    """Expected response of each row (g, rows), of times the log of the median, and its link.

    Rates are those at the mean of their logs: the mean of a rate may be infinite under a log link.
    """
    if isinstance(predictor, ReportedFunctions):
        level, kind = predictor.levels(X, linear=linear)
        return level.reshape(g, -1), kind
    eta, likelihood = predictor.moments(X), predictor.likelihood
    if linear:
        level = np.log(typical_of(likelihood, np.zeros(()))) if _timed(predictor) else 0.0
        return eta.mean.mean(0).reshape(g, -1) + level, "real"
    if likelihood.log_link or likelihood.exponential_mean:
        return likelihood.conditional_mean(eta.mean).mean(0).reshape(g, -1), "counts"
    return eta.mean_response().reshape(g, -1), "binary"


def _timed(predictor: Predictor) -> bool:
    return isinstance(predictor.likelihood, Survival)


def on_link(average: np.ndarray, kind: str) -> np.ndarray:
    """Averages on the scale of the link: logs of rates and amounts, log odds of shares, real ones as is."""
    link = KINDS[kind].link
    if link == "identity":
        return average
    tiny = np.finfo(float).tiny
    if link == "log":
        return np.log(np.maximum(average, tiny))
    least = np.finfo(float).eps
    return logit(np.clip(average, least, 1.0 - least))


def from_link(value: np.ndarray, kind: str) -> np.ndarray:
    """The averages that `on_link` takes."""
    return {"identity": np.asarray, "log": np.exp, "logit": expit}[KINDS[kind].link](value)


def effect(sweep: Sweep, averages: np.ndarray, kind: str) -> Effect:
    """Summary of draws (draw, g) of averages in natural units.

    The change is the difference of the ends of the usual range, of a rate or an amount their ratio. Where the
    average clearly turns within that range, it is from the turning point to the farther end, or to a second
    turning point, in the order of the values. The chance is that of the whole curve. Of a category the ends
    are the most frequent level and the one that differs from it most, of places those that one in ten lie
    below and above.
    """
    low, high = np.quantile(averages, [0.025, 0.975], axis=0)
    mean, scaled = np.median(averages, axis=0), on_link(averages, kind)
    ratios = KINDS[kind].ratios
    first, last = sweep.usual
    values = None
    if sweep.kind == "place":
        order = np.argsort(mean, kind="stable")
        first, last = (int(order[round(q * (len(order) - 1))]) for q in USUAL)
    elif sweep.kind == "category":
        distance = np.log(mean / mean[0]) if ratios else mean - mean[0]
        last = int(np.argmax(np.abs(distance)))
    else:
        values = sweep.values
        first, last = _turned(np.log(averages) if ratios else averages, first, last)
    ends = averages[:, first], averages[:, last]
    change = ends[1] / ends[0] if ratios else ends[1] - ends[0]
    if kind == "real" and sweep.kind == "category" and np.median(change) < 0.0:
        first, last, change = last, first, -change  # told from the lower end
    summary = (float(q) for q in np.quantile(change, [0.5, 0.025, 0.975]))
    return Effect(mean, low, high, (first, last), tuple(summary), flat_chance(scaled, values))


def _turned(draws: np.ndarray, first: int, last: int) -> tuple[int, int]:
    """The ends, or a turning point and one end, or two turning points, of draws (draw, g) from first to last.

    A turning point is the highest or the lowest point of the mean, if 97.5 % of the draws have it beyond
    either end, on the same side; the end is the one that is farther away.
    """
    mean, turns = draws[:, first : last + 1].mean(0), []
    for turn in (first + int(mean.argmax()), first + int(mean.argmin())):
        gaps = draws[:, [turn]] - draws[:, [first, last]]
        side = np.sign(gaps.mean())
        if first < turn < last and np.all((side * gaps > 0.0).mean(0) >= 0.975):
            end = (first, last)[int(np.argmax(np.abs(gaps.mean(0))))]
            turns.append((turn, end))
    if not turns:
        return first, last
    places = [turn for turn, _ in turns] if len(turns) == 2 else turns[0]
    return min(places), max(places)


def explained(
    model: GPModel,
    draws: xr.DataTree,
    theta: np.ndarray,
    averages: Sequence[tuple[Sweep, np.ndarray]],
) -> dict[str, xr.Dataset]:
    """Groups ``explanations``, of averages that are draws of each theta (n, d): `explanation_groups`."""
    kept = {
        s.key: Average(own, s.kind in ("number", "date"))
        for s, own in averages
        if s.kind != "place"
    }
    groups = explanation_groups(model, draws, theta, kept)
    return {f"explanations/{key}": group for key, group in groups.items()}
