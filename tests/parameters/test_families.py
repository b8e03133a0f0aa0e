"""Hyperpriors in closed form against mpmath, into both tails."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.parameters.densities import FAMILIES
from gpmcflow.parameters.hyperpriors import Hyperprior

pytestmark = pytest.mark.filterwarnings("error")
X = np.array([-8.0, -5.0, -0.6, 0.0, 0.7, 5.0, 8.0])


def _gamma(q, a):
    return [mp.gammainc(a, *ends, regularized=True) for ends in ((0, q), (q, mp.inf))]


def _cut_normal(q):  # N(0.3, 1), given that it is positive
    m = mp.mpf(0.3)
    return (mp.ncdf(q - m) - mp.ncdf(-m)) / mp.ncdf(m), mp.ncdf(m - q) / mp.ncdf(m)


# (parameters, probabilities below and above q, density of q)
EXACT = {
    "gamma": ({"a": 2.5}, lambda q: _gamma(q, 2.5), lambda q: q**1.5 * mp.exp(-q) / mp.gamma(2.5)),
    "invgamma": (
        {"a": 3.0},
        lambda q: _gamma(1 / q, 3)[::-1],
        lambda q: q**-4 * mp.exp(-1 / q) / mp.gamma(3),
    ),
    "expon": ({}, lambda q: (-mp.expm1(-q), mp.exp(-q)), lambda q: mp.exp(-q)),
    "beta": (
        {"a": 2.0, "b": 0.5},
        lambda q: [mp.betainc(2, 0.5, *ends, regularized=True) for ends in ((0, q), (q, 1))],
        lambda q: q / mp.sqrt(1 - q) / mp.beta(2, 0.5),
    ),
    "uniform": ({}, lambda q: (q, 1 - q), lambda q: mp.mpf(1)),
    "halfnorm": (
        {},
        lambda q: (mp.erf(q / mp.sqrt(2)), mp.erfc(q / mp.sqrt(2))),
        lambda q: mp.sqrt(2 / mp.pi) * mp.exp(-q * q / 2),
    ),
    "halfcauchy": (
        {},
        lambda q: (2 / mp.pi * mp.atan(q), 2 / mp.pi * mp.atan(1 / q)),
        lambda q: 2 / mp.pi / (1 + q * q),
    ),
    "weibull_min": (
        {"c": 1.5},
        lambda q: (-mp.expm1(-(q**1.5)), mp.exp(-(q**1.5))),
        lambda q: 1.5 * mp.sqrt(q) * mp.exp(-(q**1.5)),
    ),
    "norm": ({"loc": 0.3}, _cut_normal, lambda q: mp.npdf(q - mp.mpf(0.3)) / mp.ncdf(mp.mpf(0.3))),
}


def test_all_families_are_here():
    assert set(FAMILIES) < set(EXACT)


def _exact_slope(x, theta, tails, density):
    """Slope phi / p at the solution, which Newton steps make of ``theta``."""
    side = int(x > 0)
    target, u = mp.ncdf(-abs(x)), mp.mpf(float(theta))
    for _ in range(6):
        q = mp.exp(u)
        mass = tails(q)[side]
        step = mp.log(mass / target) * mass / (density(q) * q) * (1 if side else -1)
        u += step
    q = mp.exp(u)
    return float(u), float(mp.npdf(x) / (density(q) * q))


@pytest.mark.parametrize("name", EXACT)
def test_slopes_in_both_tails(name):
    parameters, tails, density = EXACT[name]
    prior = Hyperprior(name, parameters, scale="natural")
    theta, slopes = prior.transform(X)
    with mp.workdps(50):
        exact = np.array(
            [_exact_slope(x, t, tails, density) for x, t in zip(X, theta, strict=True)]
        )
    assert np.allclose(theta, exact[:, 0], rtol=1e-12, atol=1e-15)
    assert np.allclose(slopes, exact[:, 1], rtol=1e-11, atol=0.0)
    inner = slice(None) if name != "uniform" else slice(0, 6)
    assert prior.to_normal(theta[inner]) == pytest.approx(X[inner], rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    "where", [{"scale": 0.7}, {"loc": 0.4, "scale": 0.7}], ids=["scaled", "shifted"]
)
@pytest.mark.parametrize("scale", ["natural", "log"])
@pytest.mark.parametrize("name", FAMILIES)
def test_closed_forms_are_what_scipy_says(name, scale, where):
    prior = Hyperprior(name, EXACT[name][0] | where, scale)
    x = np.linspace(-3.0, 3.0, 7)
    theta = prior.transform(x)[0]
    frozen = prior._frozen
    value = np.exp(theta) if scale == "natural" else theta
    jacobian = theta if scale == "natural" else 0.0
    assert frozen.cdf(value) == pytest.approx(
        np.vectorize(lambda v: float(mp.ncdf(v)))(x), rel=1e-10
    )
    log_p = [prior.log_density(t) for t in theta]
    assert log_p == pytest.approx(frozen.logpdf(value) + jacobian, rel=1e-9, abs=1e-9)
    assert prior.transform(x)[1] == pytest.approx(
        np.exp(-0.5 * x**2 - log_p) / np.sqrt(2 * np.pi), rel=1e-8
    )


@pytest.mark.parametrize("name", ["gamma", "invgamma", "beta"])
def test_quantiles_that_underflow(name):
    """For a = 0.01 they are exp(-+3500), where P = c q^a is exact; c = 1 / a B(a, b) or 1 / Gamma(a + 1)."""
    a = mp.mpf(0.01)
    prior = Hyperprior(name, {"a": 0.01} | ({"b": 2.0} if name == "beta" else {}), scale="natural")
    log_c = -mp.log(a * mp.beta(a, 2)) if name == "beta" else -mp.loggamma(a + 1)
    sign = -1.0 if name == "invgamma" else 1.0
    x = sign * np.array([-8.0, -6.0, -4.0])
    theta, slopes = prior.transform(x)
    assert sign * theta == pytest.approx(
        [float((mp.log(mp.ncdf(-abs(v))) - log_c) / a) for v in x], rel=1e-12
    )
    assert slopes == pytest.approx([float(mp.npdf(v) / mp.ncdf(-abs(v)) / a) for v in x], rel=1e-10)
    assert prior.to_normal(theta) == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize("name", [*EXACT, "lognorm", "loguniform", "invgauss"])
@pytest.mark.parametrize("scale", ["log", "natural"])
def test_nothing_is_printed_far_out(name, scale):
    shapes = {"lognorm": {"s": 0.5}, "loguniform": {"a": 0.1, "b": 9.0}, "invgauss": {"mu": 0.5}}
    prior = Hyperprior(name, shapes.get(name) or EXACT[name][0], scale)
    for x in (-40.0, -8.0, 8.0, 40.0):
        theta, _ = prior.transform(x)
        prior.log_density(theta)
        prior.to_normal(theta)
    for theta in (-1e3, -800.0, 800.0, 1e3):
        assert prior.log_density(theta) < np.inf
        assert not np.isnan(prior.log_density(theta))
        prior.to_normal(theta)
    assert np.all(np.isfinite(prior.transform([-6.0, 6.0])))


def test_renamed_on_the_natural_scale():
    """Log normal and log uniform are normal and uniform in theta."""
    x = np.array([-8.0, 0.3, 8.0])
    normal = Hyperprior("lognorm", {"s": 0.4, "scale": 3.0}, scale="natural")
    assert np.allclose(
        normal.transform(x), Hyperprior("norm", {"loc": np.log(3.0), "scale": 0.4}).transform(x)
    )
    for name in ("loguniform", "reciprocal"):
        uniform = Hyperprior(name, {"a": 0.1, "b": 2.0, "scale": 5.0}, scale="natural")
        assert np.allclose(uniform.transform(x), Hyperprior.log_uniform(0.5, 10.0).transform(x))
    moved = Hyperprior("lognorm", {"s": 0.4, "loc": 1.0}, scale="natural")
    assert moved.transform(0.3)[0] == pytest.approx(np.log1p(np.exp(0.12)), rel=1e-12)
