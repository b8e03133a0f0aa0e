"""Univariate slice sampling with stepping out and shrinkage, coordinate by coordinate, and its reverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density.protocol import (
    DensityInfo,
    DensitySampler,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.protocol import require_count, require_positive

MAX_SHRINKS = 200
STEPS_OUT = 10  # most widths of an interval where a sweep is told by its width alone
WHOLE_LINE = (-np.inf, np.inf)


def slice_on_line(
    rng: np.random.Generator,
    log_density: Callable[[float], float],
    x: float,
    value: float,
    width: float,
    max_steps: int = 1,
    support: tuple[float, float] = WHOLE_LINE,
) -> tuple[float, float]:
    """One slice update of a number x under exp(log_density): the new x and its log density.

    1. Level z = log f(x) - E, E ~ Exp(1).
    2. Interval l = x - width U, r = l + width, with at most ``max_steps`` widths in all: J = floor(M V)
       steps are for the left, M - 1 - J for the right.
    3. Step out by a width while steps are left and log f is above z at the end. An end whose steps
       are used up is not evaluated, so that M = 1 costs nothing here.
    4. Draw t on (l, r) until log f(t) > z; each failure becomes the end on its side of x.

    Reversible with respect to f: the intervals that lead from x to t lead back with the same
    probability. ``support`` = (lower, upper) clips the interval: nothing outside is evaluated, f being
    0 there; x must lie inside. After 200 failures x stays (that can only be rounding).

    `log_density` is called with t, the last time with the value that is returned (unless x stays), so
    that a caller may keep what it computed there. Source: Neal (2003), figures 3 and 5.
    """
    level = value - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    if max_steps > 1:
        to_left = int(max_steps * rng.random())
        to_right = max_steps - 1 - to_left
        while to_left > 0 and left > support[0] and log_density(left) > level:
            left -= width
            to_left -= 1
        while to_right > 0 and right < support[1] and log_density(right) > level:
            right += width
            to_right -= 1
    left, right = max(left, support[0]), min(right, support[1])
    for _ in range(MAX_SHRINKS):
        t = left + (right - left) * rng.random()
        height = log_density(t)
        if height > level:
            return t, height
        if t < x:
            left = t
        else:
            right = t
    return x, value


def slice_coordinate(
    rng: np.random.Generator,
    density: Callable[[np.ndarray], float],
    position: np.ndarray,
    value: float,
    coordinate: int,
    width: float,
    max_steps: int = 1,
) -> tuple[np.ndarray, float]:
    """`slice_on_line` along one coordinate of theta (d,); ``position`` itself is left as it is."""
    moved = position.copy()

    def along(t: float) -> float:
        moved[coordinate] = t
        return density(moved)

    moved[coordinate], value = slice_on_line(
        rng, along, float(position[coordinate]), value, width, max_steps
    )
    return moved, value


def slice_direction(
    rng: np.random.Generator,
    density: Callable[[np.ndarray], float],
    position: np.ndarray,
    value: float,
    direction: np.ndarray,
    width: float,
    max_steps: int = 1,
) -> tuple[np.ndarray, float]:
    """`slice_on_line` along theta + t direction; ``width`` is in units of t."""

    def along(t: float) -> float:
        return density(position + t * direction)

    t, value = slice_on_line(rng, along, 0.0, value, width, max_steps)
    return position + t * direction, value


@dataclass(frozen=True)
class SliceSweep:
    """Slice updates of coordinates in turn: a transition R, and its exact reverse R~.

    Each update is reversible, the sweep is not: R~ is the same updates in the opposite order and
    nothing else, R = U_1 ... U_d, R~ = U_d ... U_1. Chains that simulate one density both ways, and
    tempered transitions, are only right with R~ for the way back.

    Source: Neal (2003), figures 3 and 5; Wang & Neal (2013), section 3, for the reverse.

    Attributes
    ----------
    widths:
        w_j > 0 for each coordinate of theta, in its units.
    max_steps:
        M, the most widths an interval has; 1 for no stepping out.
    coordinates:
        Which coordinates, in which order; a coordinate may come more than once (cheap ones more
        often). None for each once, in turn. A palindrome makes the sweep reversible.
    repeats:
        How often the list is gone through in one move.
    directions:
        None, or vectors (d, d) that take the place of the coordinate axes, such as principal axes of
        pilot draws: for a density along a ridge. Widths are then in units of these vectors. All
        length scales of a GP move along each, so that no evaluation is cheaper than another.

    Raises
    ------
    InputError:
        For settings out of range, coordinates that there are not, and vectors that depend on each other.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> bell = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"))
    >>> sweep = gp.SliceSweep(widths=(1.0, 2.0), max_steps=4, coordinates=(0, 1, 0))
    >>> theta, log_density = sweep.forward(np.random.default_rng(0), bell, np.zeros(2), 0.0)
    >>> log_density == bell(theta)
    True
    """

    widths: tuple[float, ...]
    max_steps: int = 1
    coordinates: tuple[int, ...] | None = None
    repeats: int = 1
    directions: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        numbers = np.atleast_1d(self.widths).tolist()
        widths: Any = require_positive("SliceSweep: widths", numbers)
        object.__setattr__(self, "widths", widths)
        for name in ("max_steps", "repeats"):
            require_count("SliceSweep", name, getattr(self, name))
        if self.coordinates is not None:
            chosen = tuple(int(j) for j in self.coordinates)
            object.__setattr__(self, "coordinates", chosen)
            if not chosen or not all(0 <= j < len(widths) for j in chosen):
                raise InputError(
                    f"SliceSweep: coordinates is {chosen}; allowed: numbers from 0 to {len(widths) - 1}"
                )

        if self.directions is not None:
            vectors = np.array(self.directions, dtype=np.float64)
            square = vectors.shape == (len(widths),) * 2 and np.all(np.isfinite(vectors))
            if not square or np.linalg.matrix_rank(vectors) < len(widths):
                raise InputError(
                    f"SliceSweep: directions of shape {vectors.shape}; allowed: {len(widths)} independent "
                    "vectors of that length"
                )
            object.__setattr__(self, "directions", tuple(map(tuple, vectors.tolist())))

    @property
    def order(self) -> tuple[int, ...]:
        """Coordinates in the order of a forward move."""
        once = range(len(self.widths)) if self.coordinates is None else self.coordinates
        return tuple(once) * self.repeats

    def forward(
        self, rng: np.random.Generator, density: LogDensity, position: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """Update the coordinates in their order."""
        return self._sweep(rng, density, position, value, self.order)

    def backward(
        self, rng: np.random.Generator, density: LogDensity, position: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """Update the coordinates in the opposite order."""
        return self._sweep(rng, density, position, value, self.order[::-1])

    def _sweep(self, rng, density, position, value, order: Sequence[int]):
        if len(self.widths) != len(position):
            raise InputError(
                f"SliceSweep: {len(self.widths)} widths for {len(position)} coordinates; give one for each"
            )
        for j in order:
            width, steps = self.widths[j], self.max_steps
            if self.directions is None:
                position, value = slice_coordinate(rng, density, position, value, j, width, steps)
            else:
                axis = np.array(self.directions[j])
                position, value = slice_direction(rng, density, position, value, axis, width, steps)
        return position, value


@cache
def sweep_of(sweep: SliceSweep | float, dim: int) -> SliceSweep:
    """The sweep itself, or the one with that width for each of ``dim`` coordinates, of up to ten widths."""
    return sweep if isinstance(sweep, SliceSweep) else SliceSweep((sweep,) * dim, STEPS_OUT)


@dataclass(frozen=True)
class UnivariateSlice(DensitySampler):
    """Slice sampling of a log density, one coordinate after another.

    An iteration is one forward move of the sweep under the exact density; every update is accepted.

    Source: Neal (2003), figures 3 and 5.

    Attributes
    ----------
    sweep:
        A `SliceSweep`, or the width > 0 of intervals along each coordinate, of which ten may be taken.

    Raises
    ------
    InputError:
        For settings out of range, and for more than one density.
    NumericalError:
        Where a density is -inf at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> bell = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"))
    >>> draws = gp.sample(bell, gp.UnivariateSlice(2.0), start=np.zeros(2), n_chains=1, n_draws=50)
    >>> bool((draws.sample_stats["n_calls"] >= 2).all())
    True
    """

    sweep: SliceSweep | float = 1.0

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start, where the density must be finite."""
        require_densities("UnivariateSlice", densities, 1)
        return DensityState(np.array(position, dtype=np.float64), start_values(densities, position))

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One sweep."""
        sweep = sweep_of(self.sweep, len(state.position))
        position, value = sweep.forward(rng, densities[0], state.position, state.values[0])
        moved = not np.array_equal(position, state.position)
        return DensityState(position, (value,)), DensityInfo(moved, 1.0)
