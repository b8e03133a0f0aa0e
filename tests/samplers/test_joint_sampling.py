from __future__ import annotations

import json
import logging

import arviz_stats
import numpy as np
import pytest

from gpmcflow.approximations.prediction import predict
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.joint.hyperparameter_updates import MetropolisUpdate, SliceUpdate
from gpmcflow.samplers.joint.representations import REPRESENTATIONS, Surrogate
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, write_results

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
NORMAL = Hyperprior("norm", {"scale": 0.5})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    covariance = SquaredExponential(LENGTH, NORMAL, ard=True)
    return GPModel(rng.random((15, 2)), rng.poisson(2.0, 15), covariance, Poisson(), OFFSET)


@pytest.fixture(scope="module")
def labels():
    X = np.random.default_rng(1).random((15, 6))
    covariance = SquaredExponential(LENGTH, NORMAL, ard=True)
    return GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), covariance, Logistic())


def digest(tree):
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


@pytest.mark.parametrize("rep", REPRESENTATIONS)
@pytest.mark.parametrize("name", ["counts", "labels"])
def test_same_numbers_however_it_is_cut_and_scheduled(name, rep, request, tmp_path):
    model = request.getfixturevalue(name)
    if name == "labels" and rep.endswith("taylor"):
        return
    update = MetropolisUpdate(0.2) if rep == "fixed" else SliceUpdate()
    sizes = {"n_chains": 3, "n_draws": 10, "n_warmup": 3, "seed": 4}
    sampler = SurrogateSlice(rep, update)
    tree = sample(model, sampler, **sizes, execution=Execution(segment_length=13))
    cut = sample(
        model,
        sampler,
        **sizes,
        execution=Execution(segment_length=4, scheduler="threads", workers=2),
    )
    stored = sample(
        model,
        sampler,
        **sizes,
        execution=Execution(segment_length=5, block_size=2, state_dir=tmp_path),
    )
    again = sample(
        model,
        sampler,
        **sizes,
        execution=Execution(segment_length=5, block_size=2, state_dir=tmp_path),
    )
    assert digest(tree) == digest(cut) == digest(stored.load()) == digest(again.load())
    one = sample(model, sampler, **sizes | {"n_chains": 1})
    assert np.array_equal(one.posterior.theta[0], tree.posterior.theta[0])
    assert digest(tree) != digest(sample(model, sampler, **sizes | {"seed": 5}))


def test_layout(counts, tmp_path):
    tree = sample(
        counts,
        SurrogateSlice("post-site", n_elliptical=2),
        n_chains=2,
        n_draws=6,
        n_warmup=2,
        thin=3,
    )
    assert tree.posterior.theta.dims == ("chain", "draw", "theta_dim")
    assert tree.posterior.theta_dim.values.tolist() == list(counts.names)
    assert tree.posterior.latent.shape == (2, 6, 15)
    assert set(tree.sample_stats) == {
        "complete_log_likelihood", "sum_log_likelihood", "lp", "acceptance_rate", "n_hyp", "n_cov",
        "n_lik", "n_failed",
    }  # fmt: skip
    assert tree.trace.complete_log_likelihood.shape == (2, 18)
    assert tree.trace.theta.shape == (2, 18, 4)
    assert np.array_equal(tree.trace.theta[:, 2::3], tree.posterior.theta)
    per_draw = tree.trace.n_lik.values.reshape(2, 6, 3).sum(-1)
    assert np.array_equal(per_draw, tree.sample_stats.n_lik)
    assert np.all(tree.sample_stats.n_hyp > tree.sample_stats.n_cov)  # the mean moves no covariance
    theta, f = tree.posterior.theta.values[1, 4], tree.posterior.latent.values[1, 4]
    assert tree.sample_stats.lp.values[1, 4] == pytest.approx(counts.log_density(theta, f))
    expected = counts.log_likelihood(f, theta)
    assert tree.sample_stats.sum_log_likelihood.values[1, 4] == pytest.approx(float(expected))
    assert "representation=PosteriorWhite(rule=" in json.loads(tree.attrs["settings"])["sampler"]
    write_results(tree, tmp_path / "found.nc")
    assert arviz_stats.ess(load_results(tmp_path / "found.nc"), var_names=["theta"]) is not None
    bare = sample(counts, SurrogateSlice(), n_chains=1, n_draws=2, n_warmup=0, keep_latents=False)
    assert "latent" not in bare.posterior


def test_predictions_average_over_the_posterior():
    rng = np.random.default_rng(2)
    X = np.linspace(0, 1, 12)
    y = np.sin(4 * X) + 0.1 * rng.standard_normal(12)
    model = GPModel(X, y, SquaredExponential(Hyperprior.log_uniform(0.2, 2.0), 1.0), Gaussian(0.1))
    new = np.array([0.05, 0.5, 1.4])
    draws = sample(model, SurrogateSlice("post-site"), n_chains=2, n_draws=1500)
    found = predict(draws, new)
    means, variances, weights = [], [], []
    for theta in np.linspace(
        *model.parameters.free_priors[0].support, 201
    ):  # exact, by a grid of one coordinate
        theta = np.array([theta])
        S = model.covariance_matrix(theta) + 0.01 * np.eye(12)
        k = model.cross_covariance(model.full(theta), new[:, None])
        solved = np.linalg.solve(S, k.T)
        means.append(solved.T @ y)
        variances.append(1.0 - np.einsum("ij,ji->i", k, solved))
        weights.append(-0.5 * y @ np.linalg.solve(S, y) - 0.5 * np.linalg.slogdet(S)[1])
    w = np.exp(weights - np.max(weights))
    w /= w.sum()
    mean = w @ np.array(means)
    sd = np.sqrt(w @ (np.array(variances) + np.array(means) ** 2) - mean**2)
    assert np.allclose(found.latent_mean, mean, atol=0.15 * sd)
    assert np.allclose(found.latent_sd, sd, rtol=0.1)
    np.testing.assert_allclose(found.response_mean, found.latent_mean, rtol=1e-12)
    np.testing.assert_allclose(found.response_sd, np.hypot(sd, 0.1), rtol=0.1)


def test_predictions_at_the_cases_are_the_latents(counts, labels):
    for model in (counts, labels):
        tree = sample(model, SurrogateSlice(), n_chains=2, n_draws=20, n_warmup=0)
        found = predict(tree, model.X)
        f = tree.posterior.latent.values.reshape(-1, 15)
        eta = f + (
            tree.posterior.theta.values.reshape(-1, model.dim)[:, -1:] if model is counts else 0
        )
        assert np.allclose(found.latent_mean, eta.mean(0), atol=0.02)
        assert np.allclose(found.latent_sd, eta.std(0), atol=0.02)
        response = np.exp(eta) if model is counts else 1 / (1 + np.exp(-eta))
        assert np.allclose(found.response_mean, response.mean(0), rtol=0.02, atol=0.01)


def test_starts(counts):
    logs = {"length_scale[x1]": 0.0, "length_scale[x2]": 0.1, "signal_sd": -0.2}
    start = {name: np.exp(value) for name, value in logs.items()} | {"mean": 0.4}
    frozen = MetropolisUpdate(1e6, joint=True)
    sizes = {"n_chains": 3, "n_draws": 1, "n_warmup": 0}
    sampler = SurrogateSlice("fixed", frozen, n_elliptical=0)
    tree = sample(counts, sampler, **sizes, start=start)
    assert np.allclose(tree.posterior.theta, [0.0, 0.1, -0.2, 0.4])
    pool, f = np.array([[0.0] * 4, [0.1] * 4]), np.arange(15.0) / 10
    tree = sample(counts, sampler, **sizes, start={"theta": pool, "latent": f})
    assert np.allclose(tree.posterior.theta[:, 0, 0], [0.0, 0.1, 0.0])
    assert np.allclose(tree.posterior.latent, f)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": [0.0, 3.0, 0.0, 0.5]}, r"start of length_scale\[x2\] is 3, .*no density"),
        (
            {"start": [0.0, 3.0]},
            r"start of theta has shape \(2,\); allowed: finite numbers \(4,\)",
        ),
        (
            {"start": {"mean": 1.0}},
            r"no value for length_scale\[x1\], length_scale\[x2\], signal_sd",
        ),
        ({"start": {"offset": 1.0}}, r"model: parameter: unknown name 'offset'"),
        ({"start": {"latent": np.zeros(3)}}, r"start of latent has shape \(3,\)"),
        ({"n_draws": 0}, r"sample: n_draws is 0"),
        ({"n_warmup": -1}, r"sample: n_warmup is -1"),
    ],
)
def test_bad_input(counts, settings, message):
    with pytest.raises(InputError, match=message) as found:
        sample(counts, SurrogateSlice(), **settings)
    assert "\n" not in str(found.value)


def test_bad_settings():
    with pytest.raises(InputError, match=r"SurrogateSlice: n_elliptical is 1.5"):
        SurrogateSlice(n_elliptical=1.5)
    with pytest.raises(InputError, match=r"representation: unknown name 'surr'"):
        SurrogateSlice("surr")


def test_starts_without_likelihood_or_covariance(counts):
    with pytest.raises(NumericalError, match=r"log likelihood is not finite at the start"):
        sample(counts, SurrogateSlice(), start={"latent": np.full(15, 800.0)})
    model = GPModel(
        np.linspace(0, 1, 60), np.ones(60), SquaredExponential(LENGTH, 1.0), Logistic(), jitter=0.0
    )
    with pytest.raises(NumericalError, match=r"give a larger jitter than 0"):
        sample(model, SurrogateSlice(), start=[2.0])
    fixed = GPModel(np.linspace(0, 1, 6), np.ones(6), SquaredExponential(1.0, 1.0), Logistic())
    with pytest.raises(InputError, match=r"SurrogateSlice is a sampler of hyperparameters and"):
        sample(fixed, SurrogateSlice())


def test_an_alarm_for_failed_factorisations(caplog):
    wide = Hyperprior.log_uniform(1e-4, 10.0)
    model = GPModel(
        np.linspace(0, 1, 60), np.ones(60), SquaredExponential(wide, 1.0), Logistic(), jitter=0.0
    )
    with caplog.at_level(logging.WARNING):
        tree = sample(model, SurrogateSlice(Surrogate()), n_draws=20, n_chains=1, start=[-8.0])
    assert tree.sample_stats.n_failed.sum() > 0
    assert "proposals had a covariance that does not factorise" in caplog.text
