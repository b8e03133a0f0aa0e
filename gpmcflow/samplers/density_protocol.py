"""What samplers of a log density are made of: states, transitions with an exact reverse, samplers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity, finite_start


class DensityState(NamedTuple):
    """One chain: where it stands, and what is known there, so that nothing is computed twice.

    Attributes
    ----------
    position:
        theta (d,).
    values:
        Log densities at theta, the exact one first; further ones as the sampler carries them.
    """

    position: np.ndarray
    values: tuple[float, ...]


class DensityInfo(NamedTuple):
    """What a transition tells.

    Attributes
    ----------
    accepted, acceptance_rate:
        Whether theta was replaced at all, and the mean acceptance probability of its proposals (1 for a
        slice update).
    failed:
        Whether a proposal had no finite density.
    """

    accepted: bool
    acceptance_rate: float
    failed: bool = False


class Transition(Protocol):
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


class DensitySampler(Protocol):
    """A sampler of exp(densities[0]); further densities are its stand-ins. One chain at a time.

    Frozen dataclass of settings, pure, picklable; all that changes is in the state and the generator.
    """

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start. Raises `NumericalError` where a density it needs is -inf there."""

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One iteration."""


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
