"""Hyperparameters of a squared-exponential GP from the EP evidence: its maximum, or a grid."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    expectation_propagation,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.covariances import SquaredExponential, squared_distances
from gpmcflow.models.latent_gaussian import LatentGaussianModel

logger = logging.getLogger(__name__)

# Bounds of the search in natural logs, around the median distance and the unit scale: outside, the
# covariance is constant or diagonal to rounding and the evidence flat.
LENGTH_RANGE = 4.0
SIGNAL_BOUNDS = (-3.0, 6.0)
MAX_ITERATIONS = 60


def fit_ep(
    X: np.ndarray, y: np.ndarray, likelihood: Likelihood, log_length_scale, log_signal_sd: float
) -> ExpectationPropagation:
    """EP fit of a GP with squared-exponential covariance; log l is a number or one per feature."""
    scale = np.exp(np.asarray(log_length_scale, dtype=np.float64))
    scale = float(scale) if scale.ndim == 0 else tuple(scale)
    covariance = SquaredExponential(scale, float(np.exp(log_signal_sd)))
    return expectation_propagation(LatentGaussianModel.from_gp(covariance, X, likelihood, y))


def maximise_evidence(
    X: np.ndarray, y: np.ndarray, likelihood: Likelihood, *, ard: bool = False
) -> tuple[float | np.ndarray, float]:
    """(log length scale, log signal sd) at the maximum of log Z_EP, by L-BFGS from the median distance.

    With ``ard`` the first is an array (p,). A maximum at the edge of the search is logged. Raises
    `NumericalError` if no EP fit converges.
    """
    distances = squared_distances(X)
    apart = distances[distances > 0.0]
    if not apart.size:
        raise InputError(
            "hyperparameters: all inputs are the same; state them in the config instead"
        )
    median = 0.5 * np.log(np.median(apart))
    n_scales = X.shape[1] if ard else 1
    start = np.append(np.full(n_scales, median + (0.5 * np.log(n_scales) if ard else 0.0)), 1.0)
    bounds = [(s - LENGTH_RANGE, s + LENGTH_RANGE) for s in start[:-1]] + [SIGNAL_BOUNDS]

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        length = parameters[:-1] if ard else parameters[0]
        try:
            fit = fit_ep(X, y, likelihood, length, parameters[-1])
        except NumericalError:  # a step too far: the line search then comes back
            return 1e10, np.zeros_like(parameters)
        return -fit.log_evidence, -evidence_gradient(fit)

    found = minimize(
        objective,
        start,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": MAX_ITERATIONS, "ftol": 1e-7},
    )
    if found.fun >= 1e10:
        raise NumericalError(
            "hyperparameters: no EP fit converged; state them in the config instead"
        )
    if np.any(
        np.isclose(found.x, [b[0] for b in bounds]) | np.isclose(found.x, [b[1] for b in bounds])
    ):
        logger.warning(
            "hyperparameters: the maximum of the EP evidence lies at the edge of the search (log length "
            "scale %s, log signal sd %.2f); classes that a boundary separates do that. A grid shows more.",
            np.round(found.x[:-1], 2).tolist(),
            found.x[-1],
        )
    return (found.x[:-1] if ard else float(found.x[0])), float(found.x[-1])


def evidence_gradient(fit: ExpectationPropagation) -> np.ndarray:
    """Gradient of log Z_EP by (log l_1, .., log l_p or log l, log s), at an EP fixed point.

    d log Z / d theta = (1/2) tr[(b b' - R) dK / d theta], R = S B^{-1} S, B = I + S K S,
    S = diag(tau)^{1/2}, b = nu - R (K nu + mean_0). Source: Rasmussen & Williams (2006), alg. 5.2.
    """
    sites = fit.sites
    model = sites.model
    K = model.covariance_function(model.X)
    S = np.sqrt(sites.precision)
    B = S[:, None] * K * S
    B.flat[:: len(B) + 1] += 1.0 + model.jitter * sites.precision
    R = S[:, None] * cho_solve(cho_factor(B, lower=True), np.diag(S))
    b = sites.shift - sites.precision * model.mean
    b = b - R @ (K @ b + model.jitter * b)
    H = (np.outer(b, b) - R) * K
    scale = np.asarray(model.covariance_function.length_scale)
    if scale.ndim == 0:
        by_length = [0.5 * np.sum(H * squared_distances(model.X / scale))]
    else:  # sum_ij H_ij (z_i - z_j)^2 = 2 (sum_i z_i^2 (H 1)_i - z' H z), for all features at once
        Z = model.X / scale
        by_length = (Z**2).T @ H.sum(1) - np.einsum("id,id->d", Z, H @ Z)
    return np.append(by_length, H.sum())


def evidence_grid(
    X: np.ndarray,
    y: np.ndarray,
    likelihood: Likelihood,
    log_length_scales: Sequence[float],
    log_signal_sds: Sequence[float],
) -> np.ndarray:
    """log Z_EP over a grid, shape (length scales, signal sds); NaN where EP does not converge."""
    found = np.full((len(log_length_scales), len(log_signal_sds)), np.nan)
    for i, length in enumerate(log_length_scales):
        for j, signal in enumerate(log_signal_sds):
            try:
                found[i, j] = fit_ep(X, y, likelihood, length, signal).log_evidence
            except NumericalError:
                continue
    return found
