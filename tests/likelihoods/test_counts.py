"""Factorials of counts, from a table and beyond it; rates beyond the largest number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

import gpmcflow as gp
from gpmcflow.likelihoods.counts import log_factorial


@pytest.mark.parametrize("largest", [0, 5, 1023, 1024, 10**6])
def test_log_factorial(largest):
    y = np.array([0.0, 1.0, 3.0, float(largest)])
    assert np.array_equal(log_factorial(y), gammaln(y + 1.0))


def test_a_rate_beyond_the_largest_number_has_no_density():
    eta, y = np.array([[708.5, 0.0], [2000.0, 0.0], [np.inf, 0.0]]), np.array([0.0, 1.0])
    value, slope = gp.Poisson().log_density_and_gradient(eta, y)
    assert (slope == [-np.inf, 0.0]).all()
    assert not (value > -np.inf).any()
