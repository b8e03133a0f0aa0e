"""Tables of the fast-likelihood study: all runs, and the verdict on printed numbers and claims.

Both are made of parts, one a data set (`parts`), so that a table can be rebuilt from
rows that were kept where the runs were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.studies.fast_likelihood.claims import claim_rows
from gpmcflow.studies.fast_likelihood.data import STUDY
from gpmcflow.studies.fast_likelihood.estimates import (
    TypeRuns,
    log_ratio,
    type_runs,
)
from gpmcflow.studies.fast_likelihood.parts import replicate_part, tuning_part
from gpmcflow.studies.fast_likelihood.types import TYPES
from gpmcflow.studies.frame.job import Job
from gpmcflow.studies.verdict import VERDICT_COLUMNS, compare, of_this_run, verdict_row

UNITS = {"m": "cases", "efficiency": "", "cpu": "s", "ACT": "iterations"}


def summarise(job: Job) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the results files of a run."""
    parts = [tuning_part(path) for path in job.input.tunings]
    parts += [replicate_part(path) for path in job.input.runs]
    return of_this_run(tables(parts, job.published()))


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "runs" and "verdict" from the parts and the printed numbers."""
    parts = list(parts)
    types = type_runs(parts)
    tunings = {part["problem"]: part for part in parts if part["kind"] == "tuning"}
    tunings = {name: tunings[name] for name in types if name in tunings}
    faithful = {runs.data: runs for runs in types.values() if runs.is_paper}
    rows = []
    for number, printed in published["types"].items():
        found = faithful.get(number)
        tuning = tunings.get(found.name) if found else None
        rows += _printed_rows(number, printed, found, published, tuning)
    rows += claim_rows(types, faithful, tunings)
    runs = [row for found in types.values() for row in _run_rows(found, published)]
    return {
        "runs": pd.DataFrame(runs),
        "verdict": pd.DataFrame(rows, columns=VERDICT_COLUMNS),
    }


def _run_rows(found: TypeRuns, published: dict) -> list[dict]:
    """One row a method: means over the data sets, and costs relative to the baseline's, paired."""
    names = {method: column for column, method in published["methods"].items()}
    printed = published["types"].get(found.data, {}) if found.is_paper else {}
    rows = []
    for method in found.methods:
        runs = found.of(method)
        last = runs[-1]
        row = {
            "problem": found.name,
            "method": method,
            "data": found.data,
            "n": found.settings["n"],
            "m": " ".join(map(str, last["m"])),
            "setting": last["setting"],
            "replicates": len(runs),
        }
        row["ACT"], row["ACT_mcse"] = mean_and_error([run["tau"] for run in runs])
        row["ACT_run_rule"] = mean_and_error([run["tau_run_rule"] for run in runs])[0]
        row["acceptance"] = float(np.mean([run["acceptance"] for run in runs]))
        row["D"] = " ".join(f"{np.mean(v):.3g}" for v in zip(*(r["D"] for r in runs), strict=True))
        row["n_exact"] = float(np.mean([run["n_exact"] for run in runs]))
        row["n_fast"] = float(np.mean([sum(run["n_fast"]) for run in runs]))
        row["n_gradients"] = float(np.mean([run["n_gradients"] for run in runs]))
        row["pi_equivalents"] = float(np.mean([run["pi_equivalents"] for run in runs]))
        row["seconds"] = float(np.mean([run["seconds"] for run in runs]))
        row["pilot"] = float(np.mean([run["pilot"] for run in runs]))
        row["cost"], row["cost_mcse"] = mean_and_error([run["cost"] for run in runs])
        for name, key in (("cost_ratio", "cost"), ("efficiency_ratio", "efficiency")):
            centre, error = log_ratio(found, method, "standard", key)
            row[name] = math.exp(centre) if math.isfinite(centre) else centre
            row[f"{name}_mcse"] = row[name] * error if math.isfinite(row[name]) else math.nan
        row["printed_ACT"] = printed.get("ACT", {}).get(names.get(method, ""), math.nan)
        rows.append(row)
    return rows


def _printed_rows(
    number: int, printed: dict, found: TypeRuns | None, published: dict, tuning: dict | None
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
            if found is None or method not in found.methods:
                why = f"no run of type {number} at n = {TYPES[number].n} as in the paper"
                rows.append(verdict_row(STUDY, **known, verdict="missing", why=why))
                continue
            row = _judged(found, method, column, name, value, published["tolerances"])
            if row["verdict"] in ("differs", "not resolved"):
                reason = _reason(published, number, name, column)
                if column == "ACT":
                    reason = "; ".join(filter(None, (reason, _by_width(tuning, method))))
                row["why"] = "; ".join(filter(None, (reason, row["why"])))
            rows.append(verdict_row(STUDY, **known, **row))
    return rows


def _judged(found: TypeRuns, method: str, column: str, name: str, value, tolerances: dict) -> dict:
    runs = found.of(method)
    note = (
        f"{len(runs)} data sets, {found.settings['iterations']} iterations, {runs[-1]['setting']}"
    )
    if column == "m":
        ours = runs[-1]["m"]
        same = ours == (value if isinstance(value, list) else [value])
        text = " ".join(map(str, ours))
        return {
            "ours": text,
            "verdict": "agrees" if same else "differs",
            "why": "as stated in the config",
        }
    if column == "cpu" or (column, name) == ("efficiency", "STD"):
        key = "seconds" if column == "cpu" else "efficiency"
        ours, error = mean_and_error([run[key] for run in runs])
        return {"ours": ours, "mcse": error, "verdict": "machine-dependent", "why": note}
    if column == "ACT":
        taus = [run["tau"] for run in runs]
        stuck = sum(map(math.isinf, taus))
        if stuck:
            return {
                "ours": math.inf, "verdict": "differs",
                "why": f"{stuck} of {len(taus)} chains never moved; {note}",
            }  # fmt: skip
        ours, error = mean_and_error(taus)
        return _within_factor(ours, error, len(taus), value, tolerances["ACT"], note)
    centre, error = log_ratio(found, method, "standard", "efficiency")
    if not math.isfinite(centre):
        return {"ours": math.inf, "verdict": "differs", "why": f"a chain never moved; {note}"}
    ours = math.exp(centre)
    if name == "SOD":
        entry = {"table": "", "row": "", "column": "", "unit": "", "value": value}
        entry |= {"tolerance": tolerances["SOD"]["value"], "why": tolerances["SOD"]["why"]}
        row = compare(STUDY, entry, ours, ours * error)
        kept = ("ours", "mcse", "tolerance", "verdict")
        return {key: row[key] for key in kept} | {"why": f"{row['why']}; {note}"}
    return _within_factor(ours, ours * error, len(runs), value, tolerances["ratio"], note)


def _within_factor(
    ours: float, error: float, n: int, value: float, allowed: dict, note: str
) -> dict:
    """Agrees where the whole 95 % interval is within a factor, differs where none of it is."""
    factor = allowed["factor"]
    half = student_t.ppf(0.975, n - 1) * error / ours if n > 1 else math.inf
    centre = math.log(ours / value)
    inside = abs(centre) + half <= math.log(factor)
    outside = abs(centre) - half > math.log(factor)
    return _cells(ours, error, f"factor {factor:g}", inside, outside, allowed["why"], note)


def _cells(ours, error, tolerance, inside: bool, outside: bool, why: str, note: str) -> dict:
    return {
        "ours": ours,
        "mcse": error,
        "tolerance": tolerance,
        "verdict": "agrees" if inside else "differs" if outside else "not resolved",
        "why": f"{why}; {note}",
    }


def _by_width(tuning: dict | None, method: str) -> str:
    """Autocorrelation times with each setting on the data for tuning: the paper does not state its widths."""
    if tuning is None or method not in tuning["runs"].get("method", ()):
        return ""
    runs, taus = tuning["runs"], {}
    for name, setting, tau in zip(runs["method"], runs["setting"], runs["tau"], strict=True):
        if name == method:
            taus.setdefault(setting, []).append(tau)
    text = ", ".join(f"{setting} {np.mean(values):.1f}" for setting, values in taus.items())
    return f"the paper's widths are not known; ACT by width on the data for tuning: {text}"


def _recomputed(printed: dict, column: str, name: str) -> float | str:
    """The efficiency from the paper's seconds and autocorrelation times."""
    if column != "efficiency":
        return ""
    own = printed["cpu"][name] * printed["ACT"][name]
    base = 1.0 if name == "STD" else printed["cpu"]["STD"] * printed["ACT"]["STD"]
    return round(own / base, 3)


def _reason(published: dict, number: int, name: str, column: str) -> str:
    for entry in published["reasons"]:
        if (entry["type"], entry["method"], entry["column"]) == (number, name, column):
            return entry["why"]
    return ""
