"""GP regression with its overall scale integrated out: slice sampling of what is left, exact draws of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.samplers.density.protocol import (
    DensityInfo,
    DensitySampler,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.density.univariate_slice import SliceSweep, sweep_of

GRID_POINTS = 161
DROP = 45.0  # the grid ends where the log density has fallen by this much
MAX_TRIES = 10_000


@dataclass(frozen=True)
class CollapsedScale(DensitySampler):
    """Slice sampling of a GP regression with its overall scale integrated out, and exact draws of it.

    It samples (g, rest), g = log sigma - log eta, with log eta integrated out exactly.
    eta is the amplitude of K = eta^2 E + constants, sigma the noise level, rest the other coordinates, such
    as log length scales. (log eta, log sigma, rest) -> (log eta, g, rest) is a shear, of Jacobian 1. For
    fixed (g, rest) one factorisation gives the posterior of u = log eta at O(1) a point
    (`RegressionDensity.scale_statistics`). So an iteration sweeps the marginal

        h(g, rest) = int pi(u, u + g, rest) du

    (trapezoid rule over all of its support that matters, exact to rounding for so smooth a
    function), and then draws u given (g, rest) independently, by rejection from an envelope over the
    same grid. The two make one draw of the joint density. An update of u from its old value would not
    do: after a collapsed move the old value belongs to other (g, rest).

    The counter of the exact density counts factorisations.

    Attributes
    ----------
    sweep:
        Of (g, rest), one coordinate fewer than theta has; or the width > 0 for each, as in `UnivariateSlice`.

    Raises
    ------
    InputError:
        When it is used, for models of another form, and hyperpriors of eta and sigma that are not normal on
        the log.
    NumericalError:
        Where a density is -inf at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian())
    >>> draws = gp.sample(model, gp.CollapsedScale(), n_chains=1, n_draws=50)
    >>> draws.posterior["theta_dim"].values.tolist()
    ['length_scale', 'signal_sd', 'noise_sd']
    """

    sweep: SliceSweep | float = 1.0

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start; carries log pi(theta) and log h(g, rest)."""
        require_densities("CollapsedScale", densities, 1)
        position, marginal = np.array(position, dtype=np.float64), CollapsedDensity(densities[0])
        (value,) = start_values(densities, position)
        return DensityState(position, (value, marginal(marginal.reduce(position))))

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One sweep of (g, rest) under the marginal, then a draw of log eta."""
        marginal = CollapsedDensity(densities[0])
        start = marginal.reduce(state.position)
        sweep = sweep_of(self.sweep, len(start))
        reduced, value = sweep.forward(rng, marginal, start, state.values[1])
        u, log_joint = marginal.draw_scale(rng, reduced)
        moved = not np.array_equal(reduced, start)
        position = marginal.expand(u, reduced)
        return DensityState(position, (log_joint, value)), DensityInfo(moved, 1.0)


class CollapsedDensity(LogDensity):
    """log h(g, rest) of the exact density of a GP regression; see `CollapsedScale`."""

    def __init__(self, density: LogDensity) -> None:
        density, scale, noise = _with_scale_and_noise(density)
        model, free = density.model, density.model.free.tolist()
        self.density, self._places = density, [free.index(scale), free.index(noise)]
        self._rest = np.delete(np.arange(model.dim), self._places)
        self.names = ("log_ratio", *(density.names[k] for k in self._rest))
        forms: list[Any] = [model.parameters.priors[place].form for place in (scale, noise)]
        self._mean, self._sd = zip(*((form.loc, form.scale) for form in forms), strict=True)
        self._last: tuple[bytes, tuple[float, ...] | None] | None = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_last": None}

    def reduce(self, theta: np.ndarray) -> np.ndarray:
        """Return (g, rest) of theta."""
        scale, noise = self._places
        return np.concatenate([[theta[noise] - theta[scale]], theta[self._rest]])

    def expand(self, u: float, reduced: np.ndarray) -> np.ndarray:
        """Return theta of log eta = u and (g, rest)."""
        theta = np.empty(len(reduced) + 1)
        theta[self._places], theta[self._rest] = (u, u + reduced[0]), reduced[1:]
        return theta

    def evaluate(self, reduced: np.ndarray) -> float:
        """Log of the integral over log eta at (g, rest)."""
        arguments = self._arguments(reduced)
        if arguments is None:
            return -np.inf
        _, _, log_integral = scale_grid(*arguments)
        return log_integral + self._log_prior_rest(reduced)

    def draw_scale(self, rng: np.random.Generator, reduced: np.ndarray) -> tuple[float, float]:
        """An independent draw of log eta given (g, rest), and log pi at the joint state."""
        arguments: Any = self._arguments(reduced)  # the factorisation did not fail there
        grid, values, _ = scale_grid(*arguments)
        u = draw_from_envelope(rng, grid, values, arguments)
        return u, scale_log_density(u, *arguments) + self._log_prior_rest(reduced)

    def _arguments(self, reduced: np.ndarray) -> tuple[float, ...] | None:
        """Of `scale_log_density`; None where the factorisation fails."""
        key = reduced.tobytes()
        if self._last is None or self._last[0] != key:
            theta, model = self.expand(0.0, reduced), self.density.model
            statistics = self.density.scale_statistics(reduced[0], theta)
            constant = np.exp(2.0 * model.full(theta)[self.density.work.constants]).sum()
            settings = (float(model.n_cases), constant, float(reduced[0]), *self._mean, *self._sd)
            self._last = key, None if statistics is None else (*statistics, *settings)
        return self._last[1]

    def _log_prior_rest(self, reduced: np.ndarray) -> float:
        theta = self.expand(0.0, reduced)
        theta[self._places] = self._mean  # where a normal density is 1 / (sd sqrt(2 pi))
        return self.density.log_prior(theta) + float(np.log(2.0 * np.pi * np.prod(self._sd)))


def _with_scale_and_noise(density: LogDensity) -> tuple[RegressionDensity, int, int]:
    """The density, and places in ``full`` of the amplitude and the noise level; or `InputError`."""
    why = f"found {type(density).__name__}"
    if type(density) is RegressionDensity:
        if density.model.basis:  # its statistics are those of all cases
            density = RegressionDensity(density.model.dense_if_exact())
        model, work = density.model, density.work
        scale: Any = work.scale
        noise: Any = model.noise_place
        free = set(model.free.tolist())
        others = {*work.constants.tolist(), *(set(work.inner.tolist()) - {scale})}
        if scale not in free:
            why = f"no free amplitude multiplies all of {model.covariance!r} but constants"
        elif noise not in free or noise == scale or {noise, scale} & others:
            why = "the likelihood has no free noise level of its own"
        elif any(
            (prior.distribution, prior.scale) != ("norm", "log")
            for prior in (model.parameters.priors[scale], model.parameters.priors[noise])
        ):
            why = "the hyperprior of the amplitude or of the noise level is not normal on the log"
        else:
            return density, scale, noise
    raise InputError(
        f"CollapsedScale: {why}; allowed: the exact density of a regression with K = s^2 E, or that plus "
        "constants, s and noise_sd free with normal hyperpriors; use another sampler"
    )


@compiled
def scale_log_density(u, squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1):
    """Log likelihood plus the log priors of log eta = u and log sigma = u + ratio."""
    inverse = np.exp(-2.0 * u)
    k = c2 * inverse
    shared = cross * cross / ones  # what the constant explains; no difference of large numbers
    quadratic = inverse * (max(squares - shared, 0.0) + shared / (1.0 + k * ones))
    total_log_det = 2.0 * n * u + log_det + np.log1p(k * ones)
    z0, z1 = (u - m0) / s0, (u + ratio - m1) / s1
    prior = -0.5 * (z0 * z0 + z1 * z1) - np.log(s0 * s1) - np.log(2.0 * np.pi)
    return -0.5 * (quadratic + total_log_det + n * np.log(2.0 * np.pi)) + prior


@compiled
def scale_grid(squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1):
    """Grid of u over all that matters, log densities there, and the log of the integral.

    The mode is found by bracketing from where the likelihood's scale is, the ends by doubling steps
    until the log density has fallen by `DROP`; all from the arguments alone, never from an old state.
    """
    args = (squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1)
    variance = max((squares - cross * cross / ones) / n, 1e-300)
    u = 0.5 * np.log(variance)
    u = min(max(u, m0 - 30.0 * s0), m0 + 30.0 * s0)
    best, step = scale_log_density(u, *args), 0.5
    while step > 1e-3:  # climb to the mode; nearly log-concave
        right, left = scale_log_density(u + step, *args), scale_log_density(u - step, *args)
        if right > best:
            u, best = u + step, right
        elif left > best:
            u, best = u - step, left
        else:
            step *= 0.5
    ends = np.empty(2)
    for side in range(2):
        sign = -1.0 if side == 0 else 1.0
        low, high = 0.0, 0.05
        while scale_log_density(u + sign * high, *args) > best - DROP:
            low, high = high, 2.0 * high
        for _ in range(6):
            middle = 0.5 * (low + high)
            if scale_log_density(u + sign * middle, *args) > best - DROP:
                low = middle
            else:
                high = middle
        ends[side] = u + sign * high
    grid = np.linspace(ends[0], ends[1], GRID_POINTS)
    values = np.empty(GRID_POINTS)
    for i in range(GRID_POINTS):
        values[i] = scale_log_density(grid[i], *args)
    top = values.max()
    total = np.exp(values - top).sum() * (grid[1] - grid[0])
    return grid, values, top + np.log(total)


def draw_from_envelope(
    rng: np.random.Generator, grid: np.ndarray, values: np.ndarray, arguments: tuple
) -> float:
    """Draw u exactly: rejection from a piecewise constant envelope over the grid.

    In a cell the log density is at most its larger end plus max |second difference| / 4 of the four
    points around, twice the bound of linear interpolation, and a value above the envelope is an error,
    not a wrong draw. What lies beyond the grid weighs exp(-45).
    """
    bend = np.pad(np.abs(np.diff(values, 2)), 2, mode="edge")  # that of point i is at i + 1
    local = np.maximum(np.maximum(bend[:-3], bend[1:-2]), np.maximum(bend[2:-1], bend[3:]))
    upper = np.maximum(values[:-1], values[1:]) + 0.25 * local
    upper_weight = np.exp(upper - upper.max())
    cumulative = np.cumsum(upper_weight)
    for _ in range(MAX_TRIES):
        cell = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        cell = min(cell, len(upper) - 1)
        u = grid[cell] + (grid[cell + 1] - grid[cell]) * rng.random()
        excess = scale_log_density(u, *arguments) - upper[cell]
        if excess > 1e-9 * max(1.0, abs(upper[cell])):
            raise ArithmeticError(f"CollapsedScale: envelope exceeded by {excess:g} at log eta {u}")
        if -rng.standard_exponential() < excess:
            return float(u)
    raise ArithmeticError("CollapsedScale: no draw of log eta was accepted")
