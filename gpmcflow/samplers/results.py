"""Chains as an ArviZ DataTree, and what there is to warn of."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import pdtrc

from gpmcflow.diagnostics.convergence import longest_stands, rhat_limit
from gpmcflow.samplers.program import ChainProgram
from gpmcflow.samplers.protocol import Sampler
from gpmcflow.samplers.variables import dims_of

log = logging.getLogger(__name__)
ALARM = 1e-3  # share of proposals that fail
FALSE_ALARMS = 0.01  # share of runs below it that warn


def results_tree(arrays: Mapping[str, Any], program: ChainProgram, n_warmup: int) -> xr.DataTree:
    """Groups ``posterior``, ``sample_stats``, those of the data, and ``trace`` where one is kept."""
    problem, sampler = program.problem, program.sampler
    draws = {name: values[:, n_warmup:] for name, values in arrays.items()}
    n_chains, n_draws = draws["lp"].shape
    index = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}

    def dataset(variables: Mapping[str, Any], index: Mapping[str, np.ndarray]) -> xr.Dataset:
        named = {
            name: ((*index, *dims_of(name, values.ndim - 2)), values)
            for name, values in variables.items()
        }
        used = {dim for dims, _ in named.values() for dim in dims}
        coords = {dim: values for dim, values in problem.coords.items() if dim in used}
        return xr.Dataset(named, {**index, **coords})

    posterior = dataset(problem.posterior(draws), index)
    scalar = {n: draws[n] for n in problem.recorded if n not in posterior}
    statistics = scalar | {n: draws[n] for n in program.statistics()}
    constants = {name: ((), value) for name, value in sampler.constants().items()}
    groups = {
        "posterior": posterior,
        "sample_stats": dataset(statistics, index).assign(constants),
        **problem.data(),
    }
    if program.traced:
        every = {
            name: draws[f"trace_{name}"].reshape(n_chains, n_draws * program.thin, *shape)
            for name in program.traced
            for shape in [draws[f"trace_{name}"].shape[3:]]
        }
        iteration = np.arange(n_draws * program.thin)
        groups["trace"] = dataset(every, {"chain": index["chain"], "iteration": iteration})
    return xr.DataTree.from_dict(groups)


def warn(tree: xr.DataTree, sampler: Sampler) -> None:
    """Say so where chains stand still or do not agree, and where proposals fail or are refused."""
    stats = tree["sample_stats"].to_dataset().compute(scheduler="synchronous")
    n_chains, n_draws = stats.sizes["chain"], stats.sizes["draw"]
    stuck = int((np.ptp(stats["lp"].values, axis=1) == 0.0).sum()) if n_draws > 1 else 0
    if stuck:
        log.warning(
            "sample: %d of %d chains never moved under %r; start elsewhere, take smaller steps, or look at "
            "the prior's scale", stuck, n_chains, sampler,
        )  # fmt: skip
    elif (stands := longest_stands(stats["lp"].transpose("chain", "draw").values)).any():
        log.warning(
            "sample: chain %d stood still for %d of %d draws under %r, and moved before or after; start "
            "elsewhere, or take smaller steps", stands.argmax(), stands.max() + 1, n_draws, sampler,
        )  # fmt: skip
    elif n_chains > 1 and n_draws >= 4:
        _warn_of_rhat(tree, stats)
    failed, asked, remedy = sampler.failures
    n_failed = float(stats[failed].sum())
    n_asked = sum(float(stats[name].sum()) for name in asked) if asked else n_chains * n_draws
    if n_failed and pdtrc(n_failed - 1.0, ALARM * n_asked) < FALSE_ALARMS:
        log.warning("sample: %d of %d proposals %s", n_failed, n_asked, remedy)
    rates = stats["acceptance_rate"].mean("draw").values
    if rates.min() < sampler.least_acceptance:
        log.warning(
            "sample: chain %d accepts %.0f %% of its proposals, far fewer than in its pilot; take longer "
            "pilots (rounds)", rates.argmin(), 100 * rates.min(),
        )  # fmt: skip


def _warn_of_rhat(tree: xr.DataTree, stats: xr.Dataset) -> None:
    import arviz_stats  # here: it takes long to load

    traces = {"lp": stats["lp"]}
    if "theta" in tree["posterior"]:
        theta = tree["posterior/theta"].compute(scheduler="synchronous")
        traces |= {name: theta.sel(theta_dim=name, drop=True) for name in theta["theta_dim"].values}
    rhat = arviz_stats.rhat(xr.Dataset(traces))
    limits = {name: rhat_limit(trace.values, len(traces)) for name, trace in traces.items()}

    def excess(name: str) -> float:
        return float(np.nan_to_num((float(rhat[name]) - 1.0) / (limits[name] - 1.0), nan=np.inf))

    worst = max(traces, key=excess)
    if excess(worst) > 1.0:
        log.warning(
            "sample: R-hat of %s is %.3f over %d chains, above the %.3f that so many draws show by chance: "
            "they do not agree yet; take more draws",
            worst, float(rhat[worst]), stats.sizes["chain"], limits[worst],
        )  # fmt: skip
