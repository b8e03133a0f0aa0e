from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.adaptation import joint_mode
from gpmcflow.samplers.adaptation.frame_choice import (
    FACTORS,
    frame_worth,
    scaled,
    slowest_correlation,
)
from gpmcflow.samplers.adaptation.joint_mode import curvature_scale, find_mode, value_and_slope
from gpmcflow.samplers.adaptation.joint_pilot import (
    LARGEST_STEP,
    _refit,
    choose_steps,
    first_stage,
    fit_frame,
)
from gpmcflow.samplers.adaptation.lengths import Lengths, choose_length
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition

NARROW = Hyperprior("norm", {"scale": 1e-9})


def test_step_size_finds_the_step_of_an_acceptance_rate():
    rng = np.random.default_rng(0)
    tuner = StepSize(0.02, 0.8, LARGEST_STEP)
    for _ in range(400):
        tuner.update(np.clip(np.exp(-4.0 * tuner.step**2) + 0.1 * rng.standard_normal(), 0, 1))
    assert tuner.average == pytest.approx(np.sqrt(-np.log(0.8) / 4.0), rel=0.1)
    always = StepSize(0.3, 0.8, LARGEST_STEP)
    for _ in range(300):
        always.update(1.0)
    assert always.average == pytest.approx(LARGEST_STEP, rel=0.05)


def test_worth_of_rotations():
    """No residual: after l steps functions linear in q have correlation cos(l step), whatever else."""
    X = np.linspace(0, 1, 6)
    model = GPModel(X, np.zeros(6), SquaredExponential(NARROW, NARROW), Gaussian(0.3), jitter=1e-4)
    sites = FrozenSites(np.full(6, 1 / 0.09), np.zeros(6))
    frame = Frame(np.zeros(2), np.eye(2), sites)
    target = SplitTarget(JointDensity(model, sites), frame)
    rng, watch, step = np.random.default_rng(0), Lengths(5), 0.3
    state = target.start(rng, np.zeros(2), None)
    for _ in range(600):
        state, _ = transition(rng, target, state, step, 5, 0.0, watch=watch)
    rho = np.cos(step * np.arange(1, 6))
    variance = np.var(watch.starts, axis=0)
    jumps = watch.worth(variance, 2)
    assert np.allclose(watch.acceptance, 1.0, atol=1e-4)
    assert np.all(jumps <= 1.15 * (1 - rho) / (1 + rho))
    assert np.all(jumps >= 0.3 * (1 - rho) / (1 + rho))
    assert np.all(np.diff(jumps) > 0)


def test_worth_is_that_of_nearly_the_slowest_function():
    """One step with (h_1 - h_0)^2 / (2 V) = 1, but for 11 latents, of which the second slowest counts."""
    shares = np.random.default_rng(0).permutation(np.arange(1, 12) / 12)
    target = SimpleNamespace(dim=1, x=lambda state: 2**0.25 * state.position)
    start = SimpleNamespace(position=np.zeros(1), latents=np.zeros(11), complete=0.0)
    end = SimpleNamespace(
        position=np.full(1, 2**0.25), latents=np.sqrt(2.0 * shares), complete=np.sqrt(2.0)
    )
    watch = Lengths(1)
    watch(target, start, [end], [1.0])
    second = np.sort(shares)[1]  # the quantile 0.1 of 11 values
    assert watch.worth(np.ones(14), 1)[0] == pytest.approx(second / (2.0 - second))


def test_the_longest_of_nearly_equal_lengths_is_chosen():
    worth = [np.array([0.1, 0.20, 0.30, 0.36]), np.array([0.2, 0.41, 0.50, 0.52])]
    good = [np.full(4, 0.9)] * 2
    assert choose_length(worth, good) == (1, 2)  # 0.2, 0.205, 0.167, 0.13 for each gradient
    assert choose_length(worth[:1], good[:1]) == (0, 4)  # 0.1, 0.1, 0.1, 0.09
    assert choose_length(worth, [good[0], np.full(4, 0.3)]) == (0, 4)
    assert choose_length(worth, [np.zeros(4)] * 2) == (0, 1)
    assert choose_length(worth, [good[0], np.full(4, 0.97)]) == (0, 4)  # the other is too small
    assert choose_length(worth, [np.full(4, 0.97)] * 2) == (1, 2)


def test_a_frame_far_from_the_draws_widens_the_next_one():
    """Pooled moments of m draws and a frame of weight w: their distance g adds s (1 - s) g g'."""
    draws = np.random.default_rng(0).standard_normal((30, 2)) @ [[1.0, 0.3], [0.0, 0.5]]
    sites, density = FrozenSites(np.ones(1), np.zeros(1)), SimpleNamespace(n_z=0)
    scale, mean, gap = np.array([[0.7, 0.0], [0.2, 0.4]]), draws.mean(0), np.array([2.0, -1.0])
    near, far = (
        _refit(density, draws, Frame(c, scale, sites), 1.0, 10.0) for c in (mean, mean + gap)
    )
    share = 10.0 / 40.0
    covariances = [frame.scale @ frame.scale.T for frame in (near, far)]
    expected = share * (1.0 - share) * np.outer(gap, gap)
    assert np.allclose(covariances[1] - covariances[0], expected, atol=1e-12)
    assert np.allclose(far.center, mean + share * gap)
    pooled = (1.0 - share) * np.cov(draws.T, bias=True) + share * scale @ scale.T
    assert np.allclose(covariances[0], pooled)


def test_a_frame_stays_where_draws_moved_along_a_line():
    density, before = SimpleNamespace(n_z=0), Frame(np.zeros(3), np.eye(3), ())
    still = np.repeat([[0.0, 0.0, 0.0], [1.0, 0.0, -0.5]], 2, axis=0)
    assert _refit(density, still, before, 1.0, 0.0) is before
    draws = np.repeat([[0.0, 0.0, 0.0], [1.0, 2.0, -0.5]], 2, axis=0)
    assert _refit(density, draws, before, 1.0, 0.0) is before
    moved = _refit(
        density, np.vstack([draws, [[0.3, -1.0, 0.2], [0.1, 0.4, 0.9]]]), before, 1.0, 0.0
    )
    np.testing.assert_allclose(moved.center, [0.4, 3.4 / 6.0, 0.1 / 6.0], atol=1e-12)


def labels(n=12, p=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p))
    prior = Hyperprior.log_uniform(0.1, 10.0)
    covariance = SquaredExponential(prior, prior, ard=True)
    return GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), covariance, Logistic())


def density_at(model):
    return JointDensity(model, FrozenSites(np.ones(model.n_cases), np.zeros(model.n_cases)))


def test_mode_is_one_of_the_density_with_its_own_sites_whatever_the_start():
    model = labels(30)
    density = density_at(model)
    modes = [find_mode(density, [x]) for x in (np.zeros(3), np.array([0.8, -0.5, 0.6]))]
    for mode in modes:
        density.sites = mode.sites
        _, slope = value_and_slope(density, mode.x)
        assert np.abs(slope).max() < 0.15  # sites moved once more after the last search
    assert np.abs(modes[0].x - modes[1].x).max() < 0.2
    together = find_mode(density, [np.full(3, np.nan), np.zeros(3)])  # the first has no density
    assert np.abs(together.x - modes[0].x).max() < 1e-6
    with pytest.raises(NumericalError, match="no start has a density that is finite"):
        find_mode(density, [np.full(3, np.nan)])


def test_the_higher_of_two_modes_is_taken_though_sites_differ():
    """A well on either side: 1.3 deeper on the right, where sites' own constants are 40 lower."""

    class Wells:
        n_z, model, sites = 0, None, 0.0

        def evaluate(self, x, z):
            left, right = -0.5 * (x[0] + 2) ** 2 * 9, 1.3 - 0.5 * (x[0] - 2) ** 2 * 9
            high, slope = max((left, -9 * (x[0] + 2)), (right, -9 * (x[0] - 2)))
            rest = high + 0.5 * float(x @ x) - (40.0 if self.sites == "right" else 0.0)
            return SimpleNamespace(rest=rest, slope_x=np.array([slope]) + x)

    starts = [np.array([-1.9]), np.array([2.1])]

    def sites(density, x, start=None):
        return "right" if x[0] > 0 else "left"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_mode, "sites_at", sites)
        for order in (starts, starts[::-1]):
            assert find_mode(Wells(), order).x == pytest.approx([2.0], abs=1e-3)


def test_scale_of_the_curvature_is_never_wider_than_the_prior():
    """log N(x) + rest = -(x - m)'H(x - m) / 2 with one eigenvalue of H below 1."""
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    H = rotation * np.array([0.2, 4.0, 30.0]) @ rotation.T
    density = SimpleNamespace(
        n_z=0, evaluate=lambda x, z: SimpleNamespace(rest=0.0, slope_x=x - H @ (x - 1.0))
    )
    A = curvature_scale(density, np.array([1.1, 0.8, 1.0]))
    expected = rotation / np.array([1.0, 4.0, 30.0]) @ rotation.T
    np.testing.assert_allclose(A @ A.T, expected, rtol=1e-9)
    nowhere = SimpleNamespace(
        n_z=0, evaluate=lambda x, z: SimpleNamespace(rest=-np.inf, slope_x=np.zeros(3))
    )
    assert np.array_equal(curvature_scale(nowhere, np.zeros(3)), np.eye(3))


def test_rounds_fit_frames_and_keep_sites_where_a_fit_fails(monkeypatch, caplog):
    rng, model = np.random.default_rng(0), labels()
    settings, density = JointSplitHMC(rounds=(12, 12, 12)), density_at(model)
    first = first_stage(density, [np.zeros(3)], rng)
    assert first.factor == min(FACTORS)
    fitted = joint_mode.sites_at(density, first.x)
    np.testing.assert_allclose(first.precision, first.factor * fitted.precision)
    second = fit_frame(rng, density, first, settings, 12, 13.0, first=True, last=False)
    assert not np.array_equal(second.precision, first.precision)
    assert not np.array_equal(second.scale, first.scale)
    at_center = joint_mode.sites_at(density, second.center)
    np.testing.assert_allclose(second.shift, second.factor * at_center.shift, rtol=1e-6)

    def fails(*given):
        raise NumericalError("it does not converge")

    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(joint_mode, "frozen_sites", fails)
        third = fit_frame(rng, density, second, settings, 12, 6.0, first=False, last=True)
    assert "keeps its sites, since it does not converge" in caplog.text
    ratio = third.factor / second.factor  # of what was compared after the round
    np.testing.assert_allclose(third.precision, ratio * second.precision)
    assert third.factor == FACTORS[int(np.argmax(third.worth))]
    last = choose_steps(rng, density, third, settings, 12)
    for name in ("center", "scale", "precision", "shift", "factor"):  # what was compared is frozen
        assert np.array_equal(getattr(last, name), getattr(third, name))
    assert last.n_gradient > 9


def test_slowest_correlation_is_that_of_the_slowest_kind():
    rng = np.random.default_rng(0)
    before = rng.standard_normal((4000, 24))
    rho = np.concatenate([[0.1, 0.5], np.linspace(0.0, 0.4, 21), [0.3]])
    after = rho * before + rng.standard_normal((4000, 24))
    assert slowest_correlation(before, after, 2) == pytest.approx(0.5, abs=0.05)
    assert slowest_correlation(before[:, 2:], after[:, 2:], 1) == pytest.approx(0.36, abs=0.05)
    assert slowest_correlation(before[:, [0, 2, 23]], after[:, [0, 2, 23]], 1) == pytest.approx(
        0.3, abs=0.05
    )
    assert slowest_correlation(before, -after, 2) == 0.01
    assert slowest_correlation(before, 3.0 + 2.0 * before, 2) == 0.99  # centred at the mean of h_0


def test_strong_walls_ask_for_weaker_sites():
    """Labels that are certain: with sites as fitted the chain hardly leaves its place."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 3))
    length, signal = Hyperprior.log_uniform(0.5, 50.0), Hyperprior.log_uniform(0.1, 30.0)
    y = np.where(X.sum(1) > 0, 1.0, -1.0)
    model = GPModel(X, y, SquaredExponential(length, signal), Probit())
    density = density_at(model)
    mode = find_mode(density, [np.zeros(2)])
    frame = Frame(mode.x, curvature_scale(density, mode.x), mode.sites)
    target = SplitTarget(density, scaled(frame, 0.1))
    state, states = target.start(rng, mode.x, None), []
    for _ in range(300):
        state, _ = transition(rng, target, state, 0.15, 9, 0.2)
        states.append((target.x(state), state.latents))
    worth = [
        frame_worth(
            rng,
            SplitTarget(density, scaled(frame, factor)),
            states[::5],
            0.15,
            0.8,
            32,
            0.2,
            LARGEST_STEP,
        )
        for factor in (1.0, 0.1)
    ]
    assert worth[1].correlation < worth[0].correlation
    assert all(own.n_gradient > 400 for own in worth)
