"""Basis functions in JointSplitHMC: invariance from exact draws, a known posterior, and wrong programs.

Statistics and limit are those of `test_joint_split_hmc`.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import Group, Linear, SquaredExponential
from gpmcflow.likelihoods import Gaussian, Logistic, NegativeBinomial, Poisson
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.basis_structure import BasisStructure
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.sampling import sample

from .test_joint_samplers import CAUGHT, HALF, LENGTH, LIMIT, largest_mean_z
from .test_joint_split_hmc import check

N = 1500
X = np.column_stack([np.linspace(-1, 1, 8), [0, 1, 2, 0, 1, 2, 0, 1]])
COVARIANCE = (
    SquaredExponential(LENGTH, HALF, columns=0) + Linear(0.7, columns=0) + Group(HALF, columns=1)
)
LIKELIHOODS = {
    "poisson": Poisson(1.2), "logistic": Logistic(), "dispersion": NegativeBinomial(HALF),
    "gaussian": Gaussian(HALF),
}  # fmt: skip


def small_model(name):
    y = np.ones(8) if name != "gaussian" else np.zeros(8)
    structure = BasisFunctions(m=5, boundary=1.6)
    return GPModel(X, y, COVARIANCE, LIKELIHOODS[name], HALF, structure=structure)


def sites_of(y):
    """Any function of the data is valid: those vary with it, as fitted ones do."""
    return FrozenSites(0.4 + 0.1 * np.abs(np.tanh(y)), 0.3 * np.tanh(y))


def statistics(model, state):
    """h(theta, w, y): coordinates, squares, products, bounded functions of weights, fit and data."""
    theta, y = state.theta, model.y
    g = np.tanh(state.latents[[0, 2, 5, 7]]) if len(state.latents) else np.tanh(y[[0, 3]])
    products = np.outer(theta, np.concatenate([theta, g])).ravel()
    more = [np.tanh(0.1 * state.log_likelihood), g[0] * g[1], np.tanh(0.05 * state.complete)]
    sizes = np.tanh([y.std(), y.mean(), y[0] / 3, np.diff(y).std()])
    return np.concatenate([theta, products, g, np.outer(theta, sizes).ravel(), more])


def largest_z(name, n=N, seed=0, moves=2, until=np.inf):
    """Largest |z| of mean changes of the statistics over ``moves`` transitions from n exact draws."""
    rng, model = np.random.default_rng(seed), small_model(name)
    d = model.dim
    scale = 0.7 * np.eye(d) + np.tril(np.full((d, d), 0.2), -1)
    joint = None if name == "gaussian" else JointDensity(model, sites_of(model.y))

    def change():
        theta = model.draw_prior(rng)
        w, model.y[:] = model.simulate(rng, theta)
        density = joint or CollapsedBasisDensity(model)  # sums up the data once
        target = SplitTarget(density, Frame(np.full(d, 0.3), scale, sites_of(model.y)))
        state = target.start(rng, model.parameters.to_normal(theta), w)
        before = statistics(model, state)
        for _ in range(moves):
            state, _ = transition(rng, target, state, 0.6, 3, 0.2)
        return statistics(model, state) - before

    return largest_mean_z(change, n, until)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_transition_leaves_exact_draws_exact(name):
    assert (
        largest_z(name, n=600 if name == "dispersion" else N, seed=list(LIKELIHOODS).index(name))
        < LIMIT
    )


def test_a_matrix_stale_after_a_refit_is_caught(monkeypatch):
    whole = BasisStructure.freeze

    def once(self):
        if not hasattr(self, "_gram"):
            whole(self)

    monkeypatch.setattr(BasisStructure, "freeze", once)
    monkeypatch.setattr(BasisStructure, "log_sites", _log_sites_of_the_cases)
    assert largest_z("poisson", moves=5, until=CAUGHT) > CAUGHT


def _log_sites_of_the_cases(self):
    (w, b), h = self.sites, self.predictor
    return float(h @ (b - 0.5 * w * h))


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_dropped_log_determinant_is_caught(name, monkeypatch):
    whole = WeightPosterior.__init__

    def without(self, G, r, s):
        whole(self, G, r, s)
        self.log_evidence += self.log_det

    monkeypatch.setattr(WeightPosterior, "__init__", without)
    assert largest_z(name, moves=4, until=CAUGHT) > CAUGHT


def test_a_dropped_site_term_is_caught(monkeypatch):
    monkeypatch.setattr(BasisStructure, "log_sites", lambda self: 0.0)
    assert largest_z("poisson", until=CAUGHT) > CAUGHT


def test_a_dropped_log_noise_is_caught(monkeypatch):
    whole = CollapsedBasisDensity.value_and_slopes

    def without(self, full):
        value, slopes = whole(self, full)
        return value + self.model.n_cases * full[self.model.noise_place], slopes

    monkeypatch.setattr(CollapsedBasisDensity, "value_and_slopes", without)
    assert largest_z("gaussian", moves=4, until=CAUGHT) > CAUGHT


def test_reference_posterior():
    """By 4e6 draws of the prior."""
    x, y = np.array([-1, -0.5, 0, 0.5, 1]), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    covariance = SquaredExponential(
        Hyperprior.log_uniform(0.2, 1.0), Hyperprior.log_uniform(0.3, 3.0)
    )
    model = GPModel(x, y, covariance, Logistic(), structure=BasisFunctions(m=4, boundary=1.5))
    tree = sample(model, JointSplitHMC(), n_chains=4, n_draws=4000, seed=3)
    theta = tree.posterior.theta.values
    h = np.array([[model.predictor(t, w) for t, w in zip(*chain, strict=True)]
                  for chain in zip(theta, tree.posterior.weight.values, strict=True)])  # fmt: skip
    series = {
        "length": theta[..., 0], "signal": theta[..., 1], "length^2": theta[..., 0] ** 2,
        "signal^2": theta[..., 1] ** 2, "h1": h[..., 0], "h3": h[..., 2], "h3^2": h[..., 2] ** 2,
    }  # fmt: skip
    exact = {
        "length": -0.8625, "signal": -0.1542, "length^2": 0.9617, "signal^2": 0.4432, "h1": 0.2514,
        "h3": 0.3630, "h3^2": 0.985,
    }  # fmt: skip
    check(series, exact, digits=0.003)
