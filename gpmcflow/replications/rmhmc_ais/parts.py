"""One part a finished run of the evidence study: what its tables are made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr

from gpmcflow.jobs.parts import make_part
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
