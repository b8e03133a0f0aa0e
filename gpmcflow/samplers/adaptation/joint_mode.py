"""Where the pilot of a joint sampler begins: the mode of the hyperparameters and the curvature there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.approximations.integrated import WarmEvidence
from gpmcflow.approximations.mixture import more_modes
from gpmcflow.approximations.search import Density, frozen_maximum, value_and_slope
from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites

SEARCHES = 8  # at most
NEAR = 0.15  # a search that moved no further has arrived
EDGE = 6.0  # |x| of a search, far out in the hyperprior
SPACING = 0.05  # of the differences that make the curvature
SOME_ROWS = 600  # of which EP's evidence has its mode near that of all


class Mode(NamedTuple):
    """The mode of log N(x) + rest(x, z = 0) with the sites fitted there."""

    x: np.ndarray  #: (d,)
    sites: FrozenSites
    n_gradient: int  #: spent, or EP fits


def plain_sites(model: GPModel) -> FrozenSites:
    """Sites that know nothing of the data, to build a density with before any are fitted."""
    n = model.n_sites
    return FrozenSites(np.ones(n), np.zeros(n))


def sites_at(
    density: Density, x: np.ndarray, start: FrozenSites | None = None, *, quiet: bool = True
) -> FrozenSites:
    """Sites fitted at x, from those of a place near by; the plain ones where latents are integrated out."""
    if not density.n_z:
        return plain_sites(density.model)
    return frozen_sites(density.model, density.coordinates.theta(x)[0], start, quiet=quiet)


def find_mode(density: Density, starts: Sequence[np.ndarray]) -> Mode:
    """The better of the modes that searches from several starts x (d,) end in.

    Where the likelihood is not log-concave it is that of EP's evidence, of `SOME_ROWS` if there are more:
    searches at frozen sites can end where all noise is a function of x, but for one of basis functions.

    Raises `NumericalError` where no start has a finite density.
    """
    modes, reason = [], None
    if _needs_ep(density) and (mode := _mode_by_ep(density, starts)):
        return mode
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


def _needs_ep(density: Density) -> bool:
    """Whether sites that are frozen may mislead a search for the mode."""
    model = density.model
    single = isinstance(model, GPModel) and bool(density.n_z)
    return single and not (model.likelihood.log_concave or model.basis)


def _mode_by_ep(density: Density, starts: Sequence[np.ndarray]) -> Mode | None:
    """Where a climb of EP's evidence ends that begins at the best of the starts; None without a fit."""
    model = density.model
    if model.kronecker:
        model = model.with_structure("dense")
    if model.n_cases > SOME_ROWS:
        model = model.take(np.linspace(0, model.n_cases - 1, SOME_ROWS).astype(int))
    evidence = WarmEvidence(model)
    values = evidence.values(np.array(starts))
    modes = more_modes(evidence, [], [starts[int(np.argmax(values))]])
    if not modes:
        return None
    density.sites = sites = sites_at(density, modes[0].x)
    return Mode(modes[0].x, sites, len(evidence.fits))


def _search(density: Density, x: np.ndarray) -> Mode:
    """The mode that a search from x ends in."""
    x, spent = frozen_maximum(
        density,
        np.clip(x, -EDGE, EDGE),
        partial(sites_at, density),
        hyperprior=True,
        searches=SEARCHES,
        near=NEAR,
        low=-EDGE,
        high=EDGE,
    )
    density.sites = sites = sites_at(density, x, density.sites)
    return Mode(x, sites, spent)


def _advantage(density: Density, first: Mode, second: Mode) -> float:
    """How much higher the first is, on average over the coordinates of either's sites."""
    total = 0.0
    for own in (first, second):
        density.sites = own.sites
        total += _value(density, first.x) - _value(density, second.x)
    return total


def _value(density: Density, x: np.ndarray) -> float:
    return value_and_slope(density, x, True)[0]


def curvature_scale(density: Density, x: np.ndarray) -> np.ndarray:
    """A with A A' = U max(lambda, 1)^-1 U', U lambda U' the curvature at x: never wider than the prior.

    By 2d gradients; the prior's scale where one of them is not finite.
    """
    d = len(x)
    slopes = np.empty((d, d))
    for k, step in enumerate(SPACING * np.eye(d)):
        after, before = (value_and_slope(density, x + move, True) for move in (step, -step))
        slopes[k] = (before[1] - after[1]) / (2.0 * SPACING)
        if not (np.isfinite(after[0]) and np.isfinite(before[0])):
            return np.eye(d)
    values, vectors = np.linalg.eigh(0.5 * (slopes + slopes.T))
    return np.linalg.cholesky(vectors / np.maximum(values, 1.0) @ vectors.T)
