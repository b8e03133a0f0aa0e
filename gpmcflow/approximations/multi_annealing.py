"""Annealed importance sampling of several latent functions, from a fit to the posterior."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.approximations.multi_laplace import FunctionsFit, maps_at

ANGLE, STEPS = 0.4, 2  # of a rotation, in radians, and rotations of a proposal


@np.errstate(all="ignore")
def annealed_weights(
    fit: FunctionsFit, rng: np.random.Generator, n: int, n_temperatures: int = 1
) -> np.ndarray:
    """Log weights (n,) of draws annealed from a fit q to the posterior: the mean weight is p(y | theta).

    At the inverse temperatures t = k / n_temperatures between the ends, each draw takes a transition of split
    HMC that leaves q^(1 - t) (p(y | f) p(f))^t as it is: in coordinates z in which q is N(0, I), rotations of
    position and momentum between kicks by t times the slope of r = log p(y | f) p(f) / q(f). With one
    temperature the draws are those of q: importance sampling.

    Source: Neal (2001), "Annealed importance sampling"; Shahbaba, Lan, Johnson & Neal (2014), "Split
    Hamiltonian Monte Carlo", for the transitions.
    """
    model, y, factor = fit.model, fit.model.y, fit.factor
    likelihood = model.likelihood_at(model.full(fit.theta))
    maps, means = maps_at(model, fit.theta)
    log_det = float(np.log(np.diagonal(factor)).sum())

    def ratio(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r (n,), and its slope by z (n, M)."""
        away = solve_triangular(factor, z.T, lower=True, trans=1, check_finite=False).T
        xi = fit.whitened_mean + away
        parts = zip(np.split(xi, model.splits, axis=1), maps, means, strict=True)
        eta = np.stack([own @ U.T + c for own, U, c in parts], axis=1)
        value, slope = likelihood.derivatives(eta, y)
        value = value.sum(-1) + 0.5 * (np.square(z).sum(1) - np.square(xi).sum(1)) - log_det
        pulled = np.concatenate([slope[:, c] @ U for c, U in enumerate(maps)], axis=1) - xi
        lost = np.isnan(value)  # of functions so large that the likelihood has no number
        slope = solve_triangular(factor, pulled.T, lower=True, check_finite=False).T + z
        return np.where(lost, -np.inf, value), np.where(lost[:, None], 0.0, slope)

    z = rng.standard_normal((n, len(fit.whitened_mean)))
    r, slope = ratio(z)
    weights = r / n_temperatures
    for t in np.arange(1, n_temperatures) / n_temperatures:
        momentum = rng.standard_normal(z.shape)
        before = t * r - 0.5 * (np.square(z).sum(1) + np.square(momentum).sum(1))
        there, r_there, slope_there = z, r, slope
        for _ in range(STEPS):
            momentum = momentum + 0.5 * ANGLE * t * slope_there
            there, momentum = (
                np.cos(ANGLE) * there + np.sin(ANGLE) * momentum,
                np.cos(ANGLE) * momentum - np.sin(ANGLE) * there,
            )
            r_there, slope_there = ratio(there)
            momentum = momentum + 0.5 * ANGLE * t * slope_there
        after = t * r_there - 0.5 * (np.square(there).sum(1) + np.square(momentum).sum(1))
        accepted = np.log(rng.random(n)) < after - before
        z, slope = (
            np.where(accepted[:, None], new, old) for new, old in ((there, z), (slope_there, slope))
        )
        r = np.where(accepted, r_there, r)
        weights += r / n_temperatures
    return weights
