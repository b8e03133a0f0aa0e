"""The columns of a basis at inputs, and products with them, without a matrix of n x m numbers.

Eigenfunctions are sums of sines by recurrence (`SineSeries`), indicators of levels whole numbers; slopes and
intercepts are columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from gpmcflow.covariances.basis_blocks import BasisBlocks, EigenBlock, LevelBlock
from gpmcflow.covariances.sine_series import TILE, SineSeries


class BasisDesign:
    """Phi (n, m) at the rows of X (n, p): products with it, its transpose, and Phi' W Phi.

    ``unknown`` holds (block, rows) that a block says nothing of: outside its box, or of another level.
    """

    def __init__(self, blocks: BasisBlocks, X: np.ndarray) -> None:
        self.n, self.m = len(X), blocks.size
        self.unknown: list[tuple[EigenBlock | LevelBlock, np.ndarray]] = []
        self._series: list[tuple[slice, SineSeries]] = []
        self._levels: list[tuple[slice, np.ndarray, int]] = []
        places, columns = [], []
        for block, own in zip(blocks.blocks, blocks.slices, strict=True):
            if isinstance(block, LevelBlock):
                codes = block.codes(X)
                self._note(block, codes == block.size)
                self._levels.append((own, codes, block.size))
            elif isinstance(block, EigenBlock):
                self._note(block, block.outside(X))
                self._series.append((own, block.functions(X)))
            else:
                places.append(own.start)
                columns.append(block.values(X))
        self._places = np.array(places, dtype=int)
        self._columns = np.column_stack(columns) if columns else np.empty((self.n, 0))

    def _note(self, block: EigenBlock | LevelBlock, rows: np.ndarray) -> None:
        if rows.any():
            self.unknown.append((block, rows))

    def multiply(self, coefficients: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Phi b into ``out`` (n,), b (m,)."""
        np.dot(self._columns, coefficients[self._places], out=out)
        for own, codes, size in self._levels:
            of_level = np.zeros(size + 1)  # 0 for a level that is not among them
            of_level[:size] = coefficients[own]
            out += of_level[codes]
        for own, series in self._series:
            series.add(coefficients[own], out)
        return out

    def pull_back(self, v: np.ndarray) -> np.ndarray:
        """Phi' v (m,) of v (n,)."""
        out = np.empty(self.m)
        out[self._places] = v @ self._columns
        for own, codes, size in self._levels:
            out[own] = np.bincount(codes, weights=v, minlength=size)[:size]
        for own, series in self._series:
            out[own] = series.pull_back(v)
        return out

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Phi' diag(weights) Phi (m, m), a tile of rows at a time."""
        G = np.zeros((self.m, self.m))
        of_series = [np.arange(own.start, own.stop) for own, _ in self._series]
        smooth = np.concatenate([self._places, *of_series])
        total = np.zeros((len(smooth), len(smooth)))
        for k, rows in enumerate(self._tiles()):
            of_tile = weights[rows, None]
            functions = np.concatenate(self._smooth(k, rows), axis=1)
            weighted = of_tile * functions
            total += functions.T @ weighted
            indicators = [
                (own, _indicators(codes[rows], size)) for own, codes, size in self._levels
            ]
            for at, (own, of_levels) in enumerate(indicators):
                G[own, smooth] += of_levels.T @ weighted
                own_weighted = of_levels.multiply(of_tile).tocsr()
                for other, of_others in indicators[at:]:
                    G[own, other] += (own_weighted.T @ of_others).toarray()
        G[np.ix_(smooth, smooth)] = total
        for k, (own, *_) in enumerate(self._levels):
            G[smooth, own] = G[own, smooth].T
            for other, *_ in self._levels[k + 1 :]:
                G[other, own] = G[own, other].T
        return G

    def rows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Phi of a tile of rows after the other: (rows, (b, m))."""
        for k, rows in enumerate(self._tiles()):
            out = np.empty((rows.stop - rows.start, self.m))
            columns, *series = self._smooth(k, rows)
            out[:, self._places] = columns
            for (own, _), functions in zip(self._series, series, strict=True):
                out[:, own] = functions
            for own, codes, size in self._levels:
                out[:, own] = _indicators(codes[rows], size).toarray()
            yield rows, out

    def matrix(self) -> np.ndarray:
        """Phi (n, m) in full."""
        out = np.empty((self.n, self.m))
        for rows, values in self.rows():
            out[rows] = values
        return out

    def unknown_variance(self, full: np.ndarray) -> np.ndarray:
        """Prior variance (n,) of what no weight tells: at rows outside a box, or of another level."""
        variance = np.zeros(self.n)
        for block, rows in self.unknown:
            variance[rows] += block.unknown_variance(full)
        return variance

    def _tiles(self) -> Iterator[slice]:
        for first in range(0, self.n, TILE):
            yield slice(first, min(first + TILE, self.n))

    def _smooth(self, k: int, rows: slice) -> list[np.ndarray]:
        """Columns, and functions of each series, of the rows of tile k."""
        size = rows.stop - rows.start
        return [self._columns[rows], *(series.tile(k, size) for _, series in self._series)]


def _indicators(codes: np.ndarray, size: int) -> csr_array:
    known = codes < size
    starts = np.concatenate([[0], np.cumsum(known)])
    return csr_array((np.ones(starts[-1]), codes[known], starts), shape=(len(codes), size))
