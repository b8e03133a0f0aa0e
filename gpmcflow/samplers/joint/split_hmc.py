"""Split Hamiltonian Monte Carlo over hyperparameters and latents: the sampler, its pilots, its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.adaptation.joint_pilot import (
    LARGEST_STEP,
    Earlier,
    PilotProgram,
    Stage,
    pilot_group,
    require_factor,
    round_lengths,
    run_pilots,
    site_factor,
)
from gpmcflow.samplers.adaptation.step_sizes import StepSize
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
SPREAD = 1.5  # of the starts of chains, in units of the frame
SETTLING = 60  # transitions of each chain that are dropped: y^2 falls from 4 to 1.2 in 30
JUDGED = 20  # of these, whose acceptance tells whether a chain moves
STARTS = 20  # at most, until one has a finite density
RESTARTS, NARROWER = 4, 0.7  # settled starts at most, until one moves; each is spread less


@dataclass(frozen=True)
class JointSplitHMC(Sampler):
    """Split Hamiltonian Monte Carlo over hyperparameters and latents at once, which tunes itself.

    It moves (y, z) with the density of `JointDensity`, x = mu + A y being the hyperparameters in normal
    coordinates. The target is N(y, z; 0, I) times a rest that varies slowly; kicks by the rest alternate
    with the exact flow of the Gaussian (`trajectory`), and the whole change of energy decides. No setting
    has to be given: a pilot finds sites, mu and A, the step and with it the number of steps, and freezes
    them before the first draw. All chains share it; each starts by itself, spread wider than the posterior,
    and drops 60 transitions. Hyperparameters among given starts are where the pilot's search begins. Exact
    whatever the pilot found; ``pilot`` of the results says what it chose, and why.

    Source: split HMC of Shahbaba, Lan, Johnson & Neal (2014), with the whitening by sites of Murray & Adams
    (2010); pathwise conditioning as in Wilson et al. (2020).

    Attributes
    ----------
    target_acceptance:
        Mean acceptance rate the step size is tuned to, above 0 and below 1.
    rounds:
        Transitions of each round of the pilot, two rounds or more of 6 or more, after its search for the
        mode: all but the last fit sites and scale; the last settles the step. None for 100, 300, 300 and 60,
        or 60, 120, 8 d and 60 where there are d > 5 hyperparameters.
    max_steps:
        Largest number of steps, hence of gradients, of a trajectory.
    jitter:
        Step sizes are multiplied by a uniform number within 1 +- jitter, drawn for each trajectory; from 0 to
        below 1.
    earlier:
        What the pilot of earlier draws found, as `after` takes it; None for a pilot of its own.

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
    rounds: tuple[int, ...] | None = None
    max_steps: int = 32
    jitter: float = 0.2
    earlier: Earlier | None = field(default=None, repr=False, compare=False)

    samples = JOINT
    state = SplitState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "energy_error": "<f8", "diverging": "|i1", "n_gradient": "<i8",
        "rejected_in_a_row": "<i8", "energy": "<f8",
    }  # fmt: skip
    traced = ("complete_log_likelihood", "n_gradient", "theta")
    failures = Failures(
        "diverging", (),
        "ended in a failed factorisation or without a finite energy (they were rejected); give the model a "
        "larger jitter, or narrower hyperpriors",
    )  # fmt: skip
    n_warmup = 0  # chains drop transitions of their own
    least_acceptance = 0.4  # of a chain that stands in narrower places than its pilot saw

    def __post_init__(self) -> None:
        where = "JointSplitHMC"
        require_share(where, "target_acceptance", self.target_acceptance)
        require_share(where, "jitter", self.jitter, zero=True)
        require_count(where, "max_steps", self.max_steps)
        if self.rounds is None:
            return
        rounds = tuple(self.rounds)
        if len(rounds) < 2:
            raise InputError(f"{where}: rounds has {len(rounds)} entries; allowed: 2 or more")
        for k, length in enumerate(rounds):
            require_count(where, f"rounds[{k}]", length)
            if length < SHORTEST:
                raise InputError(f"{where}: rounds[{k}] is {length}; allowed: {SHORTEST} or more")
        object.__setattr__(self, "rounds", rounds)

    @classmethod
    def after(cls, draws: xr.DataTree) -> JointSplitHMC:
        """The sampler for draws of the same model given other rows, such as more of them.

        Its pilot begins with the frame and the step that the one of ``draws`` found; sites are fitted anew,
        and one round settles the step. Exact as any, and the better the less the posterior has moved. Draws
        of another sampler, or of several modes, leave it a pilot of its own.
        """
        several = "modes" in draws.children and draws["modes"].sizes["mode"] > 1
        if several or "pilot" not in draws.children or "stage" not in draws["pilot"].dims:
            return cls()
        pilot = draws["pilot"].to_dataset()
        step = float(pilot["step_size"][-1])
        return cls(earlier=Earlier(pilot["center"].values, pilot["scale"].values, step))

    def transitions_before_draws(self, model: GPModel, n_chains: int) -> int:
        """Transitions of the pilot and of the chains' beginnings, for a forecast."""
        return sum(round_lengths(self, model.dim)) + n_chains * SETTLING

    def adapt(self, problem: JointProblem, *, n_chains: int, **run: Any) -> Tuned:
        """Run the pilot, or one in each mode that chains start in, and go on with what they found."""
        if problem.modes is None:
            tuned, stages = self.tune(problem, 1, **run)
        else:
            own = problem.modes.of_chains(n_chains)
            tuned, stages = self.tune(problem, int(own.max()) + 1, **run)
            last = {name: values[own] for name, values in tuned.last.items()}
            tuned = TunedSplitHMC(self, tuned.tuned_by, last)
        return Tuned(tuned, problem, {"pilot": pilot_group(problem.target, stages)})

    def tune(
        self, problem: JointProblem, n_pilots: int, **run: Any
    ) -> tuple[TunedSplitHMC, dict[str, np.ndarray]]:
        """What pilots found, chain k to move in the frame of pilot k or of the last, and their stages."""
        model = problem.target
        _ = model.parameters.normal  # refuse hyperpriors here, not in a worker
        require_factor(model)
        pilot = PilotProgram(problem, self)
        stages = run_pilots(pilot, n_pilots=n_pilots, **run)
        last = {name: values[:, -1] for name, values in stages.items()}
        return TunedSplitHMC(self, pilot.digest(), last), stages

    def bind(self, target: GPModel, chain: int = 0) -> SplitTransition:
        """Refused: its transitions need the pilot of `adapt`."""
        raise InputError("JointSplitHMC: its pilot has not run; give it to sample")


class TunedSplitHMC(JointSplitHMC):
    """`JointSplitHMC` with what its pilot found.

    ``last`` holds the last stage of `PilotProgram`, a row a pilot. It follows from ``tuned_by``, the digest
    of that program, and the random streams; so only the former is part of the digest, and chains can be
    added.
    """

    needs_start = False
    settings: JointSplitHMC
    tuned_by: str
    last: Mapping[str, np.ndarray]

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

    @property
    def settled(self) -> bool:
        """Whether a pilot tuned the steps, too."""
        return bool(np.isfinite(self.last["acceptance_rate"]).all())

    def digest(self) -> str:
        """That of the pilot."""
        return self.tuned_by

    def bind(self, target: GPModel, chain: int = 0) -> SplitTransition:
        """Transitions of one chain in the frame of its pilot."""
        return SplitTransition(target, self.stage(chain), self.settings)

    def stage(self, chain: int) -> Stage:
        """The last stage of a chain's pilot: of its own, or of the one that all share."""
        return state_of(Stage, self.last, min(chain, len(self.last["center"]) - 1))


class SplitTransition:
    """Trajectories of one chain in the frame of a pilot."""

    def __init__(self, model: GPModel, pilot: Stage, settings: JointSplitHMC) -> None:
        self.model, self.pilot, self.settings = model, pilot, settings
        self.target = SplitTarget(density_of(model, pilot.frame.sites), pilot.frame)

    def init(self, rng: np.random.Generator, start: Any) -> SplitState:
        """State after `SETTLING` transitions from x = mu + 1.5 A xi, xi ~ N(0, I).

        Their step adapts, but for the last `JUDGED`, which tell whether the chain moves with the pilot's: a
        start far out can lead to where the density bends too sharply for that step, and a chain would stay
        there for good. Then another start is taken, less wide. Latents are drawn under the sites as they were
        fitted: weaker ones would start far from the data. Raises `NumericalError` where none of `STARTS`
        starts has a finite density.
        """
        for tries in range(RESTARTS):
            state, rate = self._settled(rng, SPREAD * NARROWER**tries)
            if rate >= self.settings.least_acceptance:
                break
        return state._replace(rejected=0)

    def _settled(self, rng: np.random.Generator, spread: float) -> tuple[SplitState, float]:
        """State after settling, and the mean acceptance rate of its last transitions."""
        state, settings, own = self._spread_start(rng, spread), self.settings, self.pilot.step_size
        tuner, rates = StepSize(own, settings.target_acceptance, LARGEST_STEP), []
        for left in reversed(range(SETTLING)):
            state, info = self._transition(rng, state, own if left < JUDGED else tuner.step)
            tuner.update(info.acceptance_rate)
            rates.append(info.acceptance_rate)
        return state, sum(rates[-JUDGED:]) / JUDGED

    def _spread_start(self, rng: np.random.Generator, spread: float) -> SplitState:
        target, frame = self.target, self.pilot.frame
        fitted = frame._replace(sites=frame.sites.scaled(1.0 / site_factor(self.model)))
        for left in reversed(range(STARTS)):
            x = target.center + spread * target.scale @ rng.standard_normal(target.dim)
            try:
                latents = SplitTarget(target.density, fitted).start(rng, x, None).latents
                target.density.sites = frame.sites
                return target.start(rng, x, latents)
            except NumericalError:
                if not left:
                    raise
        raise AssertionError("the last start ends the loop")

    def step(self, rng: np.random.Generator, state: SplitState) -> tuple[SplitState, SplitInfo]:
        """One trajectory, accepted or not."""
        return self._transition(rng, state, self.pilot.step_size)

    def _transition(self, rng, state: SplitState, step: float) -> tuple[SplitState, SplitInfo]:
        n_steps, jitter = self.pilot.n_steps, self.settings.jitter
        return transition(rng, self.target, state, step, n_steps, jitter)

    def record(self, rng: np.random.Generator, state: SplitState) -> dict[str, Any]:
        """theta, f or weights, T, log likelihood and lp = T + log p_h(theta).

        Latents that the density integrates out are drawn exactly given theta.
        """
        values = state.latents, state.log_likelihood, state.complete
        density: Any = self.target.density
        if not density.n_z:
            values = density.draw_latents(rng, state.theta)
        latents, log_likelihood, complete = values
        return {
            "theta": state.theta,
            self.model.latent_variable: latents,
            "complete_log_likelihood": complete,
            "sum_log_likelihood": log_likelihood,
            "lp": complete + self.model.log_prior(state.theta),
        }
