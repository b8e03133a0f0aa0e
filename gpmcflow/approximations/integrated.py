"""A posterior integrated over the hyperparameters: a Gaussian fit of the latents at each of some settings.

The settings are draws of a mixture of Student-t densities at the modes of log Z(theta) + log p_h(theta), Z
the evidence of a regression, or that of expectation propagation, with weights of what they stand for:

    p(f | y) = sum_k W_k q(f | theta_k),   W_k ~ Z(theta_k) p_h(theta_k) / proposal(theta_k).

Source: Rue, Martino & Chopin (2009) for the sum over settings; draws in place of their grid, as its points
grow exponentially with the number of hyperparameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import lapack
from scipy.special import chdtri, logsumexp

from gpmcflow.approximations.conditional import (
    BasisPredictor,
    NewDesigns,
    Predictor,
    State,
    basis_predictor,
    regression_predictor,
)
from gpmcflow.approximations.evidence_density import NormalEvidenceDensity
from gpmcflow.approximations.expectation_propagation import (
    QuickFit,
    evidence_of,
    expectation_propagation,
    quick_fit,
)
from gpmcflow.approximations.mixture import (
    Mixture,
    Mode,
    find_modes,
    has_normal_coordinates,
    more_modes,
    suits,
)
from gpmcflow.approximations.multi_annealing import annealed_weights
from gpmcflow.approximations.multi_ep import (
    FunctionsSites,
    MultiEP,
    fit_of_sites,
    multi_expectation_propagation,
    warm_fit,
)
from gpmcflow.approximations.multi_gradient import ep_gradient
from gpmcflow.approximations.multi_maximum import takes_ep
from gpmcflow.approximations.multi_prediction import MultiPredictor, fit_predictor
from gpmcflow.approximations.search import N_STARTS, search_range
from gpmcflow.diagnostics.importance_weights import (
    BAD_K,
    effective_size,
    normalised_weights,
    smooth_weights,
    standard_error,
    systematic_resample,
)
from gpmcflow.errors import NumericalError
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.case_prior import CasePrior, prior_at
from gpmcflow.models.gaussian_sites import STRONGEST, GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.regression_density import NormalDensity
from gpmcflow.models.tempered import TemperedPath

ROUND, ROUNDS = 100, 5  # draws of a mixture, and mixtures: each is fitted to the draws before
FEWEST_ROUNDS = 2  # after which weights that would not settle in all rounds are given up
LEAST_EFFECTIVE = 40.0  # draws, with which no more are made
N_DRAWS = 8  # of several functions at each setting, in pairs, for predictions
FEWEST, MOST = 25, 60  # settings that stand for all draws
MOST_ROWS = 700  # up to which 200 fits take seconds; of several functions rows x functions
MOST_LATENTS = 400  # of several functions
OTHER_CLIMBS, RARELY = 2, 1e-3  # from settings of an earlier fit, and the chance that one is so far
FARTHEST = 2.5  # of a start, in standard deviations of the hyperpriors
SEARCHED = 300  # rows of a regression up to which all modes are searched for
CHECKED, LATENTS = 5, 32  # settings at which draws of the latents check EP, and draws at each
TEMPERATURES = 20  # at which those of several functions are annealed
TOLERANCE = 1e-2  # of EP fits that begin at those nearby: log Z within 0.005 nats
SETTLED = 3e-5  # of those of several functions of which gradients are taken
SEED = 0  # of all draws, so that a model has one answer


class WarmEvidence(NormalEvidenceDensity):
    """`NormalEvidenceDensity` whose EP fits begin at the sites of the nearest theta fitted before.

    Values depend on what was asked before by as much as the tolerance of the fits allows, so that no sampler
    may draw from it: weights and searches do not mind.
    """

    def __init__(self, model: GPModel) -> None:
        super().__init__(model, tolerance=TOLERANCE)
        self.thetas: list[np.ndarray] = []
        self.fits: list[QuickFit] = []

    def _quick(self, prior: CasePrior | LatentGaussianModel, theta: np.ndarray) -> QuickFit:
        start = None
        if self.fits:
            near = self.fitted(theta)
            start = near.precision, near.shift
        try:
            fit = quick_fit(prior, start=start, **self.of_fits)
        except NumericalError:
            if start is None:
                raise
            fit = super()._quick(prior, theta)
        self.thetas.append(theta)
        self.fits.append(fit._replace(inverse_factor=None))  # of hundreds of fits
        return fit

    def fitted(self, theta: np.ndarray) -> QuickFit:
        """The fit at the nearest theta that was asked for."""
        nearest = int(np.square(np.array(self.thetas) - theta).sum(1).argmin())
        return self.fits[nearest]


class WarmFunctionsEvidence(WarmEvidence):
    """The same of several latent functions, by EP with sites over all functions of a case."""

    def _at(self, theta: np.ndarray) -> tuple[None, MultiEP]:  # type: ignore[override]
        return None, self._fit(theta, **self.of_fits)

    def _settled(self, theta: np.ndarray) -> tuple[None, MultiEP]:  # type: ignore[override]
        """Closer to the fixed point, as curvatures are differences of gradients."""
        return None, self._fit(theta, tolerance=SETTLED, enough=TOLERANCE)

    def _fit(self, theta: np.ndarray, **of_fits: float) -> MultiEP:
        fit = warm_fit(self.model, theta, self.fitted(theta) if self.fits else None, **of_fits)
        self.thetas.append(theta)
        self.fits.append(fit.sites)
        return fit

    def _gradient(self, theta: np.ndarray, fit: MultiEP, prior: None) -> np.ndarray:  # type: ignore[override]
        return ep_gradient(fit)


@dataclass(frozen=True, eq=False)
class IntegratedApproximation:
    """Fits at settings of the hyperparameters that stand for their posterior: what `predict` takes.

    Attributes
    ----------
    model:
        The `GPModel`.
    theta:
        Coordinates of the settings (s, d), of equal weight.
    sites:
        Precisions and shifts (s, 2, n) of the EP fits there; None for a regression, whose latents are
        integrated out.
    log_evidence:
        log p(y) in nats, averaged over the hyperparameters, by EP where the latents are not integrated out.
    standard_error:
        Its error by the draws of the hyperparameters alone.
    effective_size, pareto_k:
        Of the weighted draws that the settings are taken from; a k above 0.7 means that they miss a part of
        the posterior.
    ep_error, ep_error_se:
        log p(y | theta) less EP's, by draws of the latents at some of the settings, and its standard error; 0
        for a regression.
    """

    model: GPModel
    theta: np.ndarray
    sites: np.ndarray | None
    log_evidence: float
    standard_error: float
    effective_size: float
    pareto_k: float
    ep_error: float = 0.0
    ep_error_se: float = 0.0

    @property
    def method(self) -> str:
        """How the latents are integrated out at each setting: "exact" of a regression, else "ep"."""
        return "exact" if self.sites is None else "ep"

    @property
    def reliable(self) -> bool:
        """Whether the weights say that the settings stand for the posterior."""
        return are_reliable(self.effective_size, self.pareto_k)

    @property
    def checked_evidence(self) -> tuple[float, float]:
        """log p(y) in nats, EP's corrected by the draws of the latents, and its standard error."""
        error = float(np.hypot(self.standard_error, self.ep_error_se))
        return self.log_evidence + self.ep_error, error

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Values (s,) of the free parameters at the settings, by name in their own units."""
        values = [self.model.natural(theta) for theta in self.theta]
        return {name: np.array([own[name] for own in values]) for name in self.model.names}

    def __repr__(self) -> str:
        n = len(self.theta)
        fits = f"{self.method} fit" if n == 1 else f"{self.method} fits at {n} settings"
        at = ", ".join(f"{name}={np.median(own):.4g}" for name, own in self.parameters.items())
        return f"<{fits}: log evidence {self.log_evidence:.4f}{', medians ' + at if at else ''}>"

    def at(self, k: int) -> GaussianSites:
        """Prior times sites at a setting: those of EP, or the observations of a regression."""
        return GaussianSites(self.model.at(self.theta[k]), *self._sites(k))

    def _sites(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and shifts (n,) at a setting."""
        if self.sites is not None:
            return self.sites[k, 0], self.sites[k, 1]
        model, n = self.model, self.model.n_cases
        likelihood = model.likelihood_at(model.full(self.theta[k]))
        precision = np.broadcast_to(1.0 / likelihood.noise_variances(n), n)
        return precision, precision * model.eta_y

    def draws_at(self, k: int, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean (cases,) of the linear predictor at a setting, and n draws about it (n, cases).

        A draw f of the prior is corrected by what the sites say, f - K S B^-1 (S f + e), B = I + S K S. The
        factors of K and B are a quarter of the flops that a factor of the posterior takes.
        Source: Wilson et al. (2020), "Efficiently sampling functions from Gaussian process posteriors".
        """
        sites, prior = self._sites(k), prior_at(self.model, self.theta[k])
        found = None
        if isinstance(prior, CasePrior) and not self.model.kronecker:
            found = _corrected_draws(prior, *sites, rng, n)
        if found is None:
            whole = self.at(k)
            z = rng.standard_normal((n, whole.model.dim))
            found = whole.predictor_mean, whole.predictor(z) - whole.predictor_mean
        return found

    def predictors(self) -> Iterator[Predictor | BasisPredictor]:
        """The predictor of each setting; equal ones are one object."""
        designs, last = NewDesigns(self.model), None
        regression = None
        if self.sites is None and self.model.basis:
            regression = CollapsedBasisDensity(self.model)
        for k, theta in enumerate(self.theta):
            if last is None or not np.array_equal(theta, self.theta[k - 1]):
                last = self._predictor(k, theta, designs, regression)
            yield last

    def _predictor(
        self, k: int, theta: np.ndarray, designs: NewDesigns, regression: Any
    ) -> Predictor | BasisPredictor:
        if self.model.basis:
            sites = None if self.sites is None else self.at(k)
            full = self.model.full(theta)
            return basis_predictor(designs, full, sites=sites, regression=regression)
        if self.sites is None:
            return regression_predictor(self.model, theta)
        sites = self.at(k)
        return State(sites.model, sites=sites).predictor()

    def _error_at(self, k: int, rng: np.random.Generator) -> float:
        """log p(y | theta) less EP's at a setting, by draws of the latents, plus the log of their number."""
        sites = self.at(k)
        eta = sites.predictor(rng.standard_normal((LATENTS, sites.model.dim)))
        likelihood = sites.model.likelihood.log_density(eta, self.model.y)
        ratio = TemperedPath(sites).log_ratio(eta, likelihood)
        return float(logsumexp(ratio)) - evidence_of(sites)

    def to_dataset(self) -> xr.Dataset:
        """What `of_dataset` makes it of again, beside the model."""
        stored = self._numbers_and_settings()
        if self.sites is None:
            return stored
        precision, shift = self.sites[:, 0], self.sites[:, 1]
        along = ("setting", "case")
        return stored.assign(precision=(along, precision), shift=(along, shift))

    def _numbers_and_settings(self) -> xr.Dataset:
        variables: dict[str, Any] = {"theta": (("setting", "parameter"), self.theta)}
        variables |= {name: getattr(self, name) for name in _NUMBERS}
        return xr.Dataset(
            variables, {"parameter": np.array(self.model.names, dtype=object).astype(str)}
        )

    @staticmethod
    def of_dataset(model: GPModel | MultiGPModel, stored: xr.Dataset) -> IntegratedApproximation:
        """The approximation of a model that `to_dataset` stored."""
        theta, numbers = stored["theta"].values, {name: float(stored[name]) for name in _NUMBERS}
        if isinstance(model, MultiGPModel):
            return IntegratedFunctions(model, theta, stored["sites"].values, **numbers)
        sites = None
        if "precision" in stored:
            sites = np.stack([stored["precision"].values, stored["shift"].values], axis=1)
        return IntegratedApproximation(model, theta, sites, **numbers)


class IntegratedFunctions(IntegratedApproximation):
    """The same of several latent functions: what `integrate` makes of a `MultiGPModel`.

    ``sites`` (s, q, q + 1, n) are the precisions of the EP fits, (q, q, n), and beside them the shifts.
    """

    def at(self, k: int) -> MultiEP:  # type: ignore[override]
        """The EP fit at a setting."""
        sites = self.sites[k]  # type: ignore[index]
        return fit_of_sites(self.model, self.theta[k], FunctionsSites(sites[:, :-1], sites[:, -1]))

    def draws_at(self, k: int, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q, cases) of the linear predictors at a setting, and n draws about it (n, q, cases)."""
        fit = self.at(k)
        pairs = fit.draw_latents(rng, 2 * n)  # the mirror images behind
        eta = self.model.predictor(fit.theta, pairs[:n])
        return fit.predictor, eta - fit.predictor

    def predictors(self) -> Iterator[MultiPredictor]:  # type: ignore[override]
        """The predictor of each setting, from draws of its fit."""
        for k in range(len(self.theta)):
            yield fit_predictor(self.at(k), N_DRAWS)

    def _error_at(self, k: int, rng: np.random.Generator) -> float:
        fit = self.at(k)
        weights = annealed_weights(fit, rng, LATENTS, TEMPERATURES)
        return float(logsumexp(weights)) - fit.log_evidence

    def to_dataset(self) -> xr.Dataset:
        """What `of_dataset` makes it of again, beside the model."""
        sites = ("setting", "function", "other", "case"), self.sites
        return self._numbers_and_settings().assign(sites=sites)


def are_reliable(effective_size: float, pareto_k: float) -> bool:
    """Whether weights of so many effective draws, and their k, say that settings stand for the posterior."""
    return not pareto_k > BAD_K and effective_size >= FEWEST


_NUMBERS = (
    "log_evidence", "standard_error", "effective_size", "pareto_k", "ep_error", "ep_error_se",
)  # fmt: skip


def _corrected_draws(
    prior: CasePrior, tau: np.ndarray, nu: np.ndarray, rng: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """See `IntegratedApproximation.draws_at`; None where sites are too precise, or K or B has no factor."""
    K = prior.predictor_covariance
    if (tau * np.diag(K)).max() > STRONGEST:
        return None
    L, log_det = prior.cholesky
    root = np.sqrt(tau)
    B = root[:, None] * K * root
    B.flat[:: len(B) + 1] += 1.0
    factor, info = lapack.dpotrf(B.T, lower=1, overwrite_a=1)  # B is symmetric
    if info or not np.isfinite(log_det):
        return None
    f = rng.standard_normal((n, len(K))) @ L.T
    seen = root * f + rng.standard_normal(f.shape)
    h = nu - tau * prior.predictor_mean
    solved, _ = lapack.dpotrs(factor, np.vstack([root * (K @ h), seen]).T, lower=1)
    mean = prior.predictor_mean + K @ (h - root * solved[:, 0])
    return mean, f - (root * solved[:, 1:].T) @ K


def integrates(model: GPModel | MultiGPModel) -> bool:
    """Whether `integrate` takes a model, and seconds: at most `MOST_ROWS` rows.

    Of several latent functions at most so many rows x functions and `MOST_LATENTS` latents, and likelihoods
    that take EP, such as `Softmax`.
    """
    rows = model.n_cases
    if isinstance(model, MultiGPModel):
        if not takes_ep(model) or model.n_latents > MOST_LATENTS:
            return False
        rows = model.n_sites
    if rows > MOST_ROWS:
        return False
    return not model.dim or has_normal_coordinates(model)


def integrate(
    model: GPModel | MultiGPModel, *, checked: bool = True, start: np.ndarray | None = None
) -> IntegratedApproximation:
    """Fit the latents at settings of the hyperparameters that stand for their posterior.

    Modes of log Z(theta) + log p_h(theta) are climbed from where `maximise_evidence` begins; all of them are
    searched for in a regression of few rows. 100 draws of a mixture of Student-t densities there, with a
    share of the prior, get weights; while fewer than 40 are effective, or their Pareto k is above 0.7, 100 of
    the mixture refitted to them join, up to four times unless 500 at that rate would have fewer than 25
    effective ones, and all count with the weights of all mixtures together (Veach & Guibas 1995). With
    ``start`` (s, d), settings of a fit of the same model given some of the rows, modes are climbed from their
    mean, and from settings far from what that finds; by the usual search if the weights say that it missed.
    Pareto-smoothed weights are resampled to 25 to 60 settings of equal weight. Draws of the latents then say
    how far EP is off, unless its evidence need not be ``checked``.

    Raises
    ------
    InputError:
        For a hyperprior without a transform to a normal.
    NumericalError:
        Where no fit converges.
    """
    exact = model.likelihood.conjugate
    if not model.dim:
        return _without_draws(model, checked)
    several = isinstance(model, MultiGPModel)
    warm = WarmFunctionsEvidence if several else WarmEvidence
    density: Any = NormalDensity(model) if exact else warm(model)
    rng = np.random.default_rng(SEED)
    modes = [] if start is None else modes_near(density, model.parameters.to_normal(start))
    modes = modes or climbed_modes(model, density, rng)
    x, log_weights = weighted_draws(density, Mixture.at_modes(modes, density), rng)
    smoothed, k = smooth_weights(log_weights)
    if start is not None and not are_reliable(float(effective_size(log_weights)), k):
        return integrate(model, checked=checked)
    shares = normalised_weights(smoothed)
    n = int(np.clip(1.0 / shares.max(), FEWEST, MOST))
    theta = density.theta(x[systematic_resample(shares, rng.random(), n)])
    value = float(logsumexp(log_weights)) - np.log(len(x))
    error, size = float(standard_error(log_weights)), float(effective_size(log_weights))
    if exact:
        return IntegratedApproximation(model, theta, None, value, error, size, k)
    fits = [density.fitted(row) for row in theta]
    found = _of_sites(model, theta, fits, value, error, size, k)
    return _with_ep_error(found, rng) if checked else found


def _of_sites(
    model: GPModel | MultiGPModel, theta: np.ndarray, fits: Sequence[Any], *numbers: float
) -> IntegratedApproximation:
    """The approximation of fits, or their sites, at settings theta (s, d)."""
    if isinstance(model, MultiGPModel):
        sites = [np.concatenate([fit.precision, fit.shift[:, None]], axis=1) for fit in fits]
        return IntegratedFunctions(model, theta, np.array(sites), *numbers)
    sites = [np.array([fit.precision, fit.shift]) for fit in fits]
    return IntegratedApproximation(model, theta, np.array(sites), *numbers)


def _without_draws(model: GPModel | MultiGPModel, checked: bool) -> IntegratedApproximation:
    """Of a model without free hyperparameters: one setting."""
    if isinstance(model, MultiGPModel):
        of_all = multi_expectation_propagation(model, np.empty(0))
        numbers = of_all.log_evidence, 0.0, np.inf, -np.inf
        found = _of_sites(model, np.empty((1, 0)), [of_all], *numbers)
        return _with_ep_error(found, np.random.default_rng(SEED)) if checked else found
    fit = expectation_propagation(model.at())
    numbers = fit.log_evidence, 0.0, np.inf, -np.inf
    if model.likelihood.conjugate:
        return IntegratedApproximation(model, np.empty((1, 0)), None, *numbers)
    found = _of_sites(model, np.empty((1, 0)), [fit.sites], *numbers)
    return _with_ep_error(found, np.random.default_rng(SEED)) if checked else found


def climbed_modes(model: GPModel, density: LogDensity, rng: np.random.Generator) -> list[Mode]:
    """Modes of the density, those of most mass first."""
    known: list[Mode] = []
    if suits(model) and model.n_cases <= SEARCHED:
        known = find_modes(density, rng)
    one = model.parts[0] if isinstance(model, MultiGPModel) else model  # whose prior all share
    starts = np.array([model.parameters.to_normal(theta) for theta in search_range(one).starts])
    starts = np.nan_to_num(starts)
    starts[:N_STARTS] = np.clip(starts[:N_STARTS], -FARTHEST, FARTHEST)
    modes = more_modes(density, known, starts)
    if not modes:
        raise NumericalError(
            f"approximate: no fit converges at any of {len(starts)} places; check the hyperpriors of "
            f"{', '.join(model.names)}"
        )
    return modes


def modes_near(density: LogDensity, x: np.ndarray) -> list[Mode]:
    """Modes of the density near settings x (s, d) that stood for it when it knew fewer rows, if any.

    One climb begins at their mean; up to two others at the settings that are furthest from all modes found,
    if that is farther than nearly all draws of a normal density are from its mode.
    """
    modes, far = more_modes(density, [], x.mean(0)[None]), np.sqrt(chdtri(x.shape[1], RARELY))
    for _ in range(OTHER_CLIMBS if modes else 0):
        away = np.array([min(mode.distance(at) for mode in modes) for at in x])
        if away.max() < far:
            break
        modes = more_modes(density, modes, x[[away.argmax()]])
    return modes


def weighted_draws(
    density: LogDensity, first: Mixture, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws x (N, d) and log weights (N,), each over the mean density of all mixtures.

    100 of a mixture at a time, refitted after each, until 40 are effective, or hope is lost.
    """
    mixtures, draws, values = [first], [], []
    while True:
        draws.append(mixtures[-1].draw(rng, ROUND))
        values.append(density.values(draws[-1]))
        x = np.concatenate(draws)
        proposed = logsumexp([own.log_density(x) for own in mixtures], axis=0) - np.log(
            len(mixtures)
        )
        log_weights = np.concatenate(values) - proposed
        size, n = effective_size(log_weights), len(mixtures)
        settled = size >= LEAST_EFFECTIVE and not smooth_weights(log_weights)[1] > BAD_K
        hopeless = n >= FEWEST_ROUNDS and size * ROUNDS / n < FEWEST
        if settled or hopeless or n == ROUNDS:
            return x, log_weights
        mixtures.append(mixtures[-1].refitted(x, log_weights))


def _with_ep_error(
    found: IntegratedApproximation, rng: np.random.Generator
) -> IntegratedApproximation:
    """The same with log p(y | theta) less EP's at some settings, by importance sampling of the latents."""
    places = np.linspace(0, len(found.theta) - 1, CHECKED).astype(int)
    differences = [found._error_at(k, rng) - np.log(LATENTS) for k in places]
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    return replace(found, ep_error=mean, ep_error_se=spread / np.sqrt(CHECKED))
