"""Samplers with a mistake must fail the test that the right ones pass."""

from __future__ import annotations

import pytest

from gpmcflow.samplers import SAMPLERS

from .invariance import ROUGH, cells, problem, run_cell
from .mutants import INEFFICIENT, INEXACT, NoMistake, SitesLeftIn

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
    some = CELLS[::5]
    if mutant is SitesLeftIn:  # from the prior, in its own coordinates, there are none
        some = [cell for cell in CELLS if cell[1] == "posterior"]
    found = list(outcomes(mutant, some))
    assert not any(outcome.passed for outcome in found)
    assert all(outcome.exact for outcome in found)
