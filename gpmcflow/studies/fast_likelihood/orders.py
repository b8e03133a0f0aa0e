"""Rows of claims: an order between two methods, what was not run."""

from __future__ import annotations

import math
from functools import partial

from gpmcflow.studies import verdict
from gpmcflow.studies.fast_likelihood.data import STUDY
from gpmcflow.studies.fast_likelihood.estimates import TypeRuns, interval, log_ratio

claim_row, missing_row = partial(verdict.claim_row, STUDY), partial(verdict.missing_row, STUDY)


def below_one(
    claim: str, found: TypeRuns, pair: tuple[str, str], key: str, what: str, why: str = ""
) -> dict:
    """Row of a claim that one method costs less than another, by paired log ratios: an order."""
    centre, error = log_ratio(found, *pair, key)
    n = len(found.replicates)
    column = f"{what}: {pair[0]} / {pair[1]}"
    note = f"{n} data sets, n = {found.settings['n']}, {found.settings['iterations']} iterations"
    note = f"{why}; {note}" if why else note
    if not math.isfinite(centre):
        runs = found.of(pair[0])
        stuck = sum(math.isinf(run["tau"]) for run in runs)
        judged = "does not hold" if stuck else "missing"
        why = f"{stuck} of {n} chains never moved; {note}"
        return claim_row(claim, found.name, column, printed="< 1", verdict=judged, why=why)
    low, high = interval(centre, error, n)
    judged = "holds" if high < 0.0 else "does not hold" if low > 0.0 else "not resolved"
    return claim_row(
        claim, found.name, column, printed="< 1", ours=math.exp(centre),
        mcse=math.exp(centre) * error, verdict=judged, why=note,
    )  # fmt: skip
