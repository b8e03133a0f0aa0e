"""The prior of the linear predictors at one setting of the hyperparameters, by its covariance alone."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpmcflow.covariances.tape import symmetric
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel


class CasePrior:
    """eta ~ N(c, K) of a dense `GPModel` at theta (d,), K not factorised before something asks for it.

    It is what sweeps of expectation propagation and the gradient of its evidence take: these factorise
    I + S K S, so that a factor of K itself would be of no use. K has the model's jitter.
    """

    direct = True

    def __init__(self, model: GPModel, theta: np.ndarray) -> None:
        self.model, self.theta, self.full = model, theta, model.full(theta)
        self.likelihood, self.y = model.likelihood_at(self.full), model.y
        self.predictor_mean = np.full(model.n_cases, model.mean_at(self.full))
        self.buffers = model.covariance_buffers()
        self.R = np.zeros((model.n_cases, model.n_cases))  #: K less few functions (column, row)
        self.buffers.fill(self.full, self.R)

    @property
    def n_cases(self) -> int:
        """Number n of observations."""
        return len(self.y)

    @cached_property
    def predictor_covariance(self) -> np.ndarray:
        """K (n, n)."""
        K, V = symmetric(self.R), self.buffers.V
        return K + V.T @ V if len(V) else K

    @cached_property
    def cholesky(self) -> tuple[np.ndarray, float]:
        """Lower factor L of K (n, n), and log |L|, nan where K is not positive definite."""
        columns = np.zeros_like(self.R)
        log_det = self.buffers.factorise(self.R, columns)
        return np.tril(columns.T), log_det

    @cached_property
    def latent_model(self) -> LatentGaussianModel:
        """The model of the latents in whitened coordinates. Raises `NumericalError` where K has no factor."""
        return self.model.at(self.theta)


def prior_at(model: GPModel, theta: np.ndarray) -> CasePrior | LatentGaussianModel:
    """What an EP fit at theta begins with: functions, and a fixed covariance, have a form of their own."""
    model = model.by_cases
    return model.at(theta) if model.basis or model.least_jitter else CasePrior(model, theta)
