"""RMHMC against slow twins: derivatives, linear algebra, trajectories, order, volume, reversibility."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, StudentT
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC
from gpmcflow.samplers.latent.curvature_metric import Arrival, CurvatureSystem, Kick
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, integrate

TIGHT = FixedPointSolver(1e-13, 100)
TINY = 1e-200  # stands for beta = 0 in coordinates that are not the reference's


class Dense:
    """H of one chain on the path from prior times sites (tau, nu), in theta, matrices written out."""

    def __init__(self, model, beta, tau, nu):
        self.model, self.beta, self.tau, self.nu = model, beta, tau, nu
        self.A = np.eye(model.dim) if model.design is None else model.design
        self.P = model.cholesky @ model.cholesky.T
        self.K = self.A @ self.P @ self.A.T
        self.P_inverse = np.linalg.inv(self.P)

    def factors(self, theta):
        """Sum of the factors' logs phi, their slopes g, weights d and d' by eta."""
        eta = self.A @ theta
        value, first, second, third = self.model.likelihood.derivatives(eta, self.model.y)
        keep = 1.0 - self.beta
        phi = self.beta * value + keep * (self.nu * eta - 0.5 * self.tau * eta**2)
        g = self.beta * first + keep * (self.nu - self.tau * eta)
        information, slope = -second, -third
        if not self.model.likelihood.log_concave:  # of Student-t noise it is one number
            information, slope = self.model.likelihood.information(eta, self.model.y), 0.0 * third
        return phi.sum(), g, keep * self.tau + self.beta * information, self.beta * slope

    def metric(self, theta):
        d = self.factors(theta)[2]
        return self.P_inverse + self.A.T @ (d[:, None] * self.A)

    def log_det(self, theta):
        """log |G P|, so log |G| in the prior's coordinates."""
        return np.linalg.slogdet(self.metric(theta))[1] + np.linalg.slogdet(self.P)[1]

    def energy(self, theta, p):
        away = theta - self.model.mean
        kinetic = 0.5 * p @ np.linalg.solve(self.metric(theta), p)
        prior = 0.5 * away @ self.P_inverse @ away
        return prior - self.factors(theta)[0] + 0.5 * self.log_det(theta) + kinetic

    def trace(self, theta):
        inverse = np.linalg.inv(self.metric(theta))
        return self.factors(theta)[3] * np.einsum("ij,jk,ik->i", self.A, inverse, self.A)

    def velocity(self, theta, p):
        return np.linalg.solve(self.metric(theta), p)

    def force(self, theta, p):
        """dH/dtheta."""
        _, g, _, slope = self.factors(theta)
        bent = slope * (self.A @ self.velocity(theta, p)) ** 2
        pulled = self.A.T @ (g - 0.5 * self.trace(theta) + 0.5 * bent)
        return self.P_inverse @ (theta - self.model.mean) - pulled

    def step(self, theta, p, eps, count=200, stop=1e-15):
        """One step by plain iteration, at most ``count`` of either equation: the textbook's scheme."""
        half = p
        for _ in range(count):
            last, half = half, p - 0.5 * eps * self.force(theta, half)
            if np.abs(half - last).max() < stop * (1.0 + np.abs(half).max()):
                break
        here = self.velocity(theta, half)
        there = theta + eps * here
        for _ in range(count):
            last, there = there, theta + 0.5 * eps * (here + self.velocity(there, half))
            if np.abs(there - last).max() < stop * (1.0 + np.abs(there).max()):
                break
        return there, half - 0.5 * eps * self.force(there, half)

    def trajectory(self, theta, p, eps, n_steps, **iteration):
        for _ in range(n_steps):
            theta, p = self.step(theta, p, eps, **iteration)
        return theta, p


class Dual(Dense):
    """A = I: pairs (f, alpha = K^{-1} f) and (p, pi = K p), products with K and B alone."""

    def held(self, d, x):
        root = np.sqrt(d)
        B = np.eye(len(d)) + root[:, None] * self.K * root
        return root * np.linalg.solve(B, root * x)

    def dual_trajectory(self, f, p, eps, n_steps):
        mean, K = self.model.mean, self.K
        alpha, pi = np.linalg.solve(K, f - mean), K @ p
        f = f - mean

        def at(f):
            _, g, d, slope = self.factors(f + mean)
            return g, d, slope, self.trace(f + mean)

        for _ in range(n_steps):
            g, d, slope, t = at(f)
            half, pi_half = p, pi
            for _ in range(200):
                v = pi_half - K @ self.held(d, pi_half)
                last, s = half, g - 0.5 * t + 0.5 * slope * v**2
                half, pi_half = p + 0.5 * eps * (s - alpha), pi + 0.5 * eps * (K @ s - f)
                if np.abs(half - last).max() < 1e-15 * (1.0 + np.abs(half).max()):
                    break
            v = pi_half - K @ self.held(d, pi_half)
            there, reached = f + eps * v, v
            for _ in range(200):
                d_there = self.factors(there + mean)[2]
                reached = pi_half - K @ self.held(d_there, pi_half)
                last, there = there, f + 0.5 * eps * (v + reached)
                if np.abs(there - last).max() < 1e-15 * (1.0 + np.abs(there).max()):
                    break
            alpha = alpha + 0.5 * eps * ((half - d * v) + (half - d_there * reached))
            f = there
            g, d, slope, t = at(f)
            s = g - 0.5 * t + 0.5 * slope * reached**2
            p, pi = half + 0.5 * eps * (s - alpha), pi_half + 0.5 * eps * (K @ s - f)
        return f + mean, p


def two_stage(dense, theta):
    """The published route, A = I: G^{-1} formed explicitly in two Woodbury stages; and log |G K|."""
    K, n = dense.K, len(dense.K)
    likelihood = dense.model.likelihood
    weight = -dense.beta * likelihood.derivatives(theta, dense.model.y)[2]
    s, root = np.sqrt((1.0 - dense.beta) * dense.tau), np.sqrt(weight)
    first = np.eye(n) + s[:, None] * K * s
    V = K - (K * s) @ np.linalg.inv(first) @ (s[:, None] * K)
    second = np.eye(n) + root[:, None] * V * root
    inverse = V - (V * root) @ np.linalg.inv(second) @ (root[:, None] * V)
    return inverse, np.linalg.slogdet(first)[1] + np.linalg.slogdet(second)[1]


MODELS = ("probit", "poisson", "gaussian", "student_t", "design, d < n", "design, d > n")
CASES = [
    (name, reference, beta)
    for name in MODELS
    for reference in ("prior", "sites")
    for beta in (TINY, 0.3, 1.0)
]


@pytest.fixture(params=CASES, ids=lambda case: " ".join(map(str, case)))
def case(request, models, gp, glm):
    """Target in the prior's coordinates, and its dense twin."""
    name, reference, beta = request.param
    model = {
        "gaussian": partial(gp, Gaussian(0.7), signal_sd=0.9),
        "student_t": partial(gp, StudentT(0.4, 3.0), signal_sd=0.9),
        "design, d < n": partial(glm, Logistic()),
        "design, d > n": partial(glm, Poisson(1.5), n=5, d=9),
    }.get(name, lambda: models[name])()
    n = model.n_cases
    tau, nu = np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n)
    if reference == "prior":
        tau, nu = np.zeros(n), np.zeros(n)
    return build(model, beta, tau, nu)


def build(model, beta, tau, nu, twin=Dense):
    prior = GaussianSites.prior(model)
    target = TemperedPath(GaussianSites(model, tau, nu), prior).target(beta)
    return target, twin(model, beta, tau, nu)


@pytest.fixture
def probit(models):
    """A probit process half way from a reference with sites, and its dual twin."""
    n = models["probit"].n_cases
    tau, nu = np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n)
    return build(models["probit"], 0.4, tau, nu, Dual)


def start(target, n_chains, seed=0):
    """System, geometry and momentum (drawn from N(0, G)) of chains near the prior."""
    rng = np.random.default_rng(seed)
    system = CurvatureSystem(target, n_chains)
    position = 0.7 * rng.standard_normal((n_chains, target.dim))
    geometry = system.geometry(position, np.arange(n_chains))
    return system, geometry, system.draw_momentum(Rng(rng, n_chains), geometry)


class Rng:
    """Normals with the chain axis first."""

    def __init__(self, generator, n_chains):
        self.generator, self.n_chains = generator, n_chains

    def standard_normal(self, size):
        return self.generator.standard_normal((self.n_chains, *size))


def latent(target, position):
    return target.model.latent(position)


def co_latent(target, momentum):
    """Momentum of theta: p = L^{-T} eta."""
    return np.linalg.solve(target.model.cholesky.T, momentum.T).T


def close(found, expected, tolerance):
    scale = np.abs(expected).max() + 1e-300
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0.0, atol=tolerance)


def force_of(system, geometry, momentum, velocity):
    """dH/dxi, from the explicit half kick."""
    kick, arrival = Kick(momentum, velocity), Arrival(geometry.position, velocity)
    return momentum - system.end_kick(geometry, kick, arrival, np.ones((len(momentum), 1)))


def test_linear_algebra_against_dense_inverses(case):
    """Row 7: G^{-1} p, log |G|, t and H to 1e-8; t to rounding times d'/d where weights are tiny."""
    target, dense = case
    system, geometry, momentum = start(target, 3)
    half = np.zeros((3, 1))
    kick = system.half_kick(geometry, momentum, half, TIGHT).values
    L, theta = target.model.cholesky, latent(target, geometry.position)
    p, energy = co_latent(target, momentum), system.energy(geometry, momentum)
    for k in range(3):
        velocity = dense.velocity(theta[k], p[k])
        close(L @ kick.velocity[k], velocity, 1e-8)
        assert geometry.log_det[k] == pytest.approx(dense.log_det(theta[k]), abs=1e-8)
        assert energy[k] == pytest.approx(dense.energy(theta[k], p[k]), abs=1e-8)
        expected, (*_, d, slope) = dense.trace(theta[k]), dense.factors(theta[k])
        rounding = 1e-14 * np.abs(slope / d).max()
        error = np.abs(geometry.trace[k] - expected).max()
        assert error <= 1e-8 * np.abs(expected).max() + rounding


def test_derivatives_of_the_hamiltonian(case):
    """Row 6: dH/dxi against central differences of H, and against the twin's, to 1e-7 relative."""
    target, dense = case
    d, h = target.dim, 1e-5
    system, geometry, momentum = start(target, 1, seed=1)
    theta, p = latent(target, geometry.position)[0], co_latent(target, momentum)[0]
    L = target.model.cholesky
    velocity = np.linalg.solve(L, dense.velocity(theta, p))[None]
    found = force_of(system, geometry, momentum, velocity)[0]
    wide = CurvatureSystem(target, 2 * d)
    around = geometry.position + h * np.concatenate([np.eye(d), -np.eye(d)])
    moved = wide.geometry(around, np.arange(2 * d))
    energy = wide.energy(moved, np.repeat(momentum, 2 * d, axis=0))
    close(found, (energy[:d] - energy[d:]) / (2 * h), 1e-7)
    close(found, L.T @ dense.force(theta, p), 1e-8)


def test_one_stage_equals_two_stages(probit):
    """Row 7: the merged diagonal against the published two Woodbury stages, to 1e-8."""
    target, dense = probit
    system, geometry, momentum = start(target, 2)
    kick = system.half_kick(geometry, momentum, np.zeros((2, 1)), TIGHT).values
    theta, p = latent(target, geometry.position), co_latent(target, momentum)
    for k in range(2):
        inverse, log_det = two_stage(dense, theta[k])
        close(target.model.cholesky @ kick.velocity[k], inverse @ p[k], 1e-8)
        assert geometry.log_det[k] == pytest.approx(log_det, abs=1e-8)
        close(geometry.trace[k], dense.factors(theta[k])[3] * np.diag(inverse), 1e-8)


@pytest.mark.parametrize("name", ["probit", "logistic"])
def test_momentum_has_the_metric_as_covariance(models, name):
    """Row 8: 4e4 draws, whitened by a factor of G: largest deviation from I below 0.03."""
    model, n = models[name], 40_000
    tau, nu = np.linspace(0.2, 1.5, model.n_cases), np.zeros(model.n_cases)
    target, dense = build(model, 0.5, tau, nu)
    position = np.tile(np.random.default_rng(2).standard_normal(target.dim), (n, 1))
    system = CurvatureSystem(target, 1)
    one = system.geometry(position[:1], np.zeros(1, int))
    many = one._replace(root=np.repeat(one.root, n, axis=0))
    momentum = system.draw_momentum(Rng(np.random.default_rng(3), n), many)
    L = model.cholesky
    G = L.T @ dense.metric(latent(target, position[0])) @ L
    white = np.linalg.solve(np.linalg.cholesky(G), momentum.T)
    assert np.abs(np.cov(white) - np.eye(target.dim)).max() < 0.03
    assert np.abs(white.mean(1)).max() < 0.03


def test_energy_error_is_of_second_order(case):
    """Row 9: at fixed time the energy error falls by 3.8 to 4.2 when the step is halved."""
    target, _ = case
    errors = []
    for n_steps in (8, 16, 32):
        system, geometry, momentum = start(target, 60)
        end = integrate(
            system, geometry, momentum, np.full((60, 1), 0.6 / n_steps), n_steps, TIGHT, check=False
        )
        assert end.solved.all()
        before = system_energy(target, geometry, momentum)
        errors.append(np.sqrt(np.mean((system.energy(end.geometry, end.momentum) - before) ** 2)))
    assert 3.8 < errors[0] / errors[1] < 4.2
    assert 3.8 < errors[1] / errors[2] < 4.2


def system_energy(target, geometry, momentum):
    """H of positions whose factors have been overwritten since."""
    system = CurvatureSystem(target, len(momentum))
    return system.energy(system.geometry(geometry.position, geometry.slot), momentum)


def test_trajectories_are_reversible(case):
    """Row 10: forward, flip, back, 20 steps, tolerance 1e-13: to 1e-10."""
    target, _ = case
    system, geometry, momentum = start(target, 20)
    steps = 0.1 * np.linspace(0.5, 1.5, 20)[:, None]
    position = geometry.position.copy()
    end = integrate(system, geometry, momentum, steps, 20, TIGHT)
    assert end.solved.all()
    assert np.abs(end.geometry.position - position).max() > 0.5
    back = integrate(system, end.geometry, -end.momentum, steps, 20, TIGHT)
    np.testing.assert_allclose(back.geometry.position, position, atol=1e-10)
    np.testing.assert_allclose(-back.momentum, momentum, atol=1e-10 * np.abs(momentum).max())


def test_trajectories_preserve_volume(case):
    """Row 11: log |det J| of two steps by central differences, to 1e-5."""
    target, _ = case
    d, h = target.dim, 1e-5
    _, geometry, momentum = start(target, 1, seed=4)
    shift = h * np.concatenate([np.eye(2 * d), -np.eye(2 * d)])
    system = CurvatureSystem(target, 4 * d)
    moved = system.geometry(geometry.position + shift[:, :d], np.arange(4 * d))
    steps = np.full((4 * d, 1), 0.15)
    end = integrate(system, moved, momentum + shift[:, d:], steps, 2, TIGHT)
    assert end.solved.all()
    both = np.concatenate([end.geometry.position, end.momentum], axis=1)
    jacobian = (both[: 2 * d] - both[2 * d :]) / (2 * h)
    assert np.linalg.slogdet(jacobian)[1] == pytest.approx(0.0, abs=1e-5)
    assert np.abs(jacobian - np.eye(2 * d)).max() > 0.05


def test_trajectories_equal_dense_ones_in_theta(case):
    """Row 12: five steps, to 1e-9 of the largest entry; explicit inverses, plain fixed points."""
    target, dense = case
    system, geometry, momentum = start(target, 3, seed=5)
    theta, p = latent(target, geometry.position), co_latent(target, momentum)
    end = integrate(system, geometry, momentum, np.full((3, 1), 0.12), 5, TIGHT)
    assert end.solved.all()
    found = latent(target, end.geometry.position), co_latent(target, end.momentum)
    for k in range(3):
        expected = dense.trajectory(theta[k], p[k], 0.12, 5)
        for ours, slow in zip(found, expected, strict=True):
            close(ours[k], slow, 1e-9)


def test_trajectories_equal_those_of_the_dual_form(probit):
    """Row 12: the form that carries (f, K^{-1} f) and (p, K p)."""
    target, dense = probit
    system, geometry, momentum = start(target, 2, seed=5)
    theta, p = latent(target, geometry.position), co_latent(target, momentum)
    end = integrate(system, geometry, momentum, np.full((2, 1), 0.15), 5, TIGHT)
    found = latent(target, end.geometry.position), co_latent(target, end.momentum)
    for k in range(2):
        for ours, slow in zip(found, dense.dual_trajectory(theta[k], p[k], 0.15, 5), strict=True):
            close(ours[k], slow, 1e-9)


def test_refactorising_changes_nothing_but_the_work(case):
    """Row 12: the textbook's iteration for the drift, converged, against the one with old factors."""
    target, _ = case
    ends = []
    for refactorise in (False, True):
        _, geometry, momentum = start(target, 8)
        system = CurvatureSystem(target, 8, refactorise)
        geometry = system.geometry(geometry.position, np.arange(8))
        end = integrate(system, geometry, momentum, np.full((8, 1), 0.2), 3, TIGHT, check=False)
        assert end.solved.all()
        ends.append(end)
        extra = end.drift_iterations if refactorise else 0
        np.testing.assert_array_equal(system.n_factorised, 2 * (3 + 1) + extra)
    one, two = ends
    close(two.geometry.position, one.geometry.position, 1e-9)
    close(two.momentum, one.momentum, 1e-9)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_fixed_iterations_are_those_of_the_textbook(case, count):
    """``fixed_iters`` = k: k plain updates of p and of x, unconverged, against the twin's."""
    target, dense = case
    _, geometry, momentum = start(target, 2, seed=6)
    system = CurvatureSystem(target, 2, refactorise=True)
    geometry = system.geometry(geometry.position, np.arange(2))
    theta, p = latent(target, geometry.position), co_latent(target, momentum)
    solver = FixedPointSolver(fixed_iterations=count)
    end = integrate(system, geometry, momentum, np.full((2, 1), 0.3), 2, solver, check=False)
    np.testing.assert_array_equal(system.n_factorised, 2 * (2 + 1) + 2 * count)
    found = latent(target, end.geometry.position), co_latent(target, end.momentum)
    for k in range(2):
        expected = dense.trajectory(theta[k], p[k], 0.3, 2, count=count, stop=0.0)
        for ours, slow in zip(found, expected, strict=True):
            close(ours[k], slow, 1e-9)


def test_a_constant_metric_gives_the_leapfrog_method(models):
    """Row 13: at beta = 0 from sites, d' = 0: leapfrog with M = V^{-1}, to 1e-12 in theta."""
    model = models["probit"]
    n = model.n_cases
    tau, nu = np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n)
    target, _ = build(model, TINY, tau, nu)
    system, geometry, momentum = start(target, 4)
    end = integrate(system, geometry, momentum, np.full((4, 1), 0.3), 6, TIGHT)
    np.testing.assert_array_equal(end.drift_iterations, 6)  # nothing to iterate
    q = GaussianSites(model, tau, nu)
    hmc, theirs = HMC(n_steps=6), TemperedPath(q).target(0.0)
    state = hmc.init(theirs, q.from_whitened(geometry.position))
    there, p = hmc.trajectory(
        theirs, state, np.linalg.solve(q.whitened_factor, momentum.T).T, np.full((4, 1), 0.3)
    )
    close(q.latent(there.position), latent(target, end.geometry.position), 1e-12)
    close(p @ q.whitened_factor.T, end.momentum, 1e-12)


def test_a_gaussian_likelihood_gives_the_leapfrog_method_too(gp):
    """Constant curvature: H is quadratic and the explicit method with M = G is the same."""
    model = gp(Gaussian(0.7), signal_sd=0.9)
    none = np.zeros(model.n_cases)
    target, dense = build(model, 0.6, none, none)
    system, geometry, momentum = start(target, 2)
    theta, p = latent(target, geometry.position), co_latent(target, momentum)
    end = integrate(system, geometry, momentum, np.full((2, 1), 0.4), 5, TIGHT)
    assert not geometry.weight_slope.any()
    for k in range(2):
        x, q, G = theta[k], p[k], dense.metric(theta[k])
        for _ in range(5):
            q = q - 0.2 * dense.force(x, q)
            x = x + 0.4 * np.linalg.solve(G, q)
            q = q - 0.2 * dense.force(x, q)
        close(latent(target, end.geometry.position)[k], x, 1e-10)
        close(co_latent(target, end.momentum)[k], q, 1e-10)


class Expected(Logistic):
    """Says that it is not log-concave, and what its curvature is as an information."""

    log_concave = False

    def information(self, eta, y):
        return -self.derivatives(eta, y)[2]


def test_an_information_that_moves_is_differentiated(glm):
    """Trajectories along `information` equal those along -l'' of the same likelihood."""
    ends = []
    for likelihood in (Logistic(), Expected()):
        model = replace(glm(Logistic()), likelihood=likelihood)
        n = model.n_cases
        target, _ = build(model, 0.7, np.linspace(0.2, 1.5, n), np.zeros(n))
        system, geometry, momentum = start(target, 3)
        ends.append(integrate(system, geometry, momentum, np.full((3, 1), 0.15), 5, TIGHT))
    one, two = ends
    assert two.solved.all()
    close(two.geometry.position, one.geometry.position, 1e-8)
    close(two.momentum, one.momentum, 1e-8)


def test_the_metric_of_student_t_noise_is_positive(gp):
    """(nu + 1) / ((nu + 3) s^2) for each case, where -l'' is negative of some."""
    model = gp(StudentT(0.4, 3.0), signal_sd=0.9)
    target, _ = build(model, 1.0, np.zeros(model.n_cases), np.zeros(model.n_cases))
    _, geometry, _ = start(target, 20)
    second = model.likelihood.derivatives(geometry.predictor, model.y)[2]
    assert 0.1 < np.mean(second > 0.0) < 0.9
    np.testing.assert_allclose(geometry.root**2, 4.0 / (6.0 * 0.4**2), rtol=1e-12)
    assert not geometry.weight_slope.any()
