"""Where a search for the maximum of the evidence starts, how far it goes, and its steps at frozen sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from gpmcflow.covariances.binding import bind
from gpmcflow.covariances.expressions import Leaf, Sum
from gpmcflow.covariances.nodes import DISTANCES, INNER_PRODUCTS
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.collapsed_density import Density
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites

# Where a search for the maximum of the evidence starts and how far it goes, in any units of the data.


class Kind(NamedTuple):
    """Natural logs, over a parameter's unit, of starts and ends of a search, and what the ends mean."""

    starts: tuple[float, ...]  #: usual, for a function that wiggles, for a smooth one
    low: float
    high: float
    at_low: str
    at_high: str


# Beyond the ends the covariance is constant or diagonal to rounding, and the evidence flat.
LENGTHS = Kind((0.0, -1.4, 1.4), -4.0, 6.0,
    "neighbours say nothing of each other", "the function hardly changes along it")  # fmt: skip
AMPLITUDES = Kind((1.0, 0.0, 0.5), -3.0, 6.0,
    "its term is not needed", "the signal grows, as for classes that a boundary separates")  # fmt: skip
SLOPES = AMPLITUDES._replace(starts=(0.0, 0.0, 0.0))
NOISE = Kind((-1.0, -2.3, -0.7), -7.0, 2.0, "the function meets the data", "all is noise")
PRIOR = Kind((0.0,) * 3, 0.0, 0.0, *("the end of the central 99 % of its hyperprior",) * 2)
N_STARTS = len(PRIOR.starts) + 1  # usual ones, and the medians of the hyperpriors
LEVELS = 3.0  # of the mean, in units of the spread of y
BETWEEN_QUARTILES = 1.349  # of a standard normal
SHORTER = 0.5  # log of how many times a length scale is to be shorter than that of other starts
FEWEST_WAVES = 4  # among the rows, of responses that wiggle
MOST_COLUMNS = 3  # of places that have neighbours
MOST_PLACES, MOST_NEAR = 500, 300  # whose responses are compared with those of so many neighbours
NOISE_OF_MEANS = 4.0  # over sqrt(m), of a mean of m squared differences
HALF_CORRELATION = np.sqrt(2.0 * np.log(2.0))  # in length scales of a squared exponential
MOST_ROWS = 2000  # of which all distances are taken; of more cases, evenly spaced ones
END_OF_SUPPORT = "the end of its hyperprior"


class SearchRange(NamedTuple):
    """Starts (k, d) and bounds (d,) of the coordinates theta of a model's free parameters."""

    starts: np.ndarray  #: the usual one, ..., the medians of the hyperpriors, and how y wiggles
    low: np.ndarray
    high: np.ndarray
    amplitudes: np.ndarray  #: whether a parameter is an amplitude (d,)
    scale: np.ndarray  #: how far apart values of a coordinate are that differ much (d,)
    at_low: tuple[str, ...]  #: what it means that a maximum lies at an end
    at_high: tuple[str, ...]

    def edges(self, model: GPModel, theta: np.ndarray) -> str:
        """Which parameters lie at an end of the range, and what that means; empty where none does."""
        values, texts = model.natural(theta), []
        for j, name in enumerate(model.names):
            for end, which, why in (
                (self.low[j], "smallest", self.at_low[j]),
                (self.high[j], "largest", self.at_high[j]),
            ):
                if np.isclose(theta[j], end):
                    texts.append(f"{name} {values[name]:.3g}, the {which} tried ({why})")
        return "; ".join(texts)


def wiggling_starts(model: GPModel) -> np.ndarray:
    """Theta (k, d), none or one, with length scales by how the responses wiggle: see `search_range`."""
    try:
        return search_range(model).starts[N_STARTS:]
    except InputError:  # no distances
        return np.empty((0, model.dim))


def search_range(model: GPModel) -> SearchRange:
    """Starts and bounds that move with the units of the inputs and of the responses.

    Length scales lie around the median distance; amplitudes, and the parameters that a likelihood has in the
    units of y, around the spread of y, or 1 where y has other units than the latents; slopes around the
    spread over the size of their columns. The central half of their hyperpriors belongs to the range, too;
    of all other parameters the central 99 %. A finite support bounds it. One more start joins where responses
    lose their correlation over shorter distances than all others: a maximum there is narrow, and nothing
    leads to it.

    Raises `InputError` where no distance between inputs tells a length scale.
    """
    return _Ranges(model).of_free()


class _Ranges:
    """Logs of the units (size,) of all parameters, nan for one without, and their kinds."""

    def __init__(self, model: GPModel) -> None:
        self.model, size = model, model.parameters.size
        self.unit = np.full(size, np.nan)
        self.kind = [PRIOR] * size
        self.amplitudes = np.zeros(size, dtype=bool)
        self.wiggles = np.full(size, np.nan)  # logs of length scales that the responses suggest
        self.centre, self.spread = 0.0, 1.0
        names = model.likelihood.in_units_of_y
        if names:
            self.centre, self.spread = _centre_and_spread(model.eta_y)
        self._place_covariance(np.log(self.spread))
        n_leaves = len(model.leaves)
        likelihood = zip(
            model.likelihood.entries(), model.parameters.places(n_leaves + 1), strict=True
        )
        for entry, place in likelihood:
            if entry.name in names:
                self._place(place, np.log(self.spread), NOISE)

    def _place(self, places: np.ndarray, unit: np.ndarray | float, kind: Kind) -> None:
        self.unit[places] = unit
        for place in np.atleast_1d(places):
            self.kind[place] = kind

    def _place_covariance(self, log_spread: float) -> None:
        model, group = self.model, 0
        covariance, columns = bind(model.covariance, model.inputs)
        for term in covariance.operands() if isinstance(covariance, Sum) else (covariance,):
            leaves = list(enumerate(term.leaves(), group))
            group += len(leaves)
            sizes = {k: self._log_size(k, leaf, columns[k]) for k, leaf in leaves}
            for k, leaf in leaves:
                # what the other factors of a product are large by, this one need not be
                own = log_spread - sum(size for other, size in sizes.items() if other != k)
                self._place_leaf(k, leaf, columns[k], own)

    def _place_leaf(self, k: int, leaf: Leaf, columns: tuple[int, ...], log_spread: float) -> None:
        places, X = self.model.parameters.places(k), self.model.X[:, columns]
        if leaf.kind == INNER_PRODUCTS:
            slopes = places[: len(places) - bool(leaf.extra)]
            sizes = _column_sizes(X, len(slopes))
            self._place(slopes, log_spread / leaf.degree - sizes, SLOPES)
            if leaf.extra:
                self._place(places[-1], log_spread / leaf.degree, SLOPES)
            return
        if leaf.has_amplitude:
            self._place(places[-1], log_spread, AMPLITUDES)
            self.amplitudes[places[-1]] = True
        scales = places[: len(places) - bool(leaf.extra) - leaf.has_amplitude]
        if leaf.kind == DISTANCES and self.model.parameters.is_free[scales].any():
            self._place(scales, _log_lengths(X, len(scales)), LENGTHS)
            self.wiggles[scales] = _log_wiggles(X, self.model.eta_y, len(scales))

    def _log_size(self, k: int, leaf: Leaf, columns: tuple[int, ...]) -> float:
        """Log standard deviation of a factor that is fixed; 0 where its amplitude is free."""
        parameters = self.model.parameters
        places = parameters.places(k)
        values = [parameters.priors[place] for place in places]
        if parameters.is_free[places].all() or (
            leaf.has_amplitude and parameters.is_free[places[-1]]
        ):
            return 0.0
        if leaf.has_amplitude:
            return float(values[-1])
        if leaf.kind != INNER_PRODUCTS or parameters.is_free[places].any():
            return 0.0
        variances = np.exp(2.0 * np.array(values, dtype=np.float64))
        n_slopes = len(places) - bool(leaf.extra)
        of_columns = np.mean(np.square(self.model.X[:, columns]), axis=0)
        slopes = variances[:n_slopes] if n_slopes > 1 else variances[0]
        total = (slopes * of_columns).sum() + variances[n_slopes:].sum()
        return 0.5 * leaf.degree * float(np.log(total)) if total > 0.0 else 0.0

    def of_free(self) -> SearchRange:
        """The range of the free parameters, within the support of their hyperpriors."""
        parameters = self.model.parameters
        median = parameters.prior_median()
        starts = np.tile(median, (N_STARTS, 1))
        low, high = np.empty(parameters.dim), np.empty(parameters.dim)
        kinds = [self.kind[place] for place in parameters.free]
        at_low, at_high = [kind.at_low for kind in kinds], [kind.at_high for kind in kinds]
        mean, scale = int(parameters.places(len(self.model.leaves))[0]), np.ones(parameters.dim)
        for j, (place, prior) in enumerate(
            zip(parameters.free, parameters.free_priors, strict=True)
        ):
            unit, kind = self.unit[place], kinds[j]
            if np.isfinite(unit):
                starts[:-1, j] = unit + np.array(kind.starts)
                low[j] = min(unit + kind.low, prior.quantile(0.25))
                high[j] = max(unit + kind.high, prior.quantile(0.75))
            else:
                low[j], high[j] = median[j] - prior.width, median[j] + prior.width
            if place == mean and self.model.likelihood.in_units_of_y:
                starts[:-1, j], scale[j] = self.centre, self.spread
                low[j] = min(low[j], self.centre - LEVELS * self.spread)
                high[j] = max(high[j], self.centre + LEVELS * self.spread)
            bottom, top = prior.support
            bounded = np.isfinite(bottom) and np.isfinite(top)
            if bounded or bottom >= low[j]:
                low[j], at_low[j] = bottom, END_OF_SUPPORT
            if bounded or top <= high[j]:
                high[j], at_high[j] = top, END_OF_SUPPORT
        amplitudes, wiggles = self.amplitudes[parameters.free], self.wiggles[parameters.free]
        shorter = wiggles < starts[1] - SHORTER
        if shorter.any():
            starts = np.vstack([starts, np.where(shorter, wiggles, starts[2])])
        starts = np.clip(starts, low, high)
        return SearchRange(starts, low, high, amplitudes, scale, tuple(at_low), tuple(at_high))


def _centre_and_spread(y: np.ndarray) -> tuple[float, float]:
    """Median, and a standard deviation that outliers do not move; 1 where y is constant."""
    lower, centre, upper = np.quantile(y, [0.25, 0.5, 0.75])
    spread = (upper - lower) / BETWEEN_QUARTILES or float(y.std())
    return float(centre), float(spread) or 1.0


def _column_sizes(X: np.ndarray, n_slopes: int) -> np.ndarray:
    """Logs of root mean squares of the columns, or of all together where they share a slope."""
    squares = np.mean(np.square(X), axis=0)
    squares = squares if n_slopes > 1 else squares.sum(keepdims=True)
    return 0.5 * np.log(np.where(squares > 0.0, squares, 1.0) * n_slopes)


def _log_lengths(X: np.ndarray, n_scales: int) -> np.ndarray | float:
    """Log of the median distance; of each column times their number where each has its own scale."""
    if n_scales > 1:
        own = np.array([_log_median_distance(X[:, [c]]) for c in range(n_scales)])
        if np.isfinite(own).any():  # a constant column has no length scale: any does
            return np.where(np.isfinite(own), own, 0.0) + np.log(n_scales)
    else:
        own = _log_median_distance(X)
        if np.isfinite(own):
            return own
    raise InputError(
        "hyperparameters: all inputs are the same; give length scales as numbers instead"
    )


def _log_wiggles(X: np.ndarray, y: np.ndarray, n_scales: int) -> np.ndarray | float:
    """Logs of length scales along X (n, c) over which y (n,) loses half its correlation, nan if unknown.

    The mean square of differences between ranks of y at places and at their k-th nearest neighbours grows
    from that of the nearest ones, which is mostly noise, to the most at any k but a tenth. The first k half
    way counts, if nearest neighbours differ by much less than the most. Columns with scales of their own are
    measured by their standard deviations. A squared exponential loses half at 1.18 length scales.
    """
    size = X.std(axis=0) if n_scales > 1 else np.ones(1)
    n_near = min(len(X) // FEWEST_WAVES, MOST_NEAR)
    if n_near < 2 or X.shape[1] > MOST_COLUMNS or not (size > 0.0).all():
        return np.nan
    rows = np.arange(len(X))[:: -(-len(X) // MOST_PLACES)]
    y = _ranks(y)
    distances, near = cKDTree(X / size).query((X / size)[rows], n_near + 1)
    apart = np.mean(np.square(y[near] - y[rows, None]), axis=0)[1:]
    most = np.quantile(apart, 0.9)
    if not apart[0] < (1.0 - NOISE_OF_MEANS / np.sqrt(len(rows))) * most:
        return np.nan
    k = int(np.argmax(apart >= 0.5 * (apart[0] + most))) + 1
    distance = np.median(distances[:, k])
    with np.errstate(divide="ignore"):
        logs = np.log(distance * size / HALF_CORRELATION)
    return np.where(np.isfinite(logs), logs, np.nan)


def _ranks(y: np.ndarray) -> np.ndarray:
    """Places of y (n,) in order, equal ones with their mean."""
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - 0.5 * count)[place]


def _log_median_distance(X: np.ndarray) -> float:
    """Of those that are not zero; nan where all are."""
    apart = pdist(X[:: -(-len(X) // MOST_ROWS)], "sqeuclidean")
    apart = apart[apart > 0.0]
    return 0.5 * float(np.log(np.median(apart))) if apart.size else np.nan


# A maximum over hyperparameters by searches at frozen sites, each with sites of its own.

EVALUATIONS = 12  # at most, of one search
COLLAPSED_EVALUATIONS = 200  # where latents are integrated out and no sites move
STEP = 1.0  # how far one search may go, in normal coordinates
TOLERANCE = 1e-9  # of one search, over the value
_NOWHERE = 1e10  # at least, for minus a log density that is not finite


def value_and_slope(density: Density, x: np.ndarray, hyperprior: bool) -> tuple[float, np.ndarray]:
    """rest(x, z = 0), plus log N(x; 0, I) with the ``hyperprior``, and its gradient by x (d,).

    Up to a constant that depends on the sites.
    """
    at = density.evaluate(x, np.zeros(density.n_z))
    if hyperprior:
        return at.rest - 0.5 * float(x @ x), at.slope_x - x
    return at.rest, at.slope_x


def frozen_maximum(
    density: Density,
    x: np.ndarray,
    sites_at: Callable[[np.ndarray, FrozenSites | None], FrozenSites],
    *,
    hyperprior: bool,
    searches: int,
    near: float,
    low: np.ndarray | float,
    high: np.ndarray | float,
    scale: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, int]:
    """x (d,) at a maximum of `value_and_slope` that stands still when sites are fitted anew, and gradients.

    Each of at most ``searches`` stays within `STEP` of its start, or twice the last one's move, and between
    ``low`` and ``high`` in every coordinate; the last moved by less than ``near``. Moves are in units of
    ``scale``. The density is left with the sites of the last search.

    Raises `NumericalError` where the density is not finite at a start.
    """
    spent, sites, step = 0, None, STEP if density.n_z else np.inf
    most = EVALUATIONS if density.n_z else COLLAPSED_EVALUATIONS

    def minus(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal nowhere, found
        value, slope = value_and_slope(density, u * scale, hyperprior)
        if not np.isfinite(value):
            return nowhere, np.zeros_like(u)
        # a value itself is large where data lie far outside what hyperpriors allow
        nowhere, found = max(nowhere, 10.0 * abs(value)), True
        return -value, -slope * scale

    nowhere, found = _NOWHERE, False
    for _ in range(searches):
        found = False
        if density.n_z:
            density.sites = sites = sites_at(x, sites)
        u = x / scale
        box = np.stack(
            [np.maximum(u - step, low / scale), np.minimum(u + step, high / scale)], axis=1
        )
        options = {"maxfun": most, "ftol": TOLERANCE}
        result = minimize(minus, u, jac=True, method="L-BFGS-B", bounds=box, options=options)
        spent += result.nfev
        if not found:
            raise NumericalError(f"no finite density at x = {np.round(x, 3).tolist()}")
        moved, x = float(np.abs(result.x - u).max()), result.x * scale
        if moved < near or not density.n_z:
            break
        step = min(step, max(2.0 * moved, near))
    return x, spent
