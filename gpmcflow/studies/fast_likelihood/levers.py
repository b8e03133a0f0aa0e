"""What the fast-likelihood study adds to the paper: levers, sensitivity, agreement of all methods."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.studies.fast_likelihood.estimates import TypeRuns, log_ratio, mean_and_error
from gpmcflow.studies.fast_likelihood.orders import below_one, claim_row, missing_row
from gpmcflow.studies.fast_likelihood.types import LEVERS, TYPES, UNTUNED

Z_LIMIT, RMS_LIMIT = 5.0, 1.5  # of differences between methods, in standard errors
SLOW = 30.0  # draws over an autocorrelation time below which a standard error is not known
STUCK = 0.05  # acceptance below which a chain is told, not compared
GOAL = 4.0  # best lever against the baseline
FIVE = (1, 2, 3, 4, 5)


def oracle_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 7: what the oracle priors, the noise and the constant are worth."""
    claim, rows = "sensitivity to prior, noise and constant", []
    changes = {"prior": "centred", "noise": 0.2, "constant": 10.0}
    for found in types.values():
        changed = {
            k: found.settings[k] for k, default in changes.items() if found.settings[k] != default
        }
        base = next(
            (
                other for other in types.values()
                if other.data == found.data and other.settings["n"] == found.settings["n"]
                and all(other.settings[k] == v for k, v in changes.items())
            ),
            None,
        )  # fmt: skip
        if not changed or base is None or found.data not in TYPES:
            continue
        for method in (m for m in ("standard", "sod", "nystrom", "tempered") if m in found.methods):
            ours, error = mean_and_error([run["tau"] for run in found.of(method)])
            beside = (
                mean_and_error([run["tau"] for run in base.of(method)])
                if method in base.methods else (math.nan, math.nan)
            )  # fmt: skip
            words = ", ".join(f"{key}: {value}" for key, value in changed.items())
            rows.append(
                claim_row(
                    claim, found.name, f"ACT: {method}", unit="iterations", ours=ours, mcse=error,
                    verdict="shown", recomputed=beside[0],
                    why=f"{words}; recomputed: the same with the defaults, +- {beside[1]:.2g}",
                )
            )  # fmt: skip
    return rows or [
        missing_row(claim, "types with another prior, noise, constant", "types 1 and 2", "")
    ]


def lever_rows(types: dict[str, TypeRuns], faithful: dict[int, TypeRuns]) -> list[dict]:
    """Each lever against the baseline at its best; the best of them in the geometric mean.

    The baseline is standard slice sampling with tuned widths, or without a pilot where that costs less.
    """
    claim, rows, best = "beyond the paper: a lever beats tuned standard slice sampling", [], {}
    for found in types.values():
        base = _baseline(found)
        for method in (m for m in LEVERS if base and m in found.methods):
            row = below_one(
                claim, found, (method, base), "cost", "tau x pi-equivalents, pilots charged"
            )
            rows.append(row)
            centre, error = log_ratio(found, method, base, "cost")
            if math.isfinite(centre):
                best.setdefault(method, {})[found.name] = (centre, error)
    names = {number: found.name for number, found in faithful.items() if number in FIVE}
    claim = f"the best lever is {GOAL:g} times better in the geometric mean of types 1 to 5"
    if len(names) < len(FIVE):
        return [*rows, missing_row(claim, "types 1 to 5 at full size", "#1 to #5", "")]
    for method, ratios in best.items():
        if not set(names.values()) <= set(ratios):
            continue
        centres, errors = zip(*(ratios[name] for name in names.values()), strict=True)
        ours = math.exp(-np.mean(centres))
        error = ours * math.sqrt(sum(e * e for e in errors)) / len(errors)
        rows.append(
            claim_row(
                claim, "#1 to #5", f"baseline / {method}", printed=f">= {GOAL:g}", ours=ours,
                mcse=error, why="pilots charged at the iterations of the config",
                verdict="holds" if ours - 1.96 * error >= GOAL else "does not hold"
                if ours + 1.96 * error < GOAL else "not resolved",
            )
        )  # fmt: skip
    return rows


def _baseline(found: TypeRuns) -> str | None:
    """Standard slice sampling, tuned or without a pilot: the one of least cost with its pilot."""
    if "standard" not in found.methods:
        return None
    untuned, _ = log_ratio(found, UNTUNED, "standard", "cost")
    return UNTUNED if untuned < 0.0 else "standard"


def agreement_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """All methods have the same posterior: means of theta and of the log likelihood, in standard errors.

    On each data set all are compared with the one that mixes best; chains whose own error is not known, as
    they hardly move or are short for their autocorrelation time, are told.
    """
    claim, rows = "all methods draw from the same posterior", []
    for found in types.values():
        z, told, n = [], 0, (2 * found.settings["iterations"]) // 3
        for replicate in found.replicates:
            here = [replicate[method] for method in found.methods]
            known = [
                run
                for run in here
                if run["acceptance"] >= STUCK and max(run["theta_tau"]) <= n / SLOW
            ]
            told += len(here) - len(known)
            known.sort(key=lambda run: max(run["theta_tau"]))
            for run in known[1:]:
                for a, b in zip(_moments(run, n), _moments(known[0], n), strict=True):
                    z.append((a[0] - b[0]) / math.hypot(a[1], b[1]))
        if not z:
            continue
        rms, worst = float(np.sqrt(np.mean(np.square(z)))), float(np.max(np.abs(z)))
        holds = rms < RMS_LIMIT and worst < Z_LIMIT
        rows.append(
            claim_row(
                claim, found.name, "root mean square z", printed="1", ours=rms,
                tolerance=f"< {RMS_LIMIT:g}", verdict="holds" if holds else "does not hold",
                why=f"{len(z)} comparisons with the method that mixes best, largest |z| {worst:.2f}; "
                f"{told} chains left out, which mix too slowly for a standard error",
            )
        )  # fmt: skip
    return rows


def _moments(run: dict, n: int) -> list[tuple[float, float]]:
    """Mean and standard error of each coordinate and of the log likelihood."""
    pairs = [
        (mean, sd * math.sqrt(tau / n))
        for mean, sd, tau in zip(run["theta_mean"], run["theta_sd"], run["theta_tau"], strict=True)
    ]
    error = run["sd_log_likelihood"] * math.sqrt(run["tau"] / n)
    return [*pairs, (run["mean_log_likelihood"], error)]
