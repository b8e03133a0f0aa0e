from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.samplers.density.univariate_slice import (
    SliceSweep,
    UnivariateSlice,
    slice_coordinate,
    slice_on_line,
)


def normal(x: float) -> float:
    return -0.5 * x * x


def mixture(x: float) -> float:
    return float(np.logaddexp(normal(x + 1.5), normal((x - 1.5) / 0.6) - np.log(0.6)))


def exact_draws(rng, density, n):
    if density is normal:
        return rng.standard_normal(n)
    first = rng.random(n) < 0.5
    z = rng.standard_normal(n)
    return np.where(first, z - 1.5, 0.6 * z + 1.5)


def asymmetry(before, after, edges) -> float:
    """p-value of symmetric counts of (bin before, bin after)."""
    counts = np.zeros((len(edges) + 1,) * 2)
    np.add.at(counts, (np.digitize(before, edges), np.digitize(after, edges)), 1.0)
    upper = np.triu_indices(len(counts), 1)
    a, b = counts[upper], counts.T[upper]
    seen = a + b > 10
    return float(chi2.sf(((a - b) ** 2 / (a + b + 1e-300))[seen].sum(), seen.sum()))


@pytest.mark.parametrize("max_steps", [1, 3, 10])
@pytest.mark.parametrize("density", [normal, mixture])
def test_detailed_balance(density, max_steps):
    rng = np.random.default_rng(max_steps)
    before = exact_draws(rng, density, 20_000)
    after = np.array(
        [slice_on_line(rng, density, x, density(x), 0.9, max_steps)[0] for x in before]
    )
    edges = np.quantile(before, np.linspace(0, 1, 9)[1:-1])
    assert asymmetry(before, after, edges) > 1e-3
    assert np.abs(after - before).max() > 0.7


def test_a_slice_that_takes_the_first_draw_is_found_out():
    """The same check on a sampler that never shrinks: uniform steps without a level."""
    rng = np.random.default_rng(0)
    before = exact_draws(rng, normal, 20_000)
    after = before * 0.9 + 0.4 * rng.standard_normal(20_000)
    after += 0.05  # a drift that keeps nothing balanced
    assert asymmetry(before, after, np.linspace(-1.5, 1.5, 7)) < 1e-3


@pytest.mark.parametrize("max_steps", [1, 4])
def test_a_support_is_respected_and_kept(max_steps):
    """A normal on [-0.5, 1]: exact draws stay exact draws, and nothing outside is evaluated."""
    rng, asked = np.random.default_rng(2), []

    def log_density(x):
        asked.append(x)
        return normal(x)

    low, high = norm.cdf([-0.5, 1.0])
    before = norm.ppf(low + (high - low) * rng.random(20_000))
    after = before
    for _ in range(3):
        after = np.array(
            [
                slice_on_line(rng, log_density, x, normal(x), 0.8, max_steps, (-0.5, 1.0))[0]
                for x in after
            ]
        )
    assert min(asked) >= -0.5
    assert max(asked) <= 1.0
    uniform = (norm.cdf(after) - low) / (high - low)
    counts = np.histogram(uniform, bins=20, range=(0, 1))[0]
    assert chi2.sf(((counts - 1000.0) ** 2 / 1000.0).sum(), 19) > 1e-3


def test_the_last_value_asked_for_is_the_one_returned():
    rng, asked = np.random.default_rng(3), []

    def log_density(x):
        asked.append(x)
        return normal(x)

    for _ in range(200):
        x, value = slice_on_line(rng, log_density, 0.3, normal(0.3), 2.0, 5)
        assert (x, value) == (asked[-1], normal(asked[-1]))
    assert len(set(asked)) == len(asked)


def test_each_failure_becomes_the_end_on_its_side_of_the_point():
    rng, x, asked = np.random.default_rng(7), 0.8, []

    def narrow(t):
        asked.append(t)
        return mixture(4.0 * t)

    lengths = []
    for _ in range(500):
        asked.clear()
        slice_on_line(rng, narrow, x, mixture(4.0 * x), 3.0)
        left, right = x - 3.0, x + 3.0
        for t in asked:
            assert left < t < right
            left, right = (t, right) if t < x else (left, t)
        lengths.append(len(asked))
    assert max(lengths) > 5


def test_no_evaluation_of_an_end_without_budget():
    density = FunctionDensity(lambda t: -1e-9 * float(t @ t), ("a",))  # flat: first draw is taken
    rng, position = np.random.default_rng(0), np.array([0.2])
    for _ in range(50):
        slice_coordinate(rng, density, position, density.evaluate(position), 0, 1.0, 1)
    assert density.n_calls == 50
    density.reset()
    for _ in range(50):  # M = 4: three steps out at most, all taken, and the draw
        slice_coordinate(rng, density, position, density.evaluate(position), 0, 1.0, 4)
    assert density.n_calls == 50 * 4


def test_a_point_that_cannot_be_left_stays():
    calls = []

    def spike(x):
        calls.append(x)
        return -np.inf

    assert slice_on_line(np.random.default_rng(0), spike, 0.25, 0.0, 1.0) == (0.25, 0.0)
    assert len(calls) == 200


def test_backward_is_the_opposite_order_and_nothing_else():
    sweep = SliceSweep((0.5, 0.6, 0.7), coordinates=(0, 1, 0, 2), repeats=2)
    seen = []
    for move in (sweep.forward, sweep.backward):
        rng, position, order = np.random.default_rng(1), np.zeros(3), []

        def density(theta, order=order):
            order.append(theta.copy())
            return 0.0

        move(rng, density, position, 0.0)
        path = np.array([position, *order])
        seen.append([int(np.flatnonzero(step)[0]) for step in np.diff(path, axis=0)])
    assert seen[0] == [0, 1, 0, 2, 0, 1, 0, 2]
    assert seen[1] == seen[0][::-1]


def test_directions_follow_a_ridge():
    """Correlation 0.98: along the principal axes draws are nearly independent, along coordinates not."""
    precision = np.linalg.inv([[1.0, 0.98], [0.98, 1.0]])
    density = FunctionDensity(lambda t: -0.5 * float(t @ precision @ t), ("a", "b"))
    axes = ((0.995**0.5, 0.995**0.5), (0.1, -0.1))
    lag_one = []
    for directions, widths in ((None, (1.0, 1.0)), (axes, (3.0, 3.0))):
        sweep, rng = SliceSweep(widths, directions=directions), np.random.default_rng(0)
        position, value = np.zeros(2), 0.0
        path = np.empty((4000, 2))
        for t in range(4000):
            position, value = sweep.forward(rng, density, position, value)
            path[t] = position
            assert value == density(position)
        lag_one.append(np.corrcoef(path[1:, 0], path[:-1, 0])[0, 1])
    np.testing.assert_allclose(np.cov(path.T), [[1.0, 0.98], [0.98, 1.0]], atol=0.12)
    assert lag_one[1] < 0.7 < 0.9 < lag_one[0]
    for wrong in (((1.0, 0.0), (2.0, 0.0)), ((1.0, 0.0),)):
        with pytest.raises(InputError, match="2 independent vectors"):
            SliceSweep((1.0, 1.0), directions=wrong)


def test_sweep_keeps_its_input_and_knows_its_value():
    density = FunctionDensity(lambda t: -0.5 * float(t @ t), ("a", "b"))
    position = np.array([0.1, -0.4])
    sweep = SliceSweep((1.0, 1.0), max_steps=3)
    moved, value = sweep.forward(np.random.default_rng(0), density, position, density(position))
    assert position.tolist() == [0.1, -0.4]
    assert value == density(moved)
    assert not np.array_equal(moved, position)


def test_bad_settings():
    with pytest.raises(InputError, match=r"SliceSweep: widths is .*allowed: a positive number"):
        SliceSweep((1.0, 0.0))
    with pytest.raises(InputError, match="max_steps is 0"):
        SliceSweep((1.0,), max_steps=0)
    with pytest.raises(InputError, match="numbers from 0 to 1"):
        SliceSweep((1.0, 1.0), coordinates=(0, 2))
    density = FunctionDensity(lambda t: -np.inf, ("a",))
    with pytest.raises(NumericalError, match="the exact density"):
        UnivariateSlice(SliceSweep((1.0,))).init([density], np.zeros(1))
    fine = FunctionDensity(lambda t: 0.0, ("a",))
    with pytest.raises(InputError, match="found 2 densities; allowed: 1"):
        UnivariateSlice(SliceSweep((1.0,))).init([fine, fine], np.zeros(1))
    with pytest.raises(InputError, match="2 widths for 1 coordinates"):
        SliceSweep((1.0, 1.0)).forward(np.random.default_rng(0), fine, np.zeros(1), 0.0)
