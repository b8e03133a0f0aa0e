"""A metric that is not a Hessian through the same integrator, and the flat one beside it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp, multivariate_normal

from gpmcflow.replications.rmhmc_ais.illustration import GaussianMixture, MixtureSystem, travel
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, integrate

TIGHT = FixedPointSolver(1e-13, 100)
MEANS = np.array([[-1.0, -1.5], [0.5, 1.0], [2.0, 0.5]])
WEIGHTS = np.array([0.5, 0.2, 0.3])
COVARIANCES = np.array(
    [[[1.5, 1.0], [1.0, 1.2]], [[1.0, -0.7], [-0.7, 1.8]], [[1.6, 0.5], [0.5, 0.7]]]
)


@pytest.fixture
def mixture():
    return GaussianMixture(WEIGHTS, MEANS, COVARIANCES)


@pytest.fixture(params=[False, True], ids=["metric", "flat"])
def system(request, mixture):
    return MixtureSystem(mixture, flat=request.param)


def start(system, n, seed=0):
    rng = np.random.default_rng(seed)
    position = system.mixture.simulate(rng, n)
    geometry = system.geometry(position, np.arange(n))
    return geometry, system.draw_momentum(rng.standard_normal((n, 2)), geometry)


def test_the_mixture_against_scipy(mixture):
    x = np.random.default_rng(1).standard_normal((50, 2)) * 3.0
    shares = np.stack(
        [
            w * multivariate_normal(m, c).pdf(x)
            for w, m, c in zip(WEIGHTS, MEANS, COVARIANCES, strict=True)
        ],
        axis=1,
    )
    np.testing.assert_allclose(mixture.log_density(x), np.log(shares.sum(1)), rtol=1e-12)
    expected = shares / shares.sum(1, keepdims=True)
    np.testing.assert_allclose(mixture.responsibilities(x), expected, rtol=1e-10)
    h = 1e-6 * np.eye(2)
    found = [(mixture.log_density(x + e) - mixture.log_density(x - e)) / 2e-6 for e in h]
    np.testing.assert_allclose(mixture.gradient(x), np.stack(found, axis=1), atol=1e-7)


def test_draws_of_the_mixture_have_its_moments(mixture):
    x = mixture.simulate(np.random.default_rng(2), 100_000)
    mean = WEIGHTS @ MEANS
    spread = COVARIANCES + np.einsum("ki,kj->kij", MEANS, MEANS)
    second = np.einsum("k,kij->ij", WEIGHTS, spread)
    assert np.abs(x.mean(0) - mean).max() < 5.0 * x.std(0).max() / np.sqrt(1e5)
    np.testing.assert_allclose(x.T @ x / 1e5, second, atol=0.06)


def test_far_away_one_component_is_responsible(mixture):
    r = mixture.responsibilities(np.array([[1e3, 1e3], [-1e4, 2e3]]))
    np.testing.assert_allclose(r.sum(1), 1.0)
    assert np.isfinite(mixture.gradient(np.array([[1e5, -1e5]]))).all()


def test_the_metric_is_the_weighted_precision(mixture):
    system = MixtureSystem(mixture)
    geometry, _ = start(system, 20)
    r = mixture.responsibilities(geometry.position)
    expected = sum(r[:, k, None, None] * np.linalg.inv(COVARIANCES[k]) for k in range(3))
    np.testing.assert_allclose(geometry.metric, expected, rtol=1e-12)
    np.testing.assert_allclose(geometry.log_det, np.linalg.slogdet(expected)[1], atol=1e-12)
    assert np.linalg.eigvalsh(geometry.metric).min() > 0.0


def test_the_force_is_the_gradient_of_h(system):
    """By central differences, to 1e-7 of the largest entry."""
    geometry, momentum = start(system, 60)
    found, h, slot = system.force(geometry, momentum), 1e-5, np.arange(60)
    for i in range(2):
        moved = []
        for sign in (1.0, -1.0):
            shifted = geometry.position + sign * h * np.eye(2)[i]
            moved.append(system.energy(system.geometry(shifted, slot), momentum))
        difference = (moved[0] - moved[1]) / (2.0 * h)
        np.testing.assert_allclose(found[:, i], difference, atol=1e-7 * np.abs(found).max())


def test_energy_error_is_of_second_order(system):
    errors = []
    for n_steps in (10, 20, 40):
        geometry, momentum = start(system, 200, seed=3)
        steps = np.full((200, 1), 1.0 / n_steps)
        end = integrate(system, geometry, momentum, steps, n_steps, TIGHT)
        assert end.solved.all()
        change = system.energy(end.geometry, end.momentum) - system.energy(geometry, momentum)
        errors.append(np.sqrt(np.mean(change**2)))
    assert 3.8 < errors[1] / errors[2] < 4.2


def test_trajectories_are_reversible(system):
    geometry, momentum = start(system, 40)
    steps = 0.1 * np.linspace(0.5, 1.5, 40)[:, None]
    end = integrate(system, geometry, momentum, steps, 20, TIGHT)
    assert end.solved.all()
    assert np.abs(end.geometry.position - geometry.position).max() > 1.0
    back = integrate(system, end.geometry, -end.momentum, steps, 20, TIGHT)
    np.testing.assert_allclose(back.geometry.position, geometry.position, atol=1e-10)
    np.testing.assert_allclose(-back.momentum, momentum, atol=1e-10)


def test_trajectories_preserve_volume(system):
    h = 1e-5
    shift = h * np.concatenate([np.eye(4), -np.eye(4)])
    for seed in range(5):
        geometry, momentum = start(system, 1, seed=seed)
        moved = system.geometry(geometry.position + shift[:, :2], np.arange(8))
        end = integrate(system, moved, momentum + shift[:, 2:], np.full((8, 1), 0.2), 3, TIGHT)
        both = np.concatenate([end.geometry.position, end.momentum], axis=1)
        jacobian = (both[:4] - both[4:]) / (2.0 * h)
        assert np.linalg.slogdet(jacobian)[1] == pytest.approx(0.0, abs=1e-5)
        assert np.abs(jacobian - np.eye(4)).max() > 0.1


def test_the_flat_metric_gives_the_leapfrog_method(mixture):
    geometry, p = start(MixtureSystem(mixture, flat=True), 10)
    end = integrate(MixtureSystem(mixture, flat=True), geometry, p, np.full((10, 1), 0.2), 5, TIGHT)
    x = geometry.position
    for _ in range(5):
        p = p + 0.1 * mixture.gradient(x)
        x = x + 0.2 * p
        p = p + 0.1 * mixture.gradient(x)
    np.testing.assert_allclose(end.geometry.position, x, atol=1e-12)
    np.testing.assert_allclose(end.momentum, p, atol=1e-12)


@pytest.mark.parametrize("step_size", [0.3, 0.9])
def test_exact_draws_stay_exact(system, step_size):
    """Eight transitions from exact draws, also at a step at which many equations are not solved."""
    rng, n = np.random.default_rng(7), 4000
    x, fresh = (system.mixture.simulate(rng, n) for _ in range(2))
    rates = []
    for _ in range(8):
        found = travel(system, x, rng.standard_normal((n, 2)), step_size, 3, FixedPointSolver())
        rate = found.acceptance_rate[:, -1]
        x = np.where((rng.random(n) < rate)[:, None], found.position[:, -1], x)
        rates.append(rate.mean())
    columns = [
        (a[:, 0], a[:, 1], a[:, 0] * a[:, 1], system.mixture.log_density(a)) for a in (x, fresh)
    ]
    p = [ks_2samp(a, b, method="asymp").pvalue for a, b in zip(*columns, strict=True)]
    assert min(p) > 1e-3
    assert 0.3 < np.mean(rates) < 0.99


def test_travel_is_the_trajectory_step_by_step(mixture):
    system = MixtureSystem(mixture)
    rng = np.random.default_rng(4)
    x, normals = mixture.simulate(rng, 300), rng.standard_normal((300, 2))
    found = travel(system, x, normals, 0.6, 6, FixedPointSolver())
    assert 0.5 < found.solved[:, -1].mean() < 1.0
    assert not (found.solved[:, 1:] & ~found.solved[:, :-1]).any()
    assert not found.acceptance_rate[~found.solved].any()
    for n_steps in (1, 6):
        geometry = system.geometry(x, np.arange(300))
        momentum = system.draw_momentum(normals, geometry)
        steps = np.full((300, 1), 0.6)
        end = integrate(system, geometry, momentum, steps, n_steps, FixedPointSolver())
        np.testing.assert_array_equal(end.solved, found.solved[:, n_steps])
        there = end.geometry.position[end.solved]
        np.testing.assert_allclose(found.position[end.solved, n_steps], there, atol=1e-12)
        change = system.energy(end.geometry, end.momentum) - system.energy(geometry, momentum)
        rate = np.exp(-np.maximum(change, 0.0))[end.solved]
        np.testing.assert_allclose(found.acceptance_rate[end.solved, n_steps], rate, atol=1e-10)
