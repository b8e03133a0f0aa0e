"""Leave-one-out predictive densities with the case's latent integrated out, and over hyperparameters."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.conditional import Predictor, regression_predictor
from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    QuickFit,
    cavities,
    quick_fit,
)
from gpmcflow.approximations.integrated import IntegratedApproximation, IntegratedFunctions
from gpmcflow.approximations.multi_ep import MultiEP
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.diagnostics.importance_weights import (
    BAD_K,
    HARMLESS_SHARE,
    effective_size,
    smooth_weights,
)
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.numerics.lapack import lower_inverse

LOOSE = 1e-4  # tolerance of EP fits at many draws: densities within 0.001 nats


class LeaveOneOut(NamedTuple):
    """log p(y_i | y_-i) of each case."""

    log_density: np.ndarray  #: (n,)
    pareto_k: np.ndarray  #: (n,); zeros where nothing is reweighted
    by: str = (
        "EP"  #: "exact", "draws" of the latents, "EP" or "Laplace": how the latents were left out
    )
    ep_difference: float = np.nan  #: largest difference from EP's, where it is by draws
    response: np.ndarray | None = (
        None  #: as of `Cavities`, if asked for and latents are left out by a fit
    )

    @property
    def bad_share(self) -> float:
        """Share of cases whose k is above 0.7."""
        return float(np.mean(self.pareto_k > BAD_K))


class Cavities(NamedTuple):
    """The predictor of each case given the outcomes of the others: normal, (n,)."""

    likelihood: Likelihood
    mean: np.ndarray
    variance: np.ndarray

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y_i | y_-i), (n,)."""
        return self.likelihood.tilted(y, self.mean, self.variance)[0]

    def response(self) -> np.ndarray:
        """Mean response (n,), for one unit of exposure; of grades the probability of each (C, n)."""
        if self.likelihood.classes:
            return self.likelihood.class_probabilities(self.mean, self.variance)
        return self.likelihood.mean_response(self.mean, self.variance)


def of_regression(predictor: Predictor) -> np.ndarray:
    """log p(y_i | y_-i, theta) of a regression with Gaussian noise, (n,).

    With C = K + D = L L' and a = C^-1 (y - c): y_i is N(y_i - a_i / C^-1_ii, 1 / C^-1_ii).
    Source: Rasmussen & Williams (2006), eqs. 5.10-5.12.
    """
    inverse = lower_inverse(predictor.factor)
    precision = np.einsum("ji,ji->i", inverse, inverse)
    residual = (inverse.T @ predictor.coefficients[0]) / precision
    density = 0.5 * (np.log(precision / (2.0 * np.pi)) - precision * residual**2)
    return density + predictor.likelihood.log_jacobian(predictor.model.y)


def of_fit(fit: ExpectationPropagation | QuickFit, likelihood: Likelihood) -> Cavities:
    """Cavities of an EP fit, whose log p(y_i | y_-i, theta) is EP's. Source: Opper & Winther (2000)."""
    return Cavities(likelihood, fit.cavity_mean, fit.cavity_variance)


def of_sites(sites: GaussianSites) -> Cavities:
    """As `of_fit`, of prior times sites at a fixed point of EP."""
    return Cavities(sites.model.likelihood, *cavities(sites))


def of_basis(model: GPModel, theta: np.ndarray) -> Cavities:
    """Cavities of Laplace's method with basis functions.

    Exact with Gaussian noise. With tau_i, nu_i the sites at the mode of the weights, m_i, v_i the moments of
    the predictor under them: the cavity has precision 1 / v_i - tau_i. O(n m^2), of m x m matrices.
    Source: Vehtari et al. (2016), section 3.
    """
    full, y = model.full(theta), model.y
    likelihood, c = model.likelihood_at(full), model.mean_at(full)
    if likelihood.conjugate:
        precision = 1.0 / likelihood.noise_variances(model.n_cases)
        precision = np.broadcast_to(precision, model.n_cases)
        sites = FrozenSites(precision, precision * model.eta_y)
    else:
        sites = basis_sites(model, theta)
    design, (s, _) = model.basis_design, model.basis.scales(full)
    shift = design.pull_back(sites.shift - c * sites.precision)
    posterior = WeightPosterior(design.gram(sites.precision), shift, s)
    mean, variance = np.empty(len(y)), posterior.variances(design)
    design.multiply(s * posterior.mean, mean)
    mean += c
    left = 1.0 / (1.0 / variance - sites.precision)
    return Cavities(likelihood, left * (mean / variance - sites.shift), left)


def of_latents(model: GPModel, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
    """log p(y_i | f_-i, theta) of each case given latents f (n,), (n,).

    f_i given the others is N(f_i - a_i / Q_ii, 1 / Q_ii), Q = K^-1, a = Q f. Under draws of theta and f
    given y, the mean of 1 / p(y_i | f_-i, theta) is 1 / p(y_i | y_-i): no approximation of the latents.

    Raises `NumericalError` where the covariance does not factorise.
    """
    return model.likelihood_at(model.full(theta)).tilted(model.y, *_given_others(model, theta, f))[
        0
    ]


def of_functions(model: MultiGPModel, theta: np.ndarray, latents: np.ndarray) -> np.ndarray:
    """As `of_latents`, of several functions, latents (draw, n_latents) at one theta, (draw, n).

    Weights of a basis stay as they are.
    """
    rows, thetas = np.split(latents, model.splits, axis=1), model.thetas_of_parts(theta)
    mean = np.empty((len(latents), len(rows), model.n_cases))
    variance = np.zeros(mean.shape[1:])
    for part, functions in model.own_parts():
        at, f = thetas[functions[0]], np.stack([rows[c] for c in functions], axis=1)
        if part.basis:
            mean[:, functions] = part.predictor(at, f)
        else:
            mean[:, functions], variance[functions] = _given_others(part, at, f)
    likelihood = model.likelihood_at(model.full(theta))
    return np.array([likelihood.log_mean(model.y, row, variance) for row in mean])


def _given_others(
    model: GPModel, theta: np.ndarray, f: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (.., n) and variance (n,) of the predictor of each case given latents f (.., n) of the others."""
    full = model.full(theta)
    inverse = lower_inverse(model.cholesky(full))
    precision = np.einsum("ji,ji->i", inverse, inverse)
    mean = model.mean_at(full) + f - (f @ inverse.T @ inverse) / precision
    return mean, 1.0 / precision


def how(model: GPModel) -> str:
    """How `at_theta` leaves the latents out."""
    if model.likelihood.conjugate:
        return "exact"
    return "Laplace" if model.basis else "EP"


def at_theta(model: GPModel, theta: np.ndarray) -> np.ndarray:
    """log p(y_i | y_-i, theta) of each case, (n,); nan where EP, or Laplace's method, does not converge."""
    if model.likelihood.conjugate and not model.basis:
        return of_regression(regression_predictor(model, theta))
    found = cavities_at(model, theta)[0]
    return np.full(model.n_cases, np.nan) if found is None else found.log_density(model.y)


def cavities_at(
    model: GPModel, theta: np.ndarray, near: QuickFit | None = None, tolerance: float = 1e-8
) -> tuple[Cavities | None, QuickFit | None]:
    """Cavities by EP, or Laplace's method with basis functions, None where that does not converge; EP's fit.

    EP begins at the fit of a theta nearby.
    """
    if model.basis:
        with contextlib.suppress(NumericalError):
            return of_basis(model, theta), None
        return None, None
    at = model.at(theta)
    for start in [None] if near is None else [(near.precision, near.shift), None]:
        with contextlib.suppress(NumericalError):
            fit = quick_fit(at, start=start, tolerance=tolerance)
            return of_fit(fit, at.likelihood), fit
    return None, near


def _of_chain(
    model: GPModel, thetas: np.ndarray, responses: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """log p(y_i | y_-i, theta) (draw, n) of one chain's draws, and their responses if asked for."""
    if model.likelihood.conjugate:
        return np.array([at_theta(model, theta) for theta in thetas]), []
    densities, asked, fit = [], [], None
    for theta in thetas:
        found, fit = cavities_at(model, theta, fit, LOOSE)
        failed = np.full(model.n_cases, np.nan)
        densities.append(failed if found is None else found.log_density(model.y))
        if responses:
            asked.append(failed if found is None else found.response())
    return np.array(densities), asked


def over_draws(
    model: GPModel,
    thetas: np.ndarray,
    latents: np.ndarray | None = None,
    *,
    responses: bool = False,
) -> LeaveOneOut:
    """log p(y_i | y_-i) over draws of theta (chain, draw, d), by Pareto-smoothed importance sampling.

    With draws of the ``latents`` f (chain, draw, n) the weights are exact: 1 / p(y_i | f_-i, theta), see
    `of_latents`; of a case whose k is above `BAD_K` the value is that of the fit, which such draws cannot
    tell better. Without them, with basis functions, and with Gaussian noise, draws of p(theta | y) get
    weights 1 / p(y_i | y_-i, theta), by `at_theta`. Draws at which that fit does not converge are left out of
    all chains. Where no tail can be fitted, k is infinite and nothing is smoothed: a tail of one value, as
    draws that repeat have it, and fewer draws than `smooth_weights` takes.

    Source: Vehtari, Gelman & Gabry (2017); with latents integrated out, Vehtari et al. (2016).
    """
    chains = [_of_chain(model, chain, responses) for chain in thetas]
    values = np.array([densities for densities, _ in chains])
    kept = np.isfinite(values).all(axis=(0, 2))
    values, response = values[:, kept], None
    by_fit = _averaged(values) if values.shape[1] else None
    if by_fit is not None and responses and not model.likelihood.conjugate:
        own = [[one[k] for k in np.flatnonzero(kept)] for _, one in chains]
        response = _average_response(values, np.array(own))
    if latents is not None:
        exact = np.array([
            [of_latents(model, theta, f) for theta, f in zip(*chains, strict=True)]
            for chains in zip(thetas, latents, strict=True)
        ])  # fmt: skip
        return _of_draws(exact, None if by_fit is None else by_fit[0])._replace(response=response)
    if by_fit is None:
        raise NumericalError(
            "leave-one-out: the fit converges at none of the draws; the likelihood and the covariance do not "
            "go together with these data"
        )
    return LeaveOneOut(*by_fit, how(model), response=response)


def over_settings(fit: IntegratedApproximation, *, responses: bool = False) -> LeaveOneOut:
    """log p(y_i | y_-i) over the settings of a fit, by Pareto-smoothed importance sampling.

    Their weights are 1 / p(y_i | y_-i, theta): exact for a regression, else by the cavities of the EP fits.
    """
    model, response = fit.model, None
    if fit.sites is None:
        values = np.array([at_theta(model, theta) for theta in fit.theta])
    elif isinstance(fit, IntegratedFunctions):
        values = np.array([fit.at(k).log_left_out for k in range(len(fit.theta))])
    else:
        found = [of_sites(fit.at(k)) for k in range(len(fit.theta))]
        values = np.array([own.log_density(model.y) for own in found])
        if responses:
            asked = np.array([[own.response() for own in found]])
            response = _average_response(values[None], asked)
    by = "exact" if fit.sites is None else "EP"
    if len(values) == 1:
        return LeaveOneOut(values[0], np.zeros(len(values[0])), by, response=response)
    return LeaveOneOut(*_averaged(values[None]), by, response=response)


def over_latents(model: GPModel, theta: np.ndarray, latents: np.ndarray) -> LeaveOneOut:
    """As `over_draws` with latents (chain, draw, n) at one theta."""
    likelihood = model.likelihood_at(model.full(theta))
    mean, variance = _given_others(model, theta, latents)
    exact = np.array([[likelihood.tilted(model.y, m, variance)[0] for m in own] for own in mean])
    by_fit = at_theta(model, theta)
    return _of_draws(exact, by_fit if np.all(np.isfinite(by_fit)) else None)


def _of_draws(exact: np.ndarray, by_fit: np.ndarray | None) -> LeaveOneOut:
    """From log p(y_i | f_-i, theta) (chain, draw, n), and the values (n,) of the fit, if there are any."""
    density, k = _averaged(exact)
    if by_fit is None:
        return LeaveOneOut(density, k, "draws", np.nan)
    apart = float(np.abs(density - by_fit).max())
    return LeaveOneOut(np.where(k > BAD_K, by_fit, density), k, "draws", apart)


def over_function_draws(
    model: MultiGPModel, thetas: np.ndarray, latents: np.ndarray
) -> LeaveOneOut:
    """As `over_draws` with the latents (chain, draw, n_latents) of several functions."""
    values = np.array([
        [of_functions(model, theta, f[None])[0] for theta, f in zip(*chains, strict=True)]
        for chains in zip(thetas, latents, strict=True)
    ])  # fmt: skip
    return LeaveOneOut(*_averaged(values), "draws")


def of_functions_fit(fit: FunctionsFit, n_draws: int = 400) -> LeaveOneOut:
    """Of several functions at one setting: by the cavities of EP, or as `over_function_draws`, of draws."""
    if isinstance(fit, MultiEP):
        return LeaveOneOut(fit.log_left_out, np.zeros(len(fit.log_left_out)), "EP")
    latents = fit.draw_latents(np.random.default_rng(0), n_draws)
    values = of_functions(fit.model, fit.theta, latents)
    density, k = _averaged(values[None])
    return LeaveOneOut(density, k, "Laplace")


def _average_response(values: np.ndarray, responses: np.ndarray) -> np.ndarray:
    """Responses (.., n) of responses (chain, draw, .., n) given the draws, weighted with 1 / p(y_i | ..)."""
    flat = values.reshape(-1, values.shape[-1])
    each = responses.reshape(len(flat), *responses.shape[2:])
    weight = np.exp(flat.min(0) - flat)
    return np.einsum("s...n,sn->...n", each, weight / weight.sum(0))


def _averaged(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p(y_i | y_-i) and k, (n,), from densities (chain, draw, n) given the draws."""
    flat = values.reshape(-1, values.shape[-1])
    plain = np.log(len(flat)) - logsumexp(-flat, axis=0)
    smoothed, k = smooth_weights(-flat.T)
    density = logsumexp(smoothed + flat.T, axis=1) - logsumexp(smoothed, axis=1)
    # k knows no scale: of weights that are almost equal it is arbitrary, and does no harm
    even = effective_size(-flat.T) >= HARMLESS_SHARE * len(flat)
    known = np.isfinite(density) & np.isfinite(k)
    k = np.where(known, np.where(even, np.fmin(k, 0.0), k), np.inf)
    return np.where(known & ~even, density, plain), k
