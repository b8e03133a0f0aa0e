"""Likelihoods whose parameters are functions: derivatives, averages and messages, over all families."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import with_functions

COUNTS = np.array([0.0, 3.0, 0.0, 11.0, 1.0])
TIMES = np.array([0.3, 2.0, 1.0, 5.0, 0.8])
EVENTS = {"event": [1, 0, -1, 1, 1], "until": [np.nan, np.nan, np.nan, 7.0, np.nan]}
FAMILIES = {
    "negative_binomial": (gp.NegativeBinomial(exposure=np.arange(1.0, 6.0)), ["size"], COUNTS),
    "zero_inflated": (gp.ZeroInflated(gp.NegativeBinomial()), ["size", "probability"], COUNTS),
    "zeros of poisson": (gp.ZeroInflated(gp.Poisson()), ["probability"], COUNTS),
    "hurdle": (gp.Hurdle(gp.NegativeBinomial(size=1.5)), ["probability"], COUNTS),
    "hurdle, size": (gp.Hurdle(gp.NegativeBinomial()), ["size"], COUNTS),
    "student_t": (gp.StudentT(), ["scale", "df"], TIMES - 1.0),
    "student_t, scale": (gp.StudentT(), ["scale"], TIMES - 1.0),
    "gamma": (gp.Gamma(), ["shape"], TIMES),
    "log_normal": (gp.LogNormal(), ["noise_sd"], TIMES),
    "beta": (gp.Beta(), ["precision"], TIMES / 6.0),
    "beta_binomial": (gp.BetaBinomial(trials=12), ["precision"], COUNTS),
    "weibull": (gp.Survival(**EVENTS), ["scale"], TIMES),
    "loglogistic": (gp.Survival("loglogistic", **EVENTS), ["scale"], TIMES),
    "lognormal": (gp.Survival("lognormal", **EVENTS), ["scale"], TIMES),
    "censored_gaussian": (gp.CensoredGaussian(below=0.5, above=2.0), ["noise_sd"], np.clip(TIMES, 0.5, 2.0)),
}  # fmt: skip


def made(name):
    """The likelihood, at numbers for the parameters that do not vary, and observations."""
    base, varying, y = FAMILIES[name]
    likelihood = with_functions(base, varying)
    return likelihood.with_values([number(entry) for entry in likelihood.entries()]), y


def number(entry, move=0.0):
    """A parameter that does not vary, moved by its coordinate."""
    return 1.7 * np.exp(move) if entry.coordinate == "log" else expit(move - 0.3)


def predictors(likelihood, batch=()):
    shape = (*batch, len(likelihood.functions), 5)
    return np.random.default_rng(0).normal(0.2, 0.7, shape)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_case_is_the_likelihood_with_its_own_parameters(name):
    """Case by case, a likelihood with numbers gives log p and the slope by its one predictor."""
    likelihood, y = made(name)
    eta = predictors(likelihood, (2,))
    value, slope = likelihood.derivatives(eta, y)
    base, varying, _ = FAMILIES[name]
    for row, i in np.ndindex(2, 5):
        numbers = []
        for entry in base.entries():
            at = number(entry)
            if entry.name in varying:
                g = eta[row, 1 + likelihood.varying.index(entry.name), i]
                at = np.exp(g) if entry.coordinate == "log" else expit(g)
            numbers.append(at)
        one = base.take(np.array([i])).with_values(numbers)
        alone = one.derivatives(eta[row, 0, [i]], y[[i]])
        assert value[row, i] == pytest.approx(alone[0][0], rel=1e-12)
        assert slope[row, 0, i] == pytest.approx(alone[1][0], rel=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_and_information_are_those_of_the_density(name):
    likelihood, y = made(name)
    eta = predictors(likelihood, (2,))
    slope = likelihood.derivatives(eta, y)[1]
    blocks = likelihood.information_blocks(eta, y)
    q = len(likelihood.functions)

    def value(*moves):
        return likelihood.derivatives(eta + sum(moves), y)[0]

    def step(k, size):
        return size * np.eye(q)[k][:, None]

    for j in range(q):
        by_difference = (value(step(j, 1e-5)) - value(step(j, -1e-5))) / 2e-5
        assert slope[:, j] == pytest.approx(by_difference, rel=1e-6, abs=1e-8)
        for k in range(q):
            h = 1e-3
            corners = [
                a * b * value(step(j, a * h), step(k, b * h)) for a in (1, -1) for b in (1, -1)
            ]
            curve = -sum(corners) / (4.0 * h * h)
            assert blocks[:, j, k] == pytest.approx(curve, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["student_t, scale", "hurdle, size"])
def test_parameters_that_do_not_vary_have_their_slopes(name):
    likelihood, y = made(name)
    eta, h = predictors(likelihood, (2,)), 1e-6
    free = with_functions(*FAMILIES[name][:2])
    (entry,) = free.entries()

    def value(move):
        return free.with_values([number(entry, move)]).log_density(eta, y)

    by_difference = (value(h) - value(-h)) / (2.0 * h)
    assert likelihood.parameter_gradient(eta, y)[:, 0] == pytest.approx(
        by_difference, rel=1e-6, abs=1e-7
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_average_to_zero_over_simulated_observations(name):
    likelihood, _ = made(name)
    likelihood = likelihood.take([0]).with_constants(**dict.fromkeys(likelihood.of_observation))
    if name == "censored_gaussian":
        likelihood = likelihood.with_constants(below=-1.0, above=1.0)
    eta = np.broadcast_to(predictors(likelihood)[:, :1], (len(likelihood.functions), 40_000))
    if name == "negative_binomial":
        likelihood = likelihood.with_constants(exposure=np.full(40_000, 2.0))
    y = likelihood.simulate(np.random.default_rng(1), eta)
    slope = likelihood.derivatives(eta, y)[1]
    z = slope.mean(1) / slope.std(1) * np.sqrt(slope.shape[1])
    assert np.abs(z).max() < 4.5


def test_mean_responses_are_averages_over_both_functions():
    """Of a negative binomial exactly; of zero-inflated counts by nodes of the probability."""
    mean, variance = np.array([[0.3], [-0.4]]), np.array([[0.5], [0.8]])
    counts = with_functions(gp.NegativeBinomial(), ["size"])
    assert counts.mean_response(mean, variance) == pytest.approx(np.exp(0.3 + 0.25), rel=1e-12)
    x = np.linspace(-9.0, 9.0, 4001)
    some = float((expit(-(-0.4 + np.sqrt(0.8) * x)) * norm.pdf(x)).sum() * (x[1] - x[0]))
    zeros = with_functions(gp.ZeroInflated(gp.Poisson()), ["probability"])
    found = zeros.mean_response(mean, variance)
    assert found == pytest.approx(some * np.exp(0.55), rel=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_mean_responses_of_functions_that_are_known_are_those_given_them(name):
    likelihood, _ = made(name)
    eta = (
        predictors(likelihood) - 0.9
    )  # where all means exist but that of Student-t with few degrees
    found = likelihood.mean_response(eta, np.full(eta.shape, 1e-12))
    given = likelihood.conditional_mean(eta)
    assert found.shape == (5,)
    told = np.isfinite(found)
    assert told.any() or name == "student_t"
    assert found[told] == pytest.approx(given[told], rel=1e-5)


def test_moments_that_may_not_exist():
    heavy = with_functions(gp.StudentT(scale=1.0), ["df"])
    light = with_functions(gp.StudentT(df=5.0), ["scale"])
    assert not heavy.has_moment(2)
    assert light.has_moment(2)
    mean, variance = np.array([[0.3], [3.0]]), np.array([[0.5], [0.01]])
    assert heavy.mean_response(mean, variance) == pytest.approx(0.3)
    assert np.isnan(heavy.mean_response(mean, np.array([[0.5], [9.0]])))


@pytest.mark.parametrize("far", [-400.0, 400.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_far_out_stay_numbers(name, far):
    """No warning and no nan: an excursion of a trajectory is rejected, not an error."""
    likelihood, y = made(name)
    eta = predictors(likelihood)
    eta[1:] = far
    with np.errstate(all="ignore"):
        value = likelihood.log_density_and_gradient(eta, y)[0]
    assert not np.isnan(value)


@pytest.mark.parametrize(
    ("likelihood", "covariance", "said"),
    [
        (gp.NegativeBinomial(), {"mean": "matern32()", "sizes": "matern32()"}, "did you mean 'size'"),
        (gp.NegativeBinomial(), {"size": "matern32()"}, "no covariance for mean"),
        (gp.Gaussian(), {"mean": "matern32()", "noise_sd": "matern32()"}, "HeteroscedasticGaussian"),
        (gp.Poisson(), {"mean": "matern32()", "rate": "matern32()"}, "allowed: mean"),
    ],
)  # fmt: skip
def test_what_functions_of_parameters_refuse(likelihood, covariance, said):
    with pytest.raises(InputError, match=said):
        gp.GPModel(np.arange(3.0), np.ones(3), covariance, likelihood)


def test_a_covariance_in_the_place_of_a_parameter_is_told_where_it_belongs():
    with pytest.raises(InputError, match="'size': Matern32"):
        gp.NegativeBinomial(size=gp.Matern32(columns="age"))


def test_a_mean_that_no_parameter_moves_is_averaged_once(monkeypatch):
    """Shares: the mean is that of the base, whatever the precision is."""
    likelihood = with_functions(gp.Beta(), ["precision"])
    mean, variance = np.array([[0.3, -1.0], [2.0, 1.0]]), np.array([[0.5, 1.0], [0.2, 0.3]])
    sizes, own = [], gp.Beta.mean_response
    monkeypatch.setattr(
        gp.Beta, "mean_response", lambda self, m, v: sizes.append(m.shape) or own(self, m, v)
    )
    found = likelihood.mean_response(mean, variance)
    assert found == pytest.approx(own(gp.Beta(3.0), mean[0], variance[0]))
    assert sizes == [(1, 2)]
