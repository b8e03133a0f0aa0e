"""Predictions of basis functions beside those of the dense model, outside the box, and for new groups."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

import gpmcflow.approximations.prediction as prediction_module
from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.prediction import predict, predictors, simulate
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import Group, Linear, SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Logistic
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import open_results, write_results

LENGTH, SIGNAL = Hyperprior.log_uniform(0.4, 1.5), Hyperprior.log_uniform(0.5, 3.0)
LARGE = BasisFunctions(m=40, boundary=3.5)
X_NEW = np.array([-1.2, -0.4, 0.1, 1.1])
QUICK = JointSplitHMC(rounds=(50, 100, 60))


def model_of(likelihood, structure, covariance=None, mean=Hyperprior("norm"), n=30):  # noqa: B008
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, n))
    f = 1.5 * np.sin(4 * x) + 0.5
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
    y = y if likelihood.binary else f + 0.3 * rng.standard_normal(n)
    return GPModel(
        x,
        y,
        covariance or SquaredExponential(LENGTH, SIGNAL),
        likelihood,
        mean,
        structure=structure,
    )


@pytest.mark.parametrize("likelihood", [Logistic(), Gaussian(0.3)])
def test_fixed_hyperparameters_give_the_dense_predictions(likelihood):
    covariance = SquaredExponential(0.7, 1.2) + Linear(0.5)
    dense, basis = (model_of(likelihood, s, covariance, 0.3) for s in ("dense", LARGE))
    first, second = (predict(approximate(model.at()), X_NEW) for model in (dense, basis))
    for name in ("latent_mean", "latent_sd", "response_mean", "response_sd", "latent_quantile"):
        assert np.allclose(first[name], second[name], atol=2e-4), name
    a, b = (next(iter(predictors(approximate(m.at()), n_draws=1))) for m in (dense, basis))
    average = np.array([[0.5, 0.5, 0, 0], [0, 0.2, 0.3, 0.5]])
    for weights in (None, average):
        means = a.joint(X_NEW[:, None], weights), b.joint(X_NEW[:, None], weights)
        assert np.allclose(means[0][0], means[1][0], atol=1e-4)
        assert np.allclose(means[0][1], means[1][1], atol=1e-4)


@pytest.mark.parametrize("likelihood", [Logistic(), Gaussian(0.3)])
def test_draws_give_the_dense_predictions(likelihood):
    trees = [
        sample(model_of(likelihood, structure), QUICK, n_chains=4, n_draws=1000, seed=2)
        for structure in ("dense", LARGE)
    ]
    first, second = (predict(tree, X_NEW[1:3]) for tree in trees)
    assert np.allclose(first.latent_mean, second.latent_mean, atol=0.25 * first.latent_sd.max())
    assert np.allclose(first.latent_sd, second.latent_sd, rtol=0.2)
    assert np.allclose(first.response_mean, second.response_mean, atol=0.05)


def test_draws_are_exact_and_need_no_solve(monkeypatch, tmp_path):
    """Phi(x) (s w) + c of each draw, also read from a file; nothing is factorised."""
    model = model_of(Logistic(), LARGE)
    tree = sample(model, QUICK, n_chains=1, n_draws=20, seed=2)
    for name in ("State", "regression_predictor"):
        monkeypatch.setattr(prediction_module, name, None)
    whole = model.with_structure(LARGE)
    own = predict(tree, X_NEW)
    at_new = GPModel(model.X, model.y, model.covariance, Logistic(), model.mean, structure=LARGE)
    etas = []
    for theta, w in zip(
        tree.posterior.theta.values[0], tree.posterior.weight.values[0], strict=True
    ):
        full = whole.full(theta)
        L, centre = model.basis.eigen[0].half_widths[0], model.basis.eigen[0].centre[0]
        j = np.arange(1, 41)
        Phi = np.sin(np.pi * j * (X_NEW[:, None] - centre + L) / (2 * L)) / np.sqrt(L)
        etas.append(Phi @ (at_new.basis.scales(full)[0] * w) + whole.mean_at(full))
    assert np.allclose(own.latent_mean, np.mean(etas, axis=0), atol=1e-12)
    assert np.allclose(own.latent_sd, np.std(etas, axis=0), atol=1e-12)
    write_results(tree, tmp_path / "draws.nc")
    with open_results(tmp_path / "draws.nc") as read:
        assert np.array_equal(predict(read, X_NEW).latent_mean, own.latent_mean)
        assert read.attrs["structure"] == "basis"
    replicates = simulate(tree, n_draws=20).posterior_predictive
    eta = replicates.eta.values[0]
    by_hand = [
        model.predictor(t, w)
        for t, w in zip(
            tree.posterior.theta.values[0], tree.posterior.weight.values[0], strict=True
        )
    ]
    assert np.allclose(eta, by_hand, atol=1e-12)


def test_weights_integrated_out_again_where_draws_hold_none():
    model = model_of(Gaussian(SIGNAL), LARGE)
    with_weights, without = (
        predict(sample(model, QUICK, n_chains=2, n_draws=400, seed=1, keep_latents=keep), X_NEW[1:])
        for keep in (True, False)
    )
    assert np.allclose(with_weights.latent_mean, without.latent_mean, atol=0.2 * without.latent_sd)
    assert np.allclose(with_weights.latent_sd, without.latent_sd, rtol=0.15)


def test_outside_the_box_the_prior_is_predicted_and_said(caplog):
    model = model_of(
        Logistic(), BasisFunctions(m=12, boundary=1.5), SquaredExponential(LENGTH, 2.0), 0.4
    )
    tree = sample(model, QUICK, n_chains=1, n_draws=20, seed=2)
    with caplog.at_level(logging.WARNING):
        far = predict(tree, [-5.0, 0.0, 1.2, 9.0])
    said = [r.getMessage() for r in caplog.records if "outside the box" in r.getMessage()]
    assert len(said) == 1
    assert "2 of 4 new inputs" in said[0]
    assert np.allclose(far.latent_mean[[0, 3]], 0.4)
    assert np.allclose(far.latent_sd[[0, 3]], 2.0)
    assert far.latent_sd[1] < 1.5
    caplog.clear()
    predict(tree, [0.0, 1.2])
    assert not [r for r in caplog.records if "outside the box" in r.getMessage()]


def test_a_new_group_has_the_priors_variance():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(-1, 1, 40), "town": rng.choice(["A", "B", "C"], 40)})
    y = 2.0 * (table.town == "B") + 0.1 * rng.standard_normal(40)
    covariance = SquaredExponential(0.8, 0.01, columns="x") + Group(1.7, columns="town")
    new = pd.DataFrame({"x": [0.0, 0.0, 0.0], "town": ["A", "B", "D"]})
    values = []
    for structure in ("dense", BasisFunctions(error=1e-4)):
        model = GPModel(table, y, covariance, Gaussian(0.1), structure=structure)
        values.append(predict(approximate(model.at()), new))
    assert np.allclose(values[0].latent_mean, values[1].latent_mean, atol=1e-3)
    assert np.allclose(values[0].latent_sd, values[1].latent_sd, atol=1e-3)
    assert values[1].latent_sd[2] == pytest.approx(1.7, abs=1e-3)


def test_draws_of_another_size_are_refused():
    tree = sample(model_of(Logistic(), LARGE), QUICK, n_chains=1, n_draws=5, seed=2)
    other = model_of(Logistic(), BasisFunctions(m=9, boundary=2.0))
    with pytest.raises(InputError, match="draws of 40 latents for a model of 9 weights"):
        predict(tree, X_NEW, model=other)
