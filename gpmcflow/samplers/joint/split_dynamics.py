"""Trajectories over hyperparameters and latents at once whose Gaussian part is solved exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.models.collapsed_density import Density
from gpmcflow.models.joint_density import Evaluation
from gpmcflow.models.prior_structure import FrozenSites


class Frame(NamedTuple):
    """What a pilot freezes, beside the step and the number of steps."""

    center: np.ndarray  #: mu of x = mu + A y (d,)
    scale: np.ndarray  #: A (d, d)
    sites: FrozenSites


class SplitState(NamedTuple):
    """A position q = (y, z_1, z_2) with all that is known there."""

    position: np.ndarray  #: q (d + 2n,)
    rest: float  #: log pi - log N(q; 0, I), up to a constant
    slope: np.ndarray  #: its gradient (d + 2n,)
    theta: np.ndarray
    latents: np.ndarray
    log_likelihood: float
    complete: float
    rejected: int = 0  #: transitions in a row that ended here again


class SplitInfo(NamedTuple):
    """What a diagnostic needs of one transition."""

    accepted: bool
    acceptance_rate: float
    energy_error: float
    diverging: bool  #: a failed factorisation or an energy that is not finite; rejected
    n_gradient: int
    rejected_in_a_row: int  #: up to this transition
    energy: float  #: of the state that is kept, with its momentum, up to a constant


class SplitTarget:
    """The density of q = (y, z), x = mu + A y, as N(q; 0, I) times the rest."""

    def __init__(self, density: Density, frame: Frame) -> None:
        self.density = density
        self.center, self.scale = frame.center, frame.scale
        density.sites = frame.sites
        self.dim = len(self.center)

    def state(self, position: np.ndarray) -> SplitState:
        """Evaluate at q; the rest is -inf where a factorisation fails."""
        d = self.dim
        y = position[:d]
        x = self.center + self.scale @ y
        at: Evaluation = self.density.evaluate(x, position[d:])
        if at.rest == -np.inf:
            return SplitState(position, -np.inf, np.zeros(len(position)), *at[3:])
        slope = np.empty(len(position))
        slope[:d] = self.scale.T @ (at.slope_x - x) + y
        slope[d:] = at.slope_z
        rest = at.rest + 0.5 * float(y @ y - x @ x)
        return SplitState(position, rest, slope, *at[3:])

    def x(self, state: SplitState) -> np.ndarray:
        """Hyperparameters in their normal coordinates (d,)."""
        return self.center + self.scale @ state.position[: self.dim]

    def rest(self, position: np.ndarray) -> float:
        """The rest at q without its gradient; -inf where a factorisation fails."""
        y = position[: self.dim]
        x = self.center + self.scale @ y
        return self.density.value(x, position[self.dim :]) + 0.5 * float(y @ y - x @ x)

    def log_constant(self) -> float:
        """C of log p(y) = C + log E exp(rest), q ~ N(0, I): that of the density, and log |det A|."""
        return self.density.log_constant() + float(np.linalg.slogdet(self.scale)[1])

    def position(
        self, rng: np.random.Generator, x: np.ndarray, latents: np.ndarray | None
    ) -> np.ndarray:
        """q at x and latents, of which z is an exact draw; they are drawn from the sites if None."""
        known = latents is not None and self.density.n_z > 0
        z = (
            self.density.augment(rng, x, latents)
            if known
            else rng.standard_normal(self.density.n_z)
        )
        return np.concatenate([np.linalg.solve(self.scale, x - self.center), z])

    def start(self, rng: np.random.Generator, x: np.ndarray, f: np.ndarray | None) -> SplitState:
        """State at x and latents f, of which z is an exact draw; f is drawn from the sites if None.

        Raises `NumericalError` where the density is not finite.
        """
        state = self.state(self.position(rng, x, f))
        if not np.isfinite(state.rest):
            raise NumericalError(
                f"joint split HMC: no finite density at the start x = {np.round(x, 3).tolist()}; give "
                "another start_theta, or the model a larger jitter"
            )
        return state


def trajectory(
    target: SplitTarget,
    state: SplitState,
    momentum: np.ndarray,
    step: float,
    n_steps: int,
    beta: float = 1.0,
):
    """Yield (state, momentum) after 1, 2, .. n_steps steps; ends early where no density is left.

    A step is half a kick by beta times the rest's gradient, the exact flow of N(q; 0, I) times N(p; 0, I), a
    rotation of every (q_j, p_j) by the angle ``step``, and half a kick: reversible, volume preserving.
    """
    cosine, sine, half = np.cos(step), np.sin(step), 0.5 * step * beta
    for _ in range(n_steps):
        kicked = momentum + half * state.slope
        position = cosine * state.position + sine * kicked
        momentum = cosine * kicked - sine * state.position
        state = target.state(position)
        momentum += half * state.slope
        yield state, momentum
        if not np.isfinite(state.rest):
            return


def energy(state: SplitState, momentum: np.ndarray, beta: float = 1.0) -> float:
    """-log N(q; 0, I) - beta rest - log N(p; 0, I), up to a constant."""
    q = state.position
    with np.errstate(over="ignore"):  # an infinite energy is rejected, and counted as diverging
        return 0.5 * float(q @ q + momentum @ momentum) - beta * state.rest


def transition(
    rng: np.random.Generator,
    target: SplitTarget,
    state: SplitState,
    step: float,
    n_steps: int,
    jitter: float,
    beta: float = 1.0,
) -> tuple[SplitState, SplitInfo]:
    """One trajectory with fresh momenta, accepted or not by its whole change of energy.

    It leaves N(q; 0, I) exp(beta rest) invariant.
    """
    momentum = rng.standard_normal(len(state.position))
    angle = step * (1.0 + jitter * (2.0 * rng.random() - 1.0))
    level = rng.standard_exponential()
    path = list(trajectory(target, state, momentum, angle, n_steps, beta))
    proposal, end = path[-1]
    before = energy(state, momentum, beta)
    after_path = energy(proposal, end, beta)
    error = after_path - before
    diverging = not np.isfinite(error)
    accepted = not diverging and error <= level
    after = proposal if accepted else state._replace(rejected=state.rejected + 1)
    kept = after_path if accepted else before
    info = SplitInfo(accepted, _rate(error), error, diverging, len(path), after.rejected, kept)
    return after, info


def _rate(error: float) -> float:
    return float(np.exp(min(-error, 0.0))) if np.isfinite(error) else 0.0
