"""The columns of a basis at inputs, and products with them, without a matrix of n x m numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpmcflow.covariances.basis_blocks import (
    BasisBlocks,
    Block,
    EigenBlock,
)
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


WIDE = 8  # functions of each level from which their blocks are made one by one

# The columns of a basis at inputs, and products with them, without a matrix of n x m numbers.
#
# Eigenfunctions are sums of sines by recurrence (`SineSeries`), indicators of levels whole numbers;
# slopes, intercepts and waves are columns.


class _Levels(NamedTuple):
    """Columns that are 0 but for the rows of one level: indicators times numbers of each row."""

    own: slice  #: their places among all columns
    codes: np.ndarray  #: (n,), ``size`` for another level
    size: int
    multipliers: np.ndarray  #: (n, k): k columns of each level, one after another

    def multiply(self, coefficients: np.ndarray, out: np.ndarray) -> None:
        width = self.multipliers.shape[1]
        of_level = np.zeros((self.size + 1, width))  # 0 for a level that is not among them
        of_level[: self.size] = coefficients[self.own].reshape(-1, width)
        for k in range(width):
            out += self.multipliers[:, k] * of_level[self.codes, k]

    def pull_back(self, v: np.ndarray, out: np.ndarray) -> None:
        own = out[self.own].reshape(self.size, -1)
        for k, column in enumerate(self.multipliers.T):
            sums = np.bincount(self.codes, weights=v * column, minlength=self.size)
            own[:, k] = sums[: self.size]

    def matrix(self, rows: slice) -> np.ndarray:
        is_level = self.codes[rows, None] == np.arange(self.size)
        return (is_level[:, :, None] * self.multipliers[rows, None, :]).reshape(len(is_level), -1)


class BasisDesign:
    """Phi (n, m) at the rows of X (n, p): products with it, its transpose, and Phi' W Phi.

    ``unknown`` holds (block, rows, X of these) that a block says nothing of, as they lie outside its box or
    are of another level. Its columns are 0 there.
    """

    def __init__(self, blocks: BasisBlocks, X: np.ndarray) -> None:
        self.n, self.m = len(X), blocks.size
        self.unknown: list[tuple[Block, np.ndarray, np.ndarray]] = []
        self._series: list[tuple[slice, SineSeries]] = []
        self._levels: list[_Levels] = []
        places, columns = [], []
        for block, own in zip(blocks.blocks, blocks.slices, strict=True):
            if (rows := block.unknown(X)).any():
                self.unknown.append((block, rows, X[rows]))
            if levels := block.indicators:
                self._levels.append(_Levels(own, levels.codes(X), levels.size, block.values(X)))
            elif isinstance(block, EigenBlock):
                self._series.append((own, block.functions(X)))
            else:
                places += range(own.start, own.stop)
                columns.append(block.values(X))
        self._places = np.array(places, dtype=int)
        self._columns = np.hstack(columns) if columns else np.empty((self.n, 0))

    def multiply(self, coefficients: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Phi b into ``out`` (n,), b (m,)."""
        np.dot(self._columns, coefficients[self._places], out=out)
        for levels in self._levels:
            levels.multiply(coefficients, out)
        for own, series in self._series:
            series.add(coefficients[own], out)
        return out

    def pull_back(self, v: np.ndarray) -> np.ndarray:
        """Phi' v (m,) of v (n,)."""
        out = np.empty(self.m)
        out[self._places] = v @ self._columns
        for levels in self._levels:
            levels.pull_back(v, out)
        for own, series in self._series:
            out[own] = series.pull_back(v)
        return out

    def gram(self, weights: np.ndarray) -> ArrowMatrix:
        """Phi' diag(weights) Phi, a tile of rows at a time; the term of most levels is the diagonal block.

        Of a term with many functions of each level, such as a curve, only the blocks of its levels are made.
        """
        alone = [levels for levels in self._levels if levels.multipliers.shape[1] == 1]
        most = max(alone, key=lambda levels: levels.size, default=None)
        wide = max(self._levels, key=lambda levels: levels.multipliers.shape[1], default=None)
        width = 0 if wide is None else wide.multipliers.shape[1]
        if width >= WIDE and (most is None or most.size <= wide.size * width):
            return self._gram_by_level(weights, wide)
        tips = np.arange(0) if most is None else np.arange(most.own.start, most.own.stop)
        rest = np.setdiff1d(np.arange(self.m), tips)
        d, E = np.zeros(len(tips)), np.zeros((len(tips), len(rest)))
        F = np.zeros((len(rest), len(rest)))
        for rows, functions in self.rows(skip=most):
            weighted = weights[rows, None] * functions[:, rest]
            F += functions[:, rest].T @ weighted
            if most is not None:
                _add_rows(most.codes[rows], most.multipliers[rows] * weighted, E)
        if most is not None:
            squares = weights * np.square(most.multipliers[:, 0])
            d = np.bincount(most.codes, weights=squares, minlength=most.size)[: most.size]
        return ArrowMatrix(tips, rest, d, np.ascontiguousarray(E.T), F)

    def _gram_by_level(self, weights: np.ndarray, wide: _Levels) -> ArrowMatrix:
        """The same, full, by the rows of each level of a term."""
        own = np.arange(wide.own.start, wide.own.stop)
        others, width = np.setdiff1d(np.arange(self.m), own), wide.multipliers.shape[1]
        F = np.zeros((len(others), len(others)))
        E, D = np.zeros((wide.size, width, len(others))), np.zeros((wide.size, width, width))
        for rows, functions in self.rows(skip=wide):
            plain = functions[:, others]
            weighted = weights[rows, None] * plain
            F += plain.T @ weighted
            codes, multipliers = wide.codes[rows], wide.multipliers[rows]
            order = np.argsort(codes, kind="stable")
            ends = np.searchsorted(codes[order], np.arange(wide.size + 1))
            for level in np.flatnonzero(np.diff(ends)):
                of_level = order[ends[level] : ends[level + 1]]
                M = multipliers[of_level]
                E[level] += M.T @ weighted[of_level]
                D[level] += (weights[rows][of_level, None] * M).T @ M
        G = np.zeros((self.m, self.m))
        G[np.ix_(others, others)] = F
        flat = E.reshape(len(own), len(others))
        G[np.ix_(own, others)], G[np.ix_(others, own)] = flat, flat.T
        for level in range(wide.size):
            at = slice(wide.own.start + level * width, wide.own.start + (level + 1) * width)
            G[at, at] = D[level]
        none = np.zeros(0)
        return ArrowMatrix(none.astype(int), np.arange(self.m), none, np.zeros((self.m, 0)), G)

    def rows(self, skip: _Levels | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Phi of a tile of rows after the other, (rows, (b, m)); columns of the levels ``skip`` undefined."""
        for k, rows in enumerate(self._tiles()):
            out = np.empty((rows.stop - rows.start, self.m))
            columns, *series = self._smooth(k, rows)
            out[:, self._places] = columns
            for (own, _), functions in zip(self._series, series, strict=True):
                out[:, own] = functions
            for levels in self._levels:
                if levels is not skip:
                    out[:, levels.own] = levels.matrix(rows)
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
        for block, rows, X in self.unknown:
            variance[rows] += block.prior_variance(full, X)
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
