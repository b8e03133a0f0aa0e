"""A regression with outliers: a likelihood that is not log-concave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln

from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.covariances import SquaredExponential
from gpmcflow.models.latent_gaussian import LatentGaussianModel


@dataclass(frozen=True)
class StudentT(Likelihood):
    """Noise with scale s and nu degrees of freedom."""

    scale: float
    df: float
    name = "student_t"
    log_concave = False

    def validate(self, y):
        pass

    def log_density_and_gradient(self, eta, y):
        value, slope, *_ = self.derivatives(eta, y)
        return value.sum(-1), slope

    def derivatives(self, eta, y):
        s, nu = self.scale, self.df
        r = (y - eta) / s
        u = nu + r * r
        constant = (
            gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - np.log(s)
        )
        value = constant - 0.5 * (nu + 1.0) * np.log1p(r * r / nu)
        first, second = (nu + 1.0) * r / (s * u), (nu + 1.0) * (r * r - nu) / (s * u) ** 2
        return value, first, second, 2.0 * (nu + 1.0) * r * (r * r - 3.0 * nu) / (s * u) ** 3

    def places(self, y):
        return y, np.full(len(y), self.scale)

    def majorising_precision(self, eta, y):
        return (self.df + 1.0) / (self.scale**2 * (self.df + ((y - eta) / self.scale) ** 2))

    def simulate(self, rng, eta):
        return eta + self.scale * rng.standard_t(self.df, np.shape(eta))


@pytest.fixture(scope="session")
def outliers():
    """A function: GP regression of 60 cases with Student-t noise, of which six are far off."""

    def build(scale: float = 0.15, df: float = 4.0, size: float = 2.0) -> LatentGaussianModel:
        rng = np.random.default_rng(7)
        X = np.sort(rng.uniform(0.0, 10.0, 60))[:, None]
        y = np.sin(X[:, 0]) + 0.15 * rng.standard_normal(60)
        y[::10] += size * np.array([1.0, -1.0, 1.5, -1.2, 1.0, -0.8])
        return LatentGaussianModel.from_gp(SquaredExponential(1.2, 1.1), X, StudentT(scale, df), y)

    return build
