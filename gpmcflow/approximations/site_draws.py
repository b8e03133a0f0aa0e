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

TOLERANCE = 1e-2  # of fits: draws make up for what is left, some 0.005 nats, as for EP's own error
MOST_SWEEPS = 100
N_TRIALS = 32  # draws of the latents that choose the levels of each setting
LEVEL_VARIANCE, MOST_LEVELS = 0.5, 32  # of the log weights of latents for each level
NARROW = 1e-12  # bracket of angles where a move ends
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class Draws(NamedTuple):
    """Draws of the linear predictors, annealed from an EP fit, with their weights."""

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

    Sites begin at ``start``, or anew where they do not settle from there; those that do not settle either are
    kept as they are, as any Gaussian can be drawn from. The fit, its value and its gradient follow from x and
    ``start`` alone. Raises `NumericalError` where no site can be updated, or K has no factor.
    """

    def __init__(self, model: GPModel, x: np.ndarray, start: tuple[np.ndarray, np.ndarray]) -> None:
        self.model, self.x = model, x
        self.theta, self._slopes = model.parameters.normal.theta(x)
        self.prior = CasePrior(model, self.theta)
        try:
            self.fit: QuickFit = quick_fit(
                self.prior, tolerance=TOLERANCE, start=start, most=MOST_SWEEPS
            )
        except NumericalError:
            self.fit = quick_fit(self.prior, tolerance=TOLERANCE, most=MOST_SWEEPS, settled=False)
        log_prior = -0.5 * float(x @ x) - len(x) * _HALF_LOG_2PI
        self.log_density = self.fit.log_evidence + log_prior
        if not np.isfinite(self.log_density):
            raise NumericalError(f"EP evidence: it is not finite at {self.theta.tolist()}")

    @cached_property
    def gradient(self) -> np.ndarray:
        """Gradient (d,) of ``log_density`` by x, at the fixed point of EP."""
        by_theta = evidence_gradient(self.model, self.theta, self.fit, self.prior)
        self.fit = self.fit._replace(inverse_factor=None)  # no other use, and n^2 numbers
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

    def _log_weights(self, away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(y | eta) and log of p(y | eta) N(eta; c, K) / q(eta), of eta = m + away."""
        log_likelihood = self.prior.likelihood.log_density(self.mean + away, self.prior.y)
        log_sites = away @ self.fit.residual - 0.5 * np.square(away) @ self.fit.precision
        return log_likelihood, log_likelihood - log_sites + self._log_peak

    def variance(self, z: np.ndarray) -> float:
        """Variance of log w over draws m + L A^-T z_j of the fit, z (k, n); nan where w is zero."""
        with np.errstate(invalid="ignore"):
            return float(np.var(self._log_weights(self._away(z))[1]))

    def n_levels(self, trials: np.ndarray) -> int:
        """Levels that draws of the latents climb, by how much log weights vary at ``trials`` (k, n)."""
        wanted = np.ceil(self.variance(trials) / LEVEL_VARIANCE)
        return int(np.clip(wanted, 1, MOST_LEVELS)) if np.isfinite(wanted) else MOST_LEVELS

    def draws(
        self, rng: np.random.Generator, n: int, n_levels: int, kept: np.ndarray | None = None
    ) -> Draws:
        """n draws by annealed importance sampling from q, the last of them ``kept`` (n,) if given.

        Level t has the density q w^(t / n_levels), w = p(y | eta) N(eta; c, K) / q(eta); a draw of q climbs
        them by one move of elliptical slice sampling about q each. The mean of the weights is an unbiased
        estimate of p(y | theta) where all are drawn; the path of the kept one is drawn backwards.

        Sources: Neal (2001); Murray, Adams & MacKay (2010); slices about an EP fit: Fagan, Bhandari &
        Cunningham (2016).

        Raises `NumericalError` where K has no factor, or no draw has a density.
        """
        z = rng.standard_normal(((n_levels + 1) * n, self.model.n_cases))
        directions = self._away(z).reshape(n_levels + 1, n, -1)
        away, down = directions[0].copy(), np.zeros(n, dtype=bool)
        if kept is not None:
            away[-1], down[-1] = kept - self.mean, True
        log_likelihood, log_w = self._log_weights(away)
        log_weights = np.zeros(n)
        for step in range(1, n_levels + 1):
            log_weights[~down] += log_w[~down] / n_levels
            level = np.where(down, n_levels + 1 - step, step) / n_levels
            log_likelihood, log_w = self._slice(rng, away, directions[step], level, log_w)
            log_weights[down] += log_w[down] / n_levels
        if kept is not None:
            away[-1] = kept - self.mean
            log_likelihood[-1:], _ = self._log_weights(away[-1:])
        total = float(logsumexp(log_weights))
        if not np.isfinite(total):
            raise NumericalError(f"EP fit: no draw has a density at {self.theta.tolist()}")
        log_ratio = total - np.log(n) - self.fit.log_evidence
        return Draws(log_ratio, self.mean + away, log_likelihood, np.exp(log_weights - total))

    def _slice(
        self,
        rng: np.random.Generator,
        away: np.ndarray,
        other: np.ndarray,
        level: np.ndarray,
        log_w: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Move each row of ``away`` (k, n) in place on the ellipse through it and ``other`` (k, n).

        The density q w^level of each row stays as it is. Returns log likelihood and log w (k,) of the moved.
        """
        k, begin = len(away), away.copy()
        least = level * log_w - rng.standard_exponential(k)
        angle = rng.uniform(0.0, 2.0 * np.pi, k)
        low, high = angle - 2.0 * np.pi, angle.copy()
        log_likelihood, log_w = np.empty(k), np.empty(k)
        moving = np.arange(k)
        while len(moving):
            turn = angle[moving, None]
            away[moving] = np.cos(turn) * begin[moving] + np.sin(turn) * other[moving]
            log_likelihood[moving], log_w[moving] = self._log_weights(away[moving])
            reached = level[moving] * log_w[moving] >= least[moving]
            reached |= high[moving] - low[moving] < NARROW  # where rounding hides the beginning
            moving = moving[~reached]
            below = angle[moving] < 0.0
            low[moving[below]], high[moving[~below]] = angle[moving[below]], angle[moving[~below]]
            angle[moving] = rng.uniform(low[moving], high[moving])
        return log_likelihood, log_w

    def log_prior_of(self, predictor: np.ndarray) -> float:
        """log N(eta; c, K) of predictors (n,)."""
        L, log_det = self.prior.cholesky
        x, _ = lapack.dtrtrs(L, predictor - self.prior.predictor_mean, lower=1)
        return -0.5 * float(x @ x) - log_det - len(x) * _HALF_LOG_2PI
