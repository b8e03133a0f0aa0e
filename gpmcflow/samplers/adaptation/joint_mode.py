"""Where the pilot of a joint sampler begins: the mode of the hyperparameters and the curvature there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.regression_density import CollapsedDensity

Density = JointDensity | CollapsedDensity
SEARCHES, EVALUATIONS = 8, 12  # at most, each with sites of its own, of so many gradients
COLLAPSED_EVALUATIONS = 60  # where no sites move
BOX = 2.0  # half width of what one search may see, in units of the prior's standard deviation
NEAR = 0.15  # a search that moved no further has arrived
SPACING = 0.05  # of the differences that make the curvature


class Mode(NamedTuple):
    """The mode of log N(x) + rest(x, z = 0) with the sites fitted there."""

    x: np.ndarray  #: (d,)
    sites: FrozenSites
    n_gradient: int


def plain_sites(model: GPModel) -> FrozenSites:
    """Sites that know nothing of the data, to build a density with before any are fitted."""
    return FrozenSites(np.ones(model.n_cases), np.zeros(model.n_cases))


def sites_at(density: Density, x: np.ndarray, start: FrozenSites | None = None) -> FrozenSites:
    """Sites fitted at x, from those of a place near by; the plain ones where latents are integrated out."""
    if not density.n_z:
        return plain_sites(density.model)
    return frozen_sites(density.model, density.coordinates.theta(x)[0], start)


def value_and_slope(density: Density, x: np.ndarray) -> tuple[float, np.ndarray]:
    """log N(x; 0, I) + rest(x, z = 0), up to a constant that depends on the sites, and its gradient (d,)."""
    at = density.evaluate(x, np.zeros(density.n_z))
    return at.rest - 0.5 * float(x @ x), at.slope_x - x


def find_mode(density: Density, starts: Sequence[np.ndarray]) -> Mode:
    """The better of the modes that searches from several starts x (d,) end in.

    Raises `NumericalError` where no start has a finite density.
    """
    modes, reason = [], None
    for x in starts:
        try:
            modes.append(_search(density, x))
        except NumericalError as error:
            reason = error
    if not modes:
        raise NumericalError(f"joint split HMC: no start has a density that is finite: {reason}")
    best = modes[0]
    for mode in modes[1:]:
        if _advantage(density, mode, best) > 0.0:
            best = mode
    spent = sum(mode.n_gradient for mode in modes) + 4 * (len(modes) - 1)
    density.sites = best.sites
    return best._replace(n_gradient=spent)


def _search(density: Density, x: np.ndarray) -> Mode:
    """Searches in the coordinates of the sites at their start, each from where the last one ended."""
    spent, sites = 0, None
    largest = EVALUATIONS if density.n_z else COLLAPSED_EVALUATIONS

    def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_slope(density, x)
        return (-value, -slope) if np.isfinite(value) else (1e10, np.zeros_like(x))

    for _ in range(SEARCHES):
        density.sites = sites = sites_at(density, x, sites)
        bounds = np.stack([x - BOX, x + BOX], axis=1)
        result = minimize(
            minus, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxfun": largest}
        )
        spent += result.nfev
        if not result.fun < 1e10:
            raise NumericalError(f"no finite density at x = {np.round(x, 3).tolist()}")
        moved, x = float(np.abs(result.x - x).max()), result.x
        if moved < NEAR:
            break
    density.sites = sites = sites_at(density, x, sites)
    return Mode(x, sites, spent)


def _advantage(density: Density, first: Mode, second: Mode) -> float:
    """How much higher the first is, on average over the coordinates of either's sites."""
    total = 0.0
    for own in (first, second):
        density.sites = own.sites
        total += value_and_slope(density, first.x)[0] - value_and_slope(density, second.x)[0]
    return total


def curvature_scale(density: Density, x: np.ndarray) -> np.ndarray:
    """A with A A' = U max(lambda, 1)^-1 U', U lambda U' the curvature at x: never wider than the prior.

    By 2d gradients; the prior's scale where one of them is not finite.
    """
    d = len(x)
    slopes = np.empty((d, d))
    for k, step in enumerate(SPACING * np.eye(d)):
        after, before = value_and_slope(density, x + step), value_and_slope(density, x - step)
        slopes[k] = (before[1] - after[1]) / (2.0 * SPACING)
        if not (np.isfinite(after[0]) and np.isfinite(before[0])):
            return np.eye(d)
    values, vectors = np.linalg.eigh(0.5 * (slopes + slopes.T))
    return np.linalg.cholesky(vectors / np.maximum(values, 1.0) @ vectors.T)
