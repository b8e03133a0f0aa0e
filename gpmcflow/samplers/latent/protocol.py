"""What samplers of latents at fixed hyperparameters share: states, infos, the binding to a `Target`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.protocol import LATENTS, ChainRandom, Failures, Sampler


class State(NamedTuple):
    """What the next step needs, with its cached evaluation; the chain axis comes first."""

    position: np.ndarray  #: coordinates of the target's base, (chain, dim)
    predictor: np.ndarray  #: linear predictors eta at the position, (chain, n)
    log_likelihood: np.ndarray  #: log p(y | eta), (chain,)
    residual: np.ndarray  #: r of the target, (chain,)
    gradient: np.ndarray  #: gradients by position the sampler starts from, (chain, ...)


class Info(NamedTuple):
    """What a diagnostic needs of one transition; every field has shape (chain,)."""

    accepted: np.ndarray  #: whether the proposal was taken
    acceptance_rate: np.ndarray  #: probability with which it would be
    energy_error: np.ndarray  #: Hamiltonian after minus before
    diverging: np.ndarray  #: proposal with a non-finite energy; rejected
    n_gradient: np.ndarray  #: likelihood gradients evaluated, in passes over all cases
    n_factorisation: np.ndarray  #: matrices factorised; a triangle inverted counts as one, too
    unsolved: np.ndarray  #: whether the equations of an implicit step were not solved; rejected
    energy: np.ndarray | None = None  #: Hamiltonian of the state that is kept; None without momenta

    @classmethod
    def explicit(
        cls,
        accepted: np.ndarray,
        acceptance_rate: np.ndarray,
        energy_error: np.ndarray,
        diverging: np.ndarray,
        n_gradient: np.ndarray,
        energy: np.ndarray | None = None,
    ) -> Self:
        """Info of a sampler that factorises nothing and solves no equations."""
        n = len(accepted)
        fields = (accepted, acceptance_rate, energy_error, diverging, n_gradient)
        return cls(*fields, np.zeros(n), np.zeros(n, dtype=bool), energy)


ENERGY = {"energy": "<f8"}  # of samplers with momenta, beside `STATISTICS`
STATISTICS: dict[str, str] = {  # fields of Info that runs keep, and their types on disk
    "acceptance_rate": "<f8",
    "energy_error": "<f8",
    "diverging": "|i1",
    "unsolved": "|i1",
    "n_gradient": "<f8",
    "n_factorisation": "<f8",
}


def statistics(info: Info) -> dict[str, np.ndarray]:
    """Fields of `STATISTICS`, each (chain,)."""
    return {name: getattr(info, name).astype(kind) for name, kind in STATISTICS.items()}


def kept_energy(accepted: np.ndarray, before: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Hamiltonian of the state that a transition keeps, with its momentum, from that of its start."""
    return np.where(accepted, before + error, before)


class LatentSampler(Sampler):
    """A sampler that leaves a `Target` invariant, for all chains of a batch at once.

    A new one states its settings and gives `init` and `step`; ``step_size`` and ``n_steps`` are what pilots
    tune, of a sampler without them 1.
    """

    samples = LATENTS
    batched = True
    state = State
    statistics = STATISTICS
    pieces: ClassVar[Mapping[str, int]] = {"block_size": 64, "segment_length": 100}
    traced = ("sum_log_likelihood", "accepted", "n_gradient")
    failures = Failures(
        "diverging", (), "had a non-finite energy (they were rejected); take a smaller step size"
    )
    step_size: float | np.ndarray = 1.0
    n_steps: int = 1
    target_acceptance: ClassVar[float] = 0.8  # what step sizes are tuned to unless told otherwise

    @abstractmethod
    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim)."""

    @abstractmethod
    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain."""

    def bind(self, target: Target, chain: int = 0) -> LatentTransition:
        """Transitions of all chains of a batch on a target."""
        return LatentTransition(self, target)

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Coordinates of a Gaussian that the sampler moves in, which targets have to use: its own."""
        return base

    def length_unit(self, target: Target) -> float:
        """Typical posterior width in the sampler's coordinates, in which pilots measure: 1."""
        return 1.0

    def with_steps(self, step_size: float | np.ndarray, n_steps: int) -> Self:
        """Return the sampler with another step size and number of steps, as far as it has them."""
        settings = {"step_size": step_size, "n_steps": n_steps}
        sampler: Any = self  # a dataclass
        own = {
            name: value for name, value in settings.items() if name in sampler.__dataclass_fields__
        }
        return replace(sampler, **own)

    def constants(self) -> dict[str, float]:
        """Step size and number of steps."""
        return {"step_size": float(np.mean(self.step_size)), "n_steps": int(self.n_steps)}


class LatentTransition:
    """A sampler of latents on one target."""

    def __init__(self, sampler: LatentSampler, target: Target) -> None:
        self.sampler, self.target = sampler, target

    def init(self, rng: ChainRandom, start: np.ndarray) -> State:
        """Evaluate at positions (chain, dim)."""
        state = self.sampler.init(self.target, start)
        failed = int((~np.isfinite(state.residual)).sum())
        if failed:
            raise NumericalError(
                f"latents: {failed} of {len(start)} starting points have no finite likelihood; check the "
                "prior's scale and the data"
            )
        return state

    def step(self, rng: ChainRandom, state: State) -> tuple[State, Info]:
        """One transition of every chain."""
        return self.sampler.step(rng, self.target, state)

    def record(self, rng: ChainRandom, state: State) -> dict[str, Any]:
        """Latents, log likelihood, and lp = -|zeta|^2 / 2 + beta r."""
        target = self.target
        return {
            "latent": target.base.latent(state.position),
            "sum_log_likelihood": state.log_likelihood,
            "lp": -0.5 * (state.position**2).sum(-1) + target.beta * state.residual,
        }
