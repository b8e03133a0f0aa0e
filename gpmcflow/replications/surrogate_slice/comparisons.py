"""Methods beside each other: more or as many effective samples, and the same posterior means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpmcflow.replications.judgement import (
    NOT_RESOLVED,
    NUMBER,
    Estimate,
    all_equal,
    claim_row,
    is_zero,
    joined,
    judged_row,
    missing_row,
    side,
    verdict,
    verdict_row,
    within,
)
from gpmcflow.replications.surrogate_slice.estimates import (
    COSTS,
    MethodRuns,
    ProblemRuns,
    log_ratio,
)

MUCH = 2.0  # factor that "much better" and "by far" are read as
SAME = (0.5, 2.0)  # ratios that "about equal" is read as
ROUGH = 10.0  # effective samples of a chain below which their number is a rough one

Pair = tuple[MethodRuns, MethodRuns]

TRACE = "T"  # the complete log likelihood, beside the coordinates of theta
FEW = 30.0  # effective samples of all chains together below which an error is not known
# Effective samples of a chain below which its own error is so many times too small.
SLOW, UNDERSTATED = 100.0, 2.0
SAME_POSTERIOR = "all methods draw from the same posterior"


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
    centres = [math.inf if math.isnan(ratio.centre) else ratio.centre for ratio in ratios]
    least = centres.index(min(centres))
    others = "" if len(pairs) == 1 else f"least of {len(pairs)} ratios"
    why = joined(why, others, _note(pairs[least], ratios[least]))
    better = [(side(ratio, math.log(factor)), "above") for ratio in ratios]
    column, ours = _column(pairs[least], cost), ratios[least].exp()
    return judged_row(claim, row, column, ours, *better, printed=f"> {factor:g}", why=why)


def as_many(claim: str, row: str, pair: Pair, cost: str, why: str = "") -> dict:
    """Row of a claim that two methods have about as many effective samples per cost: an equivalence test."""
    ratio = log_ratio(*pair, cost)
    alike, why = (
        (within(ratio, *map(math.log, SAME)), "within"),
        joined(why, _note(pair, ratio)),
    )
    cells = {"printed": "1", "tolerance": "0.5 to 2", "why": why}
    return judged_row(claim, row, _column(pair, cost), ratio.exp(), alike, **cells)


def _column(pair: Pair, cost: str) -> str:
    return f"ESS per {COSTS[cost]}: {pair[0].name} / {pair[1].name}"


def _note(pair: Pair, ratio: Estimate) -> str:
    """Interval, chains, and chains whose effective size is too small to be trusted."""
    low, high = ratio.interval()
    note = f"{len(pair[0].chains)} and {len(pair[1].chains)} chains"
    if math.isfinite(low) and math.isfinite(high):
        note = f"95 % interval {math.exp(low):.2g} to {math.exp(high):.2g}; {note}"
    least, name = min((min(c["ess"] for c in runs.chains), runs.name) for runs in pair)
    if least < ROUGH:
        note += f"; a chain of {name} has only {least:.1f} effective samples"
    return note


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
        {"problem": problem.name, "method": runs.name, "coordinate": name}
        | {"mean": m.mean, "sd": m.sd, "mcse": m.error, "ess": m.ess, "chains": len(runs.chains)}
        for runs in problem.methods.values()
        for name, m in moments(runs, problem.names).items()
    ]


def agreement_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """One row a method: its posterior means against those of the method that is known best."""
    rows = []
    for problem in problems.values():
        means = {m.name: moments(m, problem.names) for m in problem.methods.values()}
        base = reference(means)
        for name, ours in means.items():
            if base not in (None, name):
                cells = compared_cells(ours, means[base], base) | {"printed": "1"}
                column = f"root mean square z: {name} - {base}"
                rows.append(claim_row(SAME_POSTERIOR, label(problem, paper), column, **cells))
    return rows or [missing_row(SAME_POSTERIOR, "two methods on one problem")]


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
    known, judged = known_moments(exact), []
    shared = {"table": "exact small posterior", "unit": "nat"}
    shared["tolerance"] = "equal, one of all means of the table"
    for problem in problems.values():
        if not is_exact(problem, exact):
            continue
        n_comparisons = len(known) * len(problem.methods)
        for runs in problem.methods.values():
            means, row = moments(runs, problem.names), f"{problem.name}: {runs.name}"
            few = too_few(means)
            for name, true in known.items():
                difference, ours = means[name].minus(true), means[name]
                position = is_zero(difference, ours.scale(true), n_comparisons)
                cells = {"printed": true.mean, "ours": ours.mean, "mcse": ours.error}
                cells["why"] = few or f"z = {difference.centre / difference.error:.2f}"
                claim = (NOT_RESOLVED if few else position, "equal")
                cells["verdict"] = verdict(claim, words=NUMBER)
                judged.append(verdict_row(row=row, column=f"E {name}", **shared, **cells))
    return judged


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
