"""Which sampler to use: time to 100 effective samples, and joint split HMC beside the representations."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.studies.surrogate_slice.agreement import FEW, SLOW
from gpmcflow.studies.surrogate_slice.estimates import MethodRuns, ProblemRuns
from gpmcflow.studies.surrogate_slice.orders import above, label, missing_row
from gpmcflow.studies.surrogate_slice.settings import JOINT, REPRESENTATIONS

WANTED = 100.0  # effective samples
COLUMNS = [
    "problem", "method", "rank", "advice", "seconds_to_100", "seconds_to_100_mcse", "times_the_best",
    "seconds_before", "slowest_per_second", "slowest_per_second_mcse", "T_per_second",
    "T_per_second_mcse", "latents_per_second", "latents_per_second_mcse", "covariances_per_slowest",
    "chains",
]  # fmt: skip
CLAIM = "beyond the paper: joint split HMC is ahead of every representation per second"


def which_sampler_rows(problem: ProblemRuns) -> list[dict]:
    """The plain methods of a problem by CPU seconds to 100 effective samples of what mixes slowest.

    That is the least effective size (R-CODA's) among T, the coordinates of theta and the latent values, its
    mean over the chains; the time is that of burn-in, or of the pilot, and of the iterations. There is no
    time for a method with fewer than 30 effective samples in all chains, and it is rough below 100 a chain.
    """
    rows = [_row(problem, runs) for runs in problem.all(plain=True)]
    rows.sort(key=lambda row: (math.isnan(row["seconds_to_100"]), row["seconds_to_100"]))
    best = rows[0]["seconds_to_100"] if rows else math.nan
    for k, row in enumerate(rows):
        row["rank"], row["times_the_best"] = k + 1, row["seconds_to_100"] / best
        if not row["advice"].startswith("do not"):
            row["advice"] = ("use" if row["times_the_best"] < 2.0 else "slower") + row["advice"]
    return rows


def _row(problem: ProblemRuns, runs: MethodRuns) -> dict:
    slowest = np.array([least(chain) for chain in runs.chains])
    seconds = np.array([chain["seconds"] for chain in runs.chains])
    constructions = np.array([chain["n_cov"] for chain in runs.chains])
    known, rough = slowest.sum() >= FEW, slowest.sum() < SLOW * len(slowest)
    advice = f"do not use: {slowest.sum():.2g} effective samples in all chains"
    if known:
        advice = f"; rough: {slowest.mean():.2g} effective samples a chain" if rough else ""
    rate = mean_and_error(slowest / seconds)
    complete, latents = (
        mean_and_error(np.array([chain.get(name, np.nan) for chain in runs.chains]) / seconds)
        for name in ("ess", "latent_ess")
    )
    before = float(np.mean([_seconds_before(runs, chain) for chain in runs.chains]))
    return {
        "problem": problem.name, "method": runs.name, "rank": 0,
        "advice": advice, "seconds_to_100": before + WANTED / rate[0] if known else math.nan,
        "seconds_to_100_mcse": WANTED * rate[1] / rate[0] ** 2 if known else math.nan,
        "times_the_best": math.nan, "seconds_before": before,
        "slowest_per_second": rate[0], "slowest_per_second_mcse": rate[1],
        "T_per_second": complete[0], "T_per_second_mcse": complete[1],
        "latents_per_second": latents[0], "latents_per_second_mcse": latents[1],
        "covariances_per_slowest": float(constructions.sum() / slowest.sum()) if known else math.nan,
        "chains": len(runs.chains),
    }  # fmt: skip


def least(chain: dict) -> float:
    """Effective size of what a chain mixes slowest in, among T, theta and the latent values if known."""
    return min(chain["ess"], chain.get("latent_ess", math.inf), *chain["theta_ess"])


def _seconds_before(runs: MethodRuns, chain: dict) -> float:
    """CPU seconds before the first draw that is kept: pilot and burn-in."""
    per_iteration = chain["seconds"] / chain["iterations"]
    return chain.get("pilot_seconds", 0.0) + per_iteration * (runs.settings.get("warmup") or 0)


def joint_rows(problems: dict[str, ProblemRuns], paper: dict[str, str]) -> list[dict]:
    """Effective samples of T per second of joint split HMC over those of each representation that was run."""
    rows = []
    for problem in problems.values():
        joint = problem.plain(JOINT)
        others = [problem.plain(name) for name in REPRESENTATIONS]
        pairs = [(joint, other) for other in others if other is not None]
        if joint is not None and pairs:
            why = "burn-in and pilots are not counted"
            rows.append(above(CLAIM, label(problem, paper), pairs, "seconds", why=why))
    return rows or [missing_row(CLAIM, f"{JOINT} beside a representation")]
