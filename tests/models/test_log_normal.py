"""A log-normal model of y is a Gaussian model of log y, but for the Jacobian; models of positive amounts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import lognorm, norm

import gpmcflow as gp
from gpmcflow.approximations.leave_one_out import at_theta
from gpmcflow.approximations.prediction import conditionals
from gpmcflow.approximations.predictive import log_predictive_density
from gpmcflow.errors import InputError
from gpmcflow.replications.fast_likelihood.methods import SinglePrecision

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 15)
Y = np.exp(1.0 + np.sin(6.0 * X) + 0.3 * RNG.standard_normal(15))
JACOBIAN = -float(np.log(Y).sum())
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0})
SHORT = {"n_replicates": 2, "n_draws": 200}
COVARIANCES = {
    "dense": (gp.SquaredExponential(), "dense"),
    "constants": (gp.Matern32() + gp.Constant(), "dense"),
    "functions": (gp.Matern32() + gp.Linear(), "dense"),
    "basis": (gp.SquaredExponential(), gp.BasisFunctions(20)),
}


def pair(covariance=None, structure="auto", x=X, y=Y):
    covariance = gp.SquaredExponential() if covariance is None else covariance
    models = (
        gp.GPModel(x, values, covariance, likelihood, MEAN, structure=structure)
        for values, likelihood in ((y, gp.LogNormal()), (np.log(y), gp.Gaussian()))
    )
    return tuple(models)


@pytest.mark.parametrize("name", COVARIANCES)
def test_evidence_is_that_of_log_y_with_the_jacobian(name):
    own, other = pair(*COVARIANCES[name])
    found, expected = (gp.approximate(model) for model in (own, other))
    assert found.log_evidence == pytest.approx(expected.log_evidence + JACOBIAN, abs=1e-6)
    there = gp.RegressionDensity(other).log_likelihood(found.theta)
    assert there == pytest.approx(
        expected.log_evidence, abs=1e-6
    )  # the maximum of one is the other's
    theta = own.prior_median() + 0.1
    exact = [gp.log_evidence(model.at(theta)).evidence["log_evidence"] for model in (own, other)]
    assert float(exact[0]) == pytest.approx(float(exact[1]) + JACOBIAN, abs=1e-9)
    left_out = [at_theta(model, theta) for model in (own, other)]
    np.testing.assert_allclose(left_out[0], left_out[1] - np.log(Y), atol=1e-9)


def test_draws_are_those_of_log_y():
    draws = [gp.sample(model, n_chains=2, n_draws=5, n_warmup=20, seed=3) for model in pair()]
    np.testing.assert_allclose(
        draws[0].posterior["theta"], draws[1].posterior["theta"], rtol=1e-4, atol=1e-4
    )
    pointwise = [each.log_likelihood["y"].values for each in draws]
    np.testing.assert_allclose(pointwise[0], pointwise[1] - np.log(Y), rtol=1e-3, atol=1e-3)


def test_densities_over_hyperparameters_and_their_stand_ins():
    own, other = pair()
    theta = np.array([-1.0, 0.3, 0.4, -1.2])
    for make in (gp.RegressionDensity, SinglePrecision, lambda m: gp.EigenExact(m, 15)):
        ours, theirs = make(own), make(other)
        assert ours(theta) == pytest.approx(theirs(theta) + JACOBIAN, abs=1e-6)
    columns = list(range(0, 15, 2))
    ours, theirs = (gp.Nystrom(model, columns) for model in (own, other))
    assert ours(theta) == pytest.approx(theirs(theta) + JACOBIAN, abs=1e-6)
    ours, theirs = (gp.RegressionDensity(model) for model in (own, other))
    np.testing.assert_allclose(
        ours.evaluate_gradient(theta)[1], theirs.evaluate_gradient(theta)[1], rtol=1e-12
    )
    draws = [one.draw_responses(np.random.default_rng(0), theta) for one in (ours, theirs)]
    np.testing.assert_allclose(np.log(draws[0]), draws[1], rtol=1e-12)
    in_place = own.with_y(Y.copy())
    in_place.y[:] = 2.0 * Y
    assert in_place.log_jacobian == pytest.approx(JACOBIAN - 15 * np.log(2.0))


def test_model_evidence_compares_with_other_likelihoods():
    own, other = pair()
    ours, theirs = (
        gp.model_evidence(model, seed=1, **SHORT).evidence["log_evidence"] for model in (own, other)
    )
    np.testing.assert_allclose(ours, theirs + JACOBIAN, atol=1e-6)


def test_three_cases_by_quadrature():
    """Latents are whitened; the approximate evidence of the gamma is checked with every other pair."""
    x, y = np.array([0.0, 0.4, 1.0]), np.array([4.1, 0.8, 1.6])
    model = gp.GPModel(x, y, gp.SquaredExponential(0.5, 0.9), gp.LogNormal(0.6), 0.3, 1e-9)
    axis = np.arange(-7.0, 7.0, 0.2)
    z = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    K = 0.81 * np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.25)
    eta = z @ np.linalg.cholesky(K + 1e-9 * np.eye(3)).T + 0.3
    logs = lognorm.logpdf(y, 0.6, scale=np.exp(eta)).sum(1) + norm.logpdf(z).sum(1)
    exact = float(logsumexp(logs)) + 3.0 * np.log(0.2)
    assert gp.approximate(model).log_evidence == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("structure", ["dense", gp.BasisFunctions(20)])
def test_predictions_are_in_the_units_of_y_and_their_quantiles_exact(structure):
    own, other = pair(structure=structure)
    new = np.array([0.11, 0.52, 1.3])
    for source in (gp.approximate, lambda m: gp.sample(m, n_chains=2, n_draws=30, seed=1)):
        ours, theirs = (
            gp.predict(source(model), new, quantiles=(0.025, 0.5, 0.975)) for model in (own, other)
        )
        quantiles = ours["response_quantile"].values
        assert np.all(quantiles > 0.0)
        np.testing.assert_allclose(
            np.log(quantiles), theirs["response_quantile"].values, atol=0.25
        )  # theirs are of simulated responses
        parts = conditionals(source(own), new, n_draws=1000)
        whole = parts[0]._replace(
            mean=np.concatenate([part.mean for part in parts]),
            variance=np.concatenate([part.variance for part in parts]),
            likelihoods=[part.likelihoods[0] for part in parts for _ in part.mean],
        )
        for level, at in zip((0.025, 0.5, 0.975), quantiles, strict=True):
            noise = np.array([one.noise_variances(3) for one in whole.likelihoods])
            below = norm.cdf((np.log(at) - whole.mean) / np.sqrt(whole.variance + noise)).mean(0)
            np.testing.assert_allclose(below, level, atol=1e-9)
        density = log_predictive_density(whole, np.array([1.0, 2.0, 3.0]))
        sd = np.sqrt(whole.variance + noise)
        exact = norm.logpdf(np.log([1.0, 2.0, 3.0]), whole.mean, sd) - np.log([1.0, 2.0, 3.0])
        np.testing.assert_allclose(density, logsumexp(exact, axis=0) - np.log(len(sd)), atol=1e-9)


def test_mean_of_a_log_normal_response():
    model = gp.GPModel(X, Y, gp.SquaredExponential(0.3, 1.0), gp.LogNormal(0.5))
    found = gp.predict(gp.approximate(model), np.array([0.4]))
    mean, sd = float(found["latent_mean"][0]), float(found["latent_sd"][0])
    assert float(found["response_mean"][0]) == pytest.approx(
        np.exp(mean + 0.5 * (sd**2 + 0.25)), rel=1e-9
    )
    median = found["response_quantile"].sel(quantile=0.5)
    assert float(median[0]) == pytest.approx(np.exp(mean), rel=1e-9)
    wide = gp.Hyperprior("norm", {"loc": 1.0, "scale": 2.0})
    vague = gp.GPModel([0.0], [1.0], gp.SquaredExponential(1.0, 1.0), gp.LogNormal(wide))
    draws = gp.sample(vague, n_chains=2, n_draws=100, seed=1)
    assert np.isnan(
        gp.predict(draws, np.array([5.0]))["response_mean"]
    ).all()  # a few draws carry it


@pytest.mark.parametrize("likelihood", [gp.LogNormal(), gp.Gamma()])
def test_amounts_that_are_not_positive_are_refused_in_one_line(likelihood):
    for value, shown in ((0.0, "0"), (-2.5, "-2.5")):
        y = Y.copy()
        y[4] = value
        with pytest.raises(InputError) as error:
            gp.GPModel(X, y, gp.Matern32(), likelihood)
        assert str(error.value) == (
            f"{likelihood.name} likelihood: y[4] is {shown}; allowed: numbers above 0; leave such cases "
            "out, or take gaussian or student_t"
        )
    for value in (np.nan, np.inf):
        y[4] = value
        with pytest.raises(InputError, match=r"y\[4\] is (nan|inf); give finite numbers"):
            gp.GPModel(X, y, gp.Matern32(), likelihood)


def test_units_far_from_the_hyperpriors_are_told(caplog):
    gp.GPModel(X, 1e100 * Y, gp.Matern32(), gp.LogNormal())
    assert "model: log y differs from the mean 0 by 2.3e+02" in caplog.text
    assert "divide y by a typical value, give a mean" in caplog.text


def test_every_verb_takes_a_gamma_model():
    y = np.random.default_rng(1).gamma(4.0, np.exp(np.sin(6.0 * X)) / 4.0)
    model = gp.GPModel(X, y, gp.SquaredExponential(), gp.Gamma(), MEAN)
    assert model.names == ("length_scale", "signal_sd", "mean", "shape")
    ep, laplace = gp.approximate(model), gp.approximate(model, "laplace")
    assert ep.log_evidence == pytest.approx(laplace.log_evidence, abs=0.1)
    draws = gp.sample(model, n_chains=2, n_draws=40, seed=1)
    assert np.all(np.isfinite(draws.log_likelihood["y"]))
    found = gp.predict(draws, np.array([0.3, 2.0]))
    assert np.all(found["response_quantile"] > 0.0)
    assert np.all(gp.simulate(draws, n_draws=5).posterior_predictive["y"] > 0.0)
    fixed = gp.log_evidence(ep, "annealing", n_particles=50, n_temperatures=8, seed=1).evidence
    assert float(fixed["log_evidence"]) == pytest.approx(ep.log_evidence, abs=0.1)
    averaged = gp.model_evidence(model, seed=1, **SHORT).evidence["log_evidence"]
    assert np.all(np.isfinite(averaged))
    assert (
        gp.GPModel(X, y, gp.Matern32(1.0, 1.0), gp.Gamma()).likelihood.entries()[0].name == "shape"
    )
