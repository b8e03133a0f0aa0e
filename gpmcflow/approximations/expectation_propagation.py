"""Expectation propagation with parallel, damped updates of Gaussian sites."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel, require_latent

logger = logging.getLogger(__name__)
MAX_FAILED_SWEEPS = 20
STALLED_SWEEPS = 10
MIN_PRECISION = 1e-8  # of a clipped site, over the precision of its cavity
ROUNDING = 1e-15  # of a site's shift, over its terms


@dataclass(frozen=True, eq=False)
class ExpectationPropagation:
    """An EP fit.

    Attributes
    ----------
    sites:
        The Gaussian approximation q.
    log_evidence:
        log Z_EP.
    cavity_mean, cavity_variance:
        Of each linear predictor with its own site removed (n,).
    iterations:
        Sweeps until the sites were stable.
    skipped:
        Site updates skipped because a cavity variance or a site precision was not positive.
    clipped:
        Sites of a likelihood that is not log-concave whose tilted distribution is wider than their
        cavity: they match its mean only, and ``log_evidence`` is not stationary in them.
    """

    sites: GaussianSites
    log_evidence: float
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    iterations: int
    skipped: int
    clipped: int = 0


def expectation_propagation(
    model: LatentGaussianModel,
    *,
    damping: float = 0.8,
    tolerance: float = 1e-8,
    max_sweeps: int = 500,
) -> ExpectationPropagation:
    """Fit a Gaussian to the posterior of latents by expectation propagation.

    The marginals of the Gaussian share two moments with the tilted distributions. With the cavity N(mu, v)
    of each predictor, the new site has the precision tau = 1 / tilted variance - 1 / v and the shift
    nu = alpha (1 + v tau) + mu tau, alpha the slope of the tilted log normaliser by mu
    (`Likelihood.tilted_site`); both move by the fraction ``damping``, halved when the change has not fallen
    for 10 sweeps.

    A likelihood that is not log-concave may ask for tau < 0 (an outlier widens what it touches). Such a site
    is clipped with the mean matched: tau = 1e-8 / v, nu = m (1 / v + tau) - mu / v, m the tilted mean. Where
    a cavity variance or a new precision is not positive (quadrature on a likelihood with a flat tail can do
    that) the site keeps its value this sweep and damping is halved.

    Source: Rasmussen & Williams (2006), algorithm 3.5, in a form without cancellation: variances
    are sums of squares of rows of the factor.

    Parameters
    ----------
    model:
        A `LatentGaussianModel`, such as `GPModel.at` gives.
    damping:
        Fraction of the way to the new sites, above 0 and at most 1.
    tolerance:
        It stops when no undamped change of a site is larger than this in units of the standard deviation of
        its predictor eta: of tau Var(eta), and of the log site's slope at the mean times sd(eta), less what
        rounding explains.
    max_sweeps:
        Most updates of all sites.

    Returns
    -------
    An `ExpectationPropagation` fit with ``sites``, ``log_evidence`` (in nats), cavities and counts.

    Raises
    ------
    InputError:
        For a damping out of range.
    NumericalError:
        After ``max_sweeps``, or 20 sweeps in which a site could not be updated.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.LatentGaussianModel.from_covariance(np.eye(1), gp.Probit(), np.ones(1))
    >>> round(gp.expectation_propagation(model).log_evidence, 4)  # log 1/2
    -0.6931
    """
    if not 0.0 < damping <= 1.0:
        raise InputError(
            f"expectation propagation: damping is {damping!r}; allowed: 0 < damping <= 1"
        )
    require_latent("expectation propagation", model)
    pin_blas()
    tau, nu = np.zeros(model.n_cases), np.zeros(model.n_cases)
    sites = GaussianSites(model, tau, nu)
    failed_sweeps = skipped = stalled = 0
    best = np.inf
    for sweep in range(1, max_sweeps + 1):
        new_tau, new_nu, usable, clipped = _site_update(sites)
        if not usable.all():
            failed_sweeps += 1
            skipped += int((~usable).sum())
            damping *= 0.5
            if failed_sweeps > MAX_FAILED_SWEEPS:
                raise NumericalError(
                    f"expectation propagation: {int((~usable).sum())} sites have no positive "
                    f"cavity variance after {sweep} sweeps; use Laplace, or smaller prior variances"
                )
        next_tau = np.where(usable, (1.0 - damping) * tau + damping * new_tau, tau)
        next_nu = np.where(usable, (1.0 - damping) * nu + damping * new_nu, nu)
        # of the undamped update: a small step is no sign of a fixed point
        change = _change(sites, np.where(usable, new_tau, tau), np.where(usable, new_nu, nu))
        stalled = 0 if change < best else stalled + 1
        best = min(best, change)
        if stalled == STALLED_SWEEPS:  # parallel updates that swing around the fixed point
            damping, stalled, best = 0.5 * damping, 0, change
        tau, nu = next_tau, next_nu
        sites = GaussianSites(model, tau, nu)
        if change < tolerance and usable.all():
            if skipped:
                logger.warning("expectation propagation: %d site updates were skipped", skipped)
            return _finish(sites, sweep, skipped, clipped)
    raise NumericalError(
        f"expectation propagation: sites still change by {change:.1e} (tolerance {tolerance:.0e}) "
        f"after {max_sweeps} sweeps; lower damping or check the hyperparameters"
    )


def as_sites(start: Any, who: str) -> GaussianSites:
    """Return the Gaussian itself, that of a fit, or the EP fit of a model given in its place."""
    if isinstance(start, LatentGaussianModel):
        return expectation_propagation(start).sites
    sites = getattr(start, "sites", start)
    if isinstance(sites, GaussianSites):
        return sites
    raise InputError(
        f"{who}: found {type(start).__name__}; allowed: a GPModel, a LatentGaussianModel, a fit of "
        "approximate or its sites"
    )


def cavities(sites: GaussianSites) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each predictor under q with its own site removed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = sites.predictor_variance / sites.cavity_share
        return sites.predictor_mean - variance * sites.residual, variance


def _site_update(sites: GaussianSites) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Undamped new sites, which of them are usable, and how many of these were clipped."""
    model = sites.model
    mu, v = cavities(sites)
    usable = np.isfinite(v) & (v > 0.0)
    mu, v = np.where(usable, mu, 0.0), np.where(usable, v, 1.0)
    alpha, tau = model.likelihood.tilted_site(model.y, mu, v)
    usable &= np.isfinite(tau) & (1.0 + v * tau > 0.0)  # a tilted variance > 0
    tau, clipped = np.where(usable, tau, 0.0), np.zeros(len(tau), dtype=bool)
    if model.likelihood.log_concave:
        usable &= tau >= 0.0
    else:
        clipped = tau < MIN_PRECISION / v
        tau = np.where(clipped, MIN_PRECISION / v, tau)
    return tau, alpha * (1.0 + v * tau) + mu * tau, usable, int((clipped & usable).sum())


def _change(sites: GaussianSites, tau: np.ndarray, nu: np.ndarray) -> float:
    """Largest move from these sites to (tau, nu), in units of the standard deviation of each predictor.

    Of the shift it is that of the slope at the mean, as nu itself depends on where eta is 0: with balanced
    data it is rounding alone, and far from 0 it is nearly tau times the mean.
    """
    mean, variance = sites.predictor_mean, sites.predictor_variance
    sd = np.sqrt(variance)
    slope = np.abs(nu - sites.shift - (tau - sites.precision) * mean)
    reach = np.abs(mean) + np.sqrt(
        variance / np.abs(sites.cavity_share)
    )  # what nu / tau is made of
    moved = np.maximum(slope - ROUNDING * tau * reach, 0.0) * sd
    return float(max(moved.max(), (np.abs(tau - sites.precision) * variance).max()))


def _finish(
    sites: GaussianSites, iterations: int, skipped: int, clipped: int
) -> ExpectationPropagation:
    """log Z_EP = log prior - log q at the mean + sum_i [log Z_i - log of cavity times site], final cavities.

    Sites are taken over their value at the mean, where b is their slope: the integral of cavity times site is
    exp(-v b^2 / 2) / sqrt(1 + tau v), and nothing of the size of tau y^2 cancels.
    """
    mu, v = cavities(sites)
    log_z, _, _ = sites.model.likelihood.tilted(sites.model.y, mu, v)
    overlap = -0.5 * v * sites.residual**2 - 0.5 * np.log1p(sites.precision * v)
    evidence = sites.log_peak + float((log_z - overlap).sum())
    return ExpectationPropagation(sites, evidence, mu, v, iterations, skipped, clipped)
