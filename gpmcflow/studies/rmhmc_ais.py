"""The evidence study of Paquet & Fraccaro (2018): annealing from the prior and from EP."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.hyperparameters import fit_ep
from gpmcflow.approximations.perturbative_correction import second_order_correction
from gpmcflow.errors import NumericalError
from gpmcflow.evidence.annealing import anneal, make_ladder
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import chain_generators, require_memory, workers
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import Sampler, make_sampler
from gpmcflow.samplers.pilot import Pilot, find_pilot
from gpmcflow.samplers.sampling import sample
from gpmcflow.samplers.tuning import TuningSettings
from gpmcflow.storage import with_attributes
from gpmcflow.studies.problems import limit_bytes, make_likelihood, model_of, reference_of
from gpmcflow.studies.stages import execution_settings, result_attributes

STUDY = "rmhmc_ais"
REVERSE_DRAWS = 60  # transitions from a pilot's particle to an (approximate) posterior draw
ARRAYS_PER_PARTICLE = 12  # d-vectors alive at once for each particle of a block
STATISTICS = 6  # numbers kept for each particle and temperature


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
    """All annealing runs of one method on one problem: its ladder lengths and replicates.

    Groups: ``evidence`` (n_temperatures, replicate), ``annealing_t<T>`` (replicate, chain, temperature)
    and ``pilot`` (stage). With ``reverse: true`` each forward run has a reverse one beside it, started
    from long chains (variables with the prefix ``reverse_``). Plain importance sampling is annealing
    with the ladder (0, 1). The sidecar has the seconds of each run and of the pilot.
    """
    forecast = memory_forecast(
        dataset.sizes["case"], method, execution, on_disk=state_dir is not None
    )
    require_memory(forecast, limit_bytes(memory_limit_gb), f"{method_name} on {problem_name}")
    model = model_of(dataset, approximation, problem)
    path = TemperedPath(reference_of(approximation, model, method["reference"]))
    _load_compiled_code(path)
    names = (STUDY, dataset.attrs["name"], problem_name, method_name)
    plan = _Plan(path, method, seed, names, state_dir)
    seconds = {"pilot": plan.pilot_seconds, "runs": []}
    summaries, groups = [], {}
    settings = execution_settings(execution)
    with workers(settings.pop("scheduler"), settings.pop("n_workers")) as pool:
        for n_temperatures in plan.lengths:
            schedule, runs, row = plan.schedule(n_temperatures), [], []
            for replicate in range(method["replicates"]):
                label = f"{problem_name} {method_name} T={n_temperatures} replicate {replicate}"
                key = (*names, f"T{n_temperatures}", replicate)
                common = {
                    "n_particles": method["particles"],
                    "seed": seed,
                    "key": key,
                    "scheduler": pool,
                    "settings": {
                        "problem": problem,
                        "method": method,
                        "data": dataset.attrs["checksum"],
                    },
                    **settings,
                }
                began = time.perf_counter()
                run = anneal(
                    path,
                    plan.sampler,
                    schedule,
                    store_latents=bool(method.get("store_latents")),
                    state_dir=state_dir and f"{state_dir}/t{n_temperatures:04d}_r{replicate}",
                    progress=label,
                    **common,
                )
                elapsed = time.perf_counter() - began
                summary = run["evidence"].to_dataset()
                timing = {
                    "n_temperatures": n_temperatures,
                    "replicate": replicate,
                    "seconds": elapsed,
                }
                if method.get("reverse"):
                    began = time.perf_counter()
                    back = _reverse(plan, schedule, common, state_dir, label)
                    reverse = back["evidence"].to_dataset()
                    summary = summary.merge(
                        reverse.rename({name: f"reverse_{name}" for name in reverse})
                    )
                    timing["reverse_seconds"] = time.perf_counter() - began
                seconds["runs"].append(timing)
                runs.append(run["annealing"].to_dataset())
                row.append(summary)
            group = xr.concat(runs, "replicate", combine_attrs="override")
            groups[f"annealing_t{n_temperatures:04d}"] = group
            summaries.append(xr.concat(row, "replicate"))
    table = xr.concat(
        summaries, xr.DataArray(plan.lengths, dims="n_temperatures", name="n_temperatures")
    )
    table = table.assign_coords(replicate=np.arange(method["replicates"]))
    table["pilot_gradient"] = ((), plan.pilot.n_gradient if plan.pilot else 0)
    groups["evidence"] = table
    attributes = result_attributes(dataset, seed, problem=problem, method=method)
    attributes |= {"study": STUDY, "problem": problem_name, "method": method_name}
    if plan.pilot:
        groups["pilot"] = _pilot_dataset(plan.pilot)
    return with_attributes(xr.DataTree.from_dict(groups), attributes), {"seconds": seconds}


class _Plan:
    """What a method of the config amounts to: sampler, pilot, ladders."""

    def __init__(
        self, path: TemperedPath, method: dict, seed: int, key: tuple, state_dir: Any
    ) -> None:
        self.path, self.method = path, method
        self.plain = method.get("kind", "ais") == "importance_sampling"
        self.lengths = [1] if self.plain else [int(t) for t in method["temperatures"]]
        self.pilot: Pilot | None = None
        self.pilot_seconds = 0.0
        self.sampler: Sampler = make_sampler("preconditioned_split_hmc")
        if self.plain:
            return
        stated = {k: method[k] for k in ("step_size", "n_steps") if method.get(k) is not None}
        self.sampler = make_sampler(method["sampler"], **stated)
        self.tuned = not stated
        if self.tuned or method["ladder"] in ("adaptive", "geometric"):
            began = time.perf_counter()
            tuning = TuningSettings(**(method.get("tuning") or {}))
            coordinates = method.get("coordinates", "reference")
            self.pilot = find_pilot(
                path, self.sampler, coordinates, tuning, seed=seed, key=key, state_dir=state_dir
            )
            self.pilot_seconds = time.perf_counter() - began

    def schedule(self, n_temperatures: int) -> Schedule:
        """Frozen schedule for a ladder of that length."""
        if self.plain:
            return Schedule.constant(np.array([0.0, 1.0]), self.sampler)
        betas = make_ladder(self.method["ladder"], n_temperatures, self.pilot)
        if self.tuned:
            return Schedule.from_pilot(self.pilot, self.path, betas)
        schedule = Schedule.constant(betas, self.sampler)
        if self.method.get("coordinates") == "mode":
            return schedule.with_mode_bases(self.path, betas)
        return schedule


def _load_compiled_code(path: TemperedPath) -> None:
    """Evaluate once, so that the first run's time does not hold the loading of compiled code."""
    path.target(1.0).evaluate(np.zeros((2, path.model.dim)))
    path.target(1.0).residual_gradient(np.zeros((2, path.model.dim)))


def _reverse(plan, schedule: Schedule, common: dict, state_dir, label: str) -> xr.DataTree:
    """Anneal back from the last draws of chains that started at the pilot's particles."""
    path, sampler, last = plan.path, plan.sampler, schedule.n_temperatures
    base = schedule.base(path, last) or path.reference
    place = state_dir and f"{state_dir}/reverse_{common['key'][-2]}_r{common['key'][-1]}"
    n_particles = common["n_particles"]
    shared = {k: v for k, v in common.items() if k != "n_particles"}
    chains = sample(
        base,
        schedule.sampler(sampler, last),
        n_chains=n_particles,
        n_draws=1,
        n_warmup=0,
        thin=REVERSE_DRAWS,
        start_latents=plan.pilot.latents if plan.pilot else None,
        state_dir=place and f"{place}_start",
        **shared,
    )
    start = chains["posterior/latent"].values[:, -1]
    return anneal(
        path,
        sampler,
        schedule,
        n_particles=n_particles,
        reverse_from=start,
        state_dir=place,
        progress=f"{label} reverse",
        **shared,
    )


def _pilot_dataset(pilot: Pilot) -> xr.Dataset:
    fields = ("betas", "step_size", "n_steps", "acceptance_rate", "distance")
    return xr.Dataset(
        {name: ("stage", getattr(pilot, name)) for name in fields}
        | {"ratio_sd": ((), pilot.ratio_sd), "n_gradient": ((), pilot.n_gradient)},
        {"stage": np.arange(len(pilot.betas))},
    )


def memory_forecast(dim: int, method: dict, execution: dict, on_disk: bool) -> int:
    """Forecast in bytes: the factors, the blocks in flight, the statistics, and latents not streamed."""
    particles, workers = method["particles"], int(execution.get("workers", 1))
    in_flight = workers * min(particles, int(execution["block_size"]))
    n_temperatures = max(method.get("temperatures") or [1])
    numbers = 6 * dim * dim + in_flight * dim * ARRAYS_PER_PARTICLE
    numbers += STATISTICS * particles * n_temperatures * method["replicates"]
    if method.get("reverse"):
        numbers += 3 * particles * dim  # the draws the reverse runs start from
    if method.get("store_latents"):
        stored = (
            in_flight * int(execution["segment_length"]) if on_disk else particles * n_temperatures
        )
        numbers += 2 * stored * dim
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
    found = {name: np.full(shape, np.nan) for name in ("log_evidence_ep", "correction", "ratio_sd")}
    began, factor = time.perf_counter(), make_likelihood(problem)
    X, y = dataset["X"].values, dataset["y"].values
    for i, length in enumerate(lengths):
        for j, signal in enumerate(signals):
            try:
                fit = fit_ep(X, y, factor, length, signal)
            except NumericalError:
                continue
            rng = chain_generators(seed, STUDY, dataset.attrs["name"], "map", i, j, chains=[0])
            eta = fit.sites.predictor(rng.standard_normal((n_draws, fit.sites.model.dim))[0])
            u = TemperedPath(fit.sites).log_ratio(eta, factor.log_density(eta, y))
            found["log_evidence_ep"][i, j] = fit.log_evidence
            found["correction"][i, j] = second_order_correction(fit)[-1]
            found["ratio_sd"][i, j] = u.std()
    dims = ("log_length_scale", "log_signal_sd")
    table = xr.Dataset(
        {name: (dims, values) for name, values in found.items()},
        {"log_length_scale": lengths, "log_signal_sd": signals},
        {"marked": json.dumps(marked or {}, sort_keys=True)},
    )
    tree = with_attributes(
        xr.DataTree.from_dict({"map": table}),
        result_attributes(dataset, seed, problem=problem, grid=grid),
    )
    return tree, {"seconds": {"map": time.perf_counter() - began}}
