"""Tables of the split Hamiltonian study: all runs, and the verdict on printed numbers and claims.

Both are made of parts, one row a finished run (`parts`), so that a table can be rebuilt from
rows that were kept where the runs were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from gpmcflow.diagnostics.autocorrelation import is_underestimate
from gpmcflow.studies.frame.job import Job
from gpmcflow.studies.split_hmc.claims import claim_rows
from gpmcflow.studies.split_hmc.parts import SERIES, chain_part, fit_part, illustrations_part
from gpmcflow.studies.verdict import VERDICT_COLUMNS, compare, of_this_run, verdict_row

STUDY = "split_hmc"
REFERENCE = "independent computation"
UNITS = {
    "L": "steps",
    "g": "gradients",
    "s": "s",
    "AP": "",
    "tau": "iterations",
    "tau_g": "gradients",
    "tau_s": "s",
    "tau_beta": "iterations",
    "tau_beta_g": "gradients",
    "tau_beta_s": "s",
}
MACHINE = ("s", "tau_s", "tau_beta_s")
# a product and its factors in the same row of the paper's tables
PRODUCTS = {f"{tau}_{cost}": (tau, cost) for tau in ("tau", "tau_beta") for cost in ("g", "s")}
FIRST_COLUMNS = [
    "problem", "method", "step_size", "L", "g", "AP", "AP_mcse", "tau", "tau_mcse", "tau_beta",
    "tau_beta_mcse", "tau_g", "tau_g_mcse", "tau_beta_g", "tau_beta_g_mcse", "s",
]  # fmt: skip
PRECISION = 0.15  # an autocorrelation time with a larger relative error resolves nothing


def summarise(job: Job) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the results files of a run."""
    parts = [fit_part(path) for path in job.input.fits]
    parts += [chain_part(path) for path in job.input.chains]
    parts += [illustrations_part(path) for path in job.input.illustrations]
    return of_this_run(tables(parts, job.published()))


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the parts and the printed numbers."""
    parts = list(parts)
    runs = [dict(part) for part in parts if part["part"] == "chains"]
    fits = {part["problem"]: part for part in parts if part["part"] == "fit"}
    extras = [part for part in parts if part["part"] == "illustrations"]
    rows = []
    for dataset, printed in published["tables"].items():
        here = {run["method"]: run for run in runs if run["dataset"] == dataset}
        if here or any(fit["dataset"] == dataset for fit in fits.values()):
            rows += _printed_rows(dataset, printed, here, published)
            rows += _reference_rows(dataset, printed["row"], here, published)
    for fit in fits.values():
        rows += _mode_rows(fit, published)
    rows += claim_rows(runs, fits, extras[0] if extras else None, published)
    for run in runs:
        run |= _times_beside(run)
        printed = published["tables"].get(run["dataset"], {}).get(run["method"], {})
        for column in ("tau_g", "tau_beta_g"):
            run[f"printed_{column}"] = printed.get(column, math.nan)
    hidden = ("facts", "settings", "part", "study")
    table = pd.DataFrame([{k: v for k, v in run.items() if k not in hidden} for run in runs])
    first = [name for name in FIRST_COLUMNS if name in table]
    table = table[first + [name for name in table if name not in first]]
    verdict = pd.DataFrame(rows, columns=VERDICT_COLUMNS)
    return {"runs": table, "verdict": verdict}


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
            run = runs.get(method)
            if run is None:
                rows.append(verdict_row(STUDY, **known, verdict="not run"))
                continue
            why = _reason(published, dataset, method, column)
            rows.append(_printed_row(run, known, column, why, published["tolerances"]))
    return rows


def _printed_row(run: dict, known: dict, column: str, why: str, tolerances: dict) -> dict:
    """One printed cell beside ours."""
    ours = run[column]
    if column in MACHINE:
        return verdict_row(
            STUDY, **known, ours=ours, mcse=run.get(f"{column}_mcse", ""),
            verdict="machine-dependent", why=why or _seconds_note(run),
        )  # fmt: skip
    if column in ("L", "g"):
        # |R_0| is a whole number of cases: g differs from (f M + 1 - f) L by less than L M / n
        allowed = 0.05 if column == "g" else 0.0
        same = abs(ours - known["printed"]) <= allowed
        return verdict_row(
            STUDY, **known, ours=ours, mcse=0.0, tolerance=allowed,
            verdict="agrees" if same else "differs", why=why or "a count",
        )  # fmt: skip
    entry = known | {"value": known["printed"]} | _tolerance(tolerances, column, known["printed"])
    row = compare(STUDY, entry, ours, run[f"{column}_mcse"])
    row["recomputed"] = known["recomputed"]
    if column != "AP" and run[f"{column}_mcse"] > PRECISION * ours:
        row["verdict"] = "not resolved"
    if row["verdict"] == "differs" and column.startswith("tau_beta"):
        row |= _with_intercept(run, entry, column)
    if row["verdict"] in ("differs", "not resolved") or _is_slip(known):
        row["why"] = why or row["why"]
    return row


def _with_intercept(run: dict, entry: dict, column: str) -> dict:
    """The same cell with the intercept's square in the sum, as the authors' scripts may have it."""
    name = column.replace("beta", "theta")
    other = compare(STUDY, entry, run[name], run[f"{name}_mcse"])
    if other["verdict"] != "agrees":
        return {}
    note = f"of |theta|^2, the intercept included (slopes alone: {run[column]:.3g})"
    return {"ours": run[name], "mcse": run[f"{name}_mcse"], "verdict": "agrees", "why": note}


def _reference_rows(dataset: str, name: str, runs: dict, published: dict) -> list[dict]:
    """Acceptance, autocorrelation times and posterior means beside an independent computation."""
    reference, rows = published["reference"], []
    for method, cells in reference["cells"][dataset].items():
        if method not in runs:
            continue
        run = runs[method]
        for column, value in cells.items():
            entry = {
                "table": REFERENCE, "row": f"{name}, {method}", "column": column,
                "unit": UNITS[column], "value": value,
            } | _tolerance(reference["tolerances"], column, value)  # fmt: skip
            # the positive sequence is ours beside theirs: its error is a quarter of batch means'
            source = column if column == "AP" else f"{column}_ips"
            row = compare(STUDY, entry, run[source], run[f"{source}_mcse"])
            if row["verdict"] != "agrees":
                reason = _reason(published, dataset, method, f"reference {column}")
                row["why"] = reason or row["why"]
            rows.append(row)
        for column, (value, error) in reference["means"][dataset].items():
            entry = {
                "table": REFERENCE, "row": f"{name}, {method}", "column": f"mean {column}",
                "unit": "", "value": value, "tolerance": 3.0 * error,
                "why": "3 standard errors of the reference",
            }  # fmt: skip
            found = f"mean_{column}"
            row = compare(STUDY, entry, run[found], run[f"{found}_mcse"])
            if row["verdict"] == "not resolved" and run[f"{found}_mcse"] < 0.1 * abs(value):
                close = abs(run[found] - value) <= math.hypot(3 * error, 3 * run[f"{found}_mcse"])
                row["verdict"] = "agrees" if close else "differs"
            rows.append(row)
    return rows


def _mode_rows(fit: dict, published: dict) -> list[dict]:
    """Deterministic values at the mode."""
    known = published["reference"]["modes"].get(fit["dataset"], {})
    return [
        compare(
            STUDY,
            {
                "table": REFERENCE, "row": f"{fit['dataset']}, at the mode", "column": column,
                "unit": "nat" if column != "squared_slopes" else "", "value": value,
                "tolerance": 2.0e-6, "why": "deterministic, printed to 1e-6",
            },
            fit[column],
            0.0,
        )
        for column, value in known.items()
    ]  # fmt: skip


def _tolerance(tolerances: dict, column: str, value: float) -> dict:
    found = tolerances["AP" if column == "AP" else "tau"]
    absolute = found["value"] if "value" in found else found["share"] * value
    return {"tolerance": absolute, "why": found["why"]}


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


def _reason(published: dict, dataset: str, method: str, column: str) -> str:
    for entry in published["reasons"]:
        if (entry["dataset"], entry["method"], entry["column"]) == (dataset, method, column):
            return entry["why"]
    return ""


def _seconds_note(run: dict) -> str:
    return f"CPU seconds of one chain among {run['n_chains']} in lockstep, one BLAS thread"
