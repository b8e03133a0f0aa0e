"""CPU seconds and effective draws on a grid with missing cells, by the grid and by a dense covariance.

Run: python benchmarks/missing_cells.py
"""

from __future__ import annotations

import time

import numpy as np
from arviz_stats.base import array_stats

import gpmcflow as gp

SHAPE = 20, 24
N_CASES = 450, 240, 125
TRUTH = np.array([-1.0, 0.3])  # logs of the length scale and of the signal's standard deviation
EVERY = 5  # case whose predictor is looked at


def model(n: int) -> gp.GPModel:
    """Counts at n of the cells, picked at random."""
    rng = np.random.default_rng(0)
    axes = np.meshgrid(np.linspace(0, 1, SHAPE[0]), np.linspace(0, 2, SHAPE[1]), indexing="ij")
    cells = np.stack(axes, -1).reshape(-1, 2)
    X = cells[rng.permutation(len(cells))[:n]]
    dense = gp.GPModel(X, np.ones(n), gp.SquaredExponential(), gp.Poisson(), structure="dense")
    return dense.with_y(dense.simulate(rng, TRUTH)[1])


if __name__ == "__main__":
    execution = gp.Execution(workers=1)
    for n in N_CASES:
        for structure in ("kronecker", "dense"):
            own = model(n).with_structure(structure)
            began = time.process_time()
            draws = gp.sample(
                own, gp.JointSplitHMC(), n_chains=2, n_draws=300, seed=1, execution=execution
            )
            spent = time.process_time() - began
            eta = draws["posterior_predictive"]["eta"].transpose("chain", "draw", "case").values
            worst = min(float(array_stats.ess(eta[:, :, k])) for k in range(0, n, EVERY))
            print(
                f"{n}, {structure}: {spent:.1f} CPU s, {worst:.0f} effective, {worst / spent:.0f} a second"
            )
