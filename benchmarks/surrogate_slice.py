"""Time of hyperparameter proposals and elliptical updates over that of their bare LAPACK calls, in one run.

    python benchmarks/surrogate_slice.py [--repeats 200] [--pairs 0]

One BLAS thread; medians of interleaved repeats. A proposal moves one length scale: distances, exponentials,
factorisations, sites, latents, density. Bare: dpotrf, dlauum, dpotrf for surrogate and posterior whitening,
one dpotrf for the others, on matrices that are there already, and the exponentials of one triangle. An
elliptical update is one, or a tenth of ten, with the product that draws them and the density that is
recorded after them; bare: one dtrmv and one dtrsv. ``--pairs 5`` also runs ten chains of a count model like
mining on two worker processes and in one process, in turn.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import blas, lapack

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.execution import Execution, pin_blas
from gpmcflow.likelihoods import Logistic, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.joint.representations import representation
from gpmcflow.samplers.joint.workspace import JointWorkspace
from gpmcflow.samplers.sampling import sample

GOALS = {112: 2.0, 200: 1.6, 625: 1.25}
METHODS = ("fixed", "prior-white", "surr-site", "post-site")


def build(n: int, dense_grid: bool = True) -> GPModel:
    """A model of that size, like mining (112), ionosphere (200) or redwoods (625)."""
    rng = np.random.default_rng(n)
    prior = Hyperprior.log_uniform(0.1, 10.0)
    if n == 200:
        X = rng.uniform(-1.0, 1.0, (n, 34))
        y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
        return GPModel(X, y, SquaredExponential(prior, prior, ard=True), Logistic())
    if n == 112:
        X = np.linspace(0.0, 1.0, n)
    else:
        side = (np.arange(25) + 0.5) / 25
        X = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    y = rng.poisson(0.6, n).astype(float)
    mean = Hyperprior("uniform", {"loc": -3.5, "scale": 6.0})
    structure = "dense" if dense_grid else "kronecker"
    covariance = SquaredExponential(prior, prior, ard=True)
    return GPModel(X, y, covariance, Poisson(), mean, structure=structure)


def chain(model: GPModel, name: str) -> JointWorkspace:
    """A chain that has moved a little, with its variables frozen."""
    rng = np.random.default_rng(1)
    workspace = JointWorkspace(model, representation(name))
    workspace.start(model.prior_median() - 0.5, np.zeros(model.n_cases))
    workspace.update_latents(rng, 10)
    workspace.begin_sweep(rng)
    return workspace


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def bare_calls(n: int, three: bool):
    """A function that returns the seconds of one set of LAPACK calls and exponentials."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((n, n))
    matrix = np.asfortranarray(A @ A.T / n + np.eye(n))
    factor = np.asfortranarray(np.linalg.cholesky(matrix))
    half = -rng.random(n * (n + 1) // 2)
    work, out = np.empty_like(matrix), np.empty_like(half)

    def timed() -> float:
        total = seconds(lambda: np.exp(half, out=out))
        for lower in (1, 0) if three else (1,):
            work[:] = matrix
            total += seconds(
                lambda low=lower: lapack.dpotrf(work, lower=low, clean=0, overwrite_a=1)
            )
        if three:
            work[:] = factor
            total += seconds(lambda: lapack.dlauum(work, lower=1, overwrite_c=1))
        return total

    return timed


def proposals(n: int, repeats: int) -> None:
    model = build(n)
    chains = {name: chain(model, name) for name in METHODS}
    bare = {three: bare_calls(n, three) for three in (False, True)}
    times: dict = {key: [] for key in (*METHODS, False, True)}
    rng = np.random.default_rng(3)
    for repeat in range(repeats + 5):
        place = int(rng.integers(model.X.shape[1]))
        step = rng.uniform(-0.1, 0.1)
        for name, workspace in chains.items():
            full = workspace.point.full.copy()
            full[place] += step
            spent = seconds(lambda w=workspace, f=full, p=place: w.propose(f, p))
            times[name].append(spent if repeat >= 5 else np.nan)
        for three, call in bare.items():
            spent = call()
            times[three].append(spent if repeat >= 5 else np.nan)
    for name in METHODS:
        three = name not in ("fixed", "prior-white")
        mine, theirs = np.nanmedian(times[name]), np.nanmedian(times[three])
        goal = GOALS[n] if three else 1.5
        print(
            f"{n:4d}  {name:12s} proposal {1e3 * mine:7.3f} ms, bare {1e3 * theirs:7.3f} ms, ratio "
            f"{mine / theirs:5.2f} (goal {goal:g})"
        )


def elliptical(repeats: int) -> None:
    workspace = chain(build(625), "prior-white")
    rng = np.random.default_rng(4)
    factor = np.asfortranarray(workspace.point.factor.dense())
    v, times = rng.standard_normal(625), []

    def updates(k: int) -> None:
        workspace.update_latents(rng, k)
        workspace.complete_log_likelihood()

    def products() -> None:
        blas.dtrmv(factor, v, lower=1)
        blas.dtrsv(factor, v, lower=1)

    for _ in range(repeats + 5):
        calls = (lambda: updates(1), lambda: updates(10), products)
        times.append([seconds(call) for call in calls])
    one, ten, bare = 1e3 * np.median(times[5:], axis=0)
    for label, found in (("one", one), ("of ten", ten / 10)):
        print(
            f" 625  elliptical   {label:8s} {found:7.3f} ms, bare {bare:7.3f} ms, ratio {found / bare:5.2f} "
            "(goal 3)"
        )


def kronecker(repeats: int) -> None:
    dense, grid = build(625), build(625, dense_grid=False)
    for name in METHODS:
        pair = [chain(model, name) for model in (dense, grid)]
        times = []
        for _ in range(repeats // 4 + 2):
            row = []
            for workspace in pair:
                full = workspace.point.full.copy()
                full[0] += 0.05
                row.append(seconds(lambda w=workspace, f=full: w.propose(f, 0)))
            times.append(row)
        a, b = np.median(times[2:], axis=0)
        print(f" 625  {name:12s} proposal {1e3 * a:7.3f} ms dense, {1e3 * b:7.3f} ms Kronecker")


def ten_chains(pairs: int, n_draws: int = 6000) -> None:
    """Wall time of ten chains of the paper's length on two cores over half of that on one."""
    model, ratios = build(112), []

    def run(n_workers: int) -> float:
        return seconds(
            lambda: sample(
                model,
                SurrogateSlice("surr-site"),
                n_chains=10,
                n_draws=n_draws,
                keep_latents=False,
                execution=Execution(workers=n_workers),
            )
        )

    run(1)
    for _ in range(pairs):
        one, two = run(1), run(2)
        ratios.append(2.0 * two / one)
        print(f" 112  ten chains of {n_draws}: one core {one:6.1f} s, two cores {two:6.1f} s")
    print(f" 112  two cores over half of one core: median {np.median(ratios):5.2f} (goal 1.25)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=0)
    options = parser.parse_args()
    repeats = options.repeats
    pin_blas()
    if options.pairs:
        ten_chains(options.pairs)
    print("cases; one thread, medians of interleaved repeats")
    for n in GOALS:
        proposals(n, repeats)
    elliptical(repeats)
    kronecker(repeats)


if __name__ == "__main__":
    main()
