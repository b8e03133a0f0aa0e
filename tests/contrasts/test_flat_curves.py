"""The chance of a curve, were it flat."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.contrasts.flat_curves import flat_chance


def shrunk_posterior(rng, truth, n=48, noise=1.0):
    """Draws of a curve at 12 values given noisy data on it, under a Gaussian process prior."""
    x = rng.uniform(-2.0, 2.0, n)
    values = np.linspace(-1.3, 1.3, 12)
    k = lambda a, b: np.exp(-0.5 * (a[:, None] - b) ** 2)  # noqa: E731
    solved = np.linalg.solve(k(x, x) + noise**2 * np.eye(n), k(x, values))
    mean = solved.T @ (truth(x) + noise * rng.normal(size=n))
    covariance = k(values, values) - k(values, x) @ solved
    return rng.multivariate_normal(mean, covariance, 480, check_valid="ignore", method="eigh")


def test_the_chance_of_a_flat_curve_is_kept_by_noise_and_not_by_an_effect():
    rng = np.random.default_rng(0)
    flat = np.array([flat_chance(shrunk_posterior(rng, np.zeros_like)) for _ in range(60)])
    assert np.mean(flat < 0.05) <= 0.08
    assert np.mean(flat < 0.2) <= 0.3
    for truth in (lambda x: x, lambda x: x**2, np.sin):
        seen = [flat_chance(shrunk_posterior(rng, truth)) for _ in range(10)]
        assert np.median(seen) < 0.002


def test_a_steady_trend_is_found_among_wiggles():
    """A line three standard errors high beside wiggles that are left open: alone, two-sided, 0.27 %."""
    rng, x = np.random.default_rng(0), np.linspace(-1.0, 1.0, 12)
    wiggles = 1.5 * rng.standard_normal((4000, 12))
    slope = wiggles @ x / (x @ x)
    wiggles -= (slope - slope.mean())[:, None] * x
    draws = (3.0 + rng.standard_normal((4000, 1))) * x + wiggles
    found = flat_chance(draws, x)
    assert flat_chance(draws) > 0.3
    assert 0.002 < found < 2.5 * 0.0027
    line = (3.0 + rng.standard_normal((4000, 1))) * x
    assert flat_chance(line, x) == pytest.approx(flat_chance(line), rel=0.02)


def test_with_the_trend_a_flat_curve_is_found_as_seldom_as_is_said():
    """Exact normal posteriors about flat curves: the chance is uniform, up to the count of 400."""
    rng, x = np.random.default_rng(1), np.linspace(-1.0, 1.0, 10)
    root = np.linalg.cholesky(np.exp(-0.5 * ((x[:, None] - x) / 0.6) ** 2) + 1e-9 * np.eye(10))
    chances = []
    for _ in range(400):
        draws = (rng.standard_normal(10) + rng.standard_normal((300, 10))) @ root.T
        chances.append(flat_chance(draws, x))
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(chances) < level) == pytest.approx(
            level, abs=4.0 * np.sqrt(level * (1 - level) / 400)
        )


def test_rounding_errors_are_no_effect():
    rng = np.random.default_rng(0)
    level = rng.normal(size=(100, 1)) + np.zeros(8)
    assert flat_chance(level) == 1.0
    assert flat_chance(level + 1e-9 * np.arange(8.0)) > 0.9
    assert flat_chance(np.zeros((100, 8))) == 1.0
