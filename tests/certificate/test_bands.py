"""Bands: their level is what they say, by simulation and by enumeration."""

from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np
import pytest

from gpmcflow.certificate.bands import counts_below, p_value, simultaneous_band
from gpmcflow.certificate.certificate import Certificate, results_of
from gpmcflow.certificate.fits import compared


def left(values: np.ndarray, false_alarms: float) -> bool:
    band = simultaneous_band(len(values), false_alarms)
    shares = counts_below(values) / len(values)
    return bool(((shares < band.low - 1e-9) | (shares > band.high + 1e-9)).any())


def test_p_values_are_sums_over_all_ways_to_fill_the_cells():
    """n = 4: each way to put 4 values into 4 cells has probability 4! / (k_1! ..) / 4^4."""
    ways = [cells for cells in product(range(5), repeat=4) if sum(cells) == 4]
    weights = [24.0 / np.prod([factorial(k) for k in cells]) / 256.0 for cells in ways]
    values = [np.repeat((np.arange(4) + 0.5) / 4, cells) for cells in ways]
    p = np.array([p_value(own) for own in values])
    assert np.isclose(sum(weights), 1.0)
    for each in np.unique(p):
        assert np.isclose(np.dot(weights, p <= each + 1e-12), each)


@pytest.mark.parametrize("n", [20, 100])
def test_a_band_is_left_where_the_p_value_says_so(n):
    rng = np.random.default_rng(1)
    values = [rng.beta(1.0, b, n) for b in np.linspace(0.7, 1.4, 60)]
    by_band = [left(own, 0.05) for own in values]
    assert by_band == [p_value(own) <= 0.05 for own in values]
    assert 5 < sum(by_band) < 55


def test_right_ranks_leave_the_band_as_often_as_it_says():
    """200 repeats of 100 ranks of an exact sampler among 99 of its draws."""
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(200):
        truth, draws = rng.standard_normal((100, 1)), rng.standard_normal((100, 99))
        ranks = (draws < truth).sum(1)
        alarms += left((ranks + rng.random(100)) / 100, 0.05)
    assert 4 <= alarms <= 17  # 2 to 8.5 %


def test_a_single_value_says_nothing():
    assert p_value(np.array([0.5])) == 1.0


def test_a_certificate_of_exact_draws_rarely_fails():
    """200 certificates of three quantities of a normal mean, by independent draws of its posterior."""
    rng = np.random.default_rng(4)
    failed = 0
    for _ in range(200):
        rows = []
        for _ in range(40):
            truth = rng.standard_normal()
            y = truth + rng.standard_normal()
            draws = 0.5 * y + np.sqrt(0.5) * rng.standard_normal((1, 60))
            values = np.stack([draws, np.square(draws), np.exp(draws) - y], axis=-1)
            of_truth = np.array([truth, truth**2, np.exp(truth) - y])
            row = compared(values, of_truth, rng) | {"truth": of_truth, "state": 0}
            rows.append(row | {"seconds": 0.0, "n_warnings": 0, "warning": ""})
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        failed += not Certificate(results_of(columns, ("f", "f^2", "g"))).passed
    assert 4 <= failed <= 17  # 2 to 8.5 %
