"""Tables of the split Hamiltonian study: all runs, and the verdict on printed numbers and claims.

Both are made of parts, one row a finished run (`parts`), so that a table can be rebuilt from
rows that were kept where the runs were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from gpmcflow.diagnostics.autocorrelation import is_underestimate
from gpmcflow.jobs.judgement import NUMBER, PRECISION, TIME_PRECISION, Estimate, equal, verdict
from gpmcflow.jobs.parts import rows_of
from gpmcflow.replications.split_hmc.claims import claim_rows, estimate
from gpmcflow.replications.split_hmc.parts import SERIES, STUDY
from gpmcflow.replications.verdict import (
    VERDICT_COLUMNS,
    number_cells,
    printed_row,
    reason_of,
    verdict_row,
)

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
    return {"runs": table, "verdict": pd.DataFrame(rows, columns=VERDICT_COLUMNS)}


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
            rows.append(printed_row(STUDY, known, cells, missing, why))
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
            rows.append(verdict_row(STUDY, **known, **judged))
        for column, (value, error) in reference["means"][dataset].items():
            ours = estimate(run, f"mean_{column}")
            scale = PRECISION * abs(value)
            position = equal(ours.minus(Estimate(value, error)), 0.0, scale)
            judged = ours.cells() | {"tolerance": scale, "why": "equal, and known to a tenth"}
            judged |= {"verdict": verdict((position, "equal"), words=NUMBER), "printed": value}
            rows.append(verdict_row(STUDY, column=f"mean {column}", **known, **judged))
    return rows


def _mode_rows(fit: dict, published: dict) -> list[dict]:
    """Deterministic values at the mode."""
    allowed = {"value": 2.0e-6, "why": "deterministic, printed to 1e-6"}
    known, rows = {"table": REFERENCE, "row": f"{fit['dataset']}, at the mode"}, []
    for column, value in published["reference"]["modes"].get(fit["dataset"], {}).items():
        cells = number_cells(Estimate(fit[column]), value, allowed) | {"printed": value}
        cells["unit"] = "" if column == "squared_slopes" else "nat"
        rows.append(verdict_row(STUDY, column=column, **known, **cells))
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
