"""Derivatives 1-3 of every registered likelihood, settings off their defaults."""

from __future__ import annotations

from functools import partial

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.likelihoods import LIKELIHOODS, Gaussian, Logistic, Poisson, Probit

ETA = np.array([-7.3, -2.2, -0.4, 0.0, 0.9, 1.6, 4.8])
LABELS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
COUNTS = np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0, 150.0])
REALS = np.array([-1.2, 0.4, 3.0, 0.0, -2.0, 9.5, 4.4])

CASES = {
    "probit": (Probit(), LABELS, lambda e, y: mp.log(mp.ncdf(y * e))),
    "logistic": (Logistic(), LABELS, lambda e, y: -mp.log1p(mp.exp(-y * e))),
    "gaussian": (
        Gaussian(noise_sd=0.3),
        REALS,
        lambda e, y: (
            -((y - e) ** 2) / (2 * mp.mpf(0.3) ** 2) - mp.log(mp.mpf(0.3) ** 2 * 2 * mp.pi) / 2
        ),
    ),
    "poisson": (
        Poisson(exposure=2.5),
        COUNTS,
        lambda e, y: y * (e + mp.log(2.5)) - mp.mpf(2.5) * mp.exp(e) - mp.loggamma(y + 1),
    ),
}


def test_every_likelihood_has_a_case():
    assert set(CASES) == set(LIKELIHOODS)


@pytest.mark.parametrize("name", CASES)
def test_value_and_derivatives_against_high_precision(name):
    likelihood, y, exact = CASES[name]
    found = likelihood.derivatives(np.stack([ETA, ETA]), y)
    with mp.workdps(50):
        for order, ours in enumerate(found):
            assert ours.shape == (2, len(y))
            for i, eta in enumerate(ETA):
                count = mp.mpf(float(y[i]))
                value = mp.diff(partial(exact, y=count), mp.mpf(float(eta)), order)
                assert ours[1, i] == pytest.approx(float(value), rel=1e-11, abs=1e-14), (order, eta)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_against_central_differences(name):
    likelihood, y, _ = CASES[name]
    step = 1e-5
    above, below = (likelihood.derivatives(ETA + s * step, y) for s in (1.0, -1.0))
    here = likelihood.derivatives(ETA, y)
    for order in range(3):
        difference = (above[order] - below[order]) / (2.0 * step)
        np.testing.assert_allclose(difference, here[order + 1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_batched_value_and_gradient_agree_with_the_derivatives(name):
    likelihood, y, _ = CASES[name]
    eta = ETA + np.random.default_rng(0).normal(size=(2, 3, 1))
    value, gradient = likelihood.log_density_and_gradient(eta, y)
    derivatives = likelihood.derivatives(eta, y)
    np.testing.assert_allclose(value, derivatives[0].sum(-1), rtol=1e-12)
    np.testing.assert_allclose(gradient, derivatives[1], rtol=1e-11, atol=1e-300)
    np.testing.assert_array_equal(likelihood.gradient(eta, y), likelihood.gradient(eta.copy(), y))
    np.testing.assert_allclose(likelihood.gradient(eta, y), gradient, rtol=1e-14)
    np.testing.assert_array_equal(likelihood.log_density(eta, y), value)


@pytest.mark.parametrize("name", CASES)
def test_log_concave(name):
    likelihood, y, _ = CASES[name]
    eta = np.linspace(-30.0, 30.0, 601)[:, None]
    assert np.all(likelihood.derivatives(eta, y)[2] <= 0.0)


@pytest.mark.parametrize("name", CASES)
def test_simulated_observations_follow_the_likelihood(name):
    likelihood = CASES[name][0]
    eta, n = np.array([-1.1, 0.3, 1.4]), 40_000
    y = likelihood.simulate(np.random.default_rng(1), np.broadcast_to(eta, (n, 3)))
    if name in ("probit", "logistic"):
        p = np.exp(likelihood.derivatives(eta, np.ones(3))[0])
        mean, sd = 2.0 * p - 1.0, 2.0 * np.sqrt(p * (1.0 - p))
    elif name == "poisson":
        mean = 2.5 * np.exp(eta)
        sd = np.sqrt(mean)
    else:
        mean, sd = eta, np.full(3, 0.3)
    assert np.all(np.abs(y.mean(0) - mean) < 4.0 * sd / np.sqrt(n))
    assert np.all(np.abs(y.std(0) / sd - 1.0) < 0.05)
