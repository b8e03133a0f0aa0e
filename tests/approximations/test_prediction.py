"""Predictions against dense algebra: from Gaussians, from draws in memory and on disk, from priors."""

from __future__ import annotations

import json
from dataclasses import replace

import mpmath
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri

from gpmcflow.approximations import conditional as conditional_module
from gpmcflow.approximations import prediction
from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.conditional import (
    Conditional,
    State,
    conditional,
    latent_predictor,
    mean_of_draws,
    prior_conditionals,
    regression_predictor,
)
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.prediction import predict, simulate
from gpmcflow.approximations.predictive import QUANTILES
from gpmcflow.covariances.leaves import (
    Categorical,
    Constant,
    Group,
    Linear,
    Matern32,
    SquaredExponential,
    White,
)
from gpmcflow.covariances.python_covariance import PythonCovariance
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import (
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_prior import JITTER
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import EllipticalSlice, SurrogateSlice
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, open_results, write_results

COVARIANCE = SquaredExponential((0.8, 1.9), 1.7)
X_NEW = np.random.default_rng(1).uniform(-2.0, 2.0, (6, 2))
LENGTH = Hyperprior("norm", {"loc": 0.0, "scale": 0.4})
SIGNAL = Hyperprior("norm", {"loc": np.log(1.3), "scale": 0.3})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.8})
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def build(likelihood=None, mean=0.3, covariance=COVARIANCE):
    rng = np.random.default_rng(0)
    likelihood = likelihood or Probit()
    X = rng.uniform(-2.0, 2.0, (15, 2))
    y = likelihood.simulate(rng, np.sin(2.0 * X[:, 0]) + mean)
    return GPModel(X, y, covariance, likelihood, mean=mean).at()


def dense(X, X_new=X_NEW, covariance=COVARIANCE, jitter=0.0):
    """Regression weights k_*' K^{-1} (m, n) and conditional variance (m,)."""
    K, across = covariance(X) + jitter * np.diag(covariance.diagonal(X)), covariance(X, X_new)
    weights = np.linalg.solve(K, across).T
    return weights, covariance.diagonal(X_new) - np.einsum("ij,ji->i", weights, across)


# Given a Gaussian, or latents, at fixed hyperparameters


@pytest.mark.parametrize("kind", ["prior", "ep"])
def test_latent_mean_and_variance_against_dense_conditioning(kind):
    model = build()
    q = GaussianSites.prior(model) if kind == "prior" else expectation_propagation(model).sites
    weights, variance = dense(model.X)
    V = q.factor @ q.factor.T
    found = conditional(q, X_NEW)
    assert found.mean.shape == found.variance.shape == (1, 6)
    np.testing.assert_allclose(found.mean[0], 0.3 + weights @ (q.mean - 0.3), atol=1e-6)
    expected = variance + np.einsum("ij,jk,ik->i", weights, V, weights)
    np.testing.assert_allclose(found.variance[0], expected, atol=1e-6)
    if kind == "prior":
        np.testing.assert_allclose(found.variance[0], 1.7**2, rtol=1e-6)
        (alone,) = prior_conditionals(
            model.covariance_function.model, X_NEW, 1
        )  # where no data are
        np.testing.assert_array_equal(alone.mean, np.full((1, 6), 0.3))
        np.testing.assert_allclose(alone.variance[0], 1.7**2, rtol=1e-12)


def test_sites_as_observations_and_by_their_whitened_factor_predict_the_same(monkeypatch):
    """Weak and strong sites take the second form."""
    model = build()
    fit = expectation_propagation(model).sites
    assert fit.as_observations is not None
    weak, strong = (
        GaussianSites(model, np.append(fit.precision[:-1], tau), fit.shift) for tau in (1e-9, 1e7)
    )
    assert weak.as_observations is strong.as_observations is None
    found = State(model, sites=fit).predictor()
    assert found.added is None
    monkeypatch.setattr(GaussianSites, "as_observations", None)
    again = GaussianSites(model, fit.precision, fit.shift)  # the first has kept its observations
    wanted = State(model, sites=again).predictor()
    assert wanted.added is not None
    for mine, other in zip(found.moments(X_NEW)[:2], wanted.moments(X_NEW)[:2], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    for mine, other in zip(found.joint(X_NEW), wanted.joint(X_NEW), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-10)


def test_variance_at_the_cases_is_the_posterior_variance():
    model = build()
    q = expectation_propagation(model).sites
    found = conditional(q, model.X)
    np.testing.assert_allclose(found.mean[0], q.mean, atol=1e-6)
    np.testing.assert_allclose(found.variance[0], q.predictor_variance, rtol=1e-5)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
def test_average_over_draws_of_the_approximation_is_its_prediction(likelihood):
    model = build(likelihood)
    q = expectation_propagation(model).sites
    draws = q.latent(np.random.default_rng(2).standard_normal((4000, model.dim)))
    found = conditional(State(model, draws), X_NEW).mean_response()
    np.testing.assert_allclose(found, conditional(q, X_NEW).mean_response(), atol=0.02)


def test_draws_of_latents_count_the_same():
    model = build()
    draws = model.latent(np.random.default_rng(3).standard_normal((3, model.dim)))
    each = [conditional(State(model, draw[None]), X_NEW).mean_response() for draw in draws]
    together = conditional(State(model, draws), X_NEW)
    np.testing.assert_allclose(together.mean_response(), np.mean(each, axis=0), rtol=1e-12)
    regression, variance = dense(model.X)
    mean = 0.3 + (draws - 0.3) @ regression.T
    np.testing.assert_allclose(together.mean, mean, atol=1e-6)
    np.testing.assert_allclose(together.variance, [variance] * 3, atol=1e-6)
    expected = np.exp(Probit().tilted(np.ones(6), mean[0], variance)[0])
    np.testing.assert_allclose(each[0], expected, atol=1e-6)


def test_what_cannot_be_predicted_is_refused(models):
    with pytest.raises(InputError, match="not built from a covariance function"):
        conditional(GaussianSites.prior(models["probit"]), X_NEW)
    bent = replace(build(), mean=np.linspace(0, 1, 15))
    for state in (GaussianSites.prior(bent), State(bent, np.zeros((1, 15)))):
        with pytest.raises(InputError, match="prior mean must be constant"):
            conditional(state, X_NEW)


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
    found = conditional(q, new)
    np.testing.assert_allclose(found.mean[0], q.mean[[3, 7, 8]], atol=1e-8)
    np.testing.assert_allclose(found.variance[0], q.predictor_variance[[3, 7, 8]], rtol=1e-7)
    draws = q.latent(np.random.default_rng(5).standard_normal((5, model.dim)))
    expected = ndtr(draws[:, [3, 7, 8]]).mean(0)  # at the cases nothing of f is left open
    by_draws = conditional(State(model, draws), new).mean_response()
    np.testing.assert_allclose(by_draws, expected, atol=1e-4)


def test_a_level_not_seen(clinics):
    model, new = clinics
    q, other = GaussianSites.prior(model), new.assign(clinic=["a", "d", "b"])
    for ask in (conditional, predict):
        with pytest.raises(InputError, match="row 1 has the level 'd', which was not seen"):
            ask(q, other)
    groups = GPModel(
        pd.DataFrame({"g": ["a", "b", "a", "b"]}),
        np.array([1.0, -1.0, 1.0, -1.0]),
        Group(0.7, columns="g"),
        Probit(),
        0.4,
    ).at()
    sites, fresh = expectation_propagation(groups).sites, pd.DataFrame({"g": ["new"]})
    found = conditional(sites, fresh)
    assert (found.mean[0, 0], found.variance[0, 0]) == pytest.approx((0.4, 0.49))
    assert float(predict(sites, fresh).latent_sd[0]) == pytest.approx(0.7)
    assert predict(q, other, unseen="new").sizes["new_case"] == 3


# Of a fit


def test_prediction_of_a_fit():
    """Any that has sites: latents by its Gaussian, the response of labels is their probability."""
    model = build()
    fit = approximate(model)
    found, same = predict(fit, X_NEW), predict(fit.sites, X_NEW)
    xr.testing.assert_identical(found, same)
    xr.testing.assert_identical(found, predict(expectation_propagation(model), X_NEW))
    gaussian = conditional(fit.sites, X_NEW)
    mean, sd = gaussian.mean[0], np.sqrt(gaussian.variance[0])
    np.testing.assert_allclose(found.latent_mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.latent_sd, sd, rtol=1e-12)
    levels = np.array(QUANTILES)[:, None]
    assert found["quantile"].values.tolist() == list(QUANTILES)
    np.testing.assert_allclose(found.latent_quantile, mean + sd * ndtri(levels), rtol=1e-12)
    np.testing.assert_allclose(found.response_mean, ndtr(mean / np.sqrt(1.0 + sd**2)), rtol=1e-6)
    np.testing.assert_allclose(found.response_quantile, ndtr(found.latent_quantile), rtol=1e-9)
    eta = mean[:, None] + sd[:, None] * NODES
    first, second = (ndtr(eta) ** k @ WEIGHTS / WEIGHTS.sum() for k in (1, 2))
    np.testing.assert_allclose(found.response_sd, np.sqrt(second - first**2), rtol=0.05)


def test_the_seed_is_that_of_the_simulated_responses():
    fit = approximate(build(Poisson()))
    found, same, other = (predict(fit, X_NEW, seed=seed) for seed in (3, 3, 4))
    xr.testing.assert_identical(found, same)
    changed = {name for name in found if not np.array_equal(found[name], other[name])}
    assert changed == {"response_sd", "response_quantile"}
    assert predict(fit, X_NEW, quantiles=[0.9, 0.1])["quantile"].values.tolist() == [0.9, 0.1]


def test_noise_of_each_case_is_not_that_of_new_ones():
    """There the response is the mean of y; noise that is the same for all belongs to it."""
    levels = np.full(15, 3.0)
    each, all_ = (predict(approximate(build(Gaussian(sd))), X_NEW) for sd in (levels, 3.0))
    for name in ("latent_mean", "latent_sd", "response_mean"):
        np.testing.assert_allclose(each[name], all_[name], rtol=1e-10)
    np.testing.assert_array_equal(all_.response_mean, all_.latent_mean)
    np.testing.assert_allclose(each.response_sd, each.latent_sd, rtol=0.05)
    np.testing.assert_allclose(all_.response_sd, np.hypot(all_.latent_sd, 3.0), rtol=0.05)
    np.testing.assert_allclose(
        all_.response_quantile[-1] - all_.response_mean, 1.96 * all_.response_sd, rtol=0.1
    )


# Exposure and trials


PER_CASE = np.linspace(1.0, 30.0, 6).round()
D = 2.5


def given(name, units, eta):
    """Distribution of y given eta, by exposure or number of trials."""
    if name == "binomial":
        return stats.binom(units, expit(eta))
    m = units * np.exp(eta)
    return stats.poisson(m) if name == "poisson" else stats.nbinom(D, D / (D + m))


@pytest.mark.parametrize("units", [1.0, 7.0, PER_CASE], ids=["one", "seven", "each"])
@pytest.mark.parametrize(
    ("likelihood", "name"),
    [
        (Poisson(exposure=np.linspace(2.0, 9.0, 15)), "exposure"),
        (NegativeBinomial(D, exposure=4.0), "exposure"),
        (Binomial(np.arange(1, 16)), "trials"),
    ],
)
def test_exposure_and_trials_scale_the_response(likelihood, name, units):
    """Those of the new cases; the model's own stay with the model's."""
    fit = approximate(build(likelihood, covariance=SquaredExponential(1.0, 0.4)))
    found = predict(fit, X_NEW, **{name: units})
    one = predict(fit, X_NEW)
    np.testing.assert_allclose(found.response_mean, units * one.response_mean, rtol=1e-12)
    for latent in ("latent_mean", "latent_sd", "latent_quantile"):
        np.testing.assert_array_equal(found[latent], one[latent])
    eta = found.latent_mean.values + found.latent_sd.values * NODES[:, None]
    weights = WEIGHTS / WEIGHTS.sum()
    y = given(likelihood.name, units, eta)
    expected = weights @ y.mean()
    np.testing.assert_allclose(found.response_mean, expected, rtol=1e-6)
    sd = np.sqrt(weights @ (y.var() + y.mean() ** 2) - expected**2)
    np.testing.assert_allclose(found.response_sd, sd, rtol=0.05)
    for level, quantile in zip(QUANTILES, found.response_quantile.values, strict=True):
        np.testing.assert_array_equal(quantile, quantile.round())
        assert np.all(weights @ y.cdf(quantile) > level - 0.02)
        assert np.all(weights @ y.cdf(quantile - 1.0) < level + 0.02)


@pytest.mark.parametrize(
    ("likelihood", "units", "text"),
    [
        (Probit(), {"exposure": 2.0}, "the probit likelihood has no exposure"),
        (Gaussian(0.5), {"trials": 2}, "the gaussian likelihood has no trials"),
        (Poisson(), {"trials": 2}, "the poisson likelihood has no trials"),
        (Binomial(4), {"exposure": 2.0}, "the binomial likelihood has no exposure"),
        (Poisson(), {"exposure": 0.0}, r"exposure\[0\] is 0; allowed: positive numbers"),
        (Poisson(), {"exposure": [1, 1, -1, 1, 1, 1]}, r"exposure\[2\] is -1; allowed: positive"),
        (Binomial(4), {"trials": np.nan}, r"trials\[0\] is nan; allowed: whole numbers >= 1"),
        (Binomial(4), {"trials": 2.5}, r"trials\[0\] is 2.5; allowed: whole numbers >= 1"),
    ],
)
def test_units_that_are_refused(likelihood, units, text):
    with pytest.raises(InputError, match=text):
        predict(GaussianSites.prior(build(likelihood)), X_NEW, **units)


# Quantiles


def mixture_quantile(mean, sd, level):
    ends = mean + sd * ndtri(level)
    return brentq(
        lambda x: ndtr((x - mean) / sd).mean() - level,
        ends.min() - 1e-9, ends.max() + 1e-9, xtol=1e-13, rtol=1e-14,
    )  # fmt: skip


@pytest.mark.parametrize("block", [None, 7])
def test_quantiles_of_a_mixture(monkeypatch, block):
    """Two components near to each other, apart, of very unlike widths; in blocks of inputs too."""
    if block:
        monkeypatch.setattr(conditional_module, "_BLOCK", block)
    mean = np.array([[0.0, -4.0, 0.0, 2.0], [0.3, 5.0, 1.0, 2.0]])
    sd = np.array([[1.0, 0.5, 1e-3, 1.5], [1.4, 2.0, 3.0, 1.5]])
    found = Conditional(mean, sd**2, [Probit()]).quantiles(QUANTILES)
    expected = [
        [mixture_quantile(m, s, level) for m, s in zip(mean.T, sd.T, strict=True)]
        for level in QUANTILES
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_quantiles_of_points():
    """Nothing is left open where the variance is zero."""
    apart = Conditional(np.array([[1.0], [2.0]]), np.zeros((2, 1)), [Probit()])
    with np.errstate(all="raise"):
        found = apart.quantiles([0.25, 0.75])
    np.testing.assert_allclose(found[:, 0], [1.0, 2.0], rtol=1e-12)
    one = Conditional(np.array([[1.5]]), np.zeros((1, 1)), [Probit()])
    np.testing.assert_array_equal(one.quantiles([0.1, 0.9]), [[1.5], [1.5]])


def test_quantiles_and_means_of_points_beside_mixtures():
    """Inputs that weights tell have the order statistics and F itself; those of others are as if alone."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((40, 3))
    variance = np.zeros((40, 3))
    variance[:, 1] = rng.uniform(0.5, 2.0, 40)
    both = Conditional(mean, variance, [Logistic()])
    ordered, levels = np.sort(mean, axis=0), [0.1, 0.5, 0.51]
    found = both.quantiles(levels)
    np.testing.assert_array_equal(found[:, [0, 2]], ordered[[3, 19, 20]][:, [0, 2]])
    alone = Conditional(mean[:, 1:2], variance[:, 1:2], [Logistic()])
    np.testing.assert_allclose(found[:, 1], alone.quantiles(levels)[:, 0], rtol=1e-12)
    np.testing.assert_allclose(
        both.mean_response()[[0, 2]], expit(mean).mean(0)[[0, 2]], rtol=1e-15
    )
    np.testing.assert_allclose(both.mean_response()[1], alone.mean_response()[0], rtol=1e-13)


# From draws of hyperparameters and latents


def joint(likelihood, covariance=None, mean=OFFSET):
    rng = np.random.default_rng(6)
    X = rng.uniform(-2.0, 2.0, (15, 2))
    fixed = likelihood.with_values([0.5] * len(likelihood.entries()))
    y = fixed.simulate(rng, np.sin(2.0 * X[:, 0]) + 0.5)
    return GPModel(X, y, covariance or SquaredExponential(LENGTH, SIGNAL), likelihood, mean)


def drawn(model, n_chains=2, n_draws=3, **more):
    return sample(model, SurrogateSlice(), n_chains=n_chains, n_draws=n_draws, n_warmup=5, **more)


def means_by_hand(name, mean, variance):
    if name == "probit":
        return ndtr(mean / np.sqrt(1.0 + variance))
    return np.exp(mean + 0.5 * variance) if name == "poisson" else mean


@pytest.mark.parametrize("likelihood", [Probit(), Poisson(3.0), Gaussian(), StudentT(df=4.0)])
def test_joint_draws_against_dense_algebra(likelihood):
    """One draw is f + c at its own hyperparameters, dense; several are the mixture of them."""
    model = joint(likelihood)
    tree = drawn(model, predictive=False)
    moments = []
    for k, draw in np.ndindex(2, 3):
        one = tree.isel(chain=[k], draw=[draw])
        values = {name: float(one.posterior[name].squeeze()) for name in model.names}
        covariance = SquaredExponential(values["length_scale"], values["signal_sd"])
        weights, variance = dense(model.X, X_NEW, covariance, JITTER)
        mean = values["mean"] + weights @ one.posterior["latent"].values[0, 0]
        response = means_by_hand(likelihood.name, mean, variance)
        found = predict(one, X_NEW)
        np.testing.assert_allclose(found.latent_mean, mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.latent_sd, np.sqrt(variance), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.response_mean, response, rtol=1e-5, atol=1e-6)
        moments.append((mean, variance, response))
    mean, variance, response = (np.array(each) for each in zip(*moments, strict=True))
    found = predict(tree, X_NEW)
    np.testing.assert_allclose(found.latent_mean, mean.mean(0), rtol=1e-5, atol=1e-6)
    sd = np.sqrt(variance.mean(0) + mean.var(0))
    np.testing.assert_allclose(found.latent_sd, sd, rtol=1e-4)
    np.testing.assert_allclose(found.response_mean, response.mean(0), rtol=1e-5, atol=1e-6)
    for i in range(len(X_NEW)):
        level = mixture_quantile(mean[:, i], np.sqrt(variance[:, i]), 0.25)
        assert float(found.latent_quantile[1, i]) == pytest.approx(level, rel=1e-3, abs=1e-3)


def test_draws_are_spread_evenly(monkeypatch):
    tree = drawn(joint(Probit()), n_draws=5, predictive=False)
    turned = tree.copy()
    turned["posterior"] = tree.posterior.to_dataset().transpose()
    xr.testing.assert_identical(predict(turned, X_NEW), predict(tree, X_NEW))
    monkeypatch.setattr(prediction, "N_DRAWS", 4)
    found = predict(tree, X_NEW)
    rows = [(0, 0), (0, 3), (1, 1), (1, 4)]
    each = [predict(tree.isel(chain=[c], draw=[d]), X_NEW) for c, d in rows]
    for name in ("latent_mean", "response_mean"):
        np.testing.assert_allclose(found[name], np.mean([e[name] for e in each], axis=0))


@pytest.mark.parametrize("noise", [Gaussian(), Gaussian(0.3), Gaussian(np.linspace(0.2, 0.9, 15))])
def test_gaussian_noise_needs_no_latents(noise, tmp_path):
    """They are integrated out: each draw of theta is a regression, so the mixture is exact given theta."""
    model = joint(noise)
    bare = drawn(model, keep_latents=False)
    assert "latent" not in bare.posterior
    write_results(bare, tmp_path / "draws.nc")
    means, variances = [], []
    for theta in bare.posterior["theta"].values.reshape(6, -1):
        values = model.natural(theta)
        covariance = SquaredExponential(values["length_scale"], values["signal_sd"])
        sd = values.get("noise_sd", noise.noise_sd)
        K = covariance(model.X) + JITTER * np.diag(covariance.diagonal(model.X))
        across = covariance(model.X, X_NEW)
        solved = np.linalg.solve(K + np.eye(15) * np.square(sd), across)
        means.append(values["mean"] + solved.T @ (model.y - values["mean"]))
        variances.append(covariance.diagonal(X_NEW) - np.einsum("ij,ij->j", solved, across))
    found = predict(bare, X_NEW)
    np.testing.assert_allclose(found.latent_mean, np.mean(means, axis=0), rtol=1e-6)
    sd = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
    np.testing.assert_allclose(found.latent_sd, sd, rtol=1e-6)
    np.testing.assert_allclose(found.response_mean, found.latent_mean, rtol=1e-12)
    xr.testing.assert_identical(predict(load_results(tmp_path / "draws.nc"), X_NEW), found)


def test_draws_that_hold_too_little():
    bare = drawn(joint(Probit()), keep_latents=False)
    for ask in (lambda: predict(bare, X_NEW), lambda: simulate(bare)):
        with pytest.raises(InputError, match="hold no latents; sample with keep_latents=True"):
            ask()
    tree = drawn(joint(Probit()))
    foreign = tree.copy()
    foreign.attrs = {**tree.attrs, "settings": json.dumps({})}
    for draws in (foreign, xr.DataTree(), tree.drop_nodes("posterior")):
        with pytest.raises(InputError, match=r"do not tell their model; .* or model="):
            predict(draws, X_NEW)
    for source in (None, "draws", tree.posterior.to_dataset()):
        with pytest.raises(InputError, match=r"allowed: draws of sample, a fit of approximate"):
            predict(source, X_NEW)
    with pytest.raises(InputError, match="new inputs have 5 columns; allowed: 2"):
        predict(tree, np.zeros((3, 5)))


def test_draws_of_latents_at_fixed_hyperparameters():
    """Latents are then f + c: of a GPModel with no free parameter, of a model of latents, of a fit."""
    model = build()
    gp_model = model.covariance_function.model
    weights, variance = dense(model.X)
    for source in (gp_model, model, approximate(model)):
        tree = sample(source, EllipticalSlice(), n_chains=2, n_draws=4, n_warmup=0)
        means = 0.3 + (tree.posterior["latent"].values.reshape(8, 15) - 0.3) @ weights.T
        found = predict(tree, X_NEW)
        np.testing.assert_allclose(found.latent_mean, means.mean(0), rtol=1e-5, atol=1e-6)
        sd = np.sqrt(variance + means.var(0))
        np.testing.assert_allclose(found.latent_sd, sd, rtol=1e-4)
        response = ndtr(means / np.sqrt(1.0 + variance)).mean(0)
        np.testing.assert_allclose(found.response_mean, response, rtol=1e-5)
        xr.testing.assert_identical(found, predict(tree, X_NEW, model=gp_model))


def test_draws_of_latents_where_other_hyperparameters_are_free():
    model = joint(Probit())
    at = model.at([np.log(0.7), np.log(1.9), -0.4])
    tree = sample(at, EllipticalSlice(), n_chains=1, n_draws=1, n_warmup=0)
    weights, variance = dense(model.X, X_NEW, SquaredExponential(0.7, 1.9), JITTER)
    mean = weights @ (tree.posterior["latent"].values[0, 0] + 0.4) - 0.4
    found = predict(tree, X_NEW)
    np.testing.assert_allclose(found.latent_mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.latent_sd, np.sqrt(variance), rtol=1e-4, atol=1e-4)


# From files


def table():
    """Words, several leaves, a free mean and dispersion, exposures of each case."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"age": rng.normal(size=18), "dose": rng.normal(size=18), "clinic": ["b", "a", "c"] * 6}
    )
    covariance = Matern32(LENGTH, columns="age", name="age") * Categorical(
        1.5, 1.0, columns="clinic"
    ) + Linear(0.9, columns="dose")
    likelihood = NegativeBinomial(exposure=rng.uniform(0.5, 3.0, 18))
    model = GPModel(frame, rng.poisson(2.0, 18), covariance, likelihood, OFFSET, jitter=1e-4)
    return model, frame.iloc[:4][["clinic", "age", "dose"]], {"exposure": np.arange(1.0, 5.0)}


def grid():
    """A Kronecker product."""
    east, north = (axis.ravel() for axis in np.meshgrid(np.arange(4.0), np.arange(3.0)))
    y = np.random.default_rng(9).poisson(2.0, 12)
    model = GPModel(
        np.column_stack([north, east]), y, SquaredExponential(LENGTH, SIGNAL), Poisson(), OFFSET
    )
    assert model.kronecker
    return model, np.array([[0.5, 0.5], [7.0, 1.0]]), {"exposure": 2.0}


@pytest.mark.parametrize("case", [table, grid])
@pytest.mark.parametrize("theta", ["drawn", "fixed"])
def test_draws_from_a_file_predict_exactly_the_same(case, theta, tmp_path):
    model, X_new, units = case()
    if theta == "drawn":
        tree = drawn(model)
    else:
        tree = sample(
            model.at(model.prior_median()), EllipticalSlice(), n_chains=2, n_draws=3, n_warmup=0
        )
    write_results(tree, tmp_path / "draws.nc")
    expected = predict(tree, X_new, **units)
    xr.testing.assert_identical(
        predict(load_results(tmp_path / "draws.nc"), X_new, **units), expected
    )
    with open_results(tmp_path / "draws.nc") as opened:
        xr.testing.assert_identical(predict(opened, X_new, **units), expected)
        xr.testing.assert_identical(predict(opened, X_new, model=model, **units), expected)
        replicates = simulate(opened, n_draws=4)
    xr.testing.assert_identical(replicates, simulate(tree, n_draws=4))


def rational(X, X2, parameters):
    squares = ((X[:, None] - X2[None]) ** 2).sum(-1)
    return 1.7**2 / (1.0 + squares / parameters["reach"] ** 2)


def test_a_python_covariance_needs_the_model(tmp_path):
    """Results hold no function. The covariance is rational quadratic with exponent 1."""
    model = joint(Probit(), PythonCovariance(rational, {"reach": LENGTH}))
    tree = drawn(model, n_chains=1, n_draws=1)
    write_results(tree, tmp_path / "draws.nc")
    for draws in (tree, load_results(tmp_path / "draws.nc")):
        with pytest.raises(
            InputError, match=r"covariance .* written in Python, .* give model="
        ) as e:
            predict(draws, X_NEW)
        assert len(str(e.value).splitlines()) == 1
        found = predict(draws, X_NEW, model=model)
        reach = {"reach": float(draws.posterior["reach"].squeeze())}
        K, across = rational(model.X, model.X, reach), rational(model.X, X_NEW, reach)
        weights = np.linalg.solve(K + JITTER * 1.7**2 * np.eye(15), across).T
        c = float(draws.posterior["mean"].squeeze())
        mean = c + weights @ draws.posterior["latent"].values[0, 0]
        np.testing.assert_allclose(found.latent_mean, mean, rtol=1e-5, atol=1e-6)
        variance = 1.7**2 - np.einsum("ij,ji->i", weights, across)
        np.testing.assert_allclose(found.latent_sd, np.sqrt(variance), rtol=1e-4)


# Priors and replicates


def test_prior_of_fixed_hyperparameters():
    model = build(Poisson()).covariance_function.model
    found = predict(model, X_NEW, exposure=2.0)
    np.testing.assert_allclose(found.latent_mean, 0.3, rtol=1e-12)
    np.testing.assert_allclose(found.latent_sd, 1.7, rtol=1e-12)
    np.testing.assert_allclose(found.latent_quantile[:, 0], 0.3 + 1.7 * ndtri(QUANTILES))
    np.testing.assert_allclose(found.response_mean, 2.0 * np.exp(0.3 + 1.7**2 / 2), rtol=1e-12)


def test_prior_of_free_hyperparameters():
    """E[eta] = E[c], var[eta] = E[s^2] + var[c], and the noise's expected variance for a response."""
    noise = Hyperprior("norm", {"loc": np.log(2.0), "scale": 0.2})
    found = predict(joint(Gaussian(noise)), X_NEW)
    np.testing.assert_allclose(np.ptp(found.latent_mean.values), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.latent_mean, 0.5, atol=4.0 * 0.8 / np.sqrt(400))
    variance = np.exp(2.0 * np.log(1.3) + 2.0 * 0.3**2) + 0.8**2
    np.testing.assert_allclose(found.latent_sd, np.sqrt(variance), rtol=0.1)
    total = variance + np.exp(2.0 * np.log(2.0) + 2.0 * 0.2**2)
    np.testing.assert_allclose(found.response_sd, np.sqrt(total), rtol=0.1)
    np.testing.assert_allclose(found.response_mean, found.latent_mean, rtol=1e-12)


def test_replicates_of_a_prior():
    model = joint(Poisson(np.linspace(1.0, 3.0, 15)))
    tree = simulate(model, n_draws=1000, seed=2)
    assert set(tree.children) == {"prior_predictive", "observed_data"}
    np.testing.assert_array_equal(tree["observed_data/y"], model.y)
    y, eta = (tree["prior_predictive"][name] for name in ("y", "eta"))
    assert dict(y.sizes) == dict(eta.sizes) == {"chain": 1, "draw": 1000, "case": 15}
    variance = np.exp(2.0 * np.log(1.3) + 2.0 * 0.3**2) + 0.8**2
    assert float(eta.mean()) == pytest.approx(0.5, abs=0.15)
    assert float(eta.var()) == pytest.approx(variance, rel=0.1)
    rate = model.likelihood.exposure * np.exp(eta.values)
    z = (y.values - rate) / np.sqrt(rate)
    assert abs(z.mean()) < 0.05
    assert z.var() == pytest.approx(1.0, rel=0.1)
    xr.testing.assert_identical(tree, simulate(model, n_draws=1000, seed=2))


def test_replicates_of_a_posterior():
    """The predictors are those of the draws."""
    model = joint(Gaussian(0.3))
    tree = drawn(model)
    found = simulate(tree, n_draws=6)
    assert set(found.children) == {"posterior_predictive", "observed_data"}
    expected = tree.posterior["latent"] + tree.posterior["mean"]
    eta = found["posterior_predictive/eta"].values
    np.testing.assert_allclose(eta[0], expected.values.reshape(6, 15), rtol=1e-12)
    r = (found["posterior_predictive/y"].values - eta) / 0.3
    assert r.std() == pytest.approx(1.0, rel=0.2)
    assert simulate(tree, n_draws=2)["posterior_predictive/y"].shape == (1, 2, 15)
    np.testing.assert_array_equal(found["observed_data/y"], model.y)


@pytest.mark.parametrize("kind", ["latents", "sites", "regression"])
def test_joint_predictors_have_the_moments_of_each_input_and_of_averages(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 2))
    y = rng.normal(size=12)
    model = GPModel(X, y, Matern32(0.8, 1.3), Gaussian(0.4), 0.7, jitter=0.0)
    at, new = model.at(), np.ascontiguousarray(rng.normal(size=(6, 2)))
    precision = np.full(12, 1 / 0.16)
    predictor = {
        "latents": lambda: State(at, rng.normal(size=(3, 12))).predictor(),
        "sites": lambda: State(at, sites=GaussianSites(at, precision, precision * y)).predictor(),
        "regression": lambda: regression_predictor(model, np.empty(0)),
    }[kind]()
    moments, (mean, covariance) = predictor.moments(new), predictor.joint(new)
    np.testing.assert_allclose(mean, moments.mean, rtol=1e-10)
    np.testing.assert_allclose(np.diag(covariance), moments.variance[0], rtol=1e-8)
    K, cross, prior = (
        at.cholesky @ at.cholesky.T,
        predictor.covariance(new),
        Matern32(0.8, 1.3)(new),
    )
    noise = 0.0 if kind == "latents" else 0.16 * np.eye(12)
    wanted = prior - cross @ np.linalg.solve(K + noise, cross.T)
    np.testing.assert_allclose(covariance, wanted, atol=1e-8)
    average = np.kron(np.eye(2), np.full((1, 3), 1 / 3))
    of_averages = predictor.joint(new, average)
    np.testing.assert_allclose(of_averages[0], mean @ average.T, rtol=1e-10)
    np.testing.assert_allclose(of_averages[1], average @ covariance @ average.T, atol=1e-10)


@pytest.mark.parametrize(
    "covariance",
    [
        SquaredExponential(LENGTH, SIGNAL),
        Matern32(LENGTH, SIGNAL, columns=1) * SquaredExponential(LENGTH, columns=0),
    ],
    ids=["isotropic", "product"],
)
def test_predictors_of_a_grid_are_those_of_its_matrix(covariance):
    rng, side = np.random.default_rng(6), np.linspace(0.0, 1.0, 5)
    X = np.stack(np.meshgrid(side, side[:3], indexing="ij"), -1).reshape(-1, 2)
    model = GPModel(X, np.ones(15), covariance, Poisson(), OFFSET, 1e-3, "kronecker")
    theta = model.draw_prior(rng, 0.5)
    eta, new = rng.normal(size=(3, 15)), np.vstack([rng.normal(size=(5, 2)), X[[4]], X[[4]]])
    grid, whole = latent_predictor(model, theta, eta), State(model.at(theta), eta).predictor()
    assert type(grid) is not type(whole)
    for found, wanted in zip(grid.moments(new)[:2], whole.moments(new)[:2], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    for average in (None, np.full((1, 7), 1 / 7)):
        for found, wanted in zip(grid.joint(new, average), whole.joint(new, average), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("df", "has"), [(0.8, (False, False)), (1.5, (True, False)), (2.5, (True, True))]
)
def test_moments_that_student_t_noise_does_not_have(df, has, caplog):
    """No mean with df at most 1, no standard deviation with df at most 2: nan, in words; quantiles stay."""
    x = np.linspace(0.0, 1.0, 6)
    model = GPModel(x, np.sin(x), Matern32(1.0, 1.0), StudentT(0.1, df))
    prediction = predict(approximate(model), [0.5, 2.0])
    for name, there in zip(("response_mean", "response_sd"), has, strict=True):
        assert np.isfinite(prediction[name]).all() == there
        assert np.isnan(prediction[name]).all() != there
    assert np.isfinite(prediction["response_quantile"]).all()
    assert ("no mean" in caplog.text) == (not has[0])
    assert ("no standard deviation" in caplog.text) == (not has[1])


def test_predictions_far_from_zero():
    """Means and covariances beside linear terms keep their digits, against 60 digits, by both routes."""
    n, new = 10, np.array([-1.05, 0.4, 4.0])
    t = np.linspace(-3.0, 3.0, n)
    y = 1.3 * t + np.sin(3.0 * t)
    for offset in (0.0, 2000.0, 1e6):
        for smooth in (1, 0):
            covariance = Linear(2.0) + Constant(3.0)
            covariance = covariance + SquaredExponential(1.0, 1.0) if smooth else covariance
            with mpmath.workdps(60):

                def k(a, b, smooth=smooth):
                    return 4 * a * b + 9 + smooth * mpmath.exp(-((a - b) ** 2) / 2)

                x, xn = ([mpmath.mpf(float(offset + v)) for v in at] for at in (t, new))
                C = mpmath.matrix([[k(a, b) + (a == b) * mpmath.mpf(0.01) for b in x] for a in x])
                cross = mpmath.matrix([[k(a, b) for b in x] for a in xn])
                inverse = C**-1
                mean = cross * (inverse * mpmath.matrix(y.tolist()))
                joint = (
                    mpmath.matrix([[k(a, b) for b in xn] for a in xn]) - cross * inverse * cross.T
                )
                mean, joint = np.array(mean.tolist(), float)[:, 0], np.array(joint.tolist(), float)
            model = GPModel(
                offset + t, y, covariance, Gaussian(0.1), jitter=0.0 if smooth else None,
                structure="dense",
            )  # fmt: skip
            X_new = (offset + new)[:, None]
            for own in (
                regression_predictor(model, np.empty(0)),
                State(model.at(), sites=approximate(model).sites).predictor(),
            ):
                both, average = own.joint(X_new), np.array([[0.5, 0.5, 0.0]])
                at = own.moments(X_new)
                for got, right in (
                    (at.mean[0], mean), (at.variance[0], np.diag(joint)),
                    (both[0][0], mean), (both[1], joint),
                    (own.joint(X_new, average)[1], average @ joint @ average.T),
                ):  # fmt: skip
                    np.testing.assert_allclose(
                        got, right, rtol=1e-4, atol=1e-6, err_msg=f"{offset} {smooth}"
                    )


def test_a_white_term_counts_as_noise_of_the_cases():
    x, new = np.linspace(0.0, 5.0, 12), np.array([2.2, 7.0])
    model = GPModel(
        x, np.sin(x), SquaredExponential(1.0, 1.0) + White(0.5), Gaussian(0.1), jitter=0.0
    )
    C = SquaredExponential(1.0, 1.0)(x) + 0.26 * np.eye(12)
    k = SquaredExponential(1.0, 1.0)(new, x)
    got = regression_predictor(model, np.empty(0)).moments(new[:, None]).mean[0]
    np.testing.assert_allclose(got, k @ np.linalg.solve(C, np.sin(x)), rtol=1e-9)


def test_a_mean_that_does_not_exist_is_nan(caplog):
    """E[exp(f)] = E[exp(s^2 / 2)] is infinite for log-normal s, and exp(1 / 8) for s = 1 / 2."""
    x, new = np.linspace(0.0, 1.0, 6), np.array([0.3, 9.0])
    covariances = {"free": SquaredExponential(), "fixed": SquaredExponential(signal_sd=0.5)}
    for likelihood in (Poisson(), NegativeBinomial(size=5.0)):
        for structure in ("dense", "basis"):
            for name, covariance in covariances.items():
                caplog.clear()
                model = GPModel(x, np.ones(6), covariance, likelihood, structure=structure)
                case = (likelihood.name, structure, name)
                found = predict(model, new[:1] if structure == "basis" else new)
                assert np.all(np.isfinite(found.response_quantile)), case
                if name == "free":
                    assert "response_mean and response_sd are nan" in caplog.text, case
                    assert np.isnan(found.response_mean).all(), case
                    assert np.isnan(found.response_sd).all(), case
                else:
                    assert not caplog.text, case
                    np.testing.assert_allclose(
                        found.response_mean, np.exp(0.125), rtol=0.02, err_msg=str(case)
                    )


def test_a_mean_rests_on_few_draws_where_a_hundredth_carries_a_third():
    even = np.ones((200, 1))
    for largest, expected in ((97.0, 1.48), (110.0, np.nan), (np.inf, np.nan)):
        values = even.copy()
        values[7] = largest  # of 200 draws two are a hundredth
        np.testing.assert_allclose(mean_of_draws(values), expected)
    few = np.ones((10, 1))
    few[0] = 1e6  # too few to tell
    np.testing.assert_allclose(mean_of_draws(few), few.mean())


def test_a_line_with_a_case_at_the_centre_of_its_column():
    """Where the variance about the centre is 0: fits and predictions are those of dense formulas."""
    x, new = np.arange(1.0, 22.0), np.array([11.0, 30.0])
    y = 0.5 * x + np.sin(x)
    C = 0.01 * np.outer(x, x) + 0.09 * np.eye(21)
    mean = 0.01 * np.outer(new, x) @ np.linalg.solve(C, y)
    found = predict(approximate(GPModel(x, y, Linear(0.1), Gaussian(0.3))), new)
    np.testing.assert_allclose(found["latent_mean"], mean, rtol=1e-8)
    counts = GPModel(x, np.round(np.exp(0.1 * x)), Linear(0.1), Poisson())
    found = predict(approximate(counts), new)
    assert np.isfinite(found["latent_mean"]).all()
    slope = found["latent_mean"].values / new
    assert slope[0] == pytest.approx(slope[1], rel=1e-6)  # a line through 0
    with pytest.raises(NumericalError, match="give a larger jitter"):
        replace(counts, jitter=0.0, structure="dense").at()
