from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import beta, gamma, kstest, norm

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import IDENTITY, LOGIT, Entry, Parameter
from gpmcflow.parameters.space import ParameterSpace

LENGTH = Hyperprior("norm", {"loc": 0.3, "scale": 0.7})
GAMMA = Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural")
WIDE = Hyperprior.log_uniform(0.1, 10.0)
SHARE = Hyperprior("beta", {"a": 1.5, "b": 4.0}, scale="probability")
SHARED = Parameter("ell", WIDE)

SPACE = ParameterSpace(
    [
        ("trend", [Entry("length_scale", LENGTH), Entry("signal_sd", 2.0)]),
        ("season", [Entry("length_scale", SHARED), Entry("period", 12.0), Entry("alpha", SHARED)]),
        ("", [Entry("mean", LENGTH, IDENTITY), Entry("shift", -3.0, IDENTITY)]),
        ("", []),
        ("noise", [Entry("scale", Parameter("ell", WIDE)), Entry("df", GAMMA)]),
        ("", [Entry("share", SHARE, LOGIT), Entry("odd", 0.2, LOGIT)]),
    ]
)
THETA = np.array([0.4, -0.2, 1.5, -0.7, -2.0])


def test_order_names_and_places():
    assert SPACE.all_names == (
        "trend.length_scale", "trend.signal_sd", "ell", "season.period", "mean", "shift", "noise.df",
        "share", "odd",
    )  # fmt: skip
    assert SPACE.names == ("trend.length_scale", "ell", "mean", "noise.df", "share")
    assert SPACE.free.tolist() == [0, 2, 4, 6, 7]
    assert (SPACE.size, SPACE.dim) == (9, 5)
    places = [SPACE.places(k).tolist() for k in range(6)]
    assert places == [[0, 1], [2, 3, 2], [4, 5], [], [2, 6], [7, 8]]
    assert SPACE.places(3).dtype == int
    assert SPACE.free_priors == (LENGTH, WIDE, LENGTH, GAMMA, SHARE)
    assert tuple(SPACE.priors[k] for k in SPACE.free) == SPACE.free_priors
    fixed = [SPACE.priors[k] for k in (1, 3, 5, 8)]
    assert fixed == pytest.approx([np.log(2.0), np.log(12.0), -3.0, np.log(0.25)])


def test_coordinates_and_units():
    full = SPACE.full(THETA)
    expected = [0.4, np.log(2.0), -0.2, np.log(12.0), 1.5, -3.0, -0.7, -2.0, np.log(0.25)]
    assert full == pytest.approx(expected)
    e = np.exp
    assert SPACE.natural(THETA) == pytest.approx(
        {"trend.length_scale": e(0.4), "trend.signal_sd": 2.0, "ell": e(-0.2), "season.period": 12.0,
         "mean": 1.5, "shift": -3.0, "noise.df": e(-0.7), "share": e(-2.0) / (1.0 + e(-2.0)), "odd": 0.2},
        rel=1e-15,
    )  # fmt: skip


def test_density_counts_a_shared_parameter_once():
    expected = (
        norm(0.3, 0.7).logpdf([0.4, 1.5]).sum()  # the identity coordinate has no Jacobian
        - np.log(np.log(100.0))
        + gamma(2.0, scale=0.3).logpdf(np.exp(-0.7)) - 0.7
        + beta(1.5, 4.0).logpdf(expit(-2.0)) + log_expit(-2.0) + log_expit(2.0)
    )  # fmt: skip
    assert SPACE.log_prior(THETA) == pytest.approx(expected, rel=1e-14)
    assert SPACE.log_prior([0.4, np.log(10.1), 1.5, -0.7, -2.0]) == -np.inf


def test_density_and_transform_are_one_prior():
    """phi(x) = p(theta) dtheta/dx for all coordinates, the slopes by differences."""
    x = np.array([-1.2, 0.8, 2.1, -0.4, 1.3])
    theta, slopes = SPACE.normal.theta(x)
    each = [prior.transform(v)[0] for prior, v in zip(SPACE.free_priors, x, strict=True)]
    assert np.allclose(theta, each, rtol=1e-14)
    assert SPACE.to_normal(theta) == pytest.approx(x, rel=1e-12)
    h = 1e-5
    differences = (SPACE.normal.theta(x + h)[0] - SPACE.normal.theta(x - h)[0]) / (2 * h)
    assert slopes == pytest.approx(differences, rel=1e-8)
    log_phi = norm.logpdf(x).sum()
    assert SPACE.log_prior(theta) + np.log(differences).sum() == pytest.approx(log_phi, rel=1e-8)


def test_a_natural_prior_of_an_identity_coordinate_is_that_of_its_exponential():
    """The base rate exp(c) of a log rate c."""
    space = ParameterSpace([("", [Entry("mean", GAMMA, IDENTITY)])])
    expected = gamma(2.0, scale=0.3).logpdf(np.exp(-0.7)) - 0.7
    assert space.log_prior([-0.7]) == pytest.approx(expected, rel=1e-14)
    assert space.natural([-0.7]) == {"mean": -0.7}


def test_draws():
    rng = np.random.default_rng(3)
    theta = np.array([SPACE.draw_prior(rng) for _ in range(1500)])
    assert kstest(theta[:, 0], norm(0.3, 0.7).cdf).pvalue > 1e-3
    assert kstest(np.exp(theta[:, 3]), gamma(2.0, scale=0.3).cdf).pvalue > 1e-3
    assert kstest(expit(theta[:, 4]), beta(1.5, 4.0).cdf).pvalue > 1e-3
    x = np.array([SPACE.to_normal(t) for t in theta])
    assert kstest(x.ravel(), "norm").pvalue > 1e-3
    assert np.max(np.abs(np.corrcoef(x.T) - np.eye(5))) < 0.1
    central = np.array([SPACE.draw_prior(rng, central=0.5) for _ in range(200)])
    assert np.max(np.abs([SPACE.to_normal(t) for t in central])) < norm.ppf(0.75)
    assert SPACE.to_normal(SPACE.prior_median()) == pytest.approx(np.zeros(5), abs=1e-14)


def test_nothing_free():
    space = ParameterSpace([("a", [Entry("sd", 2.0)])])
    assert (space.dim, space.names, space.log_prior(np.empty(0))) == (0, (), 0.0)
    assert space.full([]) == pytest.approx([np.log(2.0)])
    assert space.normal.theta(np.empty(0))[0].shape == (0,)
    with pytest.raises(InputError, match=r"shape \(1,\); allowed: \(0,\): none is free"):
        space.full([0.1])
    assert ParameterSpace([]).full([]).shape == (0,)


def test_a_shared_number_is_one_fixed_parameter():
    fixed = Parameter("ell", 3.0)
    space = ParameterSpace([("a", [Entry("length_scale", fixed)]), ("b", [Entry("period", fixed)])])
    assert space.natural([]) == pytest.approx({"ell": 3.0})
    assert space.places(0).tolist() == space.places(1).tolist() == [0]


def _one(prefix, *entry):
    return prefix, [Entry(*entry)]


BAD = {
    "one name": (
        [_one("a", "sd", LENGTH), _one("", "sd", 1.0), _one("a", "sd", LENGTH)],
        r"parameters: sd of a and sd of a have one name, 'a\.sd'; give one of them another name",
    ),
    "one name without a prefix": (
        [_one("", "sd", LENGTH), _one("", "sd", LENGTH)],
        r"sd of group 1 and sd of group 2 have one name, 'sd'",
    ),
    "the name of a shared one": (
        [_one("noise", "sd", Parameter("trend.sd", 1.0)), _one("trend", "sd", 1.0)],
        r"sd of noise and sd of trend have one name, 'trend.sd'",
    ),
    "two values": (
        [_one("a", "sd", SHARED), _one("b", "length", Parameter("ell", LENGTH))],
        r"sd of a and length of b share Parameter 'ell' with two values, .*uniform.* and .*norm",
    ),
    "two coordinates": (
        [_one("a", "sd", SHARED), _one("", "mean", SHARED, IDENTITY)],
        r"sd of a and mean of group 2 share Parameter 'ell', whose coordinates differ, log and identity",
    ),
    "not positive": ([_one("a", "sd", 0.0)], r"parameter a\.sd is 0\.0; allowed: a positive number"),
    "not finite": ([_one("", "mean", np.inf, IDENTITY)], r"parameter mean is inf; allowed: a finite number"),
    "shared and negative": ([_one("a", "sd", Parameter("s", -1.0))], r"parameter s is -1\.0; allowed"),
    "coordinate": ([_one("a", "sd", 1.0, "probit")], r"parameter sd: .*'probit'"),
    "no probability": ([_one("", "share", 1.0, LOGIT)], r"share is 1\.0; allowed: a number between 0 and 1"),
    "a prior of a positive number": (
        [_one("", "share", LENGTH, LOGIT)],
        r"parameter share is a probability, its hyperprior .*scale='log'\); allowed: .*'logit' or 'prob",
    ),
    "a prior of a probability": (
        [_one("a", "sd", SHARE)],
        r"parameter a\.sd is a positive number, its hyperprior .*; allowed: .* scale 'log' or 'natural'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "message"), BAD.values(), ids=BAD)
def test_bad_groups(groups, message):
    with pytest.raises(InputError, match=message) as found:
        ParameterSpace(groups)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("method", ["full", "natural"])
def test_theta_of_another_shape(method):
    message = (
        r"theta has shape \(3,\); allowed: \(5,\): trend.length_scale, ell, mean, noise.df, share"
    )
    with pytest.raises(InputError, match=message):
        getattr(SPACE, method)(np.zeros(3))


def test_a_hyperprior_without_a_transform_is_refused_late():
    space = ParameterSpace([("", [Entry("sd", Hyperprior("norm", {"loc": 1.0}, scale="natural"))])])
    assert np.isfinite(space.log_prior([0.2]))
    with pytest.raises(InputError, match="of sd includes zero"):
        _ = space.normal
