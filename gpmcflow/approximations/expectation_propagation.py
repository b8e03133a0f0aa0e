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
    of each predictor and its tilted normaliser's derivatives alpha, r (`Likelihood.tilted`), the new site is
    tau = r / (1 - v r), nu = (alpha + mu r) / (1 - v r); both move by the fraction ``damping``, halved when
    the change has not fallen for 10 sweeps.

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
        It stops when the largest undamped change of tau and of nu, relative to their largest value, is below
        this.
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
        change = max(
            _relative_change(np.where(usable, new_tau, tau), tau),
            _relative_change(np.where(usable, new_nu, nu), nu),
        )
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
    variance, mean = sites.predictor_variance, sites.predictor_mean
    cavity_precision = 1.0 / variance - sites.precision
    with np.errstate(divide="ignore", invalid="ignore"):
        cavity_variance = 1.0 / cavity_precision
        return cavity_variance * (mean / variance - sites.shift), cavity_variance


def _site_update(sites: GaussianSites) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Undamped new sites, which of them are usable, and how many of these were clipped."""
    model = sites.model
    mu, v = cavities(sites)
    usable = np.isfinite(v) & (v > 0.0)
    mu, v = np.where(usable, mu, 0.0), np.where(usable, v, 1.0)
    _, alpha, r = model.likelihood.tilted(model.y, mu, v)
    remaining = 1.0 - v * r  # tilted variance over cavity variance
    usable &= remaining > 0.0
    remaining = np.where(usable, remaining, 1.0)
    tau, nu = r / remaining, (alpha + mu * r) / remaining
    if model.likelihood.log_concave:
        return tau, nu, usable & (r >= 0.0), 0
    clipped = tau < MIN_PRECISION / v
    tau = np.where(clipped, MIN_PRECISION / v, tau)
    nu = np.where(clipped, alpha * (1.0 + v * tau) + mu * tau, nu)
    return tau, nu, usable, int((clipped & usable).sum())


def _relative_change(new: np.ndarray, old: np.ndarray) -> float:
    return float(np.max(np.abs(new - old)) / max(np.max(np.abs(new)), 1e-300))


def _finish(
    sites: GaussianSites, iterations: int, skipped: int, clipped: int
) -> ExpectationPropagation:
    """log Z_EP = log Z-tilde_0 + sum_i [log Z_i - log of cavity times site], final cavities."""
    model, tau, nu = sites.model, sites.precision, sites.shift
    mu, v = cavities(sites)
    log_z, _, _ = model.likelihood.tilted(model.y, mu, v)
    scale = 1.0 + tau * v
    overlap = 0.5 * (2.0 * nu * mu + nu**2 * v - tau * mu**2) / scale - 0.5 * np.log(scale)
    evidence = sites.log_normaliser + float((log_z - overlap).sum())
    return ExpectationPropagation(sites, evidence, mu, v, iterations, skipped, clipped)
