from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.adaptation import joint_pilot
from gpmcflow.samplers.adaptation.joint_pilot import (
    LARGEST_STEP,
    _refit,
    adapt,
    first_round,
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
    near, far = (_refit(density, draws, Frame(c, scale, sites), 10.0) for c in (mean, mean + gap))
    share = 10.0 / 40.0
    covariances = [frame.scale @ frame.scale.T for frame in (near, far)]
    expected = share * (1.0 - share) * np.outer(gap, gap)
    assert np.allclose(covariances[1] - covariances[0], expected, atol=1e-12)
    assert np.allclose(far.center, mean + share * gap)
    alone = _refit(density, draws, Frame(mean, scale, sites), 0.0).scale
    pooled = (1.0 - share) * alone @ alone.T + share * scale @ scale.T
    assert np.allclose(covariances[0], pooled)


def test_rounds_fit_frames_and_keep_sites_where_a_fit_fails(monkeypatch, caplog):
    rng = np.random.default_rng(0)
    X = rng.random((12, 2))
    prior = Hyperprior.log_uniform(0.1, 10.0)
    covariance = SquaredExponential(prior, prior, ard=True)
    model = GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), covariance, Logistic())
    settings = JointSplitHMC(rounds=(12, 12, 9))
    density = JointDensity(model, FrozenSites(np.ones(12), np.zeros(12)))
    first = first_round(model, density, np.zeros(3), np.zeros(12))
    second = adapt(rng, density, first, settings, 0)
    assert not np.array_equal(second.frame.sites.precision, first.frame.sites.precision)
    assert not np.array_equal(second.frame.scale, first.frame.scale)

    def fails(*given):
        raise NumericalError("it does not converge")

    monkeypatch.setattr(joint_pilot, "frozen_sites", fails)
    with caplog.at_level(logging.WARNING):
        third = adapt(rng, density, second, settings, 1)
    assert np.array_equal(third.frame.sites.precision, second.frame.sites.precision)
    assert "keeps its sites, since it does not converge" in caplog.text
    last = adapt(rng, density, third, settings, 2)
    for name in ("center", "scale", "precision", "shift"):  # what was compared is what is frozen
        assert np.array_equal(getattr(last, name), getattr(third, name))
    assert last.n_gradient > 9


def test_a_frame_stays_where_draws_moved_along_a_line():
    before = Frame(np.zeros(3), np.eye(3), ())
    draws = np.repeat([[0.0, 0.0, 0.0], [1.0, 2.0, -0.5]], 2, axis=0)
    assert _refit(SimpleNamespace(n_z=0), draws, before, 0.0) is before
    moved = _refit(SimpleNamespace(n_z=0), np.vstack([draws, [[0.3, -1.0, 0.2]]]), before, 0.0)
    np.testing.assert_allclose(moved.center, [0.46, 0.6, -0.16])
