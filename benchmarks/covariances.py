"""Covariance expressions: values and adjoint over a Cholesky factorisation, and whole gradients.

    python benchmarks/covariances.py [--repeats 60]

One BLAS thread; medians of interleaved repeats. The first table has the seconds of K and of the adjoint of
all hyperparameters in units of a bare dpotrf of the same n; the second a gradient of the joint density of
hyperparameters and latents (logistic data) over that of a squared exponential with one length scale.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import lapack

import gpmcflow as gp
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.execution import pin_blas
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites

SIZES = (100, 200, 625, 1500)
WIDE = gp.Hyperprior.log_uniform(0.1, 10.0)


def covariances(p: int) -> dict[str, gp.GPModel]:
    """Expressions of p columns."""
    se = gp.SquaredExponential(WIDE, WIDE, columns=0)
    found = {
        "SE": gp.SquaredExponential(WIDE, WIDE),
        "SE, one length scale a column": gp.SquaredExponential(WIDE, WIDE, ard=True),
        "Matern 3/2, one a column": gp.Matern32(WIDE, WIDE, ard=True),
    }
    if p == 2:
        found["rational quadratic"] = gp.RationalQuadratic(WIDE, WIDE, WIDE)
        found["SE * periodic + linear"] = se * gp.Periodic(WIDE, period=1.0, columns=0) + gp.Linear(
            WIDE, columns=1
        )
    if p == 5:
        terms = [gp.SquaredExponential(WIDE, WIDE, columns=c) for c in range(5)]
        found["five additive SE"] = terms[0] + terms[1] + terms[2] + terms[3] + terms[4]
    return found


def medians(calls: list, repeats: int) -> np.ndarray:
    """Median CPU seconds of each call, in turn."""
    for call in calls:
        call()
    times = np.empty((repeats, len(calls)))
    for row in times:
        for k, call in enumerate(calls):
            began = time.process_time()
            call()
            row[k] = time.process_time() - began
    return np.median(times, axis=0)


def passes(n: int, p: int, repeats: int) -> None:
    rng = np.random.default_rng(n)
    X, y = rng.standard_normal((n, p)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    A = rng.standard_normal((n, n))
    matrix = np.asfortranarray(A @ A.T / n + np.eye(n))
    S, work, K = A + A.T, np.empty_like(matrix), np.empty((n, n))

    def factorise() -> None:
        work[:] = matrix
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)

    for name, covariance in covariances(p).items():
        model = gp.GPModel(X, y, covariance, gp.Logistic(), structure="dense")
        buffers, full = CovarianceBuffers(model._tape), model.full(model.prior_median())
        calls = [
            lambda b=buffers, f=full: b.fill(f, K),
            lambda b=buffers, f=full: b.adjoint(f, S, 0.0, K),
            lambda w=work: w.__setitem__(slice(None), matrix),
            factorise,
        ]
        fill, adjoint, copy, potrf = medians(calls, repeats)
        bare = potrf - copy
        print(
            f"{n:5d}  p = {p:2d}  {name:32s} fill {fill / bare:5.2f}  adjoint {adjoint / bare:5.2f}"
        )


def gradients(n: int, repeats: int) -> None:
    rng = np.random.default_rng(n)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    calls, names = [], []
    for p in (2, 5):
        X = rng.standard_normal((n, p))
        for name, covariance in covariances(p).items():
            model = gp.GPModel(X, y, covariance, gp.Logistic(), structure="dense")
            density = JointDensity(model, FrozenSites(np.full(n, 0.3), 0.1 * y))
            x, z = 0.1 * rng.standard_normal(model.dim), rng.standard_normal(2 * n)
            calls.append(lambda d=density, x=x, z=z: d.evaluate(x, z))
            names.append(f"{name}, p = {p}")
    times = medians(calls, repeats)
    for name, seconds in zip(names, times, strict=True):
        print(
            f"{n:5d}  gradient  {name:40s} {1e3 * seconds:8.3f} ms, {seconds / times[0]:5.2f} of SE"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    pin_blas()
    for n in SIZES:
        for p in (2, 5, 34):
            passes(n, p, repeats if n < 1000 else repeats // 6 + 1)
    for n in SIZES[:3]:
        gradients(n, repeats)


if __name__ == "__main__":
    main()
