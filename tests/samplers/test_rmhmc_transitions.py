"""Transitions of RMHMC: what is not solved or does not return, counts, batches, wrong input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Gaussian, Poisson, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import RMHMC
from gpmcflow.samplers.latent.curvature_metric import CurvatureSystem
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, integrate

MODELS = ("probit", "poisson", "logistic", "wide design")


@pytest.fixture
def some(models, glm):
    return {**models, "wide design": glm(Poisson(1.5), n=5, d=9)}


def path_of(model, kind="sites"):
    """Path in the prior's coordinates."""
    n, prior = model.n_cases, GaussianSites.prior(model)
    sites = GaussianSites(model, np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n))
    return TemperedPath(prior if kind == "prior" else sites, prior)


def run(sampler, target, chains, n=1, seed=7):
    rng = chain_generators(seed, "rmhmc", chains=chains)
    state = sampler.init(target, 0.8 * rng.standard_normal((target.dim,)))
    for _ in range(n):
        state, info = sampler.step(rng, target, state)
    return state, info


def assert_alike(together, alone, chain, passes=True):
    """Equal to 1e-10; ``passes`` of the likelihood too, unless when a solver stops is rounding's choice."""
    for whole, single in zip(together, alone, strict=True):
        for name, a, b in zip(whole._fields, whole, single, strict=True):
            if passes or name != "n_gradient":
                np.testing.assert_allclose(a[chain], b[0], rtol=1e-10, atol=1e-10)


LONG = {"probit": 1.8, "poisson": 1.2, "logistic": 3.0, "wide design": 0.9}


@pytest.mark.parametrize("fixed_iters", [0, 3])
@pytest.mark.parametrize("name", MODELS)
def test_batched_chains_equal_single_chains(some, name, fixed_iters):
    """Row 23, at a step at which some chains of the batch are given up on the way."""
    target = path_of(some[name]).target(0.8)
    step = 0.3 if fixed_iters else LONG[name]
    sampler = RMHMC(step, 3, tolerance=1e-12, fixed_iters=fixed_iters)
    together = run(sampler, target, range(12), 3)
    if not fixed_iters:
        first = run(sampler, target, range(12))[1]
        assert 0 < first.unsolved.sum() < 12
    for chain in range(12):
        assert_alike(together, run(sampler, target, [chain], 3), chain, fixed_iters > 0)


@pytest.mark.parametrize("kind", ["prior", "sites"])
@pytest.mark.parametrize("name", MODELS)
def test_a_ladder_as_one_batch_equals_one_batch_per_temperature(some, name, kind):
    """Row 23: per-chain betas, step sizes among them, with a beta so small that it is the reference."""
    path, betas = path_of(some[name], kind), np.array([1e-200, 0.1, 0.5, 1.0])
    steps = np.array([0.7, 0.5, 0.4, 0.3])
    together = run(RMHMC(steps, 3), path.target(betas), range(4), 3)
    for k, beta in enumerate(betas):
        alone = run(RMHMC(steps[k], 3), path.target(float(beta)), [k], 3)
        assert_alike(together, alone, k)


@pytest.mark.parametrize("name", MODELS)
def test_work_is_counted_exactly(some, name, monkeypatch):
    """Row 24: a Cholesky and a triangle inverse a step and at the start; k more for fixed_iters = k."""
    target, made = path_of(some[name]).target(0.6), np.zeros(6)

    def counted(self, target, n_chains):
        system = CurvatureSystem(target, n_chains, refactorise=self.fixed_iters > 0)
        factorise, trace = system.space.factorise, system.space.trace

        def count(function, slot_at):
            def wrapped(*arguments):
                made[arguments[slot_at]] += 1
                return function(*arguments)

            return wrapped

        system.space.factorise, system.space.trace = count(factorise, 1), count(trace, 2)
        return system

    monkeypatch.setattr(RMHMC, "system", counted)
    for fixed_iters in (0, 1, 6):
        made[:] = 0.0
        _, info = run(RMHMC(0.1, 4, fixed_iters=fixed_iters), target, range(6))
        assert not info.unsolved.any()
        np.testing.assert_array_equal(info.n_factorisation, 2 * (4 + 1) + 4 * fixed_iters)
        np.testing.assert_array_equal(made, info.n_factorisation)


class Counting(Probit):
    """Counts passes over all cases, those of each chain together."""

    passes = 0

    def derivatives(self, eta, y):
        Counting.passes += len(eta)
        return super().derivatives(eta, y)


def test_likelihood_passes_are_counted():
    K = 2.0 * np.eye(4) + 0.5
    model = LatentGaussianModel.from_covariance(K, Counting(), np.array([1.0, -1.0, 1.0, 1.0]))
    for fixed_iters in (0, 5):
        Counting.passes = 0
        _, info = run(RMHMC(0.3, 3, fixed_iters=fixed_iters), path_of(model).target(0.9), range(8))
        assert info.n_gradient.sum() == Counting.passes
    np.testing.assert_array_equal(info.n_gradient, 1 + 3 * (1 + 5))


@pytest.mark.parametrize("name", MODELS)
def test_unsolved_transitions_are_rejected_and_told(some, name):
    """Steps far too long: state unchanged bit for bit, flagged, no exception, no warning."""
    target = path_of(some[name]).target(1.0)
    rng = chain_generators(3, chains=range(60))
    sampler = RMHMC(2.5, 4)
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after, info = sampler.step(rng, target, state)
    assert info.unsolved.mean() > 0.3
    assert not info.accepted[info.unsolved].any()
    assert not info.acceptance_rate[info.unsolved].any()
    assert np.all(info.energy_error[info.unsolved] == np.inf)
    for old, new in zip(state, after, strict=True):
        np.testing.assert_array_equal(new[~info.accepted], old[~info.accepted])


def test_two_iterations_solve_nothing_unless_the_metric_is_constant(models, gp):
    target = path_of(models["probit"]).target(0.5)
    _, info = run(RMHMC(0.3, 2, max_iterations=2), target, range(20))
    assert info.unsolved.all()
    constant = path_of(gp(Gaussian(0.5))).target(0.5)
    _, info = run(RMHMC(0.3, 2, max_iterations=2), constant, range(20))
    assert not info.unsolved.any()
    assert info.accepted.any()


def test_energies_that_are_not_finite_are_flagged_rejections():
    """Rates that overflow, from starts that are fine and from one that is not; others go on."""
    y = np.array([0.0, 5.0, 60.0])
    model = LatentGaussianModel.from_covariance(np.eye(3), Poisson(), y)
    target = Target.posterior(GaussianSites.prior(model))
    for settings in ({"fixed_iters": 2}, {}):
        sampler, rng = RMHMC(1e3, 2, **settings), chain_generators(0, chains=range(30))
        state = sampler.init(target, rng.standard_normal((3,)))
        with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise"):
            warnings.simplefilter("error")
            after, info = sampler.step(rng, target, state)
        bad = info.unsolved | info.diverging
        assert bad.mean() > 0.9
        assert not info.accepted[bad].any()
        assert all(np.isfinite(field).all() for field in after)
    gentle = LatentGaussianModel.from_covariance(np.eye(3), Poisson(), np.array([0.0, 2.0, 1.0]))
    target = Target.posterior(GaussianSites.prior(gentle))
    sampler, rng = RMHMC(0.2, 2), chain_generators(1, chains=range(4))
    position = rng.standard_normal((3,))
    position[2] = np.nan
    position[3] = 1e6
    with np.errstate(over="ignore", invalid="ignore"):
        state = sampler.init(target, position)
    after, info = sampler.step(rng, target, state)
    np.testing.assert_array_equal(info.unsolved | info.diverging, [False, False, True, True])
    np.testing.assert_array_equal(after.position[2:], position[2:])
    assert info.accepted[:2].all()


@pytest.fixture
def counts():
    """A Poisson process of three cases at its posterior, where long steps have several solutions."""
    K = 1.08 * np.array([[1.0, 0.6, 0.1], [0.6, 1.2, 0.5], [0.1, 0.5, 0.8]])
    model = LatentGaussianModel.from_covariance(
        K, Poisson(1.7), np.array([0.0, 3.0, 1.0]), mean=-0.4
    )
    target = Target.posterior(GaussianSites.prior(model))
    rng = chain_generators(5, chains=range(4000))
    sampler = RMHMC(0.4, 4)
    state = sampler.init(target, 0.5 * rng.standard_normal((3,)))
    for _ in range(10):
        state, _ = sampler.step(rng, target, state)
    return target, state.position, rng


def lost(counts, solver, step, check):
    """Shares of trajectories that are solved, and of those that do not come back to 1e-5."""
    target, position, rng = counts
    n = len(position)
    system = CurvatureSystem(target, n, refactorise=solver.fixed_iterations > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        geometry = system.geometry(position, np.arange(n))
        momentum = system.draw_momentum(rng, geometry)
        steps = np.full((n, 1), step)
        end = integrate(system, geometry, momentum, steps, 3, solver, check)
        there = system.geometry(end.geometry.position, np.arange(n))
        back = integrate(system, there, -end.momentum, steps, 3, solver, False)
    away = np.abs(back.geometry.position - position).max(1)
    return end.solved.mean(), np.mean(~(back.solved & (away < 1e-5))[end.solved])


def test_steps_that_do_not_return_are_found(counts):
    """Row 10: at a large step solved trajectories fail to return, unless steps are taken back."""
    for step in (0.3, 0.6, 1.0):
        (solved, share), (checked, left) = (
            lost(counts, FixedPointSolver(), step, check) for check in (False, True)
        )
        print(f"step {step}: {share:.2%} of {solved:.1%} do not return;", end=" ")
        print(f"taken back, {left:.2%} of {checked:.1%}")
        assert left < 5e-3
    assert share > 0.02
    assert left < share / 5
    assert solved - 3 * share < checked < solved


def test_five_or_six_iterations_are_reversible_only_at_small_steps(counts):
    """The scheme of the literature: violations beyond 1e-5 fall with iterations and with the step."""
    shares = {}
    for step in (0.02, 0.3):
        for count in (5, 6, 12):
            solver = FixedPointSolver(fixed_iterations=count)
            shares[step, count] = lost(counts, solver, step, False)[1]
            print(f"fixed_iters {count}, step {step}: {shares[step, count]:.2%} violate")
    assert shares[0.3, 5] > shares[0.3, 6] > shares[0.3, 12]
    assert shares[0.3, 5] > 0.01
    assert shares[0.02, 6] < 1e-3
    assert lost(counts, FixedPointSolver(), 0.3, True)[1] < 1e-3


def test_the_scheme_of_the_literature_does_not_look_back():
    assert RMHMC().takes_back
    assert not RMHMC(fixed_iters=5).takes_back


def test_targets_in_other_coordinates_are_refused(models):
    sites = path_of(models["probit"]).reference
    target = TemperedPath(sites).target(0.5)
    with pytest.raises(InputError, match="not in the prior's coordinates; use") as caught:
        RMHMC().step(
            chain_generators(0, chains=[0]), target, RMHMC().init(target, np.zeros((1, 12)))
        )
    assert "\n" not in str(caught.value)
    suited = target.in_coordinates(RMHMC().coordinates(sites))
    assert RMHMC().coordinates(suited.base) is suited.base
    CurvatureSystem(suited, 1)


def test_negative_precisions_on_the_path_are_refused(models):
    model = models["probit"]
    prior, tau = GaussianSites.prior(model), np.zeros(model.n_cases)
    tau[3] = 0.4  # of what the likelihood loses: the path keeps -beta tau
    with pytest.raises(InputError, match="a site of the reference has a negative precision"):
        CurvatureSystem(Target(prior, 0.5, tau, np.zeros(model.n_cases)), 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"tolerance": 2.0}, "tolerance is 2.0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"max_iterations": 1.5}, "max_iterations is 1.5"),
        ({"fixed_iters": -1}, "fixed_iterations is -1"),
        ({"step_size": 0.0}, "step_size is 0.0"),
        ({"step_size": np.array([0.1, np.nan])}, "allowed: a positive number"),
        ({"n_steps": 0}, "n_steps is 0"),
        ({"jitter": 1.0}, "jitter is 1.0"),
    ],
)
def test_silly_settings_are_refused_in_one_line(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        RMHMC(**settings)
    assert "\n" not in str(caught.value)


def test_share_of_trajectories_that_do_not_return(gp):
    """Converged iterations lead back; one fixed iteration at a large step does not."""
    model = gp(n=12, signal_sd=4.0)
    position = np.random.default_rng(4).standard_normal((30, 12))
    target = Target.posterior(GaussianSites.prior(model))

    def share(sampler):
        return sampler.irreversible(chain_generators(5, chains=range(30)), target, position)

    assert share(RMHMC(0.02, 3)) == 0.0
    assert share(RMHMC(0.02, 3, fixed_iters=8)) == 0.0
    assert share(RMHMC(0.3, 3, fixed_iters=1)) > 0.9
    assert np.isnan(share(RMHMC(50.0, 1, max_iterations=2)))
