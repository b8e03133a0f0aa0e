"""Bennett's bridge: exact cases, symmetry, error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from gpmcflow.evidence import ladder_estimates
from gpmcflow.evidence.bridge import bridge, bridge_ratio, bridge_terms

SHIFT, SCALE, LOG_RATIO = 0.8, 1.3, 2.5


def log_ratio(x: np.ndarray) -> np.ndarray:
    """l of N(0, 1) and e^2.5 N(0.8, 1.3^2)."""
    return norm.logpdf(x, SHIFT, SCALE) + LOG_RATIO - norm.logpdf(x)


def ends(seed: int, n_lower: int, n_upper: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lower = rng.standard_normal(n_lower)
    return log_ratio(lower), log_ratio(SHIFT + SCALE * rng.standard_normal(n_upper))


@pytest.mark.parametrize("numbers", [(400.0, 100.0), (400.0, 7.5)])
def test_root_is_the_fixed_point_of_meng_and_wong(numbers):
    lower, upper = ends(0, 400, 100)
    n_lower, n_upper = numbers
    s_lower, s_upper = n_lower / sum(numbers), n_upper / sum(numbers)
    r = 0.0
    for _ in range(2000):
        above = np.exp(lower) / (s_upper * np.exp(lower) + s_lower * np.exp(r))
        below = 1.0 / (s_upper * np.exp(upper) + s_lower * np.exp(r))
        r = np.log(above.mean() / below.mean())
    assert bridge_ratio(lower, upper, *numbers) == pytest.approx(r, abs=1e-10)


def test_exchange_of_the_ends_changes_the_sign():
    lower, upper = ends(1, 300, 50)
    forward = bridge_ratio(lower, upper, 300.0, 20.0)
    assert bridge_ratio(-upper, -lower, 20.0, 300.0) == pytest.approx(-forward, abs=1e-10)


def test_a_bridge_is_the_same_to_the_bit_however_many_are_computed_with_it():
    pairs = [ends(seed, 60, 60) for seed in range(300)]
    lower, upper = (np.stack(end) for end in zip(*pairs, strict=True))
    together = bridge_ratio(lower, upper)
    alone = [float(bridge_ratio(*pair)) for pair in pairs]
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("constant", [-700.0, 0.0, 1234.5])
def test_a_constant_is_exact(constant):
    at = bridge(np.full(40, constant), np.full(30, constant))
    assert at.log_ratio == pytest.approx(constant, abs=1e-9)
    assert at.standard_error == pytest.approx(0.0, abs=1e-12)


def test_ends_without_any_overlap_have_terms_that_say_so():
    """A chain that stands still far off: zero over zero, were the terms not taken in logs."""
    lower, _ = ends(4, 400, 400)
    at = bridge(lower, np.full(250, 1.2e5))
    assert lower.max() < at.log_ratio < 1.2e5
    assert np.all(np.isfinite(at.terms.lower))
    assert at.terms.lower.mean() == pytest.approx(1.0)
    assert np.all(at.terms.upper == 1.0)
    assert at.variance > 0.0
    assert at.largest_share == np.inf


def test_a_draw_of_weight_zero_counts_as_such():
    lower, upper = ends(2, 400, 400)
    with_zero = np.append(lower, -np.inf)
    a = bridge_ratio(with_zero, upper, 401.0, 400.0)
    r = float(a)
    m = np.log(401.0 / 400.0)
    above = 401.0 * np.append(1.0 / (1.0 + np.exp(r + m - lower)), 0.0).mean()
    below = 400.0 * (1.0 / (1.0 + np.exp(upper - r - m))).mean()
    assert above == pytest.approx(below, rel=1e-9)
    assert np.isnan(bridge_ratio(np.full(5, -np.inf), upper))
    assert np.isnan(bridge_ratio(np.array([np.nan, 1.0]), upper))


def test_error_is_that_of_many_bridges():
    """Draws of the upper end are a chain of autocorrelation 0.8: its time, 9, is that of x, not of b."""
    values, errors = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x, steps = np.empty(600), rng.standard_normal(600)
        x[0] = steps[0]
        for k in range(1, 600):
            x[k] = 0.8 * x[k - 1] + 0.6 * steps[k]
        at = bridge(log_ratio(rng.standard_normal(500)), log_ratio(SHIFT + SCALE * x))
        values.append(at.log_ratio)
        errors.append(at.standard_error)
    spread = np.std(values)
    assert np.mean(errors) == pytest.approx(spread, rel=0.15)
    assert abs(np.mean(values) - LOG_RATIO) < 3.5 * spread / np.sqrt(300)


def test_terms_are_bounded_and_say_where_one_more_draw_moves_the_estimate():
    lower, upper = ends(3, 200, 60)
    numbers = 200.0, 60.0
    r = bridge_ratio(lower, upper, *numbers)
    terms = bridge_terms(lower, upper, r, *numbers)
    assert terms.lower.mean() == pytest.approx(1.0)
    assert np.all(terms.lower <= terms.lower_limit)
    assert np.all(terms.upper <= terms.upper_limit)
    for k in (lower.argmin(), lower.argmax()):
        more = bridge_ratio(np.append(lower, lower[k]), upper, *numbers)
        assert np.sign(more - r) == np.sign(terms.lower[k] - 1.0) != 0
    for k in (upper.argmin(), upper.argmax()):
        more = bridge_ratio(lower, np.append(upper, upper[k]), *numbers)
        assert np.sign(more - r) == np.sign(1.0 - terms.upper[k]) != 0


def test_a_ladder_sums_its_pairs():
    """Normal densities of precision 1 + beta c: r_t by each pair, and all of it -log(1 + c) / 2."""
    betas, c = np.array([0.0, 0.2, 0.6, 1.0]), 5.0
    x = np.random.default_rng(0).standard_normal((3, 4, 4000))
    u = -0.5 * c * (x / np.sqrt(1.0 + c * betas)[:, None]) ** 2
    expected = -0.5 * np.log((1.0 + c * betas[1:]) / (1.0 + c * betas[:-1]))
    assert np.allclose(ladder_estimates.pair_ratios(betas, u), expected, atol=0.05)
    whole = ladder_estimates.bridge(betas, u)
    error = ladder_estimates.batch_means_error(ladder_estimates.influence(betas, u, "bridge"))
    assert np.all(np.abs(whole + 0.5 * np.log(1.0 + c)) < 4.0 * error)
    assert np.all(error < 0.02)
    one = np.diff(betas)[1] * u[0, 1:3]
    assert whole[0] - ladder_estimates.pair_ratios(betas, u)[0, [0, 2]].sum() == pytest.approx(
        float(bridge_ratio(one[0], one[1])), abs=1e-9
    )
    plain = logsumexp(u[0, 0]) - np.log(4000)
    assert abs(plain - whole[0]) < 0.2
