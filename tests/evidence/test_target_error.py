"""`log_evidence` with a target: runs that grow until the standard error is as small as wanted."""

from __future__ import annotations

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError

SMALL = {
    "annealing": {"n_particles": 16, "n_temperatures": 4},
    "parallel_tempering": {"n_draws": 20, "n_temperatures": 3, "n_warmup": 5},
    "sequential_monte_carlo": {"n_particles": 16, "n_temperatures": 4},
    "importance_sampling": {"n_draws": 50},
}


@pytest.fixture(scope="module")
def fit():
    x = np.linspace(0.0, 1.0, 6)
    model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.StudentT(0.3, 4.0))
    return gp.approximate(model)


@pytest.mark.parametrize("route", SMALL)
def test_runs_grow_until_the_error_is_the_one_that_is_wanted(fit, route):
    first = gp.log_evidence(fit, route, **SMALL[route])
    error = float(first["evidence/standard_error"].max())
    grown = gp.log_evidence(fit, route, target_error=0.6 * error, **SMALL[route])
    assert float(grown["evidence/standard_error"].max()) <= 0.6 * error
    costs = [float(tree["evidence/n_likelihood"]) for tree in (first, grown)]
    assert costs[1] > 2.0 * costs[0]
    same = gp.log_evidence(fit, route, target_error=1.01 * error, **SMALL[route])
    assert same["evidence"].identical(first["evidence"])


def test_a_target_out_of_reach_is_an_alarm(fit):
    run = gp.log_evidence(fit, "importance_sampling", target_error=1e-6, n_draws=4)
    assert f"with n_draws = {64 * 4}, above 1e-06" in run["evidence/alarm"].item()


def test_the_grown_run_has_random_numbers_of_its_own(fit):
    """Else the first draws would be those that the error was found too large with."""
    small, large = (
        gp.log_evidence(fit, "importance_sampling", n_draws=n, target_error=target)
        for n, target in ((100, None), (50, 1e-9))
    )
    direct = gp.log_evidence(fit, "importance_sampling", n_draws=50 * 64)
    values = [float(tree["evidence/log_evidence"][0]) for tree in (small, large, direct)]
    assert len(set(values)) == 3


def test_what_it_refuses(fit):
    with pytest.raises(InputError, match=r"target_error is 0.0; allowed: a positive number"):
        gp.log_evidence(fit, target_error=0.0)
    with pytest.raises(InputError, match="leave out one of them"):
        gp.log_evidence(fit, target_error=0.1, reverse_from=np.zeros((4, 6)))
