"""Tables of the fast-likelihood study: all runs, and the verdict on printed numbers and claims.

Both are made of parts, one a data set (`parts`), so that a table can be rebuilt from
rows that were kept where the runs were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from gpmcflow.jobs.judgement import NUMBER, TIME_PRECISION, verdict
from gpmcflow.jobs.parts import rows_of
from gpmcflow.replications.fast_likelihood.claims import claim_rows
from gpmcflow.replications.fast_likelihood.data import STUDY
from gpmcflow.replications.fast_likelihood.estimates import TypeRuns, type_runs
from gpmcflow.replications.fast_likelihood.types import TYPES
from gpmcflow.replications.verdict import VERDICT_COLUMNS, number_cells, printed_row, reason_of

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
    return {"runs": pd.DataFrame(table), "verdict": pd.DataFrame(rows, columns=VERDICT_COLUMNS)}


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
            rows.append(printed_row(STUDY, known, cells, missing, *reasons))
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
