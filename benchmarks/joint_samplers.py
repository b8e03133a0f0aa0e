"""Effective samples a second of samplers of hyperparameters and latents, beside NumPyro's NUTS, in one run.

    python benchmarks/joint_samplers.py [--problems coal digits synthetic ionosphere redwoods small]
        [--peer FOLDER] [--peer-draws 500] [--peer-warmup 500]

Problems are those of the paper config's study `surrogate_slice` (data as in any run: GPMCFLOW_DATA or
downloaded), two chains on two cores for all, wall time. Of each sampler: effective samples (ArviZ's bulk size
of both chains) a second of sampling, and of everything, pilot or warm-up and compilation included, for the
complete-data log likelihood T, the worst hyperparameter and the worst latent value. Posterior means are
compared first: the largest difference from the first sampler of a problem in joint Monte Carlo standard
errors. ``--peer`` names the environment that `numpyro_environment.sh` makes; without it NUTS is left out.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml
from arviz_stats.base import array_stats

from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel
from gpmcflow.pipeline.config import check_config
from gpmcflow.samplers import JointSplitHMC, SurrogateSlice
from gpmcflow.samplers.sampling import sample
from gpmcflow.studies.problems import prepare_data
from gpmcflow.studies.surrogate_slice.problems import build_joint_model
from gpmcflow.studies.surrogate_slice.settings import REPRESENTATIONS, WITHOUT_SITES

ROOT = Path(__file__).parents[1]
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


def load(problem: str, config: dict) -> GPModel:
    """Model of a problem of the paper config."""
    settings = config["problems"][problem]
    name = settings["dataset"]
    dataset = prepare_data(name, config["datasets"].get(name), config["data_dir"])
    return build_joint_model(dataset, problem, settings)


def sizes(values: np.ndarray) -> float:
    """Smallest bulk effective size of (chain, draw, ...)."""
    flat = values.reshape(*values.shape[:2], -1)
    found = [
        array_stats.ess(flat[..., k], chain_axis=0, draw_axis=1, method="bulk")
        for k in range(flat.shape[-1])
    ]
    return float(np.min(found))


def means(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of theta (chain, draw, d), with Monte Carlo standard errors."""
    size = [
        array_stats.ess(theta[..., k], chain_axis=0, draw_axis=1, method="mean")
        for k in range(theta.shape[-1])
    ]
    return theta.mean((0, 1)), theta.std((0, 1)) / np.sqrt(size)


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


def bounds(prior) -> np.ndarray:
    """Low and high end of a uniform hyperprior on its sampled scale; twice the number of a fixed one."""
    return np.array(prior.support if hasattr(prior, "support") else (prior, prior), dtype=float)


def peer(model: GPModel, folder: str, draws: int, warmup: int, collapsed: bool = False) -> dict:
    """NumPyro's NUTS on the same density, in its own environment; collapsed: latents integrated out."""
    priors = model.parameters.priors
    p = sum("length_scale" in name for name in model.parameters.all_names)
    lengths = np.array([bounds(prior) for prior in priors[:p]]).T
    with tempfile.TemporaryDirectory() as here:
        problem, found = Path(here) / "problem.npz", Path(here) / "draws.npz"
        np.savez(
            problem,
            X=model.X,
            y=model.y,
            likelihood=model.likelihood.name,
            noise_sd=getattr(model.likelihood, "noise_sd", 1.0),
            jitter=model.epsilon,
            length_bounds=lengths,
            signal_bounds=bounds(priors[p])[:, None],
            offset_bounds=bounds(priors[p + 1])[:, None],
        )
        command = [f"{folder}/bin/python", str(Path(__file__).with_name("numpyro_nuts.py"))]
        command += [str(problem), str(found), f"--warmup={warmup}", f"--draws={draws}"]
        command += ["--collapsed"] if collapsed else []
        subprocess.run(command, check=True)
        d = dict(np.load(found))
    sampling = float(d["seconds_sampling"])
    name = "NUTS, collapsed (NumPyro)" if collapsed else "NUTS (NumPyro)"
    return row(
        name, d["theta"], d["latent"], d["complete_log_likelihood"], sampling,
        sampling + float(d["seconds_warmup"]), float(d["n_gradient"]),
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
    parser.add_argument("--peer")
    parser.add_argument("--peer-draws", type=int, default=500)
    parser.add_argument("--peer-warmup", type=int, default=500)
    options = parser.parse_args()
    config = check_config(yaml.safe_load((ROOT / "config" / "paper.yaml").read_text()))
    for problem in options.problems:
        model = load(problem, config)
        print(f"\n{problem}: n = {model.n_cases}, {model.dim} hyperparameters", flush=True)
        rows = [
            ours(model, name, problem)
            for name in options.methods
            if not (name.endswith("-taylor") and problem not in POISSON)
        ]
        if options.peer:
            length = options.peer_draws, options.peer_warmup
            forms = (False, True) if problem == "synthetic" else (False,)
            rows += [peer(model, options.peer, *length, collapsed=form) for form in forms]
        show(rows)


if __name__ == "__main__":
    main()
