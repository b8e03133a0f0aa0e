"""Time of a gradient of the joint density over its bare BLAS and LAPACK calls; effective samples per second.

    python benchmarks/joint_split_hmc.py [--repeats 100]
    python benchmarks/joint_split_hmc.py --sample mining ionosphere [--draws 2000] [--chains 4] [--seed 0]

One BLAS thread; medians of interleaved repeats. A gradient is by all hyperparameters and latents, the
likelihood and hyperpriors included. Bare: two dpotrf, dpotri, dtrtri, dtrmm, dsymm with all features where
they are many, on matrices that are there already, and the exponentials of one triangle. The second form runs
`sample(model, JointSplitHMC())`, pilots included in the seconds that say so; ionosphere needs the data
folder named by GPMCFLOW_DATA.
"""

from __future__ import annotations

import argparse
import time

import arviz_stats
import numpy as np
import xarray as xr
from scipy.linalg import blas, lapack
from surrogate_slice import build, seconds

from gpmcflow import GPModel, JointSplitHMC, SquaredExponential, load_dataset
from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Logistic, Poisson, Probit
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.surrogate_slice.tables import effective_size
from gpmcflow.samplers.sampling import sample

GOALS = {112: 2.0, 200: 1.6, 625: 1.3}
PRIOR = Hyperprior.log_uniform(0.1, 10.0)


def mining() -> GPModel:
    data = load_dataset("coal")
    y = data["y"].values.astype(float)
    middle = float(np.log(y.mean()))
    mean = Hyperprior("uniform", {"loc": middle - 3.0, "scale": 6.0})
    return GPModel(data["X"], y, SquaredExponential(PRIOR, PRIOR), Poisson(), mean)


def ionosphere() -> GPModel:
    data = load_dataset("ionosphere", keep_constant=True)
    covariance = SquaredExponential(PRIOR, PRIOR, ard=True)
    return GPModel(data["X"], data["y"].values, covariance, Logistic())


def digits() -> GPModel:
    data = load_dataset("digits-3v5")
    length, signal = Hyperprior.log_uniform(0.5, 50.0), Hyperprior.log_uniform(0.1, 30.0)
    return GPModel(data["X"], data["y"].values, SquaredExponential(length, signal), Probit())


PROBLEMS = {"mining": mining, "ionosphere": ionosphere, "digits": digits}


def bare_calls(n: int, features: int):
    """A function that returns the seconds of one set of calls."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((n, n))
    matrix = np.asfortranarray(A @ A.T / n + np.eye(n))
    factor = np.asfortranarray(np.linalg.cholesky(matrix))
    half = -rng.random(n * (n + 1) // 2)
    rows = np.asfortranarray(rng.standard_normal((n, features)))
    work, out = np.empty_like(matrix), np.empty_like(half)

    def timed() -> float:
        total = seconds(lambda: np.exp(half, out=out))
        for call, given in (
            (lambda: lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1), matrix),
            (lambda: lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1), matrix),
            (lambda: lapack.dpotri(work, lower=1, overwrite_c=1), factor),
            (lambda: lapack.dtrtri(work, lower=1, overwrite_c=1), factor),
            (lambda: blas.dtrmm(1.0, factor, work, lower=1, trans_a=1, overwrite_b=1), matrix),
        ):
            work[:] = given
            total += seconds(call)
        if features > 4:
            total += seconds(lambda: blas.dsymm(1.0, matrix, rows, lower=1))
        return total

    return timed


def gradients(n: int, repeats: int) -> None:
    model = build(n)
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    bare = bare_calls(n, model.X.shape[1])
    rng, times = np.random.default_rng(3), []
    for _ in range(repeats + 5):
        x, z = 0.1 * rng.standard_normal(model.dim), rng.standard_normal(2 * n)
        times.append((seconds(lambda x=x, z=z: density.evaluate(x, z)), bare()))
    mine, theirs = 1e3 * np.median(times[5:], axis=0)
    print(
        f"{n:4d}  gradient by {model.dim} + {2 * n}: {mine:7.3f} ms, bare {theirs:7.3f} ms, ratio "
        f"{mine / theirs:5.2f} (goal {GOALS[n]:g})"
    )


def chains(name: str, n_chains: int, n_draws: int, seed: int) -> None:
    model = PROBLEMS[name]()
    short = JointSplitHMC(rounds=(6, 6))
    sample(model, short, n_chains=1, n_draws=2, n_warmup=0)  # compiles
    began = time.perf_counter()
    tree = sample(model, JointSplitHMC(), n_chains=n_chains, n_draws=n_draws, n_warmup=0, seed=seed)
    spent = time.perf_counter() - began
    complete = tree.sample_stats.complete_log_likelihood
    kept, pilot = int(tree.sample_stats.n_gradient.sum()), int(tree.pilot.n_gradient.sum())
    sizes = {
        "T": effective_size(complete.values).sum(),
        "theta (least)": min(
            effective_size(tree.posterior.theta.values[:, :, k]).sum() for k in range(model.dim)
        ),
        "latents (least)": min(
            effective_size(tree.posterior.latent.values[:, :, i]).sum()
            for i in range(model.n_cases)
        ),
    }
    rhat = arviz_stats.rhat(xr.Dataset({"theta": tree.posterior.theta, "T": complete}))
    print(f"{name}: {n_chains} chains of {n_draws} draws, seed {seed}")
    print(
        f"  {tree.pilot.attrs['chosen']}\n"
        f"  {kept} gradients and {pilot} in the pilot, {1e3 * spent / (kept + pilot):.3f} ms each; largest "
        f"R-hat {max(float(rhat.theta.max()), float(rhat['T'])):.4f}"
    )
    for label, size in sizes.items():
        print(
            f"  {label:16s} {size:8.0f} effective samples, {1e3 * size / kept:6.1f} per 1000 gradients, "
            f"{size / spent * (kept + pilot) / kept:6.1f} per second, {size / spent:6.1f} with pilots"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--sample", nargs="*", default=[], choices=list(PROBLEMS))
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    pin_blas()
    for name in settings.sample:
        chains(name, settings.chains, settings.draws, settings.seed)
    if not settings.sample:
        for n in GOALS:
            gradients(n, settings.repeats)


if __name__ == "__main__":
    main()
