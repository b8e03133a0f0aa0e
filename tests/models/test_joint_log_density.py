"""Hyperparameters and latents as one density for samplers of other packages."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError

LINE = np.linspace(0.0, 1.0, 12)
GRID = np.array([(a, b) for a in range(3) for b in range(4)], dtype=float)
COUNTS = np.array([0, 1, 0, 2, 1, 3, 2, 5, 4, 3, 6, 5])
LABELS = np.where(COUNTS > 2, 1.0, -1.0)
PLANE = gp.Matern32(columns=0) * gp.SquaredExponential(columns=1)
MODELS = {
    "counts": gp.GPModel(LINE, COUNTS, gp.Matern32() + gp.Linear(), gp.Poisson()),
    "labels": gp.GPModel(LINE, LABELS, gp.SquaredExponential(), gp.Probit()),
    "noise": gp.GPModel(
        LINE, np.sin(6 * LINE), gp.Matern52(), gp.Gaussian(), mean=gp.Hyperprior("norm")
    ),
    "grid": gp.GPModel(GRID, LABELS, PLANE, gp.Logistic()),
    "weights": gp.GPModel(LINE, COUNTS, gp.Matern32(), gp.NegativeBinomial(), structure="basis"),
}
each = pytest.mark.parametrize("name", MODELS)


def _point(density, seed=0):
    return 0.5 * np.random.default_rng(seed).standard_normal(density.dim)


@each
def test_the_gradient_is_that_of_differences(name):
    density = MODELS[name].joint_log_density()
    q = _point(density)
    value, gradient = density.value_and_gradient(q)
    assert value == density(q)
    steps = 1e-5 * np.eye(density.dim)
    differences = [(density(q + step) - density(q - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=2e-6)


@each
def test_it_is_the_density_of_theta_and_f_with_the_jacobian(name):
    """log p(theta, f, y) of `GPModel.log_density`, + log |d theta / d x| + log |d f / d z|."""
    model = MODELS[name]
    density = model.joint_log_density()
    q = _point(density, 1)
    theta, slopes = model.parameters.normal.theta(q[: model.dim])
    drawn = density.variables(q)
    full, jacobian = model.full(theta), np.log(slopes).sum()
    if not model.basis:
        jacobian += model.filled_factor(full).log_det + model.n_cases * np.log(model.scale(full))
    expected = model.log_density(theta, drawn[model.latent_variable]) + jacobian
    assert density(q) == pytest.approx(expected, abs=1e-8)
    natural = model.natural(theta)
    assert {name: drawn[name] for name in model.names} == pytest.approx(
        {name: natural[name] for name in model.names}
    )


def test_its_integral_is_the_evidence():
    """One free hyperparameter and one latent, by Gauss-Hermite quadrature, against that over theta alone."""
    amplitude = gp.Hyperprior("norm", {"scale": 0.2})
    model = gp.GPModel([0.0], [0.7], gp.Matern32(1.0, amplitude), gp.Gaussian(1.5))
    density = model.joint_log_density()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    inside = [
        sum(w * np.exp(density(np.array([x, z])) - density.log_prior(np.array([x, z])))
            for z, w in zip(nodes, weights, strict=True))
        for x in nodes
    ]  # fmt: skip
    variance = np.exp(2.0 * 0.2 * nodes) * (1.0 + model.epsilon) + 2.25
    exact = np.exp(-0.5 * 0.49 / variance) / np.sqrt(2.0 * np.pi * variance)
    assert weights @ inside == pytest.approx(weights @ exact, rel=1e-9)


def hmc(density, q, rng, n_draws, step=0.4, most_steps=6):
    """Hamiltonian Monte Carlo in a dozen lines: what another package does with the density."""
    value, slope = density.value_and_gradient(q)
    draws = []
    for _ in range(n_draws):
        p = rng.standard_normal(len(q))
        new, energy, at, by = q, value - 0.5 * p @ p, value, slope
        for _ in range(rng.integers(1, most_steps + 1)):
            p = p + 0.5 * step * by
            new = new + step * p
            at, by = density.value_and_gradient(new)
            p = p + 0.5 * step * by
        if np.log(rng.random()) < at - 0.5 * p @ p - energy:
            q, value, slope = new, at, by
        draws.append(q)
    return np.array(draws)


def test_an_outside_sampler_finds_the_posterior_of_a_regression():
    x, y = np.array([0.0, 0.4, 1.0]), np.array([1.0, 0.2, -0.5])
    model = gp.GPModel(x, y, gp.SquaredExponential(0.5, 1.0), gp.Gaussian(0.7))
    density = model.joint_log_density()
    draws = hmc(density, density.start, np.random.default_rng(3), 4_000)[100:]
    f = density.variables(draws)["latent"]
    K = model.covariance_matrix(np.empty(0))
    gain = np.linalg.solve(K + 0.49 * np.eye(3), K).T
    np.testing.assert_allclose(f.mean(0), gain @ y, atol=0.05)
    np.testing.assert_allclose(np.cov(f.T), K - gain @ K, atol=0.05)


def test_where_there_is_no_density_it_is_refused_by_the_sampler():
    density = MODELS["counts"].joint_log_density()
    q = density.start
    q[0] = 1e6
    value, gradient = density.value_and_gradient(q)
    assert value == -np.inf
    assert not gradient.any()
    assert (density.n_gradients, density.n_failed) == (1, 1)


def test_a_copy_computes_the_same():
    density = MODELS["counts"].joint_log_density()
    q = _point(density)
    value = density(q)
    assert pickle.loads(pickle.dumps(density))(q) == value
    assert density.fresh().n_calls == 0


def test_points_of_another_length_are_refused():
    density = MODELS["counts"].joint_log_density()
    for call in (density, density.value_and_gradient, density.variables):
        with pytest.raises(InputError, match=r"q has shape \(3,\); allowed: .*15"):
            call(np.zeros(3))


def test_models_of_several_functions_are_refused():
    model = gp.GPModel(LINE, ["a", "b", "c"] * 4, "matern32(x1)", gp.Softmax(("a", "b", "c")))
    with pytest.raises(InputError, match="several latent functions"):
        gp.JointLogDensity(model)
