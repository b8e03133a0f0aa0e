"""Rows of claims: orders and equalities between methods, what was not run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from gpmcflow.studies import verdict as rows
from gpmcflow.studies.frame.judgement import Estimate, side, verdict, within
from gpmcflow.studies.surrogate_slice.estimates import COSTS, MethodRuns, ProblemRuns, log_ratio
from gpmcflow.studies.surrogate_slice.settings import STUDY

MUCH = 2.0  # factor that "much better" and "by far" are read as
SAME = (0.5, 2.0)  # ratios that "about equal" is read as
FEW = 10.0  # effective samples of a chain below which their number is a rough one

Pair = tuple[MethodRuns, MethodRuns]
claim_row, missing_row = partial(rows.claim_row, STUDY), partial(rows.missing_row, STUDY)


def label(problem: ProblemRuns, paper: dict[str, str]) -> str:
    """Name of a problem, with its size where it is not one of the paper's."""
    size = "" if problem.name in paper else f", n = {problem.n_cases}"
    return f"{problem.name}{size}"


def above(
    claim: str, row: str, pairs: Sequence[Pair], cost: str, *, factor: float = 1.0, why: str = ""
) -> dict:
    """Row of a claim that the first of each pair has more effective samples per cost than ``factor`` times
    the second.

    The least ratio is shown. Holds where all ratios are above the factor (each at its own level: no
    correction is needed for a claim about all), does not hold where one is below.
    """
    ratios = [log_ratio(*pair, cost) for pair in pairs]
    worst = min(range(len(pairs)), key=lambda k: _rank(ratios[k]))
    others = "" if len(pairs) == 1 else f"least of {len(pairs)} ratios"
    return claim_row(
        claim, row, _column(pairs[worst], cost), printed=f"> {factor:g}",
        verdict=verdict(*((side(ratio, math.log(factor)), "above") for ratio in ratios)),
        why=rows.joined(why, others, _note(pairs[worst], ratios[worst])), **ratios[worst].exp().cells(),
    )  # fmt: skip


def equal(claim: str, row: str, pair: Pair, cost: str, why: str = "") -> dict:
    """Row of a claim that two methods have about as many effective samples per cost: an equivalence test."""
    ratio = log_ratio(*pair, cost)
    return claim_row(
        claim, row, _column(pair, cost), printed="1", tolerance="0.5 to 2",
        verdict=verdict((within(ratio, *map(math.log, SAME)), "within")),
        why=rows.joined(why, _note(pair, ratio)), **ratio.exp().cells(),
    )  # fmt: skip


def _rank(ratio: Estimate) -> float:
    return math.inf if math.isnan(ratio.centre) else ratio.centre


def _column(pair: Pair, cost: str) -> str:
    return f"ESS per {COSTS[cost]}: {pair[0].name} / {pair[1].name}"


def _note(pair: Pair, ratio: Estimate) -> str:
    """Interval, chains, and chains whose effective size is too small to be trusted."""
    low, high = ratio.interval()
    note = f"{len(pair[0].chains)} and {len(pair[1].chains)} chains"
    if math.isfinite(low) and math.isfinite(high):
        note = f"95 % interval {math.exp(low):.2g} to {math.exp(high):.2g}; {note}"
    least, name = min((min(c["ess"] for c in runs.chains), runs.name) for runs in pair)
    if least < FEW:
        note += f"; a chain of {name} has only {least:.1f} effective samples"
    return note
