"""One row a data set of the fast-likelihood study, with all its methods: what its verdict is made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr

from gpmcflow.jobs.parts import make_part
from gpmcflow.replications.fast_likelihood.data import STUDY
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
