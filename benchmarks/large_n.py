"""Basis functions at 10,000 to 100,000 rows: effective samples a second, beside NumPyro's NUTS, in one run.

    python benchmarks/large_n.py [--problems binary-10k ..] [--peer FOLDER] [--peer-draws 300]
    python benchmarks/large_n.py --grid

Two chains on two cores for all, wall time. NUTS has the same reduced-rank model with its weights whitened,
a dense mass matrix for the hyperparameters, and a matrix of basis functions made beforehand; ``--peer`` names
the environment that `numpyro_environment.sh` makes. Shown are effective samples (ArviZ's bulk size of both
chains) of the worst hyperparameter and the worst weight a second of sampling, and of everything; the largest
difference of the means of hyperparameters in joint standard errors; and the growth of memory over the process
before sampling, beside the matrix of basis functions, which is never made here. ``--grid`` runs counts on
100 x 100 cells to 400 effective samples of the worst hyperparameter.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from joint_samplers import means, sizes

import gpmcflow as gp
from gpmcflow.execution import Execution

LENGTH = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4})
SIGNAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.7})
GROUP = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.7})
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0})


def binary(n: int, columns: int) -> gp.GPModel:
    """Labels with a smooth log odds."""
    rng = np.random.default_rng(n)
    X = rng.uniform(-1.0, 1.0, (n, columns))
    f = 1.5 * np.sin(4.0 * X[:, 0]) + (np.cos(3.0 * X[:, 1]) if columns > 1 else 0.3)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    covariance = gp.SquaredExponential(LENGTH, SIGNAL, ard=columns > 1)
    return gp.GPModel(X, y, covariance, gp.Logistic(), MEAN, structure=gp.BasisFunctions())


def grouped_counts(n: int, n_groups: int) -> gp.GPModel:
    """Counts with a smooth log rate and an effect of a group."""
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.uniform(-1.0, 1.0, n), rng.integers(n_groups, size=n)])
    effects = 0.4 * rng.standard_normal(n_groups)
    f = 0.5 + np.sin(5.0 * X[:, 0]) + effects[X[:, 1].astype(int)]
    covariance = gp.SquaredExponential(LENGTH, SIGNAL, columns=0) + gp.Group(GROUP, columns=1)
    y = rng.poisson(np.exp(f)).astype(float)
    return gp.GPModel(X, y, covariance, gp.Poisson(), MEAN, structure=gp.BasisFunctions())


PROBLEMS = {
    "binary-10k": lambda: binary(10_000, 1),
    "binary-50k-2d": lambda: binary(50_000, 2),
    "counts-100k-groups": lambda: grouped_counts(100_000, 50),
}
DRAWS = {"binary-10k": 20_000, "binary-50k-2d": 2_000, "counts-100k-groups": 3_000}


def resident() -> int:
    """Bytes of memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak:
    """Largest growth of the process's memory while it is open."""

    def __enter__(self) -> Peak:
        self.before = self.largest = resident()
        self._open = True
        self._watch = threading.Thread(target=self._run, daemon=True)
        self._watch.start()
        return self

    def _run(self) -> None:
        while self._open:
            self.largest = max(self.largest, resident())
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._watch.join()

    @property
    def growth(self) -> int:
        """Bytes."""
        return self.largest - self.before


def ours(model: gp.GPModel, n_draws: int) -> dict:
    """`JointSplitHMC`, two chains on two cores."""

    def run(draws: int):
        began = time.perf_counter()
        how = Execution(workers=2, progress=False)
        tree = gp.sample(model, n_chains=2, n_draws=draws, seed=1, execution=how)
        return time.perf_counter() - began, tree

    before, _ = run(4)  # pilot, workers, compiled loops from disk
    total, tree = run(n_draws)
    theta, weights = tree["posterior/theta"].values, tree["posterior/weight"].values
    return {"theta": theta, "weights": weights, "sampling": total - before, "total": total}


def memory(model: gp.GPModel) -> int:
    """Growth while two chains are sampled in this process."""
    with Peak() as peak:
        gp.sample(model, n_chains=2, n_draws=200, seed=1, execution=Execution(progress=False))
    return peak.growth


def peer(model: gp.GPModel, folder: str, n_draws: int) -> dict:
    """NumPyro's NUTS on the same weights, in its own environment."""
    design, blocks = model.basis_design, model.basis.blocks
    smooth = blocks[0]
    functions = design.matrix()
    grouped = len(blocks) > 1
    with tempfile.TemporaryDirectory() as here:
        problem, draws = Path(here) / "problem.npz", Path(here) / "draws.npz"
        np.savez(
            problem,
            functions=functions[:, : smooth.size],
            squared_frequencies=smooth.squares,
            codes=model.X[:, 1].astype(int) if grouped else np.empty(0, int),
            n_levels=blocks[1].size if grouped else 0,
            y=model.y,
            likelihood=model.likelihood.name,
            priors=np.array([
                [prior.parameters["loc"], prior.parameters["scale"]]
                for prior in (LENGTH, SIGNAL, MEAN, GROUP)
            ]),
        )  # fmt: skip
        command = [f"{folder}/bin/python", str(Path(__file__).with_name("numpyro_basis.py"))]
        subprocess.run([*command, str(problem), str(draws), f"--draws={n_draws}"], check=True)
        return dict(np.load(draws))


def row(name: str, problem: str, draws: dict, reference: dict) -> str:
    """One line of the table."""
    kinds = [sizes(draws["theta"]), sizes(draws["weights"])]
    (mean, error), (other, other_error) = means(draws["theta"]), means(reference["theta"])
    gap = np.max(np.abs(mean - other) / np.hypot(error, other_error))
    rates = [
        ", ".join(f"{size / float(draws[seconds]):.3g}" for size in kinds)
        for seconds in ("sampling", "total")
    ]
    spent = f"{float(draws['sampling']):.1f} | {float(draws['total']):.1f}"
    return (
        f"| {problem} | {name} | {rates[0]} | {rates[1]} | {spent} | {min(kinds):.0f} | {gap:.1f} |"
    )


def grid() -> None:
    """Counts on a grid of 10,000 cells until the worst hyperparameter has 400 effective samples."""
    from structures import grid as counts_on

    model, draws = counts_on(100, "kronecker"), 250
    began = time.perf_counter()
    tree = gp.sample(
        model, n_chains=2, n_draws=draws, seed=1, execution=Execution(workers=2, progress=False)
    )
    spent = time.perf_counter() - began
    theta, T = tree["posterior/theta"].values, tree["sample_stats/complete_log_likelihood"].values
    print(
        f"100 x 100 counts: {spent:.0f} s for 2 chains of {draws} draws; effective samples: worst "
        f"hyperparameter {sizes(theta):.0f}, T {sizes(T):.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--peer")
    parser.add_argument("--peer-draws", type=int, default=300)
    parser.add_argument("--grid", action="store_true")
    options = parser.parse_args()
    if options.grid:
        grid()
        return
    print(
        "| problem | sampler | ESS/s of sampling: theta, weights | of all | s | s in all | least ESS | gap |"
    )
    for problem in options.problems:
        model = PROBLEMS[problem]()
        growth, matrix = memory(model), 8 * model.n_cases * model.n_latents
        mine = ours(model, DRAWS[problem])
        print(row("JointSplitHMC", problem, mine, mine), flush=True)
        if options.peer:
            draws = peer(model, options.peer, options.peer_draws)
            print(row("NUTS", problem, draws, mine), flush=True)
        print(
            f"  n = {model.n_cases}, m = {model.n_latents}: memory grows by {growth / 1e6:.0f} MB, the "
            f"matrix of basis functions would have {matrix / 1e6:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
