from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.models.covariances import SquaredExponential, squared_distances


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    return rng.standard_normal((7, 3)), rng.standard_normal((4, 3))


def test_matrix_against_the_formula(inputs):
    X, X2 = inputs
    scales, sd = np.array([0.3, 1.7, 5.0]), 2.3
    covariance = SquaredExponential(tuple(scales), sd)
    expected = [[sd**2 * np.exp(-0.5 * (((a - b) / scales) ** 2).sum()) for b in X2] for a in X]
    np.testing.assert_allclose(covariance(X, X2), expected, rtol=1e-12)
    np.testing.assert_allclose(covariance(X), covariance(X, X.copy()), rtol=1e-10)
    np.testing.assert_array_equal(covariance.diagonal(X), np.diag(covariance(X)))
    isotropic, repeated = SquaredExponential(0.8, sd), SquaredExponential((0.8, 0.8, 0.8), sd)
    np.testing.assert_allclose(isotropic(X), repeated(X), rtol=1e-14)


def test_distances_of_a_set_to_itself_are_symmetric_with_exact_zeros(inputs):
    X = np.vstack([inputs[0], inputs[0][:2] + 1e-9]) + 1e4  # far from the origin: cancellation
    distances = squared_distances(X)
    assert not np.any(np.diag(distances))
    assert np.all(distances >= 0.0)
    np.testing.assert_array_equal(distances, distances.T)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, (1.0, -2.0), (), ((1.0,), (2.0,))])
def test_length_scales_must_be_positive(scale):
    with pytest.raises(InputError, match=r"length_scale is .* allowed: a positive number"):
        SquaredExponential(scale)


@pytest.mark.parametrize("sd", [0.0, -1.0, np.nan, np.inf])
def test_signal_sd_must_be_positive(sd):
    with pytest.raises(InputError, match=r"signal_sd is .* allowed: a positive number"):
        SquaredExponential(1.0, sd)


def test_one_length_scale_per_feature(inputs):
    with pytest.raises(InputError, match="2 length scales for 3 features"):
        SquaredExponential((1.0, 2.0))(inputs[0])


def test_equal_settings_are_equal():
    assert SquaredExponential(np.array([1.0, 2.0])) == SquaredExponential((1, 2))
