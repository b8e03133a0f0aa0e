"""What every sampler is: frozen settings, a pure `init` and a pure `step`."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np

from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target


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

    @classmethod
    def explicit(
        cls,
        accepted: np.ndarray,
        acceptance_rate: np.ndarray,
        energy_error: np.ndarray,
        diverging: np.ndarray,
        n_gradient: np.ndarray,
    ) -> Self:
        """Info of a sampler that factorises nothing and solves no equations."""
        n = len(accepted)
        found = (accepted, acceptance_rate, energy_error, diverging, n_gradient)
        return cls(*found, np.zeros(n), np.zeros(n, dtype=bool))


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


class Sampler(Protocol):
    """A transition that leaves a `Target` invariant, for all chains of a batch at once."""

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Return the coordinates of a Gaussian that the sampler moves in; targets have to use them."""

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim)."""

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain."""


class ChainRandom(Protocol):
    """Random numbers for a batch: each call returns an array whose first axis is the chain."""

    def standard_normal(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Standard normals (chain, *size)."""

    def uniform(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Uniforms on [0, 1), (chain, *size)."""

    def generator(self, index: int) -> np.random.Generator:
        """The generator that a chain draws from, by its place in the batch."""
