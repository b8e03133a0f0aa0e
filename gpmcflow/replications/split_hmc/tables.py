"""Tables of the split HMC paper: its claims and verdicts.

They are made of parts, one for each finished run (of `READERS`), so that they can be rebuilt from parts that
were kept where the runs were not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

from gpmcflow.diagnostics.autocorrelation import (
    SHORTEST_CHAIN,
    batch_length,
    batch_means_time,
    initial_positive_sequence_time,
    is_too_short,
    is_underestimate,
    mean_and_error,
)
from gpmcflow.jobs.parts import make_part, rows_of
from gpmcflow.replications.judgement import (
    NUMBER,
    PRECISION,
    TIME_PRECISION,
    Estimate,
    is_zero,
    number_cells,
    printed_row,
    reason_of,
    side,
    verdict,
    verdict_row,
    verdict_table,
    within,
)
from gpmcflow.storage import load_results, open_results, read_sidecar

STUDY = "split_hmc"

# name in the row -> variable of the trace; tau_theta is of |theta|^2, the intercept included
SERIES = {"tau": "sum_log_likelihood", "tau_beta": "squared_slopes", "tau_theta": "squared_norm"}


def chain_part(path: str | Path) -> dict:
    """Row of one run: estimates averaged over chains with standard errors, counts, seconds, origin.

    AP, autocorrelation times (batch means tau, tau_beta, tau_theta, in iterations; the initial
    positive sequence as ``*_ips``), effective sizes of all draws by ArviZ, g = gradients an
    iteration, s = CPU seconds an iteration of one chain, their products with standard errors, means
    of the log likelihood and of the sum of squared slopes.
    """
    tree = open_results(path)
    trace = tree["trace"].to_dataset().load()
    settings = tree["settings"].to_dataset().load()
    wanted = json.loads(tree["settings"].attrs["settings"])["method"]
    g, s = float(trace["n_gradient"].mean()), float(read_sidecar(path)["seconds"]["iteration"])
    row = {
        "dataset": tree.attrs["dataset"],
        "sampler": wanted["sampler"],
        "flow": wanted.get("flow", ""),
        "order": wanted.get("order", ""),
        "tuned": bool("pilot_acceptance" in settings),
        "n_cases": int(settings["n_cases"]),
        "dim": int(settings["dim"]),
        "n_chains": trace.sizes["chain"],
        "n_iterations": trace.sizes["iteration"],
        "batch_length": batch_length(trace.sizes["iteration"]),
    }
    for name in ("step_size", "largest_angle", "smallest_angle", "inner_angle", "fast_cases"):
        row[name] = float(settings[name]) if name in settings else ""
    row |= {"L": int(settings["n_steps"]), "g": g, "s": s}
    accepted = trace["accepted"].values
    _add(row, "AP", accepted.mean(1))
    row["longest_stay"] = max(map(longest_stay, accepted))
    for name, variable in SERIES.items():
        values = trace[variable].values
        tau = batch_means_time(values)
        _add(row, name, tau)
        _add(row, f"{name}_ips", initial_positive_sequence_time(values))
        for unit, cost in (("g", g), ("s", s)):
            _add(row, f"{name}_{unit}", tau * cost)
        row[f"{name}_ess"] = float(array_stats.ess(values, chain_axis=0, draw_axis=1))
        _add(row, f"mean_{variable.removeprefix('sum_')}", values.mean(1))
    return make_part(STUDY, "chains", path, tree["settings"].attrs, row)


def longest_stay(accepted: np.ndarray) -> int:
    """Longest run of rejections in a row of acceptances (iteration,): a chain that sticks."""
    moves = np.flatnonzero(accepted)
    return int(np.diff(moves, prepend=-1, append=len(accepted)).max() - 1)


def fit_part(path: str | Path) -> dict:
    """Row of one fit: the mode, how long it took, and the range of frequencies."""
    tree = open_results(path)
    mode = tree["map"].to_dataset().load()
    frequency = mode["frequency"].values
    row = {
        "dataset": tree.attrs["dataset"],
        "smallest_frequency": float(frequency[0]),
        "largest_frequency": float(frequency[-1]),
        "map_seconds": float(read_sidecar(path)["seconds"]["map"]),
        "newton_steps": int(mode["iterations"]),
    }
    if "approximation" in tree:
        row["ranking_differences"] = int(tree["approximation/ranking_differences"])
    names = ("potential", "log_likelihood", "squared_slopes")
    row |= {name: float(mode[name]) for name in names}
    return make_part(STUDY, "fit", path, tree.attrs, row, problem=Path(path).parent.name)


def illustrations_part(path: str | Path) -> dict:
    """Row of the bivariate normal: acceptance and lag-1 autocorrelation of each sampler."""
    tree = load_results(path)
    bivariate = tree["bivariate"].to_dataset()
    row: dict = {"n_chains": bivariate.sizes["chain"]}
    for method in bivariate["method"].values:
        for name in ("acceptance", "lag_1"):
            _add(row, f"{method}_{name}", bivariate[name].sel({"method": method}).values)
    return make_part(STUDY, "illustrations", path, tree.attrs, row, problem="bivariate normal")


def _add(row: dict, name: str, by_chain: np.ndarray) -> None:
    """Mean over chains and its standard error; where a chain never moved, inf and nan."""
    mean, error = mean_and_error(by_chain)
    row[name], row[f"{name}_mcse"] = float(mean), float(error)


READERS = {
    f"{STUDY}/*/fit.nc": fit_part,
    f"{STUDY}/illustrations.nc": illustrations_part,
    f"{STUDY}/*/*.nc": chain_part,
}


# Claims in words of the split Hamiltonian paper, each a row with its uncertainty.

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
    return verdict_row(table=TABLE, row=f"{claim}: {problem}", column=column, **cells)


def _judged_claim(claim: str, problem: str, column: str, ours: Estimate, *claims, **cells) -> dict:
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
    return _judged_claim(claim, problem, column, log_ratio.exp(), less, printed="< 1", why=why)


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
            rows.append(_judged_claim(claim, problem, "AP", rate, low, printed="< 0.10", why=why))
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
        _judged_claim(claim, problem, "AP: difference", gain, more, printed="> 0", why=why),
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
        rows.append(_judged_claim(claim, row, "AP", rate, close, printed=text, why=why))
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
        rows.append(_judged_claim(claim, row, column, gain, less, printed="< 0", why=why))
    return rows


# Tables of the split Hamiltonian study: all runs, and the verdict on printed numbers and claims.

REFERENCE = "independent computation"
# a product and its factors in the same row of the paper's tables
PRODUCTS = {f"{tau}_{cost}": (tau, cost) for tau in ("tau", "tau_beta") for cost in ("g", "s")}
UNITS = {"L": "steps", "g": "gradients", "s": "s", "AP": ""}
for _tau in ("tau", "tau_beta"):
    UNITS |= {_tau: "iterations", f"{_tau}_g": UNITS["g"], f"{_tau}_s": UNITS["s"]}
SECONDS = "CPU seconds of one chain among {} in lockstep, one BLAS thread"
MACHINE = ("s", "tau_s", "tau_beta_s")
FIRST_COLUMNS = [
    *("problem", "method", "step_size", "L", "g", "AP", "AP_mcse", "tau", "tau_mcse", "tau_beta"),
    *("tau_beta_mcse", "tau_g", "tau_g_mcse", "tau_beta_g", "tau_beta_g_mcse", "s"),
]


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the parts and the printed numbers."""
    parts = list(parts)
    runs = rows_of(parts, "chains")
    fits = {fit["problem"]: fit for fit in rows_of(parts, "fit")}
    bivariate = next(iter(rows_of(parts, "illustrations")), None)
    rows = []
    for dataset, printed in published["tables"].items():
        here = {run["method"]: run for run in runs if run["dataset"] == dataset}
        if here or any(fit["dataset"] == dataset for fit in fits.values()):
            rows += _printed_rows(dataset, printed, here, published)
            rows += _reference_rows(dataset, printed["row"], here, published)
    for fit in fits.values():
        rows += _mode_rows(fit, published)
    rows += claim_rows(runs, fits, bivariate, published)
    for run in runs:
        run |= _times_beside(run)
        printed = published["tables"].get(run["dataset"], {}).get(run["method"], {})
        for column in ("tau_g", "tau_beta_g"):
            run[f"printed_{column}"] = printed.get(column, math.nan)
    table = pd.DataFrame(runs).drop(columns="settings", errors="ignore")
    first = [name for name in FIRST_COLUMNS if name in table]
    table = table[[*first, *table.columns.difference(first, sort=False)]]
    return {"runs": table, "verdict": verdict_table(STUDY, rows)}


def _times_beside(run: dict) -> dict:
    """Times from ArviZ's effective sizes beside those of batch means, and which of these are too low."""
    n_draws = run["n_chains"] * run["n_iterations"]
    times = {  # of a chain that never moved ArviZ has an effective size
        f"{name}_arviz": n_draws / run[f"{name}_ess"] if math.isfinite(run[name]) else math.inf
        for name in SERIES
    }
    low = [name for name in SERIES if is_underestimate(run[name], run["batch_length"])]
    return times | {"underestimates": " ".join(low)}


def _printed_rows(dataset: str, printed: dict, runs: dict, published: dict) -> list[dict]:
    """Every cell of one data set's part of Tables 1 and 2."""
    rows = []
    for method in ("hmc", "split_fixed", "data_split"):
        for column, unit in UNITS.items():
            known = {
                "table": printed["table"],
                "row": f"{printed['row']}, {method}",
                "column": column,
                "unit": unit,
                "printed": printed[method][column],
                "recomputed": _recomputed(printed[method], method, column),
            }
            run, where = runs.get(method), {"dataset": dataset, "method": method, "column": column}
            why = reason_of(published, **where)
            cells = run and _judged(run, known, column, why, published["tolerances"])
            missing = f"no run of {method} on {dataset}"
            rows.append(printed_row(known, cells, missing, why))
    return rows


def _judged(run: dict, known: dict, column: str, why: str, tolerances: dict) -> dict:
    """One printed cell beside ours."""
    ours, value = run[column], known["printed"]
    if column in MACHINE:
        error, note = run.get(f"{column}_mcse", ""), why or SECONDS.format(run["n_chains"])
        return {"ours": ours, "mcse": error, "verdict": "machine-dependent", "why": note}
    if column in ("L", "g"):
        # |R_0| is a whole number of cases: g differs from (f M + 1 - f) L by less than L M / n
        allowed = {"value": 0.05 if column == "g" else 0.0, "why": "a count"}
        return number_cells(Estimate(ours), value, allowed)
    cells = _number_cells(run, column, value, tolerances)
    if cells["verdict"] == "differs" and column.startswith("tau_beta"):
        cells |= _with_intercept(run, column, value, tolerances)
    if cells["verdict"] == "agrees" and _is_slip(known):
        cells["why"] = why or cells["why"]
    return cells


def _number_cells(run: dict, column: str, value: float, tolerances: dict) -> dict:
    """A mean over chains beside a number: acceptance, or an autocorrelation time."""
    rate = column == "AP"
    allowed, precision = tolerances["AP" if rate else "tau"], PRECISION if rate else TIME_PRECISION
    return number_cells(estimate(run, column), value, allowed, precision=precision)


def _with_intercept(run: dict, column: str, value: float, tolerances: dict) -> dict:
    """The same cell with the intercept's square in the sum, as the authors' scripts may have it."""
    other = _number_cells(run, column.replace("beta", "theta"), value, tolerances)
    note = f"of |theta|^2, the intercept included (slopes alone: {run[column]:.3g})"
    return other | {"why": note} if other["verdict"] == "agrees" else {}


def _reference_rows(dataset: str, name: str, runs: dict, published: dict) -> list[dict]:
    """Acceptance, autocorrelation times and posterior means beside an independent computation."""
    reference, rows = published["reference"], []
    for method, cells in reference["cells"][dataset].items():
        run, known = runs.get(method), {"table": REFERENCE, "row": f"{name}, {method}"}
        if run is None:
            continue
        for column, value in cells.items():
            # the positive sequence is ours beside theirs: its error is a quarter of batch means'
            source = column if column == "AP" else f"{column}_ips"
            judged = _number_cells(run, source, value, reference["tolerances"])
            if judged["verdict"] != "agrees":
                where = {"dataset": dataset, "method": method, "column": f"reference {column}"}
                judged["why"] = reason_of(published, **where) or judged["why"]
            judged |= {"column": column, "unit": UNITS[column], "printed": value}
            rows.append(verdict_row(**known, **judged))
        for column, (value, error) in reference["means"][dataset].items():
            ours = estimate(run, f"mean_{column}")
            scale = PRECISION * abs(value)
            position = is_zero(ours.minus(Estimate(value, error)), scale)
            judged = ours.cells() | {"tolerance": scale, "why": "equal, and known to a tenth"}
            judged |= {"verdict": verdict((position, "equal"), words=NUMBER), "printed": value}
            rows.append(verdict_row(column=f"mean {column}", **known, **judged))
    return rows


def _mode_rows(fit: dict, published: dict) -> list[dict]:
    """Deterministic values at the mode."""
    allowed = {"value": 2.0e-6, "why": "deterministic, printed to 1e-6"}
    known, rows = {"table": REFERENCE, "row": f"{fit['dataset']}, at the mode"}, []
    for column, value in published["reference"]["modes"].get(fit["dataset"], {}).items():
        cells = number_cells(Estimate(fit[column]), value, allowed) | {"printed": value}
        cells["unit"] = "" if column == "squared_slopes" else "nat"
        rows.append(verdict_row(column=column, **known, **cells))
    return rows


def _recomputed(printed: dict, method: str, column: str) -> float | str:
    """From the paper's other cells: g = L but for a data split, and the products of its factors."""
    g = printed["g"] if method == "data_split" else printed["L"]
    if column == "g":
        return g
    if column not in PRODUCTS:
        return ""
    tau, cost = PRODUCTS[column]
    return round(printed[tau] * (g if cost == "g" else printed[cost]), 3)


def _is_slip(known: dict) -> bool:
    """Whether a printed product is further from its factors' than their rounding explains."""
    if known["recomputed"] == "":
        return False
    return abs(known["printed"] / known["recomputed"] - 1.0) > 0.04
