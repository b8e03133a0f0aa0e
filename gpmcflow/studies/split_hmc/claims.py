"""Claims in words of the split Hamiltonian paper, each a row with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import replace

from gpmcflow.diagnostics.autocorrelation import is_underestimate
from gpmcflow.studies.frame.judgement import Estimate, side, verdict, within
from gpmcflow.studies.split_hmc.parts import STUDY
from gpmcflow.studies.verdict import verdict_row

TABLE = "claims"
LOW_ACCEPTANCE = 0.10
TARGET_RANGE = (0.62, 0.70)


def claim_rows(
    runs: list[dict], fits: dict[str, dict], bivariate: dict | None, published: dict
) -> list[dict]:
    """Rows of all claims that the runs at hand bear on."""
    by_problem: dict[str, dict[str, dict]] = {}
    for run in runs:
        by_problem.setdefault(run["problem"], {})[run["method"]] = run
    rows = []
    for problem, methods in by_problem.items():
        rows += _order_rows(problem, methods)
        rows += _independence_rows(problem, methods)
        rows += _ranking_rows(problem, methods)
        rows += _tuning_rows(problem, methods, published)
        rows += _seconds_rows(problem, methods)
    for problem, fit in fits.items():
        rows += _fit_rows(problem, fit)
    return rows + (_bivariate_rows(bivariate) if bivariate is not None else [])


def _row(claim: str, problem: str, column: str, **cells) -> dict:
    return verdict_row(STUDY, table=TABLE, row=f"{claim}: {problem}", column=column, **cells)


def estimate(run: dict, quantity: str) -> Estimate:
    """Mean of a quantity over the chains of a run."""
    return Estimate(run[quantity], run[f"{quantity}_mcse"], run["n_chains"] - 1)


def ratio(first: dict, second: dict, quantity: str) -> Estimate:
    """Log of the ratio first / second of a cost of two runs.

    Its error is not known where an autocorrelation time is so long beside its batches that it is an
    underestimate. A run that never moved costs infinitely much.
    """
    log_ratio = estimate(first, quantity).log().minus(estimate(second, quantity).log())
    tau = quantity.rpartition("_")[0]
    unknown = any(is_underestimate(run[tau], run["batch_length"]) for run in (first, second))
    return replace(log_ratio, error=math.nan) if unknown else log_ratio


def _order_row(claim: str, problem: str, runs: dict, pair: tuple[str, str], quantity: str) -> dict:
    """Row of the claim that the first of a pair of methods costs less than the second."""
    log_ratio = ratio(runs[pair[0]], runs[pair[1]], quantity)
    return _row(
        claim, problem, f"{quantity}: {pair[0]} / {pair[1]}", printed="< 1",
        **log_ratio.exp().cells(), verdict=verdict((side(log_ratio, 0.0), "below")),
        why="95 % interval of the ratio against 1, batches of at least five autocorrelation times",
    )  # fmt: skip


def _order_rows(problem: str, runs: dict) -> list[dict]:
    """Splitting costs fewer gradients per effective draw than standard HMC; others beside it."""
    claims = dict.fromkeys(("split", "split_fixed", "data_split"), "splitting beats HMC")
    claims |= dict.fromkeys(("preconditioned_split", "independence"), "no claim, for comparison")
    return [
        _order_row(claim, problem, runs, (method, "hmc"), quantity)
        for method, claim in claims.items()
        if method in runs and "hmc" in runs
        for quantity in ("tau_g", "tau_beta_g")
    ]


def _independence_rows(problem: str, runs: dict) -> list[dict]:
    """The Laplace normal as an independent proposal is accepted in less than 10 % of cases."""
    return [
        _row(
            "independence Metropolis accepts below 10 %", problem, "AP", printed="< 0.10",
            **estimate(run, "AP").cells(),
            verdict=verdict((side(estimate(run, "AP"), LOW_ACCEPTANCE), "below")),
            why=f"{run['n_chains'] * run['n_iterations']} proposals from the Laplace normal",
        )
        for run in runs.values() if run["sampler"] == "independence_metropolis"
    ]  # fmt: skip


def _ranking_rows(problem: str, runs: dict) -> list[dict]:
    """Splitting by nearness to the boundary beats a random split."""
    if not {"data_split", "data_split_random"} <= set(runs):
        return []
    pair, claim = ("data_split", "data_split_random"), "nearness beats a random split"
    near, random = (estimate(runs[name], "AP") for name in pair)
    gain = near.minus(random)
    return [
        _order_row(claim, problem, runs, pair, "tau_g"),
        _row(
            claim, problem, "AP: difference", printed="> 0", **gain.cells(),
            verdict=verdict((side(gain, 0.0), "above")),
            why=f"AP {near.centre:.3f} and {random.centre:.3f}",
        ),
    ]  # fmt: skip


def _tuning_rows(problem: str, runs: dict, published: dict) -> list[dict]:
    """The pilot finds a step size with an acceptance close to 0.65."""
    rows = []
    for name, run in runs.items():
        if not run["tuned"] or run["settings"]["method"].get("target_acceptance", 0.65) != 0.65:
            continue
        printed = published["step_sizes"].get(run["dataset"])
        in_paper = printed and run["sampler"] == "latent_hmc"
        beside = f"; the paper has {printed:g}" if in_paper else ""
        rows.append(
            _row(
                "a pilot tunes AP to about 0.65", f"{problem}, {name}", "AP",
                printed="{} to {}".format(*TARGET_RANGE), **estimate(run, "AP").cells(),
                verdict=verdict((within(estimate(run, "AP"), *TARGET_RANGE), "within")),
                why=f"largest step size {run['step_size']:.4g}{beside}",
            )
        )  # fmt: skip
    return rows


def _seconds_rows(problem: str, runs: dict) -> list[dict]:
    """Seconds per iteration beside gradients per iteration, relative to HMC."""
    if "hmc" not in runs:
        return []
    base = runs["hmc"]
    return [
        _row(
            "seconds follow gradients", problem, f"s: {name} / hmc",
            recomputed=round(run["g"] / base["g"], 3), ours=run["s"] / base["s"],
            verdict="machine-dependent", why="recomputed: ratio of the gradients g",
        )
        for name, run in runs.items()
        if name in ("split", "split_fixed", "data_split")
    ]  # fmt: skip


def _fit_rows(problem: str, fit: dict) -> list[dict]:
    """Time of a fit, and its ranking of the cases."""
    rows = [
        _row(
            "a MAP costs less than a second", problem, "seconds", unit="s", printed="< 1",
            ours=fit["map_seconds"], verdict=verdict(fit["map_seconds"] < 1.0),
            why=f"{fit['newton_steps']} damped Newton steps",
        )
    ]  # fmt: skip
    if "ranking_differences" in fit:
        rows.append(
            _row(
                "ranking by curvature at the MAP is the paper's rule", problem, "cases",
                unit="cases", printed=0, ours=fit["ranking_differences"],
                verdict=verdict(fit["ranking_differences"] == 0),
                why="of R_0 at f = 0.4, not among those with the smallest |eta|",
            )
        )  # fmt: skip
    return rows


def _bivariate_rows(samplers: dict) -> list[dict]:
    """Metropolis with a large proposal beats a small one in two dimensions; HMC beats both."""
    rows = []
    for better, worse, claim in (
        ("rwm_large", "rwm_small", "in two dimensions a large Metropolis proposal beats a small"),
        ("hmc", "rwm_small", "HMC suppresses the random walk"),
    ):
        a, b = (
            Estimate(
                samplers[f"{name}_lag_1"], samplers[f"{name}_lag_1_mcse"], samplers["n_chains"] - 1
            )
            for name in (better, worse)
        )
        rows.append(
            _row(
                claim, "bivariate normal", f"lag-1 autocorrelation: {better} - {worse}",
                printed="< 0", **a.minus(b).cells(),
                verdict=verdict((side(a.minus(b), 0.0), "below")),
                why=f"{a.centre:.2f} and {b.centre:.2f} after 20 gradients or 20 proposals",
            )
        )  # fmt: skip
    return rows
