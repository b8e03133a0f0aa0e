"""Claims in words of the split Hamiltonian paper, each a row with its uncertainty."""

from __future__ import annotations

import math

from gpmcflow.diagnostics.autocorrelation import is_underestimate
from gpmcflow.studies.verdict import verdict_row

STUDY, TABLE = "split_hmc", "claims"
Z = 1.96
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
    for problem, found in by_problem.items():
        rows += _order_rows(problem, found)
        rows += _independence_rows(problem, found)
        rows += _ranking_rows(problem, found)
        rows += _tuning_rows(problem, found, published)
        rows += _seconds_rows(problem, found)
    for problem, fit in fits.items():
        rows.append(
            _row(
                "a MAP costs less than a second", problem, "seconds", unit="s", printed="< 1",
                ours=fit["map_seconds"],
                verdict="holds" if fit["map_seconds"] < 1.0 else "does not hold",
                why=f"{fit['newton_steps']} damped Newton steps",
            )
        )  # fmt: skip
        if "ranking_differences" in fit:
            differ = fit["ranking_differences"]
            rows.append(
                _row(
                    "ranking by curvature at the MAP is the paper's rule", problem, "cases",
                    unit="cases", printed=0, ours=differ,
                    verdict="holds" if differ == 0 else "does not hold",
                    why="of R_0 at f = 0.4, not among those with the smallest |eta|",
                )
            )  # fmt: skip
    if bivariate is not None:
        rows += _bivariate_rows(bivariate)
    return rows


def _row(claim: str, problem: str, column: str, **cells) -> dict:
    return verdict_row(STUDY, table=TABLE, row=f"{claim}: {problem}", column=column, **cells)


def order(first: dict, second: dict, quantity: str) -> tuple[float, float, str]:
    """Ratio first / second of a quantity of two runs, its standard error, and how it compares with 1.

    "below", "above", or "not resolved" where the 95 % interval, on the log scale, includes 1, or an
    autocorrelation time is so long beside its batches that it is an underestimate. A run that never
    moved costs infinitely much.
    """
    if math.isinf(second[quantity]) and math.isfinite(first[quantity]):
        return 0.0, 0.0, "below"
    tau = quantity.rpartition("_")[0]
    if any(is_underestimate(run[tau], run["batch_length"]) for run in (first, second)):
        return first[quantity] / second[quantity], math.nan, "not resolved"
    a, b = first[quantity], second[quantity]
    if not (math.isfinite(a) and math.isfinite(b) and a > 0 and b > 0):
        return math.nan, math.nan, "not resolved"
    spread = math.hypot(first[f"{quantity}_mcse"] / a, second[f"{quantity}_mcse"] / b)
    distance = math.log(a / b)
    if not abs(distance) > Z * spread:
        return a / b, a / b * spread, "not resolved"
    return a / b, a / b * spread, "below" if distance < 0 else "above"


def _order_row(claim: str, problem: str, runs: dict, pair: tuple[str, str], quantity: str) -> dict:
    """Row of the claim that the first of a pair of methods costs less than the second."""
    ratio, error, found = order(runs[pair[0]], runs[pair[1]], quantity)
    verdict = {"below": "holds", "above": "does not hold"}.get(found, found)
    return _row(
        claim, problem, f"{quantity}: {pair[0]} / {pair[1]}", printed="< 1", ours=ratio,
        mcse=error, verdict=verdict,
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
    rows = []
    for run in runs.values():
        if run["sampler"] != "independence_metropolis":
            continue
        low = run["AP"] + Z * run["AP_mcse"] < LOW_ACCEPTANCE
        high = run["AP"] - Z * run["AP_mcse"] > LOW_ACCEPTANCE
        rows.append(
            _row(
                "independence Metropolis accepts below 10 %", problem, "AP", printed="< 0.10",
                ours=run["AP"], mcse=run["AP_mcse"],
                verdict="holds" if low else "does not hold" if high else "not resolved",
                why=f"{run['n_chains'] * run['n_iterations']} proposals from the Laplace normal",
            )
        )  # fmt: skip
    return rows


def _ranking_rows(problem: str, runs: dict) -> list[dict]:
    """Splitting by nearness to the boundary beats a random split."""
    if not {"data_split", "data_split_random"} <= set(runs):
        return []
    pair, claim = ("data_split", "data_split_random"), "nearness beats a random split"
    rows = [_order_row(claim, problem, runs, pair, "tau_g")]
    near, random = (runs[name] for name in pair)
    error = math.hypot(near["AP_mcse"], random["AP_mcse"])
    gain = near["AP"] - random["AP"]
    resolved = abs(gain) > Z * error
    rows.append(
        _row(
            claim, problem, "AP: difference", printed="> 0", ours=gain, mcse=error,
            verdict=("holds" if gain > 0 else "does not hold") if resolved else "not resolved",
            why=f"AP {near['AP']:.3f} and {random['AP']:.3f}",
        )
    )  # fmt: skip
    return rows


def _tuning_rows(problem: str, runs: dict, published: dict) -> list[dict]:
    """The pilot finds a step size with an acceptance close to 0.65."""
    rows = []
    for name, run in runs.items():
        if not run["tuned"]:
            continue
        low, high = TARGET_RANGE
        wanted = run["settings"]["method"].get("target_acceptance", 0.65)
        if wanted != 0.65:
            continue
        known = published["step_sizes"].get(run["dataset"])
        beside = f"; the paper has {known:g}" if known and run["sampler"] == "latent_hmc" else ""
        rows.append(
            _row(
                "a pilot tunes AP to about 0.65", f"{problem}, {name}", "AP",
                printed=f"{low} to {high}", ours=run["AP"], mcse=run["AP_mcse"],
                verdict="holds" if low <= run["AP"] <= high else "does not hold",
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


def _bivariate_rows(found: dict) -> list[dict]:
    """Metropolis with a large proposal beats a small one in two dimensions; HMC beats both."""
    rows = []
    for better, worse, claim in (
        ("rwm_large", "rwm_small", "in two dimensions a large Metropolis proposal beats a small"),
        ("hmc", "rwm_small", "HMC suppresses the random walk"),
    ):
        a, b = found[f"{better}_lag_1"], found[f"{worse}_lag_1"]
        error = math.hypot(found[f"{better}_lag_1_mcse"], found[f"{worse}_lag_1_mcse"])
        resolved = abs(a - b) > Z * error
        rows.append(
            _row(
                claim, "bivariate normal", f"lag-1 autocorrelation: {better} - {worse}",
                printed="< 0", ours=a - b, mcse=error,
                verdict=("holds" if a < b else "does not hold") if resolved else "not resolved",
                why=f"{a:.2f} and {b:.2f} after 20 gradients or 20 proposals",
            )
        )  # fmt: skip
    return rows
