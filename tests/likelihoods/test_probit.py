from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.likelihoods import Probit
from gpmcflow.likelihoods.binary import log_phi_derivatives, log_phi_high_derivatives

Z = np.concatenate(
    [
        [-1e4, -3e3, -500.0, -300.0, -30.0, -12.5, -5.0, -4.0, -3.0001, -3.0, -2.9999, -2.7],
        [-1.0, -0.3, -1e-9, 0.0, 1e-9, 0.4, 1.3, 2.9, 5.0, 7.3, 12.0, 20.0, 30.0],
    ]
)


def exact(z: float) -> tuple[mp.mpf, mp.mpf, mp.mpf, mp.mpf]:
    """Log Phi, lambda, w, w' from their definitions in 50 digits beyond all cancellation."""
    z = mp.mpf(float(z))
    log_phi = (
        mp.log(mp.erfc(-z / mp.sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)
    )
    slope = mp.exp(-z * z / 2 - mp.log(2 * mp.pi) / 2 - log_phi)
    w = slope * (z + slope)
    return log_phi, slope, w, slope * (1 - w - (z + slope) ** 2)


def test_log_phi_and_its_derivatives_against_50_digits():
    """Row 1: relative error of log Phi, lambda, w and w' from z = -1e4 to 30."""
    found = log_phi_derivatives(Z)
    with mp.workdps(250):  # 50 digits are left after w' has cancelled at z = 30 and at -1e4
        for k, z in enumerate(Z):
            for name, ours, reference in zip(
                ["log_phi", "slope", "w", "w1"], found, exact(z), strict=True
            ):
                assert abs(mp.mpf(float(ours[k])) / reference - 1) < 1e-12, (name, z)


def test_batched_value_and_gradient_are_the_scalar_ones():
    """Row 1 for the compiled path that samplers use: sums over cases, both labels, batch axes."""
    eta = np.concatenate([Z, -Z])[None] * np.array([[1.0], [0.37]])
    y = np.concatenate([np.ones(len(Z)), -np.ones(len(Z))])
    value, slope, *_ = log_phi_derivatives(eta * y)
    batch = np.stack([eta, eta[::-1]])
    total, gradient = Probit().log_density_and_gradient(batch, y)
    assert total.shape == (2, 2)
    np.testing.assert_allclose(total[0], value.sum(-1), rtol=1e-14)
    np.testing.assert_allclose(gradient[0], y * slope, rtol=3e-13)
    np.testing.assert_allclose(Probit().gradient(batch, y), gradient, rtol=1e-15)
    for k in range(eta.shape[1]):  # one case at a time: a sum would hide small terms
        one = Probit().log_density_and_gradient(eta[:, k : k + 1], y[k : k + 1])[0]
        np.testing.assert_allclose(one, value[:, k], rtol=3e-13, atol=1e-15)


@pytest.mark.parametrize("z", [-6.0, -4.5, -2.0, 0.0, 1.7, 4.0])
def test_higher_derivatives(z):
    """Derivatives 0-6 of log Phi; below -5 the first four, the rest is set to zero there."""
    found = log_phi_high_derivatives(np.array([z]), 6)[:, 0]
    with mp.workdps(60):
        exact_values = [mp.diff(lambda t: mp.log(mp.ncdf(t)), mp.mpf(z), k) for k in range(7)]
    known = 5 if z < -5.0 else 7
    for k in range(known):
        assert found[k] == pytest.approx(float(exact_values[k]), rel=1e-8, abs=1e-10), k
    assert not np.any(found[known:])


def test_extreme_predictors_stay_finite():
    eta = np.array([[-1e8, 1e8, -40.0, 40.0]])
    value, gradient = Probit().log_density_and_gradient(eta, np.ones(4))
    assert np.isfinite(value).all()
    np.testing.assert_allclose(gradient[0, [0, 2]], [1e8, 40.0], rtol=1e-3)
    assert np.all(np.abs(gradient[0, [1, 3]]) < 1e-300)
