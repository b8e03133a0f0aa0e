"""Milliseconds of a gradient of the joint density under each structure of the prior.

    python benchmarks/structures.py [--repeats 50]

One BLAS thread; medians of CPU time. Counts with a free mean; sites of equal precision.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gpmcflow as gp
from gpmcflow.execution import pin_blas
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites

LENGTH = gp.Hyperprior.log_uniform(0.05, 1.0)
SIGNAL = gp.Hyperprior.log_uniform(0.1, 3.0)
MEAN = gp.Hyperprior("norm", {"loc": 0.5, "scale": 1.0})


def grid(side: int, structure: str) -> gp.GPModel:
    """Counts on side x side places, with a length scale for each axis."""
    axis = np.linspace(0.0, 1.0, side)
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    y = np.random.default_rng(side).poisson(2.0, len(X))
    covariance = gp.SquaredExponential(LENGTH, SIGNAL, ard=True)
    return gp.GPModel(X, y, covariance, gp.Poisson(), MEAN, structure=structure)


def models() -> list[tuple[str, gp.GPModel]]:
    """Names and models."""
    grids = [(f"kronecker, {m} x {m}", grid(m, "kronecker")) for m in (25, 50, 100)]
    return [("dense, 25 x 25", grid(25, "dense")), *grids]


def milliseconds(model: gp.GPModel, repeats: int) -> float:
    """Median CPU time of a gradient."""
    n, rng = model.n_cases, np.random.default_rng(0)
    density = JointDensity(model, FrozenSites(np.full(n, 2.0), np.full(n, 1.0)))
    x, z = 0.1 * rng.standard_normal(model.dim), rng.standard_normal(density.n_z)
    density.evaluate(x, z)
    times = []
    for _ in range(repeats):
        began = time.process_time()
        density.evaluate(x, z)
        times.append(time.process_time() - began)
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    pin_blas()
    print(f"{'structure':24s} {'n':>7s} {'ms a gradient':>14s}")
    for name, model in models():
        print(f"{name:24s} {model.n_cases:7d} {milliseconds(model, repeats):14.3f}")


if __name__ == "__main__":
    main()
