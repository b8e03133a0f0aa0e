"""The transition all Hamiltonian samplers share: momentum, trajectory, accept or reject."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.protocol import ChainRandom, Info, State


@dataclass(frozen=True)
class HamiltonianSampler(ABC):
    """Settings shared by the Hamiltonian samplers, and their transition.

    The target is N(zeta; 0, I) exp(beta r(zeta)); the momentum is N(0, I) in the sampler's own
    coordinates. A trajectory alternates kicks and flows,

        half kick, flow, kick, flow, ..., flow, half kick,

    which is reversible and preserves volume for any `force` that depends on the position alone and
    any reversible, volume-preserving `flow`. It is accepted with probability min(1, exp(H - H')),
    H = |zeta|^2 / 2 - beta r(zeta) + |p|^2 / 2. A non-finite energy is a rejection, flagged as
    diverging.

    ``step_size`` epsilon > 0 is multiplied, for each chain and transition, by a uniform number
    within 1 +- ``jitter`` (a fixed length can be close to a period of the orbit); ``n_steps`` is
    the number of flows, and of likelihood gradients.
    """

    step_size: float = 0.5
    n_steps: int = 4
    jitter: float = 0.1

    def __post_init__(self) -> None:
        where = type(self).__name__
        if not (np.isfinite(self.step_size) and self.step_size > 0):
            raise InputError(
                f"{where}: step_size is {self.step_size!r}; allowed: a positive number"
            )
        if self.n_steps != int(self.n_steps) or self.n_steps < 1:
            raise InputError(f"{where}: n_steps is {self.n_steps!r}; allowed: 1, 2, 3, ...")
        if not 0.0 <= self.jitter < 1.0:
            raise InputError(f"{where}: jitter is {self.jitter!r}; allowed: 0 <= jitter < 1")

    @abstractmethod
    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rate of change of the momentum in a kick; ``gradient`` is that of the residual r."""

    @abstractmethod
    def flow(
        self, target: Target, position: np.ndarray, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Position and momentum after the time ``step_size`` (chain, 1) between two kicks."""

    def length_unit(self, target: Target) -> float:
        """Typical posterior width in the momentum's coordinates: 1 where they are standardised.

        The tuner measures step sizes and trajectory lengths in it.
        """
        return 1.0

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim)."""
        return State(position, *target.evaluate(position))

    def trajectory(
        self, target: Target, state: State, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[State, np.ndarray]:
        """End point, evaluated, and its momentum, after n_steps of ``step_size`` (chain, 1)."""
        position, half = state.position, 0.5 * step_size
        momentum = momentum + half * self.force(target, position, state.gradient)
        for _ in range(self.n_steps - 1):
            position, momentum = self.flow(target, position, momentum, step_size)
            gradient = target.residual_gradient(position)
            momentum += step_size * self.force(target, position, gradient)
        position, momentum = self.flow(target, position, momentum, step_size)
        end = self.init(target, position)
        momentum += half * self.force(target, position, end.gradient)
        return end, momentum

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain; n_steps gradients each."""
        momentum = rng.standard_normal((target.dim,))
        scale = 1.0 + self.jitter * (2.0 * rng.uniform() - 1.0)
        log_uniform = np.log1p(-rng.uniform())
        before = hamiltonian(target, state, momentum)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step_size = (self.step_size * scale)[:, None]
            proposal, momentum = self.trajectory(target, state, momentum, step_size)
            error = hamiltonian(target, proposal, momentum) - before
        diverging = ~np.isfinite(error)
        log_accept = np.minimum(np.where(diverging, -np.inf, -error), 0.0)
        accepted = log_uniform < log_accept
        info = Info(
            accepted, np.exp(log_accept), error, diverging, np.full(len(error), self.n_steps)
        )
        return select(accepted, proposal, state), info


def hamiltonian(target: Target, state: State, momentum: np.ndarray) -> np.ndarray:
    """H = |zeta|^2 / 2 - beta r + |p|^2 / 2, (chain,)."""
    position = state.position
    kinetic = np.einsum("ij,ij->i", momentum, momentum)
    return (
        0.5 * (np.einsum("ij,ij->i", position, position) + kinetic) - target.beta * state.residual
    )


def select(accepted: np.ndarray, proposal: State, state: State) -> State:
    """Rows of the proposal where accepted, of the old state elsewhere."""
    if accepted.all():
        return proposal
    return State(
        *(
            np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(proposal, state, strict=True)
        )
    )
