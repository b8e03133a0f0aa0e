"""Leave-one-out scores against refits and quadrature; weights of models, and their averaged predictions."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import gpmcflow as gp
from gpmcflow.approximations.leave_one_out import at_theta
from gpmcflow.errors import InputError

N = 12
X = np.linspace(0.0, 1.0, N)
Y = np.sin(6.0 * X) + 0.2 * np.random.default_rng(0).normal(size=N)
NEW = [0.1, 0.55, 1.2]


def model_of(signal=1.0, likelihood=None, y=Y, structure="dense", covariance=None):
    covariance = covariance or gp.SquaredExponential(0.25, signal)
    return gp.GPModel(X, y, covariance, likelihood or gp.Gaussian(0.2), structure=structure)


def left_out(model, i):
    """log p(y_i | y_-i) by a model of the others."""
    others = np.delete(np.arange(N), i)
    told = gp.predict(gp.approximate(model.take(others)), X[[i]])
    return norm.logpdf(Y[i], told.latent_mean[0], np.hypot(told.latent_sd[0], 0.2))


@pytest.mark.parametrize(
    ("structure", "covariance"), [("dense", None), ("auto", gp.Linear(2.0) + gp.Constant(0.5))]
)
def test_at_fixed_hyperparameters_it_is_that_of_refits(structure, covariance):
    model = model_of(structure=structure, covariance=covariance)
    scores = gp.leave_one_out(gp.sample(model, n_chains=1, n_draws=10))
    refits = [left_out(model, i) for i in range(N)]
    np.testing.assert_allclose(scores["elpd"], refits, atol=1e-4)
    assert scores.attrs["elpd"] == pytest.approx(sum(refits), abs=1e-3)
    assert scores.attrs["by"] == "exact"
    spread = np.sqrt(N * np.var(refits))
    assert scores.attrs["standard_error"] == pytest.approx(spread, rel=1e-3)


def test_over_hyperparameters_it_is_that_of_quadrature():
    free = model_of(gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.7}))
    draws = gp.sample(free, gp.UnivariateSlice(), n_chains=2, n_draws=200, seed=4)
    scores = gp.leave_one_out(draws, n_draws=400)
    grid = np.linspace(-3.0, 3.0, 121)
    prior = norm.logpdf(grid, 0.0, 0.7)

    def log_evidence(model):
        own = gp.RegressionDensity(model)
        return logsumexp([own.log_likelihood(np.array([t])) for t in grid] + prior)

    whole = log_evidence(free)
    exact = [whole - log_evidence(free.take(np.delete(np.arange(N), i))) for i in range(N)]
    np.testing.assert_allclose(scores["elpd"], exact, atol=0.03)


def test_draws_of_latents_tell_the_score_of_other_likelihoods():
    counts = np.random.default_rng(1).poisson(np.exp(Y + 1.0))
    draws = gp.sample(model_of(gp.Hyperprior.log_uniform(0.3, 3.0), gp.Poisson(), counts),
                      n_chains=2, n_draws=100, seed=3)  # fmt: skip
    scores = gp.leave_one_out(draws)
    assert scores.attrs["by"] == "draws"
    at_one = gp.leave_one_out(
        gp.sample(model_of(1.0, gp.Poisson(), counts), n_chains=1, n_draws=10)
    )
    assert at_one.attrs["by"] == "draws"
    assert scores.attrs["elpd"] == pytest.approx(at_one.attrs["elpd"], abs=1.0)


def test_labels_at_fixed_hyperparameters_are_left_out_exactly():
    """Probit: log p(y_i | y_-i) by normal orthants."""
    x, y, n = np.linspace(0.0, 1.0, 6), np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0]), 6
    C = 64.0 * np.exp(-np.abs(x[:, None] - x) / 0.5) + np.eye(n)
    C *= np.outer(y, y)

    def log_orthant(at):
        own, zero = C[np.ix_(at, at)], np.zeros(len(at))
        rng = np.random.default_rng(0)
        return np.log(multivariate_normal.cdf(zero, zero, own, abseps=1e-6, rng=rng))

    every = np.arange(n)
    exact = np.array([log_orthant(every) - log_orthant(np.delete(every, i)) for i in every])
    model = gp.GPModel(x, y, gp.Matern12(0.5, 8.0), gp.Probit(), jitter=0.0)
    scores = gp.leave_one_out(gp.sample(model, n_draws=2000, predictive=False))
    assert scores.attrs["by"] == "draws"
    np.testing.assert_allclose(scores["elpd"], exact, atol=0.05)
    assert scores.attrs["elpd"] == pytest.approx(exact.sum(), abs=0.06)
    by_ep = at_theta(model, np.empty(0))
    assert by_ep.sum() - exact.sum() > 0.15  # -6.94, where -7.15 is right
    apart = np.abs(scores["elpd"].values - by_ep).max()
    assert scores.attrs["ep_difference"] == pytest.approx(apart, abs=1e-9)


def scores_of(elpd):
    return xr.Dataset({"elpd": ("case", np.asarray(elpd))})


def test_stacking_weights_are_the_best_ones():
    rng = np.random.default_rng(5)
    log_p = rng.normal(size=(2, 60))
    log_p[0] += 0.2
    weights = gp.stacking_weights({"a": scores_of(log_p[0]), "b": scores_of(log_p[1])})
    grid = np.linspace(0.0, 1.0, 100_001)[:, None]
    score = np.log(grid * np.exp(log_p[0]) + (1.0 - grid) * np.exp(log_p[1])).sum(1)
    assert weights["a"] == pytest.approx(float(grid[score.argmax(), 0]), abs=1e-4)
    assert sum(weights.values()) == pytest.approx(1.0)
    alone = gp.stacking_weights({"a": scores_of(log_p[0]), "b": scores_of(log_p[0] - 1.0)})
    assert alone["a"] == pytest.approx(1.0, abs=1e-6)


@pytest.fixture(scope="module")
def runs():
    models = {"curve": model_of(), "line": model_of(covariance=gp.Linear(2.0) + gp.Constant(0.5))}
    return {name: gp.sample(own, n_chains=2, n_draws=40) for name, own in models.items()}


def test_averaged_predictions_are_mixtures(runs):
    told = [gp.predict(run, NEW) for run in runs.values()]
    for weights in (
        {"curve": 3.0, "line": 1.0},
        pd.DataFrame({"probability": {"line": 0.25, "curve": 0.75}}),
    ):
        averaged = gp.predict(runs, NEW, weights=weights)
        mean = 0.75 * told[0].latent_mean + 0.25 * told[1].latent_mean
        np.testing.assert_allclose(averaged.latent_mean, mean, atol=0.02)
        second = sum(
            w * (own.latent_sd**2 + own.latent_mean**2)
            for w, own in zip((0.75, 0.25), told, strict=True)
        )
        np.testing.assert_allclose(averaged.latent_sd, np.sqrt(second - mean**2), atol=0.02)
    alone = gp.predict(runs, NEW, weights={"curve": 1.0, "line": 0.0})
    np.testing.assert_allclose(alone.latent_mean, told[0].latent_mean, atol=0.01)
    stacked = gp.predict(runs, NEW)
    assert gp.stacking_weights(runs)["curve"] > 0.99
    np.testing.assert_allclose(stacked.latent_mean, told[0].latent_mean, atol=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda runs: gp.predict(runs, NEW, weights="evidence"), "table of gp.compare_models"),
        (lambda runs: gp.predict(runs, NEW, weights={"curve": 1.0}), r"for each of \['curve', 'line'\]"),
        (lambda runs: gp.predict(runs, NEW, weights={"curve": 1.0, "line": -1.0}), "numbers >= 0"),
        (lambda runs: gp.stacking_weights([runs]), "two models or more"),
        (lambda runs: gp.stacking_weights({"a": scores_of([1.0]), "b": scores_of([1.0, 2.0])}), "same ones"),
        (lambda runs: gp.leave_one_out(3), "found int; allowed: draws of sample"),
        (lambda runs: gp.leave_one_out(runs["line"], n_draws=0), "n_draws is 0"),
        (lambda runs: gp.predict(runs | {"count": gp.sample(
            model_of(1.0, gp.Poisson(), np.ones(N)), n_chains=1, n_draws=5)}, NEW,
            weights={"curve": 1.0, "line": 1.0, "count": 1.0}), "likelihoods of other kinds"),
    ],
)  # fmt: skip
def test_messages(runs, call, message):
    with pytest.raises(InputError, match=message):
        call(runs)


def test_cases_that_cannot_be_trusted_are_a_warning(caplog):
    y = Y.copy()
    y[5] = 30.0
    free = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0})
    draws = gp.sample(model_of(free, y=y), gp.UnivariateSlice(), n_chains=1, n_draws=60, seed=4)
    with caplog.at_level(logging.WARNING):
        scores = gp.leave_one_out(draws)
    assert scores.attrs["n_bad"] == int((scores.pareto_k > 0.7).sum())
    assert (scores.attrs["n_bad"] > 0) == ("Pareto k above 0.7" in caplog.text)
    assert scores.attrs["n_bad"] > 0
