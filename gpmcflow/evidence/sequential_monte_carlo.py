"""Sequential Monte Carlo (resample-move) estimates of the marginal likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.diagnostics.importance_weights import effective_size
from gpmcflow.errors import InputError, NumericalError, unknown_name
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing import LADDERS, make_ladder
from gpmcflow.evidence.evidence_group import run_attributes, transition_columns
from gpmcflow.evidence.particle_program import AdaptiveParticles, ParticleProgram
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import pin_blas, run
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import Sampler, make_sampler
from gpmcflow.samplers.pilot import find_pilot
from gpmcflow.samplers.tuning import TuningSettings
from gpmcflow.storage import with_attributes

ONLINE = "bisection"
MIN_REPLICATES = 8  # from whose spread a standard error is taken


def sequential_monte_carlo(
    reference: GaussianSites | LatentGaussianModel,
    sampler: str | Sampler = "preconditioned_split_hmc",
    *,
    ladder: str = "adaptive",
    n_temperatures: int = 20,
    effective_fraction: float = 0.9,
    tuning: TuningSettings | None = None,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    **execution: Any,
) -> xr.DataTree:
    """Pilot, then `resample_move` from the reference to the posterior.

    ``ladder``: adaptive, geometric, linear or power have ``n_temperatures`` fixed before the run
    (adaptive: by the pilot), which makes the estimate of Z unbiased. "bisection" lets each replicate
    choose its own, so that the conditional effective size of a step is ``effective_fraction`` of its
    particles: consistent, with a bias O(1 / M). Step sizes come from the pilot in both cases; its
    cost is ``n_gradient_pilot``. Other arguments as in `resample_move`.
    """
    if ladder not in (*LADDERS, ONLINE):
        raise unknown_name("sequential Monte Carlo: ladder", ladder, (*LADDERS, ONLINE))
    if isinstance(sampler, str):
        sampler = make_sampler(sampler)
    path = TemperedPath(as_sites(reference))
    kept = execution.get("state_dir")
    pilot = find_pilot(path, sampler, tuning=tuning, seed=seed, key=key, state_dir=kept)
    online = ladder == ONLINE
    betas = pilot.betas if online else make_ladder(ladder, n_temperatures, pilot)
    tree = resample_move(
        path,
        sampler,
        Schedule.from_pilot(pilot, path, betas),
        effective_fraction=effective_fraction if online else None,
        seed=seed,
        key=key,
        **execution,
    )
    if "evidence" in tree.children:
        tree["evidence/n_gradient_pilot"] = float(pilot.n_gradient)
    return tree


def resample_move(
    path: TemperedPath,
    sampler: Sampler,
    schedule: Schedule,
    *,
    n_particles: int | AdaptiveParticles = 256,
    n_moves: int = 1,
    waste_free: bool = False,
    effective_fraction: float | None = None,
    max_stages: int = 400,
    n_replicates: int = 8,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    block_size: int = 1,
    segment_length: int = 25,
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: Any = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
) -> xr.DataTree:
    """Sequential Monte Carlo along a schedule; a chain is one independent replicate.

    See `ParticleProgram` for what a stage does. With ``n_particles`` a number and no
    ``effective_fraction`` the estimate of Z is unbiased; with `AdaptiveParticles` or an online ladder
    (at most ``max_stages``) it has a bias O(1 / M). ``waste_free`` keeps all states of the moves:
    ``n_particles`` is then a multiple of n_moves + 1. For execution see `gpmcflow.execution.run`; with
    ``compute=False`` the arrays are lazy.

    Returns groups ``sequential_monte_carlo`` (chain, stage: beta, next_beta, log_increment, effective_size,
    max_weight, relative_variance v_t, n_particles M_t, mean and sd of u before the increment, and the
    mean statistics of the moves before it; nan after a replicate's last stage) and, when computed,
    ``evidence`` (see `particle_evidence`).

    Sources: Del Moral, Doucet & Jasra (2006), JRSS B 68, 411; Fraccaro, Paquet & Winther (2016),
    Adaptive Resample-Move; Dau & Chopin (2022), JRSS B 84, 114 (waste-free).
    """
    pin_blas()
    _require(schedule, n_particles, n_moves, waste_free, effective_fraction)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = ParticleProgram(
        path, sampler, schedule, n_particles, n_moves, waste_free, effective_fraction
    )
    arrays = run(
        program,
        n_chains=n_replicates,
        length=schedule.n_temperatures if effective_fraction is None else max_stages,
        block_size=block_size,
        segment_length=segment_length,
        seed=seed,
        key=(*key, "resample_move"),
        scheduler=scheduler,
        n_workers=n_workers,
        state_dir=state_dir,
        settings=settings,
        compute=compute,
        progress=progress,
    )
    stages = xr.Dataset(
        {name: (("chain", "stage"), array) for name, array in arrays.items()},
        {"chain": np.arange(n_replicates), "stage": np.arange(arrays["beta"].shape[1])},
    )
    fixed = effective_fraction is None and not isinstance(n_particles, AdaptiveParticles)
    stages.attrs["unbiased"] = int(fixed)
    groups = {"sequential_monte_carlo": stages}
    if compute:
        groups["sequential_monte_carlo"] = stages = _until_the_end(
            stages.load(scheduler="synchronous")
        )
        groups["evidence"] = particle_evidence(stages)
    attributes = run_attributes(path, sampler, seed, key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def particle_evidence(stages: xr.Dataset) -> xr.Dataset:
    """Evidence of sequential Monte Carlo replicates, its error, costs and diagnostics.

    ``log_evidence`` is the log of the mean of the replicates' Z-hat, ``chain_log_evidence`` (chain)
    of each. ``replicate_error`` is the delta method's sqrt((R / ESS - 1) / (R - 1)) with the
    replicates as weights; ``formula_error`` the root of mean_r sum_t (v_t / M_t) / R, which is
    optimistic, as it takes the particles of all stages for independent. ``standard_error`` is the
    first where there are 8 replicates or more, else the larger of the two. ``effective_size`` is the smallest
    of any stage. ``unbiased`` says whether E[Z-hat] = Z.
    """
    each = stages["log_increment"].sum("stage").values
    n = len(each)
    log_evidence = float(logsumexp(each) - np.log(n))
    spread = np.nan if n < 2 else np.sqrt(max(n / effective_size(each) - 1.0, 0.0) / (n - 1))
    variance = (stages["relative_variance"] / stages["n_particles"]).sum("stage")
    formula = float(np.sqrt(variance.mean() / n))
    sizes, largest = stages["effective_size"], stages["max_weight"]
    costs = transition_columns(stages, np.nan_to_num(stages["n_transitions"].values))
    jumps = [
        message
        for mean, sd in zip(
            stages["log_ratio_mean"].values, stages["log_ratio_sd"].values, strict=True
        )
        for message in alarms.jump_alarms(mean, sd, "u")
    ]
    scalars = {
        "log_evidence": log_evidence,
        "standard_error": float(spread if n >= MIN_REPLICATES else np.fmax(spread, formula)),
        "replicate_error": float(spread),
        "formula_error": formula,
        "effective_size": float(sizes.min()),
        "max_weight": float(largest.max()),
        "n_particles": float(stages["n_particles"].mean()),
        "unbiased": np.int8(stages.attrs["unbiased"]),
        **costs,
        "n_likelihood": costs["n_gradient"],
        "alarm": alarms.join(
            alarms.not_finite_alarms(log_evidence),
            alarms.weight_alarms(float(sizes.min()), float(largest.max())),
            alarms.transition_alarms(costs["diverging"], costs["unsolved"]),
            jumps[:1],
            alarms.spread_alarms(float(spread), formula, n),
        ),
    }
    found = {name: ((), value) for name, value in scalars.items()}
    return xr.Dataset(
        found | {"chain_log_evidence": ("chain", each)}, {"chain": stages["chain"].values}
    )


def _until_the_end(stages: xr.Dataset) -> xr.Dataset:
    """Without the stages that no replicate needed; `NumericalError` if one had too few."""
    reached = stages["next_beta"].max("stage").values
    if reached.min() < 1.0:
        raise NumericalError(
            f"sequential Monte Carlo: inverse temperature is only {reached.min():.2e} after "
            f"{stages.sizes['stage']} stages; allow more (max_stages), or start from an EP or "
            "Laplace reference"
        )
    return stages.isel(stage=slice(0, int(stages["beta"].notnull().sum("stage").max())))


def _require(schedule, n_particles, n_moves, waste_free, effective_fraction) -> None:
    where = "sequential Monte Carlo"
    if schedule.bases is not None:
        raise InputError(
            f"{where}: the schedule has coordinates of each temperature's mode; allowed: those of "
            "the reference"
        )
    if n_moves < 1:
        raise InputError(f"{where}: n_moves is {n_moves!r}; allowed: 1, 2, 3, ...")
    if effective_fraction is not None and not 0.0 < effective_fraction < 1.0:
        raise InputError(
            f"{where}: effective_fraction is {effective_fraction!r}; allowed: between 0 and 1"
        )
    adaptive = isinstance(n_particles, AdaptiveParticles)
    if waste_free and adaptive:
        raise InputError(f"{where}: waste_free needs a fixed n_particles; give a number")
    if not adaptive and n_particles < 2:
        raise InputError(f"{where}: n_particles is {n_particles!r}; allowed: 2, 3, 4, ...")
    if waste_free and (n_particles % (n_moves + 1) or n_particles < 2 * (n_moves + 1)):
        raise InputError(
            f"{where}: n_particles is {n_particles} with waste_free and n_moves {n_moves}; allowed: "
            f"{2 * (n_moves + 1)}, {3 * (n_moves + 1)}, ..."
        )
