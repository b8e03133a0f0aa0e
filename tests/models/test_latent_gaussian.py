from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel, factorise

Y = np.array([1.0, -1.0, 1.0])


def test_whitened_coordinates_have_the_prior_as_standard_normal(models):
    for model in models.values():
        xi = np.random.default_rng(0).standard_normal((4, model.dim))
        theta, A = model.latent(xi), np.eye(model.dim) if model.design is None else model.design
        np.testing.assert_allclose(theta, model.mean + xi @ model.cholesky.T, rtol=1e-12)
        np.testing.assert_allclose(model.predictor(xi), theta @ A.T, atol=1e-12)
        gradient = np.random.default_rng(1).standard_normal((4, model.n_cases))
        np.testing.assert_allclose(
            model.pull_back(gradient), gradient @ A @ model.cholesky, atol=1e-12
        )
        assert model.jitter == 0.0


def test_of_a_gp_and_from_design():
    X = np.random.default_rng(0).standard_normal((3, 2))
    covariance = SquaredExponential((0.7, 2.0), 1.3)
    model = GPModel(X, Y, covariance, Probit(), mean=0.25).at()
    L = model.cholesky
    np.testing.assert_allclose(L @ L.T, covariance(X), rtol=1e-12)
    np.testing.assert_array_equal(model.mean, np.full(3, 0.25))
    assert (model.dim, model.n_cases, model.design) == (3, 3, None)
    design = np.random.default_rng(0).standard_normal((3, 2))
    model = LatentGaussianModel.from_design(design, (2.0, 0.5), Logistic(), Y)
    np.testing.assert_allclose(model.cholesky, np.diag([2.0, 0.5]))
    assert (model.dim, model.n_cases) == (2, 3)


def test_jitter_is_zero_first_then_found_once_and_recorded():
    X = np.random.default_rng(0).standard_normal((6, 2))
    K = SquaredExponential(1.0, 2.0)(X)
    factor, jitter = factorise(K)
    assert jitter == 0.0
    np.testing.assert_allclose(factor @ factor.T, K, rtol=1e-12)
    assert np.array_equal(factor, np.tril(factor))
    duplicated = SquaredExponential(1.0, 2.0)(np.vstack([X, X]))
    factor, jitter = factorise(duplicated)
    steps = np.log10(jitter / (1e-12 * 4.0))
    assert 0.0 < jitter < 1e-8
    assert steps == pytest.approx(round(steps), abs=1e-9)
    np.testing.assert_allclose(factor @ factor.T, duplicated + jitter * np.eye(12), atol=1e-12)


def test_a_covariance_no_jitter_can_mend_is_an_error():
    with pytest.raises(NumericalError, match="not positive definite"):
        LatentGaussianModel.from_covariance(np.array([[1.0, 2.0], [2.0, 1.0]]), Probit(), Y[:2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(bad):
    with pytest.raises(InputError, match="y must be a vector of finite numbers"):
        LatentGaussianModel.from_covariance(np.eye(3), Gaussian(), np.array([0.1, bad, 0.0]))
    covariance = np.eye(3)
    covariance[0, 1] = bad
    with pytest.raises(InputError, match="covariance has NaN or infinity"):
        LatentGaussianModel.from_covariance(covariance, Probit(), Y)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="3 observations for 2 linear predictors"):
        LatentGaussianModel.from_covariance(np.eye(2), Probit(), Y)
    with pytest.raises(InputError, match="3 observations for 4 linear predictors"):
        LatentGaussianModel.from_covariance(np.eye(2), Probit(), Y, design=np.ones((4, 2)))
    with pytest.raises(InputError, match="vector"):
        LatentGaussianModel.from_covariance(np.eye(3), Probit(), Y[:, None])


def test_a_design_with_other_columns_than_latents_is_refused():
    with pytest.raises(InputError, match=r"design has shape \(4, 3\) for 2 latent"):
        LatentGaussianModel.from_covariance(np.eye(2), Probit(), np.ones(4), design=np.ones((4, 3)))


def test_a_prior_mean_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match="prior mean has NaN"):
        LatentGaussianModel.from_covariance(np.eye(2), Probit(), np.ones(2), mean=np.nan)
