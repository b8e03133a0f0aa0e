"""What every sampler is: frozen settings that bind to what is sampled, and the transition that gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution.settings import Execution

LATENTS, DENSITY, JOINT = "latents", "density", "hyperparameters and latents"


class Transition(Protocol):
    """A sampler on one target. It may own buffers and keeps no state between calls.

    A `Sampler.batched` one moves all chains of a block: its arrays have the chain axis first, ``rng`` is a
    `ChainRandom`. Another one moves a single chain with a NumPy generator.
    """

    def init(self, rng: Any, start: Any) -> Any:
        """State at a start, what `Problem.start` gives; raises `NumericalError` where it has no density."""

    def step(self, rng: Any, state: Any) -> tuple[Any, Any]:
        """One transition: the next state, and an info with `Sampler.statistics` among its fields."""

    def record(self, rng: Any, state: Any) -> dict[str, Any]:
        """What a draw keeps: at least `Problem.recorded`."""


class Failures(NamedTuple):
    """Proposals that could not be judged, as counted in the statistics of a sampler."""

    failed: str  #: statistic that counts them
    asked: tuple[str, ...]  #: statistics whose sum counts all proposals; none: one a draw
    remedy: str  #: what failed, and what to do


NO_FIT = Failures(
    "n_failed", ("n_fit",),
    "had no fit (they were rejected); take JointSplitHMC, or narrower hyperpriors",
)  # fmt: skip


class Tuned(NamedTuple):
    """What an adaptation leaves: what to run in the place of what it was given."""

    sampler: Sampler
    problem: Any
    groups: dict[str, Any]  #: groups of results that tell what it chose and cost


class Sampler(ABC):
    """Frozen dataclass of settings, picklable. `bind` makes the transition of one target of its kind."""

    samples: ClassVar[str]  #: what it moves: LATENTS, DENSITY or JOINT
    moves_weights: ClassVar[bool] = True  #: whether latents may be weights of functions
    moves_cells: ClassVar[bool] = True  #: whether they may be those of the cells of a grid
    batched: ClassVar[bool] = False  #: whether all chains of a block move together
    needs_start: ClassVar[bool] = True  #: whether chains begin at the problem's starts
    state: ClassVar[type]  #: NamedTuple of arrays that its transitions go on from
    statistics: ClassVar[Mapping[str, str]]  #: fields of its info that draws keep: types on disk
    traced: ClassVar[tuple[str, ...]] = ()  #: numbers kept of all transitions that are thinned out
    failures: ClassVar[Failures]
    pieces: ClassVar[Mapping[str, int]] = {"block_size": 1, "segment_length": 500}  #: of its runs
    n_warmup: ClassVar[int] = 100  #: draws of a chain that are dropped by default
    least_acceptance: ClassVar[float] = 0.0  #: mean acceptance of a chain below which a run warns

    @abstractmethod
    def bind(self, target: Any, chain: int = 0) -> Transition:
        """Transition on a target; ``chain`` is the number of the chain of one that is not batched."""

    def adapt(
        self, problem: Any, *, n_chains: int, seed: int, key: Sequence[Any], execution: Execution
    ) -> Tuned:
        """Find settings that are then frozen, before the first draw: nothing unless a sampler needs it."""
        return Tuned(self, problem, {})

    def digest(self) -> str:
        """All that decides the numbers of its chains, as text."""
        return repr(self)

    def constants(self) -> dict[str, float]:
        """Settings that stand beside the statistics in results."""
        return {}


class ChainRandom(Protocol):
    """Random numbers for a batch: each call returns an array whose first axis is the chain."""

    def standard_normal(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Standard normals (chain, *size)."""

    def uniform(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Uniforms on [0, 1), (chain, *size)."""

    def generator(self, index: int) -> np.random.Generator:
        """The generator that a chain draws from, by its place in the batch."""


def require_count(where: str, name: str, value: Any) -> None:
    """Raise `InputError` unless a setting is a whole number >= 1."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1:
        raise InputError(f"{where}: {name} is {value!r}; allowed: a whole number >= 1")


def require_share(where: str, name: str, value: float, *, zero: bool = False) -> None:
    """Raise `InputError` unless a setting is between 0 and 1, or also 0 itself."""
    if not (0.0 < value < 1.0 or (zero and value == 0.0)):
        allowed = f"0 <= {name} < 1" if zero else "between 0 and 1"
        raise InputError(f"{where}: {name} is {value!r}; allowed: {allowed}")


def require_positive(where: str, value: Any) -> float | tuple[float, ...]:
    """A positive number, or a tuple of such; else `InputError`."""
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values) & (values > 0)):
        raise InputError(f"{where} is {value!r}; allowed: a positive number, or one a coordinate")
    return float(values[0]) if np.ndim(value) == 0 else tuple(values.tolist())
