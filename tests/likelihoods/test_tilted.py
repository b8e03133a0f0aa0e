"""Tilted moments and cumulants: quadrature against closed forms and high precision."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit
from gpmcflow.likelihoods.base import central_moments_to_cumulants

MEAN = np.array([-3.0, -0.7, 0.0, 0.9, 4.1, 2.0])
VARIANCE = np.array([0.05, 1.0, 30.0, 1e3, 6.0, 1e-4])
LABELS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def exact_tilted(log_density, mean: float, variance: float, cuts: list[float]):
    """Log Z, mean, and central moments 2-6 by adaptive quadrature in 30 digits."""
    with mp.workdps(30):
        mu, v = mp.mpf(mean), mp.mpf(variance)

        def f(e):
            return mp.exp(log_density(e) - (e - mu) ** 2 / (2 * v)) / mp.sqrt(2 * mp.pi * v)

        grid = [mp.mpf(c) for c in cuts]
        z = mp.quad(f, grid)
        centre = mp.quad(lambda e: e * f(e), grid) / z
        central = [mp.quad(lambda e, k=k: (e - centre) ** k * f(e), grid) / z for k in range(2, 7)]
        return float(mp.log(z)), float(centre), [float(c) for c in central]


def check(likelihood: Likelihood, y: float, mean: float, variance: float, exact, rel: float):
    """Compare `tilted` and `tilted_cumulants` with exact log Z, mean and central moments."""
    arrays = (np.array([y]), np.array([mean]), np.array([variance]))
    log_z, alpha, r = (v[0] for v in likelihood.tilted(*arrays))
    exact_log_z, centre, central = exact
    assert log_z == pytest.approx(exact_log_z, rel=rel, abs=rel)
    sd = np.sqrt(central[0])
    assert mean + variance * alpha == pytest.approx(centre, abs=rel * max(sd, abs(centre)))
    assert variance * (1.0 - variance * r) == pytest.approx(central[0], rel=rel)
    cumulants = likelihood.tilted_cumulants(*arrays, 6)[:, 0]
    m2, m3, m4, m5, m6 = central
    expected = [m3, m4 - 3 * m2**2, m5 - 10 * m3 * m2, m6 - 15 * m4 * m2 - 10 * m3**2 + 30 * m2**3]
    for order, (ours, value) in enumerate(zip(cumulants, expected, strict=True), start=3):
        assert ours == pytest.approx(value, rel=1e2 * rel, abs=1e2 * rel * sd**order), order


def test_quadrature_of_the_base_class_against_the_closed_form_of_probit():
    closed = Probit().tilted(LABELS, MEAN, VARIANCE)
    quadrature = Likelihood.tilted(Probit(), LABELS, MEAN, VARIANCE)
    np.testing.assert_allclose(quadrature[0], closed[0], rtol=1e-9)
    np.testing.assert_allclose(quadrature[1], closed[1], rtol=1e-8, atol=1e-9)
    tilted_variance = [VARIANCE * (1.0 - VARIANCE * r) for r in (quadrature[2], closed[2])]
    np.testing.assert_allclose(*tilted_variance, rtol=1e-8)
    closed = Probit().tilted_cumulants(LABELS, MEAN, VARIANCE, 6)
    quadrature = Likelihood.tilted_cumulants(Probit(), LABELS, MEAN, VARIANCE, 6)
    assert closed.shape == quadrature.shape == (4, 6)
    scale = tilted_variance[1] ** (np.arange(3, 7)[:, None] / 2)
    np.testing.assert_allclose(quadrature / scale, closed / scale, atol=1e-7)


def test_closed_form_of_gaussian_against_the_quadrature():
    gaussian, y = Gaussian(noise_sd=0.7), np.array([0.4, -2.0, 11.0, 40.0, -3.0, 2.5])
    closed, quadrature = (
        gaussian.tilted(y, MEAN, VARIANCE),
        Likelihood.tilted(gaussian, y, MEAN, VARIANCE),
    )
    for ours, other in zip(closed, quadrature, strict=True):
        np.testing.assert_allclose(other, ours, rtol=1e-8, atol=1e-8)
    assert gaussian.tilted_cumulants(y, MEAN, VARIANCE, 5).shape == (3, 6)
    assert not np.any(gaussian.tilted_cumulants(y, MEAN, VARIANCE, 5))


@pytest.mark.parametrize(
    ("y", "mean", "variance"),
    [(1.0, -1.3, 2.0), (-1.0, 0.5, 1e3), (1.0, -20.0, 1e3), (-1.0, 3.0, 0.01)],
)
def test_logistic_with_narrow_and_wide_cavities(y, mean, variance):
    sd = variance**0.5
    cuts = sorted({mean + k * sd for k in (-14, -6, -3, -1, 0, 1, 3, 6, 14)} | {-3.0, 0.0, 3.0})
    exact = exact_tilted(lambda e: -mp.log1p(mp.exp(-y * e)), mean, variance, cuts)
    check(Logistic(), y, mean, variance, exact, rel=1e-9)


@pytest.mark.parametrize(
    ("y", "mean", "variance"),
    [(0.0, 0.5, 1.0), (4.0, -1.0, 9.0), (1000.0, 0.0, 100.0), (0.0, -2.0, 400.0)],
)
def test_poisson_with_large_counts_and_wide_cavities(y, mean, variance):
    """A count of 1000 under a cavity sd of 10 has a tilted sd of 0.03."""
    exposure = 0.8
    if y > 100.0:
        peak = float(np.log(y / exposure))
        cuts = [peak + k / np.sqrt(y) for k in (-40, -12, -5, -2, 0, 2, 5, 12, 40)]
    else:
        cuts = [mean + k * variance**0.5 for k in (-14, -6, -3, -1, 0)]
        cuts = sorted(set(cuts) | {c for c in (-2.0, 0.0, 1.5, 3.0, 5.0, 7.0) if c > min(cuts)})

    def log_density(e):
        return y * (e + mp.log(mp.mpf(exposure))) - exposure * mp.exp(e) - mp.loggamma(y + 1)

    check(
        Poisson(exposure=exposure),
        y,
        mean,
        variance,
        exact_tilted(log_density, mean, variance, cuts),
        1e-9,
    )


def test_derivatives_of_the_tilted_normaliser():
    """alpha and r are the derivatives of log Z by the cavity mean, for the quadrature too."""
    y, mean, variance = np.array([3.0, 0.0]), np.array([0.2, 1.0]), np.array([0.6, 2.0])
    step = 1e-4
    likelihood = Poisson(exposure=2.5)
    above, here, below = (likelihood.tilted(y, mean + s * step, variance) for s in (1, 0, -1))
    np.testing.assert_allclose((above[0] - below[0]) / (2 * step), here[1], rtol=1e-6)
    np.testing.assert_allclose(-(above[1] - below[1]) / (2 * step), here[2], rtol=1e-6)


def test_cumulants_from_central_moments_of_an_exponential():
    """Exponential(1): central moments 1, 0, 1, 2, 9, 44, 265 give cumulants (k - 1)!."""
    central = np.array([1.0, 0.0, 1.0, 2.0, 9.0, 44.0, 265.0])[:, None]
    cumulants = central_moments_to_cumulants(central)[:, 0]
    np.testing.assert_allclose(cumulants[2:], [1.0, 2.0, 6.0, 24.0, 120.0])


@pytest.mark.parametrize("likelihood", [Poisson(exposure=0.8), Logistic(), Probit()])
def test_modes_of_many_cavities_at_once(likelihood):
    """The quadrature is centred at the tilted mode: of 2000 cavities of all sizes in one batch."""
    rng = np.random.default_rng(0)
    variance = np.exp(rng.uniform(np.log(1e-4), np.log(1e4), 2000))
    mean = rng.normal(0.0, 1.0, 2000) * np.sqrt(variance) + rng.normal(0.0, 2.0, 2000)
    if isinstance(likelihood, Poisson):
        y = rng.poisson(np.exp(rng.uniform(-3.0, 8.0, 2000))).astype(float)
    else:
        y = rng.choice([-1.0, 1.0], 2000)
    mode = likelihood._tilted_mode(y, mean, variance)
    _, first, second, _ = likelihood.derivatives(mode, y)
    newton_step = ((mode - mean) / variance - first) / (1.0 / variance - second)
    assert np.all(np.abs(newton_step) <= 1e-8 * (1.0 + np.abs(mode)))
