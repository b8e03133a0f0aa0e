"""A short run that finds step sizes, numbers of steps and a ladder; its result is then frozen."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from gpmcflow.approximations.laplace import tempered_mode
from gpmcflow.diagnostics.importance_weights import (
    conditional_effective_size,
    normalised_weights,
    systematic_resample,
)
from gpmcflow.errors import NumericalError, unknown_name
from gpmcflow.execution import Progress, chain_generators, pin_blas, remember
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.adaptation.step_sizes import StepSizeTuner, TuningSettings
from gpmcflow.samplers.latent.protocol import LatentSampler, State

MAX_STAGES = 400
STAGE_EFFECTIVE_SIZE = 0.7


@dataclass(frozen=True, eq=False)
class Pilot:
    """What a pilot found, one entry per stage; stage 0 is beta = 0.

    Attributes
    ----------
    betas, step_size, n_steps, acceptance_rate:
        The stages, the tuned settings, and the acceptance rate in their last rounds.
    distance:
        Cumulative sqrt(-log CESS): equal steps in it keep equal conditional effective sizes.
    ratio_sd:
        Standard deviation of u under the reference.
    n_gradient:
        Likelihood gradients spent, summed over particles.
    mode_bases:
        Whether stages moved in the coordinates of their own mode.
    latents:
        Where the particles stand at the end (particle, d): approximate draws of the posterior, a
        good start for chains.
    """

    betas: np.ndarray
    step_size: np.ndarray
    n_steps: np.ndarray
    acceptance_rate: np.ndarray
    distance: np.ndarray
    ratio_sd: float
    n_gradient: float
    mode_bases: bool
    latents: np.ndarray


def run_pilot(
    path: TemperedPath,
    sampler: LatentSampler,
    rng,
    tuning: TuningSettings | None = None,
    *,
    mode_bases: bool = False,
) -> Pilot:
    """Sequential Monte Carlo from the reference to the posterior that tunes the sampler on its way.

    Each stage chooses the next beta by bisection so that the conditional effective size of the
    increment is STAGE_EFFECTIVE_SIZE of the particles, resamples, and takes a few transitions
    whose step size follows the acceptance rate. ``rng`` is a `ChainGenerators` of the pilot's
    particles. An annealing run that follows does not use them: its schedule then does not depend
    on its own particles, which keeps it unbiased.
    """
    tuner = StepSizeTuner(tuning or TuningSettings(), sampler)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    base = path.base
    draws = path.reference_draws(rng.standard_normal((path.model.dim,)))
    state = sampler.init(Target.posterior(base), draws)
    u = path.log_ratio(state.predictor, state.log_likelihood)
    betas, distance, stages = [0.0], [0.0], []
    ratio_sd, mode, report = float(u.std()), None, Progress("pilot", unit="stages")
    while betas[-1] < 1.0:
        if len(betas) > MAX_STAGES:
            raise NumericalError(
                f"pilot: inverse temperature is only {betas[-1]:.2e} after {MAX_STAGES} stages; "
                "start from an EP or Laplace reference, or rescale the prior"
            )
        beta, conditional = next_beta(u, betas[-1], STAGE_EFFECTIVE_SIZE)
        weights = normalised_weights((beta - betas[-1]) * u)
        rows = systematic_resample(weights, rng.uniform()[0])
        state = State(*(field[rows] for field in state))
        betas.append(beta)
        distance.append(distance[-1] + np.sqrt(-np.log(min(conditional, 1.0 - 1e-12))))
        if mode_bases:
            sites, _ = tempered_mode(path, beta, mode)
            new, mode = sampler.coordinates(sites), sites.whitened_mean
            position = new.from_whitened(base.to_whitened(state.position))
            base = new
            target = path.target(beta, base)
            state = sampler.init(target, position)
            tuner.n_gradient += len(position)
        else:
            target = path.target(beta)
        state = tuner.tune(rng, target, state)
        stages.append((tuner.step_size, tuner.n_steps, tuner.acceptance_rate))
        u = path.log_ratio(state.predictor, state.log_likelihood)
        report.update(tuner.acceptance_rate)
    report.close()
    step_size, n_steps, acceptance = (np.array(column) for column in zip(*stages, strict=True))
    return Pilot(
        betas=np.array(betas),
        step_size=np.append(step_size[0], step_size),
        n_steps=np.append(n_steps[0], n_steps),
        acceptance_rate=np.append(1.0, acceptance),
        distance=np.array(distance),
        ratio_sd=ratio_sd,
        n_gradient=tuner.n_gradient,
        mode_bases=mode_bases,
        latents=base.latent(state.position),
    )


def find_pilot(
    path: TemperedPath,
    sampler: LatentSampler,
    coordinates: str = "reference",
    tuning: TuningSettings | None = None,
    *,
    seed: int,
    key: tuple[str | int, ...] = (),
    state_dir: str | os.PathLike | None = None,
) -> Pilot:
    """Run the pilot with its own random streams, or find it in ``state_dir``, where it is kept."""
    if coordinates not in ("reference", "mode"):
        raise unknown_name("pilot: coordinates", coordinates, ("reference", "mode"))
    pin_blas()
    tuning = tuning or TuningSettings()

    def compute() -> dict:
        rng = chain_generators(seed, *key, "pilot", chains=range(tuning.n_particles))
        return vars(run_pilot(path, sampler, rng, tuning, mode_bases=coordinates == "mode"))

    identity = {
        "reference": path.reference.digest(),
        "sampler": repr(sampler),
        "coordinates": coordinates,
        "tuning": repr(tuning),
        "seed": int(seed),
        "key": list(key),
    }
    arrays = remember(state_dir, "pilot", identity, compute)
    plain = {name: arrays[name].item() for name in ("ratio_sd", "n_gradient", "mode_bases")}
    return Pilot(**(arrays | plain))


def next_beta(u: np.ndarray, beta: float, effective_fraction: float) -> tuple[float, float]:
    """Largest next beta whose increments keep that conditional effective size, and its size."""
    equal = np.zeros_like(u)

    def size(step: float) -> float:
        return conditional_effective_size(equal, step * u)

    if size(1.0 - beta) >= effective_fraction:
        return 1.0, size(1.0 - beta)
    low, high = np.log(1e-18), np.log(1.0 - beta)  # of the step: prior starts need tiny ones
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if size(np.exp(middle)) >= effective_fraction else (low, middle)
    step = np.exp(low)
    return min(beta + step, 1.0), size(step)
