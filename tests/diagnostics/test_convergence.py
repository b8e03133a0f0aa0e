"""Share of correct and of wrong runs whose R-hat is above its limit."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.signal import lfilter

from gpmcflow.diagnostics.convergence import rhat_limit


def chains(rng, rho, shape):
    """Stationary AR(1) chains (..., draw)."""
    noise = np.sqrt(1.0 - rho**2) * rng.standard_normal(shape)
    noise[..., 0] /= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=-1)


def rhat(draws):
    return float(array_stats.rhat(draws, chain_axis=0, draw_axis=1))


@pytest.mark.parametrize(("rho", "n_draws"), [(0.0, 150), (0.6, 150), (0.5, 400), (-0.6, 150)])
def test_correct_runs_hardly_ever_exceed_it_and_wrong_ones_do(rho, n_draws):
    """At 1.01 three of four of these runs ring; with S of the bulk alone one of four where chains swing."""
    runs = chains(np.random.default_rng(2), rho, (200, 4, n_draws))
    false = sum(rhat(draws) > rhat_limit(draws) for draws in runs)
    assert false <= 4
    missed = {"another mode": 0, "stuck": 0}
    for draws in runs[:60]:
        apart, stuck = draws.copy(), draws.copy()
        apart[0] += 2.5
        stuck[0] = stuck[0, 0] + 1.5
        missed["another mode"] += rhat(apart) <= rhat_limit(apart)
        missed["stuck"] += rhat(stuck) <= rhat_limit(stuck)
    assert max(missed.values()) <= 3, missed


@pytest.mark.parametrize(("rho", "n_draws"), [(0.8, 150), (0.95, 600)])
def test_largest_of_four_quantities_with_few_effective_draws_hardly_ever_exceeds_it(rho, n_draws):
    """15 to 32 effective draws a chain: 1 %, at most 4 %; by chi-squared and raw times 4, 6 and 1.5 %."""
    runs = chains(np.random.default_rng(4), rho, (200, 4, 4, n_draws))
    rings = sum(any(rhat(own) > rhat_limit(own, 4) for own in run) for run in runs)
    assert rings <= 5


def test_it_ends_where_many_draws_go_and_grows_with_the_number_of_quantities():
    """Independent draws: s = 100 in each of 8 half chains, F_7,792 at 1 - 0.01 / 2 is 2.925 (scipy)."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((4, 200))
    expected = np.sqrt(1.0 + 2.925 / 99)
    assert rhat_limit(draws) == pytest.approx(expected, abs=0.005)
    assert rhat_limit(draws, 10) > rhat_limit(draws)
    assert rhat_limit(rng.standard_normal((4, 5000))) == 1.01
    assert rhat_limit(np.full((4, 50), 1.0)) == 1.01
