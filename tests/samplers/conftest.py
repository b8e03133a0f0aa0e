"""Bayesian logistic regression written out in theta, for the samplers of the split Hamiltonian study."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from scipy.special import expit

from gpmcflow.approximations.laplace import laplace
from gpmcflow.likelihoods import Logistic
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target


def softplus(z):
    return np.logaddexp(0.0, z)


@dataclass
class LogisticRegression:
    """Design X (n, d), labels y in {0, 1}, prior standard deviations (d,).

    Potentials and gradients are functions of theta (d,), with NumPy alone and no use of the package;
    the model, its fit and its targets are the package's.
    """

    X: np.ndarray
    y: np.ndarray
    prior_sd: np.ndarray
    likelihood: Logistic

    @property
    def precision(self):
        return np.diag(self.prior_sd**-2.0)

    def potential(self, theta, cases=slice(None), prior=True):
        """U restricted to some cases, with or without the prior."""
        eta, y = self.X[cases] @ theta, self.y[cases]
        return (softplus(eta) - y * eta).sum() + prior * 0.5 * theta @ self.precision @ theta

    def gradient(self, theta, cases=slice(None), prior=True):
        X, y = self.X[cases], self.y[cases]
        return X.T @ (expit(X @ theta) - y) + prior * self.precision @ theta

    def hessian(self, theta):
        p = expit(self.X @ theta)
        return (self.X.T * (p * (1.0 - p))) @ self.X + self.precision

    @cached_property
    def mode(self):
        """MAP by Newton's method."""
        theta = np.zeros(self.X.shape[1])
        for _ in range(50):
            theta = theta - np.linalg.solve(self.hessian(theta), self.gradient(theta))
        return theta

    @cached_property
    def model(self):
        labels = 2.0 * self.y - 1.0
        return LatentGaussianModel.from_design(self.X, self.prior_sd, self.likelihood, labels)

    @cached_property
    def fit(self) -> GaussianSites:
        return laplace(self.model).sites

    def target(self, sampler) -> Target:
        """The posterior in the coordinates the sampler takes of the Laplace fit."""
        return Target.posterior(self.fit).in_coordinates(sampler.coordinates(self.fit))


@pytest.fixture(scope="session")
def logistic_regression():
    """A function: problem with an intercept, unequal scales and prior deviations off their default."""

    def build(n: int = 60, d: int = 5, seed: int = 1, likelihood=None) -> LogisticRegression:
        rng = np.random.default_rng(seed)
        scale = np.linspace(1.5, 0.5, d - 1)
        X = np.column_stack([np.ones(n), rng.standard_normal((n, d - 1)) * scale])
        prior_sd = np.linspace(4.0, 1.5, d)
        theta = np.array([0.5, 1.0, -1.0, 0.7, -0.4, 0.2, 0.1])[:d]
        y = (rng.random(n) < expit(X @ theta)).astype(float)
        return LogisticRegression(X, y, prior_sd, likelihood or Logistic())

    return build
