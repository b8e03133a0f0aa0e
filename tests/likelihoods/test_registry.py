from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.likelihoods import LIKELIHOODS, Gaussian, Logistic, Poisson, Probit, likelihood
from gpmcflow.models.latent_gaussian import LatentGaussianModel


def test_likelihoods_by_name():
    assert likelihood("gaussian", noise_sd=0.2) == Gaussian(0.2)
    for name, kind in LIKELIHOODS.items():
        assert isinstance(likelihood(name), kind)
        assert likelihood(name).name == name


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
