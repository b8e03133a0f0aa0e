"""`model_evidence` by chains against reference values: its automatic route, and coverage of its intervals.

    python benchmarks/model_evidence.py [--problems coal digits ..] [--seeds 5] [--draws 2000] [--target 0.1]
    python benchmarks/model_evidence.py --coverage gaussian-3 coal --seeds 200 --draws 800
    python benchmarks/model_evidence.py --references gaussian-2 gaussian-3 coal-no-signal coal
    python benchmarks/model_evidence.py --peer FOLDER [--problems coal] [--repeats 8]
    python benchmarks/model_evidence.py --table

Rows go to `model_evidence.csv` (or the file of ``--append``) as they finish, and those that are there are not
made again. Every run is a whole one: four replicates with their own pilots. Seeds of ``--coverage`` begin at
1000, and all their draws are taken, so that each run has one size. ``--references`` integrates them anew, by
Gauss-Legendre rules over the hyperparameters; ``--peer`` names the environment of `peers/environment.sh`
and runs the peer for the median CPU time of our rows; ``--table`` prints tables of the rows. Data are in the
folder that GPMCFLOW_DATA names.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joint_split_hmc import PRIOR, digits, ionosphere, mining
from scipy.linalg import cho_solve, cholesky
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.evidence.model_evidence import default_sampler
from gpmcflow.execution import Execution

ROWS = Path(__file__).with_name("model_evidence.csv")
FIRST_OF_COVERAGE = 1000  # seeds of coverage are others than those of routes
ALL_DRAWS = 1e-9  # an error that no run of these sizes states: all its draws are taken
WANTED = 0.05  # nats, to which gradients are scaled


def gaussian(p: int, shortest: float, longest: float) -> gp.GPModel:
    """50 cases of p columns, known noise, of fixed seed; latents are integrated out exactly."""
    rng = np.random.default_rng(20)
    X = rng.uniform(-1.0, 1.0, (50, p))
    y = np.sin(4.0 * X).sum(-1) + 0.3 * rng.standard_normal(50)
    length = gp.Hyperprior.log_uniform(shortest, longest)
    signal = gp.Hyperprior.log_uniform(0.2, 5.0)
    return gp.GPModel(X, y, gp.SquaredExponential(length, signal, ard=p > 1), gp.Gaussian(0.3))


def coal_no_signal() -> gp.GPModel:
    """Coal mining with a signal of 1e-4, that is, one rate for all years: its offset alone is free."""
    model = mining()
    covariance = gp.SquaredExponential(1.0, 1e-4)
    return gp.GPModel(model.X, model.y, covariance, gp.Poisson(), model.mean)


def ionosphere_isotropic() -> gp.GPModel:
    """Ionosphere with one length scale."""
    data = gp.load_dataset("ionosphere")
    covariance = gp.SquaredExponential(PRIOR, PRIOR)
    return gp.GPModel(data["X"], data["y"].values, covariance, gp.Logistic())


class Problem(NamedTuple):
    """A model, the value of log p(y) and its error, and the gradients that a run of error 0.05 may take."""

    build: Callable[[], gp.GPModel]
    reference: float
    error: float
    goal: float = np.nan


PROBLEMS = {
    "gaussian-2": Problem(lambda: gaussian(1, 0.03, 1.0), -23.2278, 1e-4),
    "gaussian-3": Problem(lambda: gaussian(2, 0.1, 10.0), -42.5544, 1e-4),
    "coal-no-signal": Problem(coal_no_signal, -208.1391, 1e-4),
    "coal": Problem(mining, -179.8914, 0.002, 8e3),
    "ionosphere-isotropic": Problem(ionosphere_isotropic, -85.07, 0.1, 2e4),
    "digits": Problem(digits, -24.488, 0.007, 6e4),
    "ionosphere-ard": Problem(ionosphere, -97.08, 0.22, 3e5),
}
NODES = {  # of the rules, by hyperparameter
    "gaussian-2": (20, 20), "gaussian-3": (40, 40, 40), "coal-no-signal": (200,), "coal": (14, 14, 28),
}  # fmt: skip


def at(model: gp.GPModel, theta: np.ndarray) -> float:
    """log p(y | theta): exact for Gaussian noise, else expectation propagation and its correction."""
    if model.likelihood.conjugate:
        noise = 0.3**2 * np.eye(model.n_cases)
        factor = cholesky(model.covariance_matrix(theta) + noise, lower=True)
        half = 0.5 * model.y @ cho_solve((factor, True), model.y)
        return -half - np.log(np.diag(factor)).sum() - 0.5 * model.n_cases * np.log(2.0 * np.pi)
    fit = gp.expectation_propagation(model.at(theta))
    return fit.log_evidence + float(gp.second_order_correction(fit)[-1])


def quadrature(model: gp.GPModel, nodes: tuple[int, ...]) -> float:
    """log p(y) by a product of Gauss-Legendre rules over log-uniform (or uniform) hyperpriors."""
    rules = []
    for prior, n in zip(model.parameters.free_priors, nodes, strict=True):
        (low, high), (points, weights) = prior.support, np.polynomial.legendre.leggauss(n)
        rules.append((low + 0.5 * (high - low) * (points + 1.0), 0.5 * weights))
    grid = np.stack(np.meshgrid(*(points for points, _ in rules), indexing="ij"), -1)
    weights = np.prod(np.meshgrid(*(w for _, w in rules), indexing="ij"), axis=0)
    values = [at(model, theta) for theta in grid.reshape(-1, model.dim)]
    return float(logsumexp(values, b=weights.ravel()))


def one_row(name: str, model: gp.GPModel, part: str, seed: int, draws: int, target: float) -> dict:
    """A run, as a row."""
    began = time.process_time()
    sampler = default_sampler(model)  # else regressions take the mixture, see `modes.py`
    tree = gp.model_evidence(
        model,
        sampler,
        n_draws=draws,
        target_error=target,
        seed=seed,
        execution=Execution(progress=False),
    )
    evidence = tree["evidence"].to_dataset()
    first = evidence.sel(estimator="bridge")
    ladder = tree["tempered"].sizes if "tempered" in tree.children else {}
    pilots = int(evidence["n_gradient_pilot"])
    return {
        "part": part, "problem": name, "seed": seed, "most_draws": draws, "target_error": target,
        "route": evidence.attrs["route"], "draws": tree["posterior"].sizes["draw"],
        "temperatures": ladder.get("temperature", 2) - 1, "iterations": ladder.get("draw", 0),
        **{
            column: f"{float(first[column]):.5f}"
            for column in (
                "log_evidence", "standard_error", "replicate_error", "within_error", "interval_low",
                "interval_high", "fit",
            )
        },
        "overlap": f"{float(evidence['overlap']):.2f}", "pareto_k": f"{float(evidence['pareto_k']):.2f}",
        "gradients": int(evidence["n_gradient"]) - pilots, "pilot_gradients": pilots,
        "cpu_seconds": f"{time.process_time() - began:.1f}", "alarm": evidence["alarm"].item(),
    }  # fmt: skip


def run_rows(part: str, names: list[str], seeds: range, draws: int, target: float, path: Path):
    """Runs that are not in the file yet."""
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["part", "problem", "seed"])
    known = set(zip(done["part"], done["problem"], done["seed"], strict=True))
    for name in names:
        model = PROBLEMS[name].build()
        for seed in seeds:
            if (part, name, seed) in known:
                continue
            row = one_row(name, model, part, seed, draws, target)
            frame = pd.DataFrame([row])
            frame.to_csv(path, mode="a", header=not path.exists(), index=False)
            print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)


def peer(name: str, folder: str, repeats: int, ours: pd.DataFrame) -> None:
    """BlackJAX on the same density, in its own environment, for the time of our median run."""
    model, reference = PROBLEMS[name].build(), PROBLEMS[name].reference
    ends = [getattr(prior, "support", (prior, prior)) for prior in model.parameters.priors]
    low, high = np.array(ends, dtype=float).T
    with tempfile.TemporaryDirectory() as here:
        problem, result = Path(here) / "problem.npz", Path(here) / "result.json"
        np.savez(
            problem, X=model.X, y=model.y, likelihood=model.likelihood.name, jitter=model.epsilon,
            low=low, high=high, reference=reference,
        )  # fmt: skip
        command = [
            f"{folder}/bin/python",
            str(Path(__file__).parent / "peers" / "blackjax_tempered.py"),
        ]
        command += [str(problem), str(result), f"--repeats={repeats}"]
        command.append(f"--seconds={ours['cpu_seconds'].median()}")
        subprocess.run(command, check=True)
        theirs = json.loads(result.read_text())
    print(f"{name}: {theirs['particles']} particles, {theirs['setting']}")
    both = (
        ("model_evidence", ours["log_evidence"], ours["cpu_seconds"].median()),
        ("BlackJAX", np.array(theirs["values"]), theirs["seconds"]),
    )
    print("| run | repeats | mean | spread | off by (root mean square) | CPU s |")
    for label, values, spent in both:
        off = np.sqrt(np.mean((values - reference) ** 2))
        spread = np.std(values, ddof=1)
        print(
            f"| {label} | {len(values)} | {values.mean():.3f} | {spread:.3f} | {off:.3f} | {spent:.1f} |"
        )


def routes_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Medians over seeds of a problem; distances from the reference in joint errors."""
    lines = {}
    for name, part in rows.groupby("problem", sort=False):
        problem = PROBLEMS[name]
        joint = np.hypot(part["standard_error"], problem.error)
        distance = ((part["log_evidence"] - problem.reference) / joint).abs()
        scaled = part["gradients"] * (part["standard_error"] / WANTED) ** 2
        within = part["gradients"] * (part["within_error"] / WANTED) ** 2
        lines[name] = {
            "reference": f"{problem.reference:.3f} ({problem.error:g})",
            "seeds": len(part),
            "mean": f"{part['log_evidence'].mean():.3f}",
            "spread": f"{part['log_evidence'].std():.3f}",
            "stated": f"{part['standard_error'].mean():.3f}",
            "largest distance": f"{distance.max():.1f}",
            "route": ", ".join(f"{k} {v}" for k, v in part["route"].value_counts().items()),
            "alarms": int(part["alarm"].notna().sum()),
            "gradients": f"{part['gradients'].median():.0f}",
            "of pilots": f"{part['pilot_gradients'].median():.0f}",
            "to 0.05": f"{scaled.median():.0f} ({scaled.min():.0f} to {scaled.max():.0f})",
            "by within": f"{within.median():.0f}",
            "goal": "-" if np.isnan(problem.goal) else f"{problem.goal:.0f}",
            "CPU s": f"{part['cpu_seconds'].median():.0f}",
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def coverage_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Shares of 95 % intervals that hold the reference; errors beside the spread."""
    lines = {}
    for name, part in rows.groupby("problem", sort=False):
        reference = PROBLEMS[name].reference
        held = (part["interval_low"] <= reference) & (part["interval_high"] >= reference)
        spread = part["log_evidence"].std()
        lines[name] = {
            "seeds": len(part),
            "covered": f"{100.0 * held.mean():.1f} %",
            "bias": f"{part['log_evidence'].mean() - reference:+.4f}",
            "its error": f"{spread / np.sqrt(len(part)):.4f}",
            "spread": f"{spread:.4f}",
            "mean stated": f"{part['standard_error'].mean():.4f}",
            "mean within": f"{part['within_error'].mean():.4f}",
            "alarms": int(part["alarm"].notna().sum()),
            "CPU s": f"{part['cpu_seconds'].median():.1f}",
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS))
    parser.add_argument("--coverage", nargs="*", default=[], choices=list(PROBLEMS))
    parser.add_argument("--references", nargs="*", default=[], choices=list(NODES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--target", type=float, default=0.1)
    parser.add_argument("--append", type=Path, default=ROWS)
    parser.add_argument("--peer")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # what a run has to say is in its alarm
    for name in options.references:
        fewer = tuple(int(0.7 * n) for n in NODES[name])
        values = [quadrature(PROBLEMS[name].build(), nodes) for nodes in (NODES[name], fewer)]
        print(f"{name}: {values[0]:.5f}, with {fewer} nodes {values[1]:.5f}", flush=True)
    names = options.problems
    if names is None and not (
        options.coverage or options.references or options.table or options.peer
    ):
        names = list(PROBLEMS)
    draws, path = options.draws, options.append
    if options.peer:
        rows = pd.read_csv(path).query("part == 'routes'")
        for name in names or ["coal"]:
            peer(name, options.peer, options.repeats, rows[rows["problem"] == name])
        return
    run_rows("routes", names or [], range(options.seeds), draws, options.target, path)
    seeds = range(FIRST_OF_COVERAGE, FIRST_OF_COVERAGE + options.seeds)
    run_rows("coverage", options.coverage, seeds, draws, ALL_DRAWS, path)
    if options.append.exists() and not options.references:
        rows = pd.read_csv(options.append)
        print(routes_table(rows[rows["part"] == "routes"]).to_string())
        print(coverage_table(rows[rows["part"] == "coverage"]).to_string())


if __name__ == "__main__":
    main()
