"""A Student-t proposal for hyperparameters: fitted at the mode of a density, then to weighted draws."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpmcflow.approximations.fitted_density import LEAST_DRAWS, FittedStudent
from gpmcflow.diagnostics.importance_weights import (
    HARMLESS_SHARE,
    effective_size,
    normalised_weights,
    smooth_weights,
)
from gpmcflow.errors import NumericalError
from gpmcflow.models.log_density import LogDensity

log = logging.getLogger(__name__)
N_FIRST = 100  # draws that tell whether the fit at the mode is any good
N_JUDGED = 200  # draws that tell how good the last fit is
ROUNDING = 0.01  # nats by which the masses of one mode differ, found from several starts
APART, COMPARABLE = 3.0, 0.01  # standard deviations of both; share of the mass of the largest mode
LARGEST_K = 0.5  # Pareto k of their weights above which a chain would stand still now and then


def effective_share(log_weights: np.ndarray) -> float:
    """Effective size over draws of independent proposals, 0 where the variance of their weights is infinite.

    An independence sampler whose weights have a heavy tail stays at the largest of them for long: Pareto k
    above 0.5, unless nearly all draws are effective. Source: Vehtari, Simpson, Gelman, Yao & Gabry (2024).
    """
    if not np.isfinite(log_weights).any():
        return 0.0
    share = float(effective_size(log_weights) / len(log_weights))
    return share if share >= HARMLESS_SHARE or smooth_weights(log_weights)[1] <= LARGEST_K else 0.0


def beside(rng: np.random.Generator) -> np.random.Generator:
    """Random numbers far from those of a generator, which stays as it is."""
    bits: Any = rng.bit_generator
    return np.random.Generator(bits.jumped())


def warn_of_a_poor_fit(sampler: object, share: float) -> None:
    """Tell where `fitted_proposal` found no effective share."""
    if share == 0.0:
        log.warning(
            "%s: the fit misses a part of the posterior (its weights have a heavy tail, or there is another "
            "mode); take JointSplitHMC or UnivariateSlice",
            type(sampler).__name__,
        )


def fitted_proposal(
    density: LogDensity,
    starts: Sequence[np.ndarray],
    rng: np.random.Generator,
    n_pilot: int,
    dof: float,
) -> tuple[FittedStudent, float]:
    """A Student-t fitted to a density with a gradient, and the effective share of the draws it makes.

    The fit begins with location and curvature at the mode (`FittedStudent.at_mode`), of several found from
    ``starts`` that of most mass by Laplace's approximation: where another one, apart from it, has more than a
    hundredth of its mass, one Student-t is not enough, and the share is 0. It is made again with
    ``n_pilot`` draws from there, weighted by density / proposal. The share is that of the fit's own draws
    (`effective_share`): 1 where it is the density. Where the first `N_FIRST` draws have too few
    effective ones to fit anything to, the fit at the mode stays.

    Raises `NumericalError` where no mode is found. Source: Cappe et al. (2008).
    """
    proposal, alone = _largest_mode(density, starts, dof)
    if not alone:
        return proposal, 0.0

    def weighted(n: int) -> tuple[np.ndarray, np.ndarray]:
        draws = [proposal.draw(rng) for _ in range(n)]
        log_weights = np.array([density(theta) - value for theta, value in draws])
        return np.stack([theta for theta, _ in draws]), log_weights

    draws, log_weights = weighted(min(N_FIRST, n_pilot))
    share = effective_size(log_weights) / len(draws)
    if share * n_pilot >= LEAST_DRAWS * density.dim:
        more = weighted(max(n_pilot - len(draws), 1))
        draws, log_weights = (
            np.concatenate(pair) for pair in zip((draws, log_weights), more, strict=True)
        )
        if effective_size(log_weights) >= LEAST_DRAWS * density.dim:
            weights = normalised_weights(log_weights)
            proposal = FittedStudent.fit(draws, density.names, dof, weights)
            share = effective_share(weighted(N_JUDGED)[1])
    return proposal, float(share)


def _largest_mode(
    density: LogDensity, starts: Sequence[np.ndarray], dof: float
) -> tuple[FittedStudent, bool]:
    """The fit at the mode of most mass, the first found unless another has more, and whether it is alone."""
    fits, failures = [], []
    for start in starts:
        try:
            fit = FittedStudent.at_mode(density, start, dof)
        except NumericalError as error:
            failures.append(error)
            continue
        fits.append((density(fit.location) + np.log(np.diag(fit.scale_factor)).sum(), fit))
    if not fits:
        raise failures[0]
    mass, best = max(fits, key=lambda pair: pair[0])
    if mass <= fits[0][0] + ROUNDING:
        mass, best = fits[0]

    def apart(fit: FittedStudent) -> bool:
        way = fit.location - best.location
        return all(
            np.linalg.norm(np.linalg.solve(own.scale_factor, way)) > APART for own in (fit, best)
        )

    return best, not any(other > mass + np.log(COMPARABLE) and apart(fit) for other, fit in fits)
