"""The surrogate-slice study of Murray & Adams (2010): chains of one method on one problem."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import chain_generators, code_digest, pin_blas, require_memory
from gpmcflow.models.joint_model import JointModel
from gpmcflow.models.likelihoods import Poisson
from gpmcflow.samplers.hyperparameter_updates import HyperparameterUpdate
from gpmcflow.samplers.joint_sampling import sample_joint
from gpmcflow.samplers.joint_workspace import JointWorkspace
from gpmcflow.storage import standard_attributes, with_attributes
from gpmcflow.studies.surrogate_slice.problems import (
    at_key,
    build_joint_model,
    representation_of,
    update_of,
)
from gpmcflow.studies.surrogate_slice.settings import STUDY, SURROGATE_SLICE_CODE

MATRICES = 12  # (n, n) float64 arrays alive at once
SEGMENT_FACTOR = 10  # an iteration of one chain is small: segments are longer here
TIMED_SECONDS = 1.0
LEAST_TIMED, MOST_TIMED = 10, 400  # iterations
LARGEST_DENSE = 1000  # cases
TAIL = 0.05  # of the intensity's interval, on each side


def replicate_chains(
    dataset: xr.Dataset,
    problem_name: str,
    problem: Mapping,
    method_name: str,
    method: Mapping,
    replicate: int,
    *,
    seed: int,
    execution: Mapping,
    state_dir: Any = None,
    memory_limit: int | None = None,
) -> tuple[xr.DataTree, dict]:
    """Chains of one method on one problem, with random streams keyed by (problem, method, replicate).

    Returns the tree of `sample_joint`; ``observed_data`` has the events of a point pattern (event,
    feature), and for counts group ``intensity`` (case: mean, lower, upper of exp(f + c), 5 % and 95 %). The
    sidecar has CPU seconds: of an iteration, one core and one BLAS thread, at states the chains were in
    after burn-in, of all iterations kept, and of an iteration with a dense covariance where the model has
    a Kronecker one, as the paper had none. Raises `InputError` with the path of the config's key.
    """
    pin_blas()
    n, what = dataset.sizes["case"], f"{problem_name}: {method_name}"
    require_memory(8 * MATRICES * n * n, memory_limit, what)
    model = build_joint_model(dataset, problem_name, problem)
    thin = int(method["thin"])
    try:
        tree = sample_joint(
            model,
            representation_of(method),
            update_of(method),
            n_elliptical=method["elliptical"],
            n_chains=method["chains"],
            n_draws=method["iterations"] // thin,
            n_warmup=method["warmup"] // thin,
            thin=thin,
            start_theta=problem["start"],
            seed=seed,
            key=(STUDY, problem_name, method_name, replicate),
            segment_length=max(1, SEGMENT_FACTOR * int(execution["segment_length"]) // thin),
            state_dir=state_dir,
            progress=what,
        ).load()
    except (InputError, NumericalError) as error:
        raise type(error)(_place(problem_name, method_name, error)) from None
    each = seconds_per_iteration(model, method, tree)
    dense = None
    if model.kronecker and n <= LARGEST_DENSE:
        dense = seconds_per_iteration(replace(model, kronecker=False), method, tree)
    sampled = json.loads(tree.attrs["settings"])
    attributes = standard_attributes(
        settings={
            "problem": dict(problem),
            "method": dict(method),
            "replicate": int(replicate),
            "sampler": sampled,
        },
        seed=seed,
        data_checksum=dataset.attrs["checksum"],
        study=STUDY,
        problem=problem_name,
        method=method_name,
        dataset=dataset.attrs["name"],
    )
    seconds = {"iteration": each, "total": each * method["iterations"] * method["chains"]}
    seconds |= {"dense_iteration": dense}
    facts = {"seconds": seconds, "code": code_digest(*SURROGATE_SLICE_CODE)}
    groups = xr.DataTree.from_dict(_groups(dataset, model, tree))
    return with_attributes(groups, attributes), facts


def _groups(dataset: xr.Dataset, model: JointModel, tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Groups of a results file: those of the chains, names of features, events and intensity."""
    groups = {name: node.to_dataset().drop_attrs() for name, node in tree.children.items()}
    feature = dataset["feature"]
    groups["constant_data"] = groups["constant_data"].assign_coords(feature=feature)
    names = [f"event_{name}" for name in feature.values]
    if all(name in dataset.coords for name in names):
        events = np.stack([dataset[name].values for name in names], axis=-1)
        found = groups["observed_data"].assign(events=(("event", "feature"), events))
        groups["observed_data"] = found.assign_coords(feature=feature)
    if isinstance(model.likelihood, Poisson):
        groups["intensity"] = intensity(model, tree)
    return groups


def seconds_per_iteration(model: JointModel, method: Mapping, tree: xr.DataTree) -> float:
    """CPU seconds of one iteration of one chain, the mean over states that are spread over the draws.

    The iterations are made again for this, from kept draws of theta and f; their random numbers are
    others, and their results are dropped.
    """
    posterior = tree["posterior"].to_dataset()
    theta = posterior["theta"].values.reshape(-1, model.dim)
    latents = posterior["latent"].values.reshape(-1, model.n_cases)
    update, workspace = update_of(method), JointWorkspace(model, representation_of(method))
    rng = chain_generators(0, "timing", chains=[0]).generator(0)

    def mean_of(count: int) -> float:
        total = 0.0
        states = np.linspace(0, len(theta) - 1, count).astype(int)
        for k in states:
            workspace.start(theta[k], latents[k])
            began = time.process_time()
            iterate(rng, workspace, update, method["elliptical"])
            total += time.process_time() - began
        return total / count

    few = mean_of(LEAST_TIMED)
    wanted = min(int(TIMED_SECONDS / max(few, 1e-9)), MOST_TIMED)
    return mean_of(wanted) if wanted > LEAST_TIMED else few


def iterate(
    rng: np.random.Generator,
    workspace: JointWorkspace,
    update: HyperparameterUpdate,
    n_elliptical: int,
) -> None:
    """One iteration with all that a chain does in it: sweep, elliptical updates, the recorded density."""
    update.sweep(rng, workspace)
    workspace.update_latents(rng, n_elliptical)
    workspace.complete_log_likelihood()


def intensity(model: JointModel, tree: xr.DataTree) -> xr.Dataset:
    """Posterior of the expected counts exp(f + c) of each case: mean, and 5 % and 95 % quantiles."""
    posterior = tree["posterior"].to_dataset()
    if "offset" in model.names:
        offset = posterior["theta"].sel({"theta_dim": "offset"}).values[..., None]
    else:
        offset = model.priors[-1]
    rates = np.exp(posterior["latent"].values + offset).reshape(-1, model.n_cases)
    rates *= model.likelihood.exposure
    lower, upper = np.quantile(rates, [TAIL, 1.0 - TAIL], axis=0)
    found = {"mean": rates.mean(0), "lower": lower, "upper": upper}
    return xr.Dataset(
        {name: ("case", values) for name, values in found.items()},
        {"case": np.arange(model.n_cases)},
    )


def _place(problem: str, method: str, error: Exception) -> str:
    """Message of what a sampler refuses, with the path of the key in the config."""
    text, path = str(error).removeprefix("sample_joint: "), f"config: problems.{problem}"
    if text.startswith("start_theta "):
        return f"{path}.start: {text.removeprefix('start_theta ')}"
    if text.startswith("no coordinate"):
        return f"{path}: {text}"
    if text.startswith("joint model: "):
        return at_key(path, error)
    return f"config: studies.{STUDY}.problems.{problem}.{method}: {text}"
