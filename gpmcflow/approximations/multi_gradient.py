"""Gradients of the evidence of several latent functions, by EP and Laplace's method, by hyperparameters."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gpmcflow.approximations.multi_ep import MultiEP, log_averages
from gpmcflow.approximations.multi_laplace import (
    FunctionsFit,
    MultiLaplace,
    curvature,
    maps_at,
    precision,
)
from gpmcflow.likelihoods import MultiLikelihood
from gpmcflow.models.case_prior import CasePrior
from gpmcflow.models.gp_model import GPModel
from gpmcflow.numerics.lapack import ROUTINES, invert_factored

STEP = 1e-4  # of predictors and coordinates of the likelihood


class _Inverse:
    """The maps U_c of a fit, and A^-1 by functions."""

    def __init__(self, fit: FunctionsFit) -> None:
        self.maps, _ = maps_at(fit.model, fit.theta)
        self.ends = np.cumsum([0, *(U.shape[1] for U in self.maps)])
        self.own = [slice(a, b) for a, b in pairwise(self.ends)]
        columns = np.array(fit.factor.T, order="C")
        invert_factored(ROUTINES, columns)  # what is below the diagonal of its transpose
        self.whole = np.triu(columns) + np.triu(columns, 1).T

    def spread(self) -> np.ndarray:
        """Covariance of the functions of each case (q, q, n)."""
        q, n = len(self.maps), len(self.maps[0])
        spread = np.empty((q, q, n))
        for a, U in enumerate(self.maps):
            for b, V in enumerate(self.maps):
                block = self.whole[self.own[a], self.own[b]]
                spread[a, b] = np.einsum("ik,ik->i", U @ block, V)
        return spread


def ep_gradient(fit: MultiEP) -> np.ndarray:
    """Gradient (d,) of log Z by theta at the fixed point of EP, where the sites do not count.

    With b = h - Lambda m (q, n), m the means of the predictors, and R = Lambda - Lambda U A^-1 U' Lambda:

        d log Z = tr[(b b' - R) dK] / 2 + b'dc + by the likelihood's own,

    for each of these sum_i d log Z_i at fixed cavities, by differences.

    Source: Seeger (2005), "Expectation propagation for exponential families", for blocks of functions.
    """
    b = fit.shift - np.einsum("abn,bn->an", fit.precision, fit.predictor)
    slopes = _by_priors(fit, _Inverse(fit), fit.precision, b, np.zeros_like(b))
    model, full = fit.model, fit.model.full(fit.theta)
    cavity = fit.cavity_mean, fit.cavity_covariance
    for place in np.intersect1d(model._likelihood_places, model.free):
        ends = []
        for moved in (full[place] + STEP, full[place] - STEP):
            own = model.likelihood_at(np.where(np.arange(len(full)) == place, moved, full))
            ends.append(float(log_averages(own, model.y, *cavity).sum()))
        slopes[place] += (ends[0] - ends[1]) / (2.0 * STEP)
    return slopes[model.free]


def laplace_gradient(fit: MultiLaplace) -> np.ndarray:
    """Gradient (d,) of log Z by theta, log Z = log p(y | eta) - |xi|^2 / 2 - log |A| / 2 at the mode.

    With g the slopes of log p by eta = U xi + c, W and H the information and minus the Hessian of log p,
    A = I + U'WU, R = W - W U A^-1 U' W, s_ci = -tr(Sigma_i dW_i / d eta_ci) / 2, Sigma_i the covariance of
    the functions of case i, and v = (I + H K)^-1 s, as the mode moves:

        d log Z = tr[(g g' - R + v g' + g v') dK] / 2 + (g + v)' dc + by the likelihood's own,

    for each of these d log p - tr(Sigma dW) / 2 + v'K dg at a fixed mode. Derivatives of W, H and by the
    likelihood's parameters are differences of what single cases give. U'RU = I - A^-1 serves basis functions.

    Source: Rasmussen & Williams (2006), section 5.5.1, for blocks of functions.
    """
    model, full, y, eta = fit.model, fit.model.full(fit.theta), fit.model.y, fit.predictor
    likelihood, inverse = model.likelihood_at(full), _Inverse(fit)
    maps, spread = inverse.maps, inverse.spread()
    g, W = likelihood.derivatives(eta, y)[1], curvature(likelihood, eta, y, fit.semidefinite)
    by_case, H = _third(fit, likelihood, spread)
    try:  # v = s - H U (I + U'HU)^-1 U's
        moved = cho_factor(precision(maps, H), lower=True)
    except np.linalg.LinAlgError:
        moved = (fit.factor, True)
    inner = np.split(cho_solve(moved, _pulled(maps, by_case)), inverse.ends[1:-1])
    shift = np.stack([U @ part for U, part in zip(maps, inner, strict=True)])
    v = by_case - np.einsum("abn,bn->an", H, shift)
    slopes = _by_priors(fit, inverse, W, g, v)
    for place in np.intersect1d(model._likelihood_places, model.free):
        value, of_g, of_W = _by_parameter(fit, full, place)
        K_of_g = np.stack([U @ (U.T @ row) for U, row in zip(maps, of_g, strict=True)])
        slopes[place] += value - 0.5 * float((spread * of_W).sum()) + float((v * K_of_g).sum())
    return slopes[model.free]


def _by_priors(
    fit: FunctionsFit, inverse: _Inverse, W: np.ndarray, g: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """tr[(g g' - R + v g' + g v') dK] / 2 + (g + v)'dc by all coordinates (size,), R = W - W U A^-1 U'W."""
    model, theta, slopes = fit.model, fit.theta, np.zeros(len(fit.model.full(fit.theta)))
    maps, n = inverse.maps, g.shape[1]
    for part, functions in model.own_parts():
        at = model.thetas_of_parts(theta)[functions[0]]
        of_part = np.zeros(len(part.full(at)))
        if part.basis:
            by_log = np.zeros(part.n_latents)
            for c in functions:
                of_g, of_v = maps[c].T @ g[c], maps[c].T @ v[c]
                by_log += of_g**2 - 1.0 + np.diagonal(inverse.whole)[inverse.own[c]]
                by_log += 2.0 * of_v * of_g
            for rows, (place, log_slope) in part.basis.scales(part.full(at))[1]:
                of_part[place] += log_slope @ by_log[rows]
        else:
            G = np.zeros((n, n))
            for c in functions:
                rows = np.concatenate([U.T * W[a, c] for a, U in enumerate(maps)])
                G += 0.5 * (rows.T @ inverse.whole @ rows) + 0.5 * np.outer(g[c], g[c])
                G += 0.5 * (np.outer(v[c], g[c]) + np.outer(g[c], v[c])) - 0.5 * np.diag(W[c, c])
            of_part += _by_covariance(part, at, G)
        for place in part.free:
            if "mean" in part.owners(place):
                of_part[place] += sum((g[c] + v[c]).sum() for c in functions)
        np.add.at(slopes, model.part_places[functions[0]], of_part)
    return slopes


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
