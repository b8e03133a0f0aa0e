"""Tilted moments of Student-t as a mixture of normals, beside quadrature over the predictor."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.likelihoods import StudentT
from gpmcflow.likelihoods.normal_mixture import LARGEST_DF
from gpmcflow.likelihoods.tilted import tilted_moments, tilted_site


@pytest.mark.parametrize("df", [0.5, 1.0, 4.0, 30.0, LARGEST_DF])
@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_the_mixture_has_the_moments_of_the_product(df, scale):
    """400 cavities of variances 1e-6 to 1e6, observations from within a deviation to 20 away."""
    rng = np.random.default_rng(4)
    mean, variance = 10.0 * rng.standard_normal(400), np.exp(rng.uniform(-13.8, 13.8, 400))
    distance = rng.standard_normal(400) * np.exp(rng.uniform(-3.0, 3.0, 400))
    y = mean + distance * np.sqrt(variance + scale**2)
    likelihood = StudentT(scale, df)
    sd = np.sqrt(variance)
    own, by_panels = (
        likelihood.tilted(y, mean, variance),
        tilted_moments(likelihood, y, mean, variance),
    )
    for k in range(3):
        np.testing.assert_allclose(own[k] * sd**k, by_panels[k] * sd**k, atol=3e-9)
    own, by_panels = (
        likelihood.tilted_site(y, mean, variance),
        tilted_site(likelihood, y, mean, variance),
    )
    for k in range(2):
        np.testing.assert_allclose(
            own[k] * sd ** (k + 1), by_panels[k] * sd ** (k + 1), rtol=1e-7, atol=3e-9
        )


def test_a_site_far_narrower_than_its_cavity_keeps_its_digits():
    """Of v = 1e8 and s = 1e-3 the share 1 - v r is 2e-14, which no difference of 1 and v r would have."""
    s, nu, v = 1e-3, 5.0, 1e8
    _, precision = StudentT(s, nu).tilted_site(np.zeros(1), np.zeros(1), np.full(1, v))
    # the tilted distribution is the Student-t itself, of variance s^2 nu / (nu - 2)
    assert precision[0] == pytest.approx((nu - 2.0) / (nu * s**2), rel=1e-6)


def test_a_scale_of_each_case():
    """Constants by case are those of one case after the other."""
    y, mean, variance = np.array([0.3, 4.0]), np.array([0.0, -1.0]), np.array([0.5, 2.0])
    both = StudentT(1.0, 3.0).with_constants(scale=np.array([0.2, 1.5])).tilted(y, mean, variance)
    for k, scale in enumerate((0.2, 1.5)):
        one = StudentT(scale, 3.0).tilted(*(a[k : k + 1] for a in (y, mean, variance)))
        np.testing.assert_allclose(np.array(both)[:, k], np.ravel(one), rtol=1e-14)


def test_what_has_no_density_is_nan():
    """A scale that underflows ends neither in an endless loop nor in a number."""
    tilted = StudentT(1e-200, 3.0).tilted(np.ones(1), np.zeros(1), np.ones(1))
    assert np.isnan(np.array(tilted)).all()
