"""GP regression with its overall scale integrated out: slice sampling of what is left, exact draws of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gp_regression import GPLogDensity, ScaleStatistics
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_covariance import log_normal
from gpmcflow.samplers.density_protocol import (
    DensityInfo,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.univariate_slice import SliceSweep

GRID_POINTS = 161
DROP = 45.0  # the grid ends where the log density has fallen by this much
MAX_TRIES = 10_000


@dataclass(frozen=True)
class CollapsedScale:
    """Slice sampling of (g, log rho), g = log sigma - log eta, with log eta integrated out exactly.

    (log eta, log sigma, log rho) -> (log eta, g, log rho) is a shear, of Jacobian 1. For fixed
    (g, rho) one factorisation gives the posterior of u = log eta at O(1) a point
    (`GPLogDensity.scale_statistics`). So an iteration sweeps the marginal

        h(g, rho) = integral of pi(u, u + g, log rho) du

    (trapezoid rule over all of its support that matters, exact to rounding for so smooth a
    function), and then draws u given (g, rho) independently, by rejection from an envelope over the
    same grid. The two make one draw of the joint density. An update of u from its old value would not
    do: after a collapsed move the old value belongs to other (g, rho).

    The counter of the exact density counts factorisations.

    Attributes
    ----------
    sweep:
        Widths for (g, log rho_1, ...), one fewer than coordinates of theta.
    """

    sweep: SliceSweep

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start; carries log pi(theta) and log h(g, rho)."""
        require_densities("CollapsedScale", densities, 1)
        density = densities[0]
        if type(density) is not GPLogDensity or not density.model.has_noise:
            raise InputError(
                f"CollapsedScale: found {type(density).__name__}; allowed: the exact density of a "
                "GPRegression with one noise level; use another sampler"
            )
        position = np.array(position, dtype=np.float64)
        (value,) = start_values(densities, position)
        marginal = CollapsedDensity(density)
        return DensityState(position, (value, marginal(marginal.reduce(position))))

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One sweep of (g, rho) under the marginal, then a draw of log eta."""
        marginal = CollapsedDensity(densities[0])
        start = marginal.reduce(state.position)
        reduced, value = self.sweep.forward(rng, marginal, start, state.values[1])
        u, log_joint = marginal.draw_scale(rng, reduced)
        position = np.concatenate([[u, u + reduced[0]], reduced[1:]])
        moved = not np.array_equal(reduced, start)
        return DensityState(position, (log_joint, value)), DensityInfo(moved, 1.0)


class CollapsedDensity(LogDensity):
    """log h(g, log rho) of a GP regression's exact density; see `CollapsedScale`."""

    def __init__(self, density: GPLogDensity) -> None:
        self.density, model = density, density.model
        self.names = ("log_ratio", *density.names[2:])
        self._n, self._c2 = model.n_cases, model.constant**2
        self._mean, self._sd = model.prior_mean, model.prior_sd
        self._last: tuple[bytes, ScaleStatistics] | None = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_last": None}

    @staticmethod
    def reduce(theta: np.ndarray) -> np.ndarray:
        """Return (g, log rho) of theta."""
        return np.concatenate([[theta[1] - theta[0]], theta[2:]])

    def evaluate(self, reduced: np.ndarray) -> float:
        """Log of the integral over log eta at (g, log rho)."""
        found = self._statistics(reduced)
        if found is None:
            return -np.inf
        _, _, log_integral = scale_grid(*self._arguments(found, reduced[0]))
        return log_integral + self._log_prior_rho(reduced)

    def draw_scale(self, rng: np.random.Generator, reduced: np.ndarray) -> tuple[float, float]:
        """An independent draw of log eta given (g, log rho), and log pi at the joint state."""
        arguments = self._arguments(self._statistics(reduced), reduced[0])
        grid, values, _ = scale_grid(*arguments)
        u = draw_from_envelope(rng, grid, values, arguments)
        likelihood_and_priors = scale_log_density(u, *arguments)
        return u, likelihood_and_priors + self._log_prior_rho(reduced)

    def _statistics(self, reduced: np.ndarray) -> ScaleStatistics | None:
        key = reduced.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self.density.scale_statistics(reduced[0], reduced[1:])
        return self._last[1]

    def _arguments(self, found: ScaleStatistics, ratio: float) -> tuple[float, ...]:
        (m0, m1), (s0, s1) = self._mean[:2], self._sd[:2]
        return (*found, float(self._n), self._c2, float(ratio), m0, m1, s0, s1)

    def _log_prior_rho(self, reduced: np.ndarray) -> float:
        return log_normal(reduced[1:], self._mean[2:], self._sd[2:])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def scale_log_density(u, squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1):
    """Log likelihood plus the log priors of log eta = u and log sigma = u + ratio."""
    inverse = np.exp(-2.0 * u)
    k = c2 * inverse
    quadratic = inverse * (squares - k * cross * cross / (1.0 + k * ones))
    total_log_det = 2.0 * n * u + log_det + np.log1p(k * ones)
    z0, z1 = (u - m0) / s0, (u + ratio - m1) / s1
    prior = -0.5 * (z0 * z0 + z1 * z1) - np.log(s0 * s1) - np.log(2.0 * np.pi)
    return -0.5 * (quadratic + total_log_det + n * np.log(2.0 * np.pi)) + prior


@numba.njit(cache=True, nogil=True, error_model="numpy")
def scale_grid(squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1):
    """Grid of u over all that matters, log densities there, and the log of the integral.

    The mode is found by bracketing from where the likelihood's scale is, the ends by doubling steps
    until the log density has fallen by `DROP`; all from the arguments alone, never from an old state.
    """
    args = (squares, cross, ones, log_det, n, c2, ratio, m0, m1, s0, s1)
    variance = max((squares - cross * cross / (ones + 1e-300)) / n, 1e-300)
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
