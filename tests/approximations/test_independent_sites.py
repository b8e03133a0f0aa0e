from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.approximations.independent_sites import (
    LARGEST_VARIANCE,
    ConstantSites,
    LaplaceSites,
    MomentSites,
    ScaledSites,
    StandardSites,
    TaylorSites,
    site_rule,
)
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT
from gpmcflow.likelihoods.binary import logistic_overlap
from gpmcflow.likelihoods.counts import wright_omega
from gpmcflow.likelihoods.sites import laplace_sites

VARIANCES = (1e-3, 0.07, 1.0, 30.0, 1e4)
LABELS = np.array([1.0, -1.0])


def moments(likelihood, k):
    """Mean and variance of sigma(f) N(f; 0, k), or Phi(f) N(f; 0, k), with 30 digits."""
    sd = mp.sqrt(mp.mpf(k))
    value = {
        "logistic": lambda f: 1 / (1 + mp.exp(-f)),
        "probit": mp.ncdf,
    }[likelihood]

    def power(p):
        marks = sorted({x for m in (1, 3, 8, 14) for x in (m * sd, m) if x <= 14 * sd} | {14 * sd})
        knots = [-x for x in reversed(marks)] + [0] + marks
        return mp.quad(lambda f: f**p * value(f) * mp.npdf(f, 0, sd), knots)

    mean = power(1) / power(0)
    return mean, power(2) / power(0) - mean**2


@pytest.mark.parametrize("k", VARIANCES)
@pytest.mark.parametrize("likelihood", [Logistic(), Probit()], ids=lambda L: L.name)
def test_moments_of_binary_data(likelihood, k):
    with mp.workdps(30):
        mean, variance = moments(likelihood.name, k)
        w, b = 1 / variance - 1 / mp.mpf(k), mean / variance
    found = MomentSites()(likelihood, LABELS, k)
    assert found.equal
    assert found.precision == pytest.approx(np.full(2, float(w)), rel=1e-9)
    assert found.shift == pytest.approx([float(b), -float(b)], rel=1e-9)


def test_logistic_overlap_at_stated_values():
    assert logistic_overlap(1.0) == pytest.approx(0.206620964142, rel=1e-11)
    assert logistic_overlap(100.0) == pytest.approx(0.03925956011, rel=1e-9)
    variances = [1 / MomentSites()(Logistic(), LABELS, k).precision[0] for k in (1e-8, 1.0, 100.0)]
    assert variances == pytest.approx([4.0, 4.855867497, 62.1993653], rel=1e-8)
    assert MomentSites()(Logistic(), LABELS, 1e6).precision[0] * 1e6 == pytest.approx(
        1 / (np.pi / 2 - 1), rel=1e-4
    )


def test_wright_omega_solves_its_equation():
    for a in np.concatenate([np.linspace(-60, 60, 61), [1e3, 5e5]]):
        z = wright_omega(a)
        assert z + np.log(z) == pytest.approx(a, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("c", [-5.0, 0.4, 5.0])
@pytest.mark.parametrize("k", VARIANCES)
def test_laplace_sites_of_counts(k, c):
    y = np.array([0.0, 1, 2, 3, 7, 20, 50])
    found = LaplaceSites()(Poisson(exposure=2.0), y, k, c)
    assert not found.equal
    with mp.workdps(40):
        for i, count in enumerate(y):
            shift = mp.mpf(c) + mp.log(2)
            z = mp.lambertw(mp.exp(mp.log(mp.mpf(k)) + k * mp.mpf(count) + shift))
            mode = (k * mp.mpf(count) - z).real
            assert abs(mode - k * (count - mp.exp(mode + shift))) < 1e-25 * (1 + abs(mode) + k)
            w = mp.exp(mode + shift)
            expected = float(max(w, 1 / LARGEST_VARIANCE)), float(mode * (1 / mp.mpf(k) + w))
            assert found.precision[i] == pytest.approx(expected[0], rel=1e-9)
            assert found.shift[i] == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.parametrize("k", VARIANCES)
@pytest.mark.parametrize("likelihood", [Logistic(), Probit()], ids=lambda L: L.name)
def test_laplace_sites_of_binary_data(likelihood, k):
    w, b, equal = LaplaceSites()(likelihood, LABELS, k)
    mode = b / (1 / k + w)
    _, first, second, _ = likelihood.derivatives(mode, LABELS)
    assert equal
    assert first == pytest.approx(mode / k, rel=1e-9)
    assert w == pytest.approx(-second, rel=1e-9)
    assert b[0] == -b[1] > 0


def test_taylor_sites():
    y = np.array([0.0, 1.0, 4.0])
    w, b, equal = TaylorSites()(Poisson(exposure=2.0), y, 3.0, 0.5)
    assert not equal
    assert w == pytest.approx([1e-6, 1.0, 4.0])
    assert b == pytest.approx([0.0, -0.5 - np.log(2), 4 * (np.log(4) - 0.5 - np.log(2))])


def test_gaussian_sites_are_the_likelihood():
    y = np.array([0.3, -2.0])
    for rule in (MomentSites(), LaplaceSites(), TaylorSites(), StandardSites()):
        w, b, equal = rule(Gaussian(0.5), y, 2.0)
        assert equal
        assert np.array_equal(w, [4.0, 4.0])
        assert np.array_equal(b, 4.0 * y)


def test_scaled_and_constant_sites_keep_the_pseudo_data():
    y = np.array([0.0, 2.0, 9.0])
    base = StandardSites()(Poisson(), y, 1.5, 0.2)
    scaled = ScaledSites(100.0)(Poisson(), y, 1.5, 0.2)
    constant = ConstantSites(0.3)(Poisson(), y, 1.5, 0.2)
    assert scaled.precision == pytest.approx(base.precision / 100)
    assert constant.precision == pytest.approx(np.full(3, 1 / 0.3))
    assert constant.equal
    for sites in (scaled, constant):
        assert sites.shift / sites.precision == pytest.approx(base.shift / base.precision)


def test_moments_of_counts_by_quadrature_are_near_their_modes():
    y = np.array([3.0, 0.0, 3.0])
    w, b, _ = MomentSites()(Poisson(), y, 0.5, 0.3)
    v = 1 / (1 / 0.5 + w)
    grid = np.linspace(-8, 8, 40001)
    for i in range(3):
        weight = np.exp(y[i] * grid - np.exp(grid + 0.3) - grid**2)
        mean = (weight * grid).sum() / weight.sum()
        assert b[i] * v[i] == pytest.approx(mean, rel=1e-7)
        assert v[i] == pytest.approx((weight * (grid - mean) ** 2).sum() / weight.sum(), rel=1e-6)


class OnAGrid(StudentT):
    """Tilted moments by a dense grid: r < 0 where an outlier widens the tilted distribution."""

    def tilted(self, y, mean, variance):
        eta = np.linspace(-60.0, 60.0, 240_001)[:, None]
        log_f = self.derivatives(eta, y)[0] - 0.5 * (eta - mean) ** 2 / variance
        weight = np.exp(log_f - log_f.max(0))
        weight /= weight.sum(0)
        centre = (weight * eta).sum(0)
        tilted = (weight * (eta - centre) ** 2).sum(0)
        return np.zeros_like(mean), (centre - mean) / variance, (1.0 - tilted / variance) / variance


def test_moments_of_a_likelihood_with_two_modes_are_clipped_and_keep_the_mean():
    likelihood, y, k, c = OnAGrid(0.5, 4.0), np.array([0.3, 5.0, -2.0, 0.3]), 1.5, 0.2
    _, alpha, r = likelihood.tilted(y, np.full(4, c), np.full(4, k))
    assert np.any(r < -0.05)
    assert np.any(r > 0.05)
    for variance in (k, np.full(4, k)):
        w, b, equal = MomentSites()(likelihood, y, variance, c)
        assert not equal
        np.testing.assert_allclose(w, np.maximum(1 / (k * (1 - k * r)) - 1 / k, 1e-6), rtol=1e-9)
        np.testing.assert_allclose(b / (1 / k + w), k * alpha, rtol=1e-9)
    w, b, _ = LaplaceSites()(StudentT(0.5, 4.0), y, k, c)
    mode = b / (1 / k + w)
    np.testing.assert_allclose(mode / k, StudentT(0.5, 4.0).gradient(mode + c, y), atol=1e-9)
    assert np.all(w > 0.0)


@pytest.mark.parametrize(
    "likelihood", [Logistic(), Probit(), Poisson(2.0), Gaussian(0.5)], ids=repr
)
def test_a_variance_for_each_case(likelihood):
    """Each case has the sites it would have alone; equal variances are one number."""
    y = np.array([1.0, -1.0, 1.0, 1.0]) if likelihood.binary else np.array([1.0, 0.0, 7.0, 2.0])
    k = np.array([0.2, 1.0, 30.0, 1.0])
    for rule in (MomentSites(), LaplaceSites(), StandardSites()):
        for c in (0.0, 0.7):
            together = rule(likelihood, y, k, c)
            for i in range(4):
                alone = rule(likelihood, y[i : i + 1], float(k[i]), c)
                assert together.precision[i] == pytest.approx(alone.precision[0], rel=1e-8)
                assert together.shift[i] == pytest.approx(alone.shift[0], rel=1e-8)
            same = rule(likelihood, y, np.full(4, 1.3), c)
            for ours, other in zip(same, rule(likelihood, y, 1.3, c), strict=True):
                assert np.array_equal(ours, other)
        assert together.equal == (likelihood.name == "gaussian")


@pytest.mark.parametrize("k", VARIANCES)
def test_generic_modes_are_those_of_the_closed_form(k):
    """Also where rates overflow on the way."""
    likelihood, y = Poisson(2.0), np.array([0.0, 3.0, 2000.0])
    found, exact = laplace_sites(likelihood, y, k, 0.4), LaplaceSites()(likelihood, y, k, 0.4)
    assert found.precision == pytest.approx(exact.precision, rel=1e-9)
    assert found.shift == pytest.approx(exact.shift, rel=1e-8)


@pytest.mark.parametrize("likelihood", [Logistic(), Probit()], ids=repr)
def test_binary_data_with_an_offset(likelihood):
    """The closed forms hold for c = 0; near it the quadrature agrees with them."""
    for rule in (MomentSites(), LaplaceSites()):
        near, at = rule(likelihood, LABELS, 1.7, 1e-9), rule(likelihood, LABELS, 1.7)
        assert near.precision == pytest.approx(at.precision, rel=1e-7)
        assert near.shift == pytest.approx(at.shift, rel=1e-7)
        assert (near.equal, at.equal) == (False, True)


def test_wrong_sites():
    with pytest.raises(InputError, match=r"TaylorSites: the logistic likelihood has no maximum"):
        TaylorSites()(Logistic(), LABELS, 1.0)
    with pytest.raises(InputError, match=r"ConstantSites: variance is -1.0; allowed: a positive"):
        site_rule("constant", variance=-1.0)
    with pytest.raises(InputError, match=r"did you mean 'taylor'"):
        site_rule("tailor")
    with pytest.raises(InputError, match=r"site rule taylor: .*factor"):
        site_rule("taylor", factor=2.0)
