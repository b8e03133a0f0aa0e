"""Claims in words of the evidence study, each beside what our runs say."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gpmcflow.figures.estimates import combine_replicates
from gpmcflow.studies.rmhmc_ais.parts import STUDY
from gpmcflow.studies.verdict import verdict_row

FAR_OFF = 5.0  # nats: a prior-started run this far from the reference is of no use
MATERIAL = 0.1  # nats: what an error has to exceed to matter here
JOINT = 3.0  # joint standard errors within which two estimates agree
MAX_BIAS = 3.0  # joint standard errors
MAX_IRREVERSIBLE = 1e-3  # share of transitions that do not return


def reference_estimate(estimates: pd.DataFrame, problem: str) -> dict | None:
    """Return the trusted run of a problem with the smallest standard error, None if there is none.

    Runs with a fixed number of fixed-point iterations are not exact, and never the reference.
    """
    rows = estimates[
        (estimates["problem"] == problem)
        & (estimates["direction"] == "forward")
        & (estimates["fixed_iters"] == 0)
    ]
    if rows.empty:
        return None
    points = combine_replicates(rows)
    trusted = points[(points["alarm"] == "") & points["standard_error"].notna()]
    return None if trusted.empty else trusted.loc[trusted["standard_error"].idxmin()].to_dict()


def claim_rows(fits: pd.DataFrame, estimates: pd.DataFrame) -> list[dict]:
    """The claims this study's runs can resolve, a few rows for each problem."""
    rows = []
    for problem in fits["problem"]:
        best = reference_estimate(estimates, problem)
        if best is None:
            continue
        forward = (estimates["problem"] == problem) & (estimates["direction"] == "forward")
        mine = estimates[forward]
        points = combine_replicates(mine)
        points["fixed_iters"] = points["method"].map(mine.groupby("method")["fixed_iters"].first())
        rows += _agreement(problem, points, best)
        rows += _alarms(problem, points, best)
        rows += _fixed_iterations(problem, mine, points)
        rows += _prior_start(problem, points, best)
        rows += _automatic_tuning(problem, mine, points)
    return rows


def _distance(point: pd.Series, best: dict) -> tuple[float, float]:
    """Distance from the reference run and its joint standard error."""
    joint = float(np.hypot(point["standard_error"], best["standard_error"]))
    return float(point["log_evidence"] - best["log_evidence"]), joint


def _agreement(problem: str, points: pd.DataFrame, best: dict) -> list[dict]:
    """All trusted methods agree with the best one within 3 joint standard errors."""
    rows = []
    for method, runs in points[points["fixed_iters"] == 0].groupby("method"):
        longest = runs.loc[runs["n_temperatures"].idxmax()]
        if longest["alarm"] or method == best["method"]:
            continue
        distance, joint = _distance(longest, best)
        rows.append(
            verdict_row(
                STUDY,
                table="methods agree",
                row=problem,
                column=f"{method} minus {best['method']}",
                unit="nat",
                ours=distance,
                mcse=joint,
                tolerance=JOINT * joint,
                verdict="agrees" if abs(distance) <= JOINT * joint else "differs",
                why="both estimate the same evidence; tolerance is 3 joint standard errors",
            )
        )
    return rows


def _alarms(problem: str, points: pd.DataFrame, best: dict) -> list[dict]:
    """No estimate is far off without an alarm."""
    off, silent = 0, []
    for _, point in points.iterrows():
        distance, joint = _distance(point, best)
        if not abs(distance) <= max(JOINT * joint, MATERIAL):
            off += 1
            if not point["alarm"]:
                silent.append(f"{point['method']} at {point['n_temperatures']:g}")
    told = f"silent: {', '.join(silent)}" if silent else "each of them raised its alarm"
    return [
        verdict_row(
            STUDY,
            table="an estimate that is off says so",
            row=problem,
            column=f"silent among {off} of {len(points)} estimates that are off",
            unit="estimates",
            ours=len(silent),
            verdict="does not hold" if silent else "holds",
            why=f"off: more than {MATERIAL:g} nats and 3 joint standard errors from "
            f"{best['method']}; {told}",
        )
    ]


def _fixed_iterations(problem: str, mine: pd.DataFrame, points: pd.DataFrame) -> list[dict]:
    """Claim 2: five or six fixed-point iterations suffice."""
    rows = []
    for method, runs in points[points["fixed_iters"] > 0].groupby("method"):
        partner = points[points["method"] == str(method).split("_fixed")[0]]
        shared = set(runs["n_temperatures"]) & set(partner["n_temperatures"])
        if not shared:
            continue
        fixed, converged = (p[p["n_temperatures"] == max(shared)].iloc[0] for p in (runs, partner))
        bias = float(fixed["log_evidence"] - converged["log_evidence"])
        joint = float(np.hypot(fixed["standard_error"], converged["standard_error"]))
        share = float(mine.loc[mine["method"] == method, "irreversible"].max())
        returns = share <= MAX_IRREVERSIBLE
        resolved = not (fixed["alarm"] or converged["alarm"] or np.isnan(share)) or not returns
        fine = returns and abs(bias) <= MAX_BIAS * joint
        rows.append(
            verdict_row(
                STUDY,
                table="claim 2: five or six fixed-point iterations suffice",
                row=problem,
                column=f"{method}, {max(shared)} temperatures",
                unit="nat",
                ours=bias,
                mcse=joint,
                tolerance=MAX_BIAS * joint,
                verdict=("holds" if fine else "does not hold") if resolved else "not resolved",
                why=f"{100 * share:.3g} % of trajectories at beta = 1 do not return to their start "
                f"(at most {100 * MAX_IRREVERSIBLE:g} % wanted); log evidence minus that of "
                "converged iterations",
            )
        )
    return rows


def _prior_start(problem: str, points: pd.DataFrame, best: dict) -> list[dict]:
    """Claim 3: whitened annealing from the prior is far off and says so, the EP start repairs it."""
    annealed = points[(points["sampler"] == "hmc") & (points["coordinates"] == "reference")]
    prior = annealed[annealed["reference"] == "prior"]
    repaired = points[(points["reference"] == "ep") & (points["sampler"] != "none")]
    rows = []
    for _, run in prior.iterrows():
        cheap = repaired[
            (repaired["n_temperatures"] == run["n_temperatures"])
            & (repaired["n_gradient"] <= 1.5 * run["n_gradient"])
            & (repaired["sampler"] != "rmhmc")
        ]
        if cheap.empty:
            continue
        partner = cheap.loc[cheap["standard_error"].idxmin()]
        off, _ = _distance(run, best)
        gap, joint = _distance(partner, best)
        holds = off < -FAR_OFF and bool(run["alarm"]) and abs(gap) <= JOINT * joint
        rows.append(
            verdict_row(
                STUDY,
                table="claim 3: a prior start is out of bounds, an EP start repairs it",
                row=problem,
                column=f"{run['method']}, {run['n_temperatures']} temperatures",
                unit="nat",
                ours=off,
                mcse=run["standard_error"],
                tolerance=FAR_OFF,
                verdict="holds" if holds else "does not hold",
                why=f"prior start off by {off:.2f} ({run['alarm'] or 'no alarm'}); "
                f"EP start at no more than 1.5 times the cost off by {gap:.2f} +- {joint:.2f}",
            )
        )
    return rows


def _automatic_tuning(problem: str, mine: pd.DataFrame, points: pd.DataFrame) -> list[dict]:
    """Claim 4: the pilot's step sizes cost at most 1.5 times the hand-tuned ones for the same error."""
    rows = []
    for method, runs in points.groupby("method"):
        automatic = points[points["method"] == str(method).removesuffix("_hand")]
        if not str(method).endswith("_hand") or automatic.empty:
            continue
        t = max(set(runs["n_temperatures"]) & set(automatic["n_temperatures"]), default=None)
        if t is None:
            continue
        by_hand, tuned = (p[p["n_temperatures"] == t].iloc[0] for p in (runs, automatic))
        cost = {  # the sums hold the pilot's gradients, which only the automatic one needs
            "hand": by_hand["n_gradient"] * by_hand["standard_error"] ** 2,
            "auto": tuned["n_gradient"] * tuned["standard_error"] ** 2,
        }
        charged = mine[(mine["method"] == method)]["pilot_gradient"].max()
        cost["hand"] -= charged * by_hand["standard_error"] ** 2
        ratio = cost["auto"] / cost["hand"]
        trusted = not (by_hand["alarm"] or tuned["alarm"])
        verdict = ("holds" if ratio <= 1.5 else "does not hold") if trusted else "not resolved"
        rows.append(
            verdict_row(
                STUDY,
                table="claim 4: automatic tuning within 1.5 of the hand-tuned cost",
                row=problem,
                column=str(method).removesuffix("_hand"),
                unit="ratio",
                ours=ratio,
                tolerance=1.5,
                verdict=verdict,
                why=f"gradients times squared standard error at {t} temperatures, pilot included",
            )
        )
    return rows


def hardest_setting_rows(part: dict, fits: pd.DataFrame) -> list[dict]:
    """Claim 1: is the study's setting the hardest of the grid, by correction and by sd of u under q?"""
    lengths, signals = np.array(part["log_length_scale"]), np.array(part["log_signal_sd"])
    rows = []
    for _, fit in fits[fits["dataset"] == part["dataset"]].iterrows():
        i = np.flatnonzero(np.isclose(lengths, float(fit["log_length_scale"])))
        j = np.flatnonzero(np.isclose(signals, float(fit["log_signal_sd"])))
        if not (len(i) and len(j)):
            continue
        for name, label in (
            ("correction", "second-order correction"),
            ("ratio_sd", "sd of u under q"),
        ):
            values = np.array(part[name], dtype=float)
            here, largest = values[i[0], j[0]], np.nanmax(values)
            k, m = np.unravel_index(np.nanargmax(values), values.shape)
            rows.append(
                verdict_row(
                    STUDY,
                    table="claim 1: the setting is the hardest of the grid",
                    row=fit["problem"],
                    column=label,
                    unit="nat",
                    recomputed=float(largest),
                    ours=float(here),
                    verdict="holds" if here >= largest else "does not hold",
                    why=f"largest at log length scale {lengths[k]:g}, log signal sd {signals[m]:g}",
                )
            )
    return rows
