from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from gpmcflow.approximations.laplace import laplace, tempered_mode
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath


def rasmussen_williams(K, likelihood, y):
    """Algorithms 3.1 and 3.2 as printed, in f-space: mode and log Z."""
    f = np.zeros(len(y))
    for _ in range(60):
        _, gradient, second, _ = likelihood.derivatives(f, y)
        root = np.sqrt(-second)
        L = np.linalg.cholesky(np.eye(len(y)) + root[:, None] * K * root)
        b = -second * f + gradient
        a = b - root * np.linalg.solve(L.T, np.linalg.solve(L, root * (K @ b)))
        f = K @ a
    value, _, second, _ = likelihood.derivatives(f, y)
    root = np.sqrt(-second)
    L = np.linalg.cholesky(np.eye(len(y)) + root[:, None] * K * root)
    return f, -0.5 * a @ f + value.sum() - np.log(np.diag(L)).sum()


@pytest.mark.parametrize("likelihood", [Probit(), Logistic(), Poisson(exposure=0.6)])
def test_against_the_printed_algorithm(likelihood, random_covariance):
    K = random_covariance(9, size=2.0)
    f = np.linalg.cholesky(K) @ np.random.default_rng(1).standard_normal(9)
    y = likelihood.simulate(np.random.default_rng(2), f)
    fit = laplace(LatentGaussianModel.from_covariance(K, likelihood, y))
    mode, log_z = rasmussen_williams(K, likelihood, y)
    np.testing.assert_allclose(fit.sites.mean, mode, atol=1e-7)
    assert fit.log_evidence == pytest.approx(log_z, abs=1e-9)


def test_mode_and_curvature_with_prior_mean_and_design(models):
    """The mode of the density written out by a general optimiser; evidence from its curvature."""
    for name, model in models.items():
        fit = laplace(model)
        A = np.eye(model.dim) if model.design is None else model.design
        P = model.cholesky @ model.cholesky.T
        prior = multivariate_normal(model.mean, P)
        inverse = np.linalg.inv(P)

        def negative(theta, model=model, A=A, prior=prior):
            return -prior.logpdf(theta) - model.likelihood.log_density(A @ theta, model.y)

        def slope(theta, model=model, A=A, inverse=inverse):
            gradient = model.likelihood.gradient((A @ theta)[None], model.y)[0]
            return inverse @ (theta - model.mean) - A.T @ gradient

        found = minimize(negative, model.mean, jac=slope, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(fit.sites.mean, found.x, atol=1e-5, err_msg=name)
        second = model.likelihood.derivatives(A @ found.x, model.y)[2]
        precision = np.linalg.inv(P) - A.T @ (second[:, None] * A)
        log_z = -found.fun + 0.5 * model.dim * np.log(2 * np.pi)
        log_z -= 0.5 * np.linalg.slogdet(precision)[1]
        assert fit.log_evidence == pytest.approx(log_z, abs=1e-6), name
        covariance = fit.sites.factor @ fit.sites.factor.T
        np.testing.assert_allclose(covariance @ precision, np.eye(model.dim), atol=1e-5)


def test_exact_for_a_gaussian_likelihood(glm):
    model = glm(Gaussian(noise_sd=0.4))
    covariance = model.predictor_factor @ model.predictor_factor.T + 0.16 * np.eye(model.n_cases)
    exact = multivariate_normal(model.predictor_mean, covariance).logpdf(model.y)
    assert laplace(model).log_evidence == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("beta", [0.01, 0.4, 1.0])
def test_tempered_mode_has_no_gradient(models, beta):
    """At the mode of h_beta the gradient by xi vanishes and the sites hold the curvature."""
    for model in models.values():
        q = GaussianSites(model, np.full(model.n_cases, 0.7), np.linspace(-1, 1, model.n_cases))
        path = TemperedPath(q)
        sites, _ = tempered_mode(path, beta)
        eta = sites.predictor_mean
        _, first, second = path.derivatives(eta, beta)
        gradient = model.pull_back(first[None])[0] - sites.whitened_mean
        assert np.abs(gradient).max() < 1e-5
        np.testing.assert_allclose(sites.precision, -second, rtol=1e-4)
        warm, steps = tempered_mode(path, beta, sites.whitened_mean)
        assert steps <= 2
        np.testing.assert_allclose(warm.mean, sites.mean, atol=1e-5)


def test_hard_start_needs_damping_and_converges():
    """A count of 500 under a prior sd of 10: a full Newton step would overflow the rate."""
    model = LatentGaussianModel.from_covariance(
        100.0 * np.array([[1.0, 0.5], [0.5, 1.0]]), Poisson(), np.array([500.0, 0.0])
    )
    fit = laplace(model)
    assert fit.sites.mean[0] == pytest.approx(np.log(500.0), abs=0.01)


def test_failure_is_one_line(monkeypatch, models):
    monkeypatch.setattr("gpmcflow.approximations.laplace.MAX_ITERATIONS", 1)
    with pytest.raises(NumericalError, match="has not converged after 1 steps") as caught:
        laplace(models["poisson"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0.6, 2.0, 10.0])
def test_a_likelihood_that_is_not_log_concave(outliers, size):
    """Mode and evidence written out; W is negative at outliers, where the sites keep a small precision."""
    model = outliers(size=size)
    fit = laplace(model)
    U, eta = model.predictor_factor, fit.sites.predictor_mean
    xi = fit.sites.whitened_mean
    value, first, second, _ = model.likelihood.derivatives(eta, model.y)
    assert np.abs(U.T @ first - xi).max() < 1e-3
    assert np.any(second > 0.0)
    log_det = np.linalg.slogdet(np.eye(len(U)) - U.T @ (second[:, None] * U))[1]
    assert fit.log_evidence == pytest.approx(value.sum() - 0.5 * xi @ xi - 0.5 * log_det, abs=1e-6)
    np.testing.assert_allclose(fit.sites.precision, np.maximum(-second, 1e-8), atol=1e-4)
    better = minimize(
        lambda t: (
            0.5 * t @ t - model.likelihood.log_density(model.predictor(t[None]), model.y)[0],
            t - model.pull_back(model.likelihood.gradient(model.predictor(t[None]), model.y))[0],
        ),
        xi,
        jac=True,
        method="BFGS",
    )
    assert better.fun == pytest.approx(0.5 * xi @ xi - value.sum(), abs=1e-6)


def test_every_step_takes_the_majorising_precision_and_ascends(outliers):
    """From a prior mean far off, where l'' > 0 at every case: one evaluation a step, none halved."""
    kind = type(outliers().likelihood)
    calls = {"majorising_precision": 0, "derivatives": 0}

    class Counted(kind):
        def majorising_precision(self, eta, y):
            calls["majorising_precision"] += 1
            return super().majorising_precision(eta, y)

        def derivatives(self, eta, y):
            calls["derivatives"] += 1
            return super().derivatives(eta, y)

    model = outliers()
    far = LatentGaussianModel(Counted(0.15, 4.0), model.y, model.mean + 5.0, model.cholesky)
    assert np.all(far.likelihood.derivatives(far.mean, far.y)[2] > 0.0)
    calls["derivatives"] = 0
    _, iterations = tempered_mode(TemperedPath(GaussianSites.prior(far)), 1.0)
    assert calls == {"majorising_precision": iterations, "derivatives": iterations + 1}


def test_a_saddle_is_refused(outliers):
    """Two observations at +-1 of one latent with mean 0: no slope there, and no maximum."""
    likelihood = outliers().likelihood
    model = LatentGaussianModel.from_covariance(
        np.eye(1), likelihood, np.array([1.0, -1.0]), design=np.ones((2, 1))
    )
    with pytest.raises(
        NumericalError, match=r"not positive definite at the mode.*take EP"
    ) as caught:
        laplace(model)
    assert "\n" not in str(caught.value)


def test_many_degrees_of_freedom_are_gaussian_noise(outliers):
    model = outliers(scale=0.4, df=1e7)
    gaussian = LatentGaussianModel.from_covariance(
        model.predictor_covariance, Gaussian(0.4), model.y
    )
    a, b = laplace(model), laplace(gaussian)
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-3)
    np.testing.assert_allclose(a.sites.mean, b.sites.mean, atol=1e-4)
