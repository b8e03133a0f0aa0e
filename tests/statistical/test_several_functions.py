"""JointSplitHMC on several latent functions: invariance from exact draws, and a wrong density beside it."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.covariances.leaves import Constant, Linear, Matern32
from gpmcflow.likelihoods import HeteroscedasticGaussian, NegativeBinomial, Softmax
from gpmcflow.models import multi_structure
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.multi_structure import MultiStructure
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition

from .test_joint_samplers import HALF, LENGTH, LIMIT, SIGNAL, largest_mean_z

N = 1500
X = np.linspace(0.1, 1.1, 6)
MODELS = {
    "classes": lambda: GPModel(X, 1.0 + np.arange(6) % 3, Matern32(LENGTH, SIGNAL), Softmax(3)),
    "classes by weights": lambda: GPModel(
        X, 1.0 + np.arange(6) % 3, Linear(HALF) + Constant(HALF), Softmax(3)
    ),
    "noise": lambda: GPModel(
        X, np.zeros(6), {"mean": Matern32(LENGTH, SIGNAL), "log_sd": Matern32(LENGTH, HALF)},
        HeteroscedasticGaussian(), {"mean": 0.0, "log_sd": HALF},
    ),
    "size": lambda: GPModel(
        X, np.zeros(6), {"mean": Matern32(LENGTH, SIGNAL), "size": Matern32(LENGTH, HALF)},
        NegativeBinomial(), {"mean": 0.5, "size": HALF},
    ),
    "noise by weights": lambda: GPModel(
        X, np.zeros(6), {"mean": Matern32(LENGTH, SIGNAL), "log_sd": Linear(HALF)},
        HeteroscedasticGaussian(), {"mean": HALF, "log_sd": -0.5},
    ),
}  # fmt: skip


def any_sites(model):
    """Precisions and shifts that know nothing of y: any are valid."""
    n, rng = len(model.functions) * model.n_cases, np.random.default_rng(9)
    return FrozenSites(rng.uniform(0.3, 1.5, n), rng.normal(size=n))


def statistics(model, state):
    theta, y = state.theta, model.y
    places = [0, model.parts[0].n_latents - 1, model.n_latents - 1]
    g = np.tanh(state.latents[places])
    products = np.outer(theta, np.concatenate([theta, g])).ravel()
    more = [
        np.tanh(0.1 * state.log_likelihood),
        g[0] * g[1],
        g[0] * g[2],
        np.tanh(0.05 * state.complete),
    ]
    return np.concatenate([theta, products, g, np.tanh(y[[0, 3, 5]] - 1.5) * g, more])


def largest_z(name, n=N, seed=0, moves=1, until=np.inf):
    rng, model = np.random.default_rng(seed), MODELS[name]()
    d, sites = model.dim, any_sites(model)
    density = JointDensity(model, sites)
    scale = 0.7 * np.eye(d) + np.tril(np.full((d, d), 0.2), -1)

    def change():
        theta = model.draw_prior(rng)
        latents, model.y[:] = model.simulate(rng, theta)
        target = SplitTarget(density, Frame(np.full(d, 0.3), scale, sites))
        state = target.start(rng, model.parameters.to_normal(theta), latents)
        before = statistics(model, state)
        for _ in range(moves):
            state, _ = transition(rng, target, state, 0.6, 3, 0.2)
        return statistics(model, state) - before

    return largest_mean_z(change, n, until)


@pytest.mark.parametrize("name", MODELS)
def test_a_transition_leaves_exact_draws_exact(name):
    assert largest_z(name, seed=list(MODELS).index(name)) < LIMIT


def no_log_sites_of_the_last(method, self):
    """A mutant: the sites of the last function are not taken off."""
    return method(self) - self.parts[-1].log_sites()


def one_evidence(method, self, full, z):
    """A mutant: the evidence of the last function's sites is left out."""
    value = method(self, full, z)
    part, places = self.parts[-1], self.model.part_places[-1]
    return value - part.place(full[places], np.split(z, self._splits)[-1])


MUTANTS = {
    "log_sites": no_log_sites_of_the_last,
    "place": one_evidence,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_densities_are_caught(name, monkeypatch):
    original = getattr(MultiStructure, name)
    monkeypatch.setattr(
        multi_structure.MultiStructure, name,
        lambda self, *arguments: MUTANTS[name](original, self, *arguments),
    )  # fmt: skip
    assert largest_z("noise", n=6 * N, seed=7, moves=3, until=LIMIT) > LIMIT
