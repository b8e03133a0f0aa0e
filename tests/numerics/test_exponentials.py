"""Exponentials and logarithms that a compiler can vectorise, beside the C library's."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from gpmcflow.numerics.exponentials import exponential, exponentials, logarithms, sum_of_logs


@numba.njit(fastmath={"contract"})
def exponential_of(x, out):
    for i in range(x.size):
        out[i] = exponential(x[i])


def test_exponentials_over_their_whole_range():
    x = np.linspace(-708.0, 708.0, 100_003)
    out = np.empty_like(x)
    exponential_of(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=7e-16)
    near = np.linspace(-1e-3, 1e-3, 1001)
    out = np.empty_like(near)
    exponential_of(near, out)
    np.testing.assert_allclose(out, np.exp(near), rtol=3e-16)


def test_exponentials_of_what_is_too_small_are_zero():
    out = np.ones(4)
    exponential_of(np.array([-708.1, -1e4, -1e300, -np.inf]), out)
    assert (out == 0.0).all()


def test_the_exponential_of_what_is_no_number_is_none():
    out = np.zeros(8)
    exponential_of(np.full(8, np.nan), out)
    assert np.isnan(out).all()


def test_exponentials_of_squares_end_far_below_rounding():
    squared = np.array([0.0, 1.0, 37.3, 599.0, 601.0, 1e9])
    out = np.empty_like(squared)
    exponentials(squared, out)
    np.testing.assert_allclose(out, np.exp(-0.5 * np.minimum(squared, 600.0)), rtol=7e-16)


def test_logarithms_from_one_up():
    x = np.concatenate([1.0 + np.geomspace(1e-15, 1.0, 2001), np.geomspace(2.0, 1e300, 2001)])
    out = np.empty_like(x)
    logarithms(x, out)
    np.testing.assert_allclose(out, np.log(x), rtol=2e-15)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0])
def test_sums_of_logs(size, scale):
    x = np.exp(scale * np.random.default_rng(size).uniform(-1.0, 1.0, size))
    np.testing.assert_allclose(sum_of_logs(x), np.log(x).sum(), rtol=1e-13, atol=1e-12)
