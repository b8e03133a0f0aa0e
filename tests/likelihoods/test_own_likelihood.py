"""A user's own likelihood goes through the joint samplers, or is refused in one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, gammaln

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood, NegativeBinomial
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.joint_program import JointProgram
from gpmcflow.samplers.joint_sampling import sample_joint

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


NEW = {"n_chains": 1, "n_draws": 60, "n_warmup": 20, "seed": 1, "X_new": np.array([0.2, 0.9, 8.0])}


def test_the_same_chain_and_predictions_as_of_the_package():
    own, ours = (
        sample_joint(model_of(likelihood), "prior-white", **NEW)
        for likelihood in (Overdispersed(), NegativeBinomial(D))
    )
    np.testing.assert_allclose(own.posterior.theta, ours.posterior.theta, atol=1e-8)
    for name, values in ours.predictions.data_vars.items():
        np.testing.assert_allclose(own.predictions[name], values, rtol=1e-8)
    response = own.predictions["response_mean"].values
    assert np.all((response > 12.0) & (response < 33.0))


@pytest.mark.parametrize("representation", ["surr-site", "post-site"])
def test_sites_of_an_own_likelihood(representation):
    tree = sample_joint(model_of(Overdispersed()), representation, **NEW)
    response = tree.predictions["response_mean"].values
    assert np.all((response > 12.0) & (response < 33.0))


def test_far_away_the_prediction_is_that_of_the_prior():
    """f is N(0, sd^2) there: E[y] = exp(c + sd^2 / 2)."""
    covariance = SquaredExponential(LENGTH, 1.5)
    model = GPModel(np.linspace(0, 1, 5), np.ones(5), covariance, NegativeBinomial(D), OFFSET)
    for likelihood in (model.likelihood, Overdispersed()):
        tree = sample_joint(
            replace(model, likelihood=likelihood), n_chains=1, n_draws=2, n_warmup=0, X_new=[1e3]
        )
        response = tree.predictions["response_mean"].values
        assert response == pytest.approx([np.exp(OFFSET + 0.5 * 1.5**2)], rel=1e-5)


class WithoutMean(Overdispersed):
    conditional_mean = Likelihood.conditional_mean


def test_without_a_mean_response_it_is_refused_before_it_runs(monkeypatch):
    model = model_of(WithoutMean())
    sample_joint(model, "prior-white", n_chains=1, n_draws=2, n_warmup=0)
    monkeypatch.delattr(JointProgram, "start")
    with pytest.raises(InputError, match=r"withoutmean likelihood.*conditional_mean\(eta\)"):
        sample_joint(model, "prior-white", **NEW)
