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
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
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


class Lapses(Likelihood):
    """Labels 0 and 1 with probability sigma(eta) of a 1, but for lapses, which are all 0."""

    parameters, probabilities = ("lapse",), ("lapse",)

    def __init__(self, lapse):
        self.lapse = lapse
        self.__post_init__()

    def derivatives(self, eta, y):
        q, lapse = expit(-eta), self.number("lapse")
        ones = (
            np.log1p(-lapse) - np.logaddexp(0.0, -eta),
            q,
            -q * (1 - q),
            -q * (1 - q) * (2 * q - 1),
        )
        w = (1 - lapse) * q / (lapse + (1 - lapse) * q)  # no lapse, given a 0
        g = w * (q - 1)
        zeros = np.log(lapse + (1 - lapse) * q), g, g * q - g * (1 - q + g), 0.0 * eta
        return tuple(np.where(y > 0, *pair) for pair in zip(ones, zeros, strict=True))

    def parameter_gradient(self, eta, y):
        q, lapse = expit(-eta), self.number("lapse")
        by_logit = lapse * (1 - lapse) * (1 - q) / (lapse + (1 - lapse) * q)
        return np.where(y > 0, -lapse, by_logit).sum(-1)[..., None]

    def simulate(self, rng, eta):
        return np.where(
            rng.random(np.shape(eta)) < (1 - self.number("lapse")) * expit(eta), 1.0, 0.0
        )


def test_a_probability_among_the_parameters_of_an_own_likelihood():
    """Its coordinate is the logit: densities, gradients, starts and results."""
    prior = Hyperprior("beta", {"a": 2.0, "b": 5.0}, scale="probability")
    X, y = np.linspace(0.0, 1.0, 8), np.tile([0.0, 1.0], 4)
    model = GPModel(X, y, SquaredExponential(LENGTH, 1.0), Lapses(prior))
    assert model.names == ("length_scale", "lapse")
    theta = model.theta_of({"length_scale": 1.0, "lapse": 0.2})
    assert theta == pytest.approx([0.0, np.log(0.25)])
    assert model.natural(theta)["lapse"] == pytest.approx(0.2)
    with pytest.raises(InputError, match=r"lapse is 1.0; allowed: a number between 0 and 1"):
        model.theta_of({"length_scale": 1.0, "lapse": 1.0})
    with pytest.raises(InputError, match=r"lapse is 1.5; allowed: a number between 0 and 1, or a"):
        Lapses(1.5)
    density = JointDensity(model, FrozenSites(np.full(8, 0.3), np.linspace(-0.2, 0.2, 8)))
    x, z, step = np.array([0.3, -0.6]), np.linspace(-1.0, 1.0, density.n_z), 1e-5
    slopes = [
        (density.evaluate(x + h, z).rest - density.evaluate(x - h, z).rest) / (2 * step)
        for h in step * np.eye(2)
    ]
    assert density.evaluate(x, z).slope_x == pytest.approx(slopes, rel=1e-6)
    draws = sample(model, SurrogateSlice(), n_chains=1, n_draws=20, n_warmup=5, start=theta)
    found = draws.posterior
    np.testing.assert_allclose(found["lapse"], expit(found["theta"][..., 1]), rtol=1e-14)
