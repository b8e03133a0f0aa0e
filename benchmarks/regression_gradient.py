"""Logistic regression: a batched gradient over its bare matrix products, batches, and samplers.

    python benchmarks/regression_gradient.py

One BLAS thread. (1) The gradient of the log likelihood less its sites, for 16 and 64 chains, over the
two bare dgemm calls of the same shapes, in turn. (2) Seconds of one iteration of a chain among 16
over those of a chain alone. (3) Seconds per iteration of the three samplers beside their gradients.
"""

from __future__ import annotations

import time

import numpy as np
from leapfrog import median_ratio
from scipy.linalg import blas

from gpmcflow.approximations.laplace import laplace
from gpmcflow.data import load_dataset
from gpmcflow.execution import chain_generators, pin_blas
from gpmcflow.likelihoods import Logistic
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target
from gpmcflow.samplers import DataSplitHMC, LatentHMC, Sampler, SplitHMC

SHAPES = {"large": (10_000, 101), "small": (2126, 22)}
# step size, steps (inner steps, fraction): those of the paper
SAMPLERS = {
    "simulated, n = 10000, d = 101": (
        LatentHMC(0.0135, 20, 1 / 9), SplitHMC(0.027, 10, 1 / 9), DataSplitHMC(0.09, 3, 1 / 9, 9, 0.4),
    ),
    "CTG size, n = 2126, d = 22": (
        LatentHMC(0.072, 20, 1 / 9), SplitHMC(0.11, 13, 1 / 9), DataSplitHMC(0.72, 2, 1 / 9, 14, 0.3),
    ),
}  # fmt: skip


def build(n: int, d: int) -> GaussianSites:
    """Laplace fit of a regression with an intercept and d - 1 features."""
    if (n, d) == SHAPES["large"]:
        data = load_dataset("shahbaba-simulated")
        x, y = data["X"].values, data["y"].values
    else:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((n, d - 1))
        y = np.where(x[:, 0] - 2.0 + rng.logistic(size=n) > 0, 1.0, -1.0)
    design = np.column_stack([np.ones(n), x])
    return laplace(LatentGaussianModel.from_design(design, 5.0, Logistic(), y)).sites


def gradient_rows(sites: GaussianSites, n_chains: int, label: str) -> None:
    """Time of a gradient over its two products."""
    target = Target.posterior(sites.principal_axes)
    n, d = sites.model.n_cases, sites.model.dim
    rng = np.random.default_rng(1)
    zeta, slope = rng.standard_normal((n_chains, d)), rng.standard_normal((n_chains, n))
    factor = np.asfortranarray(target.base.predictor_factor)

    def bare() -> None:
        blas.dgemm(1.0, factor, zeta.T)
        blas.dgemm(1.0, factor, slope.T, trans_a=1)

    ours, products, ratio = median_ratio(lambda: target.residual_gradient(zeta), bare)
    rate = 4e-9 * n * d * n_chains / ours
    print(f"| gradient, {label}, {n_chains} chains | {1e3 * ours:.3f} ms, {ratio:.2f} times its two "
          f"`dgemm` ({1e3 * products:.3f} ms); {rate:.0f} GF/s |")  # fmt: skip


def seconds(sites: GaussianSites, sampler: Sampler, n_chains: int, budget: float = 1.0) -> float:
    """CPU seconds of one iteration of one chain among n_chains: the median of five turns."""
    target = Target.posterior(sites)
    target = target.in_coordinates(sampler.coordinates(sites))
    rng = chain_generators(0, "benchmark", chains=range(n_chains))
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    turns = []
    state, _ = sampler.step(rng, target, state)
    began = time.process_time()
    state, _ = sampler.step(rng, target, state)
    n = max(3, int(budget / 5 / (time.process_time() - began)))
    for _ in range(5):
        began = time.process_time()
        for _ in range(n):
            state, _ = sampler.step(rng, target, state)
        turns.append((time.process_time() - began) / n / n_chains)
    return float(np.median(turns))


def main() -> None:
    pin_blas()
    print("| row | measured |\n| --- | --- |")
    for name, (n, d) in SHAPES.items():
        sites = build(n, d)
        for n_chains in (16, 64):
            gradient_rows(sites, n_chains, f"n = {n}, d = {d} ({name})")
    for label, samplers in SAMPLERS.items():
        sites = build(*SHAPES["large" if "simulated" in label else "small"])
        base = Target.posterior(sites)
        each = [seconds(sites, sampler, 16) for sampler in samplers]
        costs = [s.gradients(base.in_coordinates(s.coordinates(sites))) for s in samplers]
        alone = seconds(sites, samplers[0], 1)
        times = " : ".join(f"{value / each[0]:.2f}" for value in each)
        gradients = " : ".join(f"{value / costs[0]:.2f}" for value in costs)
        print(f"| {label}: HMC, one chain alone over one among 16 | {alone / each[0]:.1f} times |")
        print(f"| {label}: seconds HMC : normal split : data split | {times} "
              f"(gradients {gradients}) |")  # fmt: skip


if __name__ == "__main__":
    main()
