from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain, IndependentDraws
from gpmcflow.samplers.density.univariate_slice import SliceSweep

SWEEP = SliceSweep((1.0, 1.0))


def gaussian(mean=0.0, precision=1.0, seen=None) -> FunctionDensity:
    def log_density(theta):
        if seen is not None:
            seen.append(theta.tobytes())
        return -0.5 * precision * float((theta - mean) @ (theta - mean))

    return FunctionDensity(log_density, ("a", "b"))


def run(sampler, densities, n=200, start=(0.1, 0.2), seed=0):
    rng, states, infos = np.random.default_rng(seed), [], []
    state = sampler.init(densities, np.array(start))
    for _ in range(n):
        state, info = sampler.step(rng, densities, state)
        states.append(state)
        infos.append(info)
    return states, infos


def test_one_exact_evaluation_per_iteration_and_none_twice():
    seen, fast_seen = [], []
    exact, fast = gaussian(seen=seen), gaussian(0.3, 0.7, seen=fast_seen)
    states, infos = run(DiscretizingChain(SWEEP), [exact, fast])
    assert exact.n_calls == 1 + 200
    assert len(set(seen)) == len(seen)
    assert len(set(fast_seen)) == len(fast_seen)
    assert fast.n_calls >= 1 + 2 * 200
    assert 0.5 < np.mean([info.acceptance_rate for info in infos]) < 1.0
    for state in states:
        assert state.values == (exact(state.position), fast(state.position))


@pytest.mark.parametrize(("r", "s"), [(1, 1), (4, 2), (8, 1)])
def test_a_perfect_stand_in_is_always_accepted(r, s):
    exact = gaussian()
    _, infos = run(DiscretizingChain(SWEEP, r, s), [exact, gaussian()])
    assert all(info.acceptance_rate == 1.0 for info in infos)
    # marks that are visited again are not paid for again
    assert exact.n_calls == 201 if r == 1 else 201 < exact.n_calls < 1 + 200 * r


def test_the_chain_is_extended_lazily_and_never_simulated_again():
    moves = []

    class Counting:
        def forward(self, rng, density, position, value):
            moves.append(1)
            return position + 1.0, 0.0

        def backward(self, rng, density, position, value):
            moves.append(-1)
            return position - 1.0, 0.0

    marks = []  # where the exact density is asked for

    def log_density(theta):
        marks.append(float(theta[0]))
        return 0.0

    flat = FunctionDensity(log_density, ("a",))
    sampler = DiscretizingChain(Counting(), r=40, s=3)
    state = sampler.init([flat, flat], np.zeros(1))
    marks.clear()
    after, _ = sampler.step(np.random.default_rng(1), [flat, flat], state)
    low, high = min(*marks, 0.0), max(*marks, 0.0)
    assert sorted({*marks, 0.0}) == np.arange(low, high + 1, 3).tolist()
    assert len(set(marks)) == len(marks)  # never twice
    assert 0.0 not in marks
    assert (moves.count(1), moves.count(-1)) == (high, -low)
    assert after.position[0] in {*marks, 0.0}


def test_a_proposal_without_density_is_rejected_and_flagged():
    exact = FunctionDensity(lambda t: -0.5 * float(t @ t) if t[0] < 0.5 else -np.inf, ("a", "b"))
    states, infos = run(DiscretizingChain(SWEEP), [exact, gaussian()])
    assert max(state.position[0] for state in states) < 0.5
    assert 5 < sum(info.diverging for info in infos) < 120
    assert exact.n_failed == sum(info.diverging for info in infos)


def test_independent_draws_cost_one_exact_evaluation():
    exact = gaussian()
    student = FittedStudent(np.zeros(2), np.eye(2), 6.0, ("a", "b"))
    states, infos = run(DiscretizingChain(IndependentDraws()), [exact, student], n=3000)
    assert exact.n_calls == 3001
    assert student.n_calls == 3001
    draws = np.array([state.position for state in states])
    np.testing.assert_allclose(np.cov(draws.T), np.eye(2), atol=0.12)
    assert np.mean([info.acceptance_rate for info in infos]) > 0.8


def test_bad_settings_and_starts():
    with pytest.raises(InputError, match="DiscretizingChain: r is 0"):
        DiscretizingChain(SWEEP, r=0)
    with pytest.raises(InputError, match=r"s is 1\.5"):
        DiscretizingChain(SWEEP, s=1.5)
    hole = FunctionDensity(lambda t: -np.inf, ("a", "b"))
    with pytest.raises(NumericalError, match=r"approximation 1 .*-inf"):
        DiscretizingChain(SWEEP).init([gaussian(), hole], np.zeros(2))
    with pytest.raises(InputError, match="found 1 densities; allowed: 2"):
        DiscretizingChain(SWEEP).init([gaussian()], np.zeros(2))
    other = FunctionDensity(lambda t: 0.0, ("b", "a"))
    with pytest.raises(InputError, match="has coordinates"):
        DiscretizingChain(SWEEP).init([gaussian(), other], np.zeros(2))
