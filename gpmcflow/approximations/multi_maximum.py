"""Fits of several latent functions, and the maximum of their evidence over the hyperparameters."""

from __future__ import annotations

import contextlib
import logging

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.approximations.multi_ep import MultiEP, multi_expectation_propagation, warm_fit
from gpmcflow.approximations.multi_gradient import ep_gradient, laplace_gradient
from gpmcflow.approximations.multi_laplace import FunctionsFit, multi_laplace
from gpmcflow.errors import NumericalError
from gpmcflow.models.multi_gp_model import MultiGPModel

log = logging.getLogger(__name__)
WIDEST = 3.0  # standard deviations of the hyperprior, within which the maximum is looked for
N_SCREENED = 8  # places, beside the median, of which the best is where the search starts
# of the way from the prior median to hyperparameters at which EP does not converge from nothing
WAY = (0.5, 0.75, 1.0)


def takes_ep(model: MultiGPModel, method: str = "ep") -> bool:
    """Whether fits of a model are by EP: of log-concave likelihoods, unless Laplace's method is stated."""
    return method == "ep" and model.likelihood.log_concave


def functions_fit(model: MultiGPModel, theta: np.ndarray, method: str = "ep") -> FunctionsFit:
    """The fit at theta (d,), by EP or Laplace's method."""
    if not takes_ep(model, method):
        return multi_laplace(model, theta)
    with contextlib.suppress(NumericalError):
        return multi_expectation_propagation(model, theta)
    median, sites = model.prior_median(), None
    for share in WAY:
        fit = multi_expectation_propagation(model, median + share * (theta - median), sites)
        sites = fit.sites
    return fit


def maximise_multi_evidence(model: MultiGPModel, method: str = "ep") -> FunctionsFit:
    """The fit at the maximum of its evidence over the free hyperparameters.

    By EP of a log-concave likelihood, else by Laplace's method. Hyperpriors do not count, but for their
    width: the search, L-BFGS in their normal coordinates, stays within 3 standard deviations of the median.
    It starts at the best of the median and 8 places about it. Fits of EP, which has one fixed point, begin at
    the sites of the one before. Those of Laplace's method begin at the prior mean of the latents, so that the
    evidence is a function of the hyperparameters, also where there are several modes, and have a semidefinite
    W.

    Raises `NumericalError` where no fit converges.
    """
    from scipy.stats import qmc  # here: it takes long to load

    normal, by_ep, sites = model.parameters.normal, takes_ep(model, method), None

    def fitted(theta: np.ndarray) -> FunctionsFit:
        nonlocal sites
        if not by_ep:
            return multi_laplace(model, theta, semidefinite=True)
        fit = warm_fit(model, theta, sites)
        sites = fit.sites
        return fit

    def minus(x: np.ndarray) -> float:
        try:
            return -fitted(normal.theta(x)[0]).log_evidence
        except NumericalError:
            return np.inf

    def with_slopes(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta, by_x = normal.theta(x)
        try:
            fit = fitted(theta)
        except NumericalError:
            return worst, np.zeros(len(x))
        gradient = ep_gradient(fit) if isinstance(fit, MultiEP) else laplace_gradient(fit)
        return -fit.log_evidence, -gradient * by_x

    if not model.dim:
        return functions_fit(model, np.empty(0), method)
    places = ndtri(qmc.Sobol(model.dim, seed=0).random(N_SCREENED))
    starts = np.concatenate([np.zeros((1, model.dim)), places])
    values = [minus(x) for x in starts]
    worst = max((value for value in values if value < np.inf), default=0.0)
    best = minimize(
        with_slopes, starts[int(np.argmin(values))], jac=True, method="L-BFGS-B",
        bounds=[(-WIDEST, WIDEST)] * model.dim, options={"ftol": 1e-6 if by_ep else 1e-9},
    )  # fmt: skip
    at_edge = [name for name, x in zip(model.names, best.x, strict=True) if abs(x) >= WIDEST - 1e-6]
    if at_edge:
        log.warning(
            "hyperparameters: the maximum of the evidence (%s) lies at the edge of the search, %g "
            "standard deviations from the median of the hyperprior of %s; take sample, which weighs them",
            "ep" if by_ep else "laplace", WIDEST, ", ".join(at_edge),
        )  # fmt: skip
    return functions_fit(model, normal.theta(best.x)[0], method)
