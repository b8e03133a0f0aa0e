"""Sequential Monte Carlo (resample-move) estimates of the marginal likelihood."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.diagnostics.importance_weights import bootstrap_interval, effective_size
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.evidence_group import run_attributes, transition_columns
from gpmcflow.evidence.intervals import interval_columns
from gpmcflow.evidence.particle_program import AdaptiveParticles, ParticleProgram
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import Execution, chain_generators, pin_blas, run
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.storage import with_attributes

MIN_REPLICATES = 8  # from whose spread a standard error is taken


def resample_move(
    path: TemperedPath,
    sampler: LatentSampler,
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
    execution: Execution | None = None,
) -> xr.DataTree:
    """Sequential Monte Carlo along a schedule; a chain is one independent replicate.

    See `ParticleProgram` for what a stage does. With ``n_particles`` a number and no
    ``effective_fraction`` the estimate of Z is unbiased; with `AdaptiveParticles` or an online ladder
    (at most ``max_stages``) it has a bias O(1 / M). ``waste_free`` keeps all states of the moves:
    ``n_particles`` is then a multiple of n_moves + 1.

    Returns groups ``sequential_monte_carlo`` (chain, stage: beta, next_beta, log_increment, effective_size,
    max_weight, relative_variance v_t, n_particles M_t, mean and sd of u before the increment, and the
    mean statistics of the moves before it; nan after a replicate's last stage) and, when computed,
    ``evidence`` (see `particle_evidence`).

    Sources: Del Moral, Doucet & Jasra (2006), JRSS B 68, 411; Fraccaro, Paquet & Winther (2016),
    Adaptive Resample-Move; Dau & Chopin (2022), JRSS B 84, 114 (waste-free).
    """
    pin_blas()
    how = Execution.of(
        execution, block_size=1, segment_length=25, progress="sequential Monte Carlo"
    )
    _require(schedule, n_particles, n_moves, waste_free, effective_fraction)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = ParticleProgram(
        path, sampler, schedule, n_particles, n_moves, waste_free, effective_fraction
    )
    arrays = run(
        program,
        n_chains=n_replicates,
        length=schedule.n_temperatures if effective_fraction is None else max_stages,
        seed=seed,
        key=(*key, "resample_move"),
        execution=how,
    )
    stages = xr.Dataset(
        {name: (("chain", "stage"), array) for name, array in arrays.items()},
        {"chain": np.arange(n_replicates), "stage": np.arange(arrays["beta"].shape[1])},
    )
    fixed = effective_fraction is None and not isinstance(n_particles, AdaptiveParticles)
    stages.attrs["unbiased"] = int(fixed)
    groups = {"sequential_monte_carlo": stages}
    if how.compute:
        groups["sequential_monte_carlo"] = stages = _until_the_end(
            stages.load(scheduler="synchronous")
        )
        groups["evidence"] = particle_evidence(stages, seed=seed, key=key)
    attributes = run_attributes(path, sampler, seed, key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def particle_evidence(
    stages: xr.Dataset, *, seed: int = 0, key: tuple[str | int, ...] = ()
) -> xr.Dataset:
    """Evidence of sequential Monte Carlo replicates, its error, costs and diagnostics.

    ``log_evidence`` is the log of the mean of the replicates' Z-hat, ``chain_log_evidence`` (chain)
    of each. ``replicate_error`` is the delta method's sqrt((R / ESS - 1) / (R - 1)) with the
    replicates as weights; ``formula_error`` the root of mean_r sum_t (v_t / M_t) / R, which is
    optimistic, as it takes the particles of all stages for independent. ``standard_error`` is the
    first where there are 8 replicates or more, else the larger of the two; the 95 % interval is Student's t
    with R - 1 degrees of freedom, and beside it that of a bootstrap of the replicates (too narrow for fewer
    than 20 of them), keyed by ``seed`` and ``key``. ``effective_size`` is the smallest of any stage.
    ``unbiased`` says whether E[Z-hat] = Z.
    """
    log_weights = stages["log_increment"].sum("stage").values
    n = len(log_weights)
    log_evidence = float(logsumexp(log_weights) - np.log(n))
    spread = np.nan if n < 2 else np.sqrt(max(n / effective_size(log_weights) - 1.0, 0.0) / (n - 1))
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
    error = float(spread if n >= MIN_REPLICATES else np.fmax(spread, formula))
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    low, high = bootstrap_interval(log_weights, rng)
    scalars = {
        "log_evidence": log_evidence,
        "standard_error": error,
        **interval_columns(log_evidence, error, n - 1 if n > 1 else np.inf),
        "bootstrap_low": low,
        "bootstrap_high": high,
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
    variables = {name: ((), value) for name, value in scalars.items()}
    return xr.Dataset(
        variables | {"chain_log_evidence": ("chain", log_weights)},
        {"chain": stages["chain"].values},
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
    adaptive = isinstance(n_particles, AdaptiveParticles)
    few, unit = not adaptive and n_particles < 2, n_moves + 1
    uneven = waste_free and not adaptive and (n_particles % unit or n_particles < 2 * unit)
    for wrong, message in (
        (schedule.bases is not None,
         "the schedule has coordinates of each temperature's mode; allowed: those of the reference"),
        (n_moves < 1, f"n_moves is {n_moves!r}; allowed: 1, 2, 3, ..."),
        (effective_fraction is not None and not 0.0 < effective_fraction < 1.0,
         f"effective_fraction is {effective_fraction!r}; allowed: between 0 and 1"),
        (waste_free and adaptive, "waste_free needs a fixed n_particles; give a number"),
        (few, f"n_particles is {n_particles!r}; allowed: 2, 3, 4, ..."),
        (uneven, f"n_particles is {n_particles} with waste_free and n_moves {n_moves}; allowed: "
         f"{2 * unit}, {3 * unit}, ..."),
    ):  # fmt: skip
        if wrong:
            raise InputError(f"sequential Monte Carlo: {message}")
