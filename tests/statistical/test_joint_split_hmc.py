"""JointSplitHMC: invariance from exact draws, exact small posteriors, and wrong samplers beside it.

False alarms are those of `test_joint_samplers`, whose statistics and limit these are.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from gpmcflow.approximations.independent_sites import StandardSites
from gpmcflow.covariances.leaves import Constant, Matern32, SquaredExponential
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson
from gpmcflow.models import dense_structure
from gpmcflow.models.collapsed_density import CollapsedDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.kronecker_structure import KroneckerStructure, SiteSpectrum, rank_one
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.surrogate_slice.tables import effective_size
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.sampling import sample

from .test_joint_samplers import (
    CAUGHT,
    COUNTS,
    EXACT,
    HALF,
    LENGTH,
    LIKELIHOODS,
    LIMIT,
    MEAN,
    SIGNAL,
    largest_mean_z,
    small_model,
)

N = 3000
GRIDS = {"grid of counts": Poisson(), "grid of labels": Logistic()}


def grid_model(name):
    """A product of covariances on 3 x 2 places."""
    axes = np.meshgrid(np.linspace(0, 1, 3), np.linspace(0, 0.5, 2), indexing="ij")
    covariance = Matern32(LENGTH, SIGNAL, columns=0) * SquaredExponential(HALF, columns=1)
    X, mean = np.stack(axes, -1).reshape(-1, 2), MEAN if GRIDS[name].counts else 0.0
    return GPModel(X, np.ones(6), covariance, GRIDS[name], mean, structure="kronecker")


def sites_of(model, precision=3.0):
    """One case at a time, at the median of the hyperprior, but narrower: any function of y is valid."""
    full = model.full(model.prior_median())
    k, c = float(model.prior_variance(full, model.X).mean()), model.mean_at(full)
    w, b, _ = StandardSites()(model.likelihood_at(full), model.y, k, c)
    w, b = precision * w, precision * (b + w * c)  # in f + c
    if model.kronecker:
        product = np.outer(*rank_one(w.reshape(3, 2))).ravel()
        w, b = product, b / w * product
    relative = model.likelihood.relative_sites
    return FrozenSites(w * k, b * np.sqrt(k)) if relative else FrozenSites(w, b)


def statistics(model, state):
    """h(theta, f, y): coordinates, squares, products, bounded functions of f and y."""
    theta, y = state.theta, model.y
    g = np.tanh(state.latents[[0, 3]])
    products = np.outer(theta, np.concatenate([theta, g])).ravel()
    more = [np.tanh(0.1 * state.log_likelihood), g[0] * g[1], np.tanh(0.05 * state.complete)]
    return np.concatenate([theta, products, g, np.tanh(y[[0, 3]] / 3) * g, more])


def largest_z(
    name, density_type=JointDensity, n=N, seed=0, moves=1, until=np.inf, sites_of=sites_of
):
    """Largest |z| of mean changes of the statistics over ``moves`` transitions from n exact draws."""
    rng, model = np.random.default_rng(seed), (grid_model if name in GRIDS else small_model)(name)
    d = model.dim
    density = density_type(model, sites_of(model))
    scale = 0.7 * np.eye(d) + np.tril(np.full((d, d), 0.2), -1)

    def change():
        theta = model.draw_prior(rng)
        f, model.y[:] = model.simulate(rng, theta)
        target = SplitTarget(density, Frame(np.full(d, 0.3), scale, sites_of(model)))
        state = target.start(rng, model.parameters.to_normal(theta), f)
        before = statistics(model, state)
        for _ in range(moves):
            state, _ = transition(rng, target, state, 0.6, 3, 0.2)
        return statistics(model, state) - before

    return largest_mean_z(change, n, until)


@pytest.mark.parametrize("name", [*LIKELIHOODS, *GRIDS])
def test_a_transition_leaves_exact_draws_exact(name):
    n = 600 if name == "dispersion" else N // 2  # its sites are slow
    assert largest_z(name, n=n, seed=[*LIKELIHOODS, *GRIDS].index(name)) < LIMIT


def noisy_model():
    covariance = SquaredExponential(LENGTH, HALF) + Constant(HALF)
    return GPModel(np.linspace(0, 1, 6), np.zeros(6), covariance, Gaussian(HALF), HALF)


def collapsed_z(model, n, seed, moves=3, until=np.inf):
    """As `largest_z`, where latents are integrated out and noise is unknown."""
    rng, d = np.random.default_rng(seed), model.dim
    frame = Frame(np.full(d, 0.3), 0.7 * np.eye(d), FrozenSites(np.ones(6), np.zeros(6)))
    target = SplitTarget(CollapsedDensity(model), frame)

    def numbers(theta):
        sizes = [model.y.std(), model.y.mean() ** 2, np.diff(model.y).std(), model.y[0]]
        return np.concatenate([theta, np.outer(theta, [*theta, *np.tanh(sizes)]).ravel()])

    def change():
        theta = model.draw_prior(rng)
        model.y[:] = model.simulate(rng, theta)[1]
        state = target.start(rng, model.parameters.to_normal(theta), None)
        for _ in range(moves):
            state, _ = transition(rng, target, state, 0.6, 3, 0.2)
        return numbers(state.theta) - numbers(theta)

    return largest_mean_z(change, n, until)


def test_a_transition_with_latents_integrated_out_leaves_exact_draws_exact():
    assert collapsed_z(noisy_model(), N // 2, 0) < LIMIT


def test_a_dropped_evidence_of_latents_integrated_out_is_caught(monkeypatch):
    whole = CollapsedDensity.evaluate
    monkeypatch.setattr(
        CollapsedDensity, "evaluate", lambda self, x, z: whole(self, x, z)._replace(rest=0.0)
    )
    assert collapsed_z(noisy_model(), 2 * N // 3, 0, moves=6, until=CAUGHT) > CAUGHT


class SiteTermDropped(JointDensity):
    """The residual's site term left out of the value."""

    def evaluate(self, x, z):
        at, (w, b) = super().evaluate(x, z), self.sites
        full = self.model.full(at.theta)
        a = 1.0
        if self.model.likelihood.relative_sites:
            a = np.sqrt(self.model.prior_variance(full, self.model.X).mean())
        s = (at.latents + self.model.mean_at(full)) / a
        return at._replace(rest=at.rest - s @ (0.5 * w * s - b))


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_dropped_site_term_is_caught(name):
    assert largest_z(name, SiteTermDropped, n=1000, until=CAUGHT) > CAUGHT


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_dropped_site_evidence_is_caught(name, monkeypatch):
    condition = dense_structure.condition
    monkeypatch.setattr(dense_structure, "condition", lambda *given: 0.0 * condition(*given))
    assert largest_z(name, moves=4, until=CAUGHT) > CAUGHT


@pytest.mark.parametrize("name", GRIDS)
def test_a_dropped_site_evidence_on_a_grid_is_caught(name, monkeypatch):
    place = KroneckerStructure.place
    monkeypatch.setattr(
        KroneckerStructure, "place", lambda self, full, z: 0.0 * place(self, full, z)
    )
    moves, precision = {"grid of counts": (8, 3.0), "grid of labels": (2, 15.0)}[
        name
    ]  # that show it
    sites = partial(sites_of, precision=precision)
    assert largest_z(name, n=N // 2, moves=moves, until=CAUGHT, sites_of=sites) > CAUGHT


def test_a_dropped_log_determinant_on_a_grid_is_caught(monkeypatch):
    monkeypatch.setattr(SiteSpectrum, "log_det", lambda self: 0.0)
    assert largest_z("grid of counts", n=N // 3, moves=4, until=CAUGHT) > CAUGHT


def test_a_dropped_log_determinant_is_caught(monkeypatch):
    condition = dense_structure.condition

    def quadratic_only(*given):
        gamma, alpha = given[5], given[10]
        condition(*given)
        return -0.5 * gamma @ alpha

    monkeypatch.setattr(dense_structure, "condition", quadratic_only)
    assert largest_z("poisson", until=CAUGHT) > CAUGHT


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
    model = GPModel(
        np.linspace(0, 1, 10), COUNTS, SquaredExponential(prior, 1.0), Poisson(), np.log(2.0)
    )
    sampler = JointSplitHMC(rounds=(30, 50, 50, 100, 50))
    tree = sample(model, sampler, n_chains=8, n_draws=1500, seed=1)
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
    model = GPModel(X, y, SquaredExponential(LENGTH, SIGNAL), Logistic())
    rng, n = np.random.default_rng(0), 400_000
    low, high = np.array([p.support for p in model.parameters.free_priors]).T
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
    tree = sample(model, sampler, n_chains=8, n_draws=1500, seed=2)
    found, latent = tree.posterior.theta.values, tree.posterior.latent.values
    series = {
        "length": found[:, :, 0],
        "signal": found[:, :, 1],
        "square": found[:, :, 1] ** 2,
        "f1": latent[:, :, 0],
        "f6": latent[:, :, 5],
    }
    check(series, exact, digits=0.008)
