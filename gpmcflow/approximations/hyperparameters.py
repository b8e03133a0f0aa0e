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
MAX_ROUNDS = 30  # of L-BFGS, after fits that failed
MIN_RADIUS = 0.01  # of the box around the best point: fits fail beside it


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

    With ``ard`` the first is an array (p,). A maximum at the edge of the search is logged. Where an EP
    fit fails the search steps back: it goes on from the best point inside a box of half the distance,
    which grows again while its edge holds the maximum; failures are logged. Raises `NumericalError` if
    no EP fit converges at the start, nor with a smaller signal.
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

    search = _Search(X, y, likelihood, ard, np.array(bounds))
    at = search.run(start)
    if search.failures:
        logger.warning(
            "hyperparameters: %d of %d EP fits failed and the search stepped back; the first at %s: %s",
            len(search.failures),
            search.n_fits,
            _described(search.failures[0][0]),
            search.failures[0][1],
        )
    if search.clipped:
        logger.warning(
            "hyperparameters: %d sites of the EP fit are clipped, so the gradient of its evidence, and "
            "with it the maximum, are approximate",
            search.clipped,
        )
    if np.any(np.isclose(at[:, None], bounds)):
        logger.warning(
            "hyperparameters: the maximum of the EP evidence lies at the edge of the search (%s); classes "
            "that a boundary separates do that. A grid shows more.",
            _described(at),
        )
    return (at[:-1] if ard else float(at[0])), float(at[-1])


class _FailedFitError(Exception):
    """An EP fit that did not converge, at ``args[0]``."""


class _Search:
    """L-BFGS for the maximum of log Z_EP that steps back from fits that fail."""

    def __init__(self, X, y, likelihood, ard, bounds) -> None:
        self.data, self.ard, self.bounds = (X, y, likelihood), ard, bounds
        self.best, self.value, self.clipped = None, np.inf, 0
        self.n_fits, self.failures = 0, []

    def objective(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        """-log Z_EP and its gradient; `_FailedFitError` where EP does not converge."""
        self.n_fits += 1
        try:
            fit = fit_ep(*self.data, at[:-1] if self.ard else at[0], at[-1])
        except NumericalError as error:
            self.failures.append((at.copy(), str(error)))
            raise _FailedFitError(at.copy()) from error
        if -fit.log_evidence < self.value:
            self.best, self.value, self.clipped = at.copy(), -fit.log_evidence, fit.clipped
        return -fit.log_evidence, -evidence_gradient(fit)

    def run(self, at: np.ndarray) -> np.ndarray:
        """The maximum, from a start; `NumericalError` if no fit converges."""
        low, high = self.bounds.T
        radius = np.inf
        for _ in range(MAX_ROUNDS):
            box = np.maximum(low, at - radius), np.minimum(high, at + radius)
            try:
                minimize(
                    self.objective,
                    at,
                    jac=True,
                    bounds=np.transpose(box),
                    method="L-BFGS-B",
                    options={"maxiter": MAX_ITERATIONS, "ftol": 1e-7},
                )
            except _FailedFitError as failed:
                if self.best is not None:
                    at, radius = self.best, 0.5 * np.abs(failed.args[0] - self.best).max()
                    if radius < MIN_RADIUS:
                        break
                elif at[-1] > low[-1]:
                    at = np.append(at[:-1], max(at[-1] - 1.0, low[-1]))
                else:
                    raise NumericalError(
                        "hyperparameters: no EP fit converged; state them in the config instead"
                    ) from failed
                continue
            moved, at = np.abs(self.best - at).max(), self.best
            if moved < 0.99 * radius:  # the maximum is inside the box
                break
            radius *= 2.0
        return self.best


def _described(at: np.ndarray) -> str:
    return f"log length scale {np.round(at[:-1], 2).tolist()}, log signal sd {at[-1]:.2f}"


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
    grid = np.full((len(log_length_scales), len(log_signal_sds)), np.nan)
    for i, length in enumerate(log_length_scales):
        for j, signal in enumerate(log_signal_sds):
            try:
                grid[i, j] = fit_ep(X, y, likelihood, length, signal).log_evidence
            except NumericalError:
                continue
    return grid
