"""Predictions at new inputs from a Gaussian approximation or from posterior draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.linear_maps import solve


def predict_latent(
    sites: GaussianSites, X_new: Any, unseen: str = "error"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (m,) of the latent at new inputs (m, p) under prior times sites.

    New inputs are an array, or a DataFrame with the columns the model was made with; ``unseen="new"`` takes a
    level that the model has not seen as different from all.

    With q = L^{-1} k_*: mean = mean_0 + q' E[xi], variance = k_** - q'q + |W^{-1} q|^2. Source:
    Rasmussen & Williams (2006), eqs. 3.60-3.61, in prior-whitened coordinates.
    """
    q, remaining = _project(sites.model, X_new, unseen)
    mean = _prior_mean(sites.model) + q @ sites.whitened_mean
    spread = np.linalg.solve(sites.whitened_factor, q.T) if np.any(sites.precision) else q.T
    return mean, remaining + np.einsum("ij,ij->j", spread, spread)


def predict_from_draws(
    model: LatentGaussianModel,
    latents: np.ndarray,
    X_new: Any,
    weights: np.ndarray | None = None,
    unseen: str = "error",
) -> np.ndarray:
    """Mean response at new inputs (m, p), averaged over latents (draw, n), shape (m,).

    sum_j w_j E[y | k_*' K^{-1} f_j, k_** - |L^{-1} k_*|^2] by `Likelihood.mean_response`: of labels the
    probability of +1. ``weights`` sum to one; ``unseen`` as in `predict_latent`.
    """
    q, remaining = _project(model, X_new, unseen)
    weights = np.full(len(latents), 1.0 / len(latents)) if weights is None else weights
    means = _prior_mean(model) + solve(model.cholesky, latents - model.mean) @ q.T
    per_draw = model.likelihood.mean_response(means, np.broadcast_to(remaining, means.shape))
    return weights @ per_draw


def _project(model: LatentGaussianModel, X_new: Any, unseen: str) -> tuple[np.ndarray, np.ndarray]:
    """q = L^{-1} k_* as rows (m, n), and k_** - q'q (m,)."""
    if model.covariance_function is None:
        raise InputError(
            "prediction: the model was not built from a covariance function and inputs; take GPModel.at"
        )
    X_new = model.covariance_function.model.new_inputs(X_new, unseen)
    q = solve(model.cholesky, model.covariance_function(X_new, model.X))
    prior = model.covariance_function.diagonal(X_new)
    return q, np.maximum(prior - np.einsum("ij,ij->i", q, q), 0.0)


def _prior_mean(model: LatentGaussianModel) -> float:
    if np.ptp(model.mean) != 0.0:
        raise InputError("prediction: the prior mean must be constant to predict at new inputs")
    return float(model.mean[0])
