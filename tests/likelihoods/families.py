"""One likelihood of each family that users bring, three outcomes, and its density by scipy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, ndtr

import gpmcflow as gp
from gpmcflow.likelihoods import Likelihood


class Family(NamedTuple):
    """A likelihood without free parameters, its outcomes (3,), and log p(y | eta), broadcast, by scipy."""

    likelihood: Likelihood
    y: np.ndarray
    log_p: Callable[[np.ndarray, np.ndarray], np.ndarray]


S, SIZE, PI, PHI, SHAPE, N = 0.6, 1.5, 0.3, 6.0, 2.5, 9
CUTS = np.array([-0.5, 0.4, 1.5])
EVENT = np.array([1.0, 0.0, -1.0])


def of_times(law: Callable) -> Callable:
    """Of a law of times by its median or scale exp(eta): seen, longer, and shorter, in this order."""

    def log_p(eta, y):
        own = law(np.exp(eta))
        return np.where(
            EVENT == 1.0, own.logpdf(y), np.where(EVENT == 0.0, own.logsf(y), own.logcdf(y))
        )

    return log_p


def of_grades(cumulative: Callable) -> Callable:
    """Of a distribution function."""
    edges = np.array([-np.inf, *CUTS, np.inf])

    def log_p(eta, y):
        grade = y.astype(int)
        return np.log(cumulative(edges[grade] - eta) - cumulative(edges[grade - 1] - eta))

    return log_p


def limited(eta, y):
    """Normal noise, limits -0.5 and 1."""
    law = stats.norm(eta, S)
    inside = law.logpdf(y)
    return np.where(y <= -0.5, law.logcdf(-0.5), np.where(y >= 1.0, law.logsf(1.0), inside))


def of_zeros(kind: str, law: Callable) -> Callable:
    """Zero-inflated or hurdle counts of a law by its mean."""

    def log_p(eta, y):
        base = law(np.exp(eta))
        if kind == "inflated":
            return np.log(PI * (y == 0) + (1.0 - PI) * base.pmf(y))
        some = np.log1p(-PI) + base.logpmf(y) - np.log1p(-base.pmf(0))
        return np.where(y == 0, np.log(PI), some)

    return log_p


def counted(mean):
    """Negative binomial by its mean."""
    return stats.nbinom(SIZE, SIZE / (SIZE + mean))


def of_shares(law: Callable) -> Callable:
    """Of a law by two parameters of a beta distribution."""
    return lambda eta, y: law(PHI * expit(eta), PHI * expit(-eta), y)


TIMES, COUNTS = np.array([0.7, 1.9, 0.4]), np.array([0.0, 3.0, 1.0])
FAMILIES = {
    "Weibull times": Family(
        gp.Survival("weibull", S, event=EVENT),
        TIMES,
        of_times(lambda m: stats.weibull_min(1.0 / S, scale=m)),
    ),
    "log-logistic times": Family(
        gp.Survival("loglogistic", S, event=EVENT),
        TIMES,
        of_times(lambda m: stats.fisk(1.0 / S, scale=m)),
    ),
    "log-normal times": Family(
        gp.Survival("lognormal", S, event=EVENT),
        TIMES,
        of_times(lambda m: stats.lognorm(S, scale=m)),
    ),
    "grades, logit": Family(
        gp.Ordinal(cutpoints=tuple(CUTS)), np.array([1.0, 3.0, 4.0]), of_grades(expit)
    ),
    "grades, probit": Family(
        gp.Ordinal(link="probit", cutpoints=tuple(CUTS)), np.array([1.0, 3.0, 4.0]), of_grades(ndtr)
    ),
    "limits": Family(
        gp.CensoredGaussian(S, below=-0.5, above=1.0), np.array([-0.5, 0.3, 1.0]), limited
    ),
    "grouped": Family(
        gp.CensoredGaussian(S, until=np.array([0.0, 1.0, 2.0])),
        np.array([-1.0, 0.0, 1.0]),
        lambda eta, y: np.log(stats.norm.cdf(y + 1.0, eta, S) - stats.norm.cdf(y, eta, S)),
    ),
    "log-normal": Family(
        gp.LogNormal(S), TIMES, lambda eta, y: stats.lognorm.logpdf(y, S, scale=np.exp(eta))
    ),
    "gamma": Family(
        gp.Gamma(SHAPE),
        TIMES,
        lambda eta, y: stats.gamma.logpdf(y, SHAPE, scale=np.exp(eta) / SHAPE),
    ),
    "beta": Family(
        gp.Beta(PHI),
        np.array([0.1, 0.5, 0.8]),
        of_shares(lambda a, b, y: stats.beta.logpdf(y, a, b)),
    ),
    "beta-binomial": Family(
        gp.BetaBinomial(N, PHI),
        np.array([0.0, 4.0, 9.0]),
        of_shares(lambda a, b, y: stats.betabinom.logpmf(y, N, a, b)),
    ),
    "zero-inflated Poisson": Family(
        gp.ZeroInflated(gp.Poisson(), PI), COUNTS, of_zeros("inflated", stats.poisson)
    ),
    "zero-inflated negative binomial": Family(
        gp.ZeroInflated(gp.NegativeBinomial(SIZE), PI), COUNTS, of_zeros("inflated", counted)
    ),
    "hurdle Poisson": Family(
        gp.Hurdle(gp.Poisson(), PI), COUNTS, of_zeros("hurdle", stats.poisson)
    ),
    "hurdle negative binomial": Family(
        gp.Hurdle(gp.NegativeBinomial(SIZE), PI), COUNTS, of_zeros("hurdle", counted)
    ),
}
X = np.array([0.0, 0.4, 1.0])
MEAN, LENGTH, SIGNAL = 0.3, 0.7, 0.8


def model(family: Family) -> gp.GPModel:
    """Three cases with these outcomes, no free parameter."""
    covariance = gp.SquaredExponential(LENGTH, SIGNAL)
    return gp.GPModel(X, family.y, covariance, family.likelihood, MEAN)


def log_evidence(log_p: Callable[[np.ndarray], np.ndarray], n_nodes: int = 60) -> float:
    """Log of the integral of exp(log_p(eta)), eta (.., 3), over the prior of `model`, by Gauss-Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    weight = np.prod(np.meshgrid(weights, weights, weights), axis=0).ravel()
    K = SIGNAL**2 * np.exp(-0.5 * (X[:, None] - X) ** 2 / LENGTH**2)
    with np.errstate(divide="ignore"):
        values = log_p(MEAN + z @ np.linalg.cholesky(K).T)
    top = values.max()
    return float(top + np.log(weight @ np.exp(values - top) / weight.sum()))


def evidence_is_right(family: Family) -> bool:
    """Whether the likelihood's own densities give the evidence of those by scipy, to 1e-6."""
    expected = log_evidence(lambda eta: family.log_p(eta, family.y).sum(-1), 40)
    by_own = log_evidence(lambda eta: family.likelihood.derivatives(eta, family.y)[0].sum(-1), 40)
    return abs(by_own - expected) < 1e-6
