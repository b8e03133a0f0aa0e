"""Annealed importance sampling of the marginal likelihood."""

from __future__ import annotations

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.importance_weights import EvidenceEstimate, estimate_evidence
from gpmcflow.errors import InputError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing_program import AnnealingProgram
from gpmcflow.evidence.evidence_group import run_attributes, transition_columns
from gpmcflow.evidence.intervals import interval_columns
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import Execution, chain_generators, pin_blas, run
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.storage import with_attributes


def anneal(
    path: TemperedPath,
    sampler: LatentSampler,
    schedule: Schedule,
    *,
    n_particles: int = 256,
    reverse_from: np.ndarray | None = None,
    store_latents: bool = False,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Annealed importance sampling along a frozen schedule, all particles of a block as one batch.

    With ``reverse_from`` (n_particles, d), draws of the posterior, the run goes back to the
    reference and its estimate is a stochastic upper bound.

    Returns groups ``annealing`` (chain, temperature: log_weight_increment and the statistics of
    each transition; a chain is a particle) and, when computed, ``evidence`` (scalars, see
    `evidence_dataset`).
    """
    pin_blas()
    how = Execution.of(execution, block_size=256, segment_length=25, progress="annealing")
    if n_particles < 2:
        raise InputError(f"annealing: n_particles is {n_particles!r}; allowed: 2, 3, 4, ...")
    if reverse_from is not None and np.shape(reverse_from) != (n_particles, path.model.dim):
        raise InputError(
            f"annealing: reverse_from has shape {np.shape(reverse_from)}; "
            f"allowed: ({n_particles}, {path.model.dim}), one posterior draw per particle"
        )
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = AnnealingProgram(path, sampler, schedule, store_latents, reverse_from)
    direction = "reverse" if program.reverse else "forward"
    arrays = run(
        program,
        n_chains=n_particles,
        length=schedule.n_temperatures,
        seed=seed,
        key=(*key, "anneal", direction),
        execution=how,
    )
    annealing = _dataset(arrays, program)
    attributes = run_attributes(path, sampler, seed, key)
    if how.in_memory:
        annealing = annealing.load(scheduler="synchronous")
    groups = {"annealing": annealing}
    if how.compute:
        groups["evidence"] = evidence_dataset(annealing, seed=seed, key=key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def evidence_dataset(
    annealing: xr.Dataset, *, seed: int = 0, key: tuple[str | int, ...] = ()
) -> xr.Dataset:
    """Scalars of an annealing run: log_evidence, its error and diagnostics, and what it cost.

    For a reverse run (attribute ``direction``) the estimate is -log mean exp(-log w). ``alarm``
    lists the reasons not to trust it, empty if there is none. ``n_gradient`` and ``n_likelihood``
    are sums over particles.
    """
    sign = -1.0 if annealing.attrs["direction"] == "reverse" else 1.0
    log_weights = sign * annealing["log_weight_increment"].sum("temperature").values
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    estimate = estimate_evidence(log_weights, rng)
    scalars = {name: getattr(estimate, name) for name in EvidenceEstimate.__dataclass_fields__}
    if sign < 0:
        for name in ("log_evidence", "mean_log_weight"):
            scalars[name] = -scalars[name]
        low, high = scalars["bootstrap_low"], scalars["bootstrap_high"]
        scalars["bootstrap_low"], scalars["bootstrap_high"] = -high, -low
    costs = transition_columns(annealing)
    scalars |= interval_columns(
        scalars["log_evidence"], estimate.standard_error, estimate.n_particles - 1
    )
    scalars |= {
        **costs,
        "n_likelihood": costs["n_gradient"] + estimate.n_particles,
        "alarm": alarms.join(
            alarms.not_finite_alarms(estimate.log_evidence),
            alarms.weight_alarms(estimate.effective_size, estimate.max_weight),
            alarms.tail_alarms(estimate.log_evidence, log_weights),
            alarms.transition_alarms(costs["diverging"], costs["unsolved"]),
            alarms.jump_alarms(*_ratio_moments(annealing), "u"),
        ),
    }
    return xr.Dataset({name: ((), value) for name, value in scalars.items()})


def _ratio_moments(annealing: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over particles of u at each temperature of a run (T,)."""
    betas = np.sort(np.append(annealing["beta"].values, 0.0))
    steps = np.diff(betas)[annealing["temperature"].values - 1]
    u = annealing["log_weight_increment"].transpose("chain", "temperature").values / steps
    return u.mean(0), u.std(0)


def _dataset(arrays: dict, program: AnnealingProgram) -> xr.Dataset:
    """Arrays of a run with their coordinates; temperatures in the order of the run."""
    schedule, order = program.schedule, program.order
    moved = (
        order - 1 if program.reverse else order
    )  # temperature of the transition after each increment
    latent = {"latent": ("chain", "temperature", "latent_dim")}
    dims = {name: latent.get(name, ("chain", "temperature")) for name in arrays}
    n_particles = arrays["log_weight_increment"].shape[0]
    coords = {
        "chain": np.arange(n_particles),
        "temperature": order,
        "beta": ("temperature", schedule.betas[order]),
        "step_size": ("temperature", schedule.step_size[moved]),
        "n_steps": ("temperature", schedule.n_steps[moved]),
    }
    if "latent" in arrays:
        coords["latent_dim"] = np.arange(program.path.model.dim)
    dataset = xr.Dataset({name: (dims[name], arrays[name]) for name in arrays}, coords)
    dataset.attrs["direction"] = "reverse" if program.reverse else "forward"
    return dataset
