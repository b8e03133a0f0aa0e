"""Milliseconds of a gradient of the joint density under each structure of the prior.

    python benchmarks/structures.py [--repeats 50]
    python benchmarks/structures.py --sizes [--picture docs/figures/time_against_n.png]

One BLAS thread; medians of CPU time. Counts with a free mean; sites of equal precision. The second form times
basis functions against the number of cases, and draws it beside the dense and the grid structure.
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


def series(n: int, m: int) -> gp.GPModel:
    """Counts at n places of a line, with m basis functions."""
    rng = np.random.default_rng(n)
    x, y = rng.uniform(-1.0, 1.0, n), rng.poisson(2.0, n)
    structure = gp.BasisFunctions(m=m, boundary=1.5)
    return gp.GPModel(
        x, y, gp.SquaredExponential(LENGTH, SIGNAL), gp.Poisson(), MEAN, structure=structure
    )


def timed_sizes(repeats: int) -> dict[str, dict[int, float]]:
    """Milliseconds a gradient by curve and number of cases."""
    curves: dict[str, dict[int, float]] = {}
    for m in (20, 60, 180):
        curves[f"basis functions, m = {m}"] = {
            n: milliseconds(series(n, m), max(5, repeats * 1000 // n))
            for n in (1000, 10_000, 100_000, 1_000_000)
        }
    curves["grid (Kronecker)"] = {
        k * k: milliseconds(grid(k, "kronecker"), 10) for k in (16, 32, 64, 128)
    }
    curves["dense"] = {k * k: milliseconds(grid(k, "dense"), 5) for k in (8, 16, 25, 36)}
    return curves


def show(curves: dict[str, dict[int, float]], picture: str | None) -> None:
    """The table, and the picture if a name is given for it."""
    for name, points in curves.items():
        print(f"| {name} | {', '.join(f'{n}: {ms:.3g}' for n, ms in points.items())} |")
    if not picture:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    marks = zip(
        "osD^v",
        ("-", "-", "-", "--", ":"),
        ("0.75", "0.45", "0.0", "tab:blue", "tab:red"),
        strict=True,
    )
    for (name, points), (mark, line, colour) in zip(curves.items(), marks, strict=True):
        axes.loglog(list(points), list(points.values()), mark + line, color=colour, label=name)
    axes.set_xlabel("cases n")
    axes.set_ylabel("time of one gradient [ms]")
    axes.set_title(
        "One gradient of the joint density of hyperparameters and latents", fontsize="medium"
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=150)


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
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--picture")
    options = parser.parse_args()
    repeats = options.repeats
    pin_blas()
    if options.sizes:
        show(timed_sizes(repeats), options.picture)
        return
    print(f"{'structure':24s} {'n':>7s} {'ms a gradient':>14s}")
    for name, model in models():
        print(f"{name:24s} {model.n_cases:7d} {milliseconds(model, repeats):14.3f}")


if __name__ == "__main__":
    main()
