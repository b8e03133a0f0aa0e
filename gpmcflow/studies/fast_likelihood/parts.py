"""One row a data set of the fast-likelihood study, with all its methods: what its verdict is made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gpmcflow.storage import load_results, open_results, origin, read_sidecar


def collect(folder: Path) -> list[dict]:
    """Parts of all finished files of the study below its results folder."""
    parts = [tuning_part(path) for path in sorted(folder.glob("*/tuning.nc"))]
    return parts + [replicate_part(path) for path in sorted(folder.glob("*/replicate_*.nc"))]


def tuning_part(path: str | Path) -> dict:
    """Settings chosen for a type, what each setting cost on the tuning data, and the checks."""
    tree = load_results(path)
    runs, chosen = tree["runs"].to_dataset(), tree["chosen"].to_dataset()
    return {
        "part": "tuning",
        "kind": "tuning",
        "study": tree.attrs["study"],
        "problem": tree.attrs["problem"],
        "chosen": dict(
            zip(chosen["method"].values.tolist(), chosen["setting"].values.tolist(), strict=True)
        ),
        "runs": {name: runs[name].values.tolist() for name in runs.data_vars},
        "checks": {name: float(value) for name, value in tree["checks"].data_vars.items()},
    } | origin(tree.attrs, read_sidecar(path))


def replicate_part(path: str | Path) -> dict:
    """Estimates of every method on one data set: see `method_estimates`."""
    tree = open_results(path)
    found = tree["methods"].to_dataset().load()
    settings = json.loads(tree.attrs["settings"])
    part = {
        "part": f"replicate_{settings['replicate']}",
        "kind": "replicate",
        "study": tree.attrs["study"],
        "problem": tree.attrs["problem"],
        "replicate": int(settings["replicate"]),
    } | origin(tree.attrs, read_sidecar(path))
    seconds = part["facts"]["seconds"]
    iterations = settings["type"]["iterations"]
    part["methods"] = {
        str(name): method_estimates(found.sel({"method": name}), seconds[str(name)], iterations)
        for name in found["method"].values
    }
    tree.close()
    eigen = seconds["eigen_exact"]
    if eigen:
        part["eigen"] = [eigen["calls"][0] / eigen["exact"], eigen["m"]]
    return part


def method_estimates(found, seconds: dict, iterations: int) -> dict:
    """One method on one data set, from its row of the results and its measured seconds.

    ACT by the initial monotone sequence (tau) and by the run rule; calls per iteration n_exact, n_fast;
    pi_equivalents = sum of calls, each at its share of the seconds of an exact evaluation, with gradients
    at theirs; pilot: the same for what came before the first iteration; cost = tau (pi_equivalents + pilot /
    iterations), of an effective draw; efficiency = tau times CPU seconds of an iteration.
    """
    calls = found["calls"].values
    calls = calls[np.isfinite(calls)]
    shares = np.array(seconds["calls"]) / seconds["exact"]
    gradient = seconds.get("gradient", 0.0) / seconds["exact"]
    per_iteration = float(calls @ shares) + gradient * float(found["gradients"])
    pilot = float(found["pilot_calls"]) + gradient * float(found["pilot_gradients"])
    tau = float(found["tau"])
    quality = found["D"].values
    return {
        "setting": str(found["setting"].values),
        "tau": tau,
        "tau_run_rule": float(found["tau_run_rule"]),
        "acceptance": float(found["acceptance"]),
        "D": [float(v) for v in quality[1:] if not np.isnan(v)],
        "m": [int(v) for v in found["m"].values[1:] if not np.isnan(v)],
        "n_exact": float(calls[0]),
        "n_fast": [float(v) for v in calls[1:]],
        "n_gradients": float(found["gradients"]),
        "shares": [float(v) for v in shares],
        "gradient_share": gradient,
        "pi_equivalents": per_iteration,
        "pilot": pilot,
        "cost": tau * (per_iteration + pilot / iterations),
        "run_cost": tau * per_iteration,
        "seconds": float(seconds["iteration"]),
        "efficiency": tau * float(seconds["iteration"]),
        "mean_log_likelihood": float(found["mean_log_likelihood"]),
        "sd_log_likelihood": float(found["sd_log_likelihood"]),
        "theta_mean": found["theta_mean"].values.tolist(),
        "theta_sd": found["theta_sd"].values.tolist(),
        "theta_tau": found["theta_tau"].values.tolist(),
    }
