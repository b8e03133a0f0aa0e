from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from gpmcflow.approximations import frozen_sites
from gpmcflow.approximations.search import value_and_slope
from gpmcflow.covariances.leaves import Matern32, SquaredExponential, White
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Probit, StudentT
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.adaptation import joint_mode
from gpmcflow.samplers.adaptation.joint_mode import curvature_scale, find_mode
from gpmcflow.samplers.adaptation.joint_pilot import (
    LARGEST_STEP,
    first_stage,
    refit,
    run_round,
)
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.problem import pilot_starts

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


def test_a_frame_far_from_the_draws_widens_the_next_one():
    """Pooled moments of m draws and a frame of weight w: their distance g adds s (1 - s) g g'."""
    draws = np.random.default_rng(0).standard_normal((30, 2)) @ [[1.0, 0.3], [0.0, 0.5]]
    sites, density = FrozenSites(np.ones(1), np.zeros(1)), SimpleNamespace(n_z=0)
    scale, mean, gap = np.array([[0.7, 0.0], [0.2, 0.4]]), draws.mean(0), np.array([2.0, -1.0])
    near, far = (refit(density, draws, Frame(c, scale, sites), 10.0) for c in (mean, mean + gap))
    share = 10.0 / 40.0
    covariances = [frame.scale @ frame.scale.T for frame in (near, far)]
    expected = share * (1.0 - share) * np.outer(gap, gap)
    assert np.allclose(covariances[1] - covariances[0], expected, atol=1e-12)
    assert np.allclose(far.center, mean + share * gap)
    pooled = (1.0 - share) * np.cov(draws.T, bias=True) + share * scale @ scale.T
    assert np.allclose(covariances[0], pooled)


def test_a_frame_stays_where_draws_did_not_move():
    density, before = SimpleNamespace(n_z=0), Frame(np.zeros(3), np.eye(3), ())
    still = np.repeat([[0.0, 0.0, 0.0], [1.0, 0.0, -0.5]], 2, axis=0)  # never by the second
    assert refit(density, still, before, 5.0) is before
    moved = refit(density, np.vstack([still, [[0.3, -1.0, 0.2]]]), before, 0.0)
    np.testing.assert_allclose(moved.center, [0.46, -0.2, -0.16])


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
        _, slope = value_and_slope(density, mode.x, True)
        assert np.abs(slope).max() < 0.15  # sites moved once more after the last search
    assert np.abs(modes[0].x - modes[1].x).max() < 0.2
    together = find_mode(density, [np.full(3, np.nan), np.zeros(3)])  # the first has no density
    assert np.abs(together.x - modes[0].x).max() < 1e-6
    far = find_mode(density, [np.array([0.0, -9.0, 0.0])])  # beyond the ends of the search
    assert np.isfinite(far.x).all()
    with pytest.raises(NumericalError, match="no start has a density that is finite"):
        find_mode(density, [np.full(3, np.nan)])


def test_the_higher_of_two_modes_is_taken_though_sites_differ():
    """A well on either side: 1.3 deeper on the right, where sites' own constants are 40 lower."""

    class Wells:
        n_z, model, sites = 1, None, "none"

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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_heavy_tails_have_their_mode_where_noise_is_noise(seed):
    """Searches at frozen sites ended at a scale of 0.001 of 0.3: all noise was a function of x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (60, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(3.0 * X[:, 1])
    model = GPModel(X, f + 0.3 * rng.standard_t(3, 60), Matern32(), StudentT())
    starts = [model.parameters.to_normal(theta) for theta in pilot_starts(model, rng)]
    density = density_at(model)
    for order in (starts, starts[::-1]):
        mode = find_mode(density, order)
        own = model.natural(density.coordinates.theta(mode.x)[0])
        assert 0.15 < own["scale"] < 0.45
        assert own["length_scale"] > 0.5
        np.testing.assert_array_equal(density.sites.shift, mode.sites.shift)
        fitted = joint_mode.sites_at(density, mode.x)
        np.testing.assert_allclose(mode.sites.precision, fitted.precision, rtol=1e-3, atol=1e-6)


def test_heavy_tails_on_a_grid_have_their_mode_where_noise_is_noise():
    rng, axis = np.random.default_rng(1), np.linspace(-1.7, 1.7, 12)
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    f = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(3.0 * X[:, 1])
    covariance = SquaredExponential(columns=0) * SquaredExponential(columns=1, signal_sd=1.0)
    y = f + 0.3 * rng.standard_t(3, len(X))
    model = GPModel(X, y, covariance, StudentT(), structure="kronecker")
    starts = [model.parameters.to_normal(theta) for theta in pilot_starts(model, rng)]
    density = density_of(model, joint_mode.plain_sites(model))
    mode = find_mode(density, starts)
    own = model.natural(density.coordinates.theta(mode.x)[0])
    assert 0.15 < own["scale"] < 0.45
    assert mode.sites.precision.shape == (144,)


def test_the_mode_of_many_rows_with_heavy_tails_is_that_of_some(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.7, 1.7, 90)
    model = GPModel(x, np.sin(2.0 * x) + 0.3 * rng.standard_t(3, 90), Matern32(), StudentT())
    taken = []
    monkeypatch.setattr(joint_mode, "SOME_ROWS", 30)
    take = GPModel.take
    monkeypatch.setattr(GPModel, "take", lambda own, rows: taken.append(rows) or take(own, rows))
    mode = find_mode(density_at(model), [model.parameters.to_normal(model.prior_median())])
    assert [len(rows) for rows in taken] == [30]
    assert (taken[0][0], taken[0][-1]) == (0, 89)
    assert mode.sites.precision.shape == (90,)


def test_where_ep_has_no_fit_searches_at_frozen_sites_are_left(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.7, 1.7, 20)
    model = GPModel(x, np.sin(2.0 * x), Matern32(), StudentT(df=4.0))
    start = model.parameters.to_normal(model.prior_median())
    monkeypatch.setattr(joint_mode, "more_modes", lambda *_: [])
    searched, search = [], joint_mode._search
    monkeypatch.setattr(joint_mode, "_search", lambda own, x: searched.append(x) or search(own, x))
    assert np.isfinite(find_mode(density_at(model), [start]).x).all()
    assert len(searched) == 1


def test_sites_of_one_case_at_a_time_where_ep_does_not_converge(monkeypatch, caplog):
    """Under a diagonal covariance they are EP's own, of labels and of counts with a mean; a start goes on.

    A search says nothing of that; a round whose chains go on with such sites does.
    """

    def fails(*given, **settings):
        raise NumericalError("expectation propagation: no")

    x = np.arange(6.0)
    mean = Hyperprior("norm", {"scale": 1.0})
    for likelihood, y in ((Probit(), np.array([1.0, 1, -1, 1, -1, -1])), (Gaussian(), x / 3.0)):
        model = GPModel(x, y, White(), likelihood, mean=mean)
        theta = np.array([0.4, -0.7, -0.2][: model.dim])
        fitted = frozen_sites.frozen_sites(model, theta)
        with monkeypatch.context() as patch:
            patch.setattr(frozen_sites, "expectation_propagation", fails)
            alone = frozen_sites.frozen_sites(model, theta)
        for own, expected in zip(alone, fitted, strict=True):
            np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-9, err_msg=likelihood.name)
    model = labels(20)
    exact = first_stage(density_at(model), [np.zeros(3)], np.random.default_rng(0))
    caplog.clear()
    monkeypatch.setattr(frozen_sites, "expectation_propagation", fails)
    stage = first_stage(density_at(model), [np.zeros(3)], np.random.default_rng(0))
    assert np.abs(stage.x - exact.x).max() < 1.0
    assert not caplog.text
    draws = stage.x + 0.1 * np.random.default_rng(0).standard_normal((30, 3))
    refit(density_at(model), draws, stage.frame, 10.0)
    assert caplog.text.count("sites are those of one case at a time") == 1


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


def test_rounds_tune_the_step_and_frames_keep_sites_where_a_fit_fails(caplog):
    rng, model = np.random.default_rng(0), labels()
    settings, density = JointSplitHMC(), density_at(model)
    first = first_stage(density, [np.zeros(3)], rng)
    fitted = joint_mode.sites_at(density, first.x)
    np.testing.assert_allclose(first.precision, 0.25 * fitted.precision)  # of labels: walls
    stage, draws = run_round(rng, density, first, settings, 60)
    assert np.array_equal(draws[-1], stage.x)
    assert stage.n_steps == round(2.0 / stage.step_size)
    assert stage.n_gradient > 60
    assert np.array_equal(stage.frame.scale, first.frame.scale)
    frame = refit(density, draws, stage.frame, 13.0)
    assert not np.array_equal(frame.scale, stage.frame.scale)
    at_center = joint_mode.sites_at(density, frame.center)
    np.testing.assert_allclose(frame.sites.shift, 0.25 * at_center.shift, rtol=1e-6)

    def fails(*given, **settings):
        raise NumericalError("it does not converge")

    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(joint_mode, "frozen_sites", fails)
        again = refit(density, draws + 0.1, stage.frame, 6.0)
    assert "keeps its sites, since it does not converge" in caplog.text
    assert np.array_equal(again.sites.precision, stage.precision)
    assert not np.array_equal(again.center, stage.center)


def test_the_settled_step_has_the_acceptance_that_was_asked_for():
    """The mean of six settled steps: one alone is off by 0.03, which rounding of a machine decides."""
    rng, model = np.random.default_rng(1), labels(30)
    density = density_at(model)
    stage = first_stage(density, [np.zeros(3)], rng)
    for length in (100, 200):
        stage, draws = run_round(rng, density, stage, JointSplitHMC(), length)
        stage = stage.with_frame(refit(density, draws, stage.frame, 20.0))
    means = []
    for target in (0.6, 0.9):
        rates = []
        for _ in range(6):
            settled, _ = run_round(rng, density, stage, JointSplitHMC(target), 600)
            chain = SplitTarget(density, settled.frame)
            state = chain.start(rng, settled.x, settled.latents)
            for _ in range(200):
                state, info = transition(rng, chain, state, settled.step_size, settled.n_steps, 0.2)
                rates.append(info.acceptance_rate)
        means.append(np.mean(rates))
    assert means == pytest.approx([0.6, 0.9], abs=0.08)
