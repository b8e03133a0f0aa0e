"""What the fast-likelihood study adds to the paper: levers, sensitivity, agreement of all methods."""

from __future__ import annotations

import math
from collections import Counter

from gpmcflow.jobs.judgement import Estimate, all_equal, combined, side, verdict
from gpmcflow.replications.fast_likelihood.estimates import (
    FAR,
    TypeRuns,
    below_one,
    claim_row,
    judged_row,
    missing_row,
)
from gpmcflow.replications.fast_likelihood.types import LEVERS, PAPER_METHODS, TYPES, UNTUNED

SLOW = 30.0  # draws over an autocorrelation time below which a standard error is not known
STUCK = 0.05  # acceptance below which a chain is left out, not compared
GOAL = 4.0  # best lever against the baseline
FIVE = (1, 2, 3, 4, 5)
DEFAULTS = {"prior": "centred", "noise": 0.2, "constant": 10.0}


def oracle_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 7: what the oracle priors, the noise and the constant are worth."""
    claim, rows = "sensitivity to prior, noise and constant", []
    for runs in types.values():
        changed = {k: runs.settings[k] for k, v in DEFAULTS.items() if runs.settings[k] != v}
        plain = {**DEFAULTS, "n": runs.settings["n"], "data": runs.data}
        alike = (other for other in types.values() if plain.items() <= other.settings.items())
        base = next(alike, None)
        if not changed or base is None or runs.data not in TYPES:
            continue
        words = ", ".join(f"{key}: {value}" for key, value in changed.items())
        for method in filter(runs.has, PAPER_METHODS):
            ours = runs.mean(method, "tau")
            beside = base.mean(method, "tau") if base.has(method) else Estimate(math.nan, math.nan)
            why = f"{words}; recomputed: the same with the defaults, +- {beside.error:.2g}"
            cells = ours.cells() | {"unit": "iterations", "recomputed": beside.centre, "why": why}
            rows.append(claim_row(claim, runs.name, f"ACT: {method}", verdict="shown", **cells))
    need = "types with another prior, noise, constant"
    return rows or [missing_row(claim, need, "types 1 and 2")]


def lever_rows(types: dict[str, TypeRuns], faithful: dict[int, TypeRuns]) -> list[dict]:
    """Each lever against the baseline at its best; the best of them in the geometric mean.

    The baseline is standard slice sampling with tuned widths, or without a pilot where that costs less.
    """
    claim, best = "beyond the paper: a lever beats tuned standard slice sampling", {}
    rows = []
    for runs in types.values():
        base = _baseline(runs)
        for method in filter(runs.has, LEVERS if base else ()):
            rows.append(below_one(claim, runs, (method, base), "cost"))
            best.setdefault(method, {})[runs.name] = runs.log_ratio(base, method, "cost")
    names = [faithful[number].name for number in FIVE if number in faithful]
    claim = f"the best lever is {GOAL:g} times better in the geometric mean of types 1 to 5"
    if len(names) < len(FIVE):
        return [*rows, missing_row(claim, "types 1 to 5 at full size", "#1 to #5")]
    why = "pilots charged at the iterations of the config"
    for method, ratios in best.items():
        if not all(name in ratios and math.isfinite(ratios[name].centre) for name in names):
            continue
        gain = combined(*((ratios[name], 1.0 / len(names)) for name in names))
        better, printed = (side(gain, math.log(GOAL)), "above"), f">= {GOAL:g}"
        column = f"baseline / {method}"
        rows.append(
            judged_row(claim, "#1 to #5", column, gain.exp(), better, printed=printed, why=why)
        )
    return rows


def _baseline(runs: TypeRuns) -> str | None:
    """Standard slice sampling, tuned or without a pilot: the one of least cost with its pilot."""
    if not runs.has("standard"):
        return None
    return UNTUNED if runs.log_ratio(UNTUNED, "standard", "cost").centre < 0.0 else "standard"


def agreement_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """All methods have the same posterior: means of theta and of the log likelihood, in standard errors.

    On each data set all are compared with the one that mixes best; chains whose own error is not known, as
    they hardly move or are short for their autocorrelation time, are left out, unless they are far off.
    """
    claim, rows = "all methods draw from the same posterior", []
    for runs in types.values():
        differences, scales, left_out, far = [], [], 0, []
        n = (2 * runs.settings["iterations"]) // 3
        for replicate in runs.replicates:
            here = [run for run in replicate.values() if "far" not in run]
            far += [name for name, run in replicate.items() if "far" in run]
            slowest = [max(run["theta_tau"]) for run in here]
            order = sorted(range(len(here)), key=slowest.__getitem__)
            known = [
                here[k] for k in order if here[k]["acceptance"] >= STUCK and slowest[k] <= n / SLOW
            ]
            left_out += len(here) - len(known)
            for run in known[1:]:
                for (a, _), (b, sd) in zip(_moments(run, n), _moments(known[0], n), strict=True):
                    differences.append(a.minus(b))
                    scales.append(sd)
        if not differences and not far:
            continue
        cells: dict = {"printed": "1", "verdict": verdict(False)}
        chains = "chain left out, which mixes" if left_out == 1 else "chains left out, which mix"
        why = f"{left_out} {chains} too slowly for a standard error"
        if differences:
            judged = all_equal(differences, scales)
            cells |= {"ours": judged.rms, "tolerance": f"largest |z| < {judged.limit:.3g}"}
            cells |= {} if far else {"verdict": judged.verdict}
            compared = f"{len(scales)} comparisons with the method that mixes best"
            why = f"{compared}, largest |z| {judged.largest:.2f}; {why}"
        if far:
            shown = ", ".join(f"{name} on {n} of the data sets" for name, n in Counter(far).items())
            why += f"; {FAR:g} posterior sd or more off in the log likelihood: {shown}"
        rows.append(claim_row(claim, runs.name, "root mean square z", why=why, **cells))
    return rows


def _moments(run: dict, n: int) -> list[tuple[Estimate, float]]:
    """Mean of each coordinate and of the log likelihood, and the posterior standard deviation."""
    columns = zip(run["theta_mean"], run["theta_sd"], run["theta_tau"], strict=True)
    rows = [*columns, (run["mean_log_likelihood"], run["sd_log_likelihood"], run["tau"])]
    return [(Estimate(mean, sd * math.sqrt(tau / n)), sd) for mean, sd, tau in rows]
