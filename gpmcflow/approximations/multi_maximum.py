"""The maximum of Laplace's evidence of several latent functions over the hyperparameters, and its slopes."""

from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.approximations.multi_laplace import (
    MultiLaplace,
    curvature,
    maps_at,
    multi_laplace,
    precision,
)
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import MultiLikelihood
from gpmcflow.models.case_prior import CasePrior
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

log = logging.getLogger(__name__)
WIDEST = 3.0  # standard deviations of the hyperprior, within which the maximum is looked for
N_SCREENED = 8  # places, beside the median, of which the best is where the search starts
STEP = 1e-4  # of predictors and coordinates of the likelihood


def maximise_multi_evidence(model: MultiGPModel) -> MultiLaplace:
    """The Laplace fit at the maximum of its evidence over the free hyperparameters.

    Hyperpriors do not count, but for their width: the search, L-BFGS in their normal coordinates, stays
    within 3 standard deviations of the median. It starts at the best of the median and 8 places about it. All
    fits begin at the prior mean of the latents, so that the evidence is a function of the hyperparameters,
    also where there are several modes, and those of the search have a semidefinite W.

    Raises `NumericalError` where no fit converges.
    """
    from scipy.stats import qmc  # here: it takes long to load

    normal = model.parameters.normal

    def minus(x: np.ndarray) -> float:
        try:
            return -multi_laplace(model, normal.theta(x)[0], semidefinite=True).log_evidence
        except NumericalError:
            return np.inf

    def with_slopes(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta, by_x = normal.theta(x)
        try:
            fit = multi_laplace(model, theta, semidefinite=True)
        except NumericalError:
            return worst, np.zeros(len(x))
        return -fit.log_evidence, -multi_laplace_gradient(fit) * by_x

    if not model.dim:
        return multi_laplace(model, np.empty(0))
    places = ndtri(qmc.Sobol(model.dim, seed=0).random(N_SCREENED))
    starts = np.concatenate([np.zeros((1, model.dim)), places])
    values = [minus(x) for x in starts]
    worst = max((value for value in values if value < np.inf), default=0.0)
    best = minimize(
        with_slopes, starts[int(np.argmin(values))], jac=True, method="L-BFGS-B",
        bounds=[(-WIDEST, WIDEST)] * model.dim, options={"ftol": 1e-9},
    )  # fmt: skip
    at_edge = [name for name, x in zip(model.names, best.x, strict=True) if abs(x) >= WIDEST - 1e-6]
    if at_edge:
        log.warning(
            "hyperparameters: the maximum of the evidence (laplace) lies at the edge of the search, %g "
            "standard deviations from the median of the hyperprior of %s; take sample, which weighs them",
            WIDEST, ", ".join(at_edge),
        )  # fmt: skip
    return multi_laplace(model, normal.theta(best.x)[0])


def multi_laplace_gradient(fit: MultiLaplace) -> np.ndarray:
    """Gradient (d,) of log Z by theta, log Z = log p(y | eta) - |xi|^2 / 2 - log |A| / 2 at the mode.

    With g the slopes of log p by eta = U xi + c, W and H the information and minus the Hessian of log p,
    A = I + U'WU, R = W - W U A^-1 U' W, s_ci = -tr(Sigma_i dW_i / d eta_ci) / 2, Sigma_i the covariance of
    the functions of case i, and v = (I + H K)^-1 s, as the mode moves:

        d log Z = tr[(g g' - R + v g' + g v') dK] / 2 + (g + v)' dc + by the likelihood's own,

    for each of these d log p - tr(Sigma dW) / 2 + v'K dg at a fixed mode. Derivatives of W, H and by the
    likelihood's parameters are differences of what single cases give. U'RU = I - A^-1 serves basis functions.

    Source: Rasmussen & Williams (2006), section 5.5.1, for blocks of functions.
    """
    model, theta = fit.model, fit.theta
    full, y, eta = model.full(theta), model.y, fit.predictor
    likelihood, slopes = model.likelihood_at(full), np.zeros(len(full))
    q, n = eta.shape
    maps, _ = maps_at(model, theta)
    ends = np.cumsum([0, *(U.shape[1] for U in maps)])
    own = [slice(a, b) for a, b in pairwise(ends)]
    inverse = cho_solve((fit.factor, True), np.eye(ends[-1]))
    spread = np.empty((q, q, n))
    for a, U in enumerate(maps):
        for b, V in enumerate(maps):
            spread[a, b] = np.einsum("ik,ik->i", U @ inverse[own[a], own[b]], V)
    g, W = likelihood.derivatives(eta, y)[1], curvature(likelihood, eta, y, fit.semidefinite)
    by_case, H = _third(fit, likelihood, spread)
    try:  # v = s - H U (I + U'HU)^-1 U's
        moved = cho_factor(precision(maps, H), lower=True)
    except np.linalg.LinAlgError:
        moved = (fit.factor, True)
    inner = np.split(cho_solve(moved, _pulled(maps, by_case)), ends[1:-1])
    shift = np.stack([U @ part for U, part in zip(maps, inner, strict=True)])
    v = by_case - np.einsum("abn,bn->an", H, shift)
    for part, functions in model.own_parts():
        at = model.thetas_of_parts(theta)[functions[0]]
        of_part = np.zeros(len(part.full(at)))
        if part.basis:
            by_log = np.zeros(part.n_latents)
            for c in functions:
                of_g, of_v = maps[c].T @ g[c], maps[c].T @ v[c]
                by_log += of_g**2 - 1.0 + np.diagonal(inverse)[own[c]] + 2.0 * of_v * of_g
            for rows, (place, log_slope) in part.basis.scales(part.full(at))[1]:
                of_part[place] += log_slope @ by_log[rows]
        else:
            G = np.zeros((n, n))
            for c in functions:
                rows = np.concatenate([U.T * W[a, c] for a, U in enumerate(maps)])
                G += 0.5 * (rows.T @ inverse @ rows) + 0.5 * np.outer(g[c], g[c])
                G += 0.5 * (np.outer(v[c], g[c]) + np.outer(g[c], v[c])) - 0.5 * np.diag(W[c, c])
            of_part += _by_covariance(part, at, G)
        for place in part.free:
            if "mean" in part.owners(place):
                of_part[place] += sum((g[c] + v[c]).sum() for c in functions)
        np.add.at(slopes, model.part_places[functions[0]], of_part)
    for place in np.intersect1d(model._likelihood_places, model.free):
        value, of_g, of_W = _by_parameter(fit, full, place)
        K_of_g = np.stack([U @ (U.T @ row) for U, row in zip(maps, of_g, strict=True)])
        slopes[place] += value - 0.5 * float((spread * of_W).sum()) + float((v * K_of_g).sum())
    return slopes[model.free]


def _pulled(maps: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """U' of rows (q, n)."""
    return np.concatenate([U.T @ row for U, row in zip(maps, rows, strict=True)])


def _third(
    fit: MultiLaplace, likelihood: MultiLikelihood, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """s (q, n), and minus the Hessian of log p (q, q, n)."""
    eta, y = fit.predictor, fit.model.y
    s, H = np.empty_like(eta), np.empty_like(spread)
    for c, step in enumerate(STEP * np.eye(len(eta))[:, :, None]):
        rise = [curvature(likelihood, eta + k * step, y, fit.semidefinite) for k in (1.0, -1.0)]
        s[c] = -0.5 * np.einsum("abn,abn->n", spread, rise[0] - rise[1]) / (2.0 * STEP)
        slopes = [likelihood.derivatives(eta + k * step, y)[1] for k in (1.0, -1.0)]
        H[c] = (slopes[1] - slopes[0]) / (2.0 * STEP)
    return s, 0.5 * (H + np.swapaxes(H, 0, 1))


def _by_covariance(part: GPModel, theta: np.ndarray, G: np.ndarray) -> np.ndarray:
    """tr(G dK / d full_k) of all coordinates of a function's model."""
    dense = part.with_structure("dense") if part.kronecker else part
    prior = CasePrior(dense, theta)
    V = prior.buffers.V
    return prior.buffers.adjoint(prior.full, G, 0.0, prior.R, np.einsum("kn,kn->k", V @ G, V))


def _by_parameter(
    fit: MultiLaplace, full: np.ndarray, place: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Derivatives of log p, its slopes and its information by a coordinate of the likelihood."""
    eta, ends = fit.predictor, []
    for moved in (full[place] + STEP, full[place] - STEP):
        own = fit.model.likelihood_at(np.where(np.arange(len(full)) == place, moved, full))
        value, slope = own.derivatives(eta, fit.model.y)
        ends.append((float(value.sum()), slope, curvature(own, eta, fit.model.y, fit.semidefinite)))
    first, second = ends
    return tuple((a - b) / (2.0 * STEP) for a, b in zip(first, second, strict=True))
