from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.models import joint_adjoint, joint_gradient
from gpmcflow.models.joint_gradient import FrozenSites, JointDensity
from gpmcflow.models.joint_model import JointModel
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.2, 3.0)
GAMMA = Hyperprior("gamma", {"a": 3.0, "scale": 0.3}, scale="natural")
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
OFFSET = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
LIKELIHOODS = {
    "logistic": Logistic(),
    "probit": Probit(),
    "poisson": Poisson(1.3),
    "gaussian": Gaussian(0.4),
}
SHAPES = {
    "one feature": {"p": 1},
    "lengths": {"p": 3},
    "other hyperprior": {"p": 2, "length": GAMMA},
    "many features": {"p": 7},
    "isotropic": {"p": 3, "isotropic": True},
    "one feature, isotropic": {"p": 1, "isotropic": True},
    "grid": {"p": 2, "kronecker": True},
    "grid, isotropic": {"p": 2, "kronecker": True, "isotropic": True},
    "fixed length": {"p": 2, "length": [0.7, LENGTH]},
    "fixed amplitude": {"p": 2, "signal": 1.4},
}


def build(name, p, length=LENGTH, signal=SIGNAL, seed=0, jitter=1e-3, **more):
    rng = np.random.default_rng(seed)
    if more.get("kronecker"):
        axes = np.linspace(0, 1, 4), np.linspace(0, 2, 3)
        X = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    else:
        X = rng.standard_normal((13, p)) + 5.0
    likelihood = LIKELIHOODS[name]
    y = likelihood.simulate(rng, rng.standard_normal(len(X)))
    offset = OFFSET if name == "poisson" else 0.0
    return JointModel(likelihood, X, y, length, signal, offset, jitter=jitter, **more)


def point(model, seed=1):
    """A density with the sites of one theta, and another point."""
    rng = np.random.default_rng(seed)
    density = JointDensity(model, frozen_sites(model, model.draw_prior(rng, 0.5)))
    return density, 0.7 * rng.standard_normal(model.dim), rng.standard_normal(2 * model.n_cases)


def gradient_error(density, x, z, h=3e-4):
    """Largest difference from fourth-order central differences, relative to the largest slope."""
    found = density.evaluate(x, z)
    slope, q, d = np.concatenate([found.slope_x, found.slope_z]), np.concatenate([x, z]), len(x)

    def at(k, step):
        moved = q.copy()
        moved[k] += step
        return density.evaluate(moved[:d], moved[d:]).rest

    expected = [
        (8 * (at(k, h) - at(k, -h)) - (at(k, 2 * h) - at(k, -2 * h))) / (12 * h)
        for k in range(len(q))
    ]
    return np.max(np.abs(slope - expected)) / np.max(np.abs(slope))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradient(name, shape):
    density, x, z = point(build(name, **SHAPES[shape]))
    assert gradient_error(density, x, z) < 1e-8


def test_gradient_of_a_larger_matrix_than_one_tile():
    rng = np.random.default_rng(3)
    X = rng.random((75, 2))
    model = JointModel(Logistic(), X, np.where(X[:, 0] > 0.5, 1.0, -1.0), LENGTH, SIGNAL)
    density, x, z = point(model)
    assert gradient_error(density, x, z, h=1e-3) < 1e-6


def test_the_gradient_needs_the_factor_of_the_covariance(monkeypatch):
    def without(routines, K, inverse, B, S, omega, alpha, a, adjoint, p, z1):
        return joint_adjoint.covariance_adjoint(
            routines, K, inverse, B, S, omega, alpha, a, adjoint, 0.0 * p, z1
        )

    density, x, z = point(build("logistic", 2))
    monkeypatch.setattr(joint_gradient, "covariance_adjoint", without)
    assert gradient_error(density, x, z) > 1e-2


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_value_is_the_definition(name):
    """Up to one constant: site evidence plus residual, written with dense matrices."""
    model = build(name, 2)
    density, _, _ = point(model)
    rng, w, b = np.random.default_rng(5), *density.sites
    differences = []
    for _ in range(4):
        x, z = 0.5 * rng.standard_normal(model.dim), rng.standard_normal(26)
        found = density.evaluate(x, z)
        _, sd, c = model.hyperparameters(found.theta)
        Sigma, s = model.covariance(found.theta), found.latents + c
        if name in ("logistic", "probit"):
            Sigma, s = Sigma / sd**2, found.latents / sd
            c = 0.0
        C = Sigma + np.diag(1 / w)
        gap = b / w - c
        evidence = -0.5 * gap @ np.linalg.solve(C, gap) - 0.5 * np.linalg.slogdet(C)[1]
        likelihood = float(model.log_likelihood(found.latents, found.theta))
        residual = likelihood - b @ s + 0.5 * w @ s**2
        differences.append(found.rest - evidence - residual)
        assert found.log_likelihood == pytest.approx(likelihood)
        assert found.complete == pytest.approx(
            model.log_density(found.theta, found.latents) - model.log_prior(found.theta)
        )
        assert np.allclose(found.theta, model.from_normal(x))
    assert np.ptp(differences) < 1e-8


@pytest.mark.parametrize("name", ["probit", "poisson"])
def test_latents_are_draws_of_the_site_posterior(name):
    """f is affine in z ~ N(0, I): its mean and covariance are those of the Gaussian sites."""
    model = build(name, 2)
    density, x, _ = point(model)
    w, b = density.sites
    zero = density.evaluate(x, np.zeros(26))
    columns = [density.evaluate(x, e).latents - zero.latents for e in np.eye(26)]
    _, sd, c = model.hyperparameters(zero.theta)
    if name == "probit":
        w, b = w / sd**2, b / sd
    covariance = np.linalg.inv(np.linalg.inv(model.covariance(zero.theta)) + np.diag(w))
    assert np.allclose(np.transpose(columns) @ columns, covariance, atol=1e-9)
    assert np.allclose(zero.latents, covariance @ (b - w * c), atol=1e-9)


@pytest.mark.parametrize("shape", ["lengths", "grid"])
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_augmented_variables_give_the_latents_and_are_their_conditional(name, shape):
    model = build(name, **SHAPES[shape])
    density, x, _ = point(model)
    n, rng = model.n_cases, np.random.default_rng(2)
    f = rng.standard_normal(n)
    z = density.augment(rng, x, f)
    assert np.allclose(density.evaluate(x, z).latents, f, atol=1e-8)
    # fresh (z, f) from the sites, and z drawn anew given f: z keeps its N(0, I)
    draws = []
    for _ in range(1500):
        f = density.evaluate(x, rng.standard_normal(2 * n)).latents
        draws.append(density.augment(rng, x, f))
    draws = np.array(draws)
    assert np.all(np.abs(draws.mean(0)) < 5 / np.sqrt(1500))
    assert np.all(np.abs(np.cov(draws.T) - np.eye(2 * n)) < 5 * np.sqrt(2 / 1500))


def test_gaussian_data_leave_no_residual():
    model = build("gaussian", 2)
    density, x, _ = point(model)
    rng = np.random.default_rng(4)
    values = [density.evaluate(x, rng.standard_normal(26)) for _ in range(3)]
    assert np.ptp([v.rest for v in values]) < 1e-5
    assert max(np.abs(v.slope_z).max() for v in values) < 1e-5


def test_where_there_is_no_density():
    X = np.linspace(0, 1, 40)
    model = JointModel(Logistic(), X, np.ones(40), Hyperprior("norm", {"scale": 3.0}), jitter=0.0)
    density = JointDensity(model, FrozenSites(np.ones(40), np.zeros(40)))
    for x in (2.0, 1e3, np.nan):
        found = density.evaluate(np.array([x]), np.zeros(80))
        assert found.rest == -np.inf
        assert not np.any(found.slope_x)
        assert not np.any(found.slope_z)
    with pytest.raises(NumericalError, match="give a larger jitter than 0"):
        density.augment(np.random.default_rng(0), np.array([2.0]), np.zeros(40))


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_sites_that_are_not_positive(wrong):
    w = np.ones(13)
    w[3] = wrong
    with pytest.raises(NumericalError, match=r"site 3 has precision .*allowed: positive") as found:
        JointDensity(build("logistic", 2), FrozenSites(w, np.zeros(13)))
    assert "\n" not in str(found.value)


def test_an_amplitude_that_includes_zero():
    wide = Hyperprior("uniform", {"loc": -1.0, "scale": 2.0}, scale="natural")
    model = JointModel(Logistic(), np.arange(4.0), np.ones(4), LENGTH, wide)
    with pytest.raises(InputError, match=r"log_signal_sd includes zero: 0.5 of it") as found:
        JointDensity(model, FrozenSites(np.ones(4), np.zeros(4)))
    assert "\n" not in str(found.value)


def test_sites_of_gaussian_data_are_the_likelihood():
    model = build("gaussian", 2)
    w, b = frozen_sites(model, model.prior_median())
    assert np.allclose(w, 1 / 0.16)
    assert np.allclose(b, model.y / 0.16, atol=1e-6)
