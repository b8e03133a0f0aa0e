"""CPU seconds and effective draws of a random-intercept logistic regression, as weights and dense.

Run: python benchmarks/few_functions.py basis, and again with dense: a process each, of one thread.
"""

from __future__ import annotations

import resource
import sys

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

import gpmcflow as gp


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


if __name__ == "__main__":
    own = model(sys.argv[1])
    began = cpu_seconds()
    draws = gp.sample(own, seed=1)
    spent = cpu_seconds() - began
    ess = array_stats.ess(draws.posterior["group.signal_sd"].transpose("chain", "draw").values)
    print(
        f"{own.structure_in_words}: {spent:.1f} CPU s, {ess:.0f} effective draws of the groups' sd"
    )
