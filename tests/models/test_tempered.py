"""The tempered path and its targets against the densities written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpmcflow.errors import InputError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target, TemperedPath


def random_sites(model, seed):
    rng = np.random.default_rng(seed)
    return GaussianSites(
        model, rng.exponential(1.5, model.n_cases), rng.standard_normal(model.n_cases)
    )


@pytest.fixture(params=["probit", "poisson", "logistic"])
def model(request, models):
    return models[request.param]


@pytest.fixture(params=["prior", "sites"])
def path(request, model):
    return TemperedPath(
        GaussianSites.prior(model) if request.param == "prior" else random_sites(model, 4)
    )


def log_joint(model, theta):
    """log p(y, theta), dense."""
    eta = theta if model.design is None else theta @ model.design.T
    prior = multivariate_normal(model.mean, model.cholesky @ model.cholesky.T)
    return prior.logpdf(theta) + model.likelihood.log_density(eta, model.y)


def log_reference(q, theta):
    return multivariate_normal(q.mean, q.factor @ q.factor.T).logpdf(theta)


def evaluate(target, zeta):
    """Log density of the target at zeta up to a constant, and theta."""
    _, _, residual, _ = target.evaluate(zeta)
    return -0.5 * (zeta**2).sum(1) + target.beta * residual, target.base.latent(zeta)


def test_log_ratio_is_joint_over_reference(model, path):
    """Row 2: u = log p(y, theta) - log q(theta), the prior cancelled."""
    zeta = np.random.default_rng(0).standard_normal((6, model.dim))
    eta, log_likelihood, *_ = path.target(0.4).evaluate(zeta)
    theta = path.reference.latent(zeta)
    expected = log_joint(model, theta) - log_reference(path.reference, theta)
    np.testing.assert_allclose(path.log_ratio(eta, log_likelihood), expected, atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_target_is_the_tempered_density(model, path, beta):
    zeta = np.random.default_rng(1).standard_normal((5, model.dim))
    ours, theta = evaluate(path.target(beta), zeta)
    expected = beta * log_joint(model, theta) + (1 - beta) * log_reference(path.reference, theta)
    np.testing.assert_allclose(np.diff(ours), np.diff(expected), atol=1e-9)


@pytest.mark.parametrize("beta", [0.02, 0.3, 1.0])
def test_target_in_another_base_is_the_same_density(model, path, beta):
    zeta = np.random.default_rng(2).standard_normal((5, model.dim))
    ours, theta = evaluate(path.target(beta, random_sites(model, 9)), zeta)
    expected = beta * log_joint(model, theta) + (1 - beta) * log_reference(path.reference, theta)
    np.testing.assert_allclose(np.diff(ours), np.diff(expected), atol=1e-9)


def test_posterior_target(model):
    zeta = np.random.default_rng(3).standard_normal((5, model.dim))
    ours, theta = evaluate(Target.posterior(random_sites(model, 2)), zeta)
    np.testing.assert_allclose(np.diff(ours), np.diff(log_joint(model, theta)), atol=1e-9)


@pytest.mark.parametrize("other_base", [False, True])
def test_gradient_of_the_residual_against_central_differences(model, path, other_base):
    target = path.target(0.3, random_sites(model, 9) if other_base else None)
    zeta = np.random.default_rng(4).standard_normal((3, model.dim))
    gradient = target.evaluate(zeta)[3]
    np.testing.assert_allclose(target.residual_gradient(zeta), gradient, rtol=1e-10, atol=1e-12)
    for j in range(model.dim):
        step = np.zeros(model.dim)
        step[j] = 1e-5
        above, below = (target.evaluate(zeta + s * step)[2] for s in (1, -1))
        difference = (above - below) / 2e-5
        scale = 1.0 + np.abs(gradient).max()
        np.testing.assert_allclose(difference, gradient[:, j], atol=1e-7 * scale)


def test_one_beta_per_chain_is_one_target_per_chain(model, path):
    betas = np.array([0.0, 0.2, 1.0])
    zeta = np.random.default_rng(5).standard_normal((3, model.dim))
    ladder = path.target(betas)
    assert ladder.beta_column().shape == (3, 1)
    for k, beta in enumerate(betas):
        one = path.target(beta).evaluate(zeta[k : k + 1])
        for whole, single in zip(ladder.evaluate(zeta), one, strict=True):
            np.testing.assert_allclose(whole[k], single[0], rtol=1e-12, atol=1e-12)


def test_derivatives_of_the_factors(model, path):
    eta = np.random.default_rng(6).standard_normal(model.n_cases)
    value, first, second = path.derivatives(eta, 0.3)
    q = path.reference
    likelihood = model.likelihood.derivatives(eta, model.y)[0]
    site = q.shift * eta - 0.5 * q.precision * eta**2
    np.testing.assert_allclose(value, 0.3 * likelihood + 0.7 * site, rtol=1e-12)
    above, below = (path.derivatives(eta + s * 1e-5, 0.3) for s in (1, -1))
    np.testing.assert_allclose((above[0] - below[0]) / 2e-5, first, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose((above[1] - below[1]) / 2e-5, second, rtol=1e-6, atol=1e-8)


def other_gaussian(model) -> GaussianSites:
    n = model.n_cases
    return GaussianSites(model, np.linspace(0.2, 0.9, n), np.linspace(0.5, -0.4, n))


@pytest.mark.parametrize("beta", [0.0, -0.1, np.array([0.0, 0.4])])
def test_another_gaussian_as_base_needs_positive_betas(model, path, beta):
    with pytest.raises(InputError, match="must be > 0"):
        path.target(beta, other_gaussian(model))


def test_another_gaussian_as_base_does_not_change_the_density(model, path):
    betas = np.array([0.05, 0.4, 1.0])
    theta = model.latent(np.random.default_rng(8).standard_normal((3, model.dim)))
    for there in (other_gaussian(model), GaussianSites.prior(model)):
        here = path.reference
        one, other = path.target(betas), path.target(betas).in_coordinates(there)
        moved = path.in_coordinates(there).target(betas)
        values = []
        for target, base in ((one, here), (other, there), (moved, there)):
            zeta = base.from_latent(theta)
            residual = target.evaluate(zeta)[2]
            at_zero = np.zeros(model.n_cases), 0.0
            constant = TemperedPath(base).log_ratio(*at_zero) - np.log(np.diag(base.factor)).sum()
            values.append(betas * residual - 0.5 * (zeta**2).sum(-1) + constant)
        for found in values[1:]:
            np.testing.assert_allclose(found, values[0], rtol=1e-10, atol=1e-9)


def test_draws_of_the_reference_in_another_base(model, path):
    normals = np.random.default_rng(9).standard_normal((3, model.dim))
    there = other_gaussian(model)
    draws = path.in_coordinates(there).reference_draws(normals)
    expected = path.reference.latent(normals)
    np.testing.assert_allclose(there.latent(draws), expected, rtol=1e-9, atol=1e-9)
    assert path.reference_draws(normals) is normals
