from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, logit
from scipy.stats import beta, gamma, kstest, norm

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior

PRIORS = {
    "uniform": Hyperprior.log_uniform(0.1, 10.0),
    "norm": Hyperprior("norm", {"loc": 0.7, "scale": 0.5}),
    "gamma": Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural"),
    "halfcauchy": Hyperprior("halfcauchy", {"scale": 2.0}, scale="natural"),
    "cut normal": Hyperprior("norm", {"loc": 0.3, "scale": 1.0}, scale="natural"),
    "bounded": Hyperprior("uniform", {"loc": 0.5, "scale": 2.0}, scale="natural"),
    "t": Hyperprior("t", {"df": 4.0, "loc": 1.0}),
    "logit": Hyperprior("norm", {"loc": -1.0, "scale": 1.5}, scale="logit"),
    "beta": Hyperprior("beta", {"a": 1.5, "b": 3.0}, scale="probability"),
    "part": Hyperprior("uniform", {"loc": 0.2, "scale": 0.5}, scale="probability"),
}
OF_PROBABILITIES = {name for name, prior in PRIORS.items() if prior.of_probability}


@pytest.fixture(params=PRIORS)
def prior(request):
    return PRIORS[request.param]


def test_density_over_the_coordinate_integrates_to_one(prior):
    low, high = (np.clip(v, -60, 60) for v in prior.support)
    knots = np.unique(np.clip(np.linspace(-20, 20, 41), low, high))
    total = sum(
        quad(lambda t: np.exp(prior.log_density(t)), a, b)[0]
        for a, b in zip([low, *knots], [*knots, high], strict=True)
    )
    assert total == pytest.approx(1.0, rel=1e-4)


def test_draws_have_the_density(prior):
    draws = prior.draw(np.random.default_rng(0), 2000)
    low, high = (np.clip(v, -30, 30) for v in prior.support)
    knots = np.linspace(low, high, 20001)
    density = np.exp([prior.log_density(t) for t in 0.5 * (knots[1:] + knots[:-1])])
    below = np.concatenate([[0.0], np.cumsum(density * np.diff(knots))])
    assert kstest(draws, lambda t: np.interp(t, knots, below)).pvalue > 1e-3
    assert np.all((draws >= prior.support[0]) & (draws <= prior.support[1]))


def test_the_jacobian_of_the_natural_scale():
    expected = gamma(2.0, scale=0.3).logpdf(0.4) + np.log(0.4)
    assert PRIORS["gamma"].log_density(np.log(0.4)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("name", sorted(set(PRIORS) - OF_PROBABILITIES))
def test_of_h_in_another_unit(name):
    prior = PRIORS[name]
    weeks = prior.divided(7.0)
    theta = prior.quantile(np.array([0.05, 0.4, 0.9]))
    assert weeks.quantile(np.array([0.05, 0.4, 0.9])) == pytest.approx(theta - np.log(7.0))
    for t in theta:
        assert weeks.log_density(t - np.log(7.0)) == pytest.approx(prior.log_density(t))


def test_the_jacobian_of_a_probability():
    expected = beta(1.5, 3.0).logpdf(0.2) + np.log(0.2 * 0.8)
    assert PRIORS["beta"].log_density(logit(0.2)) == pytest.approx(expected, rel=1e-14)
    assert PRIORS["logit"].log_density(0.5) == norm(-1.0, 1.5).logpdf(0.5)


def test_a_probability_keeps_its_digits_near_0_and_1():
    """A beta's tails are c h^a and c (1 - h)^b, so theta is straight in the log of the tail."""
    prior = Hyperprior("beta", {"a": 0.4, "b": 0.3}, scale="probability")
    for theta in (-80.0, 80.0):
        log_c = -betaln(0.4, 0.3)
        assert prior.log_density(theta) == pytest.approx(log_c - (0.4, 0.3)[theta > 0] * 80.0)
        assert prior.transform(prior.to_normal(theta))[0] == pytest.approx(theta, rel=1e-12)


def test_standard_normal_coordinates(prior):
    x = np.array([-3.0, -0.4, 0.0, 1.2, 3.5])
    theta = prior.transform(x)[0]
    assert np.all(np.diff(theta) > 0)
    assert prior.to_normal(theta) == pytest.approx(x, abs=1e-8)
    step = 1e-5
    slope = (prior.transform(x + step)[0] - prior.transform(x - step)[0]) / (2 * step)
    assert prior.transform(x)[1] == pytest.approx(slope, rel=1e-5)


def test_tails_keep_their_digits():
    normal = PRIORS["norm"]
    assert normal.transform([-20.0, 20.0])[0] == pytest.approx([-9.3, 10.7], rel=1e-12)
    assert normal.to_normal([-9.3, 10.7]) == pytest.approx([-20.0, 20.0], rel=1e-12)


def test_bounds_are_known():
    assert PRIORS["uniform"].support == pytest.approx((np.log(0.1), np.log(10.0)))
    assert PRIORS["bounded"].support == pytest.approx((np.log(0.5), np.log(2.5)))
    assert PRIORS["gamma"].support == (-np.inf, np.inf)
    assert PRIORS["uniform"].log_density(np.log(10.0) + 1e-9) == -np.inf
    assert PRIORS["bounded"].log_density(0.0) == pytest.approx(-np.log(2.0))
    assert PRIORS["uniform"].width == pytest.approx(np.log(100.0))
    assert PRIORS["beta"].support == (-np.inf, np.inf)
    assert PRIORS["part"].support == pytest.approx((np.log(0.25), np.log(7 / 3)))
    assert PRIORS["part"].log_density(np.log(0.25) - 1e-9) == -np.inf
    assert PRIORS["norm"].width == pytest.approx(0.5 * 2 * 2.5758293035489)


def test_pickle_hash_and_repr(prior):
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert len({prior, Hyperprior(**{k: getattr(prior, k) for k in prior.__getstate__()})}) == 1
    assert eval(repr(prior)) == prior


def test_from_a_config():
    entry = {"distribution": "norm", "parameters": {"scale": 0.5}, "scale": "log"}
    assert hyperprior(entry, "config") == Hyperprior("norm", {"scale": 0.5})
    assert hyperprior(2, "config") == 2.0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"distribution": "gama"}, "config: hyperprior: distribution: unknown name 'gama'; did you mean"),
        ({"distribution": "gamma"}, "parameter 'a' is missing"),
        ({"distribution": "norm", "parameters": {"sd": 1.0}}, "parameter: unknown name 'sd'"),
        ({"distribution": "norm", "parameters": {"scale": -1.0}}, "out of its range"),
        ({"distribution": "norm", "scale": "natrual"}, "did you mean 'natural'"),
        ({"distribution": "uniform", "parameters": {"loc": -2.0}, "scale": "natural"}, "no probability"),
        ({"distribution": "gamma", "parameters": {"a": 2.0}, "scale": "probability"}, "allowed: beta"),
        ({"distribution": "uniform", "parameters": {"scale": 2}, "scale": "probability"}, "allowed: beta"),
        ({"name": "norm"}, "setting: unknown name 'name'"),
        ({}, "distribution"),
        ("norm", "allowed: a number, or a hyperprior"),
        (True, "allowed: a number, or a hyperprior"),
    ],
)  # fmt: skip
def test_bad_entries(entry, message):
    with pytest.raises(InputError, match=r"config") as found:
        hyperprior(entry, "config")
    assert message in str(found.value)
    assert "\n" not in str(found.value)


def test_bad_bounds():
    with pytest.raises(InputError, match=r"allowed: 0 < lower < upper"):
        Hyperprior.log_uniform(0.0, 1.0)


@pytest.mark.parametrize("scale", ["log", "logit"])
def test_normals_are_those_of_scipy(scale):
    own = Hyperprior("norm", {"loc": -0.5, "scale": 1.5}, scale)
    law = norm(-0.5, 1.5)
    assert own.support == law.support()
    assert own.width == pytest.approx(law.ppf(0.995) - law.ppf(0.005), rel=1e-14)
    places = np.linspace(-9.0, 9.0, 7)
    assert [own.log_density(t) for t in places] == pytest.approx(law.logpdf(places), rel=1e-13)
    assert own.quantile([1e-9, 0.3, 0.9]) == pytest.approx(law.ppf([1e-9, 0.3, 0.9]), rel=1e-14)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_normal_without_a_width_is_refused(scale):
    with pytest.raises(InputError, match=r"norm: parameters .* out of its range"):
        Hyperprior("norm", {"scale": scale})
