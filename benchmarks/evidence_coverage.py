"""How often 95 % intervals of the evidence at fixed hyperparameters hold the truth, at default settings.

    python benchmarks/evidence_coverage.py [--problems labels counts ..] [--seeds 200]

Each of 200 seeds is one run of annealed importance sampling, or of sequential Monte Carlo, from an EP fit or
from the prior, of problems of at most 60 cases made with a fixed seed. The truth is a long run of parallel
tempering from the EP fit, another estimator, with an error far below that of the runs. Where the start is far
from the posterior and the ladder short, weights collapse: there alarms must ring, and the share of runs that
ring is in the table; coverage is that of the runs that do not. Rows go to `evidence_coverage.csv` as they
finish; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import gpmcflow as gp
from gpmcflow.execution import Execution
from gpmcflow.models.gaussian_sites import GaussianSites

ROWS = Path(__file__).with_name("evidence_coverage.csv")
COLUMNS = ("problem", "route", "seed", "log_evidence", "standard_error", "low", "high", "alarm")
QUIET = Execution(progress=False)
NOMINAL, LEAST, MOST = 0.95, 0.92, 0.99


class Route(NamedTuple):
    """How a run is made; ``prior`` starts it from the prior, on the first problem alone."""

    name: str
    settings: dict[str, Any]
    prior: bool = False


ROUTES = {
    "annealing": Route("annealing", {}),
    "sequential Monte Carlo": Route("sequential_monte_carlo", {}),
    "annealing from the prior": Route("annealing", {"n_temperatures": 200}, prior=True),
    "sequential Monte Carlo from the prior": Route("sequential_monte_carlo", {}, prior=True),
    "annealing from the prior, 3 temperatures": Route("annealing", {"n_temperatures": 3}, prior=True),
}  # fmt: skip


def problems() -> dict[str, gp.GPModel]:
    """Labels with a weak and a strong signal, counts, and real data with outliers."""
    rng = np.random.default_rng(20)
    X, x = rng.uniform(-2.0, 2.0, (40, 2)), np.linspace(0.0, 1.0, 60)
    noisy = np.sin(2.0 * X[:, 0]) + 0.5 * rng.standard_normal(40)
    labels, curve = np.where(noisy > 0.0, 1, -1), np.sin(6.0 * x)
    counts = rng.poisson(np.exp(1.0 + curve)).astype(float)
    real = curve + 0.2 * rng.standard_t(3.0, 60)
    wide = gp.SquaredExponential(length_scale=1.0, signal_sd=2.0)
    strong = gp.SquaredExponential(length_scale=1.0, signal_sd=8.0)
    line = gp.SquaredExponential(length_scale=0.3, signal_sd=1.0)
    return {
        "labels": gp.GPModel(X, labels, wide, gp.Logistic()),
        "labels, strong signal": gp.GPModel(X, labels, strong, gp.Probit()),
        "counts": gp.GPModel(x, counts, line, gp.Poisson()),
        "outliers": gp.GPModel(x, real, line, gp.StudentT(0.2, 3.0)),
    }


def truth(model: gp.GPModel) -> tuple[float, float]:
    """Log evidence by a long run of parallel tempering, and its standard error."""
    run = gp.log_evidence(
        model, "parallel_tempering", n_replicates=8, n_draws=8000, seed=10**6, execution=QUIET
    )
    bridge = run["evidence"].sel(estimator="bridge")
    return float(bridge["log_evidence"]), float(bridge["standard_error"])


def row(model: gp.GPModel, problem: str, route: str, seed: int) -> dict:
    """One run."""
    how = ROUTES[route]
    start = GaussianSites.prior(model.at()) if how.prior else model
    run = gp.log_evidence(start, how.name, seed=seed, execution=QUIET, **how.settings)["evidence"]
    value, error = float(run["log_evidence"]), float(run["standard_error"])
    low, high = (
        (float(run[f"interval_{end}"]) for end in ("low", "high"))
        if "interval_low" in run
        else (value - 1.959964 * error, value + 1.959964 * error)
    )
    alarm = str(run["alarm"].item())
    return dict(zip(COLUMNS, (problem, route, seed, value, error, low, high, alarm), strict=True))


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Coverage, bias and spread by problem and route, and the share of runs that ring."""
    truths = rows[rows["route"] == "truth"].set_index("problem")
    lines = []
    for (problem, route), runs in rows[rows["route"] != "truth"].groupby(
        ["problem", "route"], sort=False
    ):
        reference = truths.loc[problem, "log_evidence"]
        rings = runs["alarm"].notna()
        quiet = runs[~rings]
        covered = int(((quiet["low"] <= reference) & (reference <= quiet["high"])).sum())
        gap = quiet["log_evidence"] - reference
        few = len(quiet) < 20
        ends = binomtest(covered, max(len(quiet), 1), NOMINAL).proportion_ci(0.99)
        lines.append({
            "problem": problem,
            "route": route,
            "runs": len(runs),
            "with an alarm": f"{rings.mean():.1%}",
            "covered": "-" if few else f"{covered / len(quiet):.1%}",
            "99 % interval of that": "-" if few else f"{ends.low:.1%} to {ends.high:.1%}",
            "bias": "-" if few else f"{gap.mean():+.4f}",
            "spread": "-" if few else f"{gap.std():.4f}",
            "mean stated error": "-" if few else f"{quiet['standard_error'].mean():.4f}",
        })  # fmt: skip
    order = {problem: place for place, problem in enumerate(truths.index)}
    return (
        pd.DataFrame(lines)
        .set_index("problem")
        .sort_index(kind="stable", key=lambda names: names.map(order))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=problems(), default=list(problems()))
    parser.add_argument("--routes", nargs="+", choices=ROUTES, default=list(ROUTES))
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    first, *_ = problems()
    rows = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=COLUMNS)
    made = set(zip(rows["problem"], rows["route"], rows["seed"], strict=True))
    with ROWS.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not made:
            writer.writeheader()
        for name in options.problems:
            model = problems()[name]
            if (name, "truth", 0) not in made:
                value, error = truth(model)
                known = {"log_evidence": value, "standard_error": error}
                writer.writerow({"problem": name, "route": "truth", "seed": 0, **known})
            for route in options.routes:
                if ROUTES[route].prior and name != first:
                    continue
                for seed in range(options.seeds):
                    if (name, route, seed) not in made:
                        writer.writerow(row(model, name, route, seed))
                        file.flush()
    print(table(pd.read_csv(ROWS)).to_string())


if __name__ == "__main__":
    main()
