"""Shares that last longer than a time: by hand, and as the product limit where times are only cut off."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.numerics.product_limit import kaplan_meier, share_lasting, turnbull


def test_kaplan_meier_by_hand():
    ends, share = kaplan_meier(np.array([1.0, 2.0, 2.0, 3.0, 5.0]), np.array([1, 1, 0, 0, 1.0]))
    np.testing.assert_array_equal(ends, [1.0, 2.0, 5.0])
    np.testing.assert_allclose(share, [4 / 5, 3 / 5, 0.0])


def test_turnbull_by_hand():
    """(0, 1], (0, 2], (1, 2], (2, inf): p (p + q) q (1 - p - q) is largest at p = q = 3/8."""
    low, high = np.array([0.0, 0.0, 1.0, 2.0]), np.array([1.0, 2.0, 2.0, np.inf])
    ends, share = turnbull(low, high)
    np.testing.assert_array_equal(ends, [1.0, 2.0])
    np.testing.assert_allclose(share, [5 / 8, 2 / 8], atol=1e-7)


def test_an_exact_time_is_not_within_an_interval_that_begins_there():
    """Of (2, 3] and 2 half is left after 2; an interval that held its lower end would leave none."""
    ends, share = turnbull(np.array([2.0, 2.0]), np.array([2.0, 3.0]))
    np.testing.assert_array_equal(ends, [2.0, 3.0])
    np.testing.assert_allclose(share, [0.5, 0.0], atol=1e-9)


def test_turnbull_of_times_that_are_only_cut_off_is_kaplan_meier():
    rng = np.random.default_rng(3)
    time, event = np.ceil(20.0 * rng.standard_exponential(60)), rng.random(60) < 0.6
    ends, share = kaplan_meier(time, event)
    high = np.where(event, time, np.inf)
    found, own = turnbull(time, high)
    np.testing.assert_array_equal(found, ends)
    np.testing.assert_allclose(own, share, atol=1e-6)
    np.testing.assert_array_equal(share_lasting(time, high)[1], share)


def test_turnbull_is_most_likely():
    """No share can be moved to any end, also one without a share, so that the intervals are more probable."""
    rng, n = np.random.default_rng(4), 60
    visits = np.cumsum(rng.uniform(0.1, 0.6, (n, 5)), axis=1)
    place = (rng.standard_exponential(n)[:, None] > visits).sum(1)
    padded = np.column_stack([np.zeros(n), visits, np.full(n, np.inf)])
    low, high = padded[np.arange(n), place], padded[np.arange(n), place + 1]
    ends, longer = turnbull(low, high)
    assert 3 < len(ends) < n / 2

    def lasting(times):
        return np.append(1.0, longer)[np.searchsorted(ends, times, "right")] * np.isfinite(times)

    probability = lasting(low) - lasting(high)
    slopes = [(1.0 / probability[(low < end) & (end <= high)]).sum() for end in np.unique(high)]
    assert max(slopes) == pytest.approx(n, rel=1e-3)
