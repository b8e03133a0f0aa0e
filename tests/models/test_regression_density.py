from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpmcflow.covariances.leaves import (
    Constant,
    Linear,
    Matern32,
    Periodic,
    SquaredExponential,
    White,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Probit
from gpmcflow.models.collapsed_density import CollapsedDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import FunctionDensity, finite_start
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter

N, WIDE = 40, Hyperprior("norm", {"loc": -0.2, "scale": 1.3})
GAMMA = Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural")
RNG = np.random.default_rng(5)
X, NOISE = RNG.random((N, 3)), RNG.uniform(0.1, 0.6, N)
Y = np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.standard_normal(N) + 0.5
APART = X[:, None] - X


def se(scales, sd):
    return sd**2 * np.exp(-0.5 * ((APART / scales) ** 2).sum(-1))


def matern(scale, sd):
    a = np.sqrt(3.0 * (APART**2).sum(-1)) / scale
    return sd**2 * (1.0 + a) * np.exp(-a)


def periodic(scale, period):
    return np.exp(-2.0 * np.sin(np.pi * APART[..., 0] / period) ** 2 / scale**2)


def model_of(covariance, likelihood=Gaussian(WIDE), jitter=0.0, mean=0.0, y=Y):  # noqa: B008
    return GPModel(X, y, covariance, likelihood, mean=mean, jitter=jitter)


I = np.eye(N)  # noqa: E741
EXACT = Constant(10.0)
SHARED = Parameter("s", WIDE)
# name: the model, theta in its own units, C by formulas, c
CASES = {
    "one length scale": (
        model_of(SquaredExponential(WIDE, WIDE) + EXACT), [0.4, 1.5, 0.3],
        lambda h, s, e: se(h, s) + 100.0 + e**2 * I, 0.0,
    ),
    "ard": (
        model_of(SquaredExponential(WIDE, WIDE, ard=True)), [0.4, 0.9, 2.0, 1.5, 0.3],
        lambda a, b, c, s, e: se([a, b, c], s) + e**2 * I, 0.0,
    ),
    "two constants, free, jitter": (
        model_of(
            Constant(WIDE) + SquaredExponential(GAMMA, WIDE) + Constant(GAMMA), Gaussian(WIDE), 0.05
        ),
        [1.1, 0.4, 1.5, 0.7, 0.3],
        lambda a, h, s, b, e: (se(h, s) + a**2 + b**2) * (1.0 + 0.05 * I) + e**2 * I, 0.0,
    ),
    "known noise, a free mean": (
        model_of(Matern32(WIDE, WIDE) + EXACT, Gaussian(NOISE), 0.0, Hyperprior("norm")),
        [0.6, 1.2, -0.7], lambda h, s, c: matern(h, s) + 100.0 + np.diag(NOISE**2), -0.7,
    ),
    "fixed amplitude and mean": (
        model_of(Matern32(WIDE, 1.7) + EXACT, Gaussian(WIDE), 0.0, 0.4), [0.6, 0.3],
        lambda h, e: matern(h, 1.7) + 100.0 + e**2 * I, 0.4,
    ),
    "white": (
        model_of(Matern32(WIDE, WIDE) + White(WIDE) + EXACT, Gaussian(0.2)), [0.6, 1.2, 0.5],
        lambda h, s, w: matern(h, s) + 100.0 + (w**2 + 0.04) * I, 0.0,
    ),
    "product and sum": (
        model_of(
            SquaredExponential(WIDE, WIDE) * Periodic(WIDE, period=0.5, columns=0)
            + Linear(WIDE, columns=1), Gaussian(WIDE), 1e-3,
        ),
        [0.8, 1.3, 0.9, 0.6, 0.3],
        lambda h, s, r, b, e: (se(h, s) * periodic(r, 0.5) + b**2 * np.outer(X[:, 1], X[:, 1]))
        * (1.0 + 1e-3 * I) + e**2 * I, 0.0,
    ),
    "product plus a constant": (
        model_of(SquaredExponential(WIDE, WIDE) * Periodic(WIDE, period=0.5, columns=0) + EXACT),
        [0.8, 1.3, 0.9, 0.3],
        lambda h, s, r, e: se(h, s) * periodic(r, 0.5) + 100.0 + e**2 * I, 0.0,
    ),
    "one parameter in three places": (
        model_of(SquaredExponential(WIDE, SHARED) + Constant(SHARED), Gaussian(SHARED)), [0.6, 1.2],
        lambda h, s: se(h, s) + s**2 + s**2 * I, 0.0,
    ),
}  # fmt: skip
each = pytest.mark.parametrize("case", CASES)


def theta_of(case: str) -> np.ndarray:
    model, values, _, _ = CASES[case]
    is_log = model.parameters.is_log[model.free]
    return np.array([np.log(v) if log else v for v, log in zip(values, is_log, strict=True)])


@each
def test_likelihood_and_posterior_are_those_of_dense_algebra(case):
    model, values, C, c = CASES[case]
    theta, density = theta_of(case), RegressionDensity(model)
    want = multivariate_normal(np.full(N, c), C(*values)).logpdf(Y)
    assert density(theta) - density.log_prior(theta) == pytest.approx(want, abs=1e-8)
    assert density.log_likelihood(theta) == pytest.approx(want, abs=1e-8)
    assert density.log_prior(theta) == model.log_prior(theta)
    assert (density.n_calls, density.n_failed) == (1, 0)
    assert density.seconds > 0.0


def test_the_prior_is_that_of_the_logs():
    model, values, _, _ = CASES["one length scale"]
    want = norm(-0.2, 1.3).logpdf(np.log(values)).sum()
    assert RegressionDensity(model).log_prior(np.log(values)) == pytest.approx(want, abs=1e-12)


@each
def test_gradient_is_that_of_richardson_differences(case):
    density, theta = RegressionDensity(CASES[case][0]), theta_of(case) + 0.07
    value, gradient = density.value_and_gradient(theta)

    def central(k, h):
        step = h * np.eye(len(theta))[k]
        return (density(theta + step) - density(theta - step)) / (2.0 * h)

    numerical = [(4.0 * central(k, 1e-3) - central(k, 2e-3)) / 3.0 for k in range(len(theta))]
    assert value == density(theta)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-6, atol=1e-6)
    assert density.n_gradients == 1


@each
def test_values_do_not_depend_on_what_was_asked_before(case):
    model, rng = CASES[case][0], np.random.default_rng(1)
    density = RegressionDensity(model)
    for _ in range(15):  # one coordinate at a time, as in slice sampling: E is kept or made again
        theta = theta_of(case)
        theta[rng.integers(model.dim)] += 0.2 * rng.standard_normal()
        fresh, again = density.fresh(), pickle.loads(pickle.dumps(density))
        assert density(theta) == fresh(theta) == again(theta)
        ours, theirs = density.value_and_gradient(theta)[1], fresh.value_and_gradient(theta)[1]
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("case", "kept"), [("two constants, free, jitter", 4), ("known noise, a free mean", 2)]
)
def test_no_covariance_is_made_while_only_scales_and_mean_move(case, kept, monkeypatch):
    work, full = MarginalLikelihood(CASES[case][0]), CASES[case][0].full(theta_of(case))
    fill, made = work._buffers.fill, []
    monkeypatch.setattr(work._buffers, "fill", lambda *given: made.append(0) or fill(*given))
    work.value(full)
    for place in work.model.free:
        work.value(full + 0.1 * (np.arange(len(full)) == place))
        work.value(full)
    assert len(made) == 1 + 2 * (work.model.dim - kept)


@pytest.mark.parametrize("case", ["one length scale", "ard", "product plus a constant"])
@pytest.mark.parametrize("mean", [0.0, 0.8])
def test_scale_statistics_give_the_likelihood_at_any_scale(case, mean):
    model, values, C, _ = CASES[case]
    model = GPModel(X, Y, model.covariance, model.likelihood, mean=mean, jitter=0.0)
    *_, s, e = (
        values if case != "product plus a constant" else (*values[:1], *values[2:3], 1.3, 0.3)
    )
    density, c2 = RegressionDensity(model), 0.0 if case == "ard" else 100.0
    statistics = density.scale_statistics(np.log(e / s), theta_of(case) + 0.0)
    k = c2 / s**2
    log_det = N * np.log(s**2) + statistics.log_det + np.log1p(k * statistics.ones)
    squares = statistics.squares - k * statistics.cross**2 / (1.0 + k * statistics.ones)
    dense, r = C(*values), Y - mean
    assert log_det == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-7)
    assert squares / s**2 == pytest.approx(r @ np.linalg.solve(dense, r), rel=1e-8)
    assert density.n_calls == 1


def test_simulated_responses_and_latents_have_their_covariances():
    model, values, C, c = CASES["fixed amplitude and mean"]
    small, rng = model.take(np.arange(3)), np.random.default_rng(0)
    theta, density = np.log(values), RegressionDensity(small)
    y = np.stack([density.draw_responses(rng, theta) for _ in range(20_000)])
    want = C(*values)[:3, :3]
    np.testing.assert_allclose(np.cov(y.T), want, rtol=0.03)
    assert np.abs((y.mean(0) - c) / np.sqrt(np.diag(want) / 20_000)).max() < 4.0
    collapsed = CollapsedDensity(small)
    f = np.stack([collapsed.draw_latents(rng, theta)[0] for _ in range(20_000)])
    noise = 0.3**2 * np.eye(3)
    gain = (want - noise) @ np.linalg.inv(want)
    error = np.sqrt(np.diag(noise @ gain.T) / 20_000)
    assert np.abs((f.mean(0) - gain @ (Y[:3] - c)) / error).max() < 4.0
    np.testing.assert_allclose(np.cov(f.T), gain @ noise, atol=0.05 * 0.09)


def test_what_cannot_be_factorised_is_minus_infinity_and_counted():
    smooth = GPModel(
        np.linspace(0.0, 1.0, 30), np.ones(30), SquaredExponential(), Gaussian(), jitter=0.0
    )
    density, bad = RegressionDensity(smooth), np.array([2.0, 3.0, -25.0])  # no noise to speak of
    assert density(bad) == -np.inf
    for far in ([0.0, 1e3, 0.0], [np.nan, 0.0, 0.0], [0.0, 0.0, -np.inf]):
        assert density(np.array(far)) == -np.inf
    assert density.n_failed == 4
    assert np.isfinite(density(np.zeros(3)))
    value, gradient = density.value_and_gradient(np.array([400.0, 0.0, 0.0]))
    assert value == -np.inf
    assert not gradient.any()
    assert density.scale_statistics(-28.0, bad) is None
    assert density.n_failed == 6
    with pytest.raises(NumericalError, match="not positive definite"):
        density.draw_responses(np.random.default_rng(0), bad)


def test_only_gaussian_noise_can_be_integrated_out():
    probit = GPModel(X, np.sign(Y), SquaredExponential(), Probit())
    with pytest.raises(
        InputError, match=r"RegressionDensity: the probit likelihood; allowed: gaussian"
    ):
        RegressionDensity(probit)
    with pytest.raises(InputError, match="RegressionDensity: found int; allowed: a GPModel"):
        RegressionDensity(3)


def test_densities_are_told_apart():
    models = [CASES[case][0] for case in CASES] + [CASES["ard"][0].with_y(Y + 1.0)]
    assert len({RegressionDensity(model).digest() for model in models}) == len(models)


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
