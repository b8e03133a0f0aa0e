"""The routes to the evidence a method of the study can take, each with its ladders and replicates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.importance_weights import effective_size, smooth_weights
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.parallel_tempering import temper
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.evidence.sequential_monte_carlo import AdaptiveParticles, resample_move
from gpmcflow.execution import chain_generators
from gpmcflow.replications.rmhmc_ais.evidence_plans import (
    OneStep,
    Plan,
    Setting,
    load_compiled_code,
    pilot_dataset,
)
from gpmcflow.samplers.sampling import sample

REVERSE_DRAWS = 60  # transitions from a pilot's particle to an (approximate) posterior draw


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a route gives: ``evidence`` (n_temperatures, replicate), its other groups, seconds."""

    table: xr.Dataset
    groups: dict[str, xr.Dataset]
    seconds: dict[str, Any]


def annealing(setting: Setting) -> Outcome:
    """Annealed importance sampling, one run for each ladder length and replicate.

    Groups ``annealing_t<T>`` (replicate, chain, temperature) and ``pilot``. With ``reverse: true`` each
    forward run has a reverse one beside it, started from long chains (variables with the prefix
    ``reverse_``).
    """
    plan = Plan(setting)
    return _with_irreversible(setting, plan, _anneal_all(setting, plan))


def _with_irreversible(setting: Setting, plan: Plan, outcome: Outcome) -> Outcome:
    """Share of trajectories at beta = 1 that a fixed number of iterations does not lead back."""
    if not setting.method.get("fixed_iters"):
        return outcome
    schedule = plan.schedule(plan.lengths[-1])
    sampler = schedule.sampler(plan.sampler, schedule.n_temperatures)
    path = setting.path.in_coordinates(sampler.coordinates(setting.path.reference))
    latents = plan.pilot.latents if plan.pilot else setting.path.reference.mean[None]
    position = path.base.from_latent(latents)
    rng = chain_generators(setting.seed, *setting.key, "return", chains=range(len(position)))
    share = sampler.irreversible(rng, path.target(1.0), position)
    return replace(outcome, table=outcome.table.assign(irreversible=((), share)))


def importance_sampling(setting: Setting) -> Outcome:
    """Plain importance sampling from the reference: annealing with the ladder (0, 1).

    The table has the Pareto shape of the weights' tail (``pareto_k``), too, and its alarm.
    """
    outcome = _anneal_all(setting, OneStep(setting.path))
    weights = outcome.groups["annealing_t0001"]["log_weight_increment"]
    shapes, alarms_raised = [], []
    for replicate in outcome.table["replicate"].values:
        here = {"n_temperatures": 0, "replicate": int(replicate)}
        log_weights = weights.isel(replicate=int(replicate), temperature=0).values
        shapes.append(smooth_weights(log_weights)[1])
        before = str(outcome.table["alarm"].isel(here).values)
        size = float(effective_size(log_weights))
        pareto = alarms.pareto_alarms(shapes[-1], len(log_weights), size)
        alarms_raised.append(alarms.join([before] if before else [], pareto))
    over = ("n_temperatures", "replicate")
    columns = {"pareto_k": (over, [shapes]), "alarm": (over, [alarms_raised])}
    return replace(outcome, table=outcome.table.assign(columns))


def parallel_tempering(setting: Setting) -> Outcome:
    """Parallel tempering, one run for each ladder length; its replicates are independent ladders.

    Groups ``tempered_t<T>`` (chain, temperature, draw) and ``pilot``. The table has one row for each
    length: stepping stones, and thermodynamic integration with the prefix ``integration_``.
    """
    method = setting.method

    def summary(evidence: xr.Dataset) -> xr.Dataset:
        stones, integral = (evidence.isel(estimator=k, drop=True) for k in range(2))
        both = [name for name in evidence if evidence[name].dims == ("estimator",)]
        values = {
            name: stones[name] for name in evidence if name in both or not evidence[name].dims
        }
        values |= {f"integration_{name}": integral[name] for name in both}
        return xr.Dataset(values | {"n_particles": float(method["replicates"])})

    options = {"n_draws": method["draws"], "n_warmup": method["warmup"]}
    return _by_length(setting, "tempered", temper, summary, options)


def sequential_monte_carlo(setting: Setting) -> Outcome:
    """Sequential Monte Carlo (resample-move), one run for each ladder length.

    Groups ``sequential_monte_carlo_t<T>`` (chain, stage; a chain is a replicate) and ``pilot``. The
    table has one row for each length, from all replicates.
    """
    method = setting.method
    adaptive = method.get("adaptive_particles")

    def summary(evidence: xr.Dataset) -> xr.Dataset:
        return evidence[[name for name in evidence if evidence[name].dims == ()]]

    options = {
        "n_particles": AdaptiveParticles(**adaptive) if adaptive else method["particles"],
        "n_moves": method["moves"],
        "waste_free": method["waste_free"],
        "effective_fraction": method.get("effective_fraction"),
    }
    return _by_length(setting, "sequential_monte_carlo", resample_move, summary, options)


def _by_length(
    setting: Setting,
    group: str,
    route: Callable[..., xr.DataTree],
    summary: Callable[[xr.Dataset], xr.Dataset],
    options: dict[str, Any],
) -> Outcome:
    """One run for each ladder length, whose replicates make one row of the table."""
    plan = Plan(setting)
    load_compiled_code(setting.path)
    timings, rows, groups = [], [], {}
    for n_temperatures in plan.lengths:
        schedule = plan.schedule(n_temperatures)
        began = time.perf_counter()
        tree = route(
            setting.path,
            plan.sampler,
            schedule,
            n_replicates=setting.method["replicates"],
            seed=setting.seed,
            key=(*setting.key, f"T{n_temperatures}"),
            execution=setting.run(f"t{n_temperatures:04d}", f"T={n_temperatures}"),
            **options,
        )
        seconds = time.perf_counter() - began
        timings.append({"n_temperatures": n_temperatures, "replicate": 0, "seconds": seconds})
        groups[f"{group}_t{n_temperatures:04d}"] = tree[group].to_dataset()
        rows.append([summary(tree["evidence"].to_dataset())])
    return _outcome(plan, rows, groups, timings)


def _anneal_all(setting: Setting, plan: Plan | OneStep) -> Outcome:
    method, lengths = setting.method, plan.lengths
    load_compiled_code(setting.path)
    timings, rows, groups = [], [], {}
    for n_temperatures in lengths:
        schedule, runs, row = plan.schedule(n_temperatures), [], []
        for replicate in range(method["replicates"]):
            label = f"T={n_temperatures} replicate {replicate}"
            streams = {"seed": setting.seed, "key": (*setting.key, f"T{n_temperatures}", replicate)}
            began = time.perf_counter()
            run = anneal(
                setting.path,
                plan.sampler,
                schedule,
                n_particles=method["particles"],
                store_latents=bool(method.get("store_latents")),
                execution=setting.run(f"t{n_temperatures:04d}_r{replicate}", label),
                **streams,
            )
            timing = {"n_temperatures": n_temperatures, "replicate": replicate}
            timing["seconds"] = time.perf_counter() - began
            summary = run["evidence"].to_dataset()
            if method.get("reverse"):
                began = time.perf_counter()
                back = _reverse(plan, schedule, streams, setting, label)["evidence"].to_dataset()
                summary = summary.merge(back.rename({name: f"reverse_{name}" for name in back}))
                timing["reverse_seconds"] = time.perf_counter() - began
            timings.append(timing)
            runs.append(run["annealing"].to_dataset())
            row.append(summary)
        group = xr.concat(runs, "replicate", combine_attrs="override")
        groups[f"annealing_t{n_temperatures:04d}"] = group
        rows.append(row)
    return _outcome(plan, rows, groups, timings)


def _outcome(
    plan: Plan | OneStep,
    rows: list[list[xr.Dataset]],
    groups: dict[str, xr.Dataset],
    timings: list[dict],
) -> Outcome:
    """Summaries of runs as one table (n_temperatures, replicate), with the pilot's."""
    table = xr.concat(
        [xr.concat(row, "replicate") for row in rows],
        xr.DataArray(list(plan.lengths), dims="n_temperatures", name="n_temperatures"),
    )
    table = table.assign_coords(replicate=np.arange(len(rows[0])))
    table["pilot_gradient"] = ((), plan.pilot.n_gradient if plan.pilot else 0)
    if plan.pilot:
        groups = {**groups, "pilot": pilot_dataset(plan.pilot)}
    return Outcome(table, groups, {"pilot": plan.pilot_seconds, "runs": timings})


def _reverse(
    plan: Plan, schedule: Schedule, streams: dict, setting: Setting, label: str
) -> xr.DataTree:
    """Anneal back from the last draws of chains that started at the pilot's particles."""
    path, sampler, last = plan.path, plan.sampler, schedule.n_temperatures
    base = schedule.base(path, last) or path.reference
    how = setting.run("reverse_{}_r{}".format(*streams["key"][-2:]), f"{label} reverse")
    n_particles = setting.method["particles"]
    chains = sample(
        base,
        schedule.sampler(sampler, last),
        n_chains=n_particles,
        n_draws=1,
        n_warmup=0,
        thin=REVERSE_DRAWS,
        predictive=False,
        start=plan.pilot.latents if plan.pilot else None,
        execution=how.inside("start"),
        **streams,
    )
    return anneal(
        path,
        sampler,
        schedule,
        n_particles=n_particles,
        reverse_from=chains["posterior/latent"].values[:, -1],
        execution=how,
        **streams,
    )


ROUTES: dict[str, Callable[[Setting], Outcome]] = {
    "ais": annealing,
    "importance_sampling": importance_sampling,
    "parallel_tempering": parallel_tempering,
    "sequential_monte_carlo": sequential_monte_carlo,
}
