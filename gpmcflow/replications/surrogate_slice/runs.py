"""Runs of the surrogate-slice paper, and the seconds of a transition."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, chain_generators, code_digest, pin_blas, require_memory
from gpmcflow.jobs.costs import Step, seconds_per_step
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import limit_bytes
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.replications.surrogate_slice.problems import (
    at_key,
    build_joint_model,
    published_names,
    sampler_of,
    start_of,
)
from gpmcflow.replications.surrogate_slice.settings import JOINT, STUDY
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.joint.split_hmc import SETTLING, JointSplitHMC
from gpmcflow.samplers.joint.workspace import JointState, JointWorkspace
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import standard_attributes, with_attributes

# CPU seconds of one iteration of a method, and of a pilot: one core, one BLAS thread.

TIMED_SECONDS = 1.0


def seconds_per_iteration(model: GPModel, method: Mapping, tree: xr.DataTree) -> float:
    """CPU seconds of one iteration of one chain, the mean over states that are spread over the draws.

    The iterations are made again for this, from kept draws of theta and f; their random numbers are
    others, and their results are dropped.
    """
    posterior = tree["posterior"].to_dataset()
    theta = posterior["theta"].values.reshape(-1, model.dim)
    latents = posterior["latent"].values.reshape(-1, model.n_cases)
    joint = method["representation"] == JOINT
    steps_from = _split_steps(model, tree) if joint else _slice_steps(model, method)

    def step_at(share: float) -> Step:
        k = int(share * len(theta))
        return steps_from(theta[k], latents[k])

    return seconds_per_step(step_at, TIMED_SECONDS)


def seconds_of_pilots(tree: xr.DataTree, iteration: float) -> list[float]:
    """CPU seconds of each chain's share of the pilot, by its gradients at the pace of the chains' own."""
    pilot, n_chains = tree["pilot"].to_dataset(), tree["posterior"].sizes["chain"]
    steps = int(pilot["n_steps"][-1])
    spent = float(pilot["n_gradient"].sum()) / n_chains + SETTLING * steps
    return [spent * iteration / steps] * n_chains


def _slice_steps(model: GPModel, method: Mapping) -> Callable[..., Step]:
    workspace, rng = sampler_of(method).bind(model), _generator()

    def steps_from(theta: np.ndarray, latents: np.ndarray) -> Step:
        state = workspace.init(rng, {"theta": theta, "latent": latents})
        return lambda: iterate(rng, workspace, state)

    return steps_from


def iterate(rng: np.random.Generator, workspace: JointWorkspace, state: JointState) -> JointState:
    """One iteration with all that a chain does in it: sweep, elliptical updates, the recorded density."""
    state, _ = workspace.step(rng, state)
    workspace.complete_log_likelihood()
    return state


def _split_steps(model: GPModel, tree: xr.DataTree) -> Callable[..., Step]:
    """Trajectories of joint split HMC with what the pilot froze."""
    pilot = tree["pilot"].to_dataset()
    jitter, rng = JointSplitHMC().jitter, _generator()
    sites = FrozenSites(*(pilot[name].values for name in FrozenSites._fields))
    density = density_of(model, sites)
    target = SplitTarget(density, Frame(pilot["center"].values, pilot["scale"].values, sites))
    step, n_steps = float(pilot["step_size"][-1]), int(pilot["n_steps"][-1])

    def steps_from(theta: np.ndarray, latents: np.ndarray) -> Step:
        state = target.start(rng, model.parameters.to_normal(theta), latents)

        def iterate_once() -> None:
            after, _ = transition(rng, target, state, step, n_steps, jitter)
            if not density.n_z:  # latents that are integrated out are drawn for what is kept
                density.draw_latents(rng, after.theta)

        return iterate_once

    return steps_from


def _generator() -> np.random.Generator:
    return chain_generators(0, "timing", chains=[0]).generator(0)


# The surrogate-slice study of Murray & Adams (2010): chains of one method on one problem.

SEGMENT_FACTOR = 10  # an iteration of one chain is small: segments are longer here
LARGEST_DENSE = 1000  # cases
TAIL = 0.05  # of the intensity's interval, on each side


def replicate_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`replicate_chains` for the data and the method of a job."""
    dataset, replicate = job.dataset(), int(job.wildcards.replicate)
    names = {key: job.names[key] for key in ("problem_name", "method_name")}
    return replicate_chains(
        dataset, replicate, **job.settings, **names, **job.run_settings(dataset)
    )


def replicate_chains(
    dataset: xr.Dataset,
    replicate: int,
    problem: Mapping,
    method: Mapping,
    *,
    problem_name: str,
    method_name: str,
    seed: int,
    execution: Mapping,
    state_dir: Any = None,
    memory_limit_gb: float | None = None,
) -> tuple[xr.DataTree, dict]:
    """Chains of one method on one problem, with random streams keyed by (problem, method, replicate).

    Returns the tree of `sample`; ``observed_data`` has the events of a point pattern (event,
    feature), and for counts group ``intensity`` (case: mean, lower, upper of exp(f + c), 5 % and 95 %). The
    sidecar has CPU seconds: of an iteration, one core and one BLAS thread, at states the chains were in
    after burn-in, of all iterations kept, of an iteration with a dense covariance where a method uses the
    model's Kronecker one, as the paper had none, and of the pilots of joint split HMC.

    Raises `InputError` with the path of the config's key.
    """
    pin_blas()
    n, what = dataset.sizes["case"], f"{problem_name}: {method_name}"
    model = build_joint_model(dataset, problem_name, problem)
    thin, joint = int(method["thin"]), method["representation"] == JOINT
    require_memory(8 * numbers_held(model, joint), limit_bytes(memory_limit_gb), what)
    start = start_of(model, problem_name, problem)
    try:
        tree = sample(
            model,
            JointSplitHMC() if joint else sampler_of(method),
            n_chains=method["chains"],
            n_draws=method["iterations"] // thin,
            n_warmup=method["warmup"] // thin,
            thin=thin,
            start=start,
            predictive=False,
            seed=seed,
            key=(STUDY, problem_name, method_name, replicate),
            execution=Execution(
                segment_length=max(1, SEGMENT_FACTOR * int(execution["segment_length"]) // thin),
                state_dir=state_dir,
                progress=what,
            ),
        ).load()
    except (InputError, NumericalError) as error:
        raise type(error)(where_in_config(problem_name, method_name, error)) from None
    per_iteration = seconds_per_iteration(model, method, tree)
    dense = None
    if model.kronecker and not joint and n <= LARGEST_DENSE:
        dense = seconds_per_iteration(model.with_structure("dense"), method, tree)
    settings = {"problem": dict(problem), "method": dict(method), "replicate": int(replicate)}
    settings["sampler"] = json.loads(tree.attrs["settings"])
    attributes = standard_attributes(
        settings=settings,
        seed=seed,
        data_checksum=dataset.attrs["checksum"],
        study=STUDY,
        problem=problem_name,
        method=method_name,
        dataset=dataset.attrs["name"],
    )
    seconds = {
        "iteration": per_iteration,
        "total": per_iteration * method["iterations"] * method["chains"],
        "dense_iteration": dense,
        "pilot": seconds_of_pilots(tree, per_iteration) if joint else None,
    }
    facts = {"seconds": seconds, "code": code_digest(__name__)}
    groups = xr.DataTree.from_dict(_groups(dataset, model, tree))
    return with_attributes(groups, attributes), facts


def numbers_held(model: GPModel, joint: bool) -> int:
    """Most numbers that a job holds at a time, beside its draws: also those of the dense timing of a grid."""
    dense = model.kronecker and not joint and model.n_cases <= LARGEST_DENSE
    return model.numbers_held + (10 * model.n_cases**2 if dense else 0)


def _groups(dataset: xr.Dataset, model: GPModel, tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Groups of a results file: those of the chains, names of features, events and intensity."""
    groups = {name: node.to_dataset().drop_attrs() for name, node in tree.children.items()}
    names = published_names(model.names)
    for name, group in groups.items():
        if "theta_dim" in group.coords:
            groups[name] = group.assign_coords(theta_dim=names)
    feature = dataset["feature"]
    groups["constant_data"] = groups["constant_data"].assign_coords(feature=feature)
    names = [f"event_{name}" for name in feature.values]
    if all(name in dataset.coords for name in names):
        events = np.stack([dataset[name].values for name in names], axis=-1)
        observed = groups["observed_data"].assign(events=(("event", "feature"), events))
        groups["observed_data"] = observed.assign_coords(feature=feature)
    if model.likelihood.counts:
        groups["intensity"] = intensity(model, tree)
    return groups


def intensity(model: GPModel, tree: xr.DataTree) -> xr.Dataset:
    """Posterior of the expected counts exp(f + c) of each case: mean, and 5 % and 95 % quantiles."""
    posterior = tree["posterior"].to_dataset()
    offset = model.mean_at(model.full(model.prior_median()))
    if "mean" in model.names:
        offset = posterior["mean"].values[..., None]
    rates = np.exp(posterior["latent"].values + offset).reshape(-1, model.n_cases)
    rates *= model.likelihood.exposure
    lower, upper = np.quantile(rates, [TAIL, 1.0 - TAIL], axis=0)
    bounds = {"mean": rates.mean(0), "lower": lower, "upper": upper}
    return xr.Dataset(
        {name: ("case", values) for name, values in bounds.items()},
        {"case": np.arange(model.n_cases)},
    )


def where_in_config(problem: str, method: str, error: Exception) -> str:
    """Message of what a sampler refuses, with the path of the key in the config."""
    text, path = str(error).removeprefix("sample: "), f"config: problems.{problem}"
    if "is a sampler of hyperparameters and latents, found" in text:
        return f"{path}: no parameter has a hyperprior; give one, or use model: gp"
    if text.startswith("model: "):
        return at_key(path, error)
    return f"config: studies.{STUDY}.problems.{problem}.{method}: {text}"
