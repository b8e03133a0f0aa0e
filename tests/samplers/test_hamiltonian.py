"""Integrators and the transition they share: order, reversibility, volume, counts, failures."""

from __future__ import annotations

import pickle
import warnings
from functools import partial

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Poisson, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import (
    HMC,
    LATENT_SAMPLERS,
    DataSplitHMC,
    LatentHMC,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
)
from gpmcflow.samplers.latent.hamiltonian import HamiltonianSampler, UnitMass, hamiltonian
from tests.each import for_each

# Every Hamiltonian sampler, and the one whose motion is not the flow of its own step size.
INTEGRATORS = {
    "HMC": HMC,
    "LatentHMC": LatentHMC,
    "PreconditionedSplitHMC": PreconditionedSplitHMC,
    "SplitHMC": SplitHMC,
    "SplitHMC, fixed flow": partial(SplitHMC, flow="fixed"),
    "DataSplitHMC": partial(DataSplitHMC, inner_steps=3, fraction=0.3),
}
# A fixed flow is no approximation of H: its energy error does not vanish (test_split_hmc.py).
SECOND_ORDER = [name for name in INTEGRATORS if "fixed" not in name]

# elliptical slices refuse nothing, and compiled code counts their evaluations: see its own tests
WITH_PROPOSALS = [name for name in LATENT_SAMPLERS if name != "elliptical_slice"]


def test_every_hamiltonian_sampler_is_among_the_integrators():
    registered = {kind for kind in LATENT_SAMPLERS.values() if issubclass(kind, HamiltonianSampler)}
    assert {type(kind()) for kind in INTEGRATORS.values()} == registered


def make(name, **settings):
    """A registered sampler, with those of the settings that it has: not all have a step size or jitter."""
    fields = LATENT_SAMPLERS[name].__dataclass_fields__
    return LATENT_SAMPLERS[name](**{key: value for key, value in settings.items() if key in fields})


def suited(sampler, target):
    """The target in the sampler's coordinates."""
    return target.in_coordinates(sampler.coordinates(target.base))


@pytest.fixture(params=["probit", "poisson", "logistic"])
def model(request, models):
    return models[request.param]


@pytest.fixture(params=["prior", "sites"])
def target(request, model):
    """h_beta at beta = 0.3, away from the default in every respect."""
    n = model.n_cases
    sites = GaussianSites(model, np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n))
    reference = GaussianSites.prior(model) if request.param == "prior" else sites
    return TemperedPath(reference).target(0.3)


def start(sampler, target, n_chains, seed=0):
    rng = np.random.default_rng(seed)
    state = sampler.init(target, rng.standard_normal((n_chains, target.dim)))
    return state, rng.standard_normal((n_chains, target.dim))


def stable_step(sampler, target):
    """A step size well inside the stable range: with unit mass on theta it is in units of theta."""
    smallest = np.linalg.svd(target.base.factor, compute_uv=False)[-1]
    return 0.2 * min(1.0, smallest) if isinstance(sampler, UnitMass) else 0.1


@pytest.mark.parametrize("kind", SECOND_ORDER)
def test_energy_error_is_of_second_order(kind, target):
    """At fixed time the energy error falls by 3.8 to 4.2 when the step is halved: slope 2.0 +- 0.07."""
    kind, errors = INTEGRATORS[kind], []
    length, target = stable_step(kind(), target) * 12, suited(kind(), target)
    for n_steps in (16, 32, 64):
        sampler = kind(n_steps=n_steps)
        state, momentum = start(sampler, target, 200)
        steps = np.full((200, 1), length / n_steps)
        end, after = sampler.trajectory(target, state, momentum, steps)
        error = hamiltonian(target, end, after) - hamiltonian(target, state, momentum)
        errors.append(np.sqrt(np.mean(error**2)))
    assert 3.8 < errors[0] / errors[1] < 4.2
    assert 3.8 < errors[1] / errors[2] < 4.2


@pytest.mark.parametrize("kind", INTEGRATORS)
def test_trajectories_are_reversible(kind, target):
    """Forward, flip, back, 20 steps, to 1e-10."""
    step = stable_step(INTEGRATORS[kind](), target)
    sampler = INTEGRATORS[kind](step_size=step, n_steps=20)
    target = suited(sampler, target)
    state, momentum = start(sampler, target, 50)
    steps = step * np.linspace(0.5, 2.0, 50)[:, None]
    end, after = sampler.trajectory(target, state, momentum, steps)
    assert np.abs(end.position - state.position).max() > 0.5
    back, flipped = sampler.trajectory(target, end, -after, steps)
    np.testing.assert_allclose(back.position, state.position, atol=1e-10)
    np.testing.assert_allclose(-flipped, momentum, atol=1e-10)


@pytest.mark.parametrize("kind", INTEGRATORS)
def test_trajectories_preserve_volume(kind, target):
    """Log |det J| of two steps by central differences, n = 12, to 1e-5."""
    step, d = 2.0 * stable_step(INTEGRATORS[kind](), target), target.dim
    sampler = INTEGRATORS[kind](step_size=step, n_steps=2)
    target = suited(sampler, target)
    state, momentum = start(sampler, target, 1, seed=3)
    steps = np.full((4 * d, 1), 1.1 * step)
    shift = 1e-5 * np.concatenate([np.eye(2 * d), -np.eye(2 * d)])
    state = sampler.init(target, state.position + shift[:, :d])
    end, after = sampler.trajectory(target, state, momentum + shift[:, d:], steps)
    both = np.concatenate([end.position, after], axis=1)
    jacobian = (both[: 2 * d] - both[2 * d :]) / 2e-5
    assert np.linalg.slogdet(jacobian)[1] == pytest.approx(0.0, abs=1e-5)
    assert np.abs(jacobian - np.eye(2 * d)).max() > 0.05


@pytest.mark.parametrize("kind", INTEGRATORS)
def test_trajectories_are_symplectic(kind, glm):
    """D' Omega D = Omega to 1e-6 and det D = 1 to 1e-7, d = 4, D from a five-point difference.

    Volume alone would also be kept by a map that shears positions into each other.
    """
    model = glm(n=15, d=4)
    sites = GaussianSites(model, np.linspace(0.2, 1.5, 15), np.linspace(0.6, -0.8, 15))
    target, d = TemperedPath(sites).target(0.6), 4
    step = 2.0 * stable_step(INTEGRATORS[kind](), target)
    sampler = INTEGRATORS[kind](step_size=step, n_steps=7)
    target = suited(sampler, target)
    unit = sampler.rates(target) * np.ones(d)  # zeta over rates and p are conjugate
    scale = np.concatenate([unit, np.ones(d)])
    state, momentum = start(sampler, target, 1, seed=3)
    width = 1e-3
    around = [k * width * np.eye(2 * d) * scale for k in (1, -1, 2, -2)]
    shift = np.concatenate(around)
    state = sampler.init(target, state.position + shift[:, :d])
    steps = np.full((8 * d, 1), 0.9 * step)
    end, after = sampler.trajectory(target, state, momentum + shift[:, d:], steps)
    both = np.concatenate([end.position, after], axis=1) / scale
    near_up, near_down, far_up, far_down = both.reshape(4, 2 * d, 2 * d)
    D = ((8.0 * (near_up - near_down) - (far_up - far_down)) / (12.0 * width)).T
    omega = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(d))
    assert np.abs(D - np.eye(2 * d)).max() > 0.1
    assert abs(np.linalg.det(D) - 1.0) < 1e-7
    assert np.abs(D.T @ omega @ D - omega).sum(1).max() < 1e-6


class Twin:
    """The same trajectories in theta with dense matrices: leapfrog with mass matrix M."""

    def __init__(self, target):
        base = target.base
        self.target, self.mean = target, base.mean
        self.V = base.factor @ base.factor.T
        self.A = np.eye(target.dim) if target.model.design is None else target.model.design

    def rest_gradient(self, theta):
        eta = theta @ self.A.T
        likelihood = self.target.model.likelihood.derivatives(eta, self.target.model.y)[1]
        rest = likelihood - self.target.shift + self.target.precision * eta
        return self.target.beta * rest @ self.A

    def gradient(self, theta):
        return self.rest_gradient(theta) - np.linalg.solve(self.V, (theta - self.mean).T).T

    def leapfrog(self, theta, p, M, step, n_steps):
        for _ in range(n_steps):
            p = p + 0.5 * step * self.gradient(theta)
            theta = theta + step * np.linalg.solve(M, p.T).T
            p = p + 0.5 * step * self.gradient(theta)
        return theta, p

    def split(self, theta, p, step, n_steps):
        """Mass V^{-1}; the Gaussian part's flow is theta - m = a cos t + V p sin t."""
        for _ in range(n_steps):
            p = p + 0.5 * step * self.rest_gradient(theta)
            away = theta - self.mean
            theta = self.mean + away * np.cos(step) + p @ self.V * np.sin(step)
            p = p * np.cos(step) - np.linalg.solve(self.V, away.T).T * np.sin(step)
            p = p + 0.5 * step * self.rest_gradient(theta)
        return theta, p


@pytest.mark.parametrize("kind", [HMC, LatentHMC, PreconditionedSplitHMC])
def test_against_dense_trajectories_in_theta(kind, target):
    """HMC is mass V^{-1} on theta, latent HMC mass I, split HMC the exact flow of the Gaussian.

    SplitHMC and DataSplitHMC have twins of their own, in their test files.
    """
    step, sampler = 2.0 * stable_step(kind(), target), kind(n_steps=5)
    target = suited(sampler, target)
    twin = Twin(target)
    state, momentum = start(sampler, target, 4)
    end, after = sampler.trajectory(target, state, momentum, np.full((4, 1), step))
    C, theta = target.base.factor, target.base.latent(state.position)
    inverse = np.linalg.inv(C)
    if kind is LatentHMC:
        V = target.base.axes
        theta, p = twin.leapfrog(theta, momentum @ V.T, np.eye(target.dim), step, 5)
        after = after @ V.T
    elif kind is HMC:
        theta, p = twin.leapfrog(theta, momentum @ inverse, np.linalg.inv(twin.V), step, 5)
        after = after @ inverse
    else:
        theta, p = twin.split(theta, momentum @ inverse, step, 5)
        after = after @ inverse
    np.testing.assert_allclose(target.base.latent(end.position), theta, atol=1e-8)
    np.testing.assert_allclose(after, p, atol=1e-8 * (1.0 + np.abs(p).max()))


def test_split_hmc_accepts_everything_where_all_is_gaussian(model):
    """Row 13: at beta = 0 the energy error is rounding and every proposal is taken."""
    q = GaussianSites(model, np.full(model.n_cases, 0.4), np.linspace(-1, 1, model.n_cases))
    target = TemperedPath(q).target(0.0)
    rng = chain_generators(0, chains=range(100))
    sampler = PreconditionedSplitHMC(step_size=1.1, n_steps=7)
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    for _ in range(5):
        before = state.position
        state, info = sampler.step(rng, target, state)
        assert np.abs(info.energy_error).max() < 1e-12
        assert info.accepted.all()
        np.testing.assert_allclose(info.acceptance_rate, 1.0, atol=1e-12)
        assert np.all(np.abs(state.position - before).max(1) > 0.0)


def present(one, other):
    """Pairs of the fields that a sampler has: without momenta there is no energy."""
    pairs = list(zip(one, other, strict=True))
    assert all((a is None) == (b is None) for a, b in pairs)
    return [pair for pair in pairs if pair[0] is not None]


@pytest.mark.parametrize("name", LATENT_SAMPLERS)
def test_batched_chains_equal_single_chains(name, target):
    """Row 23: chain k of a batch is chain k alone, with the same random numbers, to 1e-10."""
    sampler = make(name, step_size=3.0 * stable_step(make(name), target), n_steps=3)
    target = suited(sampler, target)

    def run(chains):
        rng = chain_generators(7, "batch", chains=chains)
        state = sampler.init(target, rng.standard_normal((target.dim,)))
        for _ in range(6):
            state, info = sampler.step(rng, target, state)
        return state, info

    together = run(range(8))
    for chain in range(8):
        alone = run([chain])
        for whole, single in zip(together, alone, strict=True):
            for a, b in present(whole, single):
                np.testing.assert_allclose(a[chain], b[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LATENT_SAMPLERS)
def test_a_ladder_as_one_batch_equals_one_batch_per_temperature(name, model):
    sampler, betas = make(name, step_size=0.2, n_steps=2), np.array([0.1, 0.5, 1.0])
    path = TemperedPath(sampler.coordinates(GaussianSites.prior(model)))

    def run(target, chains):
        rng = chain_generators(1, chains=chains)
        state = sampler.init(target, rng.standard_normal((target.dim,)))
        for _ in range(3):
            state, info = sampler.step(rng, target, state)
        return state, info

    together = run(path.target(betas), range(3))
    for k, beta in enumerate(betas):
        alone = run(path.target(beta), [k])
        for whole, single in zip(together, alone, strict=True):
            for a, b in present(whole, single):
                np.testing.assert_allclose(a[k], b[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LATENT_SAMPLERS)
def test_protocol(name, target):
    """Frozen, picklable settings; pure steps; every field has the chain axis first."""
    sampler = make(name)
    target = suited(sampler, target)
    assert pickle.loads(pickle.dumps(sampler)) == sampler
    with pytest.raises(AttributeError):
        sampler.n_steps = 3
    state, _ = start(sampler, target, 5)
    kept = [field.copy() for field in state]
    found = [sampler.step(chain_generators(3, chains=range(5)), target, state) for _ in range(2)]
    for before, field in zip(kept, state, strict=True):
        np.testing.assert_array_equal(before, field)
    for one, two in zip(*found, strict=True):
        for a, b in present(one, two):
            np.testing.assert_array_equal(a, b)
            assert len(a) == 5
    info = found[0][1]
    assert info.accepted.dtype == info.diverging.dtype == bool
    assert np.all((info.acceptance_rate >= 0.0) & (info.acceptance_rate <= 1.0))


@pytest.mark.parametrize("name", WITH_PROPOSALS)
def test_rejected_chains_keep_their_state(name, target):
    """A step far too long for most chains: the rejected ones stay exactly where they were."""
    sampler = make(name, step_size=6.0 * stable_step(make(name), target) + 1.0, n_steps=3)
    target = suited(sampler, target)
    rng = chain_generators(2, chains=range(200))
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    after, info = sampler.step(rng, target, state)
    stayed = ~info.accepted
    assert stayed.sum() > 0
    for old, new in zip(state, after, strict=True):
        np.testing.assert_array_equal(new[stayed], old[stayed])
    moved = np.any(after.position != state.position, axis=1)
    np.testing.assert_array_equal(moved, info.accepted)


@pytest.mark.parametrize("kind", [*INTEGRATORS.values(), RandomWalkMetropolis])
def test_non_finite_energies_are_flagged_rejections(kind):
    """Steps of 1e3 send a Poisson rate to infinity: no exception, no warning, no move.

    One proposal a transition, where a sampler makes more than one: Info then tells of that one.
    """
    model = LatentGaussianModel.from_covariance(np.eye(3), Poisson(), np.array([0.0, 5.0, 60.0]))
    sampler = kind(step_size=1e3, n_steps=1 if kind is RandomWalkMetropolis else 2)
    target = suited(sampler, TemperedPath(GaussianSites.prior(model)).target(1.0))
    rng = chain_generators(0, chains=range(50))
    state = sampler.init(target, rng.standard_normal((3,)))
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        after, info = sampler.step(rng, target, state)
    assert info.diverging.any()
    assert not info.accepted[info.diverging].any()
    assert not info.acceptance_rate[info.diverging].any()
    assert all(np.isfinite(field).all() for field in after)


class Counting(Probit):
    """Counts the cases it evaluates; a value without its gradient is half of both."""

    cases = 0.0

    def gradient(self, eta, y):
        Counting.cases += eta.size
        return super().gradient(eta, y)

    def log_density_and_gradient(self, eta, y):
        Counting.cases += eta.size
        return super().log_density_and_gradient(eta, y)

    def log_density(self, eta, y):
        Counting.cases += 0.5 * eta.size
        return super().log_density_and_gradient(eta, y)[0]

    def derivatives(self, eta, y):
        Counting.cases += eta.size
        return super().derivatives(eta, y)


@pytest.mark.parametrize("name", WITH_PROPOSALS)
def test_gradients_are_counted(name):
    """In passes over all cases: for samplers of the Hamiltonian kind as many as steps or a sum of parts."""
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    model = LatentGaussianModel.from_covariance(np.eye(5), Counting(), y)
    sampler = make(name, n_steps=5, inner_steps=7, fraction=0.4)
    target = suited(sampler, TemperedPath(GaussianSites.prior(model)).target(0.7))
    state, _ = start(sampler, target, 6)
    Counting.cases = 0.0
    _, info = sampler.step(chain_generators(0, chains=range(6)), target, state)
    assert info.n_gradient.sum() == pytest.approx(Counting.cases / 5, rel=1e-14)
    if name == "rmhmc":  # as many as its equations take
        return
    expected = {
        "data_split_hmc": (0.4 * 7 + 0.6) * 5,
        "random_walk_metropolis": 2.5,
        "independence_metropolis": 2.5,
    }.get(name, 5.0)
    np.testing.assert_allclose(info.n_gradient, expected, rtol=1e-14)


def test_step_sizes_are_jittered_for_each_chain_and_transition(models):
    used = []

    class Recorded(PreconditionedSplitHMC):
        def trajectory(self, target, state, momentum, step_size):
            used.append(step_size[:, 0])
            return super().trajectory(target, state, momentum, step_size)

    target = TemperedPath(GaussianSites.prior(models["probit"])).target(0.5)
    sampler = Recorded(step_size=0.4, n_steps=1, jitter=0.2)
    rng = chain_generators(0, chains=range(500))
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    for _ in range(3):
        state, _ = sampler.step(rng, target, state)
    used = np.concatenate(used) / 0.4
    assert len(np.unique(used)) == 1500
    assert 0.8 <= used.min() < 0.801
    assert 1.199 < used.max() <= 1.2
    assert used.mean() == pytest.approx(1.0, abs=0.01)


WRONG_SETTINGS = [
    *[("step_size", v) for v in (0.0, -0.1, np.nan, np.inf)],
    *[("n_steps", v) for v in (0, -3, 2.5)],
    *[("jitter", v) for v in (-0.1, 1.0, np.nan)],
    *[("inner_steps", v) for v in (0, -3, 2.5)],
    *[("fraction", v) for v in (0.0, 1.0, -0.4, np.nan)],
]


@for_each(
    "name, setting, value",
    # each sampler with the settings that it has
    [
        (n, *w)
        for n in LATENT_SAMPLERS
        for w in WRONG_SETTINGS
        if w[0] in LATENT_SAMPLERS[n].__dataclass_fields__
    ],
)
def test_wrong_settings_are_refused_at_construction(name, setting, value):
    with pytest.raises(InputError, match=f"{setting} is .*; allowed: ") as caught:
        LATENT_SAMPLERS[name](**{setting: value})
    assert "\n" not in str(caught.value)


UNIT_MASS = [name for name, kind in LATENT_SAMPLERS.items() if issubclass(kind, UnitMass)]


@pytest.mark.parametrize("name", UNIT_MASS)
def test_a_target_in_other_coordinates_is_refused_with_a_hint(name, models):
    """Unit mass on theta needs the principal axes; in others it would be another sampler, unnoticed."""
    assert set(UNIT_MASS) == {
        "data_split_hmc",
        "latent_hmc",
        "random_walk_metropolis",
        "split_hmc",
    }
    sampler, rng = make(name), chain_generators(0, chains=range(3))
    target = TemperedPath(GaussianSites.prior(models["probit"])).target(0.3)
    position = rng.standard_normal((target.dim,))
    hint = r"use target\.in_coordinates\(sampler\.coordinates\(target\.base\)\)"
    with pytest.raises(InputError, match=rf"{type(sampler).__name__}: .*{hint}") as caught:
        sampler.step(rng, target, sampler.init(target, position))
    assert "\n" not in str(caught.value)
