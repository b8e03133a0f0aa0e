"""Claims in words of the split Hamiltonian paper, each a row with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import replace

from gpmcflow.diagnostics.autocorrelation import SHORTEST_CHAIN, is_too_short
from gpmcflow.jobs.judgement import Estimate, side, verdict, within
from gpmcflow.replications.split_hmc.parts import STUDY
from gpmcflow.replications.verdict import verdict_row

TABLE = "claims"
LOW_ACCEPTANCE = 0.10
TARGET_RANGE = (0.62, 0.70)


def claim_rows(
    runs: list[dict], fits: dict[str, dict], bivariate: dict | None, published: dict
) -> list[dict]:
    """Rows of all claims that the runs at hand bear on."""
    rows, methods_of = [], {}
    for run in runs:
        methods_of.setdefault(run["problem"], {})[run["method"]] = run
    for problem, methods in methods_of.items():
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


def _judged(claim: str, problem: str, column: str, ours: Estimate, *claims, **cells) -> dict:
    """Row of a claim about an estimate."""
    judged = ours.cells() | {"verdict": verdict(*claims)}
    return _row(claim, problem, column, **judged, **cells)


def estimate(run: dict, quantity: str) -> Estimate:
    """Mean of a quantity over the chains of a run."""
    return Estimate(run[quantity], run[f"{quantity}_mcse"], run["n_chains"] - 1)


def ratio(first: dict, second: dict, time: str) -> Estimate:
    """Log of the ratio first / second of a cost of two runs: a time ("tau", "tau_beta") times gradients.

    Times are by the initial positive sequence: the claim is about the samplers, and batch means, by
    which the paper's numbers are, have up to five times its error. The error is not known where a
    chain is too short for its time. A run that never moved costs infinitely much.
    """
    times = [estimate(run, f"{time}_ips").log() for run in (first, second)]
    log_ratio = times[0].minus(times[1])
    log_ratio = replace(log_ratio, centre=log_ratio.centre + math.log(first["g"] / second["g"]))
    unknown = any(is_too_short(run["n_iterations"], run[f"{time}_ips"]) for run in (first, second))
    return replace(log_ratio, error=math.nan) if unknown else log_ratio


def _order_row(claim: str, problem: str, runs: dict, pair: tuple[str, str], time: str) -> dict:
    """Row of the claim that the first of a pair of methods costs less than the second."""
    log_ratio = ratio(runs[pair[0]], runs[pair[1]], time)
    column, less = f"{time}_g: {pair[0]} / {pair[1]}", (side(log_ratio, 0.0), "below")
    why = (
        "95 % interval of the ratio against 1; times by the initial positive sequence, of chains of "
        f"at least {SHORTEST_CHAIN:.0f} of them"
    )
    return _judged(claim, problem, column, log_ratio.exp(), less, printed="< 1", why=why)


def _order_rows(problem: str, runs: dict) -> list[dict]:
    """Splitting costs fewer gradients per effective draw than standard HMC; others beside it."""
    claims = dict.fromkeys(("split", "split_fixed", "data_split"), "splitting beats HMC")
    claims |= dict.fromkeys(("preconditioned_split", "independence"), "no claim, for comparison")
    return [
        _order_row(claim, problem, runs, (method, "hmc"), time)
        for method, claim in claims.items()
        if method in runs and "hmc" in runs
        for time in ("tau", "tau_beta")
    ]


def _independence_rows(problem: str, runs: dict) -> list[dict]:
    """The Laplace normal as an independent proposal is accepted in less than 10 % of cases."""
    claim, rows = "independence Metropolis accepts below 10 %", []
    for run in runs.values():
        if run["sampler"] == "independence_metropolis":
            rate = estimate(run, "AP")
            low = (side(rate, LOW_ACCEPTANCE), "below")
            why = f"{run['n_chains'] * run['n_iterations']} proposals from the Laplace normal"
            rows.append(_judged(claim, problem, "AP", rate, low, printed="< 0.10", why=why))
    return rows


def _ranking_rows(problem: str, runs: dict) -> list[dict]:
    """Splitting by nearness to the boundary beats a random split."""
    if not {"data_split", "data_split_random"} <= set(runs):
        return []
    pair, claim = ("data_split", "data_split_random"), "nearness beats a random split"
    near, random = (estimate(runs[name], "AP") for name in pair)
    gain, why = near.minus(random), f"AP {near.centre:.3f} and {random.centre:.3f}"
    more = (side(gain, 0.0), "above")
    return [
        _order_row(claim, problem, runs, pair, "tau"),
        _judged(claim, problem, "AP: difference", gain, more, printed="> 0", why=why),
    ]


def _tuning_rows(problem: str, runs: dict, published: dict) -> list[dict]:
    """The pilot finds a step size with an acceptance close to 0.65."""
    claim, text, rows = "a pilot tunes AP to about 0.65", "{} to {}".format(*TARGET_RANGE), []
    for name, run in runs.items():
        if not run["tuned"] or run["settings"]["method"].get("target_acceptance", 0.65) != 0.65:
            continue
        printed = published["step_sizes"].get(run["dataset"])
        in_paper = printed and run["sampler"] == "latent_hmc"
        beside = f"; the paper has {printed:g}" if in_paper else ""
        why = f"largest step size {run['step_size']:.4g}{beside}"
        rate, row = estimate(run, "AP"), f"{problem}, {name}"
        close = (within(rate, *TARGET_RANGE), "within")
        rows.append(_judged(claim, row, "AP", rate, close, printed=text, why=why))
    return rows


def _seconds_rows(problem: str, runs: dict) -> list[dict]:
    """Seconds per iteration beside gradients per iteration, relative to HMC."""
    if "hmc" not in runs:
        return []
    base, rows = runs["hmc"], []
    for name, run in runs.items():
        if name in ("split", "split_fixed", "data_split"):
            gradients, seconds = (run[cost] / base[cost] for cost in ("g", "s"))
            cells = {"recomputed": round(gradients, 3), "ours": seconds}
            cells |= {"verdict": "machine-dependent", "why": "recomputed: ratio of the gradients g"}
            rows.append(_row("seconds follow gradients", problem, f"s: {name} / hmc", **cells))
    return rows


def _fit_rows(problem: str, fit: dict) -> list[dict]:
    """Time of a fit, and its ranking of the cases."""
    seconds, differences = fit["map_seconds"], fit.get("ranking_differences")
    cells = {"unit": "s", "printed": "< 1", "ours": seconds, "verdict": verdict(seconds < 1.0)}
    cells["why"] = f"{fit['newton_steps']} damped Newton steps"
    rows = [_row("a MAP costs less than a second", problem, "seconds", **cells)]
    if differences is not None:
        cells = {"printed": 0, "ours": differences, "verdict": verdict(differences == 0)}
        cells["why"] = "of R_0 at f = 0.4, not among those with the smallest |eta|"
        claim = "ranking by curvature at the MAP is the paper's rule"
        rows.append(_row(claim, problem, "cases", unit="cases", **cells))
    return rows


def _bivariate_rows(samplers: dict) -> list[dict]:
    """Metropolis with a large proposal beats a small one in two dimensions; HMC beats both."""
    claims = {
        "rwm_large": "in two dimensions a large Metropolis proposal beats a small",
        "hmc": "HMC suppresses the random walk",
    }
    rows, worse, row = [], estimate(samplers, "rwm_small_lag_1"), "bivariate normal"
    for name, claim in claims.items():
        better = estimate(samplers, f"{name}_lag_1")
        gain, why = better.minus(worse), f"{better.centre:.2f} and {worse.centre:.2f}"
        less, column = (side(gain, 0.0), "below"), f"lag-1 autocorrelation: {name} - rwm_small"
        why += " after 20 gradients or 20 proposals"
        rows.append(_judged(claim, row, column, gain, less, printed="< 0", why=why))
    return rows
