"""A user's own likelihood goes through the joint samplers, or is refused in one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, gammaln

from gpmcflow.approximations.prediction import predict
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood, NegativeBinomial
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.sampling import sample

D, OFFSET = 2.0, np.log(20.0)
LENGTH, SIGNAL = Hyperprior.log_uniform(0.3, 3.0), Hyperprior("norm", {"loc": -1.5, "scale": 0.3})


class Overdispersed(Likelihood):
    """Negative binomial counts with dispersion 2."""

    def validate(self, y):
        if np.any(y < 0):
            raise InputError("negative counts")

    def derivatives(self, eta, y):
        p = expit(np.log(D) - eta)
        q = 1.0 - p
        constant = gammaln(y + D) - gammaln(D) - gammaln(y + 1.0)
        z = eta - np.log(D)
        value = constant - y * np.logaddexp(0.0, -z) - D * np.logaddexp(0.0, z)
        second = -(y + D) * p * q
        return value, y * p - D * q, second, second * (p - q)

    def simulate(self, rng, eta):
        return rng.negative_binomial(D, expit(np.log(D) - eta)).astype(float)

    def conditional_mean(self, eta):
        return np.exp(eta)


def model_of(likelihood):
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 1.0, 14)
    y = rng.negative_binomial(D, D / (D + 20.0), 14).astype(float)
    return GPModel(X, y, SquaredExponential(LENGTH, SIGNAL), likelihood, OFFSET)


NEW = np.array([0.2, 0.9, 8.0])


def drawn(likelihood, representation):
    """Posterior draws, and predictions from them."""
    model = model_of(likelihood)
    sizes = {"n_chains": 1, "n_draws": 60, "n_warmup": 20, "seed": 1}
    draws = sample(model, SurrogateSlice(representation), **sizes)
    return draws, predict(draws, NEW, model=model)


def test_the_same_chain_and_predictions_as_of_the_package():
    (own, predicted), (ours, expected) = (
        drawn(likelihood, "prior-white") for likelihood in (Overdispersed(), NegativeBinomial(D))
    )
    np.testing.assert_allclose(own.posterior.theta, ours.posterior.theta, atol=1e-8)
    for name in ("latent_mean", "latent_sd", "latent_quantile", "response_mean"):
        np.testing.assert_allclose(predicted[name], expected[name], rtol=1e-6)
    np.testing.assert_allclose(predicted.response_sd, expected.response_sd, rtol=0.1)
    response = predicted["response_mean"].values
    assert np.all((response > 12.0) & (response < 33.0))


@pytest.mark.parametrize("representation", ["surr-site", "post-site"])
def test_sites_of_an_own_likelihood(representation):
    response = drawn(Overdispersed(), representation)[1]["response_mean"].values
    assert np.all((response > 12.0) & (response < 33.0))


def test_far_away_the_prediction_is_that_of_the_prior():
    """f is N(0, sd^2) there: E[y] = exp(c + sd^2 / 2)."""
    covariance = SquaredExponential(LENGTH, 1.5)
    model = GPModel(np.linspace(0, 1, 5), np.ones(5), covariance, NegativeBinomial(D), OFFSET)
    for likelihood in (model.likelihood, Overdispersed()):
        own = replace(model, likelihood=likelihood)
        draws = sample(own, SurrogateSlice(), n_chains=1, n_draws=2, n_warmup=0)
        response = predict(draws, [1e3], model=own)["response_mean"].values
        assert response == pytest.approx([np.exp(OFFSET + 0.5 * 1.5**2)], rel=1e-5)


class WithoutMean(Overdispersed):
    conditional_mean = Likelihood.conditional_mean


def test_predictions_that_are_refused():
    with pytest.raises(InputError, match=r"withoutmean likelihood.*conditional_mean\(eta\)"):
        drawn(WithoutMean(), "prior-white")
    draws, _ = drawn(Overdispersed(), "prior-white")
    with pytest.raises(InputError, match=r"predict: the likelihood of these draws .*give model="):
        predict(draws, NEW)
