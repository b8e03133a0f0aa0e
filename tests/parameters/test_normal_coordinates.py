from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.space import NormalCoordinates

PRIORS = [
    Hyperprior.log_uniform(0.1, 10.0),
    Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural"),
    Hyperprior("norm", {"loc": 0.3, "scale": 0.7}),
    Hyperprior.log_uniform(0.1, 10.0),
    Hyperprior("gamma", {"a": 5.0, "scale": 1.3}, scale="natural"),
    Hyperprior("gamma", {"a": 5.0, "loc": 0.2, "scale": 1.3}, scale="natural"),
    Hyperprior("lognorm", {"s": 0.4, "scale": 3.0}, scale="natural"),
    Hyperprior("gamma", {"a": 3.0}),
    Hyperprior("halfnorm", {"scale": 2.0}, scale="natural"),
    Hyperprior("cauchy"),
    Hyperprior("cauchy", {"loc": 1.0}),
    Hyperprior("cauchy"),
]


def test_all_at_once_as_one_by_one():
    x = np.random.default_rng(0).standard_normal(len(PRIORS))
    coordinates = NormalCoordinates([str(k) for k in range(len(x))], PRIORS)
    theta, slopes = coordinates.theta(x)
    each = np.array([prior.transform(v) for prior, v in zip(PRIORS, x, strict=True)])
    assert np.allclose(theta, each[:, 0], rtol=1e-14)
    assert np.allclose(slopes, each[:, 1], rtol=1e-14)
    moved = [coordinates.theta(x + h)[0] for h in (1e-5, -1e-5)]
    assert np.allclose((moved[0] - moved[1]) / 2e-5, slopes, rtol=1e-7)


def test_one_call_for_a_family():
    calls = len(NormalCoordinates([""] * len(PRIORS), PRIORS)._groups)
    assert calls == 8  # uniform, norm with lognorm, 3 kinds of gamma, halfnorm, 2 cauchy


def test_none():
    theta, slopes = NormalCoordinates([], []).theta(np.empty(0))
    assert theta.shape == slopes.shape == (0,)


REFUSED = {
    "a gap": (Hyperprior("beta", {"a": 1e-4, "b": 1e-4}), "has no usable transform"),
    "uniform": (Hyperprior("uniform", {"loc": -1.0, "scale": 2.0}, "natural"), "includes zero: 0.5 of it"),
    "norm": (Hyperprior("norm", {"loc": 1.0}, "natural"), "includes zero: 0.16 of it"),
}  # fmt: skip


@pytest.mark.parametrize(("prior", "message"), REFUSED.values(), ids=REFUSED)
def test_hyperpriors_without_a_transform(prior, message):
    with pytest.raises(InputError, match=rf"of noise_sd {message}") as found:
        NormalCoordinates(["length_scale", "noise_sd"], [PRIORS[0], prior])
    assert "\n" not in str(found.value)
