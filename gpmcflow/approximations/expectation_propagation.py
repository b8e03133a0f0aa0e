"""Expectation propagation with parallel updates of Gaussian sites, damped where that is needed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.case_prior import CasePrior
from gpmcflow.models.gaussian_sites import STRONGEST, WEAKEST, GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel, require_latent
from gpmcflow.numerics.lapack import lower_inverse

logger = logging.getLogger(__name__)
MAX_SWEEPS, MAX_FAILED_SWEEPS = 500, 20
STALLED_SWEEPS = 10
MIN_PRECISION = 1e-8  # of a clipped site, over the precision of its cavity
LARGEST_SITE = 1e100  # precision, or shift
ROUNDING = 1e-15  # of a site's shift, over its terms
GROWING_SWEEPS = 3  # in a row, whose changes grow: updates that overshoot
SWINGING_SWEEPS, SLOW = 4, 0.7  # in a row, whose changes turn round and fall by less than 30 %
CAREFUL = 0.8  # damping of likelihoods that are not log-concave
FEW = 0.25  # of the cases below: their variances are solved for one by one


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

    @property
    def precision(self) -> np.ndarray:
        """tau (n,) of the sites."""
        return self.sites.precision

    @property
    def residual(self) -> np.ndarray:
        """Slopes nu - tau m (n,) of the log sites at the mean m of the predictors."""
        return self.sites.residual


class QuickFit(NamedTuple):
    """The part of an EP fit that a search for hyperparameters needs; see `quick_fit`."""

    precision: np.ndarray
    shift: np.ndarray
    residual: np.ndarray
    log_evidence: float
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    inverse_factor: np.ndarray | None = None  #: L^-1 (n, n) of I + S K S = L L', if it was made


def expectation_propagation(
    model: LatentGaussianModel,
    *,
    damping: float | None = None,
    tolerance: float = 1e-8,
    max_sweeps: int = MAX_SWEEPS,
) -> ExpectationPropagation:
    """Fit a Gaussian to the posterior of latents by expectation propagation.

    The marginals of the Gaussian share two moments with the tilted distributions. With the cavity N(mu, v)
    of each predictor, the new site has the precision tau = 1 / tilted variance - 1 / v and the shift
    nu = alpha (1 + v tau) + mu tau, alpha the slope of the tilted log normaliser by mu
    (`Likelihood.tilted_site`); both move by the fraction ``damping``, halved when the change has grown three
    times in a row, has not fallen for 10 sweeps, or has turned round four times and fallen by less than 30 %.

    A likelihood that is not log-concave may ask for tau < 0 (an outlier widens what it touches). Such a site
    is clipped with the mean matched: tau = 1e-8 / v, nu = m (1 / v + tau) - mu / v, m the tilted mean. Where
    a cavity variance or a new precision is not positive (quadrature on a likelihood with a flat tail can do
    that) the site keeps its value this sweep and damping is halved.

    Source: Rasmussen & Williams (2006), algorithm 3.5. Sweeps take moments from the inverse of
    B = I + S K S, S = diag(tau)^(1/2), in n^3 flops; the last ones, and those with sites that are too precise
    for that, from a form without cancellation, in which variances are sums of squares of rows of the factor.

    Parameters
    ----------
    model:
        A `LatentGaussianModel`, such as `GPModel.at` gives.
    damping:
        Fraction of the way to the new sites, above 0 and at most 1; by default 1, and 0.8 for a likelihood
        that is not log-concave.
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
    if damping is not None and not 0.0 < damping <= 1.0:
        raise InputError(
            f"expectation propagation: damping is {damping!r}; allowed: 0 < damping <= 1"
        )
    require_latent("expectation propagation", model)
    pin_blas()
    sweeps = _Sweeps(model, damping, tolerance, max_sweeps)
    if model.direct:
        sweeps.run(_moments)
    sites, clipped = sweeps.run(GaussianSites)
    if sweeps.skipped:
        logger.warning("expectation propagation: %d site updates were skipped", sweeps.skipped)
    return _finish(sites, sweeps.done, sweeps.skipped, clipped)


def quick_fit(
    model: LatentGaussianModel | CasePrior,
    *,
    tolerance: float = 1e-8,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    damping: float | None = None,
    most: int = MAX_SWEEPS,
    settled: bool = True,
) -> QuickFit:
    """The fit of `expectation_propagation` without a Gaussian to draw from.

    ``start`` holds precisions and shifts (n,) of the first sites, such as those of a fit nearby. Sites that
    still move after ``most`` sweeps are an error, or kept as they are where they need not be ``settled``.
    """
    pin_blas()
    sweeps = _Sweeps(model, damping, tolerance, most, start, settled)
    moments, _ = sweeps.run(_moments if model.direct else GaussianSites)
    mu, v = cavities(moments)
    return QuickFit(
        moments.precision,
        moments.shift,
        moments.residual,
        _log_evidence(moments, mu, v),
        mu,
        v,
        getattr(moments, "inverse_factor", None),
    )


class _Sweeps:
    """Updates of all sites until they are stable, with moments by one form after the other."""

    def __init__(
        self,
        model: LatentGaussianModel | CasePrior,
        damping: float | None,
        tolerance: float,
        most: int,
        start: tuple[np.ndarray, np.ndarray] | None = None,
        settled: bool = True,
    ) -> None:
        if damping is None:
            damping = 1.0 if model.likelihood.log_concave else CAREFUL
        self.model, self.damping, self.tolerance, self.most = model, damping, tolerance, most
        self.settled = settled
        zero = np.zeros(model.n_cases)
        self.tau: np.ndarray = zero if start is None else start[0]
        self.nu: np.ndarray = zero if start is None else start[1]
        self.done = self.skipped = self.failed = 0

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # such sites are not usable
    def run(self, moments: Any) -> tuple[Any, int]:
        """Sites that are stable, by ``moments(model, tau, nu)``, and how many of them are clipped."""
        stalled = growing = swinging = 0
        best = last = np.inf
        before = np.zeros_like(self.tau)
        while self.done < self.most:
            self.done += 1
            sites = moments(self.model, self.tau, self.nu)
            new_tau, new_nu, usable, clipped = _site_update(sites)
            if not usable.all():
                self._fails(int((~usable).sum()))
            new_tau, new_nu = np.where(usable, new_tau, self.tau), np.where(usable, new_nu, self.nu)
            # of the undamped update: a small step is no sign of a fixed point
            change = _change(sites, new_tau, new_nu)
            last_sweep = self.done == self.most and not self.settled
            if (change < self.tolerance or last_sweep) and usable.all():
                return sites, clipped
            stalled = 0 if change < best else stalled + 1
            growing = growing + 1 if change > last else 0
            step = new_tau - self.tau
            swinging = swinging + 1 if step @ before < 0.0 and change > SLOW * last else 0
            best, last, before = min(best, change), change, step
            if (
                stalled == STALLED_SWEEPS
                or growing == GROWING_SWEEPS
                or swinging == SWINGING_SWEEPS
            ):
                # parallel updates that swing around the fixed point
                self.damping, best = 0.5 * self.damping, change
                stalled = growing = swinging = 0
            self.tau = self.tau + self.damping * (new_tau - self.tau)
            self.nu = self.nu + self.damping * (new_nu - self.nu)
        raise NumericalError(
            f"expectation propagation: sites still change by {change:.1e} (tolerance {self.tolerance:.0e}) "
            f"after {self.most} sweeps; lower damping or check the hyperparameters"
        )

    def _fails(self, n: int) -> None:
        """Some sites could not be updated."""
        self.failed += 1
        self.skipped += n
        self.damping *= 0.5
        if self.failed > MAX_FAILED_SWEEPS:
            raise NumericalError(
                f"expectation propagation: {n} sites have no positive "
                f"cavity variance after {self.done} sweeps; use Laplace, or smaller prior variances"
            )


class _CaseMoments(NamedTuple):
    """Marginals of the linear predictors under prior times sites, as `GaussianSites` has them."""

    model: LatentGaussianModel | CasePrior
    precision: np.ndarray
    shift: np.ndarray
    predictor_mean: np.ndarray
    predictor_variance: np.ndarray
    cavity_share: np.ndarray
    residual: np.ndarray
    log_peak: float
    inverse_factor: np.ndarray | None = None


def _moments(
    model: LatentGaussianModel | CasePrior, tau: np.ndarray, nu: np.ndarray
) -> _CaseMoments | GaussianSites:
    """Moments by B = I + S K S, S = diag(tau)^(1/2), where that keeps digits; else in the longer form.

    With h = nu - tau mean_0 the slopes at the mean are b = h - S B^-1 S K h, the mean is mean_0 + K b, the
    share 1 - tau Var eta is the diagonal of B^-1; of weak sites Var eta is K_ii - |L^-1 S k_i|^2, B = L L'.
    """
    K = model.predictor_covariance
    diagonal = np.diag(K)
    strength = tau * diagonal
    weak = np.flatnonzero(strength < WEAKEST)
    if not tau.any():  # the sites are all weak, and no solve is needed
        b = nu
        mean, one = model.predictor_mean + K @ b, np.ones(len(tau))
        return _CaseMoments(model, tau, nu, mean, diagonal, one, b, -0.5 * float(b @ K @ b))
    if strength.max() > STRONGEST or len(weak) > FEW * len(tau):
        return _longer_form(model, tau, nu)
    root = np.sqrt(tau)
    B = root[:, None] * K * root
    B.flat[:: len(B) + 1] += 1.0
    columns = B if B.flags.f_contiguous else B.T  # B is symmetric
    L, info = lapack.dpotrf(columns, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        return _longer_form(model, tau, nu)
    h = nu - tau * model.predictor_mean
    solved, _ = lapack.dpotrs(L, root * (K @ h), lower=1)
    b = h - root * solved
    mean = K @ b
    half_log_det = float(np.log(np.diag(L)).sum())
    known = None
    if weak.size:
        known, _ = lapack.dtrtrs(L, root[:, None] * K[:, weak], lower=1)
    inverse = lower_inverse(L, overwrite=True)
    share = np.einsum("ij,ij->j", inverse, inverse)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1.0 - share) / tau
    if known is not None:
        variance[weak] = diagonal[weak] - np.einsum("ij,ij->j", known, known)
        share[weak] = 1.0 - tau[weak] * variance[weak]
    peak = -0.5 * float(b @ mean) - half_log_det
    mean = model.predictor_mean + mean
    return _CaseMoments(model, tau, nu, mean, variance, share, b, peak, inverse)


def _longer_form(
    model: LatentGaussianModel | CasePrior, tau: np.ndarray, nu: np.ndarray
) -> GaussianSites:
    whole = model.latent_model if isinstance(model, CasePrior) else model
    return GaussianSites(whole, tau, nu)


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


def cavities(sites: GaussianSites | _CaseMoments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each predictor under q with its own site removed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = sites.predictor_variance / sites.cavity_share
        return sites.predictor_mean - variance * sites.residual, variance


def evidence_of(sites: GaussianSites) -> float:
    """log Z_EP with these sites, those of a fixed point of EP."""
    return _log_evidence(sites, *cavities(sites))


def _site_update(
    sites: GaussianSites | _CaseMoments,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
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
    # of a noise far below rounding sites overflow, and so would products with them
    usable &= (np.abs(alpha) < LARGEST_SITE) & (tau < LARGEST_SITE)
    tau, alpha = np.where(usable, tau, 0.0), np.where(usable, alpha, 0.0)
    return tau, alpha * (1.0 + v * tau) + mu * tau, usable, int((clipped & usable).sum())


def _change(sites: GaussianSites | _CaseMoments, tau: np.ndarray, nu: np.ndarray) -> float:
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
    """The fit with these sites, and its final cavities."""
    mu, v = cavities(sites)
    evidence = _log_evidence(sites, mu, v)
    return ExpectationPropagation(sites, evidence, mu, v, iterations, skipped, clipped)


def _log_evidence(sites: GaussianSites | _CaseMoments, mu: np.ndarray, v: np.ndarray) -> float:
    """log Z_EP = log prior - log q at the mean + sum_i [log Z_i - log of cavity times site].

    Sites are taken over their value at the mean, where b is their slope: the integral of cavity times site is
    exp(-v b^2 / 2) / sqrt(1 + tau v), and nothing of the size of tau y^2 cancels.
    """
    log_z, _, _ = sites.model.likelihood.tilted(sites.model.y, mu, v)
    overlap = -0.5 * v * sites.residual**2 - 0.5 * np.log1p(sites.precision * v)
    return sites.log_peak + float((log_z - overlap).sum())
