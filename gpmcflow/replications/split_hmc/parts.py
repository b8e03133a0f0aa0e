"""One row a finished run of the split Hamiltonian study: what its verdict is made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from arviz_stats.base import array_stats

from gpmcflow.diagnostics.autocorrelation import (
    batch_length,
    batch_means_time,
    initial_positive_sequence_time,
    mean_and_error,
)
from gpmcflow.jobs.parts import make_part
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
