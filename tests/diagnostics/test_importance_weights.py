from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.diagnostics.importance_weights import (
    conditional_effective_size,
    effective_size,
    estimate_evidence,
    normalised_weights,
)
from gpmcflow.evidence.alarms import weight_alarms


@pytest.fixture
def log_weights():
    return np.random.default_rng(0).normal(-3.0, 0.8, 60)


def estimate(log_weights, seed=0):
    return estimate_evidence(log_weights, np.random.default_rng(seed))


def test_against_direct_formulas(log_weights):
    found, w = estimate(log_weights), np.exp(log_weights)
    size = w.sum() ** 2 / (w**2).sum()
    assert found.log_evidence == pytest.approx(np.log(w.mean()), rel=1e-12)
    assert found.effective_size == pytest.approx(size, rel=1e-12)
    # sqrt((P / ESS - 1) / (P - 1)) is the coefficient of variation of the mean
    assert found.standard_error == pytest.approx(w.std(ddof=1) / w.mean() / np.sqrt(60), rel=1e-12)
    assert found.mean_log_weight == pytest.approx(log_weights.mean())
    assert found.sd_log_weight == pytest.approx(log_weights.std(ddof=1))
    assert found.max_weight == pytest.approx(w.max() / w.sum())
    assert found.n_particles == 60


@pytest.mark.parametrize("shift", [-1e5, -800.0, 900.0])
def test_weights_beyond_the_range_of_floats(log_weights, shift):
    plain, moved = estimate(log_weights), estimate(log_weights + shift)
    assert moved.log_evidence == pytest.approx(plain.log_evidence + shift, rel=1e-12)
    assert moved.bootstrap_low == pytest.approx(plain.bootstrap_low + shift, rel=1e-9)
    for name in ("standard_error", "effective_size", "max_weight", "sd_log_weight"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), rel=1e-8)


def test_standard_error_is_the_spread_over_repeats():
    rng = np.random.default_rng(1)
    found = [estimate(rng.normal(0.0, 0.7, 100)) for _ in range(250)]
    spread = np.std([e.log_evidence for e in found])
    assert np.mean([e.standard_error for e in found]) == pytest.approx(spread, rel=0.15)
    assert np.mean([e.log_evidence for e in found]) == pytest.approx(0.245, abs=0.02)


def test_bootstrap_interval_against_resampled_indices(log_weights):
    found = estimate(log_weights)
    rows = np.random.default_rng(5).integers(0, 60, (20_000, 60))
    low, high = np.percentile(np.log(np.exp(log_weights)[rows].mean(1)), [2.5, 97.5])
    width = high - low
    assert found.bootstrap_low == pytest.approx(low, abs=0.08 * width)
    assert found.bootstrap_high == pytest.approx(high, abs=0.08 * width)
    assert found.bootstrap_low < found.log_evidence < found.bootstrap_high
    assert estimate(log_weights, 3).bootstrap_low != found.bootstrap_low
    assert estimate(log_weights, 0) == found


def test_bootstrap_interval_covers():
    """95 % interval of log mean w for log-normal weights: it holds log E w about that often."""
    rng, inside = np.random.default_rng(2), 0
    for _ in range(250):
        found = estimate(rng.normal(-0.125, 0.5, 80), 1)  # E w = 1
        inside += found.bootstrap_low <= 0.0 <= found.bootstrap_high
    assert 0.89 < inside / 250 < 0.98


@pytest.mark.filterwarnings(
    "ignore:invalid value:RuntimeWarning"
)  # they have no standard deviation
def test_weights_without_a_finite_share():
    """Particles of weight zero count as such; resamples that hold no other give -inf, not nan."""
    found = estimate(np.array([-np.inf, -np.inf, -np.inf, 0.0]))
    assert found.log_evidence == pytest.approx(np.log(0.25))
    assert found.bootstrap_low == -np.inf
    assert found.effective_size == pytest.approx(1.0)


def test_equal_weights_have_full_size_and_no_error():
    found = estimate(np.full(20, -7.0))
    assert found.effective_size == pytest.approx(20.0)
    assert found.standard_error == pytest.approx(0.0, abs=1e-7)
    assert found.bootstrap_low == pytest.approx(-7.0)
    assert weight_alarms(found.effective_size, found.max_weight) == []


def test_sizes_over_the_last_axis(log_weights):
    stacked = log_weights.reshape(3, 20)
    np.testing.assert_allclose(effective_size(stacked), [float(effective_size(r)) for r in stacked])
    np.testing.assert_allclose(normalised_weights(stacked).sum(-1), 1.0)


def test_conditional_effective_size(log_weights):
    v = np.exp(0.3 * log_weights)
    W = np.random.default_rng(3).exponential(size=60)
    expected = (W @ v) ** 2 / (W @ v**2) / W.sum()
    found = conditional_effective_size(np.log(W) + 4.0, 0.3 * log_weights)
    assert found == pytest.approx(expected, rel=1e-12)
    assert conditional_effective_size(np.log(W), np.full(60, -2.0)) == pytest.approx(1.0)


def test_alarms_are_silent_for_good_weights(log_weights):
    assert estimate(log_weights).effective_size > 10.0
    found = estimate(log_weights)
    assert weight_alarms(found.effective_size, found.max_weight) == []


def test_alarm_of_a_small_effective_size():
    found = estimate(np.random.default_rng(0).normal(0.0, 6.0, 200))
    assert found.effective_size < 10.0
    assert any(
        "effective size" in alarm and "< 10" in alarm
        for alarm in weight_alarms(found.effective_size, found.max_weight)
    )


def test_alarm_of_one_large_weight():
    found = estimate(np.append(np.zeros(100), 7.0))
    assert found.max_weight > 0.5
    assert any(
        "largest weight 0.92 > 0.5" in alarm
        for alarm in weight_alarms(found.effective_size, found.max_weight)
    )
