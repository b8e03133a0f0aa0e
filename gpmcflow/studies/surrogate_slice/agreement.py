"""Posterior means of all methods of a problem side by side, with errors that slow chains are given too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpmcflow.studies.frame.judgement import (
    NOT_RESOLVED,
    NUMBER,
    Estimate,
    all_equal,
    equal,
    verdict,
)
from gpmcflow.studies.surrogate_slice.estimates import MethodRuns, ProblemRuns
from gpmcflow.studies.surrogate_slice.orders import claim_row, label, missing_row
from gpmcflow.studies.surrogate_slice.settings import STUDY
from gpmcflow.studies.verdict import joined, verdict_row

TRACE = "T"  # the complete log likelihood, beside the coordinates of theta
FEW = 30.0  # effective samples of all chains together below which an error is not known
# Effective samples of a chain below which its own error is so many times too small.
SLOW, UNDERSTATED = 100.0, 2.0
CLAIM = "all methods draw from the same posterior"


class Moment(NamedTuple):
    """Posterior mean of one quantity by one method."""

    mean: float
    sd: float
    error: float  #: the larger of those from between and from within the chains
    ess: float  #: of all chains

    def minus(self, other: Moment) -> Estimate:
        """Difference from the mean by another method."""
        return Estimate(self.mean, self.error).minus(Estimate(other.mean, other.error))

    def scale(self, other: Moment) -> float:
        """Difference that matters: a posterior standard deviation, the smaller of the two that are known."""
        return float(np.fmin(self.sd, other.sd))


def moments(runs: MethodRuns, names: Iterable[str]) -> dict[str, Moment]:
    """Moment of every coordinate of theta and of T.

    The standard error is the larger of sd(chain means) / sqrt(chains) and sd / sqrt(effective size), the
    latter doubled where chains have fewer than 100 effective samples in the mean: R-CODA's size of slow
    chains is too large. A few chains may agree by luck, and a single one has no spread.
    """
    columns = {
        name: [(c["theta_mean"][k], c["theta_sd"][k], c["theta_ess"][k]) for c in runs.chains]
        for k, name in enumerate(names)
    }
    columns[TRACE] = [(c["T_mean"], c["T_sd"], min(c["ess"], c["ess_bulk"])) for c in runs.chains]
    return {name: _moment(np.array(rows, dtype=np.float64)) for name, rows in columns.items()}


def _moment(rows: np.ndarray) -> Moment:
    means, sds, sizes = rows.T
    n = len(means)
    between = means.std(ddof=1) if n > 1 else 0.0
    sd = math.sqrt(float((sds**2).mean()) + between**2 * (n - 1) / n)
    total = float(sizes.sum())
    within = sd / math.sqrt(total) if total > 0.0 else math.inf
    if total < SLOW * n:
        within *= UNDERSTATED
    return Moment(float(means.mean()), sd, max(float(between) / math.sqrt(n), within), total)


def posterior_rows(problem: ProblemRuns) -> list[dict]:
    """One row a method and coordinate."""
    return [
        {
            "problem": problem.name, "method": runs.name, "coordinate": name, "mean": m.mean,
            "sd": m.sd, "mcse": m.error, "ess": m.ess, "chains": len(runs.chains),
        }
        for runs in problem.methods.values()
        for name, m in moments(runs, problem.names).items()
    ]  # fmt: skip


def agreement_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """One row a method: its posterior means against those of the method that is known best."""
    rows = []
    for problem in problems.values():
        means = {m.name: moments(m, problem.names) for m in problem.methods.values()}
        base = reference(means)
        rows += [
            claim_row(
                CLAIM, label(problem, paper), f"root mean square z: {name} - {base}", printed="1",
                **compared_cells(ours, means[base], base),
            )
            for name, ours in means.items() if base not in (None, name)
        ]  # fmt: skip
    return rows or [missing_row(CLAIM, "two methods on one problem")]


def reference(means: dict[str, dict[str, Moment]]) -> str | None:
    """Name of the method whose least effective size is the largest; None for a single method."""
    if len(means) < 2:
        return None
    return max(means, key=lambda name: min(m.ess for m in means[name].values()))


def too_few(means: dict[str, Moment], of: str = "") -> str:
    """Say of a method why its errors are not known, or nothing."""
    least = min(means, key=lambda name: means[name].ess)
    if means[least].ess >= FEW:
        return ""
    return (
        f"{of}{means[least].ess:.1f} effective samples of {least} in all chains: no error is known"
    )


def compared_cells(
    ours: dict[str, Moment], theirs: dict[str, Moment], name_of_theirs: str = ""
) -> dict:
    """Cells ours, tolerance, verdict and why of a comparison of all means that both have."""
    few = too_few(ours) or too_few(theirs, f"{name_of_theirs}: ")
    shared = [name for name in ours if name in theirs]
    judged = all_equal(
        [ours[name].minus(theirs[name]) for name in shared],
        [ours[name].scale(theirs[name]) for name in shared],
        known=not few,
    )
    text = f"{len(shared)} means, largest |z| {judged.largest:.2f} ({shared[judged.where]})"
    return {
        "ours": judged.rms,
        "tolerance": f"largest |z| < {judged.limit:.3g}",
        "verdict": judged.verdict,
        "why": joined(few, text),
    }


def exact_rows(problems: dict[str, ProblemRuns], exact: dict) -> list[dict]:
    """Every method on the small problem whose posterior is known."""
    rows, known = [], known_moments(exact)
    for problem in problems.values():
        if not is_exact(problem, exact):
            continue
        n_comparisons = len(known) * len(problem.methods)
        for runs in problem.methods.values():
            means = moments(runs, problem.names)
            few = too_few(means)
            for name, true in known.items():
                difference, ours = means[name].minus(true), means[name]
                position = equal(difference, 0.0, ours.scale(true), n_comparisons)
                claim = (NOT_RESOLVED if few else position, "equal")
                rows.append(
                    verdict_row(
                        STUDY, table="exact small posterior", row=f"{problem.name}: {runs.name}",
                        column=f"E {name}", unit="nat", printed=true.mean, ours=ours.mean,
                        mcse=ours.error, tolerance="equal, one of all means of the table",
                        verdict=verdict(claim, words=NUMBER),
                        why=few or f"z = {difference.centre / difference.error:.2f}",
                    )
                )  # fmt: skip
    return rows


def known_moments(exact: dict) -> dict[str, Moment]:
    """Means of the small posterior with half a unit of their last digit as the error."""
    return {
        name: Moment(value, math.nan, digits, math.inf)
        for name, (value, digits) in exact["means"].items()
    }


def is_exact(problem: ProblemRuns, exact: dict) -> bool:
    """Whether a problem is the one of the known posterior."""
    return (
        problem.n_cases == exact["cases"]
        and problem.likelihood == exact["likelihood"]
        and list(problem.names) == exact["names"]
    )
