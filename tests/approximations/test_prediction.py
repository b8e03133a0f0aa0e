from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.prediction import (
    predict_from_draws,
    predict_latent,
)
from gpmcflow.covariances.leaves import Categorical, Group, Linear, Matern32, SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Logistic, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel

COVARIANCE = SquaredExponential((0.8, 1.9), 1.7)
X_NEW = np.random.default_rng(1).uniform(-2.0, 2.0, (6, 2))


def build(likelihood=None, mean=0.3):
    rng = np.random.default_rng(0)
    likelihood = likelihood or Probit()
    X = rng.uniform(-2.0, 2.0, (15, 2))
    y = likelihood.simulate(rng, np.sin(2.0 * X[:, 0]) + mean)
    return GPModel(X, y, COVARIANCE, likelihood, mean=mean).at()


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
    bent = GaussianSites.prior(replace(build(), mean=np.linspace(0, 1, 15)))
    with pytest.raises(InputError, match="prior mean must be constant"):
        predict_latent(bent, X_NEW)


@pytest.fixture(scope="module")
def clinics():
    """Fit of an additive model of named columns, one of them words, and new rows in another order."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"age": rng.normal(size=24), "dose": rng.normal(size=24), "clinic": ["a", "b", "c"] * 8}
    )
    y = Probit().simulate(rng, np.sin(2.0 * frame["age"].to_numpy()) + frame["dose"].to_numpy())
    covariance = Matern32(0.8, 1.3, columns="age") + Linear(0.9, columns="dose")
    model = GPModel(frame, y, covariance * Categorical(1.5, 1.0, columns="clinic"), Probit(), -0.2)
    new = frame.iloc[[3, 7, 8]][["clinic", "dose", "age"]].assign(other="not used")
    return model.at(), new


def test_new_inputs_by_name(clinics):
    """Words are coded as the model's, columns are found by name: at the cases, it is the posterior."""
    model, new = clinics
    q = expectation_propagation(model).sites
    mean, variance = predict_latent(q, new)
    np.testing.assert_allclose(mean, q.mean[[3, 7, 8]], atol=1e-8)
    np.testing.assert_allclose(variance, q.predictor_variance[[3, 7, 8]], rtol=1e-7)
    draws = q.latent(np.random.default_rng(5).standard_normal((5, model.dim)))
    expected = ndtr(draws[:, [3, 7, 8]]).mean(0)  # at the cases nothing of f is left open
    np.testing.assert_allclose(predict_from_draws(model, draws, new), expected, atol=1e-4)


def test_a_level_not_seen(clinics):
    model, new = clinics
    q = GaussianSites.prior(model)
    with pytest.raises(InputError, match="row 1 has the level 'd', which was not seen"):
        predict_latent(q, new.assign(clinic=["a", "d", "b"]))
    groups = GPModel(
        pd.DataFrame({"g": ["a", "b", "a", "b"]}),
        np.array([1.0, -1.0, 1.0, -1.0]),
        Group(0.7, columns="g"),
        Probit(),
        0.4,
    ).at()
    mean, variance = predict_latent(
        expectation_propagation(groups).sites, pd.DataFrame({"g": ["new"]})
    )
    assert (mean[0], variance[0]) == pytest.approx((0.4, 0.49))
