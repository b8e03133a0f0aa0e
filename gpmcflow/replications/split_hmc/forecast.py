"""Costs of the jobs of study split_hmc."""

from __future__ import annotations

from dataclasses import replace

import xarray as xr

from gpmcflow.jobs.costs import (
    Context,
    Cost,
    block_of,
    cost_of_making,
    seconds_per_transition,
    timed,
)
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.replications.split_hmc import runs as split_hmc
from gpmcflow.replications.split_hmc.illustrations import illustrate
from gpmcflow.samplers import SAMPLERS
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.problem import LatentProblem
from gpmcflow.samplers.program import ChainProgram

ANY_STEP = 1e-3  # a transition takes as long with any step size


def fit_cost(context: Context, job: PlannedJob) -> Cost:
    """Mode and Laplace fit: made once, as it is."""
    seconds, _ = _fitted(context, job.problem)
    return context.single(seconds, context.fit_bytes(job.problem))


def chains_cost(context: Context, job: PlannedJob) -> Cost:
    """Tuning, all iterations of all blocks, and the iterations that are timed afterwards."""
    dataset, problem = context.dataset(job.problem), context.config["problems"][job.problem]
    method = job.settings["method"]
    _, fitted = _fitted(context, job.problem)
    seconds, target = timed(lambda: split_hmc.target_of(dataset, fitted, problem, method))
    tuned = "step_size" in SAMPLERS[method["sampler"]].__dataclass_fields__
    tuned = tuned and method.get("step_size") is None
    stated = {**method, "step_size": ANY_STEP} if tuned and method.get("n_steps") else method
    tuning, (sampler, _) = timed(
        lambda: split_hmc.sampler_of(stated, target, 0, ("forecast",), None)
    )
    target = target.in_coordinates(sampler.coordinates(target.base))
    mode, summary = fitted["map/theta"].values[None], split_hmc.slopes_of(target.model)
    program = ChainProgram(LatentProblem(target, mode), sampler, summary=summary)
    thin = int(method["thin"])
    n_draws = max(1, int(method["draws"]) // thin)
    grid = context.grid(method["chains"], n_draws)
    transition = seconds_per_transition(program, block_of(grid))
    if tuned and stated is not method:  # three times the rounds, as at any first target
        one = seconds_per_transition(program, TuningSettings().n_particles)
        tuning = 3 * split_hmc.TUNING_ROUNDS * one
    seconds += tuning + split_hmc.TIMED_SECONDS + 10 * transition
    seconds += n_draws * thin * transition * context.turns(grid)
    on_disk, state, draws = context.on_disk(replace(program, thin=thin), grid)
    arrays = context.run_bytes(job.problem, method)
    return context.job(seconds + on_disk, arrays, state + draws)


def _fitted(context: Context, problem: str) -> tuple[float, xr.DataTree]:
    dataset, settings = context.dataset(problem), context.config["problems"][problem]
    make = lambda: timed(lambda: split_hmc.fit(dataset, settings, seed=0)[0])  # noqa: E731
    return context.once(("fit", problem), make)


COSTS = {
    "split_hmc_fit": fit_cost,
    "split_hmc_chains": chains_cost,
    "split_hmc_illustrate": cost_of_making(illustrate),
}
