"""Effective samples a second of `JointSplitHMC` and of slice sampling in each representation, in one run.

    python benchmarks/joint_samplers.py [--problems coal digits synthetic ionosphere redwoods small]

Problems are those of the paper config's study `surrogate_slice` (data as in any run: GPMCFLOW_DATA or
downloaded), two chains on two cores for all, wall time. Of each sampler: effective samples (ArviZ's bulk size
of both chains) a second of sampling, and of everything, pilot or warm-up and compilation included, for the
complete-data log likelihood T, the worst hyperparameter and the worst latent value. Posterior means are
compared first: the largest difference from the first sampler of a problem in joint Monte Carlo standard
errors. NumPyro's NUTS on the same problems is in `peers/latents.py`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from peers.common import means, sizes
from peers.problems import load

from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel
from gpmcflow.replications.surrogate_slice.settings import REPRESENTATIONS, WITHOUT_SITES
from gpmcflow.samplers import JointSplitHMC, SurrogateSlice
from gpmcflow.samplers.sampling import sample

PROBLEMS = ("coal", "digits", "synthetic", "ionosphere", "redwoods", "small")
SLICE_DRAWS = {
    "coal": 8000, "digits": 10000, "synthetic": 1500, "ionosphere": 800, "redwoods": 1000, "small": 8000,
}  # fmt: skip
KRONECKER = 10  # times as many draws on a grid without sites, whose proposals are so much cheaper
JOINT_DRAWS = {
    "coal": 8000, "digits": 2000, "synthetic": 3000, "ionosphere": 2000, "redwoods": 3000, "small": 8000,
}  # fmt: skip
POISSON = (
    "coal",
    "redwoods",
    "small",
)  # whose likelihood has an expansion of its own at each count
WORKERS = 2
WARMUP_SHARE = 0.1  # of the draws, of slice sampling


def row(name: str, theta, latent, T, sampling: float, total: float, gradients: float) -> dict:
    """One line of the table."""
    found = {"T": sizes(T), "theta": sizes(theta), "latent": sizes(latent)}
    return {
        "name": name, "sizes": found, "sampling": sampling, "total": total, "gradients": gradients,
        "means": means(theta),
    }  # fmt: skip


def ours(model: GPModel, name: str, problem: str) -> dict:
    """A sampler of the package: `JointSplitHMC`, or slice sampling with a representation."""
    joint = name == "joint-split"
    draws = (JOINT_DRAWS if joint else SLICE_DRAWS)[problem]
    if model.kronecker and name in WITHOUT_SITES:
        draws *= KRONECKER
    warmup = 0 if joint else max(100, int(WARMUP_SHARE * draws))

    def run(n_draws: int) -> tuple[float, object]:
        began = time.perf_counter()
        tree = sample(
            model,
            JointSplitHMC() if joint else SurrogateSlice(name),
            n_chains=2,
            n_draws=n_draws,
            n_warmup=warmup,
            seed=11,
            execution=Execution(workers=WORKERS),
        )
        return time.perf_counter() - began, tree

    before, _ = run(4)  # pilot or warm-up, workers, compiled loops from disk
    total, tree = run(draws)
    stats = tree["sample_stats"].to_dataset()
    gradients = float(stats["n_gradient"].sum()) if joint else float(stats["n_hyp"].sum())
    return row(
        name, tree["posterior/theta"].values, tree["posterior/latent"].values,
        stats["complete_log_likelihood"].values, total - before, total, gradients,
    )  # fmt: skip


def show(rows: list[dict]) -> None:
    """Lines of the table; differences of means from the first row in joint standard errors."""
    first, first_error = rows[0]["means"]
    print(
        "| sampler | ESS/s of sampling: T, theta, f | of all | s | s in all | evaluations | gap |"
    )
    for each in rows:
        mean, error = each["means"]
        gap = np.max(np.abs(mean - first) / np.hypot(error, first_error))
        rates = [
            ", ".join(
                f"{each['sizes'][key] / each[seconds]:.3g}" for key in ("T", "theta", "latent")
            )
            for seconds in ("sampling", "total")
        ]
        spent = f"{each['sampling']:.1f} | {each['total']:.1f} | {each['gradients']:.0f}"
        print(f"| {each['name']} | {rates[0]} | {rates[1]} | {spent} | {gap:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--methods", nargs="+", default=["joint-split", *REPRESENTATIONS])
    options = parser.parse_args()
    for problem in options.problems:
        model = load(problem)
        print(f"\n{problem}: n = {model.n_cases}, {model.dim} hyperparameters", flush=True)
        rows = [
            ours(model, name, problem)
            for name in options.methods
            if not (name.endswith("-taylor") and problem not in POISSON)
        ]
        show(rows)


if __name__ == "__main__":
    main()
