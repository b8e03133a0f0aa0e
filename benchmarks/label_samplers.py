"""Effective draws per CPU second of the samplers of hyperparameters and latents, for labels and counts.

    python benchmarks/label_samplers.py [--problems labels ..]
    python benchmarks/label_samplers.py --table

Problems are three of `quick_answers.py`, the patients of `examples/own_data`, readmitted or not by their six
columns of numbers, of which 200 or all rows, and its counts of birds by place, with a free mean. Each sampler
draws two chains; a row of `label_samplers.csv` has its CPU seconds, pilot included, the effective draws of
the worst hyperparameter and the worst latent value (bulk, ArviZ), the share of EP's draws of the latents that
is effective, and the mean of each hyperparameter in normal coordinates.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats import ess

import gpmcflow as gp

sys.path.insert(0, str(Path(__file__).parent))
from quick_answers import PROBLEMS as OTHERS

ROWS = Path(__file__).with_name("label_samplers.csv")
MAKE_DATA = Path(__file__).parents[1] / "examples" / "own_data" / "make_data.py"
COLUMNS = ["age", "bmi", "creatinine", "systolic", "prior_admissions", "length_of_stay"]
# draws of each chain
SAMPLERS = {"PseudoMarginalIndependence": 300, "PseudoMarginalHMC": 300, "JointSplitHMC": 600}


def patients(n: int | None, ard: bool) -> gp.GPModel:
    """Complete rows of the example's patients, columns in standard deviations."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, MAKE_DATA, folder], check=True, capture_output=True)
        frame = pd.read_csv(Path(folder) / "patients.csv")
    numbers = frame[COLUMNS].apply(pd.to_numeric, errors="coerce")
    usable = numbers.notna().all(axis=1) & frame["readmitted"].isin(["yes", "no"])
    X = numbers[usable].to_numpy()[:n]
    y = np.where(frame.loc[usable, "readmitted"] == "yes", 1.0, -1.0)[:n]
    return gp.GPModel((X - X.mean(0)) / X.std(0), y, gp.Matern32(ard=ard), gp.Logistic())


def birds() -> gp.GPModel:
    """Counts of birds at places, in standard deviations, over hours of watching."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, MAKE_DATA, folder], check=True, capture_output=True)
        frame = pd.read_csv(Path(folder) / "birds.csv")
    columns = ["easting", "northing", "hours", "count"]
    X = frame[columns].apply(pd.to_numeric, errors="coerce").dropna().to_numpy()
    places = (X[:, :2] - X[:, :2].mean(0)) / X[:, :2].std(0)
    mean = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
    likelihood = gp.NegativeBinomial(exposure=X[:, 2])
    return gp.GPModel(places, X[:, 3], gp.Matern32(), likelihood, mean)


PROBLEMS = {
    **{
        name: lambda name=name: OTHERS[name]()[0]
        for name in ("labels", "labels, weak", "labels, 10 columns")
    },
    "patients, 200": lambda: patients(200, False),
    "patients, 200, ARD": lambda: patients(200, True),
    "patients": lambda: patients(None, False),
    "birds": birds,
}


def worst(values: np.ndarray) -> float:
    """Least effective size of (chain, draw, k)."""
    data = xr.Dataset({"a": (("chain", "draw", "k"), values)})
    return float(ess(data, sample_dims=["chain", "draw"])["a"].min())


def row(problem: str, name: str) -> dict[str, object]:
    """What one sampler gives and costs."""
    model = PROBLEMS[problem]()
    began = time.process_time()
    draws = gp.sample(
        model, getattr(gp, name)(), n_chains=2, n_draws=SAMPLERS[name], predictive=False,
        execution=gp.Execution(workers=1, progress=False),
    )  # fmt: skip
    seconds = time.process_time() - began
    theta = draws["posterior/theta"].transpose("chain", "draw", "theta_dim").values
    x = np.array([[model.parameters.to_normal(own) for own in chain] for chain in theta])
    stats = draws["sample_stats"]
    share = round(float(stats["latent_share"].mean()), 2) if "latent_share" in stats else np.nan
    of_theta, of_latents = worst(x), worst(draws["posterior/latent"].values)
    return {
        "problem": problem, "sampler": name, "rows": model.n_cases, "hyperparameters": model.dim,
        "cpu_seconds": round(seconds, 1),
        "theta_per_second": round(of_theta / seconds, 2),
        "latents_per_second": round(of_latents / seconds, 2),
        "latent_share": share,
        "means": " ".join(f"{mean:.2f}" for mean in x.mean((0, 1))),
    }  # fmt: skip


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the file of rows")
    given = parser.parse_args()
    if not given.table:
        gp.sample(OTHERS["labels"]()[0], n_chains=1, n_draws=2, predictive=False)  # compile
        rows = []
        for problem in given.problems:
            for name in SAMPLERS:
                rows.append(row(problem, name))
                print(rows[-1], flush=True)
                pd.DataFrame(rows).to_csv(given.rows, index=False)
    print(pd.read_csv(given.rows).to_string(index=False))


if __name__ == "__main__":
    main()
