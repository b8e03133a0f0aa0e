"""Sites of rank-one precision for grids: fixed points by dense algebra, known cases, hard starts."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations import frozen_sites as module
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.frozen_sites import frozen_sites, rank_one_sites
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import (
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH, SIGNAL = Hyperprior.log_uniform(0.1, 3.0), Hyperprior.log_uniform(0.1, 3.0)
OTHERS = {
    "negative binomial": NegativeBinomial(2.0, np.linspace(0.3, 4.0, 20)),
    "binomial": Binomial(5),
    "logistic": Logistic(),
    "probit": Probit(),
    "student": StudentT(0.3, 4.0),
}


def build(likelihood, mean=0.3, shape=(5, 4), theta=None):
    """A model on a grid, with data drawn at theta."""
    rng = np.random.default_rng(2)
    axes = np.meshgrid(*(np.linspace(0, 1, m) for m in shape), indexing="ij")
    X = np.stack(axes, -1).reshape(-1, 2)
    covariance = SquaredExponential(LENGTH, SIGNAL, ard=True)
    model = GPModel(X, np.ones(len(X)), covariance, likelihood, mean, 1e-4, "kronecker")
    theta = model.prior_median() if theta is None else np.array(theta)
    return model.with_y(model.simulate(rng, theta)[1]), theta


def moments(model, theta, sites):
    """Mean and variance of h, w and K^-1 (m - c), all by n x n matrices."""
    full, K = model.full(theta), model.covariance_matrix(theta)
    a = np.sqrt(np.trace(K) / len(K)) if model.likelihood.relative_sites else 1.0
    w, b, c = sites.precision / a**2, sites.shift / a, model.mean_at(full)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    m = c + V @ (b - w * c)
    return m, np.diag(V), w, np.linalg.solve(K, m - c)


def counted(monkeypatch):
    """A list that grows by one each sweep."""
    sweeps, search = [], module._Fit.line_search

    def counting(self, *given):
        sweeps.append(1)
        return search(self, *given)

    monkeypatch.setattr(module._Fit, "line_search", counting)
    return sweeps


def test_counts_are_fitted_in_closed_form():
    """E exp(h) = exp(m + v / 2): the mean is stationary, the precision its row and column means."""
    model, theta = build(Poisson(1.3))
    sites = frozen_sites(model, theta)
    m, v, w, slope = moments(model, theta, sites)
    rate = 1.3 * np.exp(m + 0.5 * v)
    assert np.all(np.abs(model.y - rate - slope) * np.sqrt(v) < 3e-3)
    W = rate.reshape(5, 4)
    assert np.allclose(w, np.outer(W.mean(1), W.mean(0) / W.mean()).ravel(), rtol=1e-2)
    assert np.ptp(w) > 0.1  # precisions that differ


@pytest.mark.parametrize("name", OTHERS)
def test_means_are_stationary(name):
    model, theta = build(OTHERS[name], 0.0)
    m, v, _, slope = moments(model, theta, rank_one_sites(model, theta))
    x = np.linspace(-9, 9, 2001)[:, None]
    weights = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
    expected = (weights * model.likelihood.derivatives(m + x * np.sqrt(v), model.y)[1]).sum(0)
    assert np.all(np.abs(expected - slope) * np.sqrt(v) < 1e-2)


@pytest.mark.parametrize("name", ["binomial", "logistic", "probit"])
def test_means_are_near_those_of_expectation_propagation(name):
    model, theta = build(OTHERS[name])
    m, v, _, _ = moments(model, theta, rank_one_sites(model, theta))
    fit = expectation_propagation(model.at(theta)).sites
    assert np.all(np.abs(m - fit.predictor_mean) < 0.1 * np.sqrt(v))
    assert np.allclose(v, fit.predictor_variance, rtol=0.25)


def test_gaussian_data_are_fitted_exactly():
    model, theta = build(Gaussian(0.4))
    w, b = rank_one_sites(model, theta)
    assert np.allclose(w, 1 / 0.16)
    assert np.allclose(b, model.y / 0.16, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_a_fit_near_by_starts_from_sites(name, monkeypatch):
    """In fewer sweeps, to the same sites."""
    model, theta = build(OTHERS[name], shape=(5, 4))
    sweeps = counted(monkeypatch)
    fresh = rank_one_sites(model, theta + 0.05)
    n = len(sweeps)
    warm = frozen_sites(model, theta + 0.05, rank_one_sites(model, theta + 0.04))
    means = [moments(model, theta + 0.05, sites)[0] for sites in (fresh, warm)]
    v = moments(model, theta + 0.05, fresh)[1]
    assert np.all(np.abs(means[0] - means[1]) < 0.02 * np.sqrt(v))
    sweeps.clear()
    rank_one_sites(model, theta + 0.05, warm)
    assert len(sweeps) <= min(n, 2)


@pytest.mark.parametrize("theta", [[-2.3, 1.0, 1.0], [1.0, 1.0, -2.0], [-2.0, -2.0, 1.0]])
def test_counts_of_all_sizes_at_any_hyperparameters(theta, monkeypatch):
    """Counts from 0 to thousands, where variances and precisions swing, and Newton steps are too long."""
    model, _ = build(Poisson(), shape=(12, 9), theta=[-1.5, -1.0, 1.1])
    model, theta = model.with_y(np.floor(model.y**2.5)), np.array(theta)
    assert (model.y.min(), model.y.max() > 1000) == (0.0, True)
    sweeps = counted(monkeypatch)
    sites = rank_one_sites(model, theta)
    m, v, _, slope = moments(model, theta, sites)
    assert np.all(np.abs(model.y - np.exp(m + 0.5 * v) - slope) * np.sqrt(v) < 0.1)
    assert len(sweeps) < 40
    x = model.parameters.to_normal(theta)
    density = JointDensity(model, sites)  # takes them for rank one
    assert np.isfinite(density.evaluate(x, np.zeros(density.n_z)).rest)


def test_precisions_and_variances_that_swing_settle(monkeypatch):
    theta = np.array([-2.9, -2.9, 1.09])
    model, _ = build(Poisson(), -0.5, (20, 20), [-2.5, -1.0, 1.0])
    sweeps = counted(monkeypatch)
    m, v, _, slope = moments(model, theta, rank_one_sites(model, theta))
    assert len(sweeps) < 40
    assert np.all(np.abs(model.y - np.exp(m + 0.5 * v) - slope) * np.sqrt(v) < 0.3)


def test_newton_steps_from_far_away_are_cut():
    """Where rates are nearly zero, a whole step ends where they overflow."""
    model, theta = build(Poisson(), 0.0, theta=[-1.0, -1.0, 1.0])
    start = FrozenSites(np.full(20, 1e3), np.full(20, -2e4))
    m, v, _, slope = moments(model, theta, rank_one_sites(model, theta, start))
    assert np.all(np.abs(model.y - np.exp(m + 0.5 * v) - slope) * np.sqrt(v) < 0.05)


def test_a_covariance_that_is_not_finite():
    model, _ = build(Poisson())
    with pytest.raises(NumericalError, match=r"sites on a grid: .*narrower hyperpriors") as error:
        rank_one_sites(model, np.array([0.0, 0.0, 800.0]))
    assert "\n" not in str(error.value)


def test_sites_of_another_start_are_in_the_same_units():
    """Relative ones grow with the amplitude: at twice the amplitude they start from the same means / a."""
    model, theta = build(Probit(), 0.0)
    sites = rank_one_sites(model, theta)
    moved = theta + np.array([0.0, 0.0, np.log(2.0)])
    a, b = (moments(model, at, sites)[0] for at in (theta, moved))
    assert np.allclose(b, 2.0 * a, rtol=1e-6)
    again = rank_one_sites(model, theta, FrozenSites(*sites))
    assert np.allclose(again.precision, sites.precision, rtol=2e-2)
