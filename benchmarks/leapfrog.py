"""Time of one batched split-HMC step over its two bare triangular products, in one run.

    python benchmarks/leapfrog.py [--cases 767] [--particles 256]

One BLAS thread. The step is half kick, rotation, half kick with one residual gradient; the bare
products are two in-place dtrmm calls on arrays of the same shape. Prints medians and their ratio.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import blas

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import likelihood
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import PreconditionedSplitHMC


def median_ratio(first, second, repeats: int = 60) -> tuple[float, float, float]:
    """Median seconds of two calls timed in turn, and the median of their ratio pair by pair."""
    first(), second()
    pairs = []
    for _ in range(repeats):
        began = time.perf_counter()
        first()
        middle = time.perf_counter()
        second()
        pairs.append((middle - began, time.perf_counter() - middle))
    a, b = np.array(pairs).T
    return float(np.median(a)), float(np.median(b)), float(np.median(a / b))


def build(n: int, name: str) -> TemperedPath:
    """A GP problem of that size with an EP reference."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    if name == "poisson":
        y = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    model = GPModel(X, y, SquaredExponential(3.0, 2.0), likelihood(name)).at()
    return TemperedPath(expectation_propagation(model).sites)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=767)
    parser.add_argument("--particles", type=int, default=256)
    options = parser.parse_args()
    pin_blas()
    n, particles = options.cases, options.particles
    rng = np.random.default_rng(1)
    work = rng.standard_normal((particles, n))
    print(f"n = {n}, {particles} particles, one thread; milliseconds, medians of 60")
    for name in ("probit", "logistic", "poisson"):
        path = build(n, name)
        target, factor = path.target(0.7), path.reference.factor
        one, two = PreconditionedSplitHMC(n_steps=1), PreconditionedSplitHMC(n_steps=21)
        state = one.init(target, rng.standard_normal((particles, n)))
        momentum = rng.standard_normal((particles, n))
        epsilon = np.full((particles, 1), 0.01)

        def products(factor=factor, momentum=momentum):
            blas.dtrmm(1.0, factor, work.T, lower=1, overwrite_b=1)
            blas.dtrmm(1.0, factor, work.T, lower=1, trans_a=1, overwrite_b=1)
            work[:] = momentum  # keeps the numbers finite; 1 % of the time

        def steps(sampler, arguments=(target, state, momentum, epsilon)):
            return lambda: sampler.trajectory(*arguments)

        last, bare, ratio = median_ratio(steps(one), products)
        many, bare_many, _ = median_ratio(steps(two), products, repeats=10)
        inner = (many - last) / 20
        print(
            f"{name:9s} inner step {1e3 * inner:6.2f}, ratio {inner / bare_many:.2f}; "
            f"one-step trajectory (with energies) {1e3 * last:6.2f}, ratio {ratio:.2f}; "
            f"two dtrmm {1e3 * bare:6.2f}"
        )


if __name__ == "__main__":
    main()
