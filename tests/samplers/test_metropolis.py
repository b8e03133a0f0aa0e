"""Samplers without gradients, and the comparison of HMC with a random walk on a bivariate normal."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.laplace import laplace
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import IndependenceMetropolis, LatentHMC, RandomWalkMetropolis

N_CHAINS = 20_000
COVARIANCE = np.array([[1.0, 0.95], [0.95, 1.0]])
MEAN = np.array([3.0, 3.0])


class BatchRandom:
    """The random source samplers expect, from one generator for all chains: fast."""

    def __init__(self, seed, n_chains=N_CHAINS):
        self.generator, self.n_chains = np.random.default_rng(seed), n_chains

    def standard_normal(self, size=()):
        return self.generator.standard_normal((self.n_chains, *np.atleast_1d(size).astype(int)))

    def uniform(self, size=()):
        return self.generator.random((self.n_chains, *np.atleast_1d(size).astype(int)))


@pytest.fixture(scope="module")
def bivariate():
    """The normal of the paper's Figure 1 as the posterior of two Gaussian observations, prior as base."""
    precision, y, noise_sd = np.linalg.inv(COVARIANCE), np.array([1.0, 2.0]), 2.0
    prior = np.linalg.inv(precision - np.eye(2) / noise_sd**2)
    mean = prior @ (precision @ MEAN - y / noise_sd**2)
    model = LatentGaussianModel.from_covariance(prior, Gaussian(noise_sd), y, mean=mean)
    return GaussianSites.prior(model)


def stationary(bivariate, sampler, n_transitions=1, seed=0):
    """Theta before and after, from exact draws, and the mean acceptance rate per proposal."""
    target = Target.posterior(bivariate)
    target = target.in_coordinates(sampler.coordinates(target.base))
    rng = BatchRandom(seed)
    draws = MEAN + rng.standard_normal(2) @ np.linalg.cholesky(COVARIANCE).T
    state, rates = sampler.init(target, target.base.from_latent(draws)), []
    for _ in range(n_transitions):
        state, info = sampler.step(rng, target, state)
        rates.append(info.acceptance_rate.mean())
    return draws, target.base.latent(state.position), np.mean(rates)


def correlation(before, after, weights):
    return np.corrcoef((before - MEAN) @ weights, (after - MEAN) @ weights)[0, 1]


def test_the_target_is_that_normal(bivariate):
    fit = laplace(bivariate.model).sites
    np.testing.assert_allclose(fit.mean, MEAN, rtol=1e-9)
    np.testing.assert_allclose(fit.factor @ fit.factor.T, COVARIANCE, rtol=1e-9)


# Standard errors at 20000 chains: acceptance 0.001, a correlation r (1 - r^2) / 141. Reference values
# have two or three digits.
@pytest.mark.parametrize(("step_size", "lag_one"), [(0.15, 0.89), (2.0, 0.30)])
def test_random_walk_on_the_bivariate_normal(bivariate, step_size, lag_one):
    """Acceptance 0.786 per update at sd 0.15; correlation of q_1 over 20 updates."""
    draws, after, rate = stationary(bivariate, RandomWalkMetropolis(step_size))
    assert correlation(draws, after, [1.0, 0.0]) == pytest.approx(lag_one, abs=0.02)
    if step_size == 0.15:
        assert rate == pytest.approx(0.786, abs=0.004)


def test_hmc_on_the_bivariate_normal(bivariate):
    """Figure 1: L = 20 steps of 0.15 without jitter. q_1 is anticorrelated, q_1 - q_2 is not."""
    draws, after, rate = stationary(bivariate, LatentHMC(0.15, 20, jitter=0.0))
    assert rate == pytest.approx(0.965, abs=0.004)
    assert correlation(draws, after, [1.0, 0.0]) == pytest.approx(-0.47, abs=0.02)
    assert correlation(draws, after, [1.0, 1.0]) == pytest.approx(-0.49, abs=0.02)
    assert correlation(draws, after, [1.0, -1.0]) == pytest.approx(0.43, abs=0.02)


def test_the_normal_stays_what_it_is(bivariate):
    for sampler in (RandomWalkMetropolis(0.5), IndependenceMetropolis(3)):
        _, after, _ = stationary(bivariate, sampler, n_transitions=3, seed=1)
        np.testing.assert_allclose(after.mean(0), MEAN, atol=4.0 / np.sqrt(N_CHAINS))
        np.testing.assert_allclose(np.cov(after.T), COVARIANCE, atol=4.0 * np.sqrt(2.0 / N_CHAINS))


def test_independent_proposals_from_the_target_itself_are_all_taken(glm):
    model = glm(Gaussian(0.7))
    sampler, fit = IndependenceMetropolis(2), laplace(model).sites
    target, rng = Target.posterior(fit), BatchRandom(0, 500)
    state = sampler.init(target, rng.standard_normal(model.dim))
    for _ in range(3):
        before = state.position
        state, info = sampler.step(rng, target, state)
        assert info.accepted.all()
        assert not info.diverging.any()
        np.testing.assert_allclose(info.acceptance_rate, 1.0, rtol=1e-11)
        assert np.abs(info.energy_error).max() < 1e-11
        assert np.all(state.position != before)


class Recorded:
    """Chain generators that keep what they gave."""

    def __init__(self, n_chains, seed=0):
        self.rng = chain_generators(seed, chains=range(n_chains))
        self.normals, self.uniforms = [], []

    def standard_normal(self, size=()):
        self.normals.append(self.rng.standard_normal(size))
        return self.normals[-1]

    def uniform(self, size=()):
        self.uniforms.append(self.rng.uniform(size))
        return self.uniforms[-1]


@pytest.fixture(params=["probit", "poisson", "logistic"])
def tempered(request, models):
    """h_0.6 from sites, in coordinates that are not the reference's."""
    model = models[request.param]
    n = model.n_cases
    sites = GaussianSites(model, np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n))
    return TemperedPath(GaussianSites.prior(model)).target(0.6, sites)


def log_tempered(target, theta):
    """0.6 log likelihood + log prior, up to a constant, from the model alone."""
    model = target.model
    eta = theta if model.design is None else theta @ model.design.T
    distance = np.linalg.solve(model.cholesky, (theta - model.mean).T)
    return 0.6 * model.likelihood.log_density(eta, model.y) - 0.5 * (distance**2).sum(0)


def log_base(target, theta):
    distance = np.linalg.solve(target.base.factor, (theta - target.base.mean).T)
    return -0.5 * (distance**2).sum(0)


@pytest.mark.parametrize("kind", ["random walk", "independence"])
def test_against_proposals_written_out_in_theta(tempered, kind):
    """Which of five proposals in a row are taken, from the same random numbers; and what Info says."""
    walk = kind == "random walk"
    sampler = RandomWalkMetropolis(0.12, 5) if walk else IndependenceMetropolis(5)
    target = tempered.in_coordinates(sampler.coordinates(tempered.base))
    rng, base = Recorded(40), target.base
    zeta = np.random.default_rng(0).standard_normal((40, target.dim))
    theta, state = base.latent(zeta), sampler.init(target, zeta)
    after, info = sampler.step(rng, target, state)
    moved, rate = np.zeros(40, bool), np.zeros(40)
    for noise, u in zip(rng.normals, rng.uniforms, strict=True):
        proposal = theta + 0.12 * noise @ base.axes.T if walk else base.latent(noise)
        ratio = log_tempered(target, proposal) - log_tempered(target, theta)
        if not walk:
            ratio += log_base(target, theta) - log_base(target, proposal)
        accepted = np.log(1.0 - u) < ratio
        theta, moved = np.where(accepted[:, None], proposal, theta), moved | accepted
        rate += np.exp(np.minimum(ratio, 0.0)) / 5
    assert len(rng.uniforms) == 5
    assert 0.1 < rate.mean() < 0.9
    np.testing.assert_allclose(base.latent(after.position), theta, atol=1e-9)
    np.testing.assert_array_equal(info.accepted, moved)
    np.testing.assert_allclose(info.acceptance_rate, rate, rtol=1e-8)
    np.testing.assert_allclose(info.energy_error, -ratio, atol=1e-8)
    np.testing.assert_array_equal(info.n_gradient, 2.5)
    assert after.gradient.shape == (40, 0)


def test_one_beta_for_each_chain(models):
    """At beta = 0 the target is the Gaussian itself: its chain takes every independent proposal."""
    model = models["logistic"]
    target = TemperedPath(GaussianSites.prior(model)).target(np.array([0.0, 1.0] * 100))
    rng, sampler = BatchRandom(0, 200), IndependenceMetropolis()
    _, info = sampler.step(rng, target, sampler.init(target, rng.standard_normal(model.dim)))
    assert info.accepted[::2].all()
    assert not info.accepted[1::2].all()


def test_settings_of_the_tuner_reach_the_random_walk_alone():
    assert RandomWalkMetropolis(0.5, 20).with_steps(0.2, 7) == RandomWalkMetropolis(0.2, 7)
    assert IndependenceMetropolis(3).with_steps(0.2, 7) == IndependenceMetropolis(3)
