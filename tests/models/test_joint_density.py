"""The joint density of any covariance and likelihood: gradients, dense formulas, limits, wrong programs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.covariances.dense_factor import DenseCovariance
from gpmcflow.covariances.leaves import Constant, Linear, Matern32, Periodic, SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import (
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from gpmcflow.models import dense_structure
from gpmcflow.models.collapsed_density import CollapsedDensity, density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.2, 3.0)
GAMMA = Hyperprior("gamma", {"a": 3.0, "scale": 0.3}, scale="natural")
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
MEAN = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
SE = SquaredExponential(LENGTH, SIGNAL)
ARD = SquaredExponential(LENGTH, SIGNAL, ard=True)
GRID = np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 2, 3), indexing="ij"), -1)
AXES = Matern32(LENGTH, SIGNAL, columns=0) * Periodic(LENGTH, period=1.3, columns=1)
COLUMN = SquaredExponential(GAMMA, columns=0) + Constant(SIGNAL)
PERIODIC = Periodic(LENGTH, period=Hyperprior("norm", {"loc": 0.3, "scale": 0.1}), columns=1)
RICH = Constant(SIGNAL) + Linear(LENGTH) + SE + Matern32(GAMMA, SIGNAL, columns=0) * PERIODIC
EXPOSURE = np.linspace(0.3, 4.0, 13)


def build(covariance, likelihood, p=2, mean=0.0, jitter=1e-3, seed=0, **more):
    """A model with data of its own."""
    rng = np.random.default_rng(seed)
    X = GRID.reshape(-1, 2) if "structure" in more else rng.standard_normal((13, p))
    y = np.ones(len(X)) if likelihood.counts or likelihood.binary else np.zeros(len(X))
    model = GPModel(X, y, covariance, likelihood, mean, jitter, **more)
    return model.with_y(model.simulate(rng, model.prior_median())[1])


KRONECKER = {"structure": "kronecker"}
MODELS = {
    "rich sum": build(RICH, Logistic(), mean=MEAN),
    "nine lengths": build(ARD, Logistic(), p=9),
    "dispersion": build(SE, NegativeBinomial(SIGNAL, EXPOSURE), mean=MEAN),
    "student": build(SE, StudentT(Hyperprior("norm", {"loc": -0.5, "scale": 0.3}), GAMMA), mean=MEAN),
    "grid": build(ARD, Poisson(1.3), mean=MEAN, **KRONECKER),
    "product grid": build(AXES, Probit(), **KRONECKER),
    "isotropic grid": build(SE, Logistic(), mean=MEAN, **KRONECKER),
    "grid of three": build(AXES * COLUMN, NegativeBinomial(SIGNAL, 2.0), mean=MEAN, **KRONECKER),
    "binomial": build(SE * PERIODIC, Binomial(5), mean=MEAN),
    "other hyperprior": build(SquaredExponential(GAMMA, SIGNAL, ard=True), Probit()),
    "fixed length": build(SquaredExponential((0.7, LENGTH), SIGNAL), Probit(), mean=0.3),
    "fixed amplitude": build(SquaredExponential(LENGTH, 1.4), Logistic()),
    "gaussian": build(ARD, Gaussian(0.4), mean=MEAN),
}  # fmt: skip


def point(model, seed=1):
    """A density with the sites of one theta, and another point."""
    rng = np.random.default_rng(seed)
    w, b = frozen_sites(model, model.draw_prior(rng, 0.5))
    # any positive sites are exact; a constant b^2 / 2 w of clipped ones (w = 3e-8) costs eight digits
    density = JointDensity(model, FrozenSites(np.maximum(w, 0.02), b))
    return density, 0.7 * rng.standard_normal(model.dim), rng.standard_normal(2 * model.n_cases)


def richardson(function, q, h):
    """Derivatives by each coordinate by Richardson extrapolation of central differences, O(h^6)."""
    slopes = []
    for e in np.eye(len(q)):
        central = [
            (function(q + k * h * e) - function(q - k * h * e)) / (2 * k * h) for k in (1, 2, 4)
        ]
        once = [(4 * a - b) / 3 for a, b in pairwise(central)]
        slopes.append((16 * once[0] - once[1]) / 15)
    return np.array(slopes)


def gradient_error(density, x, z, h=2e-3):
    """Largest difference from Richardson's, relative to the largest slope."""
    at, d = density.evaluate(x, z), len(x)
    slope = np.concatenate([at.slope_x, at.slope_z])
    expected = richardson(lambda q: density.evaluate(q[:d], q[d:]).rest, np.concatenate([x, z]), h)
    return np.max(np.abs(slope - expected)) / np.max(np.abs(slope))


@pytest.mark.parametrize("name", MODELS)
def test_gradient(name):
    assert gradient_error(*point(MODELS[name])) < 1e-9


def test_gradient_of_a_larger_matrix_than_one_tile():
    X = np.random.default_rng(3).random((75, 2))
    model = GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), ARD, Logistic())
    density, x, z = point(model)
    assert gradient_error(density, x, z, h=1e-3) < 1e-7


# -- wrong programs --------------------------------------------------------------------------------


def test_a_gradient_without_the_covariances_factor_is_caught(monkeypatch):
    whole = dense_structure.covariance_adjoint

    def without(routines, K, inverse, B, S, omega, alpha, a, adjoint, p, z1):
        return whole(routines, K, inverse, B, S, omega, alpha, a, adjoint, 0.0 * p, z1)

    monkeypatch.setattr(dense_structure, "covariance_adjoint", without)
    assert gradient_error(*point(MODELS["rich sum"])) > 1e-3


def test_a_gradient_without_kappa_is_caught(monkeypatch):
    whole = DenseCovariance.adjoint

    def without(self, full, S, shift, *others):
        return whole(self, full, S, 0.0, *others)

    monkeypatch.setattr(DenseCovariance, "adjoint", without)
    for name in ("rich sum", "nine lengths"):
        assert gradient_error(*point(MODELS[name])) > 1e-3


def test_a_gradient_without_the_jitter_is_caught(monkeypatch):
    whole = DenseCovariance.adjoint

    def without(self, *given):
        jitter, self.rest.jitter = self.rest.jitter, 0.0
        slopes = whole(self, *given)
        self.rest.jitter = jitter
        return slopes

    monkeypatch.setattr(DenseCovariance, "adjoint", without)
    for name in (
        "rich sum",
        "binomial",
    ):  # K with its jitter is given to the adjoint of a single leaf
        assert gradient_error(*point(MODELS[name])) > 1e-5


def test_a_value_without_the_log_determinant_is_caught(monkeypatch):
    whole = dense_structure.condition

    def quadratic_only(*given):
        gamma, alpha = given[5], given[10]
        whole(*given)
        return -0.5 * gamma @ alpha

    monkeypatch.setattr(dense_structure, "condition", quadratic_only)
    assert gradient_error(*point(MODELS["rich sum"])) > 1e-3
    assert np.ptp(offsets(MODELS["dispersion"])) > 1e-2


# -- values ----------------------------------------------------------------------------------------


def offsets(model, n=4):
    """Log pi by the density minus that by dense matrices, at draws made with `augment`: constants.

    With f and z_2 as coordinates in the place of z_1 and z_2: the auxiliary variable is the site's
    observation noise, log pi = log p_h(theta) + log N(f; 0, K) + log p(y | f) + log N(z_2').
    """
    density, _, _ = point(model)
    rng, values = np.random.default_rng(5), []
    for _ in range(n):
        theta = model.draw_prior(rng, 0.6)
        f, _ = model.simulate(rng, theta)
        x = model.parameters.to_normal(theta)
        z = density.augment(rng, x, f)
        at = density.evaluate(x, z)
        assert np.allclose(at.latents, f, atol=1e-7)
        whole = at.rest + norm.logpdf(x).sum() + norm.logpdf(z).sum()
        values.append(whole - _with_auxiliary(model, density, theta, x, z, f))
    return values


def _with_auxiliary(model, density, theta, x, z, f):
    """Log density of (x, z): that of (theta, f), that of z given f, and log |d f / d z| by hand.

    Under the sites z ~ N(0, I) and f = m + A z: N(z) = N(f; m, A A') p(z | f). So p(z | f) is
    N(z) / N(f; m, R), R = (K^-1 + W)^-1, and log pi = log p(theta, f, y) + log dtheta/dx + log p(z | f).
    """
    full = model.full(theta)
    K = model.covariance_matrix(theta)
    w, b = density.sites
    a = np.sqrt(np.trace(K) / len(f)) if model.likelihood.relative_sites else 1.0
    w, b = w / a**2, b / a - w / a**2 * model.mean_at(full)
    R = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    given = norm.logpdf(z).sum() - multivariate_normal(R @ b, 0.5 * (R + R.T)).logpdf(f)
    slopes = np.log(np.abs(model.parameters.normal.theta(x)[1])).sum()
    return model.log_density(theta, f) + slopes + given


@pytest.mark.parametrize("name", MODELS)
def test_any_sites_give_the_same_density(name):
    model = MODELS[name]
    values = offsets(model)
    assert np.ptp(values) < 1e-7
    density, x, z = point(model)
    at = density.evaluate(x, z)
    slow = model.log_density(at.theta, at.latents) - model.log_prior(at.theta)
    assert at.complete == pytest.approx(slow, rel=1e-9)
    assert at.log_likelihood == pytest.approx(float(model.log_likelihood(at.latents, at.theta)))
    assert np.allclose(model.parameters.to_normal(at.theta), x)


@pytest.mark.parametrize("name", ["rich sum", "dispersion", "grid"])
def test_latents_are_draws_of_the_site_posterior(name):
    """f is affine in z ~ N(0, I): its mean and covariance are those of the Gaussian sites."""
    model = MODELS[name]
    density, x, _ = point(model)
    zero = density.evaluate(x, np.zeros(density.n_z))
    columns = [density.evaluate(x, e).latents - zero.latents for e in np.eye(density.n_z)]
    K, c = model.covariance_matrix(zero.theta), model.mean_at(model.full(zero.theta))
    w, b = density.sites
    if name == "rich sum":
        a = np.sqrt(np.diag(K).mean())
        w, b = w / a**2, b / a
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    assert np.allclose(np.transpose(columns) @ columns, covariance, atol=1e-9)
    assert np.allclose(zero.latents, covariance @ (b - w * c), atol=1e-9)


@pytest.mark.parametrize("name", ["rich sum", "grid"])
def test_augmented_variables_are_their_conditional(name):
    """Fresh (z, f) from the sites, and z drawn anew given f: z keeps its N(0, I)."""
    model, rng, n = MODELS[name], np.random.default_rng(2), 1500
    density, x, _ = point(model)
    draws = []
    for _ in range(n):
        f = density.evaluate(x, rng.standard_normal(density.n_z)).latents
        draws.append(density.augment(rng, x, f))
    draws = np.array(draws)
    assert np.all(np.abs(draws.mean(0)) < 5 / np.sqrt(n))
    assert np.all(np.abs(np.cov(draws.T) - np.eye(density.n_z)) < 5 * np.sqrt(2 / n))


def test_gaussian_data_leave_no_residual():
    model = build(ARD, Gaussian(0.4), mean=0.2)
    density, x, _ = point(model)
    rng = np.random.default_rng(4)
    values = [density.evaluate(x, rng.standard_normal(26)) for _ in range(3)]
    assert np.ptp([v.rest for v in values]) < 1e-5
    assert max(np.abs(v.slope_z).max() for v in values) < 1e-5
    w, b = density.sites
    assert np.allclose(w, 1 / 0.16)
    assert np.allclose(b, model.y / 0.16, atol=1e-6)


# -- latents integrated out ------------------------------------------------------------------------

NOISY = {
    "free noise": build(RICH, Gaussian(SIGNAL), mean=MEAN),
    "constants apart": build(ARD + Constant(SIGNAL) + Constant(10.0), Gaussian(SIGNAL), mean=0.2),
    "noise of each case": build(SE, Gaussian(np.linspace(0.1, 0.9, 13)), mean=MEAN),
}  # fmt: skip


class Numbers:
    """A generator that gives these vectors."""

    def __init__(self, *vectors):
        self.vectors = list(vectors)

    def standard_normal(self, n):
        """The next one."""
        return self.vectors.pop(0).copy()


@pytest.mark.parametrize("name", NOISY)
def test_collapsed_density_and_its_draws_are_the_closed_forms(name):
    model, x = NOISY[name], 0.4 * np.random.default_rng(1).standard_normal(NOISY[name].dim)
    density = density_of(model, FrozenSites(np.ones(13), np.zeros(13)))
    assert isinstance(density, CollapsedDensity)
    at = density.evaluate(x, np.empty(0))
    full, K = model.full(at.theta), model.covariance_matrix(at.theta)
    c, n = model.mean_at(full), model.n_cases
    C = K + np.diag(model.likelihood_at(full).noise_variances(n))
    assert at.rest == pytest.approx(
        multivariate_normal(np.full(n, c), C).logpdf(model.y), rel=1e-10
    )
    slopes = richardson(lambda q: density.evaluate(q, np.empty(0)).rest, x, 2e-3)
    assert np.allclose(at.slope_x, slopes, rtol=0, atol=1e-9 * np.abs(slopes).max())
    zero, unit = np.zeros(n), np.eye(n)
    f, log_likelihood, complete = density.draw_latents(Numbers(unit[0], unit[1]), at.theta)
    assert log_likelihood == pytest.approx(float(model.log_likelihood(f, at.theta)), rel=1e-12)
    slow = model.log_density(at.theta, f) - model.log_prior(at.theta)
    assert complete == pytest.approx(slow, rel=1e-10)
    mean = density.draw_latents(Numbers(zero, zero), at.theta)[0]
    assert np.allclose(mean, K @ np.linalg.solve(C, model.y - c), atol=1e-9)
    moved = [density.draw_latents(Numbers(e, zero), at.theta)[0] - mean for e in unit]
    moved += [density.draw_latents(Numbers(zero, e), at.theta)[0] - mean for e in unit]
    covariance = K - K @ np.linalg.solve(C, K)
    assert np.allclose(np.transpose(moved) @ moved, covariance, atol=1e-8)


# -- limits ----------------------------------------------------------------------------------------

LIMITS = {
    "negative binomial": (NegativeBinomial(1e6, EXPOSURE), Poisson(EXPOSURE)),
    "binomial": (Binomial(1), Logistic()),
    "student": (StudentT(0.4, 1e6), Gaussian(0.4)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_likelihoods(name, monkeypatch):
    near, limit = LIMITS[name]
    monkeypatch.setattr(type(near), "relative_sites", limit.relative_sites)  # the same z for both
    covariance = SE * PERIODIC + Linear(LENGTH)
    model = build(covariance, limit, mean=MEAN)
    y = 0.5 * (model.y + 1.0) if name == "binomial" else model.y
    other = GPModel(model.X, y, covariance, near, MEAN, model.jitter)
    rng, theta = np.random.default_rng(2), model.prior_median()
    densities = [JointDensity(m, frozen_sites(model, theta)) for m in (model, other)]
    for _ in range(4):
        x, z = 0.5 * rng.standard_normal(model.dim), rng.standard_normal(26)
        a, b = (density.evaluate(x, z) for density in densities)
        for field in ("rest", "complete", "log_likelihood", "slope_x", "slope_z", "latents"):
            expected = getattr(a, field)
            scale = max(1.0, np.abs(expected).max())
            assert np.allclose(getattr(b, field), expected, rtol=0, atol=1e-4 * scale), field
    fits = [expectation_propagation(m.at(theta)) for m in (model, other)]
    assert fits[1].log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-4)


def test_an_additive_model_with_a_tight_process_is_a_regression():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 2))
    y = np.where(X @ [1.0, -0.6] + rng.standard_normal(25) > 0.3, 1.0, -1.0)
    covariance = Linear((0.8, 1.3)) + Constant(2.0) + SquaredExponential(1.0, 1e-4)
    design = np.column_stack([X, np.ones(25)])
    regression = LatentGaussianModel.from_design(design, [0.8, 1.3, 2.0], Probit(), y)
    near = expectation_propagation(GPModel(X, y, covariance, Probit()).at())
    exact = expectation_propagation(regression)
    assert near.log_evidence == pytest.approx(exact.log_evidence, abs=1e-5)
    assert np.allclose(near.sites.predictor_mean, exact.sites.predictor_mean, atol=1e-4)


# -- where there is none ---------------------------------------------------------------------------


def test_where_there_is_no_density():
    X = np.linspace(0, 1, 40)
    covariance = SquaredExponential(Hyperprior("norm", {"scale": 3.0}), 1.0)
    model = GPModel(X, np.ones(40), covariance, Logistic(), jitter=0.0)
    density = JointDensity(model, FrozenSites(np.ones(40), np.zeros(40)))
    for x in (2.0, 1e3, np.nan):
        at = density.evaluate(np.array([x]), np.zeros(80))
        assert at.rest == -np.inf
        assert not np.any(at.slope_x)
        assert not np.any(at.slope_z)
    with pytest.raises(NumericalError, match="give a larger jitter than 0"):
        density.augment(np.random.default_rng(0), np.array([2.0]), np.zeros(40))


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_sites_that_are_not_positive(wrong):
    w = np.ones(13)
    w[3] = wrong
    with pytest.raises(NumericalError, match=r"site 3 has precision .*allowed: positive") as error:
        JointDensity(MODELS["rich sum"], FrozenSites(w, np.zeros(13)))
    assert "\n" not in str(error.value)


def test_an_amplitude_that_includes_zero():
    wide = Hyperprior("uniform", {"loc": -1.0, "scale": 2.0}, scale="natural")
    model = GPModel(np.arange(4.0), np.ones(4), SquaredExponential(LENGTH, wide), Logistic())
    with pytest.raises(InputError, match=r"signal_sd includes zero: 0.5 of it") as error:
        JointDensity(model, FrozenSites(np.ones(4), np.zeros(4)))
    assert "\n" not in str(error.value)
