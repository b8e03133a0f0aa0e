"""JointSplitHMC: invariance from exact draws, exact small posteriors, and wrong samplers beside it.

False alarms are those of `test_joint_samplers`, whose statistics and limit these are.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from gpmcflow.approximations.independent_sites import StandardSites
from gpmcflow.diagnostics.coda_effective_size import effective_size
from gpmcflow.likelihoods import Logistic, Poisson
from gpmcflow.models import joint_gradient
from gpmcflow.models.joint_gradient import FrozenSites, JointDensity, scales_with_amplitude
from gpmcflow.models.joint_model import JointModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.joint_sampling import sample_joint
from gpmcflow.samplers.joint_split_hmc import Frame, JointSplitHMC, SplitTarget, transition

from .test_joint_samplers import COUNTS, EXACT, LENGTH, LIKELIHOODS, LIMIT, SIGNAL, small_model

N = 3000


def sites_of(model):
    """One case at a time, at the median of the hyperprior, but narrower: any function of y is valid."""
    theta = model.prior_median()
    _, sd, c = model.hyperparameters(theta)
    w, b, _ = StandardSites()(model.likelihood, model.y, sd**2, c)
    w, b = 3.0 * w, 3.0 * (b + w * c)  # in f + c
    return FrozenSites(w * sd**2, b * sd) if scales_with_amplitude(model) else FrozenSites(w, b)


def statistics(model, state):
    """h(theta, f, y): coordinates, squares, products, bounded functions of f and y."""
    theta, y = state.theta, model.y
    g = np.tanh(state.latents[[0, 3]])
    products = np.outer(theta, np.concatenate([theta, g])).ravel()
    more = [np.tanh(0.1 * state.log_likelihood), g[0] * g[1], np.tanh(0.05 * state.complete)]
    return np.concatenate([theta, products, g, np.tanh(y[[0, 3]] / 3) * g, more])


def largest_z(name, density_type=JointDensity, n=N, seed=0, moves=1):
    """Largest |z| of mean changes of the statistics over ``moves`` transitions from n exact draws."""
    rng, model = np.random.default_rng(seed), small_model(name)
    d = model.dim
    density = density_type(model, sites_of(model))
    scale = 0.7 * np.eye(d) + np.tril(np.full((d, d), 0.2), -1)
    changes = []
    for _ in range(n):
        theta = model.draw_prior(rng)
        _, sd, c = model.hyperparameters(theta)
        f = sd * model.filled_factor(theta).multiply(rng.standard_normal(6))
        model.y[:] = model.likelihood.simulate(rng, f + c)
        target = SplitTarget(density, Frame(np.full(d, 0.3), scale, sites_of(model)))
        state = target.start(rng, model.to_normal(theta), f)
        before = statistics(model, state)
        for _ in range(moves):
            state, _ = transition(rng, target, state, 0.6, 3, 0.2)
        changes.append(statistics(model, state) - before)
    changes = np.array(changes)
    sd = changes.std(0)
    return float(np.max(np.abs(changes.mean(0)[sd > 0]) / sd[sd > 0] * np.sqrt(n)))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_transition_leaves_exact_draws_exact(name):
    assert largest_z(name, seed=list(LIKELIHOODS).index(name)) < LIMIT


class SiteTermAdded(JointDensity):
    """The residual's site term with its sign flipped."""

    def _without_sites(self, s):
        value, slope = super()._without_sites(s)
        return -value, -slope


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_flipped_site_term_is_caught(name):
    assert largest_z(name, SiteTermAdded, n=1000) > 2 * LIMIT


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_dropped_site_evidence_is_caught(name, monkeypatch):
    condition = joint_gradient.condition
    monkeypatch.setattr(joint_gradient, "condition", lambda *given: 0.0 * condition(*given))
    assert largest_z(name, moves=4) > 2 * LIMIT


def test_a_dropped_log_determinant_is_caught(monkeypatch):
    condition = joint_gradient.condition

    def quadratic_only(*given):
        gamma, alpha = given[5], given[10]
        condition(*given)
        return -0.5 * gamma @ alpha

    monkeypatch.setattr(joint_gradient, "condition", quadratic_only)
    assert largest_z("poisson") > 2 * LIMIT


# -- exact posteriors ------------------------------------------------------------------------------


def check(series, exact, digits=0.0005):
    """Means of draws (chain, draw) against exact ones, by the larger of two errors."""
    for name, x in series.items():
        within = np.sqrt(x.var() / effective_size(x).sum())
        error = max(within, x.mean(1).std(ddof=1) / np.sqrt(len(x)))
        allowed = 4 * error + (10 * digits if name == "T" else digits)
        assert abs(x.mean() - exact[name]) < allowed, (name, x.mean(), error)
        assert error < 0.03 * max(x.std(), 1.0), (name, error)


def test_reference_posterior():
    prior = Hyperprior.log_uniform(0.1, 2.0)
    model = JointModel(Poisson(), np.linspace(0, 1, 10), COUNTS, prior, 1.0, np.log(2.0))
    sampler = JointSplitHMC(rounds=(30, 50, 50, 100, 50))
    tree = sample_joint(model, sampler, n_chains=8, n_draws=1500, seed=1)
    f = tree.posterior.latent.values
    series = {
        "log_length": tree.posterior.theta.values[:, :, 0],
        "f1": f[:, :, 0],
        "f6": f[:, :, 5],
        "f10": f[:, :, 9],
        "T": tree.sample_stats.complete_log_likelihood.values,
    }
    check(series, EXACT)


def test_logistic_posterior_by_importance_sampling():
    y = np.array([1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
    X = np.linspace(0, 1, 6)
    model = JointModel(Logistic(), X, y, LENGTH, SIGNAL)
    rng, n = np.random.default_rng(0), 400_000
    low, high = np.array([p.support for p in model.free_priors]).T
    theta = low + (high - low) * rng.random((n, 2))
    squares = (X[:, None] - X) ** 2
    K = np.exp(-0.5 * squares * np.exp(-2 * theta[:, 0])[:, None, None]) + 1e-6 * np.eye(6)
    f = np.einsum("nij,nj->ni", np.linalg.cholesky(K), rng.standard_normal((n, 6)))
    f *= np.exp(theta[:, 1])[:, None]
    w = np.prod(expit(y * f), axis=1)
    w /= w.sum()
    exact = {
        "length": w @ theta[:, 0],
        "signal": w @ theta[:, 1],
        "square": w @ theta[:, 1] ** 2,
        "f1": w @ f[:, 0],
        "f6": w @ f[:, 5],
    }
    sampler = JointSplitHMC(rounds=(30, 50, 50, 100, 50))
    tree = sample_joint(model, sampler, n_chains=8, n_draws=1500, seed=2)
    found, latent = tree.posterior.theta.values, tree.posterior.latent.values
    series = {
        "length": found[:, :, 0],
        "signal": found[:, :, 1],
        "square": found[:, :, 1] ** 2,
        "f1": latent[:, :, 0],
        "f6": latent[:, :, 5],
    }
    check(series, exact, digits=0.008)
