from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from gpmcflow.approximations.subset_of_data import SubsetOfData
from gpmcflow.errors import InputError
from gpmcflow.models.gp_regression import GPRegression
from gpmcflow.samplers import collapsed_scale
from gpmcflow.samplers.collapsed_scale import CollapsedDensity, CollapsedScale
from gpmcflow.samplers.univariate_slice import SliceSweep


def build(n=8, constant=2.0, prior_sd=(0.7, 0.9, 0.5)) -> GPRegression:
    rng = np.random.default_rng(n)
    model = GPRegression(
        rng.random(n), np.zeros(n), constant=constant,
        prior_mean=np.array([0.3, -0.5, -1.0]), prior_sd=np.array(prior_sd),
    )  # fmt: skip
    return model.with_y(model.simulate(rng, np.array([0.4, -0.8, -1.0])))


CASES = [
    build(),
    build(2),
    build(40),
    build(40, 0.0),
    build(5, 10.0),
    build(60, 10.0, (3.0, 2.0, 1.0)),
]


@pytest.mark.parametrize("model", CASES)
def test_marginal_is_the_integral_of_the_exact_density(model):
    exact = model.log_density()
    marginal = CollapsedDensity(exact)
    for reduced in (np.array([-1.2, -1.0]), np.array([0.6, -0.3]), np.array([-2.5, 0.4])):
        found = marginal(reduced)

        def joint(u, g=reduced[0], rho=reduced[1]):
            return exact(np.array([u, u + g, rho]))

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
    rng, exact = np.random.default_rng(1), model.log_density()
    marginal, reduced = CollapsedDensity(exact), np.array([-1.2, -0.9])
    total = marginal(reduced)
    draws = [marginal.draw_scale(rng, reduced) for _ in range(4000)]
    u, values = np.array(draws).T
    theta = np.array([u[7], u[7] + reduced[0], reduced[1]])
    assert values[7] == pytest.approx(exact(theta), abs=1e-6)
    grid = np.linspace(u.min() - 3.0, u.max() + 3.0, 2001)
    density = np.exp([exact(np.array([x, x + reduced[0], reduced[1]])) - total for x in grid])
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cumulative *= grid[1] - grid[0]
    assert cumulative[-1] == pytest.approx(1.0, abs=1e-3)
    assert kstest(np.interp(u, grid, cumulative / cumulative[-1]), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("model", CASES)
def test_rejection_corrects_a_coarse_grid(model):
    """Cells of about a standard deviation: the envelope is far above the density in most of them."""
    rng, marginal = np.random.default_rng(2), CollapsedDensity(model.log_density())
    arguments = marginal._arguments(marginal._statistics(np.array([-1.2, -0.9])), -1.2)
    fine, values, total = collapsed_scale.scale_grid(*arguments)
    draw = collapsed_scale.draw_from_envelope
    u = np.array([draw(rng, fine[::10], values[::10], arguments) for _ in range(6000)])
    grid = np.linspace(fine[0], fine[-1], 4001)
    density = np.exp([collapsed_scale.scale_log_density(x, *arguments) - total for x in grid])
    cumulative = np.cumsum(density) * (grid[1] - grid[0])
    assert kstest(np.interp(u, grid, cumulative), "uniform").pvalue > 1e-3


def test_a_step_carries_what_it_knows_and_counts_factorisations():
    model = CASES[0]
    exact, sampler = model.log_density(), CollapsedScale(SliceSweep((1.5, 1.0)))
    rng, state = np.random.default_rng(0), sampler.init([exact], np.array([0.4, -0.8, -1.0]))
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
    marginal, reduced = CollapsedDensity(model.log_density()), np.array([-1.2, -0.9])
    arguments = marginal._arguments(marginal._statistics(reduced), reduced[0])
    grid, values, _ = collapsed_scale.scale_grid(*arguments)
    draw, rng = collapsed_scale.draw_from_envelope, np.random.default_rng(0)
    with pytest.raises(ArithmeticError, match="envelope exceeded"):
        draw(rng, grid, values - 3.0, arguments)


def test_what_it_cannot_collapse():
    model, sampler = CASES[0], CollapsedScale(SliceSweep((1.0, 1.0)))
    with pytest.raises(InputError, match="found SubsetOfData"):
        sampler.init([SubsetOfData(model, [0, 1, 2])], np.zeros(3))
    given = GPRegression(model.X, model.y, noise_variances=np.full(8, 0.1)).log_density()
    with pytest.raises(InputError, match="one noise level"):
        sampler.init([given], np.zeros(2))
    wrong, exact = CollapsedScale(SliceSweep((1.0, 1.0, 1.0))), model.log_density()
    state = wrong.init([exact], np.zeros(3))
    with pytest.raises(InputError, match="3 widths for 2 coordinates"):
        wrong.step(np.random.default_rng(0), [exact], state)
