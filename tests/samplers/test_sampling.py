from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution
from gpmcflow.likelihoods import Gaussian, Poisson
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.samplers import HMC, LATENT_SAMPLERS, PreconditionedSplitHMC, make_sampler
from gpmcflow.samplers.sampling import sample


def test_posterior_of_a_gaussian_likelihood(glm):
    """Mean and covariance of theta against the closed form, chains started at the prior."""
    model = glm(Gaussian(noise_sd=0.6), n=12, d=3)
    tree = sample(
        GaussianSites.prior(model),
        n_chains=40,
        n_draws=250,
        n_warmup=50,
        seed=3,
        execution=Execution(block_size=40),
    )
    A, P = model.design, model.cholesky @ model.cholesky.T
    covariance = np.linalg.inv(np.linalg.inv(P) + A.T @ A / 0.36)
    mean = covariance @ (np.linalg.solve(P, model.mean) + A.T @ model.y / 0.36)
    latent = tree["posterior"]["latent"].values
    sd = np.sqrt(np.diag(covariance))
    by_chain = latent.mean(1)
    error = by_chain.std(0, ddof=1) / np.sqrt(len(by_chain))
    assert np.all(error < 0.05 * sd)
    assert np.all(np.abs(by_chain.mean(0) - mean) < 4.5 * error)
    found = np.cov(latent.reshape(-1, 3).T)
    np.testing.assert_allclose(found / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.1)


def test_groups_and_statistics(models):
    model = models["logistic"]
    base = expectation_propagation(model).sites
    sampler = PreconditionedSplitHMC(step_size=0.6, n_steps=3)
    tree = sample(base, sampler, n_chains=5, n_draws=11, n_warmup=4, seed=2)
    latent, stats = tree["posterior"]["latent"], tree["sample_stats"]
    assert latent.dims == ("chain", "draw", "latent_dim")
    assert latent.shape == (5, 11, model.dim)
    assert dict(tree["posterior"].sizes)["draw"] == stats.sizes["draw"] == 11
    eta = latent.values @ model.design.T
    expected = model.likelihood.log_density(eta, model.y)
    np.testing.assert_allclose(stats["sum_log_likelihood"], expected, rtol=1e-10)
    inverse = np.linalg.inv(model.cholesky)
    log_prior = -0.5 * ((latent.values - model.mean) @ inverse.T) ** 2
    joint = expected + log_prior.sum(-1)
    offset = stats["lp"].values - joint  # lp is log p(y, theta) up to a constant
    np.testing.assert_allclose(offset, offset.mean(), atol=1e-9)
    assert float(stats["step_size"]) == 0.6
    assert int(stats["n_steps"]) == 3
    assert np.all(stats["n_gradient"] == 3)
    np.testing.assert_array_equal(tree["observed_data"]["y"], model.y)


def test_warmup_is_dropped_and_nothing_else_changes(models):
    base = expectation_propagation(models["probit"]).sites
    whole, rest = (
        sample(base, HMC(0.3, 3), n_chains=3, n_draws=10 - w, n_warmup=w, seed=1) for w in (0, 4)
    )
    a, b = (tree["posterior"]["latent"].values for tree in (whole, rest))
    np.testing.assert_array_equal(a[:, 4:], b)


def test_more_chains_and_other_blocks_leave_a_chain_as_it_is(models):
    base = expectation_propagation(models["probit"]).sites
    few, many = (
        sample(
            base,
            HMC(0.3, 3),
            n_chains=n,
            n_draws=10,
            n_warmup=0,
            seed=1,
            execution=Execution(block_size=size),
        )
        for n, size in ((1, 1), (7, 7))
    )
    a, b = (tree["posterior"]["latent"].values[0] for tree in (few, many))
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_a_sampler_by_name_is_tuned(models):
    base = expectation_propagation(models["probit"]).sites
    tree = sample(base, "hmc", n_chains=20, n_draws=50, n_warmup=10, seed=1)
    assert float(tree["sample_stats"]["acceptance_rate"].mean()) == pytest.approx(0.8, abs=0.15)
    again = sample(base, "hmc", n_chains=20, n_draws=50, n_warmup=10, seed=1)
    assert tree.identical(again)


@pytest.mark.parametrize("name", LATENT_SAMPLERS)
def test_every_sampler_samples_from_its_own_coordinates(models, name):
    """The latents are those of the model, whatever coordinates the chains moved in."""
    model = models["logistic"]
    fit = expectation_propagation(model).sites
    sampler = make_sampler(name, n_steps=3)
    tree = sample(
        fit,
        sampler,
        n_chains=60,
        n_draws=20,
        n_warmup=0,
        seed=1,
        execution=Execution(block_size=60),
    )
    latent, stats = tree["posterior"]["latent"].values, tree["sample_stats"]
    expected = model.likelihood.log_density(latent @ model.design.T, model.y)
    np.testing.assert_allclose(stats["sum_log_likelihood"], expected, rtol=1e-10)
    sd = np.sqrt(np.diag(fit.factor @ fit.factor.T))
    error = np.abs(latent.mean((0, 1)) - fit.mean) / sd
    assert error.max() < 0.35  # chains start from 60 draws of the fit
    assert 0.2 < float(stats["acceptance_rate"].mean()) <= 1.0


def test_a_model_without_free_parameters_starts_from_its_latents_by_name():
    X, y = np.linspace(0.0, 1.0, 6), np.array([0.0, 1.0, 0.0, 2.0, 1.0, 3.0])
    model, sizes = (
        GPModel(X, y, SquaredExponential(0.3, 1.0), Poisson()),
        {"n_chains": 2, "n_draws": 3},
    )
    sampler, latents = PreconditionedSplitHMC(step_size=0.4, n_steps=2), np.linspace(-1.0, 1.0, 6)
    by_name = sample(model, sampler, start={"latent": latents}, n_warmup=0, **sizes)
    bare = sample(model, sampler, start=latents, n_warmup=0, **sizes)
    xr.testing.assert_identical(by_name["posterior"].to_dataset(), bare["posterior"].to_dataset())
    with pytest.raises(
        InputError, match="start has mean; hyperparameters are fixed here: give latent "
    ):
        sample(model, sampler, start={"mean": 1.0}, **sizes)
    with pytest.raises(InputError, match="latents are all that is drawn at fixed hyperparameters"):
        sample(model, sampler, keep_latents=False, **sizes)


@dataclass(frozen=True)
class Squares:
    """Two functions of theta."""

    names = ("squares", "first")

    def __call__(self, latent):
        return np.column_stack([(latent**2).sum(1), latent[:, 0]])


def test_a_trace_has_every_transition_and_draws_are_thinned(models):
    """Thinning keeps each third draw of the same chains; the trace has all of them, and sums of cost."""
    base = expectation_propagation(models["logistic"]).sites
    settings = {"n_chains": 4, "seed": 3, "execution": Execution(segment_length=2)}
    whole = sample(base, HMC(0.4, 3), n_draws=15, n_warmup=3, **settings)
    thinned = sample(
        base, HMC(0.4, 3), n_draws=5, n_warmup=1, thin=3, keep_latents=Squares(), **settings
    )
    latent = whole["posterior"]["latent"].values
    np.testing.assert_array_equal(thinned["posterior"]["latent"], latent[:, 2::3])
    trace = thinned["trace"]
    assert dict(trace.sizes) == {"chain": 4, "iteration": 15}
    np.testing.assert_array_equal(trace["squares"], (latent**2).sum(-1))
    np.testing.assert_array_equal(trace["first"], latent[:, :, 0])
    np.testing.assert_array_equal(
        trace["sum_log_likelihood"], whole["sample_stats"]["sum_log_likelihood"]
    )
    moved = np.any(np.diff(latent, axis=1) != 0.0, axis=-1)
    np.testing.assert_array_equal(trace["accepted"][:, 1:], moved)
    assert np.all(trace["n_gradient"] == 3)
    assert np.all(thinned["sample_stats"]["n_gradient"] == 9)
    assert "trace" not in whole.children


@pytest.mark.parametrize(("name", "value"), [("n_draws", 0), ("n_warmup", -1), ("thin", 0)])
def test_sizes_out_of_range(models, name, value):
    with pytest.raises(InputError, match=rf"sample: {name} is {value}; allowed: a whole number"):
        sample(GaussianSites.prior(models["probit"]), HMC(), **{name: value})


def test_a_start_without_finite_likelihood_is_an_error():
    model = LatentGaussianModel.from_covariance(1e8 * np.eye(2), Poisson(), np.array([1.0, 2.0]))
    with pytest.raises(NumericalError, match="no finite likelihood"):
        sample(GaussianSites.prior(model), HMC(), n_chains=20, n_draws=2, n_warmup=0)
