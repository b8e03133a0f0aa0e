"""An EP fit at one setting of the hyperparameters, and draws of latents from it with their weights."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.special import logsumexp

from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.approximations.expectation_propagation import QuickFit, quick_fit
from gpmcflow.errors import NumericalError
from gpmcflow.models.case_prior import CasePrior
from gpmcflow.models.gp_model import GPModel

TOLERANCE = 1e-3  # of fits: what draws make up for anyway
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class Draws(NamedTuple):
    """Draws of the linear predictors from an EP fit, one of them picked by its weight."""

    log_ratio: float  #: log of an unbiased estimate of p(y | theta), less the fit's log evidence
    predictor: np.ndarray  #: the one that was picked (n,)
    log_likelihood: float  #: of that one
    share: float  #: effective share of all


class SettingFit:
    """The EP fit at x (d,), theta(x) having its hyperprior where x is standard normal.

    Sites begin at ``start``. The fit, its value and its gradient follow from x and ``start`` alone. Raises
    `NumericalError` where EP does not converge, or K has no factor.
    """

    def __init__(self, model: GPModel, x: np.ndarray, start: tuple[np.ndarray, np.ndarray]) -> None:
        self.model, self.x = model, x
        self.theta, self._slopes = model.parameters.normal.theta(x)
        self.prior = CasePrior(model, self.theta)
        try:
            self.fit: QuickFit = quick_fit(self.prior, tolerance=TOLERANCE, start=start)
        except NumericalError:
            self.fit = quick_fit(self.prior, tolerance=TOLERANCE)
        log_prior = -0.5 * float(x @ x) - len(x) * _HALF_LOG_2PI
        self.log_density = self.fit.log_evidence + log_prior
        if not np.isfinite(self.log_density):
            raise NumericalError(f"EP evidence: it is not finite at {self.theta.tolist()}")

    @cached_property
    def gradient(self) -> np.ndarray:
        """Gradient (d,) of ``log_density`` by x, at the fixed point of EP."""
        by_theta = evidence_gradient(self.model, self.theta, self.fit, self.prior)
        return by_theta * self._slopes - self.x

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean (n,) of the predictors under the fit."""
        prior = self.prior
        return prior.predictor_mean + prior.predictor_covariance @ self.fit.residual

    @cached_property
    def _factor(self) -> np.ndarray:
        """Lower factor of B = I + S K S, S = diag(tau)^(1/2)."""
        root = np.sqrt(self.fit.precision)
        B = root[:, None] * self.prior.predictor_covariance * root
        B.flat[:: len(B) + 1] += 1.0
        L, info = lapack.dpotrf(B.T, lower=1, clean=0, overwrite_a=1)  # B is symmetric
        if info:
            raise NumericalError("EP fit: I + S K S is not positive definite")
        return L

    @cached_property
    def _log_peak(self) -> float:
        """Log of the integral of prior times sites, over the sites' value at the mean."""
        away = self.mean - self.prior.predictor_mean
        return -0.5 * float(self.fit.residual @ away) - float(np.log(np.diag(self._factor)).sum())

    def draws(self, rng: np.random.Generator, n: int, kept: np.ndarray | None = None) -> Draws:
        """n draws eta_j of the fit q, the first of them ``kept`` (n,) if given, and one picked by weight.

        w_j = p(y | eta_j) N(eta_j; c, K) / q(eta_j), whose mean is an unbiased estimate of p(y | theta)
        where all are drawn. By pathwise conditioning eta = m + v - K S B^-1 (S v + z), v ~ N(0, K),
        z ~ N(0, I).

        Raises `NumericalError` where K has no factor.
        """
        prior, fit, root = self.prior, self.fit, np.sqrt(self.fit.precision)
        L, log_det = prior.cholesky
        if not np.isfinite(log_det):
            raise NumericalError(f"prior covariance: no factor at {self.theta.tolist()}")
        z = rng.standard_normal((2, n, len(root)))
        v = z[0] @ L.T
        solved, _ = lapack.dpotrs(self._factor, (root * v + z[1]).T, lower=1)
        away = v - (root[:, None] * solved).T @ prior.predictor_covariance
        if kept is not None:
            away[0] = kept - self.mean
        eta = self.mean + away
        log_likelihood = prior.likelihood.log_density(eta, prior.y)
        log_sites = away @ fit.residual - 0.5 * np.square(away) @ fit.precision
        log_weights = log_likelihood - log_sites + self._log_peak
        highest = log_weights.max()
        if not np.isfinite(highest):
            raise NumericalError(f"EP fit: no draw has a density at {self.theta.tolist()}")
        weights = np.exp(log_weights - highest)
        picked = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))
        picked = min(picked, n - 1)
        log_mean = float(logsumexp(log_weights)) - np.log(n)
        share = float(weights.sum() ** 2 / (weights @ weights) / n)
        return Draws(log_mean - fit.log_evidence, eta[picked], float(log_likelihood[picked]), share)

    def log_prior_of(self, predictor: np.ndarray) -> float:
        """log N(eta; c, K) of predictors (n,)."""
        L, log_det = self.prior.cholesky
        x, _ = lapack.dtrtrs(L, predictor - self.prior.predictor_mean, lower=1)
        return -0.5 * float(x @ x) - log_det - len(x) * _HALF_LOG_2PI
