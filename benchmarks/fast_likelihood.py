"""GP regression: an evaluation against its bare LAPACK and exp calls, and what the stand-ins cost.

    python benchmarks/fast_likelihood.py [--rounds 40]

Each number is the least of interleaved rounds: a round times each thing once, so that what else the
machine does meets all of them. The bare calls are dpotrf (of a matrix copied back before each call, the
copy's time taken off) and one exp in place over the lower triangle, n (n + 1) / 2 numbers; all length
scales change at every evaluation, so that nothing comes from the cache.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import lapack

from gpmcflow.approximations.stand_ins import (
    EigenExact,
    Nystrom,
    SubsetOfData,
    farthest_point_cases,
)
from gpmcflow.covariances.leaves import Constant, SquaredExponential
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import noise_variances
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.replications.fast_likelihood.methods import SinglePrecision

GOALS = {300: 1.5, 900: 1.25}  # an evaluation over its bare calls
TYPES = ((300, 1, 0.1, False), (300, 5, 0.1, True), (900, 1, 0.1, False), (900, 5, 2.0, True))
SUBSET_GOAL = 60.0  # microseconds of an evaluation at m = 40


def build(n: int, p: int, rho: float, ard: bool = False) -> tuple[GPModel, np.ndarray]:
    """A model of the paper's kind, and the theta its data come from; rho / sqrt 2 is a length scale."""
    rng = np.random.default_rng([n, p])
    covariance = SquaredExponential(ard=ard) + Constant(10.0)
    empty = GPModel(rng.random((n, p)), np.zeros(n), covariance, Gaussian(), jitter=0.0)
    scales = np.full(empty.dim - 2, rho) * (np.arange(empty.dim - 2) + 1) / np.sqrt(2.0)
    theta = np.log(np.concatenate([scales, [5.0, 0.2]]))
    return empty.with_y(RegressionDensity(empty).draw_responses(rng, theta)), theta


def evaluations(density, theta: np.ndarray, changed: slice = slice(None)):
    """A function of k that evaluates at another theta each time."""
    step = np.zeros(len(theta))
    step[changed] = 1e-5
    return lambda k: density(theta + (k % 7) * step)


def bare_calls(model: GPModel, theta: np.ndarray) -> dict:
    """The calls that no evaluation can do without, by name; the copy is to be taken off."""
    full = model.full(theta)
    C = np.asfortranarray(model.cross_covariance(full, model.X))
    C[np.diag_indices_from(C)] += noise_variances(model, full)
    buffer, lower = C.copy(order="F"), np.log(C[np.tril_indices(len(C))])
    out = lower.copy()

    def factorise(k: int) -> None:
        buffer[...] = C
        lapack.dpotrf(buffer, lower=1, clean=0, overwrite_a=1)

    def copy(k: int) -> None:
        buffer[...] = C

    return {"potrf": factorise, "copy": copy, "exp": lambda k: np.exp(lower, out=out)}


def interleaved(calls: dict, rounds: int, seconds: float = 0.006) -> dict[str, float]:
    """Least microseconds of each call over the rounds."""
    counts = {}
    for name, call in calls.items():
        call(0)
        began = time.perf_counter()
        call(1)
        counts[name] = max(1, min(2000, int(seconds / (time.perf_counter() - began + 1e-9))))
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            for k in range(counts[name]):
                call(k)
            best[name] = min(best[name], (time.perf_counter() - began) / counts[name])
    return {name: 1e6 * value for name, value in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    pin_blas()
    print(
        "one exact evaluation, microseconds     bare   rho moves   ratio (goal)   eta moves  gradient"
    )
    for n, p, rho, ard in TYPES:
        model, theta = build(n, p, rho, ard)
        density = RegressionDensity(model)
        calls = bare_calls(model, theta) | {
            "rho": evaluations(density, theta),
            "eta": evaluations(density.fresh(), theta, slice(-2, -1)),
            "gradient": evaluations(density.fresh().value_and_gradient, theta),
        }
        found = interleaved(calls, rounds)
        bare = found["potrf"] - found["copy"] + found["exp"]
        label = f"n = {n}, p = {p}{', ARD' if ard else ''}"
        print(
            f"  {label:32}{bare:9.0f}{found['rho']:12.0f}{found['rho'] / bare:9.2f} ({GOALS[n]})"
            f"{found['eta']:12.0f}{found['gradient']:10.0f}"
        )
    print("stand-ins, microseconds an evaluation    time   over the exact one's")
    for n, p, rho, m in ((300, 1, 0.1, 30), (300, 5, 2.0, 120), (900, 1, 0.1, 90)):
        model, theta = build(n, p, rho)
        columns = farthest_point_cases(model.X, m)
        subset = 60 if n == 900 else 40 if p == 1 else 150
        densities = {
            "exact": RegressionDensity(model),
            f"subset of data, m = {subset}": SubsetOfData(model, np.arange(subset)),
            f"Nystrom, m = {m}": Nystrom(model, columns),
            f"Nystrom, m = {m}, normal": Nystrom(model, columns, form="normal"),
            "float32": SinglePrecision(model),
        }
        if n == 300:
            densities[f"eigen-exact, m = {m}"] = EigenExact(model, m)
        found = interleaved({k: evaluations(d, theta) for k, d in densities.items()}, rounds)
        for name, value in found.items():
            goal = f"  (goal {SUBSET_GOAL:.0f})" if name.endswith("m = 40") else ""
            label = f"n = {n}, p = {p}: {name}"
            print(f"  {label:38}{value:8.0f}{value / found['exact']:10.2f}{goal}")


if __name__ == "__main__":
    main()
