"""The columns of a basis at inputs, and products with them, without a matrix of n x m numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpmcflow.covariances.basis_blocks import BasisBlocks, EigenBlock, LevelBlock
from gpmcflow.covariances.sine_series import TILE, SineSeries
from gpmcflow.numerics.code_cache import compiled

# Symmetric matrices that are diagonal but for some rows and columns: Phi' W Phi with indicators.


class ArrowMatrix(NamedTuple):
    """[[diag(d), E'], [E, F]], the first block at places ``tips``, the second at ``rest`` of m in all.

    With no tips it is a full matrix.
    """

    tips: np.ndarray  #: (L,)
    rest: np.ndarray  #: (k,)
    d: np.ndarray  #: (L,)
    E: np.ndarray  #: (k, L)
    F: np.ndarray  #: (k, k)

    def dot(self, v: np.ndarray) -> np.ndarray:
        """Its product with v (m,)."""
        a, b = v[self.tips], v[self.rest]
        out = np.empty(len(v))
        out[self.tips] = self.d * a + b @ self.E
        out[self.rest] = self.E @ a + self.F @ b
        return out

    def scaled(self, factor: float) -> ArrowMatrix:
        """The matrix times a number."""
        return self._replace(d=factor * self.d, E=factor * self.E, F=factor * self.F)

    def dense(self) -> np.ndarray:
        """All of it (m, m)."""
        out = np.zeros((len(self.tips) + len(self.rest),) * 2)
        out[self.tips, self.tips] = self.d
        out[np.ix_(self.rest, self.tips)], out[np.ix_(self.tips, self.rest)] = self.E, self.E.T
        out[np.ix_(self.rest, self.rest)] = self.F
        return out


# The columns of a basis at inputs, and products with them, without a matrix of n x m numbers.
#
# Eigenfunctions are sums of sines by recurrence (`SineSeries`), indicators of levels whole numbers;
# slopes, intercepts and waves are columns.


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
                places += range(own.start, own.stop)
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

    def gram(self, weights: np.ndarray) -> ArrowMatrix:
        """Phi' diag(weights) Phi, a tile of rows at a time; the term of most levels is the diagonal block."""
        most = max(self._levels, key=lambda level: level[2], default=None)
        tips = np.arange(0) if most is None else np.arange(most[0].start, most[0].stop)
        rest = np.setdiff1d(np.arange(self.m), tips)
        d, E = np.zeros(len(tips)), np.zeros((len(tips), len(rest)))
        F = np.zeros((len(rest), len(rest)))
        for rows, functions in self.rows(skip=most):
            weighted = weights[rows, None] * functions[:, rest]
            F += functions[:, rest].T @ weighted
            if most is not None:
                _add_rows(most[1][rows], weighted, E)
        if most is not None:
            d = np.bincount(most[1], weights=weights, minlength=most[2])[: most[2]]
        return ArrowMatrix(tips, rest, d, np.ascontiguousarray(E.T), F)

    def rows(self, skip: tuple | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Phi of a tile of rows after the other, (rows, (b, m)); columns of the levels ``skip`` undefined."""
        for k, rows in enumerate(self._tiles()):
            out = np.empty((rows.stop - rows.start, self.m))
            columns, *series = self._smooth(k, rows)
            out[:, self._places] = columns
            for (own, _), functions in zip(self._series, series, strict=True):
                out[:, own] = functions
            for level in self._levels:
                if level is not skip:
                    own, codes, size = level
                    out[:, own] = codes[rows, None] == np.arange(size)
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


@compiled
def _add_rows(codes, rows, out):
    """out[codes_i] += rows_i."""
    for i in range(codes.size):
        for j in range(rows.shape[1]):
            out[codes[i], j] += rows[i, j]
