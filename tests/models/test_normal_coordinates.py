from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Logistic
from gpmcflow.models.joint_model import JointModel
from gpmcflow.models.normal_coordinates import NormalCoordinates
from gpmcflow.parameters.hyperpriors import Hyperprior

PRIORS = [
    Hyperprior.log_uniform(0.1, 10.0),
    Hyperprior("norm", {"loc": 0.3, "scale": 0.7}),
    Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural"),
    Hyperprior("halfnorm", {"scale": 2.0}, scale="natural"),
    Hyperprior("cauchy"),
]


def test_as_the_model_says_one_by_one():
    lengths = [PRIORS[k] for k in (0, 2, 0, 1, 3, 4)]
    X = np.random.default_rng(0).random((5, 6))
    model = JointModel(Logistic(), X, np.ones(5), lengths, PRIORS[2])
    x = np.array([-2.5, 1.0, 0.3, -0.4, 2.0, -1.5, 0.7])
    theta, slopes = NormalCoordinates(model).theta(x)
    assert np.allclose(theta, model.from_normal(x), rtol=1e-13)
    assert np.allclose(slopes, model.normal_slopes(x), rtol=1e-12)
    moved = [NormalCoordinates(model).theta(x + h)[0] for h in (1e-5, -1e-5)]
    assert np.allclose((moved[0] - moved[1]) / 2e-5, slopes, rtol=1e-7)


def test_a_density_with_a_gap():
    gap = Hyperprior("beta", {"a": 1e-4, "b": 1e-4})  # nearly all of it at the ends
    model = JointModel(Logistic(), np.arange(4.0), np.ones(4), gap)
    with pytest.raises(InputError, match=r"of log_length has no usable transform"):
        NormalCoordinates(model)


@pytest.mark.parametrize(
    "prior",
    [
        Hyperprior("uniform", {"loc": -1.0, "scale": 2.0}, scale="natural"),
        Hyperprior("norm", {"loc": 1.0}, scale="natural"),
    ],
    ids=["uniform", "norm"],
)
def test_hyperpriors_that_include_zero(prior):
    model = JointModel(Logistic(), np.arange(4.0), np.ones(4), PRIORS[0], prior)
    with pytest.raises(InputError, match=r"of log_signal_sd includes zero: .*scale='log'") as found:
        NormalCoordinates(model)
    assert "\n" not in str(found.value)
