"""The evidence study of Paquet & Fraccaro (2018): annealing from the prior and from EP."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.perturbative_correction import second_order_correction
from gpmcflow.errors import NumericalError, unknown_name
from gpmcflow.execution import chain_generators, require_memory, workers
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import build_model, limit_bytes, model_of, reference_of
from gpmcflow.jobs.resources import INSIDE, chains_of, states_per_chain
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.replications.rmhmc_ais.evidence_plans import Setting
from gpmcflow.replications.rmhmc_ais.evidence_routes import ROUTES
from gpmcflow.replications.rmhmc_ais.ladders import annealing_runs
from gpmcflow.replications.stages import execution_of, result_attributes
from gpmcflow.storage import load_results, with_attributes

STUDY = "rmhmc_ais"
ARRAYS_PER_PARTICLE = 12  # d-vectors alive at once for each particle of a block
STATISTICS = 8  # numbers kept for each particle and temperature


def evidence_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`evidence` of the data and the EP fit of a job."""
    dataset, fitted = job.dataset(), load_results(job.input.approximation)
    method = job.settings["method"]
    runs = [(chains_of(method), length) for _, length in annealing_runs(method)]
    run = job.run_settings(dataset, runs)
    return evidence(dataset, fitted, **job.settings, **job.names, **run)


def hyperparameter_map_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`hyperparameter_map` of the data of a job."""
    return hyperparameter_map(job.dataset(), **job.settings, seed=job.seed)


def evidence(
    dataset: xr.Dataset,
    approximation: xr.DataTree,
    problem: dict,
    method: dict,
    *,
    problem_name: str,
    method_name: str,
    seed: int,
    execution: dict,
    state_dir: Any = None,
    memory_limit_gb: float | None = None,
) -> tuple[xr.DataTree, dict]:
    """All runs of one method on one problem: its ladder lengths and replicates.

    Groups: ``evidence`` (n_temperatures, replicate), those of the route the method takes (see
    `evidence_routes`), and ``pilot`` (stage) where one was run. The sidecar has the seconds of each run and
    of the pilot.
    """
    forecast = memory_forecast(
        dataset.sizes["case"], method, execution, on_disk=state_dir is not None
    )
    require_memory(forecast, limit_bytes(memory_limit_gb), f"{method_name} on {problem_name}")
    model = model_of(dataset, approximation, problem)
    path = TemperedPath(reference_of(approximation, model, method["reference"]))
    kind = method.get("kind", "ais")
    if kind not in ROUTES:
        raise unknown_name(f"{method_name}: kind", kind, ROUTES)
    settings = {"problem": problem, "method": method}
    identity = settings | {"data": dataset.attrs["checksum"]}
    how = execution_of(execution, settings=identity)
    with workers(how.pool, how.workers) as pool:
        setting = Setting(
            path=path,
            method=method,
            seed=seed,
            key=(STUDY, dataset.attrs["name"], problem_name, method_name),
            label=f"{problem_name} {method_name}",
            execution=replace(how, scheduler=pool, state_dir=state_dir),
        )
        outcome = ROUTES[kind](setting)
    names = (STUDY, problem_name, method_name)
    attributes = result_attributes(dataset, seed, names, **settings)
    groups = {"evidence": outcome.table, **outcome.groups}
    return with_attributes(xr.DataTree.from_dict(groups), attributes), {"seconds": outcome.seconds}


def memory_forecast(dim: int, method: dict, execution: dict, on_disk: bool) -> int:
    """Forecast in bytes: the factors, the blocks in flight, the statistics, and latents not streamed."""
    kind, n_temperatures = method.get("kind", "ais"), max(method.get("temperatures") or [1])
    chains, rows, draws = method.get("particles", 0), 1, method["replicates"]
    if (
        kind in INSIDE
    ):  # a chain is a replicate: a ladder, of which a draw keeps all, or its particles
        chains, rows, draws = method["replicates"], states_per_chain(method), 1
    if kind == "parallel_tempering":
        draws = method["draws"] + method["warmup"]
    block = min(chains, int(execution["block_size"]))
    in_flight = int(execution.get("workers", 1)) * block * rows
    numbers = 6 * dim * dim + in_flight * dim * ARRAYS_PER_PARTICLE
    numbers += STATISTICS * chains * n_temperatures * draws
    if method.get("sampler") == "rmhmc":
        numbers += in_flight * dim * dim  # each particle's own factor
    if method.get("reverse"):
        numbers += 3 * chains * dim  # the draws the reverse runs start from
    if method.get("store_latents"):
        streamed = in_flight * int(execution["segment_length"])
        numbers += 2 * dim * (streamed if on_disk else chains * n_temperatures)
    return 8 * numbers


def hyperparameter_map(
    dataset: xr.Dataset,
    problem: dict,
    grid: dict,
    *,
    seed: int,
    marked: dict[str, list[float]] | None = None,
    n_draws: int = 1000,
) -> tuple[xr.DataTree, dict]:
    """EP evidence, size of the correction and sd of u under q over a grid of hyperparameters.

    Group ``map`` (log_length_scale, log_signal_sd); NaN where EP does not converge. sd(u) is that of
    the log weights of plain importance sampling from the EP fit: a measure of how hard a setting is.
    ``marked`` names settings (log length scale, log signal sd) that the figure points out.
    """
    lengths, signals = grid["log_length_scale"], grid["log_signal_sd"]
    shape = (len(lengths), len(signals))
    maps = {name: np.full(shape, np.nan) for name in ("log_evidence_ep", "correction", "ratio_sd")}
    began = time.perf_counter()
    for i, length in enumerate(lengths):
        for j, signal in enumerate(signals):
            try:
                fit = expectation_propagation(build_model(dataset, problem, length, signal))
            except NumericalError:
                continue
            rng = chain_generators(seed, STUDY, dataset.attrs["name"], "map", i, j, chains=[0])
            model = fit.sites.model
            eta = fit.sites.predictor(rng.standard_normal((n_draws, model.dim))[0])
            u = TemperedPath(fit.sites).log_ratio(eta, model.likelihood.log_density(eta, model.y))
            maps["log_evidence_ep"][i, j] = fit.log_evidence
            maps["correction"][i, j] = second_order_correction(fit)[-1]
            maps["ratio_sd"][i, j] = u.std()
    dims = ("log_length_scale", "log_signal_sd")
    table = xr.Dataset(
        {name: (dims, values) for name, values in maps.items()},
        {"log_length_scale": lengths, "log_signal_sd": signals},
        {"marked": json.dumps(marked or {}, sort_keys=True)},
    )
    attributes = result_attributes(dataset, seed, problem=problem, grid=grid)
    tree = with_attributes(xr.DataTree.from_dict({"map": table}), attributes)
    return tree, {"seconds": {"map": time.perf_counter() - began}}
