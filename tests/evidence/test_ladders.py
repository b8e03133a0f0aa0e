from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.evidence.schedule import check_ladder, equal_distance, geometric, linear, power


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_all_ladders_go_from_zero_to_one(n):
    distance = np.array([0.0, 1.0, 4.0])
    found = [geometric(n, 1e-7), linear(n), power(n), power(n, 2.5)]
    found.append(equal_distance(n, np.array([0.0, 1e-9, 1.0]), distance))
    for ladder in found:
        assert len(ladder) == n + 1
        np.testing.assert_array_equal(check_ladder(ladder), ladder)


def test_formulas():
    np.testing.assert_allclose(geometric(4, 1e-3), [0.0, 1e-3, 1e-2, 1e-1, 1.0])
    np.testing.assert_allclose(linear(4), [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(power(2), [0.0, 1 / 16, 1.0])
    np.testing.assert_allclose(power(2, 3.0), [0.0, 1 / 8, 1.0])


def test_equal_distance_is_dense_where_distance_grows():
    betas, distance = np.array([0.0, 0.1, 0.2, 1.0]), np.array([0.0, 2.0, 3.0, 4.0])
    ladder = equal_distance(8, betas, distance)
    np.testing.assert_allclose(ladder, [0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.6, 1.0])
    np.testing.assert_allclose(np.interp(ladder, betas, distance), np.linspace(0.0, 4.0, 9))


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ([0.0, 0.5, 0.5, 1.0], "inverse temperature 2 is 0.5 after 0.5; they must increase"),
        ([0.0, 0.6, 0.4, 1.0], "inverse temperature 2 is 0.4 after 0.6; they must increase"),
        ([0.1, 1.0], "must start at 0 and end at 1"),
        ([0.0, 0.9], "must start at 0 and end at 1"),
        ([1.0, 0.0], "must start at 0 and end at 1"),
        ([0.0], "must start at 0 and end at 1"),
        ([[0.0, 1.0]], "must start at 0 and end at 1"),
        ([0.0, np.nan, 1.0], "they must increase"),
    ],
)
def test_a_ladder_that_does_not_increase_is_refused(ladder, message):
    with pytest.raises(InputError, match=message):
        check_ladder(ladder)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_number_of_temperatures(n):
    for build in (linear, power, lambda n: geometric(n, 0.1)):
        with pytest.raises(InputError, match=r"n_temperatures is .*; allowed: 1, 2, 3"):
            build(n)


@pytest.mark.parametrize("smallest", [0.0, -0.1, 1.5, np.nan])
def test_smallest_inverse_temperature(smallest):
    with pytest.raises(InputError, match=r"smallest is .*; allowed: 0 < smallest <= 1"):
        geometric(5, smallest)


@pytest.mark.parametrize("exponent", [0.0, -2.0, np.nan])
def test_exponent(exponent):
    with pytest.raises(InputError, match=r"exponent is .*; allowed: a positive number"):
        power(5, exponent)
