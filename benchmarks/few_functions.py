"""CPU seconds and effective draws of a random-intercept logistic regression, as weights and dense.

Run: python benchmarks/few_functions.py basis, and again with dense: a process each, of one thread. With
numbers of rows in place of a structure it prints seconds and memory of the weights of 100 groups, a process
for each number.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

import gpmcflow as gp
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.samplers.adaptation.joint_mode import plain_sites

N_GROUPS = 100
DRAWS = {"n_chains": 1, "n_draws": 100, "seed": 1}


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def model(structure: str) -> gp.GPModel:
    """300 labels of 30 groups."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 10)
    probability = 1.0 / (1.0 + np.exp(-(0.3 + rng.normal(size=30)[group])))
    y = np.where(rng.random(300) < probability, 1.0, -1.0)
    X = pd.DataFrame({"school": [f"g{k:02d}" for k in group]})
    covariance = gp.Group(columns="school") + gp.Constant(2.0)
    return gp.GPModel(X, y, covariance, gp.Logistic(), structure=structure)


def of_rows(n: int) -> gp.GPModel:
    """n labels of 100 groups."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % N_GROUPS
    probability = 1.0 / (1.0 + np.exp(-(0.3 + rng.normal(size=N_GROUPS)[group])))
    y = np.where(rng.random(n) < probability, 1.0, -1.0)
    covariance = gp.Group(columns="school") + gp.Constant(2.0)
    return gp.GPModel(pd.DataFrame({"school": group}), y, covariance, gp.Logistic())


def measure(n: int) -> None:
    """Print a row of the table: seconds to make a model, of a gradient, of a fit and of a run; memory."""
    gp.sample(of_rows(1000), **DRAWS)  # which compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    own = of_rows(n)
    made = time.process_time() - began
    density = JointDensity(own, plain_sites(own))
    x, z = np.zeros(own.dim), np.zeros(density.n_z)
    density.evaluate(x, z)
    began, repeats = time.process_time(), max(3, 300_000 // n)
    for _ in range(repeats):
        density.evaluate(x, z)
    gradient = (time.process_time() - began) / repeats
    began = time.process_time()
    gp.approximate(own)
    fitted = time.process_time() - began
    began = time.process_time()
    gp.sample(own, execution=gp.Execution(workers=1), **DRAWS)
    drawn = time.process_time() - began
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"| {n:,} | {made:.2f} | {1e3 * gradient:.2f} | {fitted:.2f} | {drawn:.1f} | {more:.0f} |"
    )


if __name__ == "__main__" and sys.argv[1].isdigit():
    if len(sys.argv) == 2:
        measure(int(sys.argv[1]))
    else:
        for rows in sys.argv[1:]:
            subprocess.run([sys.executable, __file__, rows], check=True)
elif __name__ == "__main__":
    own = model(sys.argv[1])
    began = cpu_seconds()
    draws = gp.sample(own, seed=1)
    spent = cpu_seconds() - began
    ess = array_stats.ess(draws.posterior["group.signal_sd"].transpose("chain", "draw").values)
    print(
        f"{own.structure_in_words}: {spent:.1f} CPU s, {ess:.0f} effective draws of the groups' sd"
    )
