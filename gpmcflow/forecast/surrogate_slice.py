"""Costs of the jobs of study surrogate_slice."""

from __future__ import annotations

import time

import numpy as np

from gpmcflow.forecast.context import Context, Cost
from gpmcflow.forecast.timing import timed
from gpmcflow.plan import PlannedJob, method_settings
from gpmcflow.samplers.joint_program import STATS, TRACED
from gpmcflow.samplers.joint_workspace import JointWorkspace
from gpmcflow.studies.surrogate_slice.illustrations import illustrate
from gpmcflow.studies.surrogate_slice.problems import (
    build_joint_model,
    representation_of,
    update_of,
)
from gpmcflow.studies.surrogate_slice.settings import run_settings
from gpmcflow.studies.surrogate_slice.study import LARGEST_DENSE, MATRICES, TIMED_SECONDS, iterate

MEASURED_SECONDS = 0.3
SEGMENT_SECONDS = 0.02  # to write and read one segment of one chain


def replicate_cost(context: Context, job: PlannedJob) -> Cost:
    """All iterations of all chains, at the pace of the first few, and the timing after them."""
    method, problem = method_settings(context.config, job), context.config["problems"][job.problem]
    n = context.dataset(job.problem).sizes["case"]
    key = ("surrogate_slice", job.problem, repr(sorted(run_settings(method).items())))
    each, dim = context.once(key, lambda: _pace(context, job.problem, method))
    thin, chains = method["thin"], method["chains"]
    draws = (method["iterations"] + method["warmup"]) // thin * chains
    row = dim + len(STATS) + n + (thin * (dim + len(TRACED)) if thin > 1 else 0)
    segments = draws * thin / (10 * context.execution["segment_length"])
    timing = TIMED_SECONDS * (2 if problem["kronecker"] and n <= LARGEST_DENSE else 1)
    seconds = draws * thin * each + segments * SEGMENT_SECONDS + max(timing, 10 * each)
    return context.single(seconds, 8 * (MATRICES * n * n + draws * row), 2 * 8 * draws * row)


def illustrate_cost(context: Context, job: PlannedJob) -> Cost:
    """The illustrations are small: they are made."""
    return context.single(timed(lambda: illustrate(seed=0))[0], 0)


def _pace(context: Context, name: str, method: dict) -> tuple[float, int]:
    """Seconds of an iteration soon after the start, and the number of coordinates of theta."""
    model = build_joint_model(context.dataset(name), name, context.config["problems"][name])
    rng, update = np.random.default_rng(0), update_of(method)
    workspace = JointWorkspace(model, representation_of(method))
    workspace.start(model.prior_median(), np.zeros(model.n_cases))
    iterate(rng, workspace, update, method["elliptical"])  # compiles, and is not counted
    iterate(rng, workspace, update, method["elliptical"])
    began, count = time.process_time(), 0
    while not count or time.process_time() - began < MEASURED_SECONDS:
        iterate(rng, workspace, update, method["elliptical"])
        count += 1
    return (time.process_time() - began) / count, model.dim
