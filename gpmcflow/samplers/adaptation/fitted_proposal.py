"""A Student-t proposal for hyperparameters: fitted at the mode of a density, then to weighted draws."""

from __future__ import annotations

import numpy as np

from gpmcflow.approximations.fitted_density import LEAST_DRAWS, FittedStudent
from gpmcflow.diagnostics.importance_weights import (
    effective_size,
    normalised_weights,
    smooth_weights,
)
from gpmcflow.models.log_density import LogDensity

N_FIRST = 100  # draws that tell whether the fit at the mode is any good
N_JUDGED = 200  # draws that tell how good the last fit is
LARGEST_K = 0.5  # Pareto k of their weights above which a chain would stand still now and then


def effective_share(log_weights: np.ndarray) -> float:
    """Effective size over draws of independent proposals, 0 where the variance of their weights is infinite.

    An independence sampler whose weights have a heavy tail stays at the largest of them for long: Pareto k
    above 0.5. Source: Vehtari, Simpson, Gelman, Yao & Gabry (2024).
    """
    if not np.isfinite(log_weights).any() or smooth_weights(log_weights)[1] > LARGEST_K:
        return 0.0
    return float(effective_size(log_weights) / len(log_weights))


def fitted_proposal(
    density: LogDensity, start: np.ndarray, rng: np.random.Generator, n_pilot: int, dof: float
) -> tuple[FittedStudent, float]:
    """A Student-t fitted to a density with a gradient, and the effective share of the draws it makes.

    The fit begins with location and curvature at the mode (`FittedStudent.at_mode`) and is made again with
    ``n_pilot`` draws from there, weighted by density / proposal. The share is that of the fit's own draws
    (`effective_share`): 1 where it is the density. Where the first `N_FIRST` draws have too few
    effective ones to fit anything to, the fit at the mode stays.

    Raises `NumericalError` where no mode is found. Source: Cappe et al. (2008).
    """
    proposal = FittedStudent.at_mode(density, start, dof)

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
