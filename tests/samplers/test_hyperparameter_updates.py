from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpmcflow.covariances.dense_factor import DenseFactor
from gpmcflow.covariances.leaves import Linear, Matern32, Periodic, SquaredExponential
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Logistic, NegativeBinomial, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.numerics.lapack import ROUTINES, factorise_lower
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.joint.hyperparameter_updates import (
    MetropolisUpdate,
    SliceUpdate,
)
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.representations import REPRESENTATIONS, representation
from gpmcflow.samplers.joint.workspace import JointInfo, JointWorkspace

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
NORMAL = Hyperprior("norm", {"scale": 0.6})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})


def problem(name="poisson", n=20, p=2, length=LENGTH, signal=NORMAL, mean=OFFSET):
    rng = np.random.default_rng(3)
    X = rng.random((n, p))
    covariance = SquaredExponential(length, signal, ard=True)
    if name == "poisson":
        return GPModel(X, rng.poisson(2.0, n), covariance, Poisson(), mean)
    if name == "dispersion":
        return GPModel(X, rng.poisson(2.0, n), covariance, NegativeBinomial(NORMAL), mean)
    if name == "sum":
        terms = covariance * Periodic(LENGTH, period=0.7, columns=0) + Linear(NORMAL)
        return GPModel(X, rng.poisson(2.0, n), terms, Poisson(), mean)
    if name == "grid":
        side = np.arange(4) / 4
        X = np.stack(np.meshgrid(np.append(side, 1.2), side, indexing="ij"), -1).reshape(-1, 2)
        terms = Matern32(LENGTH, NORMAL, columns=0) * Periodic(LENGTH, period=0.7, columns=1)
        return GPModel(X, rng.poisson(2.0, 20), terms, Poisson(), structure="kronecker")
    if name == "gaussian":
        return GPModel(X, rng.standard_normal(n), covariance, Gaussian(0.5))
    return GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), covariance, Logistic())


def run(model, rep, update, n=100, seed=5, n_elliptical=3):
    chain = JointWorkspace(model, representation(rep))
    chain.start(model.prior_median(), np.zeros(model.n_cases))
    rng, rows, costs = np.random.default_rng(seed), [], []
    for _ in range(n):
        chain.cost = JointInfo()
        update.sweep(rng, chain)
        chain.update_latents(rng, n_elliptical)
        rows.append(np.concatenate([chain.theta, chain.point.f, [chain.complete_log_likelihood()]]))
        c = chain.cost
        costs.append((c.n_hyp, c.n_cov, c.n_lik, c.n_failed))
    return np.array(rows), np.array(costs), chain


PAIRS = [("poisson", rep, 2) for rep in REPRESENTATIONS] + [
    (name, rep, p)
    for name in ("gaussian", "logistic")
    for rep in ("fixed", "prior-white", "surr-site", "post-site")
    for p in (1, 6)
]
PAIRS += [
    (name, rep, p)
    for name, p in (("dispersion", 2), ("sum", 6), ("grid", 2))
    for rep in ("fixed", "prior-white", "surr-site", "post-site")
]


@pytest.mark.parametrize(("name", "rep", "p"), PAIRS)
def test_nothing_is_stale_after_moves_of_single_coordinates(name, rep, p):
    """phi is that of a new chain which moves all coordinates at once; the point that of the model."""
    model, rng = problem(name, p=p), np.random.default_rng(5)
    chain = JointWorkspace(model, representation(rep))
    chain.start(model.prior_median(), 0.3 * rng.standard_normal(20))
    for seed in range(3):
        chain.begin_sweep(np.random.default_rng(seed))
        frozen_at = chain.theta, chain.point.f
        for place in rng.permutation(chain.free).tolist() * 2:
            for accepted in (True, False):
                full = chain.point.full.copy()
                full[place] += 0.2 * rng.standard_normal()
                phi = chain.propose(full, place)
                fresh = JointWorkspace(model, representation(rep))
                fresh.start(*frozen_at)
                fresh.begin_sweep(np.random.default_rng(seed))
                assert phi == pytest.approx(fresh.propose(full, None), rel=1e-7, abs=1e-7)
                if accepted:
                    chain.accept(phi)
                    dense = model.log_density(chain.theta, chain.point.f)
                    found = chain.complete_log_likelihood() + model.log_prior(chain.theta)
                    assert found == pytest.approx(dense, rel=1e-7, abs=1e-7)
        chain.update_latents(rng, 3)


class DenseKronecker(GPModel):
    """The same covariance as a Kronecker grid, factorised as a whole."""

    def factor(self):
        parts = GPModel.factor(self)
        whole = DenseFactor(CovarianceBuffers(self._tape, self.epsilon), self.scale_place)

        def fill(full):
            parts.fill(full)
            L = parts.dense()
            whole.columns[:] = (L @ L.T).T
            whole.diagonal, whole.stamp = parts.diagonal, parts.stamp
            whole.log_det = factorise_lower(ROUTINES, whole.columns)
            return True

        whole.fill = fill
        whole.fill_from = lambda other, full, place: fill(full)
        return whole


@pytest.mark.parametrize("rep", REPRESENTATIONS)
def test_a_kronecker_grid_gives_the_chain_of_its_dense_covariance(rep):
    side = np.arange(4) / 4
    X = np.stack(np.meshgrid(side, np.append(side, 1.2), indexing="ij"), axis=-1).reshape(-1, 2)
    y = np.random.default_rng(0).poisson(1.5, 20).astype(float)
    covariance = SquaredExponential(LENGTH, NORMAL, ard=True)
    chains = [
        run(kind(X, y, covariance, Poisson(), OFFSET, 1e-4, "kronecker"), rep, SliceUpdate())
        for kind in (GPModel, DenseKronecker)
    ]
    assert np.array_equal(chains[0][1], chains[1][1])
    assert np.allclose(chains[0][0], chains[1][0], rtol=1e-6, atol=1e-6)


def test_counters():
    model = problem()
    for rep in ("fixed", "surr-site"):
        chain = JointWorkspace(model, representation(rep))
        chain.start(model.prior_median(), np.zeros(20))
        chain.begin_sweep(np.random.default_rng(0))
        full = chain.point.full
        for place in range(4):
            moved = full.copy()
            moved[place] += 0.1
            chain.propose(moved, place)
        cost = chain.cost
        assert (cost.n_hyp, cost.n_cov) == (4, 3)
        assert cost.n_lik == (1 if rep == "fixed" else 4)
    # a proposal outside the support is no covariance construction, and costs nothing
    narrow = problem(length=Hyperprior.log_uniform(0.999, 1.001), signal=1.0, mean=0.0)
    walk = MetropolisUpdate(scale=1e6)
    _, costs, _ = run(narrow, "prior-white", walk, n=20, n_elliptical=0)
    assert costs.sum() == 0


def test_likelihood_evaluations_of_the_latents_are_counted():
    model = problem()
    chain = JointWorkspace(model, representation("fixed"))
    chain.start(model.prior_median(), np.zeros(20))
    chain.update_latents(np.random.default_rng(0), 10)
    assert chain.cost.n_lik >= 10
    assert (chain.cost.n_hyp, chain.cost.n_cov) == (0, 0)


@pytest.mark.parametrize(
    ("name", "rep"),
    [("poisson", rep) for rep in REPRESENTATIONS]
    + [(name, rep) for name in ("dispersion", "sum") for rep in ("fixed", "surr-site")],
)
def test_what_a_chain_knows_is_what_a_new_one_computes(name, rep):
    model = problem(name)
    _, _, chain = run(model, rep, SliceUpdate(width=0.4, max_steps=4), n=30)
    fresh = JointWorkspace(model, representation(rep))
    fresh.start(chain.theta, chain.point.f)
    assert chain.point.log_likelihood == pytest.approx(fresh.point.log_likelihood, rel=1e-12)
    assert np.allclose(chain.point.factor.dense(), fresh.point.factor.dense(), atol=1e-12)
    dense = model.log_density(chain.theta, chain.point.f) - model.log_prior(chain.theta)
    assert chain.complete_log_likelihood() == pytest.approx(dense, rel=1e-10)


def test_the_support_is_respected_and_reached():
    bounded = Hyperprior("uniform", {"loc": -0.5, "scale": 0.6})
    rows, _, _ = run(problem(length=bounded), "prior-white", SliceUpdate(width=3.0), n=300)
    lengths = rows[:, :2]
    assert np.all((lengths >= -0.5) & (lengths <= 0.1))
    assert lengths.min() < -0.4
    assert lengths.max() > 0.0


def test_proposals_from_the_prior_are_always_accepted_without_data():
    flat = problem("gaussian")
    flat = replace(flat, likelihood=Gaussian(1e9))
    update = MetropolisUpdate(proposal="prior", joint=True)
    chain = JointWorkspace(flat, representation("prior-white"))
    chain.start(flat.prior_median(), np.zeros(20))
    rng = np.random.default_rng(0)
    rates, thetas = zip(
        *((update.sweep(rng, chain), chain.theta[0]) for _ in range(200)), strict=True
    )
    assert len(set(thetas)) == 200
    assert min(rates) > 1 - 1e-9


def test_metropolis_acceptance_falls_with_the_scale():
    rates = []
    for scale in (0.001, 0.05, 0.5):
        model = problem()
        chain = JointWorkspace(model, representation("post-site"))
        chain.start(model.prior_median(), np.zeros(20))
        rng, update = np.random.default_rng(1), MetropolisUpdate(scale)
        rates.append(np.mean([update.sweep(rng, chain) for _ in range(100)]))
    assert rates[0] > 0.97
    assert rates[0] > rates[1] > rates[2]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (SliceUpdate, {"width": 0.0}, r"SliceUpdate: width is 0.0; allowed: a positive number"),
        (SliceUpdate, {"max_steps": 0}, r"SliceUpdate: max_steps is 0"),
        (MetropolisUpdate, {"scale": (1.0, -1.0)}, r"MetropolisUpdate: scale is"),
        (MetropolisUpdate, {"proposal": "wlak"}, r"did you mean 'walk'"),
    ],
)
def test_bad_settings(kind, settings, message):
    with pytest.raises(InputError, match=message):
        kind(**settings)


def test_widths_for_another_number_of_coordinates():
    with pytest.raises(InputError, match=r"width has 3 entries; allowed: one for all, or 4"):
        run(problem(), "fixed", SliceUpdate(width=(1.0, 1.0, 1.0)), n=1)
    run(problem(), "fixed", SliceUpdate(width=(1.0, 0.5, 1.0, 2.0)), n=1)


def test_a_start_without_prior_density():
    model = problem()
    with pytest.raises(InputError, match=r"start of length_scale\[x2\] is 4, .*start between -2.3"):
        JointProblem.of(model, [0.0, 4.0, 0.0, 0.5])
