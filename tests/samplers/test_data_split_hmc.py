"""Split HMC by splitting the data, against the algorithm written out in theta.

Its law, order, cost and robustness are tested beside those of the other samplers of the study, in
test_split_hmc.py, test_hamiltonian.py and the invariance matrix.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import DataSplitHMC, LatentHMC
from gpmcflow.samplers.latent.hamiltonian import hamiltonian


@pytest.fixture(scope="module")
def problem(logistic_regression):
    return logistic_regression(n=60, d=5)


def split_of(problem, fraction):
    """R_0 and R_1 by the paper's rule: the cases whose |eta| at the mode is smallest."""
    ranked = np.argsort(np.abs(problem.X @ problem.mode), kind="stable")
    size = round(fraction * len(ranked))
    return ranked[:size], ranked[size:]


def differences(function, theta, step=1e-4):
    """Gradient by a five-point difference."""
    out = np.empty_like(theta)
    for j in range(len(theta)):
        e = np.zeros_like(theta)
        e[j] = step
        near, far = (function(theta + k * e) - function(theta - k * e) for k in (1, 2))
        out[j] = (8.0 * near - far) / (12.0 * step)
    return out


@pytest.mark.parametrize("fraction", [0.3, 0.45])
def test_the_fast_cases_are_those_nearest_to_the_boundary(problem, fraction):
    base = problem.target(DataSplitHMC(fraction=fraction)).base
    for found, expected in zip(base.case_indices, split_of(problem, fraction), strict=True):
        np.testing.assert_array_equal(found, np.sort(expected))


def test_a_random_split_has_the_same_size_and_another_choice(problem):
    """The ablation: the same posterior and cost, but less is gained by the small steps."""
    samplers = [DataSplitHMC(0.45, 3, 0.2, 8, 0.4, order) for order in ("curvature", "random")]
    rates = []
    for sampler in samplers:
        target, chains = problem.target(sampler), chain_generators(0, chains=range(500))
        assert len(target.base.case_indices[0]) == 24
        state = sampler.init(target, chains.standard_normal((5,)))
        state, _ = sampler.step(chains, target, state)
        rates.append(sampler.step(chains, target, state)[1].acceptance_rate.mean())
        assert sampler.gradients(target) == pytest.approx((0.4 * 8 + 0.6) * 3)
    bases = [problem.target(sampler).base for sampler in samplers]
    assert np.any(bases[0].case_indices[0] != bases[1].case_indices[0])
    assert rates[0] > rates[1] + 0.08
    with pytest.raises(InputError, match=r"order.*did you mean 'random'"):
        problem.target(DataSplitHMC(order="randon"))


def test_gradients_against_differences_of_the_parts(problem):
    """U_0 is the prior and R_0, U_1 is R_1: no Gaussian fit in either, though the base is one."""
    sampler = DataSplitHMC(fraction=0.4)
    target, (fast, slow) = problem.target(sampler), split_of(problem, 0.4)
    zeta = 1.5 * np.random.default_rng(0).standard_normal((6, 5))
    theta, V = target.base.latent(zeta), target.base.axes
    gradient = sampler.init(target, zeta).gradient
    forces = [
        sampler._fast_force(target, zeta, gradient[:, 0]),
        sampler.force(target, zeta, gradient[:, 1]),
    ]
    potentials = [
        lambda t: problem.potential(t, fast),
        lambda t: problem.potential(t, slow, prior=False),
    ]
    for force, potential in zip(forces, potentials, strict=True):
        expected = np.array([-differences(potential, t) @ V for t in theta])
        error = np.linalg.norm(force - expected, axis=1) / np.linalg.norm(expected, axis=1)
        assert error.max() < 1e-6
    whole = LatentHMC().force(target, zeta, target.evaluate(zeta)[3])
    np.testing.assert_allclose(sum(forces), whole, rtol=1e-10, atol=1e-10)


def test_the_energy_is_that_of_all_cases(problem):
    """Exact U at both ends: what is cached of the two parts joins to the target's own evaluation."""
    sampler = DataSplitHMC(fraction=0.4)
    target = problem.target(sampler)
    zeta = np.random.default_rng(0).standard_normal((6, 5))
    state = sampler.init(target, zeta)
    predictor, log_likelihood, residual, gradient = target.evaluate(zeta)
    np.testing.assert_allclose(state.predictor, predictor, atol=1e-12)
    np.testing.assert_allclose(state.log_likelihood, log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(state.residual, residual, rtol=1e-11)
    without_sites = gradient + target.sites_gradient(zeta)
    np.testing.assert_allclose(state.gradient.sum(1), without_sites, atol=1e-10)
    theta = target.base.latent(zeta)
    potential = np.array([problem.potential(t) for t in theta])
    energy = hamiltonian(target, state, 0.0 * zeta)
    np.testing.assert_allclose(np.diff(energy), np.diff(potential), rtol=1e-10, atol=1e-10)


def twin(problem, theta, p, step, n_steps, M, fast, slow):
    """Algorithm 2 of the paper in theta: U_0 = prior and R_0, U_1 = R_1, nothing merged or kept."""
    for _ in range(n_steps):
        p = p - 0.5 * step * problem.gradient(theta, slow, prior=False)
        for _ in range(M):
            p = p - 0.5 * step / M * problem.gradient(theta, fast)
            theta = theta + step / M * p
            p = p - 0.5 * step / M * problem.gradient(theta, fast)
        p = p - 0.5 * step * problem.gradient(theta, slow, prior=False)
    return theta, p


@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("M", [1, 2, 7])
@pytest.mark.parametrize("base", ["laplace", "prior"])
def test_against_the_algorithm_in_theta(problem, n_steps, M, base):
    sampler = DataSplitHMC(0.3, n_steps, inner_steps=M, fraction=0.35)
    target = problem.target(sampler)
    if base == "prior":  # other coordinates of the same potentials, with other cases in R_0
        prior = GaussianSites.prior(problem.model)
        target = Target.posterior(sampler.coordinates(prior))
    fast, slow = target.base.case_indices
    V, rng = target.base.axes, np.random.default_rng(1)
    start = problem.fit.latent(rng.standard_normal((5, 5)))
    r, steps = rng.standard_normal((5, 5)), np.linspace(0.2, 0.4, 5)
    state = sampler.init(target, target.base.from_latent(start))
    end, after = sampler.trajectory(target, state, r, steps[:, None])
    for c, step in enumerate(steps):
        theta, p = twin(problem, start[c], V @ r[c], step, n_steps, M, fast, slow)
        np.testing.assert_allclose(target.base.latent(end.position)[c], theta, atol=1e-10)
        np.testing.assert_allclose(V @ after[c], p, atol=1e-9)
    again = sampler.init(target, end.position)
    for cached, fresh in zip(end, again, strict=True):
        np.testing.assert_allclose(cached, fresh, atol=1e-10)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_forces_of_a_tempered_target_add_up(models, beta):
    """Target sites that are not those of the base, and beta below 1: -grad of the energy in all."""
    for model in models.values():
        n, sampler = model.n_cases, DataSplitHMC(fraction=0.5)
        sites = GaussianSites(model, np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n))
        path = TemperedPath(sites)
        for target in (
            path.target(beta, sampler.coordinates(laplace(model).sites)),
            path.target(beta, sampler.coordinates(sites)),
        ):
            zeta = np.random.default_rng(0).standard_normal((3, model.dim))
            gradient = sampler.init(target, zeta).gradient
            force = sampler._fast_force(target, zeta, gradient[:, 0])
            force = force + sampler.force(target, zeta, gradient[:, 1])
            expected = LatentHMC().force(target, zeta, target.evaluate(zeta)[3])
            np.testing.assert_allclose(force, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("how", ["principal axes", "another split"])
def test_targets_with_another_split_are_refused(problem, how):
    """Their parts are missing, or not those of the sampler's settings."""
    sampler, chains = DataSplitHMC(0.2, 2, fraction=0.3), chain_generators(0, chains=range(3))
    base = problem.fit.principal_axes if how == "principal axes" else problem.fit.split_cases(0.6)
    target = Target.posterior(base)
    hint = r"use target\.in_coordinates\(sampler\.coordinates\(target\.base\)\)"
    with pytest.raises(InputError, match=rf"DataSplitHMC: .*{hint}"):
        sampler.step(chains, target, sampler.init(target, chains.standard_normal((5,))))
