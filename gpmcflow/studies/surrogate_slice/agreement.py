"""Posterior means of all methods of a problem side by side, with errors that slow chains are given too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from gpmcflow.studies.surrogate_slice.estimates import MethodRuns, ProblemRuns
from gpmcflow.studies.surrogate_slice.orders import claim_row, label, missing_row
from gpmcflow.studies.surrogate_slice.settings import STUDY
from gpmcflow.studies.verdict import verdict_row

TRACE = "T"  # the complete log likelihood, beside the coordinates of theta
FEW = 30.0  # effective samples of all chains together below which an error is not known
SLOW, UNDERSTATED = (
    100.0,
    2.0,
)  # effective samples of a chain below which its own error is that much too small
FALSE_ALARM = 1e-3  # of a whole comparison of two methods
CLAIM = "all methods draw from the same posterior"


class Moment(NamedTuple):
    """Posterior mean of one quantity by one method."""

    mean: float
    sd: float
    error: float  #: the larger of those from between and from within the chains
    ess: float  #: of all chains


class Comparison(NamedTuple):
    """Differences of posterior means in standard errors."""

    rms: float
    worst: float
    where: str
    limit: float
    n: int

    @property
    def verdict(self) -> str:
        """Whether the largest difference is one that chance gives in all but one of 1000 comparisons."""
        return "holds" if self.worst < self.limit else "does not hold"


def moments(runs: MethodRuns, names: Iterable[str]) -> dict[str, Moment]:
    """Moment of every coordinate of theta and of T.

    The standard error is the larger of sd(chain means) / sqrt(chains) and sd / sqrt(effective size), the
    latter doubled where chains have fewer than 100 effective samples in the mean: R-CODA's size of slow
    chains is too large. A few chains may agree by luck, and a single one has no spread.
    """
    found = {}
    for k, name in enumerate(names):
        rows = [(c["theta_mean"][k], c["theta_sd"][k], c["theta_ess"][k]) for c in runs.chains]
        found[name] = _moment(np.array(rows, dtype=np.float64))
    rows = [(c["T_mean"], c["T_sd"], min(c["ess"], c["ess_bulk"])) for c in runs.chains]
    found[TRACE] = _moment(np.array(rows, dtype=np.float64))
    return found


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
        found = {m.name: moments(m, problem.names) for m in problem.methods.values()}
        base = reference(found)
        if base is None:
            continue
        for name, ours in found.items():
            if name != base:
                rows.append(_row(label(problem, paper), (name, ours), (base, found[base])))
    return rows or [missing_row(CLAIM, "two methods on one problem")]


def reference(found: dict[str, dict[str, Moment]], leave_out: str = "") -> str | None:
    """Name of the method whose least effective size is the largest; None for a single method."""
    names = [name for name in found if name != leave_out]
    if len(found) < 2 or not names:
        return None
    return max(names, key=lambda name: min(m.ess for m in found[name].values()))


def compare(ours: dict[str, Moment], theirs: dict[str, Moment]) -> Comparison:
    """Differences of all quantities that both have, in joint standard errors."""
    z = {
        name: (m.mean - theirs[name].mean) / math.hypot(m.error, theirs[name].error)
        for name, m in ours.items()
        if name in theirs
    }
    values = np.abs(list(z.values()))
    limit = float(norm.isf(0.5 * FALSE_ALARM / len(z)))  # Bonferroni's
    where = max(z, key=lambda name: abs(z[name]))
    return Comparison(float(np.sqrt(np.mean(values**2))), float(values.max()), where, limit, len(z))


def too_few(found: dict[str, Moment]) -> str:
    """Say of a method why its errors are not known, or nothing."""
    least = min(found, key=lambda name: found[name].ess)
    if found[least].ess >= FEW:
        return ""
    return f"{found[least].ess:.1f} effective samples of {least} in all chains: no error is known"


def compared_cells(ours: dict[str, Moment], theirs: dict[str, Moment]) -> dict:
    """Cells ours, tolerance, verdict and why of a comparison with moments that are known."""
    result = compare(ours, theirs)
    few = too_few(ours)
    text = f"{result.n} means, largest |z| {result.worst:.2f} ({result.where})"
    return {
        "ours": result.rms,
        "tolerance": f"largest |z| < {result.limit:.3g}",
        "verdict": "not resolved" if few else result.verdict,
        "why": f"{few}; {text}" if few else text,
    }


def _row(row: str, ours: tuple[str, dict], base: tuple[str, dict]) -> dict:
    cells = compared_cells(ours[1], base[1])
    few = too_few(base[1])
    if few and cells["verdict"] != "not resolved":
        cells |= {"verdict": "not resolved", "why": f"{base[0]}: {few}; {cells['why']}"}
    column = f"root mean square z: {ours[0]} - {base[0]}"
    return claim_row(CLAIM, row, column, printed="1", **cells)


def exact_rows(problems: dict[str, ProblemRuns], exact: dict) -> list[dict]:
    """Every method on the small problem whose posterior is known."""
    rows = []
    for problem in problems.values():
        if not is_exact(problem, exact):
            continue
        for runs in problem.methods.values():
            found = moments(runs, problem.names)
            few = too_few(found)
            for name, (value, digits) in exact["means"].items():
                m = found[name]
                z = (m.mean - value) / math.hypot(m.error, digits)
                verdict = "agrees" if abs(z) < exact["limit"] else "differs"
                rows.append(
                    verdict_row(
                        STUDY, table="exact small posterior", row=f"{problem.name}: {runs.name}",
                        column=f"E {name}", unit="nat", printed=value, ours=m.mean, mcse=m.error,
                        tolerance=f"{exact['limit']:g} standard errors",
                        verdict="not resolved" if few else verdict, why=few or f"z = {z:.2f}",
                    )
                )  # fmt: skip
    return rows


def is_exact(problem: ProblemRuns, exact: dict) -> bool:
    """Whether a problem is the one of the known posterior."""
    return (
        problem.n_cases == exact["cases"]
        and problem.likelihood == exact["likelihood"]
        and list(problem.names) == exact["names"]
    )
