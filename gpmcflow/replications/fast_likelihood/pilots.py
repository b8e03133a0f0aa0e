"""Short runs that find slice widths or a fitted density; they are charged to the cost, then discarded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.approximations.fitted_density import LEAST_DRAWS, FittedStudent
from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity, finite_start
from gpmcflow.samplers.density.univariate_slice import SliceSweep

ROUNDS = (60, 90, 150)  # draws of each round of `find_student`
DOF = 6.0  # of its density


@dataclass(frozen=True, eq=False)
class DensityPilot:
    """What a pilot found.

    Attributes
    ----------
    draws, values:
        Its kept states (draw, d) and their log densities (draw,): autocorrelated.
    sd:
        Standard deviations (d,) of the kept draws.
    n_calls:
        Evaluations it cost, to be charged to whatever uses it.
    """

    draws: np.ndarray
    values: np.ndarray
    sd: np.ndarray
    n_calls: int

    @property
    def last(self) -> np.ndarray:
        """Where the pilot ended (d,): a start for chains."""
        return self.draws[-1]

    def widths(self, kappa: float) -> tuple[float, ...]:
        """Slice widths, kappa standard deviations each."""
        return tuple(float(kappa * s) for s in self.sd)

    @property
    def principal_axes(self) -> tuple[tuple[float, ...], ...]:
        """Principal axes of the kept draws, each as long as its standard deviation: slice directions."""
        values, vectors = np.linalg.eigh(
            np.cov(self.draws, rowvar=False).reshape(2 * (len(self.sd),))
        )
        axes = (vectors * np.sqrt(np.maximum(values, 1e-12))).T[::-1]
        return tuple(map(tuple, axes.tolist()))


def find_widths(
    density: LogDensity,
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    n_sweeps: int = 300,
    n_dropped: int = 50,
) -> DensityPilot:
    """Slice sweeps of wide intervals from a start; the first ones are not kept.

    Raises `InputError` when nothing would be kept, and where the start or the widths are wrong.
    """
    if not 0 <= n_dropped < n_sweeps - 1:
        raise InputError(
            f"find_widths: n_sweeps is {n_sweeps}, n_dropped is {n_dropped}; allowed: 0 <= n_dropped < "
            "n_sweeps - 1"
        )
    before = density.n_calls
    position = np.array(start, dtype=np.float64)
    value = finite_start(density, position, "the exact density")
    sweep = SliceSweep((1.0,) * len(position), max_steps=10)
    draws, values = np.empty((n_sweeps, len(position))), np.empty(n_sweeps)
    for t in range(n_sweeps):
        position, value = sweep.forward(rng, density, position, value)
        draws[t], values[t] = position, value
    settled = draws[n_dropped:]
    sd = settled.std(axis=0, ddof=1)
    return DensityPilot(settled, values[n_dropped:], sd, density.n_calls - before)


@dataclass(frozen=True, eq=False)
class StudentPilot:
    """A fitted density and what it cost.

    Attributes
    ----------
    student:
        The fit, to be frozen.
    effective_share:
        Effective share of the last draws under importance weights: near 1 for a good fit.
    n_calls, n_gradients:
        Evaluations of the exact density.
    """

    student: FittedStudent
    effective_share: float
    n_calls: int
    n_gradients: int


def find_student(density: LogDensity, start: np.ndarray, rng: np.random.Generator) -> StudentPilot:
    """Fit a Student-t: mode and curvature first, then the importance-weighted draws of each round.

    Each round draws from the fit so far, weighs by the exact density over it, and fits to the draws of
    the round; weights that rest on too few draws are first flattened by a power below 1, so that a bad
    fit is mended in steps. Only what is fitted depends on this, never what the chains converge to. The
    cost is some tens of gradients and 1 + ``sum(ROUNDS)`` evaluations: far less than sweeps of slice
    sampling, and no start near the posterior is needed. It finds one mode.
    """
    before = density.n_calls, density.n_gradients
    finite_start(density, start, "the exact density")
    student, share = FittedStudent.at_mode(density, start, DOF), 0.0
    for n_draws in ROUNDS:
        draws, fitted = zip(*(student.draw(rng) for _ in range(n_draws)), strict=True)
        log_weights = np.array([density(theta) for theta in draws]) - np.array(fitted)
        share = effective_number(log_weights) / n_draws
        weights = _flattened(log_weights, 1.5 * LEAST_DRAWS * density.dim)
        if weights is not None:
            student = FittedStudent.fit(np.array(draws), density.names, DOF, weights)
    spent = density.n_calls - before[0], density.n_gradients - before[1]
    return StudentPilot(student, share, *spent)


def effective_number(log_weights: np.ndarray) -> float:
    """Effective number (sum w)^2 / sum w^2 of importance weights (draw,); 0 when all are zero."""
    top = log_weights.max()
    if top == -np.inf:
        return 0.0
    weights = np.exp(log_weights - top)
    return float(weights.sum() ** 2 / (weights**2).sum())


def _flattened(log_weights: np.ndarray, least: float) -> np.ndarray | None:
    """Weights to the largest power of 1, 1/2, 1/4 ... at which they rest on ``least`` draws, or None."""
    power = 1.0
    for _ in range(12):
        scaled = power * log_weights
        if effective_number(scaled) >= least:
            return np.exp(scaled - scaled.max())
        power *= 0.5
    return None
