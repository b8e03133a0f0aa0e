"""Samplers with a mistake must fail the test that the right ones pass."""

from __future__ import annotations

import pytest

from gpmcflow.samplers import RMHMC, SAMPLERS

from .invariance import ROUGH, cells, problem, run_cell
from .mutants import (
    INEFFICIENT,
    INEXACT,
    EndKickMissing,
    LogDeterminantDropped,
    MomentumOfUnitMass,
    NeverTakenBack,
    NoMistake,
    SitesLeftIn,
    TooFewIterations,
    WrongSignOfMetricSlope,
    WrongSignOfTrace,
)

# Cells in which most mutants die come first, so that a dead one costs one cell.
CELLS = sorted(
    [(model, setting) for _, model, setting in cells(["mutant"])],
    key=lambda cell: (cell[0] != "logistic_regression", cell[1] != "posterior"),
)


# Without a right acceptance chains run away, to where energies overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def outcomes(mutant, some_cells=CELLS):
    """Outcomes at the rough settings of the registered sampler the mutant derives from."""
    settings = next(ROUGH[name] for name, kind in SAMPLERS.items() if issubclass(mutant, kind))
    for seed, cell in enumerate(some_cells):
        yield run_cell(mutant(**settings), problem(*cell), seed, draws_seed=0)


def test_the_control_passes():
    """The transition the mutants are cut from is right itself: what kills them is their mistake."""
    assert all(outcome.passed for outcome in outcomes(NoMistake))


@pytest.mark.parametrize("mutant", INEXACT)
def test_mutants_that_move_the_target_fail(mutant):
    assert any(not outcome.exact for outcome in outcomes(mutant))


@pytest.mark.parametrize("mutant", INEFFICIENT)
def test_mutants_with_a_wrong_force_fail(mutant):
    """They are exact (accept or reject mends a wrong force), so acceptance has to tell."""
    some = CELLS[::5]
    if mutant is SitesLeftIn:  # from the prior, in its own coordinates, there are none
        some = [cell for cell in CELLS if cell[1] == "posterior"]
    found = list(outcomes(mutant, some))
    assert not any(outcome.passed for outcome in found)
    assert all(outcome.exact for outcome in found)


CURVED = [("logistic_regression", "posterior"), ("gp_poisson", "posterior")]
LONG = {"step_size": 1.4, "n_steps": 2, "jitter": 0.25}  # one equation in three has no solution
FEWER = 1500


@pytest.mark.parametrize("cell", CURVED)
def test_rmhmc_passes_where_its_mutants_fail(cell):
    """At the rough settings of the matrix, and at steps so long that many are given up."""
    rough = run_cell(RMHMC(**ROUGH["rmhmc"]), problem(*cell), 7, FEWER, draws_seed=0)
    assert rough.passed, rough
    long = run_cell(RMHMC(**LONG), problem(*cell), 7, FEWER, draws_seed=0)
    assert long.exact, long


@pytest.mark.parametrize(
    "mutant", [WrongSignOfMetricSlope, LogDeterminantDropped, MomentumOfUnitMass]
)
def test_rmhmc_mutants_that_move_the_target_fail(mutant):
    for cell in CURVED:
        assert not run_cell(mutant(**ROUGH["rmhmc"]), problem(*cell), 7, FEWER, draws_seed=0).exact


@pytest.mark.parametrize("mutant", [WrongSignOfTrace, EndKickMissing])
def test_rmhmc_mutants_with_a_wrong_force_fail(mutant):
    """Accept or reject mends the one, taking steps back rejects all of the other."""
    for cell in CURVED:
        outcome = run_cell(mutant(**ROUGH["rmhmc"]), problem(*cell), 7, FEWER, draws_seed=0)
        assert outcome.exact
        assert not outcome.passed


@pytest.mark.parametrize("fixed_iters", [1, 2])
def test_rmhmc_with_too_few_iterations_fails(fixed_iters):
    sampler = TooFewIterations(**LONG, fixed_iters=fixed_iters)
    assert not run_cell(sampler, problem(*CURVED[0]), 7, draws_seed=0).exact


def test_rmhmc_that_never_looks_back_fails():
    """Solved to 1e-8, but not reversible where the way back finds no or another solution."""
    assert not run_cell(NeverTakenBack(**LONG), problem(*CURVED[1]), 7, draws_seed=0).exact
