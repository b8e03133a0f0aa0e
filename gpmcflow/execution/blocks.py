"""What runs: a program, and the fixed blocks and segments its chains and draws are cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution.randomness import ChainGenerators

Arrays = dict[str, np.ndarray]


@runtime_checkable
class Program(Protocol):
    """Something to run for many draws: picklable, pure, and safe to call from several threads."""

    def start(self, rng: ChainGenerators) -> Arrays:
        """Return the carry before the first draw: arrays with the chain axis first.

        `rng` has one generator for each chain of the block, whose numbers are `rng.chains`.
        """
        ...

    def advance(
        self, rng: ChainGenerators, carry: Arrays, start: int, stop: int
    ) -> tuple[Arrays, Arrays]:
        """Return the carry after draws start..stop-1, and outputs (chain, stop - start, *trailing).

        Cutting the draws elsewhere must not change them: all that goes on is in `carry` and `rng`.
        """
        ...

    def outputs(self) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Return name -> (trailing shape, dtype) of each output."""
        ...

    # Optional: `digest() -> str`, of all the numbers the program holds. Segments on disk that another
    # program left are then computed again; without it they are told apart by `settings` alone.


@dataclass(frozen=True)
class Grid:
    """Chains cut into blocks, starting at `first_chain`, and draws 0 .. length - 1 into segments.

    The last block and the last segment may be shorter.
    """

    n_chains: int
    length: int
    block_size: int
    segment_length: int
    first_chain: int = 0

    def __post_init__(self):
        for name in ("n_chains", "length", "block_size", "segment_length"):
            _require_integer(name, getattr(self, name), 1)
        _require_integer("first_chain", self.first_chain, 0)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and one-past-last chain of each block."""
        return _cut(self.first_chain, self.first_chain + self.n_chains, self.block_size)

    @property
    def segments(self) -> list[tuple[int, int]]:
        """First and one-past-last draw of each segment."""
        return _cut(0, self.length, self.segment_length)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, without a list of them."""
        return -(-self.n_chains // self.block_size)

    @property
    def n_segments(self) -> int:
        """Number of segments of a block, without a list of them."""
        return -(-self.length // self.segment_length)

    def chunks(self, trailing: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Return the Dask chunks of an output: one chunk for each block and segment."""
        blocks = tuple(stop - start for start, stop in self.blocks)
        segments = tuple(stop - start for start, stop in self.segments)
        return (blocks, segments, *((n,) for n in trailing))


def _cut(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


def _require_integer(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"run: {name} is {value!r}, allowed are integers >= {least}.")


def check_carry(carry: Arrays, n_chains: int) -> Arrays:
    """Return `carry` as NumPy arrays; raise `InputError` for one that has no chain axis first."""
    arrays = {name: np.asarray(value) for name, value in carry.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != n_chains or array.dtype.hasobject:
            raise InputError(
                f"program: carry {name!r} is {array.dtype} {array.shape}, "
                f"expected numbers with the chain axis first ({n_chains}, ...)."
            )
    return arrays


def check_outputs(
    outputs: Arrays, spec: Mapping[str, tuple[tuple[int, ...], str]], n_chains: int, n_draws: int
) -> Arrays:
    """Return `outputs` as NumPy arrays; raise `InputError` unless they are what `spec` promises."""
    if set(outputs) != set(spec):
        raise InputError(
            f"program: advance returned {sorted(outputs)}, outputs() promises {sorted(spec)}."
        )
    arrays = {name: np.asarray(outputs[name]) for name in sorted(spec)}
    for name, array in arrays.items():
        trailing, dtype = spec[name]
        shape = (n_chains, n_draws, *trailing)
        if array.shape != shape or array.dtype != np.dtype(dtype):
            raise InputError(
                f"program: output {name!r} is {array.dtype} {array.shape}, "
                f"outputs() promises {np.dtype(dtype)} {shape}."
            )
    return arrays
