from __future__ import annotations

import copy
import pickle
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import nbinom

from gpmcflow.errors import InputError
from gpmcflow.jobs.stated_models import likelihood_of
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    BetaBinomial,
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
    likelihood,
)
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperpriors
from gpmcflow.parameters.parameter import Entry, Parameter

WIDE = Hyperprior.log_uniform(0.1, 10.0)


def fields_of(kind):
    return [field.name for field in fields(kind)]


def test_likelihoods_by_name():
    assert likelihood("gaussian", noise_sd=0.2) == Gaussian(0.2)
    counts = {"base": "poisson"}
    needed = {"binomial": {"trials": 3}, "beta_binomial": {"trials": 3}, "ordinal": {"levels": 3}}
    needed |= {"zero_inflated": counts, "hurdle": counts}
    for name, kind in LIKELIHOODS.items():
        made = likelihood(name, **needed.get(name, {}))
        assert type(made) is kind
        assert made.name == name
    given = {"distribution": "norm", "parameters": {"loc": 1.0, "scale": 0.5}}
    made = likelihood("negative_binomial", size=given, exposure=2.0)
    assert made == NegativeBinomial(Hyperprior("norm", {"loc": 1.0, "scale": 0.5}), 2.0)


def test_the_old_name_of_size_is_refused_in_one_line_wherever_it_is_written():
    """As R's size: variance m + m^2 / size, so that log p is scipy's at n = size."""
    y, eta = np.array([0.0, 3.0, 9.0]), np.array([0.2, 1.0, 1.5])
    ours = NegativeBinomial(size=2.5).derivatives(eta, y)[0]
    np.testing.assert_allclose(ours, nbinom.logpmf(y, 2.5, 2.5 / (2.5 + np.exp(eta))), atol=1e-12)
    draws = NegativeBinomial(size=2.5).simulate(np.random.default_rng(0), np.full(40_000, 1.0))
    assert draws.var() == pytest.approx(np.e + np.e**2 / 2.5, rel=0.06)
    problem = {"likelihood": {"negative_binomial": {"dispersion": 2.5}}, "model": "joint"}
    written = {
        "python": lambda: NegativeBinomial(dispersion=2.5),
        "name": lambda: likelihood("negative_binomial", dispersion=2.5),
        "config": lambda: likelihood_of(problem),
    }
    for name, make in written.items():
        with pytest.raises(InputError) as error:
            make()
        message = str(error.value)
        assert "\n" not in message, name
        assert "dispersion is 2.5, and is called size now, as in R" in message, name
        assert "write size=2.5, in a config size: 2.5" in message, name
    copied = pickle.loads(pickle.dumps(NegativeBinomial(2.5)))
    assert copied == copy.copy(copied) == NegativeBinomial(size=2.5)


def test_parameters_left_out_have_the_default_hyperprior():
    for made, names in (
        (Gaussian(), ["noise_sd"]),
        (NegativeBinomial(), ["size"]),
        (StudentT(), ["scale", "df"]),
        (Probit(), []),
        (Gaussian(np.ones(3)), []),  # known levels are no parameter
    ):
        assert made.entries() == tuple(Entry(name, default_hyperpriors()[name]) for name in names)
        fixed = made.with_values(np.arange(len(names)) + 0.5)
        assert [entry.setting for entry in fixed.entries()] == [0.5, 1.5][: len(names)]


def test_a_free_parameter_has_no_value():
    eta, y = np.zeros(2), np.ones(2)
    for made in (Gaussian(WIDE), NegativeBinomial(WIDE), StudentT(0.3, Parameter("df", WIDE))):
        for call in (made.derivatives, made.parameter_gradient, made.majorising_precision):
            with pytest.raises(
                InputError, match=r"free parameter.*take model.at\(theta\)"
            ) as caught:
                call(eta, y)
            assert "\n" not in str(caught.value)
        with pytest.raises(InputError, match=r"free parameter"):
            made.compiled(y)
        with pytest.raises(InputError, match=r"free parameter"):
            made.simulate(np.random.default_rng(0), eta)
    shared = Gaussian(Parameter("noise", 0.5))
    assert shared.log_density(eta, y) == Gaussian(0.5).log_density(eta, y)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gaussian", {"noise": 1.0}, r"likelihood gaussian: setting: .*did you mean 'noise_sd'"),
        ("probit", {"noise_sd": 1.0}, r"likelihood probit: setting: unknown name 'noise_sd'"),
        ("binomial", {}, r"setting 'trials' is missing"),
        (
            "beta_binomial",
            {"precision": 2.0},
            r"likelihood beta_binomial: setting 'trials' is missing",
        ),
        ("student_t", {"df": {"distribution": "nrom"}}, r"df: .*did you mean 'norm'"),
    ],
)
def test_wrong_settings_by_name(name, settings, message):
    with pytest.raises(InputError, match=message):
        likelihood(name, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson([1.0, 0.0, 2.0]), r"exposure\[1\] is 0; allowed: a positive number"),
        (lambda: NegativeBinomial(1.0, [1.0, np.nan]), r"exposure\[1\] is nan"),
        (lambda: Poisson("many"), r"exposure is 'many'"),
        (lambda: Poisson(WIDE), r"exposure is Hyperprior"),
        (lambda: Poisson(np.ones((2, 2))), r"exposure is of shape \(2, 2\)"),
        (
            lambda: NegativeBinomial(-2.0),
            r"size is -2.0; allowed: a positive number, or a hyper",
        ),
        (lambda: StudentT("wide"), r"scale: found 'wide'"),
        (lambda: Binomial(0), r"trials is 0; allowed: a positive number"),
        (lambda: Binomial([3, 2.5]), r"trials is 2.5 in case 1; allowed: whole numbers"),
        (lambda: Poisson(np.ones(3)).validate(np.ones(2)), r"exposure has 3 entries, y has 2"),
        (lambda: Gaussian(np.ones(3)).validate(np.ones(2)), r"noise_sd has 3 entries, y has 2"),
        (
            lambda: BetaBinomial([3, 2.5]),
            r"BetaBinomial likelihood: trials is 2.5 in case 1; allowed",
        ),
        (
            lambda: BetaBinomial(3).validate(np.array([4.0])),
            r"beta_binomial likelihood: y\[0\] is 4 of 3",
        ),
        (lambda: Binomial([3, 3, 3]).validate(np.ones(2)), r"trials has 3 entries, y has 2"),
        (lambda: Binomial(3).validate(np.array([1.0, 4.0])), r"y\[1\] is 4 of 3 trials"),
        (lambda: Binomial([3, 2]).validate(np.array([3.0, 3.0])), r"y\[1\] is 3 of 2 trials"),
        (lambda: Binomial(3).validate(np.array([0.5])), r"y\[0\] is 0.5; allowed: counts"),
        (lambda: NegativeBinomial().validate(np.array([-1.0])), r"y\[0\] is -1; allowed: counts"),
    ],
)
def test_wrong_constants_and_observations(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_unknown_name_says_the_nearest():
    with pytest.raises(InputError, match="did you mean 'probit'"):
        likelihood("probbit")


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_scales_must_be_positive(value):
    with pytest.raises(InputError, match=r"noise_sd.*positive"):
        Gaussian(value)
    with pytest.raises(InputError, match=r"exposure.*positive"):
        Poisson(value)


@pytest.mark.parametrize("kind", [Probit, Logistic])
@pytest.mark.parametrize("labels", [(0.0, 1.0), (1.0, 2.0), (-1.0, 0.5)])
def test_labels_other_than_plus_and_minus_one_are_refused(kind, labels):
    with pytest.raises(InputError, match=r"allowed: -1 and \+1") as caught:
        LatentGaussianModel.from_covariance(np.eye(2), kind(), np.array(labels))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [-1.0, 0.5])
def test_poisson_refuses_what_is_not_a_count(count):
    with pytest.raises(InputError, match=r"y\[1\] is .*counts"):
        LatentGaussianModel.from_covariance(np.eye(2), Poisson(), np.array([1.0, count]))
