"""Density over the hyperparameters of GP regression, its latents drawn exactly; the density of any model."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import Evaluation, JointDensity, impossible
from gpmcflow.models.marginal_likelihood import MarginalLikelihood, noise_variances
from gpmcflow.models.prior_structure import FrozenSites

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class CollapsedDensity:
    """As `JointDensity`, for Gaussian noise: latents are integrated out, and there is no z."""

    n_z = 0

    def __init__(self, model: GPModel, sites: FrozenSites | None = None) -> None:
        self.model, self.coordinates, self.sites = model, model.parameters.normal, sites
        self._work = MarginalLikelihood(model)

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,)."""
        theta, slopes = self.coordinates.theta(x)
        full = self.model.full(theta)
        value, by_full = self._work.value_and_slopes(full)
        if value == -np.inf:
            return impossible(self.model, 0, 0)
        none = np.empty(0)
        return Evaluation(value, by_full[self.model.free] * slopes, none, theta, none, value, value)

    def value(self, x: np.ndarray, z: np.ndarray) -> float:
        """log p(y | theta) alone, at x (d,)."""
        return self.log_likelihood(self.coordinates.theta(x)[0])

    def log_likelihood(self, theta: np.ndarray) -> float:
        """log p(y | theta) at theta (d,)."""
        return self._work.value(self.model.full(theta))

    def log_constant(self) -> float:
        """Nothing is left out."""
        return 0.0

    def draw_latents(
        self, rng: np.random.Generator, theta: np.ndarray
    ) -> tuple[np.ndarray, float, float]:
        """An exact draw of f (n,) given y and theta: f_0 + K C^-1 (y - c - f_0 - noise), f_0 ~ N(0, K).

        With log p(y | f), and log p(y | f) + log N(f; 0, K).
        """
        model, work, full = self.model, self._work, self.model.full(theta)
        L = model.cholesky(full)
        f = L @ rng.standard_normal(model.n_cases)
        noise = np.sqrt(noise_variances(model, full)) * rng.standard_normal(model.n_cases)
        gap = model.eta_y - model.mean_at(full) - f - noise
        work.factorise(full)
        f += L @ (L.T @ work.solve(work.solve(gap), transposed=True))
        log_likelihood = float(
            model.likelihood_at(full).log_density(f + model.mean_at(full), model.y)
        )
        z = solve_triangular(L, f, lower=True)
        log_det = float(np.log(np.diagonal(L)).sum())
        log_normal = -0.5 * float(z @ z) - log_det - model.n_cases * _HALF_LOG_2PI
        return f, log_likelihood, log_likelihood + log_normal


Density = JointDensity | CollapsedDensity | CollapsedBasisDensity


def density_of(model: GPModel, sites: FrozenSites) -> Density:
    """Density over hyperparameters and latents; over hyperparameters alone where noise is Gaussian."""
    if not model.likelihood.conjugate:
        return JointDensity(model, sites)
    return (CollapsedBasisDensity if model.basis else CollapsedDensity)(model, sites)
