"""Tables of the surrogate-slice study: efficiency, posterior means, and the verdict on what is printed.

All are made of parts, one a replicate (`parts`), so that they can be rebuilt from rows that were
kept where the runs were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.studies.frame.job import Job
from gpmcflow.studies.surrogate_slice.agreement import (
    agreement_rows,
    exact_rows,
    posterior_rows,
)
from gpmcflow.studies.surrogate_slice.claims import claim_rows
from gpmcflow.studies.surrogate_slice.estimates import (
    COSTS,
    LogRatio,
    MethodRuns,
    ProblemRuns,
    log_ratio,
    problem_runs,
)
from gpmcflow.studies.surrogate_slice.parts import replicate_part
from gpmcflow.studies.surrogate_slice.settings import BASELINE, STUDY
from gpmcflow.studies.surrogate_slice.statements import statement_rows
from gpmcflow.studies.surrogate_slice.which_sampler import COLUMNS, joint_rows, which_sampler_rows
from gpmcflow.studies.verdict import VERDICT_COLUMNS, of_this_run, verdict_row

TABLE = "Figure 3"
SECOND_TABLE = "independent computation"


def summarise(job: Job) -> dict[str, pd.DataFrame]:
    """Frames "verdict", "which_sampler", "efficiency" and "posterior" from the results files of a run."""
    return of_this_run(tables([replicate_part(path) for path in job.input.runs], job.published()))


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "verdict", "which_sampler", "efficiency" and "posterior" from parts and printed numbers.

    which_sampler: the plain methods of a problem by the time to 100 effective samples (`which_sampler_rows`).
    efficiency: one row a problem and method; per n_lik, n_cov, n_hyp and second the mean over the chains of
    effective samples of T (R-CODA's), its standard error, and the ratio to surr-site with its own.
    posterior: mean of each coordinate and of T by each method.
    """
    problems = problem_runs(parts)
    paper = paper_names(problems, published)
    rows = [
        *(row for name in published["problems"] for row in _printed(name, problems, paper, published)),
        *statement_rows(problems, paper),
        *claim_rows(problems, paper, published),
        *joint_rows(problems, paper),
        *agreement_rows(problems, paper),
        *exact_rows(problems, published["exact"]),
    ]  # fmt: skip
    every = problems.values()
    return {
        "verdict": pd.DataFrame(rows, columns=VERDICT_COLUMNS),
        "which_sampler": pd.DataFrame(
            [row for p in every for row in which_sampler_rows(p)], columns=COLUMNS
        ),
        "efficiency": pd.DataFrame(
            [_efficiency_row(p, m) for p in every for m in p.methods.values()]
        ),
        "posterior": pd.DataFrame([row for p in every for row in posterior_rows(p)]),
    }


def paper_names(problems: dict[str, ProblemRuns], published: dict) -> dict[str, str]:
    """Which problems of the config are the paper's: {name in the config: name in the paper}.

    They have the paper's likelihood, number of cases and number of coordinates.
    """
    return {
        problem.name: name
        for name, printed in published["problems"].items()
        for problem in problems.values()
        if problem.likelihood == printed["likelihood"]
        and (problem.n_cases, len(problem.names)) == (printed["cases"], printed["coordinates"])
    }


def _efficiency_row(problem: ProblemRuns, runs: MethodRuns) -> dict:
    chains = runs.chains
    base = problem.plain(BASELINE)
    row = {
        "problem": problem.name,
        "method": runs.name,
        "representation": runs.representation,
        "plain": runs.plain,
        "variant": runs.variant,
        "n_cases": problem.n_cases,
        "chains": len(chains),
        "iterations": chains[-1]["iterations"],
    }
    row["ess"], row["ess_mcse"] = mean_and_error([chain["ess"] for chain in chains])
    row["ess_least"] = min(chain["ess"] for chain in chains)
    row["ess_bulk"] = float(np.mean([chain["ess_bulk"] for chain in chains]))
    for cost in COSTS:
        name = f"per_{cost.removesuffix('s')}"
        row[name], row[f"{name}_mcse"] = mean_and_error(runs.per(cost))
        ratio = log_ratio(runs, base, cost) if base is not None else _UNKNOWN
        row[f"{name}_ratio"] = ratio.ratio
        row[f"{name}_ratio_mcse"] = 0.0 if runs is base else ratio.ratio_error
    for name in ("n_hyp", "n_cov", "n_lik"):
        row[f"{name}_per_iteration"] = runs.mean_of(name, "iterations")[0]
    row["seconds_per_covariance"] = runs.mean_of("seconds", "n_cov")[0]
    row["acceptance"] = float(np.mean([chain["acceptance"] for chain in chains]))
    failed, asked = (sum(chain[name] for chain in chains) for name in ("n_failed", "n_hyp"))
    row["failed_share"] = failed / asked if asked else math.nan
    return row


_UNKNOWN = LogRatio(math.nan, math.nan, 0.0)


def _printed(
    name: str, problems: dict[str, ProblemRuns], paper: dict[str, str], published: dict
) -> list[dict]:
    """Rows of one problem of the paper: printed numbers, what follows from them, a second opinion."""
    printed = published["problems"][name]
    found = [problems[ours] for ours, theirs in paper.items() if theirs == name]
    if not found:
        why = f"no run of {name} as in the paper: {printed['cases']} cases, {printed['likelihood']}"
        return [
            verdict_row(STUDY, row=name, verdict="missing", why=why, **cells)
            for cells, _ in _cells(printed)
            if cells["table"] == TABLE
        ]
    rows = []
    for problem in found:
        runs = problem.plain(BASELINE)
        row = name if len(found) == 1 else f"{name}: {problem.name}"
        for cells, quantity in _cells(printed):
            if runs is None:
                judged = {
                    "verdict": "missing",
                    "why": f"{problem.name}: no {BASELINE} as in the paper",
                }
            else:
                judged = _judged(runs, cells, quantity, published)
                open_ = judged["verdict"] in ("differs", "not resolved")
                if open_ and cells["table"] == TABLE:
                    reason = printed.get("reasons", {}).get("_".join(quantity), "")
                    judged["why"] = "; ".join(filter(None, (reason, judged["why"])))
            rows.append(verdict_row(STUDY, row=row, **cells, **judged))
    return rows


def _cells(printed: dict) -> list[tuple[dict, tuple[str, str]]]:
    """Cells of every row of one problem with its quantity: one counter over another."""
    values = printed["effective_samples"]
    found = [
        ({"table": TABLE, "column": f"{BASELINE} per {COSTS[cost]}", "unit": "effective samples",
          "printed": values[cost]}, ("ess", cost))
        for cost in ("n_lik", "n_cov", "seconds")
    ]  # fmt: skip
    for top, what in (("n_lik", "likelihood evaluations"), ("seconds", "seconds")):
        implied = float(f"{values['n_cov'] / values[top]:.2g}")
        cells = {"table": TABLE, "column": f"{what} per covariance construction",
                 "unit": "s" if top == "seconds" else "", "recomputed": implied}  # fmt: skip
        found.append((cells, (top, "n_cov")))
    for key, value in printed["independent"].items():
        top, bottom = key.split(" / ")
        cells = {"table": SECOND_TABLE, "column": f"{BASELINE}: {key}", "printed": value}
        found.append((cells, (top, bottom)))
    return found


def _judged(runs: MethodRuns, cells: dict, quantity: tuple[str, str], published: dict) -> dict:
    """Ours beside a printed number: within a factor of it, with what the error leaves open."""
    top, bottom = quantity
    ours, error = runs.mean_of(top, bottom)
    n = len(runs.chains)
    note = f"{n} chains of {runs.chains[-1]['iterations']} iterations"
    if "seconds" in quantity:
        each, _ = runs.mean_of("seconds", "n_cov")
        why = f"CPU seconds of one core; {each:.2g} s a covariance construction; {note}"
        return {"ours": ours, "mcse": error, "verdict": "machine-dependent", "why": why}
    if quantity == ("ess", "n_cov"):
        note += f"; {runs.mean_of('ess', 'n_hyp')[0]:.2g} per setting of theta, moves of c counted"
    second = cells["table"] == SECOND_TABLE
    kind = "counts" if top != "ess" else "independent" if second else "printed"
    allowed = published["tolerances"][kind]
    value = cells.get("printed") or cells["recomputed"]
    low, high = _interval(ours, error, n)
    limit = math.log(allowed["factor"])
    inside = math.log(value) - limit <= low and high <= math.log(value) + limit
    outside = high < math.log(value) - limit or low > math.log(value) + limit
    return {
        "ours": ours, "mcse": error, "tolerance": f"factor {allowed['factor']:g}",
        "verdict": "agrees" if inside else "differs" if outside else "not resolved",
        "why": f"{allowed['why']}; {note}",
    }  # fmt: skip


def _interval(mean: float, error: float, n: int) -> tuple[float, float]:
    """95 % interval of the log of a mean over n chains."""
    if not mean > 0.0:
        return -math.inf, -math.inf if mean == 0.0 else math.inf
    return LogRatio(math.log(mean), error / mean, n - 1).interval()
