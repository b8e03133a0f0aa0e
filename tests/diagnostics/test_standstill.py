"""Chains that stand still: those that do, by construction, and those that chance explains."""

from __future__ import annotations

import numpy as np

from gpmcflow.diagnostics.convergence import longest_stands


def chains(rng, acceptance, shape):
    """Chains (chain, draw) that move to new values with a fixed probability."""
    kept = np.maximum.accumulate(
        np.where(rng.random(shape) < acceptance, np.arange(shape[1]), 0), axis=1
    )
    return np.take_along_axis(rng.standard_normal(shape), kept, axis=1)


def test_a_stand_of_a_quarter_of_the_draws_is_found_wherever_it_is():
    rng = np.random.default_rng(0)
    for acceptance in (0.5, 0.8, 1.0):
        for first in (0, 40, 110):
            draws = chains(rng, acceptance, (4, 150))
            draws[2, first : first + 40] = draws[2, first]
            found = longest_stands(draws)
            assert (found > 0).tolist() == [False, False, True, False], (acceptance, first)
            assert 39 <= found[2] <= 39 + 15, (acceptance, first)
    draws = rng.standard_normal((2, 150, 3))
    draws[1, 75:, :2] = 0.0  # one coordinate still moves
    assert longest_stands(draws).tolist() == [0, 0]
    draws[1, 75:] = 0.0
    assert longest_stands(draws).tolist() == [0, 74]


def test_no_stand_where_chance_explains_it():
    """Of 4 x 500 chains, of which most that accept 5 % stand for a quarter of 40 draws."""
    rng = np.random.default_rng(1)
    for acceptance, n_draws in ((0.05, 40), (0.2, 40), (0.9, 8), (0.05, 150)):
        found = [longest_stands(chains(rng, acceptance, (4, n_draws))).any() for _ in range(500)]
        assert np.mean(found) <= 0.01, (acceptance, n_draws)
    assert longest_stands(np.zeros((2, 50))).tolist() == [0, 0]  # never moved: no share to go by
    assert longest_stands(np.zeros((2, 1))).tolist() == [0, 0]
