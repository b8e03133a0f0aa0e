"""A regression with outliers: a likelihood that is not log-concave."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.likelihoods import StudentT
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel


@pytest.fixture(scope="session")
def outliers():
    """A function: GP regression of 60 cases with Student-t noise, of which six are far off."""

    def build(scale: float = 0.15, df: float = 4.0, size: float = 2.0) -> LatentGaussianModel:
        rng = np.random.default_rng(7)
        X = np.sort(rng.uniform(0.0, 10.0, 60))[:, None]
        y = np.sin(X[:, 0]) + 0.15 * rng.standard_normal(60)
        y[::10] += size * np.array([1.0, -1.0, 1.5, -1.2, 1.0, -0.8])
        return GPModel(X, y, SquaredExponential(1.2, 1.1), StudentT(scale, df)).at()

    return build
