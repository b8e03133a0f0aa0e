"""95 % intervals of evidence estimates: Student's t where the error is a spread, and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.diagnostics.importance_weights import bootstrap_interval
from gpmcflow.evidence.estimates import half_width, interval_columns
from gpmcflow.evidence.importance_sampling import importance_sampling
from gpmcflow.evidence.ladder_estimates import (
    ESTIMATORS,
    bootstrap_intervals,
    bridge,
    stepping_stones,
    thermodynamic_integration,
)
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.evidence.schedule import Schedule, linear, power
from gpmcflow.evidence.sequential_monte_carlo import particle_evidence, resample_move
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import PreconditionedSplitHMC

SAMPLER = PreconditionedSplitHMC(0.3, 2)


def test_half_widths():
    np.testing.assert_allclose(
        half_width([7, np.inf, np.nan]), [2.364624, 1.959964, 1.959964], rtol=1e-6
    )
    columns = interval_columns(np.array([-3.0, -5.0]), [0.1, 0.0], 7)
    np.testing.assert_allclose(columns["interval_low"], [-3.2364624, -5.0], rtol=1e-6)
    np.testing.assert_allclose(columns["interval_high"], [-2.7635376, -5.0], rtol=1e-6)
    assert columns["degrees_of_freedom"].tolist() == [7.0, 7.0]


@pytest.fixture(scope="module")
def stages(request):
    model = request.getfixturevalue("one_factor")(20, 12)[0]
    path = TemperedPath(expectation_propagation(model).sites)
    schedule = Schedule.constant(linear(2), SAMPLER)
    tree = resample_move(path, SAMPLER, schedule, n_particles=60, n_replicates=8)
    return tree["sequential_monte_carlo"].to_dataset()


def test_intervals_of_eight_replicates_cover(stages):
    """Log-normal estimates of Z = 1 of eight replicates: read as normal, the interval is too short."""
    rng, covered, normal = np.random.default_rng(1), 0, 0
    for _ in range(400):
        stages["log_increment"][:] = 0.0
        stages["log_increment"][:, 0] = 0.4 * rng.standard_normal(8) - 0.08
        evidence = particle_evidence(stages)
        covered += bool(evidence["interval_low"] < 0.0 < evidence["interval_high"])
        normal += bool(abs(evidence["log_evidence"]) < 1.96 * evidence["standard_error"])
        assert evidence["bootstrap_low"] <= evidence["log_evidence"] <= evidence["bootstrap_high"]
    assert 0.92 < covered / 400 < 0.98
    assert normal / 400 < 0.925


def ladder(seed: int, n_chains: int, n_draws: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Exact draws of u = -1.5 x^2 along a ladder from N(0, 1); log Z is -log(2)."""
    betas = power(6, 2.0)
    x = np.random.default_rng(seed).standard_normal((n_chains, len(betas), n_draws))
    return betas, -1.5 * (x / np.sqrt(1.0 + 3.0 * betas)[:, None]) ** 2


def test_a_bootstrap_of_chains_is_that_of_the_pooled_estimates():
    betas, u = ladder(1, 5)

    class Chosen:
        """Stands for a generator; each resample is the same one."""

        def multinomial(self, n, p, size):
            return np.tile([2, 0, 1, 1, 1], (size, 1))

    low, high = bootstrap_intervals(betas, u, Chosen())
    pooled = u[[0, 0, 2, 3, 4]].transpose(1, 0, 2).reshape(len(betas), -1)
    expected = [stepping_stones(betas, pooled), thermodynamic_integration(betas, pooled)]
    np.testing.assert_allclose(low[:2], expected, rtol=1e-12)
    np.testing.assert_allclose(high[:2], expected, rtol=1e-12)
    gain = bridge(betas, pooled) - bridge(betas, u.transpose(1, 0, 2).reshape(len(betas), -1))
    moved = low[2] - bridge(betas, u.transpose(1, 0, 2).reshape(len(betas), -1))
    assert abs(moved - gain) < 0.1 * abs(gain)  # linear in the shares


def test_a_bootstrap_of_many_chains_covers():
    covered = np.zeros(len(ESTIMATORS))
    for seed in range(400):
        betas, u = ladder(seed, 40, 12)
        low, high = bootstrap_intervals(betas, u, np.random.default_rng(seed))
        covered += (low < -np.log(2.0)) & (-np.log(2.0) < high)
    assert all((covered / 400 > 0.9) & (covered / 400 < 0.985))


@pytest.mark.parametrize(
    ("route", "settings", "df"),
    [
        ("annealing", {"n_temperatures": 3, "n_particles": 40}, 39),
        ("importance_sampling", {"n_draws": 60}, 59),
        (
            "parallel_tempering",
            {"n_temperatures": 3, "n_draws": 20, "n_warmup": 4, "n_replicates": 8},
            7,
        ),
        ("sequential_monte_carlo", {"n_temperatures": 3, "n_particles": 30, "n_replicates": 8}, 7),
    ],
)
def test_every_route_has_them(one_factor, route, settings, df):
    fit = expectation_propagation(one_factor(20, 12)[0])
    evidence = log_evidence(fit, route, SAMPLER, seed=4, **settings)["evidence"].to_dataset()
    assert np.all(evidence["degrees_of_freedom"] == df)
    width = half_width(df) * evidence["standard_error"]
    np.testing.assert_allclose(evidence["interval_high"] - evidence["log_evidence"], width)
    np.testing.assert_allclose(evidence["log_evidence"] - evidence["interval_low"], width)
    assert np.all(evidence["bootstrap_low"] <= evidence["bootstrap_high"])
    again = log_evidence(fit, route, SAMPLER, seed=4, **settings)["evidence"].to_dataset()
    assert again.equals(evidence)


def test_the_bootstrap_of_importance_sampling_is_of_its_weights(one_factor):
    q = expectation_propagation(one_factor(20, 12)[0]).sites
    tree = importance_sampling(q, n_draws=200, seed=2)
    low, high = bootstrap_interval(tree["importance/log_weight"].values, np.random.default_rng(0))
    plain = tree["evidence"].to_dataset().sel(estimator="plain")
    width = high - low
    assert abs(plain["bootstrap_low"] - low) < 0.2 * width
    assert abs(plain["bootstrap_high"] - high) < 0.2 * width
