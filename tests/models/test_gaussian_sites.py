"""Prior times sites against dense Gaussian formulas, prior mean and design included."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpmcflow.errors import InputError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath


class Dense:
    """The same Gaussian from matrices written out."""

    def __init__(self, model, tau, nu):
        d = model.dim
        A = np.eye(d) if model.design is None else model.design
        L = model.cholesky
        self.A, self.prior_mean, self.prior = A, model.mean, L @ L.T
        inverse = np.linalg.inv(self.prior)
        self.covariance = np.linalg.inv(inverse + A.T @ np.diag(tau) @ A)
        self.mean = self.covariance @ (inverse @ model.mean + A.T @ nu)
        self.tau, self.nu = tau, nu

    def log_normaliser(self):
        """log [N(theta) sites(theta) / q(theta)] at any theta; here at one that is special to none."""
        theta = np.linspace(-0.5, 0.8, len(self.mean))
        eta = self.A @ theta
        return (
            multivariate_normal(self.prior_mean, self.prior).logpdf(theta)
            + (self.nu * eta - 0.5 * self.tau * eta**2).sum()
            - multivariate_normal(self.mean, self.covariance).logpdf(theta)
        )


def log_normaliser(q):
    """Log of the integral of prior times sites: the log ratio where sites and likelihood are 1."""
    return TemperedPath(q).log_ratio(np.zeros(q.model.n_cases), 0.0)


@pytest.fixture(params=["probit", "poisson", "logistic"])
def case(request, models):
    model = models[request.param]
    rng = np.random.default_rng(8)
    tau, nu = rng.exponential(2.0, model.n_cases), rng.standard_normal(model.n_cases)
    tau[2] = 0.0  # a site may be flat
    return GaussianSites(model, tau, nu), Dense(model, tau, nu)


def test_moments_and_normaliser(case):
    """Row 2: log Z-tilde_0, mean and covariance against dense formulas at n = 12."""
    q, dense = case
    A = dense.A
    np.testing.assert_allclose(q.mean, dense.mean, atol=1e-9)
    np.testing.assert_allclose(q.factor @ q.factor.T, dense.covariance, atol=1e-9)
    np.testing.assert_allclose(q.predictor_mean, A @ dense.mean, atol=1e-9)
    covariance = A @ dense.covariance @ A.T
    np.testing.assert_allclose(q.predictor_factor @ q.predictor_factor.T, covariance, atol=1e-9)
    np.testing.assert_allclose(q.predictor_variance, np.diag(covariance), rtol=1e-9)
    assert log_normaliser(q) == pytest.approx(dense.log_normaliser(), abs=1e-9)
    ratio = np.linalg.slogdet(dense.prior)[1] - np.linalg.slogdet(dense.covariance)[1]
    assert q.log_det == pytest.approx(ratio, abs=1e-9)
    for triangle in (q.factor.T, q.whitened_factor):
        np.testing.assert_array_equal(triangle, np.triu(triangle))
    G = np.eye(q.model.dim) + (q.model.predictor_factor.T * q.precision) @ q.model.predictor_factor
    np.testing.assert_allclose(q.whitened_factor @ q.whitened_factor.T, G, rtol=1e-12, atol=1e-12)


def test_log_density_of_the_standardised_coordinates(case):
    """Row 2: log q(theta) = log N(zeta; 0, I) - log |C|."""
    q, dense = case
    zeta = np.random.default_rng(0).standard_normal((5, q.model.dim))
    log_q = -0.5 * (zeta**2).sum(1) - 0.5 * q.model.dim * np.log(2 * np.pi)
    log_q -= np.log(np.diag(q.factor)).sum()
    expected = multivariate_normal(dense.mean, dense.covariance).logpdf(q.latent(zeta))
    np.testing.assert_allclose(log_q, expected, atol=1e-9)


def test_coordinates_go_there_and_back(case):
    q, dense = case
    zeta = np.random.default_rng(1).standard_normal((4, q.model.dim))
    theta, xi = q.latent(zeta), q.to_whitened(zeta)
    np.testing.assert_allclose(q.from_latent(theta), zeta, atol=1e-10)
    np.testing.assert_allclose(q.from_whitened(xi), zeta, atol=1e-10)
    np.testing.assert_allclose(q.model.latent(xi), theta, atol=1e-10)
    np.testing.assert_allclose(q.predictor(zeta), theta @ dense.A.T, atol=1e-10)
    gradient = np.random.default_rng(2).standard_normal((4, q.model.n_cases))
    np.testing.assert_allclose(q.pull_back(gradient), gradient @ q.predictor_factor, atol=1e-10)


def test_density_of_sites(case):
    """It is what the log ratio takes from the log likelihood."""
    q, dense = case
    eta = np.random.default_rng(0).standard_normal((3, q.model.n_cases))
    expected = [dense.log_normaliser() - (dense.nu * e - 0.5 * dense.tau * e**2).sum() for e in eta]
    np.testing.assert_allclose(TemperedPath(q).log_ratio(eta, np.zeros(3)), expected, atol=1e-9)


def test_the_prior_has_sites_of_one(models):
    for model in models.values():
        q = GaussianSites.prior(model)
        assert q.is_prior
        assert (log_normaliser(q), q.log_det) == (0.0, 0.0)
        np.testing.assert_array_equal(q.factor, model.cholesky)
        np.testing.assert_allclose(q.mean, model.mean, atol=1e-15)
        np.testing.assert_allclose(q.predictor_mean, model.predictor_mean, atol=1e-14)


def test_a_shift_without_precision_moves_the_prior(models):
    model = models["logistic"]
    nu = np.linspace(-1.0, 1.0, model.n_cases)
    q, dense = GaussianSites(model, 0.0 * nu, nu), Dense(model, 0.0 * nu, nu)
    assert not q.is_prior
    np.testing.assert_allclose(q.mean, dense.mean, atol=1e-10)
    assert log_normaliser(q) == pytest.approx(dense.log_normaliser(), abs=1e-9)


def test_wide_prior_keeps_its_digits(usps):
    """USPS setting A: eigenvalues of K from 1e-3 to 2e7; variances must come out positive."""
    q = usps("A").ep.sites
    cavity_precision = 1.0 / q.predictor_variance - q.precision
    assert np.all(cavity_precision > 0.0)
    np.testing.assert_allclose(
        q.from_latent(q.latent(np.ones((1, q.model.dim)))), 1.0, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_wrong_precisions_are_refused(models, bad):
    model = models["probit"]
    tau = np.ones(model.n_cases)
    tau[3] = bad
    with pytest.raises(InputError, match="finite and not negative"):
        GaussianSites(model, tau, np.zeros(model.n_cases))


def test_a_general_gaussian_is_refused_with_a_clear_message(models):
    """A precision matrix that is not prior plus diagonal has no fast path here."""
    model = models["probit"]
    with pytest.raises(InputError, match="another precision matrix than prior plus diagonal"):
        GaussianSites(model, np.eye(model.n_cases), np.zeros(model.n_cases))
    with pytest.raises(InputError, match="one precision and one shift per case"):
        GaussianSites(model, np.ones(model.n_cases), np.zeros(3))
