"""Automatic step size and number of steps, found in a pilot and then frozen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.protocol import ChainRandom, Sampler, State

UNSOLVED_WEIGHT = 20.0  # holds the share of unsolved transitions at about one per cent


@dataclass(frozen=True)
class TuningSettings:
    """How a pilot tunes a Hamiltonian sampler.

    ``target_acceptance`` is the mean acceptance rate the step size is tuned to (None: the sampler's
    own, 0.8 for Hamiltonian ones), for trajectories of ``trajectory_length`` (step size times number
    of steps, in units of the standardised coordinates) but of at most ``max_steps`` steps, or of
    ``n_steps`` steps where that is given; ``rounds`` is the number of transitions at each
    temperature, each by ``n_particles`` particles.
    """

    n_particles: int = 64
    target_acceptance: float | None = None
    n_steps: int | None = None
    trajectory_length: float = 2.0
    max_steps: int = 64
    max_step_size: float = 1.2
    rounds: int = 6

    def __post_init__(self) -> None:
        if self.target_acceptance is not None and not 0.0 < self.target_acceptance < 1.0:
            raise InputError(
                f"tuning: target_acceptance is {self.target_acceptance!r}; allowed: between 0 and 1"
            )
        positive = ["n_particles", "trajectory_length", "max_steps", "max_step_size", "rounds"]
        for name in positive + ["n_steps"] * (self.n_steps is not None):
            if not getattr(self, name) > 0:
                raise InputError(f"tuning: {name} is {getattr(self, name)!r}; allowed: above 0")


class StepSizeTuner:
    """Step size that follows the acceptance rate (Robbins-Monro on its log) down the ladder.

    Starts at half a unit; n_steps keeps the trajectory length. Attributes: ``step_size``,
    ``n_steps``, ``acceptance_rate`` (mean over the second half of the last rounds), ``n_gradient``
    (spent so far, summed over particles).
    """

    def __init__(self, settings: TuningSettings, sampler: Sampler) -> None:
        self.settings, self.prototype = settings, sampler
        self.target_acceptance = settings.target_acceptance or sampler.target_acceptance
        self.n_gradient = 0
        self.acceptance_rate = np.nan
        self._unit = 1.0
        self._relative = np.log(min(0.5, settings.max_step_size))  # log step size in units
        self._first = True

    @property
    def step_size(self) -> float:
        """Tuned step size, in the sampler's own coordinates."""
        return float(np.exp(self._relative) * self._unit)

    @property
    def n_steps(self) -> int:
        """Steps that make up the trajectory length, or as many as the settings say."""
        if self.settings.n_steps is not None:
            return self.settings.n_steps
        steps = int(np.ceil(self.settings.trajectory_length / np.exp(self._relative) - 1e-9))
        return int(np.clip(steps, 1, self.settings.max_steps))

    @property
    def sampler(self) -> Sampler:
        """The sampler with the tuned settings."""
        return self.prototype.with_steps(self.step_size, self.n_steps)

    def tune(self, rng: ChainRandom, target: Target, state: State) -> State:
        """Take the rounds at one target; the first, far from tuned, gets three times as many."""
        rounds = self.settings.rounds * (3 if self._first else 1)
        self._unit = self.prototype.length_unit(target)
        self._first, rates = False, []
        ceiling = np.log(self.settings.max_step_size)
        for k in range(rounds):
            state, info = self.sampler.step(rng, target, state)
            rate = float(info.acceptance_rate.mean())
            self.n_gradient += float(info.n_gradient.sum())
            rates.append(rate)
            # An implicit step that is not solved is a rejection no acceptance rate makes up for.
            signal = max(rate - UNSOLVED_WEIGHT * float(info.unsolved.mean()), -1.0)
            self._relative += 1.5 / (k + 2.0) ** 0.6 * (signal - self.target_acceptance)
            self._relative = min(self._relative, ceiling)
        self.acceptance_rate = float(np.mean(rates[len(rates) // 2 :]))
        return state


def tune_at(
    target: Target, sampler: Sampler, rng: ChainRandom, settings: TuningSettings
) -> StepSizeTuner:
    """Tune a sampler at one target alone, from draws of its Gaussian part.

    Enough where the Gaussian part is a fit of the posterior; from a prior take `find_pilot`. ``rng``
    is for ``settings.n_particles`` chains. The returned tuner has the sampler, the acceptance rate of
    its last rounds and the cost.
    """
    tuner = StepSizeTuner(settings, sampler)
    state = sampler.init(target, rng.standard_normal((target.dim,)))
    tuner.tune(rng, target, state)
    return tuner
