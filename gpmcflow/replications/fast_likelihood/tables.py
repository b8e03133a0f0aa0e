"""Tables of the fast-likelihood paper: its claims, levers and verdicts.

They are made of parts, one for each finished run (of `READERS`), so that they can be rebuilt from parts that
were kept where the runs were not.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.jobs.parts import make_part, rows_of
from gpmcflow.replications.fast_likelihood.data import STUDY
from gpmcflow.replications.fast_likelihood.estimates import (
    COSTS,
    FAR,
    TypeRuns,
    below_one,
    type_runs,
)
from gpmcflow.replications.fast_likelihood.types import (
    GRID_METHODS,
    LEVERS,
    PAPER_METHODS,
    RANK_METHODS,
    TYPES,
    UNTUNED,
)
from gpmcflow.replications.judgement import (
    NUMBER,
    TIME_PRECISION,
    Estimate,
    all_equal,
    claim_row,
    combined,
    judged_row,
    missing_row,
    number_cells,
    printed_row,
    reason_of,
    side,
    verdict,
    verdict_table,
)
from gpmcflow.storage import load_results, read_sidecar


def tuning_part(path: str | Path) -> dict:
    """Settings chosen for a type, what each setting cost on the tuning data, and the checks."""
    tree = load_results(path)
    runs, chosen = tree["runs"].to_dataset(), tree["chosen"].to_dataset()
    values = {
        "chosen": dict(
            zip(chosen["method"].values.tolist(), chosen["setting"].values.tolist(), strict=True)
        ),
        "runs": {name: runs[name].values.tolist() for name in runs.data_vars},
        "checks": {name: float(value) for name, value in tree["checks"].data_vars.items()},
    }
    return make_part(STUDY, "tuning", path, tree.attrs, values)


def replicate_part(path: str | Path) -> dict:
    """Estimates of every method on one data set: see `method_estimates`."""
    tree = load_results(path)
    methods = tree["methods"].to_dataset()
    seconds = read_sidecar(path)["seconds"]
    iterations = json.loads(tree.attrs["settings"])["type"]["iterations"]
    values: dict = {"methods": {}}
    for name in methods["method"].values.astype(str).tolist():
        row = methods.sel({"method": name})
        estimates = method_estimates(row)
        if name in seconds:  # those of data sets that are not timed have none
            estimates |= method_costs(row, estimates["tau"], seconds[name], iterations)
        values["methods"][name] = estimates
    if eigen := seconds.get("eigen_exact"):
        values["eigen"] = [eigen["calls"][0] / eigen["exact"], eigen["m"]]
    return make_part(STUDY, "replicate", path, tree.attrs, values)


def method_estimates(row: xr.Dataset) -> dict:
    """One method on one data set, from its row of the results.

    ACT by the initial monotone sequence (tau) and by the run rule; calls per iteration n_exact, n_fast.
    """
    calls, quality = _finite(row["calls"].values), row["D"].values
    return {
        "setting": str(row["setting"].values),
        "tau": float(row["tau"]),
        "tau_run_rule": float(row["tau_run_rule"]),
        "acceptance": float(row["acceptance"]),
        "D": [float(v) for v in quality[1:] if not np.isnan(v)],
        "m": [int(v) for v in row["m"].values[1:] if not np.isnan(v)],
        "n_exact": float(calls[0]),
        "n_fast": [float(v) for v in calls[1:]],
        "n_gradients": float(row["gradients"]),
        "mean_log_likelihood": float(row["mean_log_likelihood"]),
        "sd_log_likelihood": float(row["sd_log_likelihood"]),
        "theta_mean": row["theta_mean"].values.tolist(),
        "theta_sd": row["theta_sd"].values.tolist(),
        "theta_tau": row["theta_tau"].values.tolist(),
    }


def method_costs(row: xr.Dataset, tau: float, seconds: dict, iterations: int) -> dict:
    """What an iteration and an effective draw of a method cost, from its measured seconds.

    pi_equivalents = sum of calls, each at its share of the seconds of an exact evaluation, with gradients
    at theirs; pilot: the same for what came before the first iteration; cost = tau (pi_equivalents + pilot /
    iterations), of an effective draw; efficiency = tau times CPU seconds of an iteration.
    """
    shares = np.array(seconds["calls"]) / seconds["exact"]
    gradient = seconds.get("gradient", 0.0) / seconds["exact"]
    per_iteration = float(_finite(row["calls"].values) @ shares)
    per_iteration += gradient * float(row["gradients"])
    pilot = float(row["pilot_calls"]) + gradient * float(row["pilot_gradients"])
    return {
        "shares": shares.tolist(),
        "gradient_share": gradient,
        "pi_equivalents": per_iteration,
        "pilot": pilot,
        "cost": tau * (per_iteration + pilot / iterations),
        "run_cost": tau * per_iteration,
        "seconds": float(seconds["iteration"]),
        "efficiency": tau * float(seconds["iteration"]),
    }


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


READERS = {f"{STUDY}/*/tuning.nc": tuning_part, f"{STUDY}/*/replicate_*.nc": replicate_part}


# What the fast-likelihood study adds to the paper: levers, sensitivity, agreement of all methods.

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


# Claims of Wang & Neal (2013) in words, as rows of the verdict.

SAME_FORMS = 1e-10  # of the largest entry, with a core of condition 1e6
SAME_LIKELIHOOD = 1e-6
USABLE = 0.1  # acceptance below which a stand-in is of no use
NO_NYSTROM = (2, 3, 7, 8)


def claim_rows(
    types: dict[str, TypeRuns], faithful: dict[int, TypeRuns], tunings: dict[str, dict]
) -> list[dict]:
    """All claims; one whose run is not there is marked missing.

    ``types`` are all types of the config by name, ``faithful`` those of the paper's sizes and defaults by
    number.
    """
    return [
        *_order_rows(types, faithful),
        *_grid_rows(types),
        *_form_rows(tunings),
        *_column_rows(types),
        *_rank_rows(types),
        *_eigen_rows(types),
        *_tempered_rows(types),
        *_noise_rows(tunings),
        *oracle_rows(types),
        *lever_rows(types, faithful),
        *agreement_rows(types),
    ]


def _order_rows(types: dict[str, TypeRuns], faithful: dict[int, TypeRuns]) -> list[dict]:
    """The subset chain beats standard slice sampling, more so at n = 900; Nystrom where it is usable."""
    claim = "discretizing chain with a subset beats standard slice sampling"
    rows = [
        below_one(claim, runs, ("sod", "standard"), key)
        for runs in types.values()
        if runs.has("sod", "standard")
        for key in ("run_cost", "efficiency")
    ]
    rows += [_gain_row(small, faithful) for small in (1, 2, 3, 4, 5)]
    claim = "Nystrom beats the subset chain"
    for number in (6, 10):
        runs = faithful.get(number)
        if runs is None or not runs.has("sod", "nystrom"):
            column = f"{COSTS['efficiency']}: nystrom / sod"
            rows.append(missing_row(claim, f"type {number}", f"#{number}", column))
            continue
        names = filter(runs.has, ("nystrom", "nystrom_spaced"))
        rows += [below_one(claim, runs, (name, "sod"), "efficiency") for name in names]
    return rows


def _gain_row(small: int, faithful: dict[int, TypeRuns]) -> dict:
    """Relative cost of the subset chain on a type with 900 cases over that on the one with 300."""
    claim, large = "the gain of the subset chain is larger at n = 900 than at 300", small + 5
    row, column = f"#{large} / #{small}", "efficiency ratio: SOD"
    if not {small, large} <= set(faithful):
        return missing_row(claim, f"types {small} and {large} at full size", row, column)
    a, b = (faithful[k].log_ratio("sod", "standard", "efficiency") for k in (large, small))
    few = min(faithful[k].count("sod", "standard") for k in (small, large))
    printed, why = "< 1", f"{few} data sets or more"
    if small == 5:
        printed, why = "> 1", "the paper's exception: long ARD"
    gain = a.minus(b)
    smaller = (side(gain, 0.0), "below")
    return judged_row(claim, row, column, gain.exp(), smaller, printed=printed, why=why)


def _grid_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 1: r = s = 1 is best, large r and s accept rarely."""
    claim, rows = "r = s = 1 is best", []
    for runs in types.values():
        if not runs.has(*GRID_METHODS):
            continue
        base = runs.mean("sod", "acceptance").centre
        for name, cell in GRID_METHODS.items():
            acceptance = runs.mean(name, "acceptance").centre
            why = f"mean acceptance of a move {acceptance:.2f}, at r = s = 1 {base:.2f}"
            row = f"{runs.name}: r = {cell['r']}, s = {cell['s']}"
            rows.append(below_one(claim, runs, ("sod", name), "run_cost", why, row))
    return rows or [missing_row(claim, "chain_grid: true", "types 1 and 4")]


def _form_rows(tunings: dict[str, dict]) -> list[dict]:
    """Claim 2: two forms of one matrix, on the first type."""
    claim = "eqs. 40-41 and 42 give the same matrix, whose columns are not orthonormal"
    column, rows = "difference / largest entry", []
    for name, tuning in list(tunings.items())[:1]:
        forms, gram = (tuning["checks"][key] for key in ("forms", "not_orthonormal"))
        why = f"largest entry of B'B - I: {gram:.3g}; eq. 37 cannot take them"
        rows.append(_zero_row(claim, name, column, forms, SAME_FORMS, why, gram > 1e-3))
    return rows


def _noise_rows(tunings: dict[str, dict]) -> list[dict]:
    """Claim 6: the residual variance may differ between observations."""
    claim = "residual variances may differ between observations (32, 38)"
    column, why = (
        "log likelihood: low rank - dense",
        "60 cases, variances from 0.5 to 2 times sigma^2",
    )
    rows = [
        _zero_row(claim, name, column, tuning["checks"]["general_noise"], SAME_LIKELIHOOD, why)
        for name, tuning in list(tunings.items())[:1]
    ]
    return [row | {"unit": "nat"} for row in rows] or [missing_row(claim, "any type")]


def _zero_row(
    claim: str, row: str, column: str, ours: float, limit: float, why: str, *facts: bool
) -> dict:
    """Row of a claim that a difference is 0 up to rounding."""
    cells = {"printed": "0", "ours": ours, "tolerance": limit, "why": why}
    return claim_row(claim, row, column, verdict=verdict(ours <= limit, *facts), **cells)


def _quality(runs: TypeRuns, method: str) -> str:
    """Acceptance of a method, and D of its stand-in."""
    D = np.mean([run["D"][0] for run in runs.of(method)])
    return f"acceptance {runs.mean(method, 'acceptance').centre:.2f}, D {D:.2g}"


def _column_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 2: random columns beside space-filling ones."""
    claim = "space-filling columns with the constant exact beat random columns"
    pair = ("nystrom_spaced", "nystrom")
    rows = []
    for runs in types.values():
        if runs.has(*pair):
            why = "; ".join(f"{method}: {_quality(runs, method)}" for method in pair)
            rows.append(below_one(claim, runs, pair, "run_cost", why))
    return rows or [missing_row(claim, "nystrom and nystrom_spaced")]


def _rank_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 3: columns Nystrom needs, for short and for long length scales."""
    claim = "Nystrom needs m near 95 % of n for short scales, 10 % for long ones (p = 5)"
    no_use, rows = "Nystrom is of no use at short scales (p = 5)", []
    for runs in types.values():
        if not runs.has(*RANK_METHODS):
            continue
        long = runs.data in TYPES and TYPES[runs.data].scale > 1.0
        shares = {name: options["share"] for name, options in RANK_METHODS.items()}
        usable = [s for name, s in shares.items() if runs.mean(name, "acceptance").centre >= USABLE]
        ours = min(usable, default=math.inf)
        text = [f"m = {share} % of n: {_quality(runs, name)}" for name, share in shares.items()]
        judged = verdict(ours <= 10 if long else ours >= 70)
        cells = {"unit": "%", "printed": 10 if long else 95, "ours": ours, "verdict": judged}
        column = f"least share with acceptance {USABLE:g}"
        rows.append(claim_row(claim, runs.name, column, why="; ".join(text), **cells))
    for runs in types.values():
        if runs.data in NO_NYSTROM and runs.has("nystrom"):
            ours, why = (
                runs.mean("nystrom", "acceptance"),
                str(runs.values("nystrom", "acceptance")),
            )
            below, printed = (side(ours, USABLE), "below"), f"< {USABLE:g}"
            rows.append(
                judged_row(no_use, runs.name, "acceptance", ours, below, printed=printed, why=why)
            )
    return rows or [missing_row(claim, "ranks: true", "one short and one long type")]


def _eigen_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 4: the eigen-exact approximation can be slower than the exact density."""
    claim, rows = "eigen-exact can be slower than the exact evaluation", []
    column = "seconds: eigen-exact / exact"
    for runs in types.values():
        if runs.eigen:
            ratio = Estimate.of([share for share, _ in runs.eigen])
            why = f"m = {runs.eigen[0][1]} of n = {runs.settings['n']}, on the machine of the runs"
            slower = (side(ratio, 1.0), "above")
            rows.append(judged_row(claim, runs.name, column, ratio, slower, printed="> 1", why=why))
    return rows or [missing_row(claim, "a type of 400 cases or fewer")]


def _tempered_rows(types: dict[str, TypeRuns]) -> list[dict]:
    """Claim 5: tempered transitions beat the discretizing chain on all n = 300, p = 5 types."""
    claim = "tempered transitions beat the discretizing chain (n = 300, p = 5)"
    rows = []
    for runs in types.values():
        if runs.has("tempered", "sod") and runs.data in (2, 3, 4, 5):
            row = runs.name if runs.is_paper else f"{runs.name}, n = {runs.settings['n']}"
            rows += [
                below_one(claim, runs, ("tempered", "sod"), key, row=row)
                for key in ("run_cost", "efficiency")
            ]
    return rows or [missing_row(claim, "tempered and sod on them", "types 2 to 5")]


# Tables of the fast-likelihood study: all runs, and the verdict on printed numbers and claims.

COUNTED = ("n_gradients", "pi_equivalents", "seconds", "pilot")
MEANS = ("tau", "tau_run_rule", "acceptance", "n_exact", *COUNTED, "cost")
UNITS = {"m": "cases", "efficiency": "", "cpu": "s", "ACT": "iterations"}


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the parts and the printed numbers."""
    parts = list(parts)
    types = type_runs(parts)
    tunings = {tuning["problem"]: tuning for tuning in rows_of(parts, "tuning")}
    tunings = {name: tunings[name] for name in types if name in tunings}
    faithful = {runs.data: runs for runs in types.values() if runs.is_paper}
    rows = []
    for number, printed in published["types"].items():
        runs = faithful.get(number)
        tuning = tunings.get(runs.name) if runs else None
        rows += _printed_rows(number, printed, runs, published, tuning)
    rows += claim_rows(types, faithful, tunings)
    table = [row for runs in types.values() for row in _run_rows(runs, published)]
    return {"runs": pd.DataFrame(table), "verdict": verdict_table(STUDY, rows)}


def _run_rows(runs: TypeRuns, published: dict) -> list[dict]:
    """One row a method: means over the data sets, and costs relative to the baseline's, paired."""
    names = {method: column for column, method in published["methods"].items()}
    printed = published["types"].get(runs.data, {}) if runs.is_paper else {}
    rows = []
    for method in runs.methods:
        replicates, last = runs.of(method), runs.of(method)[-1]
        mean = {key: runs.mean(method, key) for key in MEANS}
        quality = zip(*(run["D"] for run in replicates), strict=True)
        row = {
            "problem": runs.name,
            "method": method,
            "data": runs.data,
            "n": runs.settings["n"],
            "m": " ".join(map(str, last["m"])),
            "setting": last["setting"],
            "replicates": len(replicates),
            "timed": len(runs.values(method, "cost")),
            "ACT": mean["tau"].centre,
            "ACT_mcse": mean["tau"].error,
            "ACT_run_rule": mean["tau_run_rule"].centre,
            "acceptance": mean["acceptance"].centre,
            "D": " ".join(f"{np.mean(values):.3g}" for values in quality),
            "n_exact": mean["n_exact"].centre,
            "n_fast": float(np.mean([sum(run["n_fast"]) for run in replicates])),
            **{key: mean[key].centre for key in COUNTED},
            "cost": mean["cost"].centre,
            "cost_mcse": mean["cost"].error,
        }
        for key in ("cost", "efficiency"):
            ratio = runs.log_ratio(method, "standard", key)
            known = math.isfinite(ratio.centre)
            row[f"{key}_ratio"] = ratio.exp().centre if known else ratio.centre
            row[f"{key}_ratio_mcse"] = ratio.exp().error
        row["printed_ACT"] = printed.get("ACT", {}).get(names.get(method, ""), math.nan)
        rows.append(row)
    return rows


def _printed_rows(
    number: int, printed: dict, runs: TypeRuns | None, published: dict, tuning: dict | None
) -> list[dict]:
    """Every cell of one row of Tables 2 and 3."""
    rows = []
    for column in UNITS:
        for name, value in printed[column].items():
            known = {
                "table": "Table 2" if column in ("m", "efficiency") else "Table 3",
                "row": f"#{number}",
                "column": f"{column} {name}",
                "unit": "s" if (column, name) == ("efficiency", "STD") else UNITS[column],
                "printed": " ".join(map(str, value)) if isinstance(value, list) else value,
                "recomputed": _recomputed(printed, column, name),
            }
            method = published["methods"][name]
            cells, reasons = None, []
            if runs is not None and runs.has(method):
                cells = _judged(runs, method, column, name, value, published["tolerances"])
                reasons = [reason_of(published, type=number, method=name, column=column)]
                reasons += [_by_width(tuning, method)] if column == "ACT" else []
            missing = f"no run of type {number} at n = {TYPES[number].n} as in the paper"
            rows.append(printed_row(known, cells, missing, *reasons))
    return rows


def _judged(runs: TypeRuns, method: str, column: str, name: str, value, tolerances: dict) -> dict:
    last = runs.of(method)[-1]
    if column == "m":
        same = last["m"] == (value if isinstance(value, list) else [value])
        ours, judged = " ".join(map(str, last["m"])), verdict(same, words=NUMBER)
        return {"ours": ours, "verdict": judged, "why": "as stated in the config"}
    note = f"{runs.number(method)}, {runs.settings['iterations']} iterations, {last['setting']}"
    if column == "cpu" or (column, name) == ("efficiency", "STD"):
        ours = runs.mean(method, "seconds" if column == "cpu" else "efficiency")
        return ours.cells() | {"verdict": "machine-dependent", "why": note}
    if why := runs.infinitely_costly(method):
        return {"ours": math.inf, "verdict": verdict(False, words=NUMBER), "why": f"{why}; {note}"}
    if column == "ACT":
        ours = runs.mean(method, "tau")
        allowed = tolerances["ACT"]
    else:
        ours = runs.log_ratio(method, "standard", "efficiency").exp()
        allowed = tolerances["SOD" if name == "SOD" else "ratio"]
    return number_cells(ours, value, allowed, note, TIME_PRECISION)


def _by_width(tuning: dict | None, method: str) -> str:
    """Autocorrelation times with each setting on the data for tuning: the paper does not state its widths."""
    if tuning is None or method not in tuning["runs"].get("method", ()):
        return ""
    runs = pd.DataFrame(tuning["runs"])
    taus = runs[runs["method"] == method].groupby("setting", sort=False)["tau"].mean()
    text = ", ".join(f"{setting} {tau:.1f}" for setting, tau in taus.items())
    return f"the paper's widths are not known; ACT by width on the data for tuning: {text}"


def _recomputed(printed: dict, column: str, name: str) -> float | str:
    """The efficiency from the paper's seconds and autocorrelation times."""
    if column != "efficiency":
        return ""
    own = printed["cpu"][name] * printed["ACT"][name]
    base = 1.0 if name == "STD" else printed["cpu"]["STD"] * printed["ACT"]["STD"]
    return round(own / base, 3)
