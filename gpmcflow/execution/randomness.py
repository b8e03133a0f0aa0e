"""One random stream per chain, the same whatever chains, blocks or workers stand beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from gpmcflow.errors import InputError

_WORD = (1 << 32) - 1
_HALF = (1 << 64) - 1


def stable_key(*parts: str | int) -> tuple[int, ...]:
    """Return 32-bit words that name `parts` in every process and on every machine.

    A str gives the 8 words of its SHA-256 (`hash()` changes from process to process), an int below
    2**32 is its own word, a larger one gives the 8 words of a SHA-256 of its digits. Raises
    `InputError` for negative integers and other types.
    """
    words: list[int] = []
    for part in parts:
        if isinstance(part, str):
            words += _hash_words(part.encode())
        elif isinstance(part, bool) or not isinstance(part, (int, np.integer)):
            raise InputError(f"random key: {part!r} is not a str or int; use names and indices.")
        elif part < 0:
            raise InputError(f"random key: {part} is negative; use an integer >= 0.")
        else:
            words += [int(part)] if part <= _WORD else _hash_words(b"\0int" + str(part).encode())
    return tuple(words)


def _hash_words(data: bytes) -> list[int]:
    digest = hashlib.sha256(data).digest()
    return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]


def chain_generators(seed: int, *key: str | int, chains: Sequence[int]) -> ChainGenerators:
    """Return one PCG64 generator per chain, keyed by (seed, *key, chain).

    Chain k has the same stream whatever `chains` it is built with, so chains can be added later.
    Raises `InputError` for a negative seed or chain.
    """
    words = stable_key(seed, *key)
    numbers = [stable_key(chain)[0] for chain in chains]
    # The number of words goes first because SeedSequence pads with zeros: [1] and [1, 0] are alike.
    entropy = (len(words), *words)
    sequences = [np.random.SeedSequence(entropy, spawn_key=(number,)) for number in numbers]
    return ChainGenerators([np.random.PCG64(sequence) for sequence in sequences], numbers)


class ChainGenerators:
    """The generators of a block's chains; draws have the chain axis first. Picklable.

    `chains` holds the chain numbers.
    """

    def __init__(self, bit_generators: Sequence[np.random.PCG64], chains: Sequence[int]):
        self.chains = tuple(int(chain) for chain in chains)
        self._bits = list(bit_generators)
        generators = [np.random.Generator(bits) for bits in self._bits]
        self._normal = [generator.standard_normal for generator in generators]
        self._uniform = [generator.random for generator in generators]

    def __len__(self) -> int:
        return len(self._bits)

    def standard_normal(self, size: int | tuple[int, ...] = ()) -> np.ndarray:
        """Return N(0, 1) draws of shape (chain, *size)."""
        return _draw(self._normal, size)

    def uniform(self, size: int | tuple[int, ...] = ()) -> np.ndarray:
        """Return uniform draws on [0, 1) of shape (chain, *size)."""
        return _draw(self._uniform, size)

    def generator(self, index: int) -> np.random.Generator:
        """Return the generator of one chain, for draws that are not one per chain."""
        return np.random.Generator(self._bits[index])

    @property
    def state(self) -> np.ndarray:
        """Everything the streams depend on, uint64 (chain, 6).

        Columns: PCG64 state (high, low), increment (high, low), has_uint32, uinteger.
        """
        rows = np.empty((len(self), 6), dtype=np.uint64)
        for row, bits in zip(rows, self._bits, strict=True):
            full = bits.state
            state, inc = full["state"]["state"], full["state"]["inc"]
            row[:4] = state >> 64, state & _HALF, inc >> 64, inc & _HALF
            row[4:] = full["has_uint32"], full["uinteger"]
        return rows

    @classmethod
    def from_state(cls, state: np.ndarray, chains: Sequence[int] | None = None) -> ChainGenerators:
        """Return generators that go on from `state`; `chains` are their numbers, 0, 1, ... if None.

        Raises `InputError` when `state` is not a uint64 array (chain, 6).
        """
        state = np.asarray(state)
        chains = range(len(state)) if chains is None else chains
        if state.dtype != np.uint64 or state.shape != (len(chains), 6):
            raise InputError(
                f"generator state: found {state.dtype} {state.shape}, "
                f"expected uint64 ({len(chains)}, 6); use ChainGenerators.state."
            )
        bit_generators = []
        for row in state.tolist():
            bits = np.random.PCG64(0)
            bits.state = {
                "bit_generator": "PCG64",
                "state": {"state": row[0] << 64 | row[1], "inc": row[2] << 64 | row[3]},
                "has_uint32": row[4],
                "uinteger": row[5],
            }
            bit_generators.append(bits)
        return cls(bit_generators, chains)

    def __reduce__(self):
        return ChainGenerators.from_state, (self.state, self.chains)


def _draw(draws: list, size: int | tuple[int, ...]) -> np.ndarray:
    shape = _shape(size)
    if not shape:
        return np.array([draw() for draw in draws], dtype=float)
    out = np.empty((len(draws), *shape))
    for draw, row in zip(draws, out, strict=True):
        draw(out=row)
    return out


def _shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return (size,) if isinstance(size, (int, np.integer)) else tuple(size)


class RandomRows:
    """Random numbers for batches of several rows to a chain: temperatures, or particles; chain by chain.

    The streams of a block's chains, ``n_rows`` rows of a batch drawn from each.
    Row c n_rows + t is row t of chain c, so that a chain draws the same numbers whatever chains
    stand beside it. What samplers call: see `gpmcflow.samplers.latent.protocol.ChainRandom`.
    """

    def __init__(self, rng: ChainGenerators, n_rows: int, chains: list[int] | None = None) -> None:
        chains = range(len(rng)) if chains is None else chains
        self._generators = [rng.generator(chain) for chain in chains]
        self._n_rows = n_rows

    def standard_normal(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Standard normals (chain x n_rows, *size)."""
        shape = (self._n_rows, *_shape(size))
        return np.concatenate([g.standard_normal(shape) for g in self._generators])

    def uniform(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Uniforms on [0, 1), (chain x n_rows, *size)."""
        shape = (self._n_rows, *_shape(size))
        return np.concatenate([g.random(shape) for g in self._generators])

    def generator(self, row: int) -> np.random.Generator:
        """The stream of the chain that a row belongs to."""
        return self._generators[row // self._n_rows]
