"""Polygamma functions of compiled loops against 40 digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.numerics.gamma_ratios import (
    digamma_less,
    gammas_less,
    polygamma_gap,
    polygamma_gaps,
    polygammas,
)


def test_polygammas_from_1_to_a_million():
    for z in (1.0, 1.0001, 1.5, 3.0, 7.7, 11.99, 12.0, 50.0, 1e3, 1e6):
        exact = [float(mp.psi(order, mp.mpf(z))) for order in range(3)]
        np.testing.assert_allclose(polygammas(z), exact, rtol=3e-14)


@pytest.mark.parametrize("z", [0.0, 1e-300, 0.3, 7.99, 8.0, 999.0, 1001.0, 1e9])
def test_what_gamma_functions_have_beyond_logarithms_is_not_a_difference(z):
    with mp.workdps(40):
        x = mp.mpf(z)
        log_z = mp.log(x) if z else mp.mpf(-1e3)
        exact = [float(x * log_z - x - mp.loggamma(1 + x)), float(mp.psi(0, 1 + x) - log_z)]
    np.testing.assert_allclose(gammas_less(z, float(log_z)), exact, rtol=1e-11, atol=2e-14)
    np.testing.assert_allclose(
        digamma_less(np.array([z]), np.array([float(log_z)])), exact[1], rtol=1e-11
    )


@pytest.mark.parametrize("d", [1.0, 3.2, 900.0, 1e5])
@pytest.mark.parametrize("y", [0.0, 1.0, 64.0, 65.0, 3000.0])
def test_gaps_of_numbers_and_arrays_are_exact(d, y):
    with mp.workdps(40):
        exact = [float(mp.psi(k, mp.mpf(d) + y) - mp.psi(k, mp.mpf(d))) for k in range(3)]
    np.testing.assert_allclose(polygamma_gap(d, y), exact, rtol=1e-10)
    arrays = polygamma_gaps(np.array([d]), np.array([y]))
    np.testing.assert_allclose(np.ravel(arrays), exact, rtol=1e-10)
    np.testing.assert_allclose(np.ravel(polygamma_gaps(d, y)), exact, rtol=1e-10)
