"""What every likelihood answers, each of the package and one with constants of each case."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    Beta,
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    Gamma,
    Gaussian,
    Hurdle,
    Likelihood,
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
from gpmcflow.likelihoods.compiled import (
    PythonCode,
    elliptical_updates,
    likelihood_code,
    log_likelihood,
)
from gpmcflow.likelihoods.sites import LARGEST_VARIANCE
from gpmcflow.parameters.parameter import coordinate_of, own_units

N = 12
PER_CASE = np.linspace(0.4, 3.0, N)
CASES = {
    "probit": Probit(),
    "logistic": Logistic(),
    "gaussian": Gaussian(0.4),
    "poisson": Poisson(2.5),
    "negative_binomial": NegativeBinomial(1.7, 2.5),
    "binomial": Binomial(9),
    "student_t": StudentT(0.6, 5.0),
    "log_normal": LogNormal(0.4),
    "gamma": Gamma(1.7),
    "survival": Survival(scale=0.4),
    "log-logistic survival": Survival("loglogistic", 0.2),
    "log-normal survival": Survival("lognormal", 0.4),
    "ordinal": Ordinal(cutpoints=(-0.6, 0.5, 1.9)),
    "ordinal, probit": Ordinal(("low", "medium", "high"), "probit", (-0.6, 0.5)),
    "censored_gaussian": CensoredGaussian(0.4, below=-40.0),
    "censored gaussian, limits by case": CensoredGaussian(0.4, below=-30.0 - PER_CASE, above=40.0),
    "beta": Beta(4.3),
    "zero_inflated": ZeroInflated(Poisson(2.5), 0.3),
    "hurdle": Hurdle(Poisson(2.5), 0.3),
    "beta_binomial": BetaBinomial(9, 4.3),
    "beta-binomial, trials": BetaBinomial(np.arange(1, N + 1), 4.3),
    "zero-inflated negative binomial": ZeroInflated(NegativeBinomial(1.7, PER_CASE), 0.2),
    "hurdle negative binomial": Hurdle(NegativeBinomial(0.6, PER_CASE), 0.2),
    "gaussian, known noise": Gaussian(PER_CASE),
    "poisson, exposures": Poisson(PER_CASE),
    "negative binomial, exposures": NegativeBinomial(1.7, PER_CASE),
    "binomial, trials": Binomial(np.arange(1, N + 1)),
}


def test_every_likelihood_has_a_case():
    assert set(LIKELIHOODS) <= set(CASES)
    assert {type(likelihood) for likelihood in CASES.values()} >= set(LIKELIHOODS.values())


@pytest.fixture(params=CASES)
def case(request):
    """Likelihood, predictors (3, N) and observations."""
    rng = np.random.default_rng(3)
    likelihood = CASES[request.param]
    eta = 1.5 * rng.standard_normal((3, N))
    y = likelihood.simulate(rng, eta[0])
    likelihood.validate(y)
    return likelihood, eta, y


def test_values_and_derivatives_agree(case):
    likelihood, eta, y = case
    derivatives = likelihood.derivatives(eta, y)
    assert [d.shape for d in derivatives] == [eta.shape] * 4
    step = 1e-5
    above, below = (likelihood.derivatives(eta + s * step, y) for s in (1.0, -1.0))
    for order in range(3):
        difference = (above[order] - below[order]) / (2.0 * step)
        np.testing.assert_allclose(derivatives[order + 1], difference, rtol=1e-6, atol=1e-6)
    value, slope = likelihood.log_density_and_gradient(eta, y)
    np.testing.assert_allclose(value, derivatives[0].sum(-1), rtol=1e-12)
    np.testing.assert_allclose(slope, derivatives[1], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(likelihood.gradient(eta, y), slope, rtol=1e-12)
    np.testing.assert_allclose(likelihood.log_density(eta, y), value, rtol=1e-13)
    by_phi = likelihood.parameter_gradient(eta, y)
    entries = likelihood.entries()
    assert by_phi.shape == (3, len(entries))
    values = np.array([coordinate_of(entry.setting, entry.coordinate) for entry in entries])
    for k in range(len(entries)):
        moves = 1e-5 * (np.arange(len(entries)) == k)
        up, down = (
            likelihood.with_values(
                [own_units(v, e.coordinate) for v, e in zip(values + m, entries, strict=True)]
            ).log_density(eta, y)
            for m in (moves, -moves)
        )
        np.testing.assert_allclose(by_phi[:, k], (up - down) / 2e-5, rtol=1e-6, atol=1e-6)


def test_simulated_means_are_the_mean_response(case):
    likelihood, eta, _ = case
    mean, variance, n = eta[0], 0.3, 40_000
    rng = np.random.default_rng(4)
    y = likelihood.simulate(rng, mean + np.sqrt(variance) * rng.standard_normal((n, N)))
    y = 0.5 * (y + 1.0) if likelihood.binary else y
    inner = getattr(likelihood, "likelihood", likelihood)
    unit = getattr(inner, "exposure", getattr(inner, "trials", 1.0))
    order = getattr(likelihood, "index", np.arange(N))
    expected = unit * likelihood.mean_response(mean, np.full(N, variance))[order]
    error = y.std(0) / np.sqrt(n)
    assert np.all(np.abs(y.mean(0) - expected) < 4.5 * error)


def test_base_quadrature_of_the_mean_response(case):
    likelihood, eta, _ = case
    if likelihood.exponential_mean:  # of which the mean depends on the exposure
        likelihood = likelihood.with_constants(exposure=2.5)
    for variance in (1e-10, 0.5, 20.0):
        exact = likelihood.mean_response(eta, np.full(eta.shape, variance))
        found = Likelihood.mean_response(likelihood, eta, np.full(eta.shape, variance))
        np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-12)


def test_many_mean_responses_are_those_of_each():
    mean, variance = np.random.default_rng(0).random((2, 5000, 2))
    found = Likelihood.mean_response(Poisson(), mean, variance)
    np.testing.assert_allclose(found, np.exp(mean + 0.5 * variance), rtol=1e-12)


def test_mean_response_of_logistic_data():
    with mp.workdps(20):
        expected = mp.quad(
            lambda z: mp.npdf(z) / (1 + mp.exp(-(mp.mpf("0.7") + 2 * z))),
            [-14, -4, -1, 0, 1, 4, 14],
        )
    for likelihood in (Logistic(), Binomial(np.array([3, 4]))):
        found = likelihood.mean_response(np.array([0.7]), np.array([4.0]))
        assert found == pytest.approx([float(expected)], rel=1e-9)


def test_copies_and_reprs(case):
    likelihood, eta, y = case
    again = pickle.loads(pickle.dumps(likelihood))
    assert again == likelihood
    assert (repr(again), hash(again)) == (repr(likelihood), hash(likelihood))
    assert np.array_equal(again.derivatives(eta, y), likelihood.derivatives(eta, y))
    assert len({repr(other) for other in CASES.values()}) == len(CASES)
    assert len(repr(likelihood)) < 200


def test_reprs_tell_the_content_of_arrays():
    changed = PER_CASE.copy()
    changed[7] += 1e-12
    assert repr(Poisson(PER_CASE)) != repr(Poisson(changed))
    assert Poisson(PER_CASE) != Poisson(changed)
    given = PER_CASE.copy()
    likelihood = Poisson(given)
    given[0] = 9.0  # the likelihood has its own
    assert likelihood == Poisson(PER_CASE)
    assert repr(Poisson(2)) == "Poisson(exposure=2.0)"
    assert repr(Logistic()) == "Logistic()"


def test_some_of_the_cases(case):
    likelihood, eta, y = case
    cases = np.array([7, 2, 11])
    for some in (cases, slice(3, 9)):
        for ours, of_all in zip(
            likelihood.take(some).derivatives(eta[:, some], y[some]),
            likelihood.derivatives(eta, y),
            strict=True,
        ):
            np.testing.assert_allclose(ours, of_all[:, some], rtol=1e-14)


def test_compiled_values(case):
    likelihood, eta, y = case
    for scale in (1.0, 6.0):
        f = scale * eta[1]
        expected = likelihood.log_density(f + 0.3, y)
        found = log_likelihood(likelihood_code(likelihood, y), f, 0.3)
        assert found == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_updates_in_python_are_the_compiled_ones(case):
    """A likelihood without compiled form has the same chain, up to rounding."""
    likelihood, eta, y = case
    draws = np.random.default_rng(5).standard_normal((20, N))
    ends = []
    for code in (likelihood_code(likelihood, y), PythonCode(likelihood, y)):
        f, rng = eta[0].copy(), np.random.default_rng(6)
        value = log_likelihood(code, f, 0.2)
        ends.append(
            (f, *elliptical_updates(rng, code, 0.2, f, value, draws, np.empty(N)), rng.random())
        )
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-11)
    assert ends[0][1] == pytest.approx(ends[1][1], rel=1e-11)
    assert ends[0][2:] == ends[1][2:]
    assert ends[0][1] == pytest.approx(likelihood.log_density(ends[0][0] + 0.2, y), rel=1e-12)
    assert np.abs(ends[0][0] - eta[0]).max() > 0.1


def test_sites_with_an_offset_and_variances_of_each_case(case):
    """Moment sites have the tilted moments; Laplace sites sit at the mode, where f / k is the slope."""
    likelihood, _, y = case
    k, c = np.linspace(0.3, 2.0, N), 0.4
    if likelihood.log_concave:
        _, alpha, r = likelihood.tilted(y, np.full(N, c), k)
        w, b, _ = likelihood.moment_sites(y, k, c)
        some = np.maximum(r / (1.0 - k * r), 1.0 / LARGEST_VARIANCE)  # a zero of a hurdle has none
        np.testing.assert_allclose(1.0 / (1.0 / k + w), 1.0 / (1.0 / k + some), rtol=1e-9)
        np.testing.assert_allclose(b / (1.0 / k + w), k * alpha, rtol=1e-9)
    w, b, _ = likelihood.laplace_sites(y, k, c)
    mode = b / (1.0 / k + w)
    np.testing.assert_allclose(mode / k, likelihood.gradient(mode + c, y), atol=1e-9)
    precision = np.maximum(likelihood.majorising_precision(mode + c, y), 1.0 / LARGEST_VARIANCE)
    np.testing.assert_allclose(w, precision, rtol=1e-9)


class Bare(Likelihood):
    """The least a user writes."""

    def __init__(self, weight):
        self.weight = weight

    def validate(self, y):
        pass

    def derivatives(self, eta, y):
        r = y - eta
        return tuple(self.weight * v for v in (-0.5 * r * r, r, -np.ones_like(r), 0.0 * r))

    def simulate(self, rng, eta):
        return eta + rng.standard_normal(np.shape(eta)) / np.sqrt(self.weight)


def test_a_bare_subclass():
    bare, y = Bare(np.full(3, 4.0)), np.array([0.5, 1.0, 2.0])
    assert bare.name == "bare"
    assert repr(bare) == repr(Bare(np.full(3, 4.0))) != repr(Bare(np.full(3, 5.0)))
    with pytest.raises(InputError, match=r"bare likelihood.*give it a method conditional_mean"):
        bare.mean_response(y, y)
    with pytest.raises(InputError, match=r"TaylorSites: the bare likelihood"):
        bare.taylor_sites(y, 0.0)
    w, b, _ = bare.laplace_sites(y, 2.0, 0.0)
    np.testing.assert_allclose(w, 4.0)
    np.testing.assert_allclose(b, 4.0 * y)
    Bare.parameters, Bare.log_concave = ("weight",), False
    try:
        for method in ("information", "majorising_precision"):
            with pytest.raises(InputError, match=rf"bare likelihood is not log-concave.*{method}"):
                getattr(bare, method)(y, y)
        with pytest.raises(
            InputError, match=r"parameters weight have no gradient.*parameter_gradient"
        ):
            Bare(4.0).parameter_gradient(y, y)
    finally:
        Bare.parameters, Bare.log_concave = (), True


@pytest.mark.parametrize("kind", [Poisson(), NegativeBinomial(2.0)])
def test_counts_of_absurd_rates_can_be_simulated(kind):
    """A vague prior has them; NumPy refuses rates beyond its integers."""
    assert np.all(kind.simulate(np.random.default_rng(0), np.array([60.0, 700.0])) > 1e16)
