"""Runs of the RMHMC-AIS paper: plans, routes and ladders of its evidence estimates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.perturbative_correction import second_order_correction
from gpmcflow.diagnostics.importance_weights import effective_size, smooth_weights
from gpmcflow.errors import NumericalError, unknown_name
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.parallel_tempering import temper
from gpmcflow.evidence.schedule import Schedule, make_ladder
from gpmcflow.evidence.sequential_monte_carlo import AdaptiveParticles, resample_move
from gpmcflow.execution import Execution, chain_generators, workers
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import build_model, model_of, reference_of, require_run_memory
from gpmcflow.jobs.resources import chains_of
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.replications.stages import execution_of, result_attributes
from gpmcflow.samplers import make_sampler
from gpmcflow.samplers.adaptation.pilot import Pilot, find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, with_attributes

# The runs that a method of the evidence study makes of one problem.

MAX_STAGES = 400  # of sequential Monte Carlo that chooses its own ladder


def annealing_runs(method: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (state folder, draws) of each run a method of study rmhmc_ais makes of one problem."""
    kind = method.get("kind")
    if kind == "parallel_tempering":
        draws = method["draws"] + method["warmup"]
        return [(f"t{length:04d}", draws) for length in method["temperatures"]]
    if kind == "sequential_monte_carlo":
        own = method.get("effective_fraction") is not None  # as many stages as it turns out to need
        return [
            (f"t{length:04d}", MAX_STAGES if own else length) for length in method["temperatures"]
        ]
    runs = []
    for length in [1] if kind == "importance_sampling" else method["temperatures"]:
        for replicate in range(method["replicates"]):
            runs.append((f"t{length:04d}_r{replicate}", length))
            if method.get("reverse"):
                runs.append((f"reverse_T{length}_r{replicate}_start", 1))
                runs.append((f"reverse_T{length}_r{replicate}", length))
    return runs


# What a route to the evidence runs with: its settings, sampler, pilot and ladders.


@dataclass(frozen=True, eq=False)
class Setting:
    """What a route is given: the path, the method's settings, random streams, where and how to run."""

    path: TemperedPath
    method: dict
    seed: int
    key: tuple[str, ...]
    label: str
    execution: Execution

    def run(self, folder: str, label: str) -> Execution:
        """How one of its runs executes, with a folder and a label of its own."""
        return replace(self.execution.inside(folder), progress=f"{self.label} {label}")

    @property
    def tuning(self) -> TuningSettings:
        """How the pilot tunes."""
        return TuningSettings(**(self.method.get("tuning") or {}))

    def sampler(self) -> LatentSampler:
        """The method's sampler, with what the config states of it."""
        names = ("step_size", "n_steps", "fixed_iters")
        stated = {k: self.method[k] for k in names if self.method.get(k) is not None}
        return make_sampler(self.method["sampler"], **stated)


class Plan:
    """What an annealing method amounts to: sampler, pilot, ladders."""

    def __init__(self, setting: Setting) -> None:
        self.path, self.method = setting.path, setting.method
        self.lengths = [int(t) for t in self.method["temperatures"]]
        self.pilot: Pilot | None = None
        self.pilot_seconds = 0.0
        self.sampler = setting.sampler()
        self.tuned = self.method.get("step_size") is None
        if self.tuned or self.method["ladder"] in ("adaptive", "geometric"):
            began = time.perf_counter()
            self.pilot = find_pilot(
                self.path,
                self.sampler,
                self.method.get("coordinates", "reference"),
                setting.tuning,
                seed=setting.seed,
                key=setting.key,
                state_dir=setting.execution.state_dir,
            )
            self.pilot_seconds = time.perf_counter() - began

    def schedule(self, n_temperatures: int) -> Schedule:
        """Frozen schedule for a ladder of that length."""
        betas = make_ladder(self.method["ladder"], n_temperatures, self.pilot)
        if self.tuned:
            return Schedule.from_pilot(self.pilot, self.path, betas)
        schedule = Schedule.constant(betas, self.sampler)
        if self.method.get("coordinates") == "mode":
            return schedule.with_mode_bases(self.path, betas)
        return schedule


class OneStep:
    """Importance sampling as a plan: one increment, no transition."""

    lengths = (1,)
    pilot, pilot_seconds = None, 0.0

    def __init__(self, path: TemperedPath) -> None:
        self.path, self.sampler = path, make_sampler("preconditioned_split_hmc")

    def schedule(self, n_temperatures: int) -> Schedule:
        """From the reference to the posterior at once."""
        return Schedule.constant(np.array([0.0, 1.0]), self.sampler)


def load_compiled_code(path: TemperedPath) -> None:
    """Evaluate once, so that the first run's time does not hold the loading of compiled code."""
    path.target(1.0).evaluate(np.zeros((2, path.model.dim)))
    path.target(1.0).residual_gradient(np.zeros((2, path.model.dim)))


def pilot_dataset(pilot: Pilot) -> xr.Dataset:
    """What a pilot found, (stage)."""
    fields = ("betas", "step_size", "n_steps", "acceptance_rate", "distance")
    return xr.Dataset(
        {name: ("stage", getattr(pilot, name)) for name in fields}
        | {"ratio_sd": ((), pilot.ratio_sd), "n_gradient": ((), pilot.n_gradient)},
        {"stage": np.arange(len(pilot.betas))},
    )


# The routes to the evidence a method of the study can take, each with its ladders and replicates.

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


# The evidence study of Paquet & Fraccaro (2018): annealing from the prior and from EP.

STUDY = "rmhmc_ais"


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
    what = f"{method_name} on {problem_name}"
    require_run_memory(dataset, problem, method, execution, memory_limit_gb, what)
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
