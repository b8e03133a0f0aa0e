"""Job 7: a covariance's values and a maximum-likelihood fit, beside scikit-learn, GPy and GPflow.

    python -m benchmarks.peers.fits --peers FOLDER

Scikit-learn's diabetes data, 442 rows, standardised; a squared exponential with one length scale and
Gaussian noise, all free. Covariances are compared at fixed hyperparameters, then the largest log likelihood,
in nats. Seconds are of the second of two fits, after what is compiled at the first; peers are not warned of
local maxima, so each is started at the same point, ours at its own. A peer whose environment is not there is
left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import gpmcflow as gp

from .common import FOLDER, busy_cores, environment, parser, stamp, write_rows

PEERS = ("scikit-learn", "gpy", "gpflow")
NATS, SHARE = 1e-4, 1e-8  # largest differences: of the likelihood, of covariances
SAME = "the same factorisations and gradients in both: nothing to gain"
AT = {"length": 2.0, "signal": 1.5}


def problem_of() -> dict:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return {"X": (X - X.mean(0)) / X.std(0), "y": (y - y.mean()) / y.std(), **AT}


def ours(problem: dict) -> dict:
    """Covariance, maximum, seconds."""
    X, y = problem["X"], problem["y"]
    fixed = gp.GPModel(
        X, y, gp.SquaredExponential(AT["length"], AT["signal"]), gp.Gaussian(0.5), jitter=0.0
    )
    wide = gp.Hyperprior.log_uniform(1e-3, 1e3)
    covariance = gp.SquaredExponential(wide, wide)
    model = gp.GPModel(X, y, covariance, gp.Gaussian(wide), 0.0, jitter=0.0)
    for _ in range(2):
        began = time.perf_counter()
        fit = gp.approximate(model)
        seconds = time.perf_counter() - began
    return {"covariance": fixed.covariance_matrix(np.empty(0)), "maximum": fit.log_evidence,
            "seconds": seconds, "at": np.array(list(fit.parameters.values()))}  # fmt: skip


def theirs(problem: dict, peer: str, folder: str) -> dict:
    """The same of a peer, in its own environment."""
    python = sys.executable if peer == "scikit-learn" else f"{folder}/{peer}/bin/python"
    with tempfile.TemporaryDirectory() as here:
        given, result = Path(here) / "problem.npz", Path(here) / "result.npz"
        np.savez(given, **problem)
        command = [python, str(FOLDER / "fits_peers.py"), str(given), str(result), peer]
        subprocess.run(command, check=True, env=environment())
        return dict(np.load(result))


def main() -> None:
    options = parser(__doc__, PEERS).parse_args()
    problem, load = problem_of(), busy_cores()
    mine = ours(problem)
    for peer in options.problems:
        if peer != "scikit-learn" and not Path(options.peers, peer).exists():
            print(f"{peer}: no environment in {options.peers}, left out")
            continue
        other = theirs(problem, peer, options.peers)
        apart = float(np.abs(mine["covariance"] - other["covariance"]).max()) / AT["signal"] ** 2
        maximum, spent = float(other["maximum"]), float(other["seconds"])
        nats = mine["maximum"] - maximum
        settings = "length scale, signal sd, noise sd at its maximum " + ", ".join(
            f"{value:.4g}" for value in other["at"]
        )
        common = {
            "job": 7, "problem": "diabetes, n = 442", "ours": "gp.approximate", "peer": str(other["name"]),
            "version": f"{other['name']} {other['version']}", "search_seconds": 0.0,
            "ours_draws": np.nan, "peer_draws": np.nan, "gap": np.nan, "not_converged": "",
            **stamp(load),
        }  # fmt: skip
        values = (
            ("covariance, largest difference", "of the variance", SHARE, apart, apart, apart, np.nan),
            ("maximum of log p(y)", "nats", NATS, mine["maximum"], maximum, abs(nats), np.nan),
            ("wall time of the fit", "seconds", np.nan, mine["seconds"], spent, np.nan,
             spent / mine["seconds"]),
        )  # fmt: skip
        rows = []
        for quantity, unit, goal, value, peer_value, difference, ratio in values:
            reached = "shown" if np.isnan(goal) else "yes" if difference <= goal else "no"
            why = (
                SAME * bool(ratio < 1.0) if np.isnan(difference) else f"difference {difference:.1e}"
            )
            rows.append({
                **common, "quantity": quantity, "unit": unit, "goal": goal, "settings": settings,
                "ours_value": value, "ours_all": value, "peer_value": peer_value,
                "peer_all": peer_value, "ratio": ratio, "ratio_all": ratio, "reached": reached,
                "why": why,
            })  # fmt: skip
        write_rows(rows, options.again)


if __name__ == "__main__":
    main()
