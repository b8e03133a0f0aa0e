from __future__ import annotations

from math import comb, factorial

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.perturbative_correction import (
    predictor_correlation,
    second_order_correction,
    standardised_cumulants,
)
from gpmcflow.likelihoods import Gaussian, Likelihood, Probit
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath

TIGHT = {"tolerance": 1e-13, "max_sweeps": 2000}


def fit_probit(K, y):
    return expectation_propagation(LatentGaussianModel.from_covariance(K, Probit(), y), **TIGHT)


def hermite_moments(cumulants):
    """E[He_l] under standardised tilted distributions from their cumulants 3, 4, ..: l = 0..order.

    exp(sum_{l >= 3} kappa_l t^l / l!) generates them: h_{k+1} = sum_j C(k, j) kappa_{j+1} h_{k-j}.
    """
    order = len(cumulants) + 2
    kappa = np.concatenate([np.zeros((3, cumulants.shape[1])), cumulants])
    h = np.zeros_like(kappa)
    h[0] = 1.0
    for k in range(order):
        h[k + 1] = sum(comb(k, j) * kappa[j + 1] * h[k - j] for j in range(k + 1))
    return h


@pytest.mark.parametrize("rho", [0.3, -0.5, 0.6])
@pytest.mark.parametrize("size", [1.0, 4.0])
def test_hermite_sum_is_exact_for_two_cases(orthant_evidence, rho, size):
    """Row 5 (decisive): log Z_EP + log(1 + sum_l h_l h_l' rho^l / l!) is log Z, by Mehler's formula."""
    K = size * np.array([[1.0, rho], [rho, 1.3]])
    y = np.array([1.0, -1.0])
    fit = fit_probit(K, y)
    h = hermite_moments(standardised_cumulants(fit, 16))
    r = predictor_correlation(fit)[0, 1]
    series = 1.0 + sum(h[k, 0] * h[k, 1] * r**k / factorial(k) for k in range(3, 17))
    exact = orthant_evidence(K, y)
    assert fit.log_evidence + np.log(series) == pytest.approx(exact, abs=1e-6)
    assert abs(fit.log_evidence - exact) > 1e-5  # EP alone would not do


def test_one_factor_model_of_50_cases(one_factor):
    """Row 5 (decisive): K = I / 2 + 3/2 11', 30 of 50 positive, Z = 1 / (51 C(50, 30))."""
    model, exact = one_factor(50, 30)
    fit = expectation_propagation(model, **TIGHT)
    before = fit.log_evidence - exact
    after = before + second_order_correction(fit)[-1]
    assert 1e-5 < abs(before) < 1e-4
    assert abs(after) < 1e-6


@pytest.mark.parametrize("n", [2, 3])
def test_small_prior_variance_shrinks_the_error_twentyfold(random_covariance, orthant_evidence, n):
    """Row 5: at prior variances near 1 the worst error falls at least 20 times."""
    errors = errors_of(n, 1.0, random_covariance, orthant_evidence)
    assert errors[1] < errors[0] / 20.0


@pytest.mark.parametrize("n", [2, 3])
def test_large_prior_variance_leaves_a_small_error(random_covariance, orthant_evidence, n):
    """Row 5: at prior variances up to 50 the corrected error stays below 0.03."""
    errors = errors_of(n, 50.0, random_covariance, orthant_evidence)
    assert errors[1] < min(0.03, errors[0])


def errors_of(n, size, random_covariance, orthant_evidence):
    """Worst error of 30 covariances, before and after the correction."""
    rng, errors = np.random.default_rng(n), []
    for seed in range(30):
        K, y = (
            random_covariance(n, size if size == 1.0 else rng.uniform(1, size), seed),
            rng.choice([-1.0, 1.0], n),
        )
        fit, exact = fit_probit(K, y), orthant_evidence(K, y)
        before = fit.log_evidence - exact
        errors.append((abs(before), abs(before + second_order_correction(fit)[-1])))
    return np.max(errors, axis=0)


def test_nothing_to_correct_for_a_gaussian_likelihood(gp):
    """Row 14: the correction is zero."""
    fit = expectation_propagation(gp(Gaussian(noise_sd=0.3)))
    assert not np.any(second_order_correction(fit))


def test_sums_are_cumulative_and_written_out(gp):
    fit = expectation_propagation(gp())
    q, order = fit.sites, 5
    V = q.predictor_factor @ q.predictor_factor.T
    kappa = Probit().tilted_cumulants(q.model.y, fit.cavity_mean, fit.cavity_variance, order)
    expected = []
    for degree in range(3, order + 1):
        total = sum(
            kappa[degree - 3, i]
            * kappa[degree - 3, j]
            / factorial(degree)
            * (V[i, j] / (V[i, i] * V[j, j])) ** degree
            for i in range(len(V))
            for j in range(i)
        )
        expected.append(total)
    np.testing.assert_allclose(second_order_correction(fit, order), np.cumsum(expected), rtol=1e-10)


def test_cumulants_by_quadrature_give_the_same_correction(gp):
    class Numerical(Probit):
        tilted, tilted_cumulants = Likelihood.tilted, Likelihood.tilted_cumulants

    a, b = (
        second_order_correction(expectation_propagation(gp(kind()))) for kind in (Probit, Numerical)
    )
    np.testing.assert_allclose(a, b, atol=1e-8)


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_correction_moves_towards_the_truth_for_other_likelihoods(models, name):
    """Against plain importance sampling from the EP fit with 200 000 draws."""
    model = models[name]
    fit = expectation_propagation(model)
    q = fit.sites
    eta = q.predictor(np.random.default_rng(0).standard_normal((200_000, model.dim)))
    u = TemperedPath(q).log_ratio(eta, model.likelihood.log_density(eta, model.y))
    w = np.exp(u - u.max())
    truth, error = np.log(w.mean()) + u.max(), w.std() / w.mean() / np.sqrt(len(w))
    corrected = fit.log_evidence + second_order_correction(fit)[-1]
    assert abs(corrected - truth) < 4.0 * error + 0.2 * abs(fit.log_evidence - truth)
