from __future__ import annotations

import pickle

import numpy as np
import pytest

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.gp_regression import GPRegression
from gpmcflow.models.log_density import FunctionDensity, finite_start
from gpmcflow.models.regression_covariance import Workspace

THETA = np.log([3.0, 0.3, 0.6, 0.9, 1.4])
NOISE = np.random.default_rng(5).uniform(0.02, 0.3, 60)


def build(n=60, p=3, ard=True, **settings) -> GPRegression:
    rng = np.random.default_rng(n)
    X = rng.random((n, p))
    mean, sd = np.linspace(-0.5, 0.5, 2 + (p if ard else 1)), 1.3
    noise = settings.get("noise_variances")
    mean = mean if noise is None else mean[1:]
    model = GPRegression(X, np.zeros(n), ard, prior_mean=mean, prior_sd=sd, **settings)
    theta = THETA[: 2 + (p if ard else 1)]
    return model.with_y(model.simulate(rng, theta if noise is None else np.delete(theta, 1)))


def theta_of(model: GPRegression) -> np.ndarray:
    return THETA[: model.dim] if model.has_noise else np.delete(THETA, 1)[: model.dim]


def written_out(model: GPRegression, theta: np.ndarray) -> np.ndarray:
    """C(theta) by loops, as the paper has it."""
    eta2, rho = np.exp(2 * theta[0]), np.exp(theta[2:] if model.has_noise else theta[1:])
    C = np.empty((model.n_cases, model.n_cases))
    for i, x in enumerate(model.X):
        for j, z in enumerate(model.X):
            noise = np.exp(2 * theta[1]) if model.has_noise else model.noise_variances[i]
            C[i, j] = model.constant**2 + eta2 * np.exp(-(((x - z) / rho) ** 2).sum())
            C[i, j] += noise * (i == j)
    return C


MODELS = [
    build(ard=False, p=1),
    build(ard=False),
    build(),
    build(noise_variances=NOISE, constant=2.0),
    build(constant=0.0),
]


@pytest.mark.parametrize("model", MODELS)
def test_likelihood_and_posterior_are_those_of_dense_algebra(model):
    theta, y = theta_of(model), model.y
    C = written_out(model, theta)
    want = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + len(y) * np.log(2 * np.pi))
    z = (theta - model.prior_mean) / 1.3
    prior = -0.5 * z @ z - model.dim * np.log(1.3 * np.sqrt(2 * np.pi))
    density = model.log_density()
    assert density(theta) == pytest.approx(want + prior, abs=1e-8)
    assert density(theta) - density.log_prior(theta) == pytest.approx(want, abs=1e-8)
    assert density.n_calls == 2
    assert density.n_failed == 0
    assert density.seconds > 0.0


@pytest.mark.parametrize("model", MODELS)
def test_gradient_is_that_of_finite_differences(model):
    theta, density = theta_of(model) + 0.07, model.log_density()
    value, gradient = density.value_and_gradient(theta)
    steps = 1e-5 * np.eye(model.dim)
    numerical = [(density(theta + h) - density(theta - h)) / 2e-5 for h in steps]
    assert value == density(theta)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5, atol=1e-5)
    assert density.n_gradients == 1


@pytest.mark.parametrize("model", MODELS)
def test_values_do_not_depend_on_what_was_asked_before(model):
    rng, density = np.random.default_rng(1), model.log_density()
    for _ in range(20):  # one coordinate at a time, as in slice sampling: the cached E is used
        theta = theta_of(model).copy()
        theta[rng.integers(model.dim)] += 0.2 * rng.standard_normal()
        assert density(theta) == density.fresh()(theta)
        assert pickle.loads(pickle.dumps(density))(theta) == density(theta)


def test_cached_covariance_is_the_fresh_one():
    model = build()
    work, scales = Workspace(model.X), np.array([0.6, 0.9, 1.4])
    work.inverse_scales[:] = 1.0 / (scales + 0.1)
    work.correlate()
    work.inverse_scales[:] = 1.0 / scales
    work.correlate()
    D = ((model.X[:, None] - model.X) ** 2 / scales**2).sum(-1)
    rows, columns = np.tril_indices(60)
    order = np.lexsort((rows, columns))
    np.testing.assert_allclose(work.packed, np.exp(-D)[rows, columns][order], rtol=1e-12)


@pytest.mark.parametrize("model", [m for m in MODELS if m.has_noise])
def test_scale_statistics_give_the_likelihood_at_any_scale(model):
    theta, n = theta_of(model), model.n_cases
    found = model.log_density().scale_statistics(theta[1] - theta[0], theta[2:])
    k, eta2 = model.constant**2 / np.exp(2 * theta[0]), np.exp(2 * theta[0])
    log_det = n * np.log(eta2) + found.log_det + np.log(1 + k * found.ones)
    quadratic = (found.squares - k * found.cross**2 / (1 + k * found.ones)) / eta2
    C = written_out(model, theta)
    assert log_det == pytest.approx(np.linalg.slogdet(C)[1], abs=1e-7)
    assert quadratic == pytest.approx(model.y @ np.linalg.solve(C, model.y), rel=1e-8)


def test_predictions_are_those_of_the_explicit_inverse():
    model, theta = build(), THETA
    new = np.random.default_rng(3).random((7, 3))
    inverse = np.linalg.inv(written_out(model, theta))
    D = (((model.X[:, None] - new) / np.exp(theta[2:])) ** 2).sum(-1)
    k = 100.0 + np.exp(2 * theta[0]) * np.exp(-D)
    total = 100.0 + np.exp(2 * theta[0]) + np.exp(2 * theta[1])
    mean, variance = model.predict(theta, new)
    np.testing.assert_allclose(mean, k.T @ inverse @ model.y, atol=1e-8)
    np.testing.assert_allclose(variance, total - np.einsum("im,ij,jm->m", k, inverse, k), atol=1e-8)
    draws = np.stack([theta, theta + 0.2])
    both = [model.predict(t, new) for t in draws]
    mean, variance = model.predict_from_draws(draws, new)
    np.testing.assert_allclose(mean, (both[0][0] + both[1][0]) / 2)
    spread = (both[0][0] - both[1][0]) ** 2 / 4
    np.testing.assert_allclose(variance, (both[0][1] + both[1][1]) / 2 + spread)


def test_simulated_responses_have_the_covariance():
    model, rng = build(n=3, p=1, ard=False), np.random.default_rng(0)
    theta = THETA[:3]
    y = np.stack([model.simulate(rng, theta) for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(y.T), written_out(model, theta), rtol=0.03)


def test_what_cannot_be_factorised_is_minus_infinity_and_counted():
    density = GPRegression(np.linspace(0.0, 1.0, 30), np.ones(30)).log_density()
    assert density(np.array([3.0, -25.0, 2.0])) == -np.inf  # smooth, and no noise to speak of
    for far in ([1e3, 0.0, 0.0], [0.0, 0.0, np.nan], [0.0, -np.inf, 0.0]):
        assert density(np.array(far)) == -np.inf
    assert density.n_failed == 4
    assert np.isfinite(density(np.zeros(3)))
    value, gradient = density.value_and_gradient(np.array([0.0, 0.0, 400.0]))
    assert value == -np.inf
    assert not gradient.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, np.nan, 2.0]}, r"y\[1\] is nan; allowed: finite numbers"),
        ({"X": [[1.0], [np.inf], [2.0]]}, r"X\[1, 0\] is inf"),
        ({"X": [[1.0]], "y": [2.0]}, r"found 1 case; allowed: 2 or more"),
        ({"y": [1.0, 2.0]}, r"y has shape \(2,\); allowed: \(3,\)"),
        ({"constant": -1.0}, r"constant is -1.0"),
        ({"prior_sd": 0.0}, r"prior_sd has an entry <= 0"),
        ({"prior_mean": [0.0, 1.0]}, r"prior_mean of shape \(2,\).*log_eta, log_sigma, log_rho"),
        ({"noise_variances": [0.1, 0.0, 0.1]}, r"noise_variances .*positive and finite"),
    ],
)
def test_bad_input(change, message):
    settings = {"X": [[1.0], [2.0], [3.0]], "y": [1.0, 2.0, 4.0], **change}
    with pytest.raises(InputError, match=message):
        GPRegression(**settings)


def test_more_features_than_cases_warn(caplog):
    GPRegression(np.eye(3), np.ones(3), ard=True)
    assert "ARD with 3 features and 3 cases" in caplog.text
    caplog.clear()
    GPRegression(np.eye(3), np.ones(3))
    assert not caplog.text


def test_names_and_a_theta_that_does_not_fit():
    model = build(noise_variances=NOISE)
    assert model.names == ("log_eta", "log_rho_1", "log_rho_2", "log_rho_3")
    with pytest.raises(InputError, match=r"theta has shape \(5,\); allowed: \(4,\)"):
        model.hyperparameters(THETA)
    with pytest.raises(InputError, match=r"X_new has shape \(2, 1\); allowed: \(m, 3\)"):
        model.predict(theta_of(model), np.zeros(2))
    model = GPRegression(np.linspace(0.0, 1.0, 30), np.ones(30))
    with pytest.raises(NumericalError, match="not positive definite"):
        model.predict(np.array([3.0, -25.0, 2.0]), [0.1])


def test_a_users_function():
    density = FunctionDensity(lambda t: -0.5 * float(t @ t), ("a", "b"), gradient=lambda t: -t)
    assert density(np.array([3.0, 4.0])) == -12.5
    assert density.value_and_gradient(np.array([3.0, 4.0]))[1].tolist() == [-3.0, -4.0]
    assert (density.n_calls, density.n_gradients) == (1, 1)
    with pytest.raises(InputError, match="2 finite numbers"):
        finite_start(density, [1.0])
    hole = FunctionDensity(lambda t: -np.inf, ("a",))
    with pytest.raises(NumericalError, match=r"-inf at \[1.0\]"):
        finite_start(hole, np.array([1.0]))
    with pytest.raises(InputError, match="has no gradient"):
        hole.value_and_gradient(np.array([1.0]))
