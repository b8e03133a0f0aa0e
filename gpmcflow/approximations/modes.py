"""All modes of a density whose coordinates are standard normal a priori.

The density is screened at Sobol points. Climbs begin at points that lie above their neighbours, and at a few
others; one that comes close to a mode that is known already ends there. A single climb finds one mode,
several climbs from the centre of the prior often find the same one. Teeth of a comb, as the likelihood of a
period has, need the screen.

Source: Boender & Rinnooy Kan (1987), Math. Program. 37, for clustered starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.errors import NumericalError
from gpmcflow.models.log_density import LogDensity

SCREENED = 256  # Sobol points
CENTRAL = 0.98  # share of each coordinate's prior that they fill
OTHERS = 4  # climbs from points that are no local maxima
CLOSE = 0.5  # standard deviations from a known mode at which a climb ends
MERGED, SAME_HEIGHT = 1.5, 1.0  # standard deviations and nats within which two modes are one
LEAST_CURVATURE = 0.25  # the prior's own is 1
STEP = 1e-3  # of the differences of gradients
MOST_STEPS = 100  # of a climb
NOWHERE = (
    1e10  # stands for the negative log density where there is none: a line search needs a number
)


class Mode(NamedTuple):
    """A local maximum x (d,) of a density, and its curvature there."""

    x: np.ndarray
    log_density: float
    precision: np.ndarray  #: negative Hessian (d, d), eigenvalues 0.25 at least

    @property
    def log_mass(self) -> float:
        """Log integral of the density around the mode by Laplace's approximation."""
        log_det = float(np.linalg.slogdet(self.precision)[1])
        return self.log_density + 0.5 * (len(self.x) * np.log(2.0 * np.pi) - log_det)

    def distance(self, x: np.ndarray) -> float:
        """Distance of x in standard deviations of this mode."""
        way = x - self.x
        return float(np.sqrt(way @ self.precision @ way))


def find_modes(density: LogDensity, rng: np.random.Generator) -> list[Mode]:
    """Modes of a density t(x), x ~ N(0, I) a priori, those of most mass first.

    Parameters
    ----------
    density:
        log t with a gradient, such as `NormalDensity`.
    rng:
        Scrambles the Sobol points and picks the starts that are no local maxima.

    Raises
    ------
    NumericalError:
        Where the density is zero at all points of the screen.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> from gpmcflow.models.normal_density import NormalDensity
    >>> x = np.linspace(0.0, 1.0, 12)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> modes = find_modes(NormalDensity(model), np.random.default_rng(0))
    >>> len(modes), modes[0].x.round(1)
    (1, array([-1.3, -0.1]))
    """
    points = _screen(density.dim, rng)
    values = density.values(points)
    if not np.isfinite(values).any():
        raise NumericalError(
            f"modes: the density of {', '.join(density.names)} is zero at all {len(points)} points tried; "
            "check the hyperpriors"
        )
    highest = _local_maxima(points, values)
    rest = np.setdiff1d(np.flatnonzero(np.isfinite(values)), highest)
    others = rng.choice(rest, min(OTHERS, len(rest)), replace=False)
    return more_modes(density, [], points[np.concatenate([highest, others])])


def more_modes(
    density: LogDensity, known: Sequence[Mode], starts: Sequence[np.ndarray] | np.ndarray
) -> list[Mode]:
    """Known modes, and those that climbs from ``starts`` (k, d) find; those of most mass first."""
    modes = list(known)
    for start in starts:
        top = _climb(density, start, modes)
        if top is None:
            continue
        mode = _mode_at(density, top)
        same = [
            k for k, other in enumerate(modes)
            if min(other.distance(mode.x), mode.distance(other.x)) < MERGED
            and abs(other.log_density - mode.log_density) < SAME_HEIGHT
        ]  # fmt: skip
        if not same:
            modes.append(mode)
        elif mode.log_density > modes[same[0]].log_density:
            modes[same[0]] = mode
    return sorted(modes, key=lambda mode: -mode.log_mass)


def _screen(dim: int, rng: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc  # takes long to load

    uniform = qmc.Sobol(dim, rng=rng).random(SCREENED)
    return ndtri(0.5 + CENTRAL * (uniform - 0.5))


def _local_maxima(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Points that no neighbour in the (d + 1)-nearest-neighbour graph exceeds, the highest first."""
    apart = np.square(points[:, None] - points).sum(-1)
    neighbours = np.argsort(apart, axis=1)[:, 1 : points.shape[1] + 2]
    is_maximum = np.isfinite(values) & (values >= values[neighbours].max(1))
    lower = values[:, None] > values[neighbours]
    is_maximum[neighbours[lower]] = False  # the graph has no direction
    maxima = np.flatnonzero(is_maximum)
    return maxima[np.argsort(-values[maxima], kind="stable")]


def _climb(density: LogDensity, start: np.ndarray, known: Sequence[Mode]) -> np.ndarray | None:
    """The top x (d,) that L-BFGS reaches, None where the way comes close to a known mode."""

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density.value_and_gradient(x)
        return (-value, -gradient) if np.isfinite(value) else (NOWHERE, np.zeros_like(x))

    def close(x: np.ndarray) -> bool:
        return any(mode.distance(x) < CLOSE for mode in known)

    def check(intermediate_result) -> None:
        if close(intermediate_result.x):
            raise StopIteration

    if close(start):
        return None
    top = minimize(
        negative, start, jac=True, method="L-BFGS-B", callback=check,
        options={"maxiter": MOST_STEPS, "gtol": 1e-3},
    )  # fmt: skip
    return None if top.fun >= NOWHERE or close(top.x) else top.x


def _mode_at(density: LogDensity, x: np.ndarray) -> Mode:
    """The mode at a top, its curvature by central differences of gradients."""
    steps = STEP * np.eye(density.dim)
    slopes = [[density.value_and_gradient(x + sign * h)[1] for sign in (1, -1)] for h in steps]
    hessian = np.array([(after - before) / (2.0 * STEP) for after, before in slopes])
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    values = np.maximum(values, LEAST_CURVATURE)
    return Mode(x, density(x), (vectors * values) @ vectors.T)
