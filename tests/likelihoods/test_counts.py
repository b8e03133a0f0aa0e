"""Factorials of counts, from a table and beyond it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from gpmcflow.likelihoods.counts import log_factorial


@pytest.mark.parametrize("largest", [0, 5, 1023, 1024, 10**6])
def test_log_factorial(largest):
    y = np.array([0.0, 1.0, 3.0, float(largest)])
    assert np.array_equal(log_factorial(y), gammaln(y + 1.0))
