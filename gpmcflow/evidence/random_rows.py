"""Random numbers for batches whose rows are several to a chain: temperatures, or particles."""

from __future__ import annotations

import numpy as np

from gpmcflow.execution import ChainGenerators


class RandomRows:
    """The streams of a block's chains, ``n_rows`` rows of a batch drawn from each; chain by chain.

    Row c n_rows + t is row t of chain c, so that a chain draws the same numbers whatever chains
    stand beside it. What samplers call: see `gpmcflow.samplers.latent.protocol.ChainRandom`.
    """

    def __init__(self, rng: ChainGenerators, n_rows: int, chains: list[int] | None = None) -> None:
        chains = range(len(rng)) if chains is None else chains
        self._generators = [rng.generator(chain) for chain in chains]
        self._n_rows = n_rows

    def standard_normal(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Standard normals (chain x n_rows, *size)."""
        shape = self._shape(size)
        return np.concatenate([g.standard_normal(shape) for g in self._generators])

    def uniform(self, size: tuple[int, ...] | int = ()) -> np.ndarray:
        """Uniforms on [0, 1), (chain x n_rows, *size)."""
        shape = self._shape(size)
        return np.concatenate([g.random(shape) for g in self._generators])

    def generator(self, row: int) -> np.random.Generator:
        """The stream of the chain that a row belongs to."""
        return self._generators[row // self._n_rows]

    def _shape(self, size: tuple[int, ...] | int) -> tuple[int, ...]:
        trailing = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        return (self._n_rows, *trailing)
