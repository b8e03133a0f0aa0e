"""Derivatives 1-3 of every registered likelihood, settings off their defaults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    Beta,
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    Gamma,
    Gaussian,
    Hurdle,
    Logistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Survival,
    ZeroInflated,
)
from gpmcflow.likelihoods.compiled import likelihood_code, log_likelihood
from gpmcflow.parameters.parameter import LOG, coordinate_of

ETA = np.array([-7.3, -2.2, -0.4, 0.0, 0.9, 1.6, 4.8])
LABELS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
COUNTS = np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0, 150.0])
REALS = np.array([-1.2, 0.4, 3.0, 0.0, -2.0, 9.5, 4.4])

AMOUNTS = np.array([1.2e-3, 0.4, 3.0, 0.05, 2.0, 9.5, 440.0])
OF_9 = np.array([0.0, 9.0, 3.0, 1.0, 7.0, 5.0, 8.0])
SHARES = np.array([1e-4, 0.3, 0.5, 0.97, 0.02, 0.8, 0.999])
TRIALS = np.array([1.0, 3.0, 5.0, 2.0, 9.0, 4.0, 200.0])
EXPOSURE = np.array([0.3, 2.5, 1.0, 7.0, 0.01, 3.0, 40.0])


def negative_binomial(e, y, d, exposure=2.5):
    m = mp.mpf(exposure) * mp.exp(e)
    log_gammas = mp.loggamma(y + d) - mp.loggamma(d) - mp.loggamma(y + 1)
    return log_gammas + y * mp.log(m / (m + d)) - d * mp.log1p(m / d)


def binomial(e, y, n):
    return mp.log(mp.binomial(n, y)) - y * mp.log1p(mp.exp(-e)) - (n - y) * mp.log1p(mp.exp(e))


def student_t(e, y, s, nu):
    log_gammas = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2)
    r = (y - e) / s
    return log_gammas - mp.log(nu * mp.pi) / 2 - mp.log(s) - (nu + 1) / 2 * mp.log1p(r**2 / nu)


def log_normal(e, y, s):
    return -((mp.log(y) - e) ** 2) / (2 * s**2) - mp.log(s * y) - mp.log(2 * mp.pi) / 2


def gamma(e, y, a):
    return a * mp.log(a) - a * e + (a - 1) * mp.log(y) - a * y * mp.exp(-e) - mp.loggamma(mp.mpf(a))


GRADES = np.array([1.0, 4.0, 2.0, 3.0, 4.0, 1.0, 3.0])
CUTS = (-0.8, 0.3, 2.1)


def _tails(x, link):
    """F and 1 - F."""
    if link == "probit":
        return mp.ncdf(x), mp.ncdf(-x)
    if link == "logit":
        return 1 / (1 + mp.exp(-x)), 1 / (1 + mp.exp(x))
    return -mp.expm1(-mp.exp(x)), mp.exp(-mp.exp(x))


def _log_density(x, link):
    if link == "probit":
        return -(x**2) / 2 - mp.log(2 * mp.pi) / 2
    if link == "logit":
        return -x - 2 * mp.log1p(mp.exp(-x))
    return x - mp.exp(x)


def between(low, high, e, s, link):
    """log P(low < e + s eps <= high), or the log density at low = high."""
    a, b = (low - e) / s, (high - e) / s
    if a == b:
        return _log_density(a, link) - mp.log(s)
    if b == mp.inf:
        return mp.log(_tails(a, link)[1])
    if a == -mp.inf:
        return mp.log(_tails(b, link)[0])
    (f_a, s_a), (f_b, s_b) = _tails(a, link), _tails(b, link)
    return mp.log(s_a - s_b) if a + b > 0 else mp.log(f_b - f_a)


def survival(e, y, s, link, events):
    """Of the times AMOUNTS, with events by place."""
    event, log_y = events[AMOUNTS.tolist().index(float(y))], mp.log(y)
    low, high = {1: (log_y, log_y), 0: (log_y, mp.inf), -1: (-mp.inf, log_y)}.get(
        event, (log_y, mp.log(mp.mpf(event)))
    )
    return between(low, high, e, s, link) - (log_y if event == 1 else 0)


def censored(e, y, s):
    if y <= -1.2:
        return between(-mp.inf, mp.mpf(-1.2), e, s, "probit")
    if y >= 4.4:
        return between(mp.mpf(4.4), mp.inf, e, s, "probit")
    high = mp.mpf(3.5) if y == 3.0 else y
    return between(y, high, e, s, "probit")


def ordinal(e, y, *gaps, link="logit"):
    cuts = [mp.mpf(CUTS[0])]
    for gap in gaps or np.diff(CUTS).tolist():
        cuts.append(cuts[-1] + mp.mpf(gap))
    edges = [-mp.inf, *cuts, mp.inf]
    return between(edges[int(y) - 1], edges[int(y)], e, 1, link)


EVENTS = (1, 0, 1, -1, 0, 1, 1)
UPPER = np.array([np.nan, np.nan, np.nan, np.nan, np.nan, 12.0, np.nan])
_SEEN = (1, 0, 1, -1, 0, 12.0, 1)
_GROUPED = np.where(REALS == 3.0, 3.5, np.nan)


def beta_binomial(e, y, phi, n=9):
    a, b = phi / (1 + mp.exp(-e)), phi / (1 + mp.exp(e))
    log_beta = mp.loggamma(y + a) + mp.loggamma(n - y + b) - mp.loggamma(n + phi)
    log_gammas = mp.loggamma(phi) - mp.loggamma(a) - mp.loggamma(b)
    return mp.log(mp.binomial(n, y)) + log_beta + log_gammas


def zero_inflated(e, y, d, pi):
    if y > 0:
        return mp.log(1 - pi) + negative_binomial(e, y, d)
    return mp.log(pi + (1 - pi) * mp.exp(negative_binomial(e, y, d)))


def hurdle(e, y, d, pi):
    if y == 0:
        return mp.log(pi) + 0 * e
    none = negative_binomial(e, mp.mpf(0), d)
    return mp.log(1 - pi) + negative_binomial(e, y, d) - mp.log(-mp.expm1(none))


def beta(e, y, phi):
    a, b = phi / (1 + mp.exp(-e)), phi / (1 + mp.exp(e))
    log_gammas = mp.loggamma(phi) - mp.loggamma(a) - mp.loggamma(b)
    return log_gammas + (a - 1) * mp.log(y) + (b - 1) * mp.log1p(-y)


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
    "negative_binomial": (
        NegativeBinomial(0.75, exposure=2.5),
        COUNTS,
        lambda e, y: negative_binomial(e, y, mp.mpf(0.75)),
    ),
    "binomial": (
        Binomial(9),
        OF_9,
        partial(binomial, n=9),
    ),
    "student_t": (
        StudentT(0.6, 3.5),
        REALS,
        lambda e, y: student_t(e, y, mp.mpf(0.6), mp.mpf(3.5)),
    ),
    "log_normal": (LogNormal(0.3), AMOUNTS, lambda e, y: log_normal(e, y, mp.mpf(0.3))),
    "gamma": (Gamma(1.7), AMOUNTS, lambda e, y: gamma(e, y, mp.mpf(1.7))),
    "survival": (
        Survival("weibull", 0.7, EVENTS, UPPER),
        AMOUNTS,
        lambda e, y: survival(e, y, mp.mpf(0.7), "weibull", _SEEN),
    ),
    "log-logistic survival": (
        Survival("loglogistic", 0.7, EVENTS, UPPER),
        AMOUNTS,
        lambda e, y: survival(e, y, mp.mpf(0.7), "logit", _SEEN),
    ),
    "log-normal survival": (
        Survival("lognormal", 0.7, EVENTS, UPPER),
        AMOUNTS,
        lambda e, y: survival(e, y, mp.mpf(0.7), "probit", _SEEN),
    ),
    "ordinal": (Ordinal(cutpoints=CUTS), GRADES, ordinal),
    "ordinal, probit": (
        Ordinal(cutpoints=CUTS, link="probit"),
        GRADES,
        partial(ordinal, link="probit"),
    ),
    "censored_gaussian": (
        CensoredGaussian(0.6, -1.2, 4.4, _GROUPED),
        np.clip(REALS, -1.2, 4.4),
        lambda e, y: censored(e, y, mp.mpf(0.6)),
    ),
    "beta": (Beta(4.3), SHARES, lambda e, y: beta(e, y, mp.mpf(4.3))),
    "zero_inflated": (
        ZeroInflated(NegativeBinomial(0.75, exposure=2.5), 0.3),
        COUNTS,
        lambda e, y: zero_inflated(e, y, mp.mpf(0.75), mp.mpf(0.3)),
    ),
    "hurdle": (
        Hurdle(NegativeBinomial(0.75, exposure=2.5), 0.3),
        COUNTS,
        lambda e, y: hurdle(e, y, mp.mpf(0.75), mp.mpf(0.3)),
    ),
    "beta_binomial": (BetaBinomial(9, 4.3), OF_9, lambda e, y: beta_binomial(e, y, mp.mpf(4.3))),
}
PARAMETERS = {
    "gaussian": (
        Gaussian(0.6),
        REALS,
        lambda e, y, s: -((y - e) ** 2) / (2 * s**2) - mp.log(s) - mp.log(2 * mp.pi) / 2,
    ),
    "negative_binomial": (NegativeBinomial(0.75, exposure=2.5), COUNTS, negative_binomial),
    "student_t": (StudentT(0.6, 3.5), REALS, student_t),
    "log_normal": (LogNormal(0.6), AMOUNTS, log_normal),
    "gamma": (Gamma(1.7), AMOUNTS, gamma),
    "ordinal": (Ordinal(cutpoints=CUTS), GRADES, ordinal),
    "ordinal, probit": (
        Ordinal(cutpoints=CUTS, link="probit"),
        GRADES,
        partial(ordinal, link="probit"),
    ),
    "censored_gaussian": (
        CensoredGaussian(0.6, -1.2, 4.4, _GROUPED),
        np.clip(REALS, -1.2, 4.4),
        censored,
    ),
    **{
        f"{law} survival": (
            Survival(law, 0.7, EVENTS, UPPER),
            AMOUNTS,
            partial(survival, link=link, events=_SEEN),
        )
        for law, link in (("weibull", "weibull"), ("loglogistic", "logit"), ("lognormal", "probit"))
    },
    "beta": (Beta(4.3), SHARES, beta),
    "zero_inflated": (
        ZeroInflated(NegativeBinomial(0.75, exposure=2.5), 0.3),
        COUNTS,
        zero_inflated,
    ),
    "hurdle": (Hurdle(NegativeBinomial(0.75, exposure=2.5), 0.3), COUNTS, hurdle),
    "beta_binomial": (BetaBinomial(9, 4.3), OF_9, beta_binomial),
}


def test_every_likelihood_has_a_case():
    assert set(CASES) >= set(LIKELIHOODS)


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


def test_products_of_hundreds_of_factors_neither_overflow_nor_vanish():
    """Loops take one logarithm for many cases: 900 overflow where a product is never put away."""
    rng = np.random.default_rng(3)
    eta = 3.0 * rng.normal(size=(2, 900))
    for likelihood in (
        Logistic(),
        Ordinal(cutpoints=(-1.0, 0.0, 1e-5)),
        Survival("loglogistic", 0.4, event=np.arange(900) % 3 > 0),
        ZeroInflated(Poisson(), 1e-3),
    ):
        if isinstance(likelihood, Logistic | ZeroInflated):
            y = np.full(900, -1.0 if isinstance(likelihood, Logistic) else 0.0)
        else:
            y = likelihood.simulate(rng, eta[0])
        log_p, slope, *_ = likelihood.derivatives(eta, y)
        value, gradient = likelihood.log_density_and_gradient(eta, y)
        np.testing.assert_allclose(value, log_p.sum(-1), rtol=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-13)


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


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_gradients_against_high_precision(name):
    likelihood, y, exact = PARAMETERS[name]
    entries = likelihood.entries()
    values = [coordinate_of(entry.setting, entry.coordinate) for entry in entries]
    found = likelihood.parameter_gradient(np.stack([ETA, ETA[::-1]]), y)
    assert found.shape == (2, len(values))
    with mp.workdps(40):
        for row, eta in enumerate([ETA, ETA[::-1]]):
            for k in range(len(values)):

                def total(t, k=k, eta=eta):
                    moved = [mp.mpf(v) + (t if j == k else 0) for j, v in enumerate(values)]
                    at = [
                        mp.exp(v) if entry.coordinate == LOG else 1 / (1 + mp.exp(-v))
                        for v, entry in zip(moved, entries, strict=True)
                    ]
                    pairs = zip(eta, y, strict=True)
                    return sum(exact(mp.mpf(float(e)), mp.mpf(float(c)), *at) for e, c in pairs)

                assert found[row, k] == pytest.approx(float(mp.diff(total, 0)), rel=1e-11), (row, k)


@pytest.mark.parametrize("name", CASES)
def test_curvatures(name):
    likelihood, y, _ = CASES[name]
    eta = np.linspace(-30.0, 30.0, 601)[:, None]
    second = likelihood.derivatives(eta, y)[2]
    assert likelihood.log_concave == bool(np.all(second <= 0.0))
    for precision in (likelihood.information(eta, y), likelihood.majorising_precision(eta, y)):
        assert np.all(precision >= 0.0)
        assert precision.shape == second.shape
        if likelihood.log_concave:
            np.testing.assert_array_equal(precision, -second)


def test_information_of_student_t_is_the_expected_curvature():
    with mp.workdps(25):
        s, nu = mp.mpf(0.6), mp.mpf(4)

        def curvature(e):
            u = nu + (e / s) ** 2
            second = (nu + 1) * ((e / s) ** 2 - nu) / (s * u) ** 2
            return -second * mp.exp(student_t(e, 0, s, nu))

        expected = float(mp.quad(curvature, [-mp.inf, -3, -1, 0, 1, 3, mp.inf]))
    found = StudentT(0.6, 4.0).information(np.array([0.3]), np.array([7.0]))
    assert found == pytest.approx([expected], rel=1e-12)
    assert found == pytest.approx([1.98412698413], rel=1e-11)


def test_majorising_precision_of_student_t_lies_above():
    """log p(t) >= log p(eta) + l' (t - eta) - W (t - eta)^2 / 2 for all t: a step of it never descends."""
    likelihood, y = StudentT(0.6, 3.5), np.array([1.2])
    eta, t = np.linspace(-9.0, 9.0, 181)[:, None, None], np.linspace(-30.0, 30.0, 901)[:, None]
    value, slope, *_ = likelihood.derivatives(eta, y)
    bound = (
        value + slope * (t - eta) - 0.5 * likelihood.majorising_precision(eta, y) * (t - eta) ** 2
    )
    assert np.all(likelihood.derivatives(t, y)[0] >= bound - 1e-12 * np.abs(bound))


REFERENCES = [  # value and derivatives 1-3, with 40 digits
    (Poisson(2.5), 0.3, 4, (-1.687537921791, 0.62535298106, -3.37464701894, -3.37464701894)),
    (
        NegativeBinomial(2.5), 0.3, 4,
        (-3.071684894035, 1.720934016599, -1.479967251602, -0.4421386301638),
    ),
    (
        NegativeBinomial(0.7), 40.0, 3,
        (-28.87422684985, -0.7, -1.100323752121e-17, 1.100323752121e-17),
    ),
    (Binomial(9), 0.3, 4, (-1.652915293265, -1.169982651305, -2.200124805217, 0.3275656556002)),
    (
        Binomial(5), 35.0, 5,
        (-3.152558380073e-15, 3.152558380073e-15, -3.152558380073e-15, 3.152558380073e-15),
    ),
    (StudentT(0.6, 4), 0.3, 1.7, (-2.617834424331, 2.058823529412, 0.2249134948097, -0.8406269082027)),
    (
        StudentT(0.5, 3), 0.0, 60,
        (-17.26090068613, 0.06665278067069, 0.001110416907723, 3.699076484402e-5),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("likelihood", "eta", "y", "expected"), REFERENCES)
def test_reference_values(likelihood, eta, y, expected):
    found = [float(d[0]) for d in likelihood.derivatives(np.array([eta]), np.array([float(y)]))]
    assert found == pytest.approx(expected, rel=2e-12)


def test_reference_parameter_gradients():
    eta = np.array([0.3])
    for likelihood, y, expected in (
        (NegativeBinomial(2.5), 4.0, [-0.07591164820249]),
        (StudentT(0.6, 4.0), 1.7, [1.882352941176, -0.2163435543866]),
        (Gaussian(0.6), 1.7, [4.444444444444]),
    ):
        assert likelihood.parameter_gradient(eta, np.array([y])) == pytest.approx(
            expected, rel=2e-12
        )


def test_constants_of_each_case():
    """An exposure, trials or noise of each case is one likelihood a case."""
    for likelihood, y in (
        (Poisson(EXPOSURE), COUNTS),
        (NegativeBinomial(0.7, EXPOSURE), COUNTS),
        (Binomial(TRIALS), np.minimum(COUNTS, TRIALS)),
        (Gaussian(EXPOSURE), REALS),
    ):
        together = likelihood.derivatives(ETA, y)
        total, slope = likelihood.log_density_and_gradient(ETA, y)
        for i in range(len(y)):
            (field,) = likelihood.constants
            alone = replace(likelihood, **{field: float(getattr(likelihood, field)[i])})
            for ours, one in zip(
                together, alone.derivatives(ETA[i : i + 1], y[i : i + 1]), strict=True
            ):
                assert ours[i] == pytest.approx(one[0], rel=1e-14, abs=1e-300)
        np.testing.assert_allclose(total, together[0].sum(), rtol=1e-13)
        np.testing.assert_allclose(slope, together[1], rtol=1e-13)


@pytest.mark.parametrize(
    ("many", "limit", "y"),
    [
        (NegativeBinomial(1e6, exposure=0.4), Poisson(0.4), np.minimum(COUNTS, 9.0)),
        (StudentT(0.7, 1e6), Gaussian(0.7), REALS[:5]),
        (BetaBinomial(9, 1e6), Binomial(9), OF_9),
    ],
    ids=["negative binomial", "student t", "beta-binomial"],
)
def test_limits(many, limit, y):
    eta = np.clip(ETA, -2.0, 2.0)[: len(y)]
    for ours, other in zip(many.derivatives(eta, y), limit.derivatives(eta, y), strict=True):
        np.testing.assert_allclose(ours, other, rtol=3e-4, atol=1e-4)


def test_limits_in_evidence_and_posterior(gp):
    """The same EP fit as of the likelihood in the limit."""
    counts, labels, reals = (gp(kind) for kind in (Poisson(0.4), Logistic(), Gaussian(0.7)))
    for model, likelihood, y, tolerance in (
        (counts, NegativeBinomial(1e6, 0.4), counts.y, 1e-4),
        (labels, Binomial(1), 0.5 * (labels.y + 1.0), 1e-8),
        (reals, StudentT(0.7, 1e6), reals.y, 1e-4),
    ):
        limit = expectation_propagation(model)
        fit = expectation_propagation(replace(model, likelihood=likelihood, y=y))
        assert fit.log_evidence == pytest.approx(limit.log_evidence, abs=tolerance)
        np.testing.assert_allclose(
            fit.sites.predictor_mean, limit.sites.predictor_mean, atol=tolerance
        )
        variances = (q.sites.predictor_variance for q in (fit, limit))
        np.testing.assert_allclose(*variances, rtol=tolerance)


def test_one_trial_is_a_label():
    labels = 2.0 * (one := np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])) - 1.0
    for ours, other in zip(
        Binomial(1).derivatives(ETA, one), Logistic().derivatives(ETA, labels), strict=True
    ):
        np.testing.assert_allclose(ours, other, rtol=1e-13)


def test_limits_of_size_and_degrees_of_freedom():
    """Values and slopes by the log of size or df, from small to 1e15, against 40 digits."""
    y, eta = np.array([0.0, 3.0, 150.0, 1e6]), np.array([-1.0, 1.2, 4.9, 13.8])
    reals = np.array([0.0, 0.3, -2.0, 30.0])
    with mp.workdps(60):
        for size in (0.7, 900.0, 1.1e3, 1e8, 1e12, 1e15):

            def count(log_d, k, size=size):
                d, m = mp.exp(log_d), mp.exp(mp.mpf(eta[k]))
                binomial = mp.loggamma(y[k] + d) - mp.loggamma(d) - mp.loggamma(y[k] + 1)
                return binomial - mp.mpf(y[k]) * mp.log1p(d / m) - d * mp.log1p(m / d)

            def real(log_nu, k):
                nu, r = mp.exp(log_nu), mp.mpf(reals[k]) / mp.mpf(0.5)
                gammas = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2)
                return (
                    gammas
                    - mp.log(nu * mp.pi) / 2
                    - mp.log(0.5)
                    - (nu + 1) / 2 * mp.log1p(r * r / nu)
                )

            for own, exact, values, at, tolerance in (
                (NegativeBinomial(size), count, y, eta, 1e-8),
                (StudentT(0.5, size), real, reals, np.zeros(4), 1e-12),
            ):
                log_size = mp.log(size)
                for k in range(4):
                    case, one = values[k : k + 1], at[k : k + 1]
                    right = float(exact(log_size, k))
                    assert float(own.derivatives(one, case)[0][0]) == pytest.approx(
                        right, rel=1e-12, abs=tolerance
                    ), (own, k)
                    slope = float(mp.diff(lambda t, k=k, f=exact: f(t, k), log_size))
                    assert float(own.parameter_gradient(one, case)[-1]) == pytest.approx(
                        slope, rel=1e-9, abs=1e-12
                    ), (own, k)
        limit = Poisson().derivatives(eta, y)[0]
        np.testing.assert_allclose(
            NegativeBinomial(1e15).derivatives(eta, y)[0][:3], limit[:3], atol=1e-10
        )


@pytest.mark.parametrize("shape", [0.05, 900.0, 1.1e3, 1e8])
def test_gamma_of_any_shape(shape):
    """Value and slope by the log of the shape against 60 digits, as y narrows about its mean."""
    eta = np.array([-3.0, 0.4, 6.0])
    y = np.exp(eta + np.array([1.2, -0.7, 0.3]) / np.sqrt(shape))
    likelihood = Gamma(shape)
    values = likelihood.derivatives(eta, y)[0]
    total, slope = likelihood.log_density_and_gradient(eta[None], y)
    assert total[0] == pytest.approx(values.sum(), rel=1e-9)
    np.testing.assert_allclose(slope[0], likelihood.derivatives(eta, y)[1], rtol=1e-6)
    with mp.workdps(60):
        for k in range(3):
            e, one = mp.mpf(float(eta[k])), mp.mpf(float(y[k]))
            assert values[k] == pytest.approx(float(gamma(e, one, mp.mpf(shape))), rel=1e-8)
            by_log = mp.diff(lambda t, e=e, one=one: gamma(e, one, mp.exp(t)), mp.log(shape))
            found = likelihood.parameter_gradient(eta[k : k + 1], y[k : k + 1])
            assert float(found[0]) == pytest.approx(float(by_log), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("precision", [0.05, 30.0, 900.0, 1.1e3, 1e8])
def test_beta_of_any_precision(precision):
    """Value, derivatives 1-3 and the slope by log precision against 60 digits, in both tails and narrow."""
    eta = np.array([-300.0, -40.0, 40.0, 300.0, -0.3, 2.0])
    y = np.array([1e-12, 0.5, 0.03, 1.0 - 1e-9, 0.5, 0.5])
    y[4:] = expit(eta[4:] + np.array([1.2, -0.7]) / np.sqrt(precision))
    likelihood = Beta(precision)
    found = likelihood.derivatives(eta, y)
    by_log = np.concatenate(
        [
            likelihood.parameter_gradient(e, one)
            for e, one in zip(eta[:, None], y[:, None], strict=True)
        ]
    )
    compiled = [
        log_likelihood(likelihood_code(likelihood, y[k : k + 1]), eta[k : k + 1], 0.0)
        for k in range(len(y))
    ]
    noise = 1e-14 * max(1.0, precision**0.5)  # of y itself, one rounding of a log
    with mp.workdps(60):
        for k in range(len(y)):
            e, one, phi = (mp.mpf(float(v)) for v in (eta[k], y[k], precision))
            exact = [mp.diff(lambda t, one=one, phi=phi: beta(t, one, phi), e, j) for j in range(4)]
            for j in range(4):
                assert found[j][k] == pytest.approx(float(exact[j]), rel=1e-11, abs=noise), (j, k)
            assert compiled[k] == pytest.approx(float(exact[0]), rel=1e-11, abs=noise)
            slope = mp.diff(lambda t, e=e, one=one: beta(e, one, mp.exp(t)), mp.log(phi))
            assert by_log[k] == pytest.approx(float(slope), rel=1e-11, abs=noise), k


def test_information_of_beta_is_the_expected_curvature():
    with mp.workdps(25):
        phi, e = mp.mpf(4.3), mp.mpf(0.4)

        def weighted(y):
            return -mp.diff(lambda t: beta(t, y, phi), e, 2) * mp.exp(beta(e, y, phi))

        expected = float(mp.quad(weighted, [0, 0.01, 0.5, 0.99, 1]))
    found = Beta(4.3).information(np.array([0.4]), np.array([0.9]))
    assert found == pytest.approx([expected], rel=1e-10)


TAILS = [-300.0, -40.0, -7.0, -0.3, 2.0, 40.0, 300.0]


@pytest.mark.parametrize("precision", [0.05, 30.0, 1.1e3, 1e8])
@pytest.mark.parametrize("trials", [1, 12, 5000])
def test_beta_binomial_of_any_precision(precision, trials):
    """Value, derivatives 1-3 and the slope by log precision against 60 digits, in both tails."""
    likelihood = BetaBinomial(trials, precision)
    with mp.workdps(60):
        for count in {0, 1, trials // 3, trials}:
            for eta in TAILS:
                at, y = np.array([eta]), np.array([float(count)])
                e, k, phi = mp.mpf(eta), mp.mpf(count), mp.mpf(precision)
                log_p = partial(beta_binomial, y=k, phi=phi, n=trials)
                exact = [float(mp.diff(log_p, e, j)) for j in range(4)]
                found = [float(part[0]) for part in likelihood.derivatives(at, y)]
                assert found[0] == pytest.approx(exact[0], rel=1e-11, abs=1e-12 * trials**0.5)
                assert found[1:] == pytest.approx(exact[1:], rel=1e-10, abs=1e-13 * trials)
                value = log_likelihood(likelihood_code(likelihood, y), at, 0.0)
                assert value == pytest.approx(exact[0], rel=1e-11, abs=1e-12 * trials**0.5)
                slope = mp.diff(
                    lambda t, e=e, k=k: beta_binomial(e, k, mp.exp(t), trials), mp.log(phi)
                )
                by_log = float(likelihood.parameter_gradient(at, y)[0])
                assert by_log == pytest.approx(float(slope), rel=1e-10, abs=1e-13 * trials)


@pytest.mark.parametrize("size", [None, 0.02, 0.75, 1e6])
@pytest.mark.parametrize("probability", [1e-12, 0.3, 1.0 - 1e-6])
@pytest.mark.parametrize(("kind", "exact"), [(ZeroInflated, zero_inflated), (Hurdle, hurdle)])
def test_counts_with_zeros_in_both_tails(kind, exact, size, probability):
    """Value, derivatives 1-3 and slopes by logit pi and log size against 60 digits; no size is Poisson."""
    base = Poisson(2.5) if size is None else NegativeBinomial(size, 2.5)
    likelihood = kind(base, probability)
    with mp.workdps(60):
        d, pi = mp.mpf(1e40 if size is None else size), mp.mpf(probability)
        for eta in (-300.0, -30.0, -2.0, 0.0, 1.0, 3.5, 20.0):
            for count in (0.0, 1.0, 2.0, 150.0):
                at, y, e, k = np.array([eta]), np.array([count]), mp.mpf(eta), mp.mpf(count)
                log_p = partial(exact, y=k, d=d, pi=pi)
                with mp.workdps(120):
                    want = [float(mp.diff(log_p, e, j)) for j in range(4)]
                found = [float(part[0]) for part in likelihood.derivatives(at, y)]
                assert found == pytest.approx(want, rel=1e-11, abs=3e-14), (eta, count)
                value, slope = likelihood.log_density_and_gradient(at, y)
                assert [float(value), float(slope[0])] == pytest.approx(
                    want[:2], rel=1e-11, abs=3e-14
                )
                compiled = log_likelihood(likelihood_code(likelihood, y), at, 0.0)
                assert compiled == pytest.approx(want[0], rel=1e-11, abs=3e-14)
                slopes = [
                    mp.diff(
                        lambda t, e=e, k=k: exact(e, k, d, 1 / (1 + mp.exp(-t))),
                        mp.log(pi / (1 - pi)),
                    )
                ]
                if size is not None:
                    slopes.insert(
                        0, mp.diff(lambda t, e=e, k=k: exact(e, k, mp.exp(t), pi), mp.log(d))
                    )
                by = likelihood.parameter_gradient(at, y).tolist()
                assert by == pytest.approx([float(v) for v in slopes], rel=1e-10, abs=3e-14)


@pytest.mark.parametrize("name", ["zero_inflated", "hurdle", "beta_binomial"])
@pytest.mark.parametrize("eta", [-3.0, 0.4, 2.0])
def test_information_is_the_expected_curvature(name, eta):
    likelihood = CASES[name][0]
    counts = np.arange(10.0 if name == "beta_binomial" else 3000.0)
    at = np.full(counts.shape, eta)
    value, _, second, _ = likelihood.derivatives(at, counts)
    found = likelihood.information(at[:1], counts[:1])
    assert found == pytest.approx([-np.exp(value) @ second], rel=1e-10)


def test_the_information_of_many_trials_stands_in_for_the_sum():
    """Beyond 200 trials a closed form takes its place: positive, and near it."""
    eta, y = np.linspace(-4.0, 4.0, 9), np.zeros(9)
    for precision in (0.5, 5.0, 500.0):
        summed = BetaBinomial(200, precision).information(eta, y)
        closed = BetaBinomial(201, precision).information(eta, y)
        assert np.all((closed > 0.3 * summed) & (closed < 3.0 * summed))
