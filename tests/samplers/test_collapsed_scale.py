from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from gpmcflow.approximations.stand_ins import SubsetOfData
from gpmcflow.covariances.leaves import Constant, Linear, Matern32, SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter
from gpmcflow.samplers.density import collapsed_scale
from gpmcflow.samplers.density.collapsed_scale import CollapsedDensity, CollapsedScale
from gpmcflow.samplers.density.univariate_slice import SliceSweep


def normal(loc, scale) -> Hyperprior:
    return Hyperprior("norm", {"loc": loc, "scale": scale})


def build(n=8, constant=2.0, prior_sd=(0.7, 0.9, 0.5), mean=0.0, jitter=0.0) -> GPModel:
    rng, (eta, sigma, length) = np.random.default_rng(n), prior_sd
    covariance = SquaredExponential(normal(-1.35, length), normal(0.3, eta))
    if constant:
        covariance = Constant(constant) + covariance
    likelihood = Gaussian(normal(-0.5, sigma))
    model = GPModel(rng.random(n), np.zeros(n), covariance, likelihood, mean=mean, jitter=jitter)
    return model.with_y(RegressionDensity(model).draw_responses(rng, np.array([-1.35, 0.4, -0.8])))


# theta is (log l, log eta, log sigma), what is left of it (g, log l)
CASES = [
    build(),
    build(2),
    build(40, 2.0, mean=0.7),
    build(40, 0.0),
    build(5, 10.0),
    build(60, 10.0, (3.0, 2.0, 1.0)),
    build(8, 10.0, jitter=0.1),  # a share of what stands beside the constant
    build(8, 10.0, jitter=None),
]


def theta_at(u, reduced) -> np.ndarray:
    return np.array([reduced[1], u, u + reduced[0]])


@pytest.mark.parametrize("model", CASES)
def test_marginal_is_the_integral_of_the_exact_density(model):
    exact = RegressionDensity(model)
    marginal = CollapsedDensity(exact)
    for reduced in (np.array([-1.2, -1.35]), np.array([0.6, -0.65]), np.array([-2.5, 0.05])):
        found = marginal(reduced)

        def joint(u, reduced=reduced):
            return exact(theta_at(u, reduced))

        grid = np.linspace(-8, 8, 321)
        top = max(joint(u) for u in grid)
        mode = grid[np.argmax([joint(u) for u in grid])]
        value = quad(
            lambda u, top=top: np.exp(joint(u) - top), -12, 12, points=[mode - 1, mode, mode + 1],
            limit=300, epsabs=0.0, epsrel=1e-9,
        )[0]  # fmt: skip
        assert found == pytest.approx(top + np.log(value), abs=1e-6)


@pytest.mark.parametrize("model", CASES)
def test_scale_is_drawn_exactly(model):
    rng, exact = np.random.default_rng(1), RegressionDensity(model)
    marginal, reduced = CollapsedDensity(exact), np.array([-1.2, -1.25])
    total = marginal(reduced)
    draws = [marginal.draw_scale(rng, reduced) for _ in range(4000)]
    u, values = np.array(draws).T
    assert values[7] == pytest.approx(exact(theta_at(u[7], reduced)), abs=1e-6)
    grid = np.linspace(u.min() - 3.0, u.max() + 3.0, 2001)
    density = np.exp([exact(theta_at(x, reduced)) - total for x in grid])
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cumulative *= grid[1] - grid[0]
    assert cumulative[-1] == pytest.approx(1.0, abs=1e-3)
    assert kstest(np.interp(u, grid, cumulative / cumulative[-1]), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("model", CASES)
def test_rejection_corrects_a_coarse_grid(model):
    """Cells of about a standard deviation: the envelope is far above the density in most of them."""
    rng, marginal = np.random.default_rng(2), CollapsedDensity(RegressionDensity(model))
    arguments = marginal._arguments(np.array([-1.2, -1.25]))
    fine, values, total = collapsed_scale.scale_grid(*arguments)
    draw = collapsed_scale.draw_from_envelope
    u = np.array([draw(rng, fine[::10], values[::10], arguments) for _ in range(6000)])
    grid = np.linspace(fine[0], fine[-1], 4001)
    density = np.exp([collapsed_scale.scale_log_density(x, *arguments) - total for x in grid])
    cumulative = np.cumsum(density) * (grid[1] - grid[0])
    assert kstest(np.interp(u, grid, cumulative), "uniform").pvalue > 1e-3


def test_a_step_carries_what_it_knows_and_counts_factorisations():
    model = CASES[0]
    exact, sampler = RegressionDensity(model), CollapsedScale(SliceSweep((1.5, 1.0)))
    rng, state = np.random.default_rng(0), sampler.init([exact], np.array([-1.35, 0.4, -0.8]))
    for _ in range(30):
        exact.reset()
        state, info = sampler.step(rng, [exact], state)
        assert 2 <= exact.n_calls <= 12
        assert state.values[0] == pytest.approx(exact(state.position), abs=1e-7)
        marginal = CollapsedDensity(exact)
        again = marginal(marginal.reduce(state.position))  # g after a round trip through theta
        assert state.values[1] == pytest.approx(again, abs=1e-9)
        assert info.accepted


def test_an_envelope_that_is_too_low_is_an_error(monkeypatch):
    model = CASES[0]
    marginal, reduced = CollapsedDensity(RegressionDensity(model)), np.array([-1.2, -1.25])
    arguments = marginal._arguments(reduced)
    grid, values, _ = collapsed_scale.scale_grid(*arguments)
    draw, rng = collapsed_scale.draw_from_envelope, np.random.default_rng(0)
    with pytest.raises(ArithmeticError, match="envelope exceeded"):
        draw(rng, grid, values - 3.0, arguments)


def test_what_is_left_is_in_the_order_of_theta():
    covariance = SquaredExponential(normal(0, 1), normal(0, 1), ard=True) + Constant(normal(0, 1))
    model = GPModel(np.random.default_rng(0).random((6, 2)), np.ones(6), covariance,
                    Gaussian(normal(0, 1)), mean=normal(0, 1), jitter=0.0)  # fmt: skip
    exact = RegressionDensity(model)
    marginal, theta = CollapsedDensity(exact), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert marginal.names == ("log_ratio", *(exact.names[k] for k in (0, 1, 3, 4)))
    np.testing.assert_allclose(marginal.reduce(theta), [0.3, 0.1, 0.2, 0.4, 0.5])
    np.testing.assert_allclose(marginal.expand(0.3, marginal.reduce(theta)), theta)
    u, value = marginal.draw_scale(np.random.default_rng(1), marginal.reduce(theta))
    assert value == pytest.approx(exact(marginal.expand(u, marginal.reduce(theta))), abs=1e-8)


def test_what_it_cannot_collapse():
    model, sampler = CASES[0], CollapsedScale(SliceSweep((1.0, 1.0)))
    with pytest.raises(InputError, match="found SubsetOfData"):
        sampler.init([SubsetOfData(model, [0, 1, 2])], np.zeros(3))
    free, smooth = normal(0, 1), SquaredExponential(normal(0, 1), normal(0, 1))
    shared = Parameter("s", free)
    for covariance, noise, message in (
        (smooth, np.full(8, 0.3), "no free noise level of its own"),
        (smooth, 0.3, "no free noise level of its own"),
        (SquaredExponential(free, shared), shared, "no free noise level of its own"),
        (SquaredExponential(shared, free), shared, "no free noise level of its own"),
        (smooth + Linear(free), free, "no free amplitude multiplies"),
        (Matern32(free, 1.0), free, "no free amplitude multiplies"),
        (smooth, Hyperprior.log_uniform(0.1, 1.0), "is not normal on the log"),
        (
            SquaredExponential(free, Hyperprior("norm", {"loc": 2.0}, scale="natural")),
            free, "is not normal on the log",
        ),
    ):  # fmt: skip
        other = GPModel(model.X, model.y, covariance, Gaussian(noise), jitter=0.0)
        with pytest.raises(InputError, match=message) as error:
            sampler.init([RegressionDensity(other)], np.zeros(other.dim))
        assert "\n" not in str(error.value)
    wrong, exact = CollapsedScale(SliceSweep((1.0, 1.0, 1.0))), RegressionDensity(model)
    state = wrong.init([exact], np.zeros(3))
    with pytest.raises(InputError, match="3 widths for 2 coordinates"):
        wrong.step(np.random.default_rng(0), [exact], state)
