"""What samplers of a log density share: states, moves with an exact reverse, the binding to densities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity, finite_start
from gpmcflow.samplers.protocol import DENSITY, Failures, Sampler

Densities = Sequence[LogDensity]


class DensityState(NamedTuple):
    """One chain: where it stands, and what is known there, so that nothing is computed twice."""

    position: np.ndarray  #: theta (d,)
    values: Sequence[float]  #: log densities at theta, the exact one first, and what else it has


@dataclass(slots=True)
class DensityInfo:
    """What a transition tells; its counters are filled in by the transition."""

    accepted: bool  #: whether theta was replaced at all
    acceptance_rate: float  #: mean acceptance probability of the proposals; 1 for a slice update
    diverging: bool = False  #: whether a proposal had no finite density
    n_calls: Sequence[int] = ()  #: evaluations of each density
    n_gradients: Sequence[int] = ()
    n_failed: Sequence[int] = ()  #: those of both without a finite value
    energy: float = np.nan  #: Hamiltonian of the state that is kept, of samplers with momenta


class Move(Protocol):
    """A move that leaves exp(density) invariant, and its exact reverse. Frozen and picklable.

    With forward density R(x, x') and reverse R~(x, x'): pi(x) R(x, x') = pi(x') R~(x', x). For
    transitions in turn the reverse is their reverses in the opposite turn. Each takes the position and
    its log density, known already, and returns the new position with its log density.
    """

    def forward(
        self, rng: np.random.Generator, density: LogDensity, position: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """One move."""

    def backward(
        self, rng: np.random.Generator, density: LogDensity, position: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """One move of the reverse."""


class DensitySampler(Sampler):
    """A sampler of exp(densities[0]); further densities are its stand-ins. One chain at a time.

    A new one states its settings and gives `init` and `step`, both pure.
    """

    samples = DENSITY
    state = DensityState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "accepted": "|i1", "diverging": "|i1",
        "n_calls": "<i8", "n_gradients": "<i8", "n_failed": "<i8",
    }  # fmt: skip
    traced = ("theta", "sum_log_likelihood", "lp")
    failures = Failures(
        "n_failed", ("n_calls", "n_gradients"),
        "had no finite value (they were rejected); look at the noise level and the priors",
    )  # fmt: skip

    @abstractmethod
    def init(self, densities: Densities, position: np.ndarray) -> DensityState:
        """State at a start. Raises `NumericalError` where a density it needs is -inf there."""

    @abstractmethod
    def step(
        self, rng: np.random.Generator, densities: Densities, state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One iteration."""

    def bind(self, target: Densities, chain: int = 0) -> DensityTransition:
        """Transitions of one chain on copies of the densities, so that no two share counters."""
        return DensityTransition(self, [density.fresh() for density in target])


class DensityTransition:
    """A sampler of a log density on its densities, whose calls it counts."""

    def __init__(self, sampler: DensitySampler, densities: Densities) -> None:
        self.sampler, self.densities = sampler, densities

    def init(self, rng: np.random.Generator, start: np.ndarray) -> DensityState:
        """State at theta (d,); its evaluations are not counted to any draw."""
        return self.sampler.init(self.densities, start)

    def step(
        self, rng: np.random.Generator, state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One iteration, and the calls of each density in it."""
        for density in self.densities:
            density.reset()
        state, info = self.sampler.step(rng, self.densities, state)
        for name in ("n_calls", "n_gradients", "n_failed"):
            setattr(info, name, np.array([getattr(density, name) for density in self.densities]))
        return state, info

    def record(self, rng: np.random.Generator, state: DensityState) -> dict[str, Any]:
        """theta, its log density and log likelihood."""
        position, lp = state.position, state.values[0]
        log_likelihood = lp - self.densities[0].log_prior(position)
        return {"theta": position, "lp": lp, "sum_log_likelihood": log_likelihood}


def require_densities(
    who: str, densities: Sequence[LogDensity], least: int, most: int | None = None
) -> None:
    """Refuse a wrong number of densities, and such as do not share their coordinates."""
    most = least if most is None else most
    if not least <= len(densities) <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        raise InputError(
            f"{who}: found {len(densities)} densities; allowed: {allowed} (the exact one first)"
        )
    for density in densities[1:]:
        if tuple(density.names) != tuple(densities[0].names):
            raise InputError(
                f"{who}: {type(density).__name__} has coordinates {density.names}; allowed: those of the "
                f"exact density, {densities[0].names}"
            )


def start_values(densities: Sequence[LogDensity], position: np.ndarray) -> tuple[float, ...]:
    """Log densities at a start, all finite, or an error that names the one that is not."""
    names = ["the exact density", *(f"approximation {i}" for i in range(1, len(densities)))]
    return tuple(
        finite_start(density, position, name)
        for density, name in zip(densities, names, strict=True)
    )
