from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.density.univariate_slice import SliceSweep

NAMES = ("a", "b", "c")
SWEEP = SliceSweep((1.0, 1.2, 0.8), max_steps=3)


def gaussian(mean=0.0, precision=1.0, seen=None) -> FunctionDensity:
    def log_density(theta):
        if seen is not None:
            seen.append(theta.tobytes())
        return -0.5 * precision * float((theta - mean) @ (theta - mean))

    return FunctionDensity(log_density, NAMES)


def run(sampler, densities, n=200, seed=0, skip=False):
    rng, states, infos = np.random.default_rng(seed), [], []
    state = sampler.init(densities, np.array([0.1, 0.2, -0.1]))
    for _ in range(n):
        if skip:
            rng.random()
        state, info = sampler.step(rng, densities, state)
        states.append(state)
        infos.append(info)
    return states, infos


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_one_exact_evaluation_per_iteration_and_none_twice(n_layers):
    seen = [[] for _ in range(n_layers + 1)]
    densities = [gaussian(0.2 * k, 0.8**k, seen[k]) for k in range(n_layers + 1)]
    states, infos = run(TemperedTransitions((SWEEP,)), densities, n=100)
    assert densities[0].n_calls == 1 + 100
    for asked in seen:
        assert len(set(asked)) == len(asked)
    assert 0.2 < np.mean([info.accepted for info in infos]) < 1.0
    for state in states:
        assert state.values == (densities[0](state.position), densities[1](state.position))


def test_perfect_layers_are_always_accepted():
    _, infos = run(TemperedTransitions((SWEEP,), (2, 1)), [gaussian()] * 3)
    assert min(info.acceptance_rate for info in infos) > 1.0 - 1e-12
    assert all(info.accepted for info in infos)


@pytest.mark.parametrize("k", [1, 2])
def test_same_trajectory_as_a_discretizing_chain(k):
    """With reversible R: a chain with s = 2 k is tempered transitions of one layer with R^k, bit for bit."""
    palindrome = SliceSweep(SWEEP.widths, 3, coordinates=(0, 1, 2, 2, 1, 0))
    densities = [gaussian(), gaussian(0.3, 0.6)]
    chain, _ = run(DiscretizingChain(palindrome, r=1, s=2 * k), densities, n=100)
    tempered, infos = run(TemperedTransitions((palindrome,), (k,)), densities, n=100, skip=True)
    assert [s.values for s in chain] == [s.values for s in tempered]
    np.testing.assert_array_equal([s.position for s in chain], [s.position for s in tempered])
    assert 10 < sum(info.accepted for info in infos) < 100


def test_way_back_is_the_exact_reverse():
    moves = []

    class Recording:
        def __init__(self, name):
            self.name = name

        def forward(self, rng, density, position, value):
            moves.append(f"{self.name}+")
            return position + 0.01, density(position + 0.01)

        def backward(self, rng, density, position, value):
            moves.append(f"{self.name}-")
            return position + 0.01, density(position + 0.01)

    sampler = TemperedTransitions((Recording("A"), Recording("B")), (2, 1))
    densities = [gaussian(0.1 * k) for k in range(3)]
    state = sampler.init(densities, np.zeros(3))
    _, info = sampler.step(np.random.default_rng(0), densities, state)
    assert moves == ["A+", "A+", "B+", "B-", "A-", "A-"]
    x = [np.full(3, 0.01 * k) for k in range(7)]
    p = [density.evaluate for density in densities]
    ratio = p[1](x[0]) - p[0](x[0]) + p[2](x[2]) - p[1](x[2])
    ratio += p[1](x[4]) - p[2](x[4]) + p[0](x[6]) - p[1](x[6])
    assert info.acceptance_rate == pytest.approx(np.exp(min(ratio, 0.0)), rel=1e-12)


def test_a_layer_that_fails_on_the_way_is_a_rejection():
    hole = FunctionDensity(lambda t: -0.5 * float(t @ t) if t[0] < 0.5 else -np.inf, NAMES)
    states, infos = run(TemperedTransitions((SWEEP,)), [hole, gaussian(), gaussian(0.0, 0.5)])
    assert max(s.position[0] for s in states) < 0.5
    assert 10 < sum(info.diverging for info in infos) < 190
    middle = [gaussian(), hole, gaussian(0.0, 0.5)]
    states, infos = run(TemperedTransitions((SWEEP,)), middle)
    assert any(info.diverging for info in infos)
    assert all(np.isfinite(s.values).all() for s in states)


def test_bad_settings_and_starts():
    with pytest.raises(InputError, match="repeats is 0"):
        TemperedTransitions((SWEEP,), (0,))
    with pytest.raises(InputError, match="transitions is empty"):
        TemperedTransitions(())
    with pytest.raises(InputError, match="3 repeats for 2 layers"):
        TemperedTransitions((SWEEP,), (1, 1, 1)).init([gaussian()] * 3, np.zeros(3))
    hole = FunctionDensity(lambda t: -np.inf, NAMES)
    with pytest.raises(NumericalError, match="approximation 2"):
        TemperedTransitions((SWEEP,)).init([gaussian(), gaussian(), hole], np.zeros(3))
    with pytest.raises(InputError, match="found 1 densities"):
        TemperedTransitions((SWEEP,)).init([gaussian()], np.zeros(3))
