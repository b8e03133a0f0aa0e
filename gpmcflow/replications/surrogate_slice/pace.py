"""CPU seconds of one iteration of a method, and of a pilot: one core, one BLAS thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from gpmcflow.execution import chain_generators
from gpmcflow.jobs.pace import Step, seconds_per_step
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.replications.surrogate_slice.problems import sampler_of
from gpmcflow.replications.surrogate_slice.settings import JOINT
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.joint.split_hmc import SETTLING, JointSplitHMC
from gpmcflow.samplers.joint.workspace import JointState, JointWorkspace

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
