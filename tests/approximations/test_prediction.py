from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.prediction import (
    predict_from_draws,
    predict_latent,
)
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Logistic, Probit
from gpmcflow.models.covariances import SquaredExponential
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel

COVARIANCE = SquaredExponential((0.8, 1.9), 1.7)
X_NEW = np.random.default_rng(1).uniform(-2.0, 2.0, (6, 2))


def build(likelihood=None, mean=0.3):
    rng = np.random.default_rng(0)
    likelihood = likelihood or Probit()
    X = rng.uniform(-2.0, 2.0, (15, 2))
    y = likelihood.simulate(rng, np.sin(2.0 * X[:, 0]) + mean)
    return LatentGaussianModel.from_gp(COVARIANCE, X, likelihood, y, mean=mean)


def conditional(model):
    """Regression weights k_*' K^{-1} (m, n) and conditional variance (m,), dense."""
    weights = np.linalg.solve(COVARIANCE(model.X), COVARIANCE(model.X, X_NEW)).T
    variance = COVARIANCE.diagonal(X_NEW) - np.einsum(
        "ij,ji->i", weights, COVARIANCE(model.X, X_NEW)
    )
    return weights, variance


@pytest.mark.parametrize("kind", ["prior", "ep"])
def test_latent_mean_and_variance_against_dense_conditioning(kind):
    model = build()
    q = GaussianSites.prior(model) if kind == "prior" else expectation_propagation(model).sites
    weights, variance = conditional(model)
    V = q.factor @ q.factor.T
    mean, total = predict_latent(q, X_NEW)
    np.testing.assert_allclose(mean, 0.3 + weights @ (q.mean - 0.3), atol=1e-6)
    expected = variance + np.einsum("ij,jk,ik->i", weights, V, weights)
    np.testing.assert_allclose(total, expected, atol=1e-6)
    if kind == "prior":
        np.testing.assert_allclose(total, 1.7**2, rtol=1e-6)


def test_variance_at_the_cases_is_the_posterior_variance():
    model = build()
    q = expectation_propagation(model).sites
    mean, variance = predict_latent(q, model.X)
    np.testing.assert_allclose(mean, q.mean, atol=1e-6)
    np.testing.assert_allclose(variance, q.predictor_variance, rtol=1e-5)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
def test_average_over_draws_of_the_approximation_is_its_prediction(likelihood):
    model = build(likelihood)
    q = expectation_propagation(model).sites
    draws = q.latent(np.random.default_rng(2).standard_normal((4000, model.dim)))
    found = predict_from_draws(model, draws, X_NEW)
    expected = model.likelihood.mean_response(*predict_latent(q, X_NEW))
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_weights_of_draws():
    model = build()
    draws = model.latent(np.random.default_rng(3).standard_normal((3, model.dim)))
    each = [predict_from_draws(model, draw[None], X_NEW) for draw in draws]
    weights = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(
        predict_from_draws(model, draws, X_NEW, weights), weights @ each, rtol=1e-12
    )
    regression, variance = conditional(model)
    mean = 0.3 + regression @ (draws[0] - 0.3)
    expected = np.exp(Probit().tilted(np.ones(6), mean, variance)[0])
    np.testing.assert_allclose(each[0], expected, atol=1e-6)


def test_what_cannot_be_predicted_is_refused(models):
    with pytest.raises(InputError, match="not built from a covariance function"):
        predict_latent(GaussianSites.prior(models["probit"]), X_NEW)
    with pytest.raises(InputError, match="prior mean must be constant"):
        predict_latent(GaussianSites.prior(build(mean=np.linspace(0, 1, 15))), X_NEW)
