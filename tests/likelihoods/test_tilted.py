"""Tilted moments and cumulants: quadrature against closed forms and high precision."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.likelihoods import (
    Beta,
    BetaBinomial,
    Binomial,
    Gamma,
    Gaussian,
    Hurdle,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Survival,
    ZeroInflated,
)
from gpmcflow.likelihoods.tilted import central_moments_to_cumulants, tilted_mode, tilted_shape
from tests.each import for_each

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
    mode = tilted_mode(likelihood, y, mean, variance)
    _, first, second, _ = likelihood.derivatives(mode, y)
    precision = 1.0 / variance - second
    newton_step = ((mode - mean) / variance - first) / precision
    assert np.all(np.abs(newton_step) <= 2e-3 / np.sqrt(precision))


FAMILIES = {
    "logistic": lambda _: Logistic(),
    "poisson": Poisson,
    "nb": NegativeBinomial,
    "binomial": Binomial,
}
# (likelihood, its parameter, y, mean, variance, log Z, alpha, r): composite Gauss-Legendre of 24 nodes a
# panel in 60 digits (350 where r is below 1e-40 beside a slope that is not), panels of one cavity
# deviation cut by two geometric series of factor 1.6 around the mode and the bend; log1p(E[p - 1]) for
# log Z near 0. Halved panels change nothing here.
EXACT = [
    ("logistic", 1, 1, 100, 10000.0, -0.17280107754973, 0.0028761356342955, 3.7024054778522e-5),
    ("logistic", 1, 1, 1, 1, -0.36135061480876, 0.25539618995588, 0.14075299536216),
    ("logistic", 1, -1, 0.3, 1e-06, -0.8543552017056, -0.5744423581864, 0.24445821578798),
    (
        "logistic",
        1,
        1,
        600,
        1e-06,
        -2.6503978782029e-261,
        2.6503978782029e-261,
        2.6503978782029e-261,
    ),
    ("logistic", 1, -1, -30, 1e-06, -9.3576276476524e-14, -9.357627647652e-14, 9.3576276476511e-14),
    ("logistic", 1, 1, -3, 100, -0.95734564717388, 0.097900225180978, 0.0067393804197349),
    (
        "logistic",
        1,
        -1,
        -32000.0,
        1000000.0,
        -5.4612839255016e-225,
        -1.7493084369686e-226,
        5.5977685699956e-228,
    ),
    (
        "logistic",
        1,
        1,
        20000.0,
        1000000.0,
        -2.7554412684432e-89,
        5.5245735677121e-91,
        1.1049110775808e-92,
    ),
    (
        "logistic",
        1,
        1,
        -40000.0,
        1000000.0,
        -804.60580710002,
        0.040024837114156,
        9.9937403135769e-7,
    ),
    ("logistic", 1, -1, 0, 1000000.0, -0.69314718055995, -0.0007978832483399, 6.3661767798144e-7),
    ("logistic", 1, 1, -900, 1000000.0, -1.6924906663802, 0.0014456395526484, 7.8880239914474e-7),
    (
        "logistic",
        1,
        1,
        5000.0,
        1000000.0,
        -2.8666384105492e-7,
        1.4867786356198e-9,
        7.433870931808e-12,
    ),
    ("logistic", 1, 1, 400, 200, -5.148200222412e-131, 5.148200222412e-131, 5.148200222412e-131),
    ("logistic", 1, -1, -20, 10, -3.0487179016401e-7, -3.0406859378308e-7, 3.0268953480322e-7),
    ("logistic", 1, 1, -45, 30, -30.004737758798, 0.99762550013893, 0.0010682102794517),
    ("logistic", 1, -1, 3000, 10000.0, -454.1684552455, -0.30022756549207, 9.9849968307828e-5),
    ("logistic", 1, 1, 200, 2500, -3.2026098183647e-5, 2.7032406569312e-6, 2.1598137691788e-7),
    (
        "logistic",
        1,
        -1,
        -350,
        0.1,
        -1.0438691382446e-152,
        -1.0438691382446e-152,
        1.0438691382446e-152,
    ),
    ("poisson", 0.8, 0, -95, 1000, -0.0013940188344956, -0.00014430495794802, 1.3654806304823e-5),
    (
        "poisson",
        0.8,
        0,
        -600,
        1e-06,
        -2.1203183025623e-261,
        -2.1203183025623e-261,
        2.1203183025623e-261,
    ),
    (
        "poisson",
        0.8,
        0,
        -33000.0,
        1000000.0,
        -4.1127058811454e-239,
        -1.3584201002829e-240,
        4.4827306761741e-242,
    ),
    (
        "poisson",
        0.8,
        0,
        -900,
        100000.0,
        -0.0022236920171603,
        -2.2099998316429e-5,
        1.9930685545602e-7,
    ),
    ("poisson", 0.8, 0, 0, 1000000.0, -0.69342972858777, -0.00079810932691824, 6.3669591088183e-7),
    ("poisson", 0.8, 0, 900, 0.001, -393456999.20184, -886082.2919068, 998.87270823519),
    ("poisson", 0.8, 0, 1000, 1e-06, -480272745948.15, -979074737.91054, 998979.66964985),
    (
        "poisson",
        0.8,
        0,
        40000.0,
        1000000.0,
        -804.62132198496,
        -0.040025258757605,
        9.9937578889971e-7,
    ),
    (
        "poisson",
        0.8,
        1,
        -30000.0,
        1000000.0,
        -457.81532132747,
        0.029999595469926,
        9.9999827991165e-7,
    ),
    ("poisson", 0.8, 3, 0.5, 1, -2.3524431325585, 0.49731766211805, 0.69474487819157),
    ("poisson", 0.8, 4, -600, 30, -2164.0706280356, 4.0, 9.0397392185013e-203),
    ("poisson", 0.8, 7, 300, 10000.0, -11.907300290888, -0.02978995072538, 9.9998471553054e-5),
    ("poisson", 0.8, 40, 2, 0.01, -39.745987808332, 31.835216307279, 7.5460289748328),
    ("poisson", 0.8, 1000, 0, 100, -10.383494296031, 0.071303274104863, 0.0099998999438475),
    (
        "poisson",
        0.8,
        1000,
        -300,
        1000000.0,
        -14.781613632539,
        0.00030713039843968,
        9.999999989995e-7,
    ),
    (
        "poisson",
        0.8,
        1000000.0,
        5,
        1000000.0,
        -21.642245218781,
        9.0386536092694e-6,
        9.99999999999e-7,
    ),
    ("poisson", 0.8, 150, 1040, 0.01, -52965173.319828, -102823.46347018, 99.902981348657),
    ("poisson", 0.8, 0, -40, 40, -8.8963055675159e-10, -7.8931610714865e-10, 6.8746651866079e-10),
    ("nb", 0.1, 0, -200, 10000.0, -0.019613450275188, -0.00047972132742746, 1.0098902676012e-5),
    ("nb", 0.1, 1000, 5, 100, -10.556272509832, 0.052184657018388, 0.0079125482750892),
    ("nb", 0.1, 1000, -30000.0, 1000000.0, -465.1471395337, 0.030012677298253, 9.9993947370569e-7),
    ("nb", 2.5, 0, -600, 1e-06, -2.6503978782029e-261, -2.6503978782029e-261, 2.6503978782029e-261),
    ("nb", 2.5, 4, 0.3, 2, -3.0522798927831, 0.42175737760715, 0.37069950667281),
    ("nb", 2.5, 30, -500, 100000.0, -11.344647193682, 0.0050359493391948, 9.9999476931925e-6),
    ("nb", 2.5, 3, 150, 10, -339.5779015424, -2.5, 1.0543016101368e-51),
    (
        "nb",
        10000.0,
        0,
        -20000.0,
        1000000.0,
        -2.7866016947441e-89,
        -5.586897846726e-91,
        1.1173454583341e-92,
    ),
    ("nb", 10000.0, 50, -40, 1000.0, -9.2485243117844, 0.043901148233124, 0.00099997968115226),
    ("nb", 10000.0, 7, 1000, 0.5, -986603.18575406, -1984.3648437827, 1.9974949098318),
    ("binomial", 9, 4, 0.3, 1, -2.0169989592992, -0.36478082365544, 0.67595460971618),
    ("binomial", 9, 0, -400, 10000.0, -3.5566924961264e-5, -1.4934748389294e-6, 5.9324591418675e-8),
    (
        "binomial",
        9,
        9,
        20000.0,
        1000000.0,
        -2.9088653318372e-89,
        5.8314041272013e-91,
        1.1661202526712e-92,
    ),
    ("binomial", 1000, 500, 60, 10000.0, -11.225569765183, -0.0059999975975994, 9.9999959959989e-5),
    ("binomial", 1000, 1000, -300, 10, -4638.1854813787, 30.348020036749, 0.099655907892994),
    (
        "binomial",
        1000,
        1000,
        20000.0,
        1000000.0,
        -3.2004286781561e-89,
        6.4143803339376e-91,
        1.2823938423214e-92,
    ),
    ("binomial", 1000, 3, -900, 100000.0, -11.767340896566, 0.0089401499001505, 9.9999602682039e-6),
    (
        "binomial",
        40,
        40,
        500,
        1e-06,
        -2.8498319876122e-216,
        2.8498319876122e-216,
        2.8498319876122e-216,
    ),
]


@for_each("case", EXACT)
def test_log_z_and_its_derivatives_to_1e_8_relative(case):
    name, parameter, y, mean, variance, *exact = case
    tilted = FAMILIES[name](parameter).tilted(*(np.array([float(v)]) for v in (y, mean, variance)))
    np.testing.assert_allclose(np.ravel(tilted), exact, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_batch_is_its_cases(name):
    cases = [case for case in EXACT if case[0] == name]
    likelihood = FAMILIES[name](cases[0][1])
    y, mean, variance = np.array([c[2:5] for c in cases if c[1] == cases[0][1]], dtype=float).T
    batch = likelihood.tilted(y, mean, variance)
    for i in range(len(y)):
        single = likelihood.tilted(y[i : i + 1], mean[i : i + 1], variance[i : i + 1])
        np.testing.assert_allclose(np.ravel(single), [b[i] for b in batch], rtol=2e-9)


def test_the_compiled_logistic_is_the_quadrature_of_any_likelihood():
    rng = np.random.default_rng(0)
    variance = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), 500))
    mean = rng.uniform(-1.0, 1.0, 500) * (37.0 * np.sqrt(variance) + 600.0)
    y = rng.choice([-1.0, 1.0], 500)
    with np.errstate(all="raise", under="ignore"):
        compiled = Logistic().tilted(y, mean, variance)
        general = Likelihood.tilted(Logistic(), y, mean, variance)
    for one, other in zip(compiled, general, strict=True):
        above = np.abs(other) > 1e-290
        np.testing.assert_allclose(one[above], other[above], rtol=1e-9)


def test_a_narrow_bend_of_a_users_likelihood_is_seen():
    """sigma(30 y eta) at (mean, variance) is sigma(y eta) at (30 mean, 900 variance)."""

    class Steep(Logistic):
        tilted = Likelihood.tilted

        def derivatives(self, eta, y):
            return tuple(30.0**k * d for k, d in enumerate(Logistic().derivatives(30.0 * eta, y)))

    y, mean = np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.2, 40.0, 3.0, -34730.0])
    variance = np.array([0.01, 400.0, 900.0, 9.86e5])
    steep = Steep().tilted(y, mean, variance)
    plain = Logistic().tilted(y, 30.0 * mean, 900.0 * variance)
    for k in range(3):
        np.testing.assert_allclose(steep[k], 30.0**k * plain[k], rtol=1e-9)


@pytest.mark.parametrize("variance", [1e-6, 0.02, 1.0, 400.0, 1e6])
@pytest.mark.parametrize("distance", [0.0, 0.7, 3.0, 8.0, 40.0])
def test_student_t_sees_cavity_and_data(variance, distance):
    """Two modes when the observation is an outlier of its cavity; then r < 0."""
    s, nu, y = 0.15, 4.0, 2.0
    sd = variance**0.5
    mean = y - distance * max(s, sd)
    likelihood = StudentT(s, nu)
    with mp.workdps(25):
        v, mu = mp.mpf(variance), mp.mpf(mean)
        cuts = [mu + k * sd for k in range(-12, 13, 2)]
        cuts += [y + sign * s * mp.mpf(3) ** k for sign in (-1, 1) for k in range(-2, 13)] + [y]
        cuts = sorted(c for c in cuts if min(mu - 12 * sd, y - 2) <= c <= max(mu + 12 * sd, y + 2))

        def weighted(function):
            def value(e):
                t = (1 + ((y - e) / s) ** 2 / nu) ** (-(nu + 1) / 2)
                return function(e) * t * mp.exp(-((e - mu) ** 2) / (2 * v))

            return mp.quad(value, cuts)

        z = weighted(lambda e: 1)
        shift = weighted(lambda e: e - mu) / z
        r = (1 - weighted(lambda e: (e - mu - shift) ** 2) / z / v) / v
        constant = mp.gamma((nu + 1) / 2) / (mp.gamma(nu / 2) * mp.sqrt(nu * mp.pi) * s)
        exact = [float(e) for e in (mp.log(z * constant / mp.sqrt(2 * mp.pi * v)), shift / v, r)]
    tilted = likelihood.tilted(*(np.array([e]) for e in (y, mean, variance)))
    np.testing.assert_allclose(np.ravel(tilted), exact, rtol=1e-8, atol=1e-12)
    if distance == 8.0 and variance == 0.02:
        assert exact[2] < 0.0


COMPILED = {
    "poisson": (Poisson(2.0), 2.0),
    "negative_binomial": (NegativeBinomial(1.3, 2.0), 0.0),
    "binomial": (Binomial(9), 8.0),
    "student_t": (StudentT(0.3, 3.0), -1.0),
    "gamma": (Gamma(1.7), 0.4),
    "ordinal": (Ordinal(cutpoints=(-1.0, 0.0, 2.0)), 2.0),
    "survival": (Survival("weibull", 0.6), 0.4),
    "censored survival": (Survival("weibull", 0.6, event=[0]), 0.4),
    "beta": (Beta(6.0), 0.9),
    "beta-binomial": (BetaBinomial(200, 4.0), 120.0),
    "beta-binomial, none": (BetaBinomial(5, 0.3), 0.0),
    "zero": (ZeroInflated(NegativeBinomial(2.5, 1.7), 0.3), 0.0),
    "zero-inflated count": (ZeroInflated(Poisson(1.7), 0.3), 4.0),
    "hurdle": (Hurdle(NegativeBinomial(0.3), 0.2), 3.0),
    "hurdle of one": (Hurdle(Poisson(1.7), 0.2), 1.0),
    "two bends": (Survival("loglogistic", 0.1, until=[1e9]), 0.4),
}


@pytest.mark.parametrize("name", COMPILED)
def test_the_compiled_quadrature_is_that_of_numpy(name, monkeypatch):
    """Cavities from 2e-6 to 4e5, far from the data, too: log Z, alpha and the tilted variance."""
    likelihood, value = COMPILED[name]
    mean = np.repeat([-12.0, -3.0, 0.4, 6.0], 6)
    variance = np.tile([2e-6, 3e-3, 1.0, 300.0, 5e3, 4e5], 4)
    y = np.full(24, value)
    for constant in likelihood.of_observation:
        if getattr(likelihood, constant) is not None:
            likelihood = likelihood.with_constants(
                **{constant: np.repeat(getattr(likelihood, constant), 24)}
            )
    assert likelihood.factor_loop(y) is not None
    fast = tilted_shape(likelihood, y, mean, variance)
    monkeypatch.setattr(type(likelihood), "factor_loop", lambda self, y: None)
    slow = tilted_shape(likelihood, y, mean, variance)
    for ours, other in zip(fast[:3], slow[:3], strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(fast[3], slow[3], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variance", [300.0, 1200.0, 5e3, 4e5])
def test_an_infinite_slope_at_the_lower_end_is_no_straight_line(variance):
    """A gamma factor's slope overflows 38 cavity deviations down; its bend is still found."""
    y, a = 0.3, mp.mpf(1.7)

    def log_density(e):
        return a * mp.log(a) - a * e + (a - 1) * mp.log(y) - a * y * mp.exp(-e) - mp.loggamma(a)

    sd = variance**0.5
    cuts = [-1.2 + k for k in (-6, -3, -1, 0, 1, 3, 6, 12, 25, 50)] + [-1.2 - 0.3 * sd, 12 * sd]
    check(
        Gamma(1.7), y, 0.5, variance, exact_tilted(log_density, 0.5, variance, sorted(cuts)), 1e-8
    )


# likelihood, y, where the maximum of its factor is, and its width there
SHIFTS = (-1.0, 1.0, 9.0)  # slopes of exponential tails
OTHERS = {
    "beta": (Beta(6.0), 0.9, 2.0, 0.9),
    "narrow beta": (Beta(1e4), 0.3, -0.85, 0.02),
    "beta with horns": (Beta(0.3), 1e-6, -1.1, 1.0),
    "beta-binomial": (BetaBinomial(12, 2.0), 3.0, -1.0, 0.6),
    "all of many": (BetaBinomial(500, 0.7), 500.0, 4.0, 2.0),
    "zero": (ZeroInflated(Poisson(2.5), 0.3), 0.0, -1.0, 1.0),
    "zero that is hardly ever of the other kind": (ZeroInflated(Poisson(), 1e-8), 0.0, 2.9, 0.06),
    "zero-inflated count": (ZeroInflated(NegativeBinomial(0.3), 0.05), 150.0, 5.0, 1.0),
    "hurdle": (Hurdle(NegativeBinomial(0.3), 0.05), 1.0, -1.0, 1.0),
}


@pytest.mark.parametrize("variance", [1e-6, 0.02, 1.0, 400.0, 1e6])
@pytest.mark.parametrize("distance", [-8.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("name", OTHERS)
def test_cavity_and_data_of_others_that_are_not_log_concave(name, variance, distance):
    """Against 60 times as many panels: where tails are exponential the mode is far from both."""
    likelihood, y, centre, width = OTHERS[name]
    sd = variance**0.5
    mean = centre - distance * max(width, sd)
    reach = np.sinh(np.linspace(-18.0, 18.0, 2001)) * width * 1e-2
    grown = [centre + reach, mean + reach * sd / width]
    shifts = [mean + variance * s + sd * np.linspace(-12.0, 12.0, 500) for s in SHIFTS]
    edges = np.unique(np.concatenate([*grown, *shifts]))
    x, weight = np.polynomial.legendre.leggauss(20)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
    eta = (middle[:, None] + half[:, None] * x).ravel()
    log_p = likelihood.derivatives(eta[:, None], np.array([y]))[0][:, 0]
    logs = log_p - 0.5 * (eta - mean) ** 2 / variance
    top = logs.max()
    mass = np.exp(logs - top) * (half[:, None] * weight).ravel()
    z = mass.sum()
    shift = mass @ (eta - mean) / z
    r = (1.0 - mass @ (eta - mean - shift) ** 2 / z / variance) / variance
    want = [top + np.log(z / np.sqrt(2.0 * np.pi * variance)), shift / variance, r]
    log_z, alpha, found = (
        float(part[0]) for part in likelihood.tilted(*(np.array([e]) for e in (y, mean, variance)))
    )
    assert log_z == pytest.approx(want[0], rel=1e-9, abs=1e-9)
    assert alpha == pytest.approx(want[1], rel=1e-7, abs=1e-7 / sd)
    assert found == pytest.approx(want[2], rel=1e-6, abs=1e-7 / variance)


def test_places_are_found_once_for_the_same_outcomes_and_anew_for_others(monkeypatch):
    """Data that change in place, as of joint tests, and a parameter that moves ask for other places."""
    asked, places = [], Beta.places
    monkeypatch.setattr(Beta, "places", lambda self, y: asked.append(1) or places(self, y))
    y, mean, variance = np.array([0.2, 0.9]), np.array([0.3, -0.5]), np.array([4.0, 1.0])
    likelihood = Beta(30.0)
    first = np.array(likelihood.tilted(y, mean, variance))
    np.testing.assert_array_equal(likelihood.tilted(y, mean, variance), first)
    assert len(asked) == 1
    y[:] = y[::-1]
    swapped = likelihood.tilted(y, mean[::-1], variance[::-1])
    np.testing.assert_array_equal(np.array(swapped)[:, ::-1], first)
    Beta(300.0).tilted(y, mean, variance)
    assert len(asked) == 3
