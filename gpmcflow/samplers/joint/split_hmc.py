"""Split Hamiltonian Monte Carlo over hyperparameters and latents: the sampler, its pilots, its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import density_of
from gpmcflow.samplers.adaptation.joint_pilot import (
    PilotProgram,
    Round,
    pilot_group,
    run_pilots,
)
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import (
    SplitInfo,
    SplitState,
    SplitTarget,
    transition,
)
from gpmcflow.samplers.program import state_of
from gpmcflow.samplers.protocol import JOINT, Failures, Sampler, Tuned, require_count, require_share

SHORTEST = 6  # transitions that a round can learn anything from


@dataclass(frozen=True)
class JointSplitHMC(Sampler):
    """Split Hamiltonian Monte Carlo over hyperparameters and latents at once, which tunes itself.

    It moves (y, z) with the density of `JointDensity`, x = mu + A y being the hyperparameters in normal
    coordinates. The target is N(y, z; 0, I) times a rest that varies slowly; kicks by the rest alternate
    with the exact flow of the Gaussian (`trajectory`), and the whole change of energy decides. No setting
    has to be given: a pilot of each chain finds sites, mu and A, the step and the number of steps, and
    freezes them before the first draw. Exact whatever the pilot found.

    Source: split HMC of Shahbaba, Lan, Johnson & Neal (2014), with the whitening by sites of Murray & Adams
    (2010); pathwise conditioning as in Wilson et al. (2020).

    Attributes
    ----------
    target_acceptance:
        Mean acceptance rate the step size is tuned to, above 0 and below 1.
    rounds:
        Transitions of each round of the pilot, two rounds or more of 6 or more: all but the last fit sites
        and scale, starting from anywhere; the last chooses step and number of steps.
    max_steps:
        Largest number of steps, hence of gradients, of a trajectory.
    jitter:
        Step sizes are multiplied by a uniform number within 1 +- jitter, drawn for each trajectory; from 0 to
        below 1.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> draws = gp.sample(model, gp.JointSplitHMC(rounds=(50, 100)), n_chains=1, n_draws=50)
    >>> sorted(draws.posterior.data_vars)
    ['latent', 'length_scale', 'signal_sd', 'theta']
    """

    target_acceptance: float = 0.8
    rounds: tuple[int, ...] = (50, 50, 100, 200, 200, 240)
    max_steps: int = 32
    jitter: float = 0.2

    samples = JOINT
    state = SplitState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "energy_error": "<f8", "diverging": "|i1", "n_gradient": "<i8",
    }  # fmt: skip
    traced = ("complete_log_likelihood", "n_gradient", "theta")
    failures = Failures(
        "diverging", (),
        "ended in a failed factorisation or without a finite energy (they were rejected); give the model a "
        "larger jitter, or narrower hyperpriors",
    )  # fmt: skip
    least_acceptance = 0.4  # of a chain that stands in narrower places than its pilot saw

    def __post_init__(self) -> None:
        where = "JointSplitHMC"
        require_share(where, "target_acceptance", self.target_acceptance)
        require_share(where, "jitter", self.jitter, zero=True)
        require_count(where, "max_steps", self.max_steps)
        rounds = tuple(self.rounds)
        if len(rounds) < 2:
            raise InputError(f"{where}: rounds has {len(rounds)} entries; allowed: 2 or more")
        for k, length in enumerate(rounds):
            require_count(where, f"rounds[{k}]", length)
            if length < SHORTEST:
                raise InputError(f"{where}: rounds[{k}] is {length}; allowed: {SHORTEST} or more")
        object.__setattr__(self, "rounds", rounds)

    def adapt(self, problem: JointProblem, **run: Any) -> Tuned:
        """Run a pilot for each chain, and go on where it ended, with what it found."""
        model = problem.target
        _ = model.parameters.normal  # refuse hyperpriors here, not in a worker
        if (
            model.likelihood.conjugate and not model.basis
        ):  # draws of the latents need a factor of their own covariance
            model.filled_factor(model.full(model.prior_median()))
        pilot = PilotProgram(problem, self)
        rounds = run_pilots(pilot, **run)
        last = {name: values[:, -1] for name, values in rounds.items()}
        return Tuned(
            TunedSplitHMC(self, pilot.digest(), last),
            problem,
            {"pilot": pilot_group(model, rounds)},
        )

    def bind(self, target: GPModel, chain: int = 0) -> SplitTransition:
        """Refused: its transitions need the pilot of `adapt`."""
        raise InputError("JointSplitHMC: its pilots have not run; give it to sample")


class TunedSplitHMC(JointSplitHMC):
    """`JointSplitHMC` with what the pilots of its chains found.

    ``last`` holds the last round of `PilotProgram`, row by chain. It follows from ``tuned_by``, the digest of
    that program, and the random streams; so only the former is part of the digest, and chains can be added.
    """

    needs_start = False

    def __init__(
        self, settings: JointSplitHMC, tuned_by: str, last: Mapping[str, np.ndarray]
    ) -> None:
        super().__init__(**vars(settings))
        set_ = object.__setattr__
        set_(self, "settings", settings)
        set_(self, "tuned_by", tuned_by)
        set_(self, "last", last)

    def __repr__(self) -> str:
        return repr(self.settings)

    def digest(self) -> str:
        """That of the pilots."""
        return self.tuned_by

    def bind(self, target: GPModel, chain: int = 0) -> SplitTransition:
        """Transitions of one chain in the frame of its pilot."""
        pilot = state_of(Round, self.last, chain)
        return SplitTransition(target, pilot, self.jitter)


class SplitTransition:
    """Trajectories of one chain, which goes on where its pilot ended."""

    def __init__(self, model: GPModel, pilot: Round, jitter: float) -> None:
        self.model, self.pilot, self.jitter = model, pilot, jitter
        self.target = SplitTarget(density_of(model, pilot.frame.sites), pilot.frame)

    def init(self, rng: np.random.Generator, start: Any) -> SplitState:
        """State where the pilot ended."""
        return self.target.start(rng, self.pilot.x, self.pilot.latents)

    def step(self, rng: np.random.Generator, state: SplitState) -> tuple[SplitState, SplitInfo]:
        """One trajectory, accepted or not."""
        pilot = self.pilot
        return transition(rng, self.target, state, pilot.step_size, pilot.n_steps, self.jitter)

    def record(self, rng: np.random.Generator, state: SplitState) -> dict[str, Any]:
        """theta, f or weights, T, log likelihood and lp = T + log p_h(theta).

        Latents that the density integrates out are drawn exactly given theta.
        """
        values = state.latents, state.log_likelihood, state.complete
        if not self.target.density.n_z:
            values = self.target.density.draw_latents(rng, state.theta)
        latents, log_likelihood, complete = values
        return {
            "theta": state.theta,
            self.model.latent_variable: latents,
            "complete_log_likelihood": complete,
            "log_likelihood": log_likelihood,
            "lp": complete + self.model.log_prior(state.theta),
        }
