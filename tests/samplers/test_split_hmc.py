"""Split HMC with the Gaussian flow: the paper's sampler against its equations written out in theta.

And what the samplers of the split Hamiltonian study have in common: HMC (A), the Gaussian split (B,
exact and fixed flow) and the data split (C) sample one posterior, at the costs that are stated.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import expit

from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Gaussian, Logistic
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target
from gpmcflow.samplers import (
    HMC,
    DataSplitHMC,
    LatentHMC,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
)
from gpmcflow.samplers.latent.hamiltonian import hamiltonian

# Trajectories of about a quarter of a period, so that draws are nearly independent.
STUDY = {
    "A": LatentHMC(0.2, 3, jitter=0.2),
    "B exact": SplitHMC(0.24, 2, jitter=0.2),
    "B fixed": SplitHMC(0.24, 2, jitter=0.2, flow="fixed"),
    "C": DataSplitHMC(0.3, 2, jitter=0.2, inner_steps=3, fraction=0.4),
}


@pytest.fixture(scope="module")
def problem(logistic_regression):
    return logistic_regression(n=60, d=5)


@pytest.fixture(params=["exact", "fixed"])
def flow(request):
    return request.param


def at(target, n=6, seed=0, width=1.5):
    """Positions around the mode, their theta, and displacements a from the mode along the axes."""
    zeta = width * np.random.default_rng(seed).standard_normal((n, target.dim))
    return zeta, target.base.latent(zeta), zeta / target.base.frequencies


def differences(function, theta, step=1e-4):
    """Gradient by a five-point difference."""
    out = np.empty_like(theta)
    for j in range(len(theta)):
        e = np.zeros_like(theta)
        e[j] = step
        near, far = (function(theta + k * e) - function(theta - k * e) for k in (1, 2))
        out[j] = (8.0 * near - far) / (12.0 * step)
    return out


def assert_close(found, expected, relative):
    """Rows agree relative to the length of the expected row."""
    error = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert error.max() < relative


# --- gradients -----------------------------------------------------------------------------------


def test_the_fit_is_at_the_mode_with_its_curvature(problem):
    target = problem.target(SplitHMC())
    np.testing.assert_allclose(target.base.mean, problem.mode, atol=1e-10)
    V, J = target.base.axes, problem.hessian(problem.mode)
    np.testing.assert_allclose(V.T @ J @ V, np.diag(target.base.frequencies**2), atol=1e-8)


def test_gradients_against_differences_of_the_potentials(problem):
    """Forces along the axes are -V' grad of U (leapfrog), and of U_1 (split); motion is that of U_0."""
    whole, split = LatentHMC(), SplitHMC()
    target = problem.target(split)
    V, J, mode = target.base.axes, problem.hessian(problem.mode), problem.mode

    def gaussian(theta):
        return 0.5 * (theta - mode) @ J @ (theta - mode)

    def rest(theta):
        return problem.potential(theta) - gaussian(theta)

    zeta, theta, _ = at(target)
    gradient = target.evaluate(zeta)[3]
    for force, potential in (
        (whole.force(target, zeta, gradient), problem.potential),
        (split.force(target, zeta, gradient), rest),
        (whole.force(target, zeta, 0.0 * gradient), gaussian),
    ):
        expected = np.array([-differences(potential, t) @ V for t in theta])
        assert np.linalg.norm(expected, axis=1).min() > 1e-3
        assert_close(force, expected, 1e-6)
    parts = split.force(target, zeta, gradient) + whole.force(target, zeta, 0.0 * gradient)
    np.testing.assert_allclose(parts, whole.force(target, zeta, gradient), rtol=1e-12)


def test_identities_of_the_split(problem):
    """Prior and labels drop out of U_1, both of its gradient and its value, to 1e-11 relative."""
    sampler = SplitHMC()
    target = problem.target(sampler)
    omega, V, mode = target.base.frequencies, target.base.axes, target.base.mean
    zeta, theta, a = at(target, width=2.5)
    state = sampler.init(target, zeta)
    force = sampler.force(target, zeta, state.gradient)
    Z, eta_hat = problem.X @ V, problem.X @ mode
    p_hat, t = expit(eta_hat), a @ Z.T
    w_hat = p_hat * (1.0 - p_hat)
    psi = expit(eta_hat + t) - p_hat - w_hat * t
    assert_close(force, -psi @ Z, 1e-11)
    plain = (expit(theta @ problem.X.T) - problem.y) @ Z
    plain = plain + theta @ problem.precision @ V - omega**2 * a
    assert_close(force, -plain, 1e-11)
    rest = np.logaddexp(0.0, eta_hat + t) - np.logaddexp(0.0, eta_hat)
    rest = (rest - p_hat * t - 0.5 * w_hat * t**2).sum(1)
    identity = problem.potential(mode) + 0.5 * (omega**2 * a**2).sum(1) + rest
    plain = np.array([problem.potential(x) for x in theta])
    np.testing.assert_allclose(identity, plain, rtol=1e-11)
    at_mode = sampler.init(target, np.zeros((1, 5)))
    rise = (hamiltonian(target, s, 0.0 * s.position) for s in (state, at_mode))
    np.testing.assert_allclose(np.subtract(*rise), plain - problem.potential(mode), rtol=1e-11)
    likelihood = [-problem.potential(x, prior=False) for x in theta]
    np.testing.assert_allclose(state.log_likelihood, likelihood, rtol=1e-12)


# --- the flow and the integrator -----------------------------------------------------------------


def dense_flow(problem, time):
    """exp(A t) of the Gaussian part in (theta - mode, p), A = [[0, I], [-J, 0]]."""
    d = len(problem.mode)
    J, none = problem.hessian(problem.mode), np.zeros((d, d))
    return expm(time * np.block([[none, np.eye(d)], [-J, none]]))


def moved(sampler, target, zeta, r, time):
    """Theta - mode and p after the sampler's motion, p in the directions of theta."""
    zeta, r = sampler.motion(target, np.full((len(zeta), 1), time))(zeta, r)
    V = target.base.axes
    return np.hstack([zeta / target.base.frequencies @ V.T, r @ V.T])


@pytest.mark.parametrize("time", [1e-3, 0.13, 0.7, 3.1])
def test_the_flow_is_a_matrix_exponential(problem, time):
    sampler = SplitHMC()
    target = problem.target(sampler)
    zeta, _, a = at(target)
    r, V = np.random.default_rng(1).standard_normal(zeta.shape), target.base.axes
    before = np.hstack([a @ V.T, r @ V.T])
    expected = before @ dense_flow(problem, time).T
    np.testing.assert_allclose(moved(sampler, target, zeta, r, time), expected, atol=1e-11)
    exact = before @ dense_flow(problem, time / 8.0).T  # near angles: no digits lost in expm
    np.testing.assert_allclose(moved(sampler, target, zeta, r, time / 8.0), exact, atol=1e-12)


def test_the_flow_conserves_energy_and_times_add_up(problem):
    sampler = SplitHMC()
    target = problem.target(sampler)
    zeta, _, _ = at(target)
    r = np.random.default_rng(1).standard_normal(zeta.shape)
    s, t = np.full((6, 1), 0.37), np.linspace(0.1, 1.3, 6)[:, None]
    once = sampler.motion(target, s + t)(zeta, r)
    twice = sampler.motion(target, t)(*sampler.motion(target, s)(zeta, r))
    back = sampler.motion(target, t)(once[0], -once[1])
    np.testing.assert_allclose(twice, once, atol=1e-12)
    np.testing.assert_allclose(back[0], sampler.motion(target, s)(zeta, r)[0], atol=1e-12)
    energy = [(z**2).sum(1) + (p**2).sum(1) for z, p in ((zeta, r), once)]
    np.testing.assert_allclose(energy[1], energy[0], rtol=1e-12)
    assert np.abs(once[0] - zeta).max() > 0.5


def test_a_fixed_flow_takes_the_mean_time(problem):
    """Whatever the step size of the kicks; the exact one takes theirs."""
    target = problem.target(SplitHMC())
    zeta, _, _ = at(target)
    r = np.random.default_rng(1).standard_normal(zeta.shape)
    mean = moved(SplitHMC(), target, zeta, r, 0.3)
    for kicks in (0.24, 0.36):
        fixed = SplitHMC(step_size=0.3, flow="fixed")
        np.testing.assert_array_equal(moved(fixed, target, zeta, r, kicks), mean)
        assert np.abs(moved(SplitHMC(0.3), target, zeta, r, kicks) - mean).max() > 1e-3
    with pytest.raises(InputError, match=r"SplitHMC: flow: .*did you mean 'exact'"):
        SplitHMC(flow="exakt")


def test_against_a_dense_twin_in_theta(problem, flow):
    """Algorithm 1 of the paper with its matrix exponential, kicks by differences of gradients in theta."""
    sampler = SplitHMC(step_size=0.3, n_steps=7, flow=flow)
    target = problem.target(sampler)
    V, J, mode = target.base.axes, problem.hessian(problem.mode), problem.mode
    zeta, start, _ = at(target, n=5)
    r, steps = np.random.default_rng(1).standard_normal(zeta.shape), np.linspace(0.2, 0.4, 5)
    end, after = sampler.trajectory(target, sampler.init(target, zeta), r, steps[:, None])
    for c, step in enumerate(steps):
        R = dense_flow(problem, 0.3 if flow == "fixed" else step)
        theta, p = start[c], V @ r[c]
        for _ in range(7):
            p = p - 0.5 * step * (problem.gradient(theta) - J @ (theta - mode))
            away, p = np.split(R @ np.concatenate([theta - mode, p]), 2)
            theta = mode + away
            p = p - 0.5 * step * (problem.gradient(theta) - J @ (theta - mode))
        np.testing.assert_allclose(target.base.latent(end.position)[c], theta, atol=1e-9)
        np.testing.assert_allclose(V @ after[c], p, atol=1e-9)


def energy_errors(problem, sampler, n_steps, ratio=1.0, length=1.6):
    """RMS energy error over 300 trajectories of a fixed time; kicks at ``ratio`` of the step size."""
    sampler = replace(sampler, step_size=length / n_steps, n_steps=n_steps)
    target = problem.target(sampler)
    rng = np.random.default_rng(2)
    state = sampler.init(target, rng.standard_normal((300, target.dim)))
    momentum = rng.standard_normal((300, target.dim))
    steps = np.full((300, 1), ratio * length / n_steps)
    end, after = sampler.trajectory(target, state, momentum, steps)
    error = hamiltonian(target, end, after) - hamiltonian(target, state, momentum)
    return np.sqrt(np.mean(error**2))


@pytest.mark.parametrize("name", STUDY)
def test_order_of_the_energy_error(problem, name):
    """Slope 2.0 +- 0.1 for L = 16, 32, 64; none for a fixed flow with kicks of another step size."""
    ratio = 1.15 if name == "B fixed" else 1.0
    errors = [energy_errors(problem, STUDY[name], n, ratio) for n in (16, 32, 64)]
    slopes = -np.diff(np.log2(errors))
    if name == "B fixed":
        assert np.all(np.abs(slopes) < 0.1)
        assert errors[-1] > 0.01
    else:
        assert np.all(np.abs(slopes - 2.0) < 0.1)


def test_nothing_but_rounding_where_all_is_gaussian(flow):
    """U_1 = 0: a Gaussian likelihood with its own posterior as base."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4)) * [1.0, 3.0, 0.2, 1.0]
    model = LatentGaussianModel.from_design(X, 2.0, Gaussian(0.5), rng.standard_normal(20))
    sampler = SplitHMC(step_size=0.9, n_steps=10, flow=flow)
    target = Target.posterior(laplace(model).sites.principal_axes)
    chains = chain_generators(0, chains=range(50))
    state = sampler.init(target, chains.standard_normal((4,)))
    _, info = sampler.step(chains, target, state)
    assert np.abs(info.energy_error).max() < 1e-10
    assert info.accepted.all()


# --- the law -------------------------------------------------------------------------------------


class BatchRandom:
    """The random source samplers expect, from one generator for all chains: fast."""

    def __init__(self, seed, n_chains):
        self.generator, self.n_chains = np.random.default_rng(seed), n_chains

    def standard_normal(self, size=()):
        return self.generator.standard_normal((self.n_chains, *np.atleast_1d(size).astype(int)))

    def uniform(self, size=()):
        return self.generator.random((self.n_chains, *np.atleast_1d(size).astype(int)))


def run(problem, sampler, n_draws, seed, n_chains=400, burn_in=15):
    """Log likelihood, sum of squared slopes and theta (chain, draw, 2 + d), and the acceptance rate.

    From draws of the Laplace fit, whose mean and deviations are off by a few per cent.
    """
    target, rng, rows, rates = problem.target(sampler), BatchRandom(seed, n_chains), [], []
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    for k in range(burn_in + n_draws):
        state, info = sampler.step(rng, target, state)
        if k >= burn_in:
            theta = target.base.latent(state.position)
            slopes = (theta[:, 1:] ** 2).sum(1)
            rows.append(np.column_stack([state.log_likelihood, slopes, theta]))
            rates.append(info.acceptance_rate.mean())
    return np.stack(rows, axis=1), np.mean(rates)


def gauss_hermite(problem, n_nodes=60, spread=1.2):
    """Posterior means and standard deviations of theta, centred at the mode in the eigenbasis."""
    nodes, weights = np.polynomial.hermite.hermgauss(n_nodes)
    squares, V = np.linalg.eigh(problem.hessian(problem.mode))
    d = len(squares)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), -1).reshape(-1, d)
    log_w = np.log(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), -1).reshape(-1, d)).sum(1)
    theta = problem.mode + (np.sqrt(2.0) * spread * grid / np.sqrt(squares)) @ V.T
    eta = theta @ problem.X.T
    log_p = (problem.y * eta - np.logaddexp(0.0, eta)).sum(1)
    log_p -= 0.5 * (theta**2 @ problem.prior_sd**-2.0)
    log_w = log_w + log_p + (grid**2).sum(1)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    mean = w @ theta
    return mean, np.sqrt(w @ (theta - mean) ** 2)


@pytest.mark.parametrize("name", STUDY)
@pytest.mark.parametrize("slopes", [1, 2])
def test_means_and_deviations_against_quadrature(logistic_regression, name, slopes):
    """n = 100: means within 4 standard errors, deviations within 1 %."""
    problem = logistic_regression(n=100, d=slopes + 1, seed=4)
    mean, sd = gauss_hermite(problem)
    assert np.abs(mean - problem.mode).max() > 0.05 * sd.max()  # the mode would not do
    draws, rate = run(problem, STUDY[name], n_draws=1500, seed=10)
    theta = draws[:, :, 2:]
    by_chain = theta.mean(1)
    error = by_chain.std(0, ddof=1) / np.sqrt(len(by_chain))
    assert np.all(error < 0.01 * sd)
    assert np.all(np.abs(by_chain.mean(0) - mean) < 4.0 * error)
    np.testing.assert_allclose(theta.reshape(-1, slopes + 1).std(0), sd, rtol=0.01)
    assert 0.5 < rate < 0.995


def test_all_samplers_of_the_study_agree(problem):
    """Means of log likelihood, squared slopes and theta: within 4 combined standard errors."""
    found = {}
    for seed, (name, sampler) in enumerate(STUDY.items()):
        by_chain = run(problem, sampler, n_draws=400, seed=seed)[0].mean(1)
        found[name] = by_chain.mean(0), by_chain.std(0, ddof=1) / np.sqrt(len(by_chain))
    for a, b in combinations(found, 2):
        (mean_a, error_a), (mean_b, error_b) = found[a], found[b]
        error = np.hypot(error_a, error_b)
        assert np.all(np.abs(mean_a - mean_b) < 4.0 * error), (a, b)
        assert error[0] < 0.015  # of a log likelihood with standard deviation 1.6


@pytest.mark.parametrize("name", STUDY)
def test_energy_errors_average_to_one(problem, name):
    """E exp(-dH) = 1 in stationarity, within 4 standard errors; chains of another sampler start it."""
    start, reached = PreconditionedSplitHMC(0.6, 3), BatchRandom(5, 20_000)
    other = problem.target(start)
    state = start.init(other, reached.standard_normal((5,)))
    for _ in range(20):
        state, info = start.step(reached, other, state)
    assert info.acceptance_rate.mean() > 0.8
    sampler = replace(STUDY[name], step_size=0.6 * STUDY[name].step_size)
    target = problem.target(sampler)
    theta = other.base.latent(state.position)
    state = sampler.init(target, target.base.from_latent(theta))
    _, info = sampler.step(reached, target, state)
    ratio = np.exp(-info.energy_error)
    error = ratio.std() / np.sqrt(len(ratio))
    assert info.acceptance_rate.mean() > 0.9
    assert 1e-5 < error < 2e-3
    assert abs(ratio.mean() - 1.0) < 4.0 * error


# --- cost, batches, robustness -------------------------------------------------------------------


class Counting(Logistic):
    """Counts the cases for which slopes are evaluated, with or without the value."""

    cases = 0

    def gradient(self, eta, y):
        Counting.cases += eta.size
        return super().gradient(eta, y)

    def log_density_and_gradient(self, eta, y):
        Counting.cases += eta.size
        return super().log_density_and_gradient(eta, y)


@pytest.mark.parametrize(
    ("sampler", "g"),
    [(LatentHMC(0.1, 20), 20), *[(SplitHMC(0.1, n), n) for n in (10, 14, 13, 9)]]
    + [
        (DataSplitHMC(0.1, L, inner_steps=M, fraction=f), g)
        for f, M, L, g in (
            (0.40, 9, 3, 12.6),
            (0.40, 10, 3, 13.8),
            (0.30, 14, 2, 9.8),
            (0.35, 15, 2, 11.8),
        )
    ],
)
def test_gradients_of_the_study_are_as_printed(logistic_regression, sampler, g):
    """g = L, and (f M + 1 - f) L of the data split: measured at the likelihood, and as recorded."""
    problem = logistic_regression(n=20, d=3, likelihood=Counting())
    target, chains = problem.target(sampler), chain_generators(0, chains=range(4))
    state = sampler.init(target, chains.standard_normal((3,)))
    Counting.cases = 0
    for _ in range(3):
        state, info = sampler.step(chains, target, state)
        np.testing.assert_allclose(info.n_gradient, g, rtol=1e-14)
    assert Counting.cases == round(3 * 4 * 20 * g)
    assert sampler.gradients(target) == pytest.approx(g, rel=1e-14)


@pytest.mark.parametrize("sampler", [*STUDY.values(), RandomWalkMetropolis(0.2, 3)])
def test_chains_do_not_depend_on_their_batch(problem, sampler):
    """Theta after one iteration to 1e-9 relative, and the same decisions over 50, for C = 1, 3, 8, 64."""
    target = problem.target(sampler)

    def decisions(n_chains):
        chains = chain_generators(3, "batch", chains=range(n_chains))
        state, accepted = sampler.init(target, chains.standard_normal((5,))), []
        for k in range(50):
            state, info = sampler.step(chains, target, state)
            accepted.append(info.accepted)
            if k == 0:
                first = target.base.latent(state.position)
        return first, np.array(accepted)

    first, accepted = decisions(64)
    assert 0.3 < accepted.mean() < 0.999
    for n_chains in (1, 3, 8):
        theta, same = decisions(n_chains)
        np.testing.assert_allclose(theta, first[:n_chains], rtol=1e-9)
        np.testing.assert_array_equal(same, accepted[:, :n_chains])


@pytest.mark.parametrize("step_size", [1e3, 1e8, 1e200])
@pytest.mark.parametrize(
    "sampler", [*STUDY.values(), HMC(), PreconditionedSplitHMC(), RandomWalkMetropolis()]
)
def test_steps_far_beyond_stability(problem, sampler, step_size):
    """Nothing is accepted, nothing raised or warned of, and the cache stays as it was."""
    sampler = replace(sampler, step_size=step_size, n_steps=20)
    target, chains = problem.target(sampler), chain_generators(0, chains=range(100))
    state = sampler.init(target, chains.standard_normal((5,)))
    start = [field.copy() for field in state]
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        for _ in range(3):
            state, info = sampler.step(chains, target, state)
            assert not info.accepted.any()
            assert np.all(info.acceptance_rate < 1e-6)
            assert not np.isnan(info.acceptance_rate).any()
    for before, field in zip(start, state, strict=True):
        np.testing.assert_array_equal(before, field)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_of_one_class_have_a_finite_mode(problem, label):
    one = replace(problem, y=np.full(60, label))
    fit = laplace(one.model).sites
    assert np.all(np.isfinite(fit.mean))
    np.testing.assert_allclose(one.gradient(fit.mean), 0.0, atol=1e-6)
    assert np.sign(fit.mean[0]) == 2.0 * label - 1.0
    assert np.abs(fit.mean).max() < 10.0


def test_the_base_may_be_any_gaussian(problem):
    """From the prior the rest is the whole likelihood, and the split is as exact."""
    sampler = SplitHMC(0.15, 8)
    base = GaussianSites.prior(problem.model).principal_axes
    np.testing.assert_allclose(np.sort(base.frequencies), np.sort(1.0 / problem.prior_sd))
    target, chains = Target.posterior(base), BatchRandom(0, 1000)
    state = sampler.init(target, base.from_latent(problem.fit.latent(chains.standard_normal(5))))
    for _ in range(60):
        state, info = sampler.step(chains, target, state)
    by_fit = run(problem, STUDY["B exact"], n_draws=100, seed=3)[0][:, :, 2:].mean((0, 1))
    theta = base.latent(state.position)
    error = theta.std(0) / np.sqrt(1000)
    assert info.acceptance_rate.mean() > 0.6
    assert np.all(np.abs(theta.mean(0) - by_fit) < 4.0 * error)
