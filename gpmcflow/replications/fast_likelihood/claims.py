"""Claims of Wang & Neal (2013) in words, as rows of the verdict."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.jobs.judgement import Estimate, side, verdict
from gpmcflow.replications.fast_likelihood.estimates import (
    COSTS,
    TypeRuns,
    below_one,
    claim_row,
    judged_row,
    missing_row,
)
from gpmcflow.replications.fast_likelihood.levers import agreement_rows, lever_rows, oracle_rows
from gpmcflow.replications.fast_likelihood.types import GRID_METHODS, RANK_METHODS, TYPES

SAME_FORMS = 1e-10  # of the largest entry, with a core of condition 1e6
SAME_LIKELIHOOD = 1e-6
USABLE = 0.1  # acceptance below which a stand-in is of no use
NO_NYSTROM = (2, 3, 7, 8)


def claim_rows(
    types: dict[str, TypeRuns], faithful: dict[int, TypeRuns], tunings: dict[str, dict]
) -> list[dict]:
    """All claims; one whose run is not there is marked missing.

    ``types`` are all types of the config by name, ``faithful`` those of the paper's sizes and defaults by
    number.
    """
    return [
        *_order_rows(types, faithful),
        *_grid_rows(types),
        *_form_rows(tunings),
        *_column_rows(types),
        *_rank_rows(types),
        *_eigen_rows(types),
        *_tempered_rows(types),
        *_noise_rows(tunings),
        *oracle_rows(types),
        *lever_rows(types, faithful),
        *agreement_rows(types),
    ]


def _order_rows(types: dict[str, TypeRuns], faithful: dict[int, TypeRuns]) -> list[dict]:
    """The subset chain beats standard slice sampling, more so at n = 900; Nystrom where it is usable."""
    claim = "discretizing chain with a subset beats standard slice sampling"
    rows = [
        below_one(claim, runs, ("sod", "standard"), key)
        for runs in types.values()
        if runs.has("sod", "standard")
        for key in ("run_cost", "efficiency")
    ]
    rows += [_gain_row(small, faithful) for small in (1, 2, 3, 4, 5)]
    claim = "Nystrom beats the subset chain"
    for number in (6, 10):
        runs = faithful.get(number)
        if runs is None or not runs.has("sod", "nystrom"):
            column = f"{COSTS['efficiency']}: nystrom / sod"
            rows.append(missing_row(claim, f"type {number}", f"#{number}", column))
            continue
        names = filter(runs.has, ("nystrom", "nystrom_spaced"))
        rows += [below_one(claim, runs, (name, "sod"), "efficiency") for name in names]
    return rows


def _gain_row(small: int, faithful: dict[int, TypeRuns]) -> dict:
    """Relative cost of the subset chain on a type with 900 cases over that on the one with 300."""
    claim, large = "the gain of the subset chain is larger at n = 900 than at 300", small + 5
    row, column = f"#{large} / #{small}", "efficiency ratio: SOD"
    if not {small, large} <= set(faithful):
        return missing_row(claim, f"types {small} and {large} at full size", row, column)
    a, b = (faithful[k].log_ratio("sod", "standard", "efficiency") for k in (large, small))
    few = min(faithful[k].count("sod", "standard") for k in (small, large))
    printed, why = "< 1", f"{few} data sets or more"
    if small == 5:
        printed, why = "> 1", "the paper's exception: long ARD"
    gain = a.minus(b)
    smaller = (side(gain, 0.0), "below")
    return judged_row(claim, row, column, gain.exp(), smaller, printed=printed, why=why)


def _grid_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 1: r = s = 1 is best, large r and s accept rarely."""
    claim, rows = "r = s = 1 is best", []
    for runs in types.values():
        if not runs.has(*GRID_METHODS):
            continue
        base = runs.mean("sod", "acceptance").centre
        for name, cell in GRID_METHODS.items():
            acceptance = runs.mean(name, "acceptance").centre
            why = f"mean acceptance of a move {acceptance:.2f}, at r = s = 1 {base:.2f}"
            row = f"{runs.name}: r = {cell['r']}, s = {cell['s']}"
            rows.append(below_one(claim, runs, ("sod", name), "run_cost", why, row))
    return rows or [missing_row(claim, "chain_grid: true", "types 1 and 4")]


def _form_rows(tunings: dict[str, dict]) -> list[dict]:
    """Claim 2: two forms of one matrix, on the first type."""
    claim = "eqs. 40-41 and 42 give the same matrix, whose columns are not orthonormal"
    column, rows = "difference / largest entry", []
    for name, tuning in list(tunings.items())[:1]:
        forms, gram = (tuning["checks"][key] for key in ("forms", "not_orthonormal"))
        why = f"largest entry of B'B - I: {gram:.3g}; eq. 37 cannot take them"
        rows.append(_zero_row(claim, name, column, forms, SAME_FORMS, why, gram > 1e-3))
    return rows


def _noise_rows(tunings: dict[str, dict]) -> list[dict]:
    """Claim 6: the residual variance may differ between observations."""
    claim = "residual variances may differ between observations (32, 38)"
    column, why = (
        "log likelihood: low rank - dense",
        "60 cases, variances from 0.5 to 2 times sigma^2",
    )
    rows = [
        _zero_row(claim, name, column, tuning["checks"]["general_noise"], SAME_LIKELIHOOD, why)
        for name, tuning in list(tunings.items())[:1]
    ]
    return [row | {"unit": "nat"} for row in rows] or [missing_row(claim, "any type")]


def _zero_row(
    claim: str, row: str, column: str, ours: float, limit: float, why: str, *facts: bool
) -> dict:
    """Row of a claim that a difference is 0 up to rounding."""
    cells = {"printed": "0", "ours": ours, "tolerance": limit, "why": why}
    return claim_row(claim, row, column, verdict=verdict(ours <= limit, *facts), **cells)


def _quality(runs: TypeRuns, method: str) -> str:
    """Acceptance of a method, and D of its stand-in."""
    D = np.mean([run["D"][0] for run in runs.of(method)])
    return f"acceptance {runs.mean(method, 'acceptance').centre:.2f}, D {D:.2g}"


def _column_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 2: random columns beside space-filling ones."""
    claim = "space-filling columns with the constant exact beat random columns"
    pair = ("nystrom_spaced", "nystrom")
    rows = []
    for runs in types.values():
        if runs.has(*pair):
            why = "; ".join(f"{method}: {_quality(runs, method)}" for method in pair)
            rows.append(below_one(claim, runs, pair, "run_cost", why))
    return rows or [missing_row(claim, "nystrom and nystrom_spaced")]


def _rank_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 3: columns Nystrom needs, for short and for long length scales."""
    claim = "Nystrom needs m near 95 % of n for short scales, 10 % for long ones (p = 5)"
    no_use, rows = "Nystrom is of no use at short scales (p = 5)", []
    for runs in types.values():
        if not runs.has(*RANK_METHODS):
            continue
        long = runs.data in TYPES and TYPES[runs.data].scale > 1.0
        shares = {name: options["share"] for name, options in RANK_METHODS.items()}
        usable = [s for name, s in shares.items() if runs.mean(name, "acceptance").centre >= USABLE]
        ours = min(usable, default=math.inf)
        text = [f"m = {share} % of n: {_quality(runs, name)}" for name, share in shares.items()]
        judged = verdict(ours <= 10 if long else ours >= 70)
        cells = {"unit": "%", "printed": 10 if long else 95, "ours": ours, "verdict": judged}
        column = f"least share with acceptance {USABLE:g}"
        rows.append(claim_row(claim, runs.name, column, why="; ".join(text), **cells))
    for runs in types.values():
        if runs.data in NO_NYSTROM and runs.has("nystrom"):
            ours, why = (
                runs.mean("nystrom", "acceptance"),
                str(runs.values("nystrom", "acceptance")),
            )
            below, printed = (side(ours, USABLE), "below"), f"< {USABLE:g}"
            rows.append(
                judged_row(no_use, runs.name, "acceptance", ours, below, printed=printed, why=why)
            )
    return rows or [missing_row(claim, "ranks: true", "one short and one long type")]


def _eigen_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 4: the eigen-exact approximation can be slower than the exact density."""
    claim, rows = "eigen-exact can be slower than the exact evaluation", []
    column = "seconds: eigen-exact / exact"
    for runs in types.values():
        if runs.eigen:
            ratio = Estimate.of([share for share, _ in runs.eigen])
            why = f"m = {runs.eigen[0][1]} of n = {runs.settings['n']}, on the machine of the runs"
            slower = (side(ratio, 1.0), "above")
            rows.append(judged_row(claim, runs.name, column, ratio, slower, printed="> 1", why=why))
    return rows or [missing_row(claim, "a type of 400 cases or fewer")]


def _tempered_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 5: tempered transitions beat the discretizing chain on all n = 300, p = 5 types."""
    claim = "tempered transitions beat the discretizing chain (n = 300, p = 5)"
    rows = []
    for runs in types.values():
        if runs.has("tempered", "sod") and runs.data in (2, 3, 4, 5):
            row = runs.name if runs.is_paper else f"{runs.name}, n = {runs.settings['n']}"
            rows += [
                below_one(claim, runs, ("tempered", "sod"), key, row=row)
                for key in ("run_cost", "efficiency")
            ]
    return rows or [missing_row(claim, "tempered and sod on them", "types 2 to 5")]
