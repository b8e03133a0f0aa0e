"""Costs of the jobs of study surrogate_slice."""

from __future__ import annotations

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.jobs.costs import Context, Cost, cost_of_making, repeated
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.replications.surrogate_slice.illustrations import illustrate
from gpmcflow.replications.surrogate_slice.problems import build_joint_model, sampler_of
from gpmcflow.replications.surrogate_slice.runs import (
    LARGEST_DENSE,
    TIMED_SECONDS,
    iterate,
    numbers_held,
    where_in_config,
)
from gpmcflow.replications.surrogate_slice.settings import JOINT
from gpmcflow.samplers.adaptation.joint_mode import plain_sites
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC

SEGMENT_SECONDS = 0.02  # to write and read one segment of one chain
NUMBERS = 8  # kept of a draw beside theta and latents
GUESSED_STEPS = 12  # of joint split HMC, whose pilot chooses them


def replicate_cost(context: Context, job: PlannedJob) -> Cost:
    """All iterations of all chains, at the pace of the first few, and the timing after them."""
    method, problem = job.settings["method"], job.settings["problem"]
    n = context.dataset(job.problem).sizes["case"]
    key = ("surrogate_slice", job.problem, repr(sorted(method.items())))
    iteration, model = context.once(key, lambda: _pace(context, job.problem, method))
    thin, chains = method["thin"], method["chains"]
    draws = (method["iterations"] + method["warmup"]) // thin * chains
    row = NUMBERS + model.dim + n + (thin * (NUMBERS + model.dim) if thin > 1 else 0)
    segments = draws * thin / (10 * context.execution["segment_length"])
    joint = method["representation"] == JOINT
    twice = problem["structure"] == "kronecker" and not joint and n <= LARGEST_DENSE
    timing = TIMED_SECONDS * (2 if twice else 1)
    pilots = JointSplitHMC().transitions_before_draws(model, chains) if joint else 0
    seconds = (
        (draws * thin + pilots) * iteration
        + segments * SEGMENT_SECONDS
        + max(timing, 10 * iteration)
    )
    return context.single(
        seconds, 8 * (numbers_held(model, joint) + draws * row), 2 * 8 * draws * row
    )


def _pace(context: Context, name: str, method: dict) -> tuple[float, GPModel]:
    """Seconds of an iteration soon after the start, and the model."""
    model = build_joint_model(context.dataset(name), name, context.config["problems"][name])
    if method["representation"] == JOINT:
        return GUESSED_STEPS * _gradient_seconds(model, name), model
    rng, workspace = np.random.default_rng(0), sampler_of(method).bind(model)
    state = workspace.init(rng, {"theta": model.prior_median()})
    return repeated(lambda: iterate(rng, workspace, state)), model


def _gradient_seconds(model: GPModel, problem: str) -> float:
    """Seconds of a gradient of the joint density."""
    try:
        density = density_of(model, plain_sites(model))
    except InputError as error:
        raise InputError(where_in_config(problem, JOINT, error)) from None
    x, z = np.zeros(model.dim), np.zeros(density.n_z)
    return repeated(lambda: density.evaluate(x, z))


COSTS = {
    "surrogate_slice_replicate": replicate_cost,
    "surrogate_slice_illustrate": cost_of_making(illustrate),
}
