"""Tables of the RMHMC-AIS paper: its claims, work and verdicts.

They are made of parts, one for each finished run (of `READERS`), so that they can be rebuilt from parts that
were kept where the runs were not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.jobs.parts import make_part, rows_of
from gpmcflow.replications.figures.estimates import best_rows, combine_replicates
from gpmcflow.replications.judgement import (
    NOT_RESOLVED,
    NUMBER,
    Estimate,
    is_zero,
    number_cells,
    side,
    verdict,
    verdict_row,
    verdict_table,
    within,
)
from gpmcflow.storage import open_results, read_sidecar

STUDY = "rmhmc_ais"
# columns of a row; what a route does not have is nan, or empty
ESTIMATES = (
    *("log_evidence", "standard_error", "degrees_of_freedom", "interval_low", "interval_high"),
    *("effective_size", "bootstrap_low", "bootstrap_high", "mean_log_weight", "sd_log_weight"),
    *("max_weight", "pareto_k", "acceptance_rate", "diverging", "unsolved", "irreversible"),
    *("n_particles", "n_gradient", "n_likelihood", "n_factorisation", "alarm"),
)
DIRECTIONS = {"forward": "", "reverse": "reverse_", "integration": "integration_"}
SHARED = ("alarm", "n_particles", "n_gradient", "n_likelihood", "n_factorisation")
GAP = 3.0  # joint standard errors between forward and reverse


def approximation_part(path: Path) -> dict:
    """One problem's fits, correction and test scores, with those of the posterior beside it."""
    problem, posterior = path.parent.name, path.with_name("posterior.nc")
    tree = open_results(path)
    fit = tree["approximation"].to_dataset().load()
    chosen = tree["hyperparameters"].to_dataset().load()
    settings = json.loads(tree.attrs["settings"])["problem"]
    ep = float(fit["log_evidence"].sel({"method": "ep"}))
    correction = float(fit["correction"][-1])
    length = chosen["log_length_scale"].values
    row = {
        "study": STUDY,
        "problem": problem,
        "dataset": tree.attrs["dataset"],
        "n": fit.sizes["case"],
        "likelihood": str(settings["likelihood"]),
        "log_length_scale": float(length) if length.ndim == 0 else str(length.round(3).tolist()),
        "log_signal_sd": float(chosen["log_signal_sd"]),
        "jitter": float(chosen["jitter"]),
        "log_evidence_laplace": float(fit["log_evidence"].sel({"method": "laplace"})),
        "log_evidence_ep": ep,
        "correction": correction,
        "log_evidence_corrected": ep + correction,
    }
    tables = {}
    if "predictions" in tree.children:
        both = tree["predictions"].to_dataset().load()
        tables = {name: both.sel({"method": name}) for name in ("laplace", "ep")}
    if posterior.is_file() and "predictions" in (draws := open_results(posterior)).children:
        tables["posterior"] = draws["predictions"].to_dataset().load()
    for name in ("laplace", "ep", "posterior"):
        row[f"test_error_{name}"], row[f"test_log_score_{name}"] = _test_scores(tables.get(name))
    seconds = read_sidecar(path)["seconds"]
    row |= {f"seconds_{name}": seconds[name] for name in ("laplace", "ep")}
    return make_part(STUDY, "approximation", path, tree.attrs, row, problem=problem)


def _test_scores(table: xr.Dataset | None) -> tuple[float, float]:
    """Errors in % and mean log probability of the true label (nats a case)."""
    if table is None:
        return np.nan, np.nan
    p, y = table["probability"].values, table["y_test"].values
    right = np.where(y > 0, p, 1.0 - p)
    return 100.0 * float(np.mean(right <= 0.5)), float(np.mean(np.log(np.maximum(right, 1e-300))))


def evidence_part(path: str | Path) -> dict:
    """One method on one problem: a row for each ladder length, replicate and direction.

    ``direction`` is forward, reverse (annealing back from posterior draws) or integration
    (thermodynamic integration of the draws whose stepping stones are the forward row).
    """
    tree = open_results(path)
    method = json.loads(tree.attrs["settings"])["method"]
    table = tree["evidence"].to_dataset().load()
    seconds = read_sidecar(path)["seconds"]
    timings = {(r["n_temperatures"], r["replicate"]): r for r in seconds["runs"]}
    rows = []
    for t in table["n_temperatures"].values:
        for replicate in table["replicate"].values:
            cell = table.sel(n_temperatures=t, replicate=replicate)
            pair = [
                _row(tree, method, cell, direction, timings[int(t), int(replicate)])
                for direction, prefix in DIRECTIONS.items()
                if f"{prefix}log_evidence" in cell
            ]
            for row in pair:
                row["pilot_seconds"] = seconds["pilot"]
            rows += _with_gap_alarm(pair)
    return make_part(STUDY, "evidence", path, tree.attrs, {"rows": rows})


def _row(tree: xr.DataTree, method: dict, cell: xr.Dataset, direction: str, timing: dict) -> dict:
    kind = method.get("kind", "ais")
    plain = kind == "importance_sampling"
    row = {
        "study": STUDY,
        "problem": tree.attrs["problem"],
        "method": tree.attrs["method"],
        "kind": kind,
        "sampler": "none" if plain else method["sampler"],
        "reference": method["reference"],
        "ladder": "none" if plain else method["ladder"],
        "coordinates": method.get("coordinates", "reference"),
        "fixed_iters": method.get("fixed_iters") or 0,
        "direction": direction,
        "n_temperatures": int(cell["n_temperatures"]),
        "replicate": int(cell["replicate"]),
    }
    prefix = DIRECTIONS[direction]
    for name in ESTIMATES:
        column = name if direction == "integration" and name in SHARED else f"{prefix}{name}"
        missing = "" if name == "alarm" else np.nan
        row[name] = cell[column].item() if column in cell else missing
    row["pilot_gradient"] = int(cell["pilot_gradient"])
    row["seconds"] = timing["reverse_seconds" if direction == "reverse" else "seconds"]
    return row


def _with_gap_alarm(rows: list[dict]) -> list[dict]:
    """Add an alarm where forward and reverse estimates of a run differ by more than 3 joint errors."""
    both = {row["direction"]: row for row in rows}
    if "reverse" not in both:
        return rows
    forward, reverse = both["forward"], both["reverse"]
    gap = reverse["log_evidence"] - forward["log_evidence"]
    joint = np.hypot(forward["standard_error"], reverse["standard_error"])
    if abs(gap) > GAP * joint:
        text = f"forward and reverse differ by {gap:.2g} nats, {abs(gap) / joint:.1f} joint errors"
        for row in (forward, reverse):
            row["alarm"] = f"{row['alarm']}; {text}" if row["alarm"] else text
    return rows


def map_part(path: str | Path) -> dict:
    """EP evidence, its correction and sd of u under q over the grid of hyperparameters."""
    tree = open_results(path)
    table = tree["map"].to_dataset().load()
    names = ("log_length_scale", "log_signal_sd", "log_evidence_ep", "correction", "ratio_sd")
    values = {"dataset": tree.attrs["dataset"]} | {n: table[n].values.tolist() for n in names}
    return make_part(STUDY, "map", path, tree.attrs, values, problem="map")


READERS = {
    f"{STUDY}/*/approximation.nc": approximation_part,
    f"{STUDY}/*/evidence/*.nc": evidence_part,
    f"{STUDY}/map.nc": map_part,
}


# What an estimate of the evidence costs with each method, and which method to use when.

WANTED_ERROR = 0.05  # nats: the standard error all methods are compared at
# Floating-point operations of a likelihood gradient, in n^2: two triangular products, two general ones
# (principal axes), or the products and triangular solves of an iteration of RMHMC's equations.
FLOPS = {"latent_hmc": 4.0, "rmhmc": 6.0}
INEXACT = "a fixed number of iterations is exact only where they converge"
COLUMNS = [
    *("problem", "rank", "method", "advice", "seconds_to_0.05", "times_the_best"),
    *("gigaflops_to_0.05", "time_times_variance", "n_temperatures", "log_evidence"),
    *("log_evidence_mcse", "effective_size", "seconds", "gradients", "factorisations", "alarm"),
]


def advice(row: Mapping[str, Any]) -> str:
    """What to do with one estimate: use it, refine it, or not trust it and why."""
    if row["alarm"]:
        return f"do not use: {row['alarm']}"
    if row["fixed_iters"]:
        return f"do not use: {INEXACT}"
    if row["standard_error"] <= WANTED_ERROR:
        return "use"
    more = math.ceil((row["standard_error"] / WANTED_ERROR) ** 2)
    return f"usable; {more} times the runs for a standard error of {WANTED_ERROR:g}"


def with_flops(fits: pd.DataFrame, estimates: pd.DataFrame) -> pd.DataFrame:
    """Add ``gigaflops`` of each run and ``pilot_gigaflops``, from the counts and the number n of cases.

    2 n^2 a gradient (4 n^2 in principal axes, 6 n^2 an iteration of RMHMC's equations), n^2 a likelihood
    alone, n^3 / 3 a factorisation; a pilot is taken to factorise as often for a gradient as the run.
    """
    n = estimates["problem"].map(dict(zip(fits["problem"], fits["n"], strict=True))).astype(float)
    per_gradient = estimates["sampler"].map(FLOPS).fillna(2.0) * n**2
    gradients, factorised = estimates["n_gradient"], estimates["n_factorisation"] * n**3 / 3.0
    alone = (estimates["n_likelihood"] - gradients).clip(lower=0.0) * n**2
    ratio = per_gradient + factorised / gradients.where(gradients > 0)
    return estimates.assign(
        gigaflops=(gradients * per_gradient + alone + factorised) / 1e9,
        pilot_gigaflops=(estimates["pilot_gradient"] * ratio).fillna(0.0) / 1e9,
    )


def which_method(estimates: pd.DataFrame) -> pd.DataFrame:
    """The methods of each problem by the time they take to a standard error of 0.05 nats.

    Replicates are averaged and their costs added. Of the ladder lengths of a method the one that
    gets there first, among those without an alarm; if all raised one the longest is shown, with no
    time ("not estimable"): its weights have collapsed, and its error means nothing. seconds to 0.05
    = pilot + run (se / 0.05)^2; gigaflops likewise (`with_flops`, whose columns ``estimates`` has).
    ``time_times_variance`` (seconds nat^2, without the pilot) does not depend on the number of
    particles or replicates.
    """
    rows = estimates[estimates["direction"] == "forward"]
    key = ["problem", "method", "n_temperatures"]
    charged = rows.groupby(key).agg(
        fixed_iters=("fixed_iters", "max"),
        factorisations=("n_factorisation", "sum"),
        pilot_seconds=("pilot_seconds", "max"),
        pilot_gigaflops=("pilot_gigaflops", "max"),
    )
    points = combine_replicates(rows).merge(charged.fillna(0.0), how="left", on=key)
    inexact = (points["fixed_iters"] > 0) & (points["alarm"] == "")
    points["alarm"] = points["alarm"].mask(inexact, INEXACT)
    error = points["standard_error"]
    error = error.where((points["alarm"] == "") & np.isfinite(error) & (error > 0.0))
    ratio, alone = (error / WANTED_ERROR) ** 2, points["seconds"] - points["pilot_seconds"]
    points["seconds_to_0.05"] = points["pilot_seconds"] + alone * ratio
    flops = points["gigaflops"] - points["pilot_gigaflops"]
    points["gigaflops_to_0.05"] = points["pilot_gigaflops"] + flops * ratio
    points["time_times_variance"] = alone * error**2
    chosen = [lengths for _, lengths in points.groupby(["problem", "method"], sort=False)]
    table = pd.DataFrame(map(_first_there, chosen))
    seconds = table.groupby("problem", sort=False)["seconds_to_0.05"]
    table["times_the_best"] = table["seconds_to_0.05"] / seconds.transform("min")
    table["rank"] = seconds.rank(method="first").astype("Int64")
    table["advice"] = table.apply(_advice_of, axis=1)
    order = np.lexsort([table["seconds_to_0.05"], pd.factorize(table["problem"])[0]])
    names = {"standard_error": "log_evidence_mcse", "n_gradient": "gradients"}
    return table.iloc[order].rename(columns=names).reset_index(drop=True)[COLUMNS]


def _first_there(lengths: pd.DataFrame) -> pd.Series:
    """The ladder length of a method that gets to the wanted error first, or the best one without a time."""
    seconds = lengths["seconds_to_0.05"]
    return lengths.loc[seconds.idxmin()] if seconds.notna().any() else best_rows(lengths).iloc[0]


def _advice_of(row: pd.Series) -> str:
    if row["alarm"]:
        return f"not estimable: {row['alarm']}"
    if row["times_the_best"] <= 1.5:
        return "first choice" if row["rank"] == 1 else "as good as the first"
    if row["times_the_best"] <= 10.0:
        return f"works, at {row['times_the_best']:.1f} times the time"
    return f"works, but takes {row['times_the_best']:.0f} times the time"


# Claims in words of the evidence study, each beside what our runs say.

FAR_OFF = 5.0  # nats: a prior-started run this far from the reference is of no use
MATERIAL = 0.1  # nats: what an error has to exceed to matter here
SHORT = 0.5  # nats: how well a ladder of any length, the short ones among them, is to be known
MAX_IRREVERSIBLE = 1e-3  # share of transitions that do not return
MAX_COST = 1.5  # of the other method's


def reference_estimate(estimates: pd.DataFrame, problem: str) -> dict | None:
    """Return the trusted run of a problem with the smallest standard error, None if there is none.

    Runs with a fixed number of fixed-point iterations are not exact, and never the reference.
    """
    rows = _forward(estimates, problem)
    rows = rows[rows["fixed_iters"] == 0]
    if rows.empty:
        return None
    points = combine_replicates(rows)
    trusted = points[(points["alarm"] == "") & points["standard_error"].notna()]
    return None if trusted.empty else trusted.loc[trusted["standard_error"].idxmin()].to_dict()


def _forward(estimates: pd.DataFrame, problem: str) -> pd.DataFrame:
    return estimates[(estimates["problem"] == problem) & (estimates["direction"] == "forward")]


def of_setting(fits: pd.DataFrame, entry: Mapping) -> pd.DataFrame:
    """Fits of the data set and the hyperparameters of an entry of the published numbers."""
    return fits[
        (fits["dataset"] == entry["dataset"])
        & (fits["log_length_scale"].astype(str) == str(float(entry["log_length_scale"])))
        & (fits["log_signal_sd"] == float(entry["log_signal_sd"]))
    ]


def estimate_of(point: Mapping) -> Estimate:
    """Log evidence of a combined estimate or of the reference run."""
    return Estimate(point["log_evidence"], point["standard_error"], point["degrees_of_freedom"])


def claim_rows(fits: pd.DataFrame, estimates: pd.DataFrame) -> list[dict]:
    """The claims this study's runs can resolve, a few rows for each problem."""
    rows = []
    for problem in fits["problem"]:
        best = reference_estimate(estimates, problem)
        if best is None:
            continue
        mine = _forward(estimates, problem)
        points = combine_replicates(mine)
        points["fixed_iters"] = points["method"].map(mine.groupby("method")["fixed_iters"].first())
        points["distance"] = [
            estimate_of(point).minus(estimate_of(best)) for _, point in points.iterrows()
        ]
        for judged in (_agreement, _alarms, _fixed_iterations, _prior_start, _automatic_tuning):
            rows += [
                verdict_row(**({"row": problem, "unit": "nat"} | cells))
                for cells in judged(mine, points, best["method"])
            ]
    return rows


def _agreement(mine: pd.DataFrame, points: pd.DataFrame, best: str) -> list[dict]:
    """All trusted methods have the evidence of the best one."""
    claim, why = "methods agree", "both estimate the same evidence, here known to what matters"
    rows = []
    for method, runs in points[points["fixed_iters"] == 0].groupby("method"):
        longest = runs.loc[runs["n_temperatures"].idxmax()]
        if not longest["alarm"] and method != best:
            same = _is_zero(longest["distance"])
            cells = longest["distance"].cells() | {"verdict": verdict(same, words=NUMBER)}
            cells |= {"column": f"{method} minus {best}", "tolerance": MATERIAL}
            rows.append({"table": claim, "why": why, **cells})
    return rows


def _is_zero(difference: Estimate) -> tuple[str, str]:
    return is_zero(difference, MATERIAL), "equal"


def _alarms(mine: pd.DataFrame, points: pd.DataFrame, best: str) -> list[dict]:
    """No estimate is far off without an alarm; one without a known error counts by its distance."""
    off = points[points["distance"].map(_is_off)]
    unwarned = off[off["alarm"] == ""].itertuples()
    silent = [f"{point.method} at {point.n_temperatures:g}" for point in unwarned]
    outcome = f"silent: {', '.join(silent)}" if silent else "each of them raised its alarm"
    return [
        {
            "table": "an estimate that is off says so",
            "column": f"silent among {len(off)} of {len(points)} estimates that are off",
            "unit": "estimates",
            "ours": len(silent),
            "verdict": verdict(not silent),
            "why": f"off: more than {MATERIAL:g} nats from {best}, and not by chance; {outcome}",
        }
    ]


def _is_off(distance: Estimate) -> bool:
    """Whether an estimate is materially off, and not by chance as far as its error is known."""
    seen = np.isnan(distance.error) or _is_zero(distance)[0] in ("above", "below")
    return abs(distance.centre) > MATERIAL and bool(seen)


def _fixed_iterations(mine: pd.DataFrame, points: pd.DataFrame, best: str) -> list[dict]:
    """Claim 2: five or six fixed-point iterations suffice."""
    claim, rows = "claim 2: five or six fixed-point iterations suffice", []
    for method, runs in points[points["fixed_iters"] > 0].groupby("method"):
        pair = _at_longest(runs, points[points["method"] == str(method).split("_fixed")[0]])
        if pair is None:
            continue
        fixed, converged = pair
        bias = estimate_of(fixed).minus(estimate_of(converged))
        share = float(mine.loc[mine["method"] == method, "irreversible"].max())
        reversible = within(Estimate(share), 0.0, MAX_IRREVERSIBLE), "within"
        alarmed = fixed["alarm"] or converged["alarm"]
        unbiased = (NOT_RESOLVED, "equal") if alarmed else _is_zero(bias)
        cells = bias.cells() | {"tolerance": MATERIAL, "verdict": verdict(reversible, unbiased)}
        cells["column"] = f"{method}, {fixed['n_temperatures']} temperatures"
        why = (
            f"{100 * share:.3g} % of trajectories at beta = 1 do not return to their start (at most "
            f"{100 * MAX_IRREVERSIBLE:g} % wanted); log evidence minus that of converged iterations"
        )
        rows.append({"table": claim, "why": why, **cells})
    return rows


def _at_longest(*runs: pd.DataFrame) -> list[pd.Series] | None:
    """The points of two methods with the longest ladder that both have."""
    shared = set.intersection(*(set(points["n_temperatures"]) for points in runs))
    if not shared:
        return None
    return [points[points["n_temperatures"] == max(shared)].iloc[0] for points in runs]


def _prior_start(mine: pd.DataFrame, points: pd.DataFrame, best: str) -> list[dict]:
    """Claim 3: whitened annealing from the prior is far off and says so, the EP start repairs it."""
    claim, rows = "claim 3: a prior start is out of bounds, an EP start repairs it", []
    annealed = points[(points["sampler"] == "hmc") & (points["coordinates"] == "reference")]
    prior = annealed[annealed["reference"] == "prior"]
    repaired = points[(points["reference"] == "ep") & ~points["sampler"].isin(["none", "rmhmc"])]
    for _, run in prior.iterrows():
        cheap = repaired[
            (repaired["n_temperatures"] == run["n_temperatures"])
            & (repaired["n_gradient"] <= MAX_COST * run["n_gradient"])
        ]
        if cheap.empty:
            continue
        off = run["distance"].centre
        gap = cheap.loc[cheap["standard_error"].idxmin(), "distance"]
        # of collapsed weights the error is not known: the estimate counts as it is
        below = side(Estimate(off), -FAR_OFF), "below"
        cells = {"ours": off, "mcse": run["standard_error"], "tolerance": FAR_OFF}
        cells["verdict"] = verdict(below, bool(run["alarm"]), _is_zero(gap))
        cells["column"] = f"{run['method']}, {run['n_temperatures']} temperatures"
        why = (
            f"prior start off by {off:.2f} ({run['alarm'] or 'no alarm'}); EP start at no more than "
            f"{MAX_COST:g} times the cost off by {gap.centre:.2f} +- {gap.error:.2f}"
        )
        rows.append({"table": claim, "why": why, **cells})
    return rows


def _automatic_tuning(mine: pd.DataFrame, points: pd.DataFrame, best: str) -> list[dict]:
    """Claim 4: the pilot's step sizes cost at most 1.5 times the hand-tuned ones for the same error."""
    claim, rows = "claim 4: automatic tuning within 1.5 of the hand-tuned cost", []
    for method, runs in points.groupby("method"):
        name = str(method).removesuffix("_hand")
        pair = _at_longest(runs, points[points["method"] == name]) if name != method else None
        if pair is None:
            continue
        by_hand, tuned = pair
        # the sums hold the pilot's gradients, which only the automatic one needs
        charged = mine[mine["method"] == method]["pilot_gradient"].max()
        cost_by_hand = (by_hand["n_gradient"] - charged) * by_hand["standard_error"] ** 2
        ratio = tuned["n_gradient"] * tuned["standard_error"] ** 2 / cost_by_hand
        # a variance of k degrees of freedom has the relative variance 2 / k
        freedoms = [run["degrees_of_freedom"] for run in pair]
        log_ratio = Estimate(ratio, ratio * float(np.sqrt(sum(2.0 / k for k in freedoms)))).log()
        alarmed = by_hand["alarm"] or tuned["alarm"]
        position = NOT_RESOLVED if alarmed else side(log_ratio, np.log(MAX_COST))
        cells = {"column": name, "unit": "ratio", "ours": ratio, "tolerance": MAX_COST}
        cells["why"] = (
            f"gradients times squared standard error at {tuned['n_temperatures']} temperatures, pilot "
            "included"
        )
        rows.append({"table": claim, "verdict": verdict((position, "below")), **cells})
    return rows


def size_rows(fits: pd.DataFrame, estimates: pd.DataFrame, published: dict) -> list[dict]:
    """A row for each method and ladder length of the full size, missing until it is run.

    An estimate without an alarm agrees where it is the reference run's to within 0.5 nats; one with an
    alarm says itself that it is not to be trusted, and is shown. The reference run is not judged.
    """
    rows = []
    for entry in published["sizes"]:
        for problem in of_setting(fits, entry)["problem"]:
            best = reference_estimate(estimates, problem)
            if best is None:
                continue
            points = combine_replicates(_forward(estimates, problem))
            runs = {(run["method"], run["n_temperatures"]): run for _, run in points.iterrows()}
            for method, lengths in entry["methods"].items():
                for length in lengths:
                    cells = _size_cells(runs.get((method, length)), best)
                    cells |= {"row": problem, "column": f"{method}, {length} temperatures"}
                    rows.append(verdict_row(table="methods and sizes", unit="nat", **cells))
    return rows


def _size_cells(run: pd.Series | None, best: dict) -> dict:
    """Verdict of one method at one size, with its estimate where there is one."""
    if run is None:
        return {"verdict": "missing", "why": "not in this config"}
    cells = estimate_of(run).cells() | {"recomputed": best["log_evidence"], "tolerance": SHORT}
    if run["alarm"]:
        return cells | {"verdict": "shown", "why": f"it says so itself: {run['alarm']}"}
    if run["method"] == best["method"] and run["n_temperatures"] == best["n_temperatures"]:
        return cells | {"verdict": "shown", "why": "the reference run, with the smallest error"}
    position = is_zero(estimate_of(run).minus(estimate_of(best)), SHORT)
    why = f"beside {best['method']}, {best['n_temperatures']} temperatures"
    return cells | {"verdict": verdict((position, "equal"), words=NUMBER), "why": why}


def hardest_setting_rows(grid: dict, fits: pd.DataFrame) -> list[dict]:
    """Claim 1: is the study's setting the hardest of the grid, by correction and by sd of u under q?"""
    claim = "claim 1: the setting is the hardest of the grid"
    labels = {"correction": "second-order correction", "ratio_sd": "sd of u under q"}
    lengths, signals = np.array(grid["log_length_scale"]), np.array(grid["log_signal_sd"])
    rows = []
    for _, fit in fits[fits["dataset"] == grid["dataset"]].iterrows():
        i = np.flatnonzero(np.isclose(lengths, float(fit["log_length_scale"])))
        j = np.flatnonzero(np.isclose(signals, float(fit["log_signal_sd"])))
        if not (len(i) and len(j)):
            continue
        for name, label in labels.items():
            values = np.array(grid[name], dtype=float)
            here, largest = float(values[i[0], j[0]]), float(np.nanmax(values))
            k, m = np.unravel_index(np.nanargmax(values), values.shape)
            cells = {"unit": "nat", "recomputed": largest, "ours": here}
            cells |= {"column": label, "verdict": verdict(here >= largest)}
            why = f"largest at log length scale {lengths[k]:g}, log signal sd {signals[m]:g}"
            rows.append(verdict_row(table=claim, row=fit["problem"], why=why, **cells))
    return rows


# Tables of the evidence study: approximations, estimates, which method to use, and the verdict.


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "evidence", "approximations", "which_method", "verdict" from parts and printed numbers."""
    parts = list(parts)
    fits = pd.DataFrame([part["values"] for part in parts if part["kind"] == "approximation"])
    rows = [row for run in rows_of(parts, "evidence") for row in run["rows"]]
    estimates = with_flops(fits, pd.DataFrame(rows))
    estimates["advice"] = [advice(row) for row in rows]
    verdict = published_rows(fits, estimates, published) + claim_rows(fits, estimates)
    verdict += size_rows(fits, estimates, published)
    annealed = fits[fits["problem"].isin(estimates["problem"])]
    for grid in rows_of(parts, "map"):
        verdict += hardest_setting_rows(grid, annealed)
    frame = verdict_table(STUDY, verdict)
    return {
        "evidence": estimates,
        "approximations": fits,
        "which_method": which_method(estimates),
        "verdict": frame.sort_values("table", kind="stable", ignore_index=True),
    }


def published_rows(fits: pd.DataFrame, estimates: pd.DataFrame, published: dict) -> list[dict]:
    """Compare printed and reference numbers with ours, where the config has that problem."""
    rows = []
    for entry in published["values"]:
        for _, fit in of_setting(fits, entry).iterrows():
            if entry["column"] == "log_evidence_annealing":
                best = reference_estimate(estimates, fit["problem"])
                if best is None:
                    continue
                ours = estimate_of(best)
            else:
                ours = Estimate(float(fit[entry["column"]]))
            known = {name: entry[name] for name in ("table", "row", "column", "unit")}
            allowed = {"value": entry["tolerance"], "why": entry["why"]}
            cells = number_cells(ours, entry["value"], allowed)
            rows.append(verdict_row(**known, printed=entry["value"], **cells))
    return rows
