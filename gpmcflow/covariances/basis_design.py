"""The columns of a basis at inputs, and products with them, without a matrix of n x m numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpmcflow.covariances.basis_blocks import (
    BasisBlocks,
    Block,
    EigenBlock,
    LevelBlock,
)
from gpmcflow.covariances.level_products import add_outer, add_products, add_sums
from gpmcflow.covariances.sine_series import TILE, SineSeries

MOST_KEPT = 2**17  # numbers of a design that is held in full, a megabyte


class ArrowMatrix(NamedTuple):
    """A symmetric matrix that is a block for each level beside some rows and columns: Phi' W Phi with levels.

    [[diag(D_1, .., D_L), E'], [E, F]], the first part at places ``tips``, level by level, the second at
    ``rest``. With no tips it is a full matrix.
    """

    tips: np.ndarray  #: (L k,)
    rest: np.ndarray  #: (r,)
    D: np.ndarray  #: (L, k, k)
    E: np.ndarray  #: (r, L k)
    F: np.ndarray  #: (r, r)

    @classmethod
    def full(cls, F: np.ndarray) -> ArrowMatrix:
        """A matrix (m, m) without levels."""
        m = len(F)
        return cls(np.arange(0), np.arange(m), np.empty((0, 1, 1)), np.empty((m, 0)), F)

    def dot(self, v: np.ndarray) -> np.ndarray:
        """Its product with v (m,)."""
        a, b = v[self.tips], v[self.rest]
        out = np.empty(len(v))
        out[self.tips] = by_level(self.D, a) + b @ self.E
        out[self.rest] = self.E @ a + self.F @ b
        return out

    def scaled(self, factor: float) -> ArrowMatrix:
        """The matrix times a number."""
        return self._replace(D=factor * self.D, E=factor * self.E, F=factor * self.F)

    def dense(self) -> np.ndarray:
        """All of it (m, m)."""
        out = np.zeros((len(self.tips) + len(self.rest),) * 2)
        for own, D in zip(self.tips.reshape(self.D.shape[:2]), self.D, strict=True):
            out[np.ix_(own, own)] = D
        out[np.ix_(self.rest, self.tips)], out[np.ix_(self.tips, self.rest)] = self.E, self.E.T
        out[np.ix_(self.rest, self.rest)] = self.F
        return out


def by_level(matrices: np.ndarray, X: np.ndarray, transposed: bool = False) -> np.ndarray:
    """M_l x_l, or M_l' x_l, of x = (x_1, .., x_L) in the rows of X (.., L k), ``matrices`` (L, k, k)."""
    if matrices.shape[1] == 1:
        return X * matrices.ravel()
    L, k, _ = matrices.shape
    out = np.empty(X.shape)
    rows, found = (each.reshape(-1, L, k).transpose(1, 0, 2) for each in (X, out))
    np.matmul(rows, matrices if transposed else matrices.transpose(0, 2, 1), out=found)
    return out


class _Levels(NamedTuple):
    """Columns that are 0 but for the rows of one level: indicators times numbers of each row."""

    places: np.ndarray  #: theirs among all columns (L, k)
    codes: np.ndarray  #: (n,), L for another level
    multipliers: np.ndarray  #: (n, k): k columns of each level
    #: rows of each level and their columns by recurrence, where the levels are large; else empty
    series: Sequence[tuple[np.ndarray, SineSeries]] = ()

    def multiply(self, coefficients: np.ndarray, out: np.ndarray) -> None:
        of_level = np.zeros((len(self.places) + 1, self.places.shape[1]))  # 0 for another level
        of_level[:-1] = coefficients[self.places]
        for own, (rows, series) in zip(of_level, self.series, strict=False):
            total = np.zeros(len(rows))
            series.add(own, total)
            out[rows] += total
        if not self.series:
            add_products(self.codes, self.multipliers, of_level, out)

    def pull_back(self, v: np.ndarray, out: np.ndarray) -> None:
        sums = np.zeros((len(self.places) + 1, self.places.shape[1]))
        for own, (rows, series) in zip(sums, self.series, strict=False):
            own[:] = series.pull_back(v[rows])
        if not self.series:
            add_sums(self.codes, self.multipliers, v, sums)
        out[self.places] = sums[:-1]

    def matrix(self, rows: slice) -> np.ndarray:
        is_level = self.codes[rows, None] == np.arange(len(self.places))
        return (is_level[:, :, None] * self.multipliers[rows, None, :]).reshape(len(is_level), -1)


class TipRows(NamedTuple):
    """A tile of rows of a design, in the parts of its `ArrowMatrix`."""

    rows: slice
    codes: np.ndarray  #: level of each row (b,), L for another one
    tips: np.ndarray  #: columns of its level (b, k)
    rest: np.ndarray  #: the other columns (b, r)


class BasisDesign:
    """Phi (n, m) at the rows of X (n, p): products with it, its transpose, and Phi' W Phi.

    Eigenfunctions are sums of sines by recurrence (`SineSeries`), indicators of levels whole numbers; slopes,
    intercepts and waves are columns. Terms of the same levels, such as an intercept and a slope of each
    group, are one set of levels. Of several sets the one that saves most is the tips of the `ArrowMatrix`.

    ``unknown`` holds (block, rows, X of these) that a block says nothing of, as they lie outside its box or
    are of another level. Its columns are 0 there.
    """

    def __init__(self, blocks: BasisBlocks, X: np.ndarray) -> None:
        self.n, self.m = len(X), blocks.size
        self.unknown: list[tuple[Block, np.ndarray, np.ndarray]] = []
        self._series: list[tuple[slice, SineSeries]] = []
        same: dict[tuple, list[tuple[LevelBlock, Block, slice]]] = {}
        places, columns = [], []
        for block, own in zip(blocks.blocks, blocks.slices, strict=True):
            if (rows := block.unknown(X)).any():
                self.unknown.append((block, rows, X[rows]))
            if levels := block.indicators:
                key = levels.columns, levels.levels.tobytes()
                same.setdefault(key, []).append((levels, block, own))
            elif isinstance(block, EigenBlock):
                self._series.append((own, block.functions(X)))
            else:
                places += range(own.start, own.stop)
                columns.append(block.values(X))
        self._places = np.array(places, dtype=int)
        self._columns = np.hstack(columns) if columns else np.empty((self.n, 0))
        self._levels = [_levels_of(terms, X) for terms in same.values()]
        self._tips = self._cheapest_tips()
        tips = np.arange(0) if self._tips is None else self._tips.places
        self._rest = np.setdiff1d(np.arange(self.m), tips)
        self._kept: dict[bool, list[tuple[slice, np.ndarray]]] = {}

    def _cheapest_tips(self) -> _Levels | None:
        """Levels whose blocks save the most of the m^3 that a factor of a full matrix takes."""

        def cost(levels: _Levels) -> int:
            (L, k), m = levels.places.shape, self.m
            return L * k**3 + (m - L * k) ** 2 * m

        best = min(self._levels, key=cost, default=None)
        return best if best is not None and cost(best) < self.m**3 else None

    @property
    def arrow_numbers(self) -> int:
        """Numbers of an `ArrowMatrix` of these functions: m^2 without levels, far fewer with many."""
        L, k = (0, 1) if self._tips is None else self._tips.places.shape
        r = len(self._rest)
        return L * k * k + r * L * k + r * r

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
        """Phi' diag(weights) Phi, a tile of rows at a time."""
        tips = np.empty((0, 1), dtype=int) if self._tips is None else self._tips.places
        (L, k), r = tips.shape, len(self._rest)
        of_levels, F = np.zeros((L, k, r + k)), np.zeros((r, r))
        for tile in self.tip_rows() if weights.any() else ():
            every = np.hstack([tile.rest, tile.tips]) if L else tile.rest
            weighted = weights[tile.rows, None] * every
            F += tile.rest.T @ weighted[:, :r]
            if L:
                add_outer(tile.codes, tile.tips, weighted, of_levels)
        E = np.ascontiguousarray(of_levels[:, :, :r].reshape(L * k, r).T)
        return ArrowMatrix(tips.ravel(), self._rest, of_levels[:, :, r:].copy(), E, F)

    def tip_rows(self, whole: bool = False) -> Iterator[TipRows]:
        """Tiles of rows in the parts of `gram`, or with all columns as its rest."""
        levels, rest = (None, np.arange(self.m)) if whole else (self._tips, self._rest)
        no_codes, nothing = np.empty(self.n, dtype=int), np.empty((self.n, 0))
        codes, tips = (no_codes, nothing) if levels is None else (levels.codes, levels.multipliers)
        for rows, functions in self._tiles_of(rest, levels):
            yield TipRows(rows, codes[rows], tips[rows], functions)

    def scaled_rows(self, s: np.ndarray) -> Iterator[tuple[slice, tuple[np.ndarray, ...]]]:
        """Phi diag(s), s (m,), by tiles of rows: columns of the row's level (b, k), and the others."""
        of_level = None
        if self._tips is not None:  # 0 for another level
            own = s[self._tips.places]
            of_level = np.vstack([own, np.zeros_like(own[:1])])
        for rows, codes, tips, rest in self.tip_rows():
            own = tips if of_level is None else tips * of_level[codes]
            yield rows, (own, rest * s[self._rest])

    def matrix(self) -> np.ndarray:
        """Phi (n, m) in full."""
        out = np.empty((self.n, self.m))
        for rows, *_, values in self.tip_rows(whole=True):
            out[rows] = values
        return out

    def unknown_variance(self, full: np.ndarray) -> np.ndarray:
        """Prior variance (n,) of what no weight tells: at rows outside a box, or of another level."""
        variance = np.zeros(self.n)
        for block, rows, X in self.unknown:
            variance[rows] += block.prior_variance(full, X)
        return variance

    def _tiles_of(
        self, places: np.ndarray, without: _Levels | None
    ) -> Iterable[tuple[slice, np.ndarray]]:
        """`_tiles`, which a design of few numbers makes once: EP asks for them twice a sweep."""
        if self.n * len(places) > MOST_KEPT:
            return self._tiles(places, without)
        kept = self._kept.get(without is None)
        if kept is None:
            kept = self._kept[without is None] = list(self._tiles(places, without))
            for _, functions in kept:
                functions.flags.writeable = False
        return kept

    def _tiles(
        self, places: np.ndarray, without: _Levels | None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """The columns at ``places``, all but those of some levels, of a tile of rows after the other."""
        at = np.zeros(self.m, dtype=int)
        at[places] = np.arange(len(places))
        for k, first in enumerate(range(0, self.n, TILE)):
            rows = slice(first, min(first + TILE, self.n))
            out = np.empty((rows.stop - first, len(places)))
            out[:, at[self._places]] = self._columns[rows]
            for own, series in self._series:
                out[:, at[own]] = series.tile(k, len(out))
            for levels in self._levels:
                if levels is not without:
                    out[:, at[levels.places.ravel()]] = levels.matrix(rows)
            yield rows, out


def _levels_of(terms: Sequence[tuple[LevelBlock, Block, slice]], X: np.ndarray) -> _Levels:
    """Terms of the same levels as one; the curves of large levels as series, too, which read no matrix."""
    levels, block, _ = terms[0]
    places = [np.arange(own.start, own.stop).reshape(levels.size, -1) for _, _, own in terms]
    multipliers = np.hstack([block.values(X) for _, block, _ in terms])
    codes, series = levels.codes(X), []
    factors = getattr(block, "others", ())
    curves = len(terms) == 1 and len(factors) == 1 and isinstance(factors[0], EigenBlock)
    if curves and len(X) >= TILE * levels.size:
        rows_of_levels = [np.flatnonzero(codes == level) for level in range(levels.size)]
        series = [(rows, factors[0].functions(X[rows])) for rows in rows_of_levels]
    return _Levels(np.hstack(places), codes, np.ascontiguousarray(multipliers), series)
