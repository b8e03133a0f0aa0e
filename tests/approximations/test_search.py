"""Where searches for hyperparameters start: also where responses wiggle over short distances."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.approximations.integrated import integrate
from gpmcflow.approximations.search import frozen_maximum, wiggling_starts
from gpmcflow.samplers.problem import pilot_starts


def waves(name, n=200, n_waves=30):
    """Responses that rise and fall many times along x, of a likelihood by name, and x."""
    rng = np.random.default_rng(n + n_waves)
    x = np.sort(rng.uniform(-1.7, 1.7, n))
    f = 1.5 * np.sin(2.0 * np.pi * n_waves * x / 3.4)
    if name == "Poisson":
        return x, rng.poisson(np.exp(f)).astype(float)
    if name == "Probit":
        return x, np.where(f + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    noise = rng.standard_normal(n) if name == "Gaussian" else rng.standard_t(3, n)
    return x, f + 0.3 * noise


@pytest.mark.parametrize("name", ["Gaussian", "StudentT", "Poisson", "Probit"])
def test_a_narrow_maximum_is_found_where_responses_wiggle(name):
    """Thirty waves: a sine of length scale 0.018; all else than some 0.02 calls them noise."""
    x, y = waves(name)
    model = gp.GPModel(x, y, gp.SquaredExponential(), getattr(gp, name)())
    best = gp.maximise_evidence(model)
    assert 0.012 < model.natural(best.theta)["length_scale"] < 0.03


@pytest.mark.parametrize("name", ["StudentT", "Poisson", "Probit"])
def test_pilots_of_samplers_begin_there_too(name):
    x, y = waves(name)
    model = gp.GPModel(x, y, gp.SquaredExponential(), getattr(gp, name)())
    starts = pilot_starts(model, np.random.default_rng(0))
    assert len(starts) == 4
    assert 0.009 < model.natural(starts[-1])["length_scale"] < 0.036


def test_a_fit_averaged_over_the_hyperparameters_climbs_there():
    """The length scale lies four standard deviations out in its hyperprior."""
    x, y = waves("Poisson")
    fit = integrate(gp.GPModel(x, y, gp.SquaredExponential(), gp.Poisson()), checked=False)
    assert fit.reliable
    assert (np.exp(fit.theta[:, 0]) < 0.03).all()


def test_noise_and_slow_curves_add_no_start():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1.7, 1.7, 300))
    for y in (rng.standard_normal(300), np.sin(x), np.zeros(300)):
        assert not len(wiggling_starts(gp.GPModel(x, y, gp.Matern32(), gp.Gaussian())))
    few = gp.GPModel(x[:5], np.array([1.0, -1.0, 1.0, -1.0, 1.0]), gp.Matern32(), gp.Gaussian())
    assert not len(wiggling_starts(few))


def test_a_start_that_wiggles_moves_with_the_units_of_the_inputs():
    """Also with scales of their own, and where responses repeat at the same places."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 2))
    y = np.sin(40.0 * X[:, 0]) * np.sin(40.0 * X[:, 1]) + 0.1 * rng.standard_normal(400)
    one, other = (
        wiggling_starts(gp.GPModel(X * unit, y, gp.Matern32(ard=True), gp.Gaussian()))
        for unit in (np.ones(2), np.array([1e-3, 1e4]))
    )
    assert one.shape == (1, 4)
    np.testing.assert_allclose(other[0, :2] - one[0, :2], np.log([1e-3, 1e4]))
    assert (np.exp(one[0, :2]) > 0.01).all()
    assert (np.exp(one[0, :2]) < 0.06).all()
    twice = gp.GPModel(np.repeat(X, 2, axis=0), np.repeat(y, 2), gp.Matern32(), gp.Gaussian())
    assert len(wiggling_starts(twice)) == 1


class _Hill:
    """rest(x) = -|x - top|^2 / 2, with latents that no search moves."""

    def __init__(self, top, n_z):
        self.top, self.n_z, self.sites = np.asarray(top), n_z, None

    def evaluate(self, x, z):
        away = x - self.top
        return SimpleNamespace(rest=-0.5 * float(away @ away), slope_x=-away)


@pytest.mark.parametrize("n_z", [0, 3])
@pytest.mark.parametrize("scale", [1.0, np.array([0.25, 4.0])])
def test_a_search_at_frozen_sites_stays_between_its_ends(n_z, scale):
    """Ends are those of x, whatever the units of its moves."""
    found, _ = frozen_maximum(
        _Hill([-5.0, 0.7], n_z), np.zeros(2), lambda x, sites: sites,
        hyperprior=False, searches=40, near=1e-3, low=-2.0, high=0.5, scale=scale,
    )  # fmt: skip
    assert found == pytest.approx([-2.0, 0.5], abs=1e-6)
