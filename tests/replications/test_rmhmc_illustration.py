"""Figure 1's data: both trajectories, acceptance and jumps over 200 starts."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.replications.rmhmc_ais import illustration as study
from gpmcflow.replications.rmhmc_ais.figures import trajectories
from gpmcflow.replications.rmhmc_ais.illustration import MixtureSystem, travel


@pytest.fixture(scope="module")
def tree():
    return study.illustrate(seed=3)[0]


@pytest.fixture(scope="module")
def mixture(tree):
    return tree["mixture"].to_dataset()


def test_the_settings_are_those_of_the_description(mixture):
    assert dict(mixture.sizes) | {"method": 2, "step": 21, "chain": 200} == dict(mixture.sizes)
    np.testing.assert_array_equal(mixture["mean"], [[-2, -2], [0, 1], [3, 1]])
    np.testing.assert_array_equal(mixture["weight"], [0.4, 0.3, 0.3])
    second = mixture["covariance"].values[1]
    np.testing.assert_allclose(second, [[1.0, -1.8], [-1.8, 4.0]])
    assert float(mixture["step_size"].sel({"method": "rmhmc"})) == 0.3
    assert all(name in mixture.coords for name in mixture.dims)


def test_both_methods_start_alike_and_move(mixture):
    paths = mixture["trajectory"].values
    np.testing.assert_array_equal(paths[:, 0], np.repeat(study.START, 2, axis=0))
    assert np.linalg.norm(np.diff(paths, axis=1), axis=2).min() > 0.05


def test_acceptance_is_what_it_is_tuned_to(mixture):
    """HMC 0.7 by tuning, RMHMC near 0.7 as described, both within four standard errors and 0.03."""
    rates = mixture["acceptance_rate"].values[:, :, -1]
    error = rates.std(1, ddof=1) / np.sqrt(200)
    assert abs(rates[0].mean() - 0.7) < 4.0 * error[0]
    assert abs(rates[1].mean() - 0.7) < 4.0 * error[1] + 0.03
    unsolved = mixture["unsolved"].values[:, :, -1]
    assert not unsolved[0].any()  # nothing to solve with mass I
    assert unsolved[1].any()
    assert not rates[1][unsolved[1] == 1].any()


def test_jumps_are_acceptance_times_squared_distance(mixture):
    rng = np.random.default_rng([3, 1])
    target = study.three_gaussians()
    starts = target.simulate(rng, 200)
    normals = rng.standard_normal((200, 2))
    found = travel(MixtureSystem(target), starts, normals, 0.3, 7, study.SOLVER)
    away = ((found.position[:, 7] - starts) ** 2).sum(1)
    jumps = mixture["squared_jump"].sel({"method": "rmhmc", "step": 7}).values
    np.testing.assert_allclose(jumps, found.acceptance_rate[:, 7] * away, atol=1e-9)


def test_twenty_steps_are_a_period_of_the_metric(mixture):
    """20 steps of 0.3 are a time of 6, nearly 2 pi: trajectories are on their way back."""
    jumps = mixture["squared_jump"].sel({"method": "rmhmc"}).values.mean(0)
    assert np.argmax(jumps) in range(7, 14)
    assert jumps[20] < 0.6 * jumps.max()


def test_same_seed_same_data(tree, mixture):
    again = study.illustrate(seed=3)[0]
    assert again["mixture"].to_dataset().identical(mixture)
    assert tree.attrs["seed"] == again.attrs["seed"]


def test_the_figure_is_made_of_the_data(tree):
    figure = trajectories(tree["mixture"].to_dataset())
    assert len(figure.axes) == 3
