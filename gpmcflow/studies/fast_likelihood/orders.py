"""Rows of claims: an order between two methods, what was not run."""

from __future__ import annotations

import math
from functools import partial

from gpmcflow.studies import verdict as rows
from gpmcflow.studies.fast_likelihood.data import STUDY
from gpmcflow.studies.fast_likelihood.estimates import TypeRuns
from gpmcflow.studies.frame.judgement import side, verdict

claim_row, missing_row = partial(rows.claim_row, STUDY), partial(rows.missing_row, STUDY)
COSTS = {  # of an effective draw
    "run_cost": "tau x pi-equivalents",
    "efficiency": "tau x CPU",
    "cost": "tau x pi-equivalents, pilots charged",
}


def below_one(
    claim: str, runs: TypeRuns, pair: tuple[str, str], key: str, why: str = "", row: str = ""
) -> dict:
    """Row of a claim that one method costs less than another, by paired log ratios: an order.

    A chain that never moved costs infinitely much.
    """
    log_ratio, n = runs.log_ratio(*pair, key), len(runs.replicates)
    stuck = sum(map(math.isinf, runs.values(pair[0], "tau")))
    note = f"{n} data sets, n = {runs.settings['n']}, {runs.settings['iterations']} iterations"
    known = math.isfinite(log_ratio.centre)
    return claim_row(
        claim, row or runs.name, f"{COSTS[key]}: {pair[0]} / {pair[1]}", printed="< 1",
        verdict=verdict((side(log_ratio, 0.0), "below")),
        why=rows.joined("" if known else f"{stuck} of {n} chains never moved", why, note),
        **(log_ratio.exp().cells() if known else {}),
    )  # fmt: skip
