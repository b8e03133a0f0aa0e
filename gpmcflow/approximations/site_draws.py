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
    """Draws of the linear predictors from an EP fit, with their weights."""

    log_ratio: float  #: log of an unbiased estimate of p(y | theta), less the fit's log evidence
    predictor: np.ndarray  #: (k, n)
    log_likelihood: np.ndarray  #: (k,)
    weights: np.ndarray  #: (k,), of sum 1

    @property
    def share(self) -> float:
        """Effective share of the draws."""
        return float(1.0 / (self.weights @ self.weights) / len(self.weights))

    def pick(self, rng: np.random.Generator) -> int:
        """Place of one of them, by weight."""
        picked = np.searchsorted(np.cumsum(self.weights), rng.random() * self.weights.sum())
        return min(int(picked), len(self.weights) - 1)


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
    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower factors L of K, and A of I + (S L)^T S L, S = diag(tau)^(1/2): V = (L A^-T) (L A^-T)^T."""
        L, log_det = self.prior.cholesky
        if not np.isfinite(log_det):
            raise NumericalError(f"prior covariance: no factor at {self.theta.tolist()}")
        scaled = np.asfortranarray(np.sqrt(self.fit.precision)[:, None] * L)
        A, _ = lapack.dlauum(scaled, lower=1, overwrite_c=1)
        A.T.flat[:: len(A) + 1] += 1.0
        A, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NumericalError(f"EP fit: no factor of its covariance at {self.theta.tolist()}")
        return L, A

    def standardised(self, predictor: np.ndarray) -> np.ndarray:
        """z (n,), with m + L A^-T z the predictors (n,). Raises `NumericalError` where K has no factor."""
        L, A = self._factors
        solved, _ = lapack.dtrtrs(L, predictor - self.mean, lower=1)
        return np.tril(A).T @ solved

    def _away(self, z: np.ndarray) -> np.ndarray:
        """L A^-T z_j (k, n) of z (k, n)."""
        L, A = self._factors
        solved, _ = lapack.dtrtrs(A, z.T, lower=1, trans=1)
        return (L @ solved).T

    @cached_property
    def _log_peak(self) -> float:
        """Log of the integral of prior times sites, over the sites' value at the mean."""
        beyond = self.mean - self.prior.predictor_mean
        half_log_det = float(np.log(np.diag(self._factors[1])).sum())
        return -0.5 * float(self.fit.residual @ beyond) - half_log_det

    def _log_weights(self, away: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(y | eta) and log of p(y | eta) N(eta; c, K) / q(eta), of eta = m + away."""
        log_likelihood = self.prior.likelihood.log_density(eta, self.prior.y)
        log_sites = away @ self.fit.residual - 0.5 * np.square(away) @ self.fit.precision
        return log_likelihood, log_likelihood - log_sites + self._log_peak

    def moved(self, rng: np.random.Generator, predictor: np.ndarray, n_moves: int) -> np.ndarray:
        """Predictors (n,) after moves of elliptical slice sampling about the fit.

        They leave p(eta | y, theta) as it is: the ellipse is that of q, the level that of the weight.

        Source: Fagan, Bhandari & Cunningham (2016).
        """
        at = predictor - self.mean
        level = float(self._log_weights(at, predictor)[1])
        for other in self._away(rng.standard_normal((n_moves, len(at)))):
            least = level - rng.standard_exponential()
            angle = rng.uniform(0.0, 2.0 * np.pi)
            low, high = angle - 2.0 * np.pi, angle
            while True:
                away = np.cos(angle) * at + np.sin(angle) * other
                level = float(self._log_weights(away, self.mean + away)[1])
                if level >= least:
                    break
                low, high = (angle, high) if angle < 0.0 else (low, angle)
                angle = rng.uniform(low, high)
            at = away
        return self.mean + at

    def draws(self, z: np.ndarray) -> Draws:
        """The draws eta_j = m + L A^-T z_j of the fit q, where z (k, n) are standard normal.

        w_j = p(y | eta_j) N(eta_j; c, K) / q(eta_j), whose mean is an unbiased estimate of p(y | theta). For
        fixed z it varies smoothly with theta.

        Raises `NumericalError` where K has no factor, or no draw has a density.
        """
        away = self._away(z)
        eta = self.mean + away
        log_likelihood, log_weights = self._log_weights(away, eta)
        total = float(logsumexp(log_weights))
        if not np.isfinite(total):
            raise NumericalError(f"EP fit: no draw has a density at {self.theta.tolist()}")
        log_ratio = total - np.log(len(z)) - self.fit.log_evidence
        return Draws(log_ratio, eta, log_likelihood, np.exp(log_weights - total))

    def log_prior_of(self, predictor: np.ndarray) -> float:
        """log N(eta; c, K) of predictors (n,)."""
        L, log_det = self.prior.cholesky
        x, _ = lapack.dtrtrs(L, predictor - self.prior.predictor_mean, lower=1)
        return -0.5 * float(x @ x) - log_det - len(x) * _HALF_LOG_2PI
