"""Samplers with a mistake must fail the test that the right ones pass."""

from __future__ import annotations

import pytest

from gpmcflow.samplers import HMC

from .invariance import ROUGH, cells, problem, run_cell
from .mutants import INEFFICIENT, INEXACT, NoMistake

# Cells in which most mutants die come first, so that a dead one costs one cell.
CELLS = sorted(
    [(model, setting) for _, model, setting in cells(["mutant"])],
    key=lambda cell: (cell[0] != "logistic_regression", cell[1] != "posterior"),
)


# Without a right acceptance chains run away, to where energies overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def outcomes(mutant, some_cells=CELLS):
    settings = ROUGH["hmc" if issubclass(mutant, HMC) else "split_hmc"]
    for seed, cell in enumerate(some_cells):
        yield run_cell(mutant(**settings), problem(*cell), seed)


def test_the_control_passes():
    """The transition the mutants are cut from is right itself: what kills them is their mistake."""
    assert all(outcome.passed for outcome in outcomes(NoMistake))


@pytest.mark.parametrize("mutant", INEXACT)
def test_mutants_that_move_the_target_fail(mutant):
    assert any(not outcome.exact for outcome in outcomes(mutant))


@pytest.mark.parametrize("mutant", INEFFICIENT)
def test_mutants_with_a_wrong_force_fail(mutant):
    """They are exact (accept or reject mends a wrong force), so acceptance has to tell."""
    found = list(outcomes(mutant, CELLS[::5]))
    assert not any(outcome.passed for outcome in found)
    assert all(outcome.exact for outcome in found)
