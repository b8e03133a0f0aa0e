"""Costs of the jobs of study rmhmc_ais.

Data sets of many cases are fitted on a subset, which tells stages and steps; what a gradient costs
is measured at full size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from gpmcflow.approximations.conditional import State, conditional
from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    expectation_propagation,
)
from gpmcflow.approximations.laplace import tempered_mode
from gpmcflow.evidence.annealing import AnnealingProgram
from gpmcflow.evidence.parallel_tempering import TemperingProgram, batch_steps
from gpmcflow.evidence.schedule import Schedule, make_ladder
from gpmcflow.evidence.sequential_monte_carlo import AdaptiveParticles, ParticleProgram
from gpmcflow.execution import Program, chain_generators
from gpmcflow.jobs.costs import (
    Context,
    Cost,
    block_of,
    cost_of_making,
    repeated,
    seconds_by_cases,
    seconds_per_transition,
    timed,
)
from gpmcflow.jobs.problems import build_model
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais
from gpmcflow.replications.rmhmc_ais.illustration import illustrate
from gpmcflow.replications.stages import approximate
from gpmcflow.samplers import Sampler, make_sampler
from gpmcflow.samplers.adaptation.pilot import Pilot, find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.problem import LatentProblem
from gpmcflow.samplers.program import ChainProgram

PILOT_PARTICLES = 32
SEARCHES = {False: 30, True: 60}  # EP fits a search for one, or all, length scales takes, about
STEPS = 8  # gradients of the transitions that are timed


@dataclass(frozen=True)
class Start:
    """What a method starts with."""

    pilot: Pilot | None  #: with few particles on few cases; None where the method needs none
    sampler: Sampler
    path: TemperedPath  #: of the full size, in the sampler's coordinates
    seconds: float  #: to load compiled code and to run the pilot with all its particles


def approximate_cost(context: Context, job: PlannedJob) -> Cost:
    """Fits at stated hyperparameters, and the EP fits of a search where one is asked for."""
    dataset, stated = context.dataset(job.problem), _stated(context, job.problem)
    seconds = _first_call(context, job.problem)
    seconds += seconds_by_cases(lambda data: approximate(data, stated, seed=0), dataset)
    wanted, n_fits = context.config["problems"][job.problem]["hyperparameters"], 0
    if wanted.get("select") == "grid":
        n_fits = len(wanted["log_length_scale"]) * len(wanted["log_signal_sd"])
    elif wanted.get("select") == "maximum":
        n_fits = SEARCHES[bool(wanted.get("ard"))]
    if n_fits:
        seconds += n_fits * seconds_by_cases(lambda data: _ep(data, stated), dataset)
    return context.single(seconds, context.fit_bytes(job.problem))


def posterior_cost(context: Context, job: PlannedJob) -> Cost:
    """Pilot, chains from the EP fit, and predictions averaged over at most 1000 draws."""
    sampling = job.settings["sampling"]
    start = _start(context, job.problem, {"reference": "ep", **sampling})
    sampler = start.sampler
    sampler = sampler.with_steps(float(sampler.step_size), int(start.pilot.n_steps[-1]))
    program = ChainProgram(LatentProblem(Target.posterior(start.path.base)), sampler)
    n_draws = sampling["draws"] + sampling["warmup"]
    grid = context.grid(sampling["chains"], n_draws)
    each = seconds_per_transition(program, block_of(grid))
    seconds = start.seconds + n_draws * context.turns(grid) * each
    on_disk, state, draws = context.on_disk(program, grid)
    dataset, model = context.dataset(job.problem), start.path.model
    if "X_test" in dataset and model.likelihood.binary:
        few, X_test = np.zeros((20, model.dim)), dataset["X_test"].values
        once, _ = timed(lambda: conditional(State(model, few), X_test).mean_response())
        seconds += once * min(1000, sampling["chains"] * sampling["draws"]) / len(few)
    arrays = context.run_bytes(job.problem, sampling)
    return context.job(seconds + on_disk, arrays, state + draws)


def evidence_cost(context: Context, job: PlannedJob) -> Cost:
    """Pilot, then every ladder and replicate, forward and back, block after block."""
    method = job.settings["method"]
    start = _start(context, job.problem, method)
    inside = method["kind"] in ("parallel_tempering", "sequential_monte_carlo")
    cost_of = _cost_inside if inside else _cost_of_annealing
    seconds, n_bytes = cost_of(context, method, start)
    arrays = context.run_bytes(job.problem, method)
    return context.job(start.seconds + seconds, arrays, n_bytes)


def _cost_of_annealing(context: Context, method: dict, start: Start) -> tuple[float, int]:
    """Seconds and bytes of all ladders and replicates, from the seconds of a gradient."""
    path, sampler = start.path, start.sampler
    block = min(context.execution["block_size"], method["particles"])
    gradient = _seconds_per_gradient(path, sampler, block)
    seconds, rebase, n_bytes = 0.0, 0.0, 0
    n_bases = len(start.pilot.betas) if start.pilot else max(method.get("temperatures") or [1])
    if method.get("coordinates") == "mode":  # the pilot and each ladder find the modes
        mode, (sites, _) = timed(lambda: tempered_mode(path, 0.5))
        rebase, _ = timed(lambda: sampler.coordinates(sites).factor)
        seconds += n_bases * (mode + rebase) * (1 + len(method["temperatures"]))
    for name, length in rmhmc_ais.annealing_runs(method):
        grid, steps = context.grid(method["particles"], length), _steps(method, start.pilot, length)
        n_gradient = steps.sum() + length
        if name.endswith("_start"):
            n_gradient = rmhmc_ais.REVERSE_DRAWS * steps[-1]
        seconds += context.turns(grid) * (n_gradient * gradient + min(length, n_bases) * rebase)
        on_disk, state, draws = context.on_disk(_program(start, method, name, length), grid)
        seconds += on_disk
        n_bytes += state if name.startswith("reverse") else state + draws
    return seconds, n_bytes


def _program(start: Start, method: dict, name: str, length: int) -> Program:
    """A program with the outputs of a run; only forward ones keep latents."""
    if name.endswith("_start"):
        return ChainProgram(LatentProblem(Target.posterior(start.path.base)), start.sampler)
    schedule = Schedule.constant(np.linspace(0.0, 1.0, length + 1), start.sampler)
    latents = bool(method.get("store_latents")) and not name.startswith("reverse")
    return AnnealingProgram(start.path, start.sampler, schedule, latents)


def _cost_inside(context: Context, method: dict, start: Start) -> tuple[float, int]:
    """Seconds and bytes of ladders or particle systems, each a chain: one step of each is timed."""
    seconds, n_bytes = 0.0, 0
    for _, length in rmhmc_ais.annealing_runs(method):
        n_temperatures = max(method["temperatures"])
        if method["kind"] == "sequential_monte_carlo":
            n_temperatures = length = min(length, max(len(start.pilot.betas), n_temperatures))
        grid = context.grid(method["replicates"], length)
        program = _program_inside(method, start, n_temperatures)
        rng = chain_generators(0, "forecast", chains=range(block_of(grid)))
        carry, _ = program.advance(rng, program.start(rng), 0, 1)  # a first stage has no move
        step = repeated(partial(program.advance, rng, carry, 1, 2))
        on_disk, state, draws = context.on_disk(program, grid)
        seconds += context.turns(grid) * length * step + on_disk
        n_bytes += state + draws
    return seconds, n_bytes


def _program_inside(method: dict, start: Start, n_temperatures: int) -> Program:
    """Ladder and steps as the pilot of the subset has them."""
    path, sampler = start.path, start.sampler
    betas = make_ladder(method["ladder"], n_temperatures, start.pilot)
    if method.get("step_size") is not None:
        stated = sampler.with_steps(method["step_size"], method["n_steps"])
        schedule = Schedule.constant(betas, stated)
    else:
        schedule = Schedule.from_pilot(start.pilot, path, betas)
    if method["kind"] == "parallel_tempering":
        return TemperingProgram(path, sampler, schedule.betas, *batch_steps(schedule))
    adaptive = method["adaptive_particles"]
    particles = AdaptiveParticles(**adaptive).least if adaptive else method["particles"]
    moves = (method["moves"], method["waste_free"])
    return ParticleProgram(path, sampler, schedule, particles, *moves)


def map_cost(context: Context, job: PlannedJob) -> Cost:
    """One cell in the middle of the grid, times the cells."""
    grid = job.settings["grid"]
    names = ("log_length_scale", "log_signal_sd")
    cell = {name: [sorted(grid[name])[len(grid[name]) // 2]] for name in names}
    settings = context.config["problems"][job.problem]
    first = _first_call(context, job.problem)
    each = seconds_by_cases(
        lambda data: rmhmc_ais.hyperparameter_map(data, settings, cell, seed=0),
        context.dataset(job.problem),
    )
    n_cells = math.prod(len(grid[name]) for name in names)
    return context.single(first + n_cells * each, context.fit_bytes(job.problem))


def _stated(context: Context, problem: str) -> dict:
    """The problem, with typical hyperparameters in place of those that are to be found."""
    settings = context.config["problems"][problem]
    wanted = settings["hyperparameters"]
    if wanted.get("select", "stated") == "stated":
        return settings
    if wanted["select"] == "grid":
        length = float(np.median(wanted["log_length_scale"]))
        signal = float(np.median(wanted["log_signal_sd"]))
    else:
        X = context.small(problem)["X"].values[:100]
        apart = np.linalg.norm(X[:, None] - X, axis=-1)
        length, signal = float(np.log(np.median(apart[apart > 0.0]))), 1.0
    stated = {"select": "stated", "log_length_scale": length, "log_signal_sd": signal}
    return {**settings, "hyperparameters": stated}


def _built(dataset: xr.Dataset, problem: dict) -> LatentGaussianModel:
    chosen = problem["hyperparameters"]
    return build_model(dataset, problem, chosen["log_length_scale"], chosen["log_signal_sd"])


def _ep(dataset: xr.Dataset, problem: dict) -> ExpectationPropagation:
    return expectation_propagation(_built(dataset, problem))


def _first_call(context: Context, problem: str) -> float:
    """Seconds the first fit of a process takes more than the next: it loads compiled code."""
    few, stated = context.small(problem), _stated(context, problem)

    def make() -> float:
        first, again = (timed(lambda: _ep(few, stated))[0] for _ in range(2))
        return max(first - again, 0.0)

    return context.once(("first", str(stated["likelihood"])), make)


def _references(context: Context, problem: str) -> tuple[GaussianSites, GaussianSites]:
    """EP fit of the subset, and a Gaussian of the full size with sites of its strength."""

    def make() -> tuple[GaussianSites, GaussianSites]:
        few, dataset = context.small(problem), context.dataset(problem)
        stated = _stated(context, problem)
        sites = _ep(few, stated).sites
        if few.sizes == dataset.sizes:
            return sites, sites
        model = _built(dataset, stated)
        tau = np.full(model.n_cases, np.median(sites.precision))
        return sites, GaussianSites(model, tau, np.zeros(model.n_cases))

    return context.once(("references", problem), make)


def _start(context: Context, problem: str, method: dict) -> Start:
    few, full = _references(context, problem)
    if method["reference"] == "prior":
        few, full = GaussianSites.prior(few.model), GaussianSites.prior(full.model)
    sampler = make_sampler(method.get("sampler", "preconditioned_split_hmc"))
    path = TemperedPath(full)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    seconds, ladder = _first_call(context, problem), method.get("ladder")
    plain = method.get("kind") == "importance_sampling"
    if plain or (method.get("step_size") is not None and ladder in ("linear", "power")):
        return Start(None, sampler, path, seconds)
    tuning = TuningSettings(**(method.get("tuning") or {}))
    coordinates = method.get("coordinates", "reference")

    def make() -> tuple[Pilot, float]:
        n_particles = min(tuning.n_particles, PILOT_PARTICLES)
        settings = replace(tuning, n_particles=n_particles)
        key = ("forecast", problem)
        pilot = find_pilot(TemperedPath(few), sampler, coordinates, settings, seed=0, key=key)
        steps = tuning.rounds * pilot.n_steps[1:]
        per_particle = float(steps.sum() + 2 * steps[0])
        return pilot, per_particle * _seconds_per_gradient(path, sampler, tuning.n_particles)

    # methods that differ in their ladders alone share a pilot
    alike = (problem, type(sampler), method["reference"], coordinates, tuning)
    pilot, tuned = context.once(("pilot", *alike), make)
    return Start(pilot, sampler, path, seconds + tuned)


def _steps(method: dict, pilot: Pilot | None, length: int) -> np.ndarray:
    """Gradients of the transition at each temperature of a ladder."""
    if method.get("n_steps") is not None or pilot is None:
        return np.full(length, method.get("n_steps") or 0)
    betas = make_ladder(method["ladder"], length, pilot)[1:]
    return np.rint(np.interp(betas, pilot.betas, pilot.n_steps))


def _seconds_per_gradient(path: TemperedPath, sampler: Sampler, n_chains: int) -> float:
    """Seconds a batch takes for one of the gradients of a transition, its other work shared out."""
    target, tried = path.target(0.5), sampler.with_steps(float(sampler.step_size), STEPS)
    rng = chain_generators(0, "forecast", chains=range(n_chains))
    state = tried.init(target, rng.standard_normal((path.model.dim,)))
    return repeated(lambda: tried.step(rng, target, state)) / STEPS


COSTS = {
    "rmhmc_ais_approximate": approximate_cost,
    "rmhmc_ais_evidence": evidence_cost,
    "rmhmc_ais_posterior": posterior_cost,
    "rmhmc_ais_hyperparameter_map": map_cost,
    "rmhmc_ais_illustrate": cost_of_making(illustrate),
}
