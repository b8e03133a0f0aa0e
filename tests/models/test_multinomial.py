"""Multinomial logit: derivatives, the two-class case, splits, and its samplers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Logistic
from gpmcflow.models import multinomial
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.multinomial import MultinomialLogit, MultinomialTarget
from gpmcflow.replications.split_hmc.runs import multinomial_laplace
from gpmcflow.samplers import DataSplitHMC, LatentHMC, PreconditionedSplitHMC, SplitHMC

PRIOR_SD = 1.7
K, D, N = 3, 4, 60


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(N), rng.standard_normal((N, D - 1))])
    eta = design @ rng.standard_normal((D, K))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(1).astype(float)
    return MultinomialLogit(design, y, PRIOR_SD)


@pytest.fixture(scope="module")
def base(model):
    return multinomial_laplace(model)[0]


def log_posterior(model, theta):
    """Written out, theta (d, K) column a class."""
    eta = model.design @ theta
    value = (eta[np.arange(model.n_cases), model.y.astype(int)] - logsumexp(eta, axis=1)).sum()
    return value, value - 0.5 * (theta**2).sum() / model.prior_sd**2


def differences(function, x, step=1e-5):
    move = step * np.eye(len(x))
    return np.array([(function(x + m) - function(x - m)) / (2.0 * step) for m in move])


def test_log_likelihood_and_gradient(model):
    theta = np.random.default_rng(1).standard_normal((2, model.dim))
    predictor, value, gradient = model.cases.evaluate(theta)
    for k, row in enumerate(theta):
        columns = row.reshape(K, D).T
        np.testing.assert_allclose(predictor[k], (model.design @ columns).T, atol=1e-12)
        assert value[k] == pytest.approx(log_posterior(model, columns)[0], rel=1e-12)
        expected = differences(lambda x: log_posterior(model, x.reshape(K, D).T)[0], row)
        np.testing.assert_allclose(gradient[k], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(model.cases.gradient(theta), gradient)


def test_row_blocks_do_not_change_the_sums(monkeypatch):
    rng = np.random.default_rng(2)
    design, y = rng.standard_normal((300, D)), np.arange(300.0) % K
    wide = MultinomialLogit(design, y)
    theta = rng.standard_normal((2, wide.dim))
    whole = wide.cases.evaluate(theta)
    monkeypatch.setattr(multinomial, "BLOCK_ELEMENTS", 6 * 70)  # blocks of 70 rows, the last of 20
    for a, b in zip(whole, wide.cases.evaluate(theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_hessian(model):
    theta = np.random.default_rng(3).standard_normal(model.dim)

    def slope(x):
        return x / PRIOR_SD**2 - model.cases.gradient(x[None])[0]

    np.testing.assert_allclose(model.hessian(theta), differences(slope, theta), atol=1e-6)


def test_mode_and_flat_directions(model, base):
    """The gradient vanishes at the mode, and d eigenvalues are 1 / s^2 (spec, section 1)."""
    rest = base.mean / PRIOR_SD**2 - model.cases.gradient(base.mean[None])[0]
    assert np.abs(rest).max() < 1e-10
    np.testing.assert_allclose(base.frequencies[:D], 1.0 / PRIOR_SD, rtol=1e-10)
    assert base.frequencies[D] > 1.01 / PRIOR_SD


def test_two_classes_are_logistic_regression_with_twice_the_prior_variance():
    rng = np.random.default_rng(4)
    design = np.column_stack([np.ones(80), rng.standard_normal((80, 2))])
    y = (design @ [0.3, 1.0, -1.0] + rng.logistic(size=80) > 0).astype(float)
    both, _ = multinomial_laplace(MultinomialLogit(design, y, PRIOR_SD))
    binary = LatentGaussianModel.from_design(
        design, np.sqrt(2.0) * PRIOR_SD, Logistic(), 2.0 * y - 1.0
    )
    zero, one = both.mean.reshape(2, 3)
    sites = laplace(binary).sites
    np.testing.assert_allclose(one - zero, sites.mean, atol=1e-8)
    # the binary rule ranks cases alike: smallest |eta| first
    np.testing.assert_array_equal(
        both.split_cases(0.3).case_indices[0], sites.split_cases(0.3).case_indices[0]
    )


def test_target_is_the_posterior_in_coordinates_of_the_fit(model, base):
    target = MultinomialTarget(base)
    zeta = 0.7 * np.random.default_rng(5).standard_normal((4, model.dim))
    _, value, residual, gradient = target.evaluate(zeta)
    density = residual - 0.5 * (zeta**2).sum(1)
    expected = [log_posterior(model, t.reshape(K, D).T) for t in base.latent(zeta)]
    np.testing.assert_allclose(value, [v for v, _ in expected], rtol=1e-12)
    np.testing.assert_allclose(density, [p for _, p in expected], rtol=1e-12)
    np.testing.assert_allclose(target.residual_gradient(zeta), gradient, atol=1e-12)
    expected = differences(lambda z: target.evaluate(z[None])[2][0], zeta[0])
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(base.from_latent(base.latent(zeta)), zeta, atol=1e-10)


def test_split_parts_add_up(model, base):
    """U_0 + U_1 = U: prior and fast cases, slow cases."""
    split = base.split_cases(0.4)
    target = MultinomialTarget(split)
    zeta = np.random.default_rng(6).standard_normal((3, model.dim))
    fast, slow = (part.evaluate(zeta) for part in split.parts)
    predictor, value, _, gradient = target.evaluate(zeta)
    np.testing.assert_allclose(split.join_cases(fast[0], slow[0]), predictor, atol=1e-12)
    np.testing.assert_allclose(fast[1] + slow[1], value, rtol=1e-12)
    np.testing.assert_allclose(
        fast[3] + slow[3] - target.sites_gradient(zeta), gradient, atol=1e-10
    )
    traces = 1.0 - (model.probabilities(base.mean) ** 2).sum(0)
    assert len(split.case_indices[0]) == 24
    assert traces[split.case_indices[0]].min() >= traces[split.case_indices[1]].max()


@pytest.mark.parametrize(
    "sampler",
    [
        LatentHMC(0.05, 8),
        SplitHMC(0.08, 8),
        SplitHMC(0.08, 8, flow="fixed"),
        DataSplitHMC(0.15, 4, inner_steps=4),
        PreconditionedSplitHMC(0.3, 4),
    ],
)
def test_samplers_agree_with_the_independent_answer(model, base, sampler):
    """Posterior means of all parameters and of the log likelihood by importance sampling."""
    rng = np.random.default_rng(7)
    target = MultinomialTarget(base)
    zeta = rng.standard_normal((40_000, model.dim))
    _, value, residual, _ = target.evaluate(zeta)
    weight = np.exp(residual - residual.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 4000
    latent = base.latent(zeta)
    expected = np.append(weight @ latent, weight @ value)
    target = target.in_coordinates(sampler.coordinates(base))
    chains = chain_generators(8, repr(sampler), chains=range(200))
    state = sampler.init(target, chains.standard_normal((target.dim,)))
    draws = []
    for k in range(90):
        state, info = sampler.step(chains, target, state)
        if k >= 20:
            theta = target.base.latent(state.position)
            draws.append(np.column_stack([theta, state.log_likelihood]))
    assert 0.4 < info.acceptance_rate.mean() < 1.0
    by_chain = np.mean(draws, axis=0)
    spread = np.concatenate([(latent - expected[:-1]).T, (value - expected[-1])[None]])
    error = np.hypot(by_chain.std(0) / np.sqrt(200.0), np.sqrt((weight**2 * spread**2).sum(1)))
    assert np.abs((by_chain.mean(0) - expected) / error).max() < 4.5


@pytest.mark.parametrize("codes", [[0.0, 0.0], [0.0, 2.0], [1.0, 2.0], [-1.0, 1.0]])
def test_wrong_codes(codes):
    with pytest.raises(InputError, match="codes 0, 1"):
        MultinomialLogit(np.ones((2, 1)), np.array(codes))
