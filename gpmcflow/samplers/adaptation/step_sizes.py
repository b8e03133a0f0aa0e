"""Automatic step size and number of steps, found in a pilot and then frozen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.protocol import LatentSampler, State
from gpmcflow.samplers.protocol import ChainRandom, require_share

UNSOLVED_WEIGHT = 20.0  # holds the share of unsolved transitions at about one per cent


@dataclass(frozen=True)
class TuningSettings:
    """How a pilot tunes step size and number of steps of a sampler of latents.

    Particles go from the reference to the posterior by sequential Monte Carlo; at each temperature the step
    size follows their acceptance rate.

    Source: Robbins & Monro (1951), with the gains of `StepSize`.

    Attributes
    ----------
    n_particles:
        Particles, 1 or more.
    target_acceptance:
        Mean acceptance rate the step size is tuned to; None: the sampler's own, 0.8 for Hamiltonian ones.
    n_steps:
        Steps of a trajectory; None: as many as ``trajectory_length`` and ``max_steps`` allow.
    trajectory_length:
        Step size times number of steps, in units of the standardised coordinates.
    max_steps:
        Most steps of a trajectory that follows from its length.
    max_step_size:
        Largest step size, in the same units.
    rounds:
        Transitions at each temperature, three times as many at the first.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> tuning = gp.TuningSettings(n_particles=16, n_steps=3, rounds=4)
    >>> draws = gp.sample(model, "hmc", tuning=tuning, n_chains=1, n_draws=50)
    >>> draws.sample_stats["n_steps"].item(), 0.0 < draws.sample_stats["step_size"].item() <= 1.2
    (3, True)
    """

    n_particles: int = 64
    target_acceptance: float | None = None
    n_steps: int | None = None
    trajectory_length: float = 2.0
    max_steps: int = 64
    max_step_size: float = 1.2
    rounds: int = 6

    def __post_init__(self) -> None:
        if self.target_acceptance is not None:
            require_share("tuning", "target_acceptance", self.target_acceptance)
        positive = ["n_particles", "trajectory_length", "max_steps", "max_step_size", "rounds"]
        for name in positive + ["n_steps"] * (self.n_steps is not None):
            if not getattr(self, name) > 0:
                raise InputError(f"tuning: {name} is {getattr(self, name)!r}; allowed: above 0")


class StepSize:
    """Step size that follows acceptance rates, by stochastic approximation of its log.

    log step += 1.5 (k + 2)^-0.6 (rate - target), k = 0, 1, ..; ``average`` weighs the k-th value by
    k^-0.75. Source: Robbins & Monro (1951), Ann. Math. Stat. 22, 400; Polyak & Juditsky (1992), SIAM J.
    Control Optim. 30, 838, for the average.
    """

    def __init__(self, step: float, target: float, largest: float) -> None:
        self._log, self.target, self._ceiling = np.log(step), target, np.log(largest)
        self._mean, self._count = self._log, 0

    def update(self, rate: float) -> None:
        """Take one more acceptance rate, of a trajectory or the mean of a batch, into account."""
        self._log += 1.5 / (self._count + 2.0) ** 0.6 * (rate - self.target)
        self._log = min(self._log, self._ceiling)
        self._count += 1
        self._mean += self._count**-0.75 * (self._log - self._mean)

    def restart(self) -> None:
        """Take large steps again, as at a new target."""
        self._count = 0

    @property
    def step(self) -> float:
        """The step to take next."""
        return float(np.exp(self._log))

    @property
    def average(self) -> float:
        """The step to freeze."""
        return float(np.exp(self._mean))


class StepSizeTuner:
    """`StepSize` down a ladder, each rate the mean of a batch, with a number of steps that goes with it.

    Starts at half a unit; n_steps keeps the trajectory length. Attributes: ``step_size``,
    ``n_steps``, ``acceptance_rate`` (mean over the second half of the last rounds), ``n_gradient``
    (spent so far, summed over particles).
    """

    def __init__(self, settings: TuningSettings, sampler: LatentSampler) -> None:
        self.settings, self.prototype = settings, sampler
        target = settings.target_acceptance or sampler.target_acceptance
        first, largest = min(0.5, settings.max_step_size), settings.max_step_size
        self._relative = StepSize(first, target, largest)  # in units
        self.n_gradient = 0.0
        self.acceptance_rate = np.nan
        self._unit = 1.0
        self._first = True

    @property
    def step_size(self) -> float:
        """Tuned step size, in the sampler's own coordinates."""
        return self._relative.step * self._unit

    @property
    def n_steps(self) -> int:
        """Steps that make up the trajectory length, or as many as the settings say."""
        if self.settings.n_steps is not None:
            return self.settings.n_steps
        steps = int(np.ceil(self.settings.trajectory_length / self._relative.step - 1e-9))
        return int(np.clip(steps, 1, self.settings.max_steps))

    @property
    def sampler(self) -> LatentSampler:
        """The sampler with the tuned settings."""
        return self.prototype.with_steps(self.step_size, self.n_steps)

    def tune(self, rng: ChainRandom, target: Target, state: State) -> State:
        """Take the rounds at one target; the first, far from tuned, gets three times as many."""
        rounds = self.settings.rounds * (3 if self._first else 1)
        self._unit = self.prototype.length_unit(target)
        self._first, rates = False, []
        self._relative.restart()
        for _ in range(rounds):
            state, info = self.sampler.step(rng, target, state)
            rate = float(info.acceptance_rate.mean())
            self.n_gradient += float(info.n_gradient.sum())
            rates.append(rate)
            # An implicit step that is not solved is a rejection no acceptance rate makes up for.
            signal = max(rate - UNSOLVED_WEIGHT * float(info.unsolved.mean()), -1.0)
            self._relative.update(signal)
        self.acceptance_rate = float(np.mean(rates[len(rates) // 2 :]))
        return state
