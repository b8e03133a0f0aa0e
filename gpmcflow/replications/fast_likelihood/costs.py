"""What the methods of the fast-likelihood study cost: measured seconds, and operations counted on paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.stand_ins import EigenExact, Nystrom
from gpmcflow.jobs.costs import LEAST, seconds_per_step
from gpmcflow.models.log_density import LogDensity
from gpmcflow.replications.fast_likelihood.data import Problem
from gpmcflow.replications.fast_likelihood.methods import Bench, Run
from gpmcflow.samplers.density.protocol import DensitySampler

TIMED_SECONDS = 0.15
TIMED_THETAS = 7
NOMINAL_GRADIENT = 3.0  # exact evaluations that a gradient counts for, in tuning
EIGEN_CASES = 400  # a timed eigendecomposition of more would take seconds


def nominal_cost(density: Any, problem: Problem) -> float:
    """Floating-point operations of one call of a stand-in over those of the exact density, roughly."""
    n, p = problem.model.X.shape
    exact = n**3 / 3 + n * n * (p + 10)
    kind = type(density).__name__
    if kind == "FittedStudent":
        return 0.0
    if isinstance(density, Nystrom):
        m = len(density.columns)
        return (2 * n * m * m + m**3 / 3 + n * m * (2 * p + 20)) / exact
    m = density.model.n_cases
    return (m**3 / 3 + m * m * (p + 10)) / exact * (0.5 if kind == "SinglePrecision" else 1.0)


def mean_calls(stats: xr.Dataset) -> np.ndarray:
    """Calls of each density in an iteration."""
    return stats["n_calls"].values[0].mean(axis=0)


def least_costs(runs: pd.DataFrame) -> dict[str, str]:
    """Setting of least cost of each method; of those that never moved, the one that accepts most.

    ``runs`` has a row a method, setting and data set, with its cost, whose geometric mean counts, and
    acceptance.
    """
    settings = runs.assign(cost=np.log(runs["cost"])).groupby(["method", "setting"], sort=False)
    means = settings[["cost", "acceptance"]].mean().reset_index()
    ordered = means.sort_values(["cost", "acceptance"], ascending=[True, False])
    return ordered.drop_duplicates("method").set_index("method")["setting"].to_dict()


def nominal_equivalents(run: Run, stats: xr.Dataset, bench: Bench) -> float:
    """Exact evaluations an iteration, at nominal costs."""
    calls = zip(run.densities, mean_calls(stats), strict=True)
    equivalents = sum(
        nominal_cost(density, bench.problem) * float(count) for density, count in calls
    )
    return equivalents + NOMINAL_GRADIENT * float(stats["n_gradients"].values[..., 0].mean())


def method_seconds(run: Run, bench: Bench) -> dict:
    """CPU seconds of an iteration, of a call of each density, and of a gradient where there are some."""
    thetas = _apart(bench)
    exact = seconds_per_evaluation(bench.exact, thetas)
    calls = []
    for density in run.counted:
        rows = thetas[:, 1:] if density.dim < thetas.shape[1] else thetas
        calls.append(exact if density is bench.exact else seconds_per_evaluation(density, rows))
    seconds = {"calls": calls, "exact": exact}
    if type(run.sampler).__name__ == "DensityHMC" or run.pilot_gradients:
        seconds["gradient"] = seconds_per_evaluation(bench.exact, thetas, gradient=True)
    seconds["iteration"] = seconds_per_iteration(run.densities, run.sampler, run.start)
    return seconds


def eigen_seconds(bench: Bench) -> dict:
    """CPU seconds of the eigen-exact approximation of the rank of Nystrom's, or n / 10."""
    model = bench.problem.model
    if model.n_cases > EIGEN_CASES:
        return {}
    m = bench.sizes["nystrom"] or max(2, model.n_cases // 10)
    thetas = _apart(bench)
    return {
        "m": int(m),
        "calls": [seconds_per_evaluation(EigenExact(model, m), thetas)],
        "exact": seconds_per_evaluation(bench.exact, thetas),
    }


def seconds_per_iteration(
    densities: Sequence[LogDensity],
    sampler: DensitySampler,
    start: np.ndarray,
    budget: float = TIMED_SECONDS,
    least: int = LEAST,
) -> float:
    """CPU seconds of an iteration of a chain from ``start``."""
    rng, transition = np.random.default_rng(0), sampler.bind(densities)
    state = transition.init(rng, start)

    def step() -> None:
        nonlocal state
        state, _ = transition.step(rng, state)

    return seconds_per_step(lambda share: step, budget, least)


def seconds_per_evaluation(
    density: LogDensity, thetas: np.ndarray, gradient: bool = False
) -> float:
    """CPU seconds of an evaluation, over the rows of thetas (k, d).

    Give rows that differ in all coordinates, as a cached covariance would flatter the density.
    """
    copy, rows = density.fresh(), itertools.cycle(thetas)
    call = copy.value_and_gradient if gradient else copy
    return seconds_per_step(lambda share: partial(call, next(rows)), 0.0)


def _apart(bench: Bench) -> np.ndarray:
    """Draws of the pilot that differ in all coordinates."""
    draws = bench.pilot.draws
    return draws[np.linspace(0, len(draws) - 1, TIMED_THETAS).astype(int)]
