"""The columns of a basis at inputs, and products with them that never hold n x m numbers of many columns.

Eigenfunctions of one column, slopes and intercepts are one matrix; those of 2 and 3 columns are kept as the
functions of each column, whose products they are; indicators of levels as whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from gpmcflow.covariances.basis_blocks import (
    BasisBlocks,
    ColumnBlock,
    EigenBlock,
    LevelBlock,
)

ROWS = 1024  # at a time: what is made of them stays in cache


class BasisDesign:
    """Phi (n, m) at the rows of X (n, p): products with it, its transpose, and Phi' W Phi.

    ``unknown`` holds (block, rows) that a block says nothing of: outside its box, or of another level.
    """

    def __init__(self, blocks: BasisBlocks, X: np.ndarray) -> None:
        self.n, self.m = len(X), blocks.size
        self.unknown: list[tuple[EigenBlock | LevelBlock, np.ndarray]] = []
        self._products: list[tuple[slice, list[np.ndarray]]] = []
        self._levels: list[tuple[slice, np.ndarray, int]] = []
        dense: list[tuple[slice, EigenBlock | ColumnBlock]] = []
        for block, own in zip(blocks.blocks, blocks.slices, strict=True):
            if isinstance(block, LevelBlock):
                codes = block.codes(X)
                self._note(block, codes == block.size)
                self._levels.append((own, codes, block.size))
                continue
            if isinstance(block, EigenBlock):
                self._note(block, block.outside(X))
                if len(block.sizes) > 1:
                    self._products.append((own, list(block.axes(X))))
                    continue
            dense.append((own, block))
        places = [np.arange(own.start, own.stop) for own, _ in dense]
        self._dense_places = np.concatenate(places) if places else np.empty(0, dtype=int)
        self._dense = np.empty((self.n, len(self._dense_places)))
        self._fill(dense, X)

    def _note(self, block: EigenBlock | LevelBlock, rows: np.ndarray) -> None:
        if rows.any():
            self.unknown.append((block, rows))

    def _fill(self, dense: list, X: np.ndarray) -> None:
        for rows in self._blocks():
            at = 0
            for own, block in dense:
                width = own.stop - own.start
                values = (
                    next(block.axes(X[rows]))
                    if isinstance(block, EigenBlock)
                    else block.values(X[rows])[:, None]
                )
                self._dense[rows, at : at + width] = values
                at += width

    def _blocks(self) -> Iterator[slice]:
        for first in range(0, self.n, ROWS):
            yield slice(first, min(first + ROWS, self.n))

    def multiply(self, coefficients: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Phi b into ``out`` (n,), b (m,)."""
        np.dot(self._dense, coefficients[self._dense_places], out=out)
        for own, codes, size in self._levels:
            of_level = np.zeros(size + 1)  # 0 for a level that is not among them
            of_level[:size] = coefficients[own]
            out += of_level[codes]
        for own, (first, *others) in self._products:
            matrix = coefficients[own].reshape(first.shape[1], -1)
            for rows in self._blocks():
                out[rows] += np.einsum("ij,ij->i", first[rows] @ matrix, _products(others, rows))
        return out

    def pull_back(self, v: np.ndarray) -> np.ndarray:
        """Phi' v (m,) of v (n,)."""
        out = np.empty(self.m)
        out[self._dense_places] = v @ self._dense
        for own, codes, size in self._levels:
            out[own] = np.bincount(codes, weights=v, minlength=size)[:size]
        for own, (first, *others) in self._products:
            total = 0.0
            for rows in self._blocks():
                total = total + first[rows].T @ (v[rows, None] * _products(others, rows))
            out[own] = total.ravel()
        return out

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Phi' diag(weights) Phi (m, m), rows of it at a time."""
        G = np.zeros((self.m, self.m))
        smooth = np.concatenate(
            [self._dense_places, *(np.arange(own.start, own.stop) for own, _ in self._products)]
        ).astype(int)
        total = np.zeros((len(smooth), len(smooth)))
        for rows in self._blocks():
            own_weights = weights[rows, None]
            functions = [self._dense[rows]]
            functions += [_products(factors, rows) for _, factors in self._products]
            block = np.concatenate(functions, axis=1) if len(functions) > 1 else functions[0]
            weighted = own_weights * block
            total += block.T @ weighted
            indicators = [
                (own, _indicators(codes[rows], size)) for own, codes, size in self._levels
            ]
            for k, (own, of_levels) in enumerate(indicators):
                G[own, smooth] += of_levels.T @ weighted
                own_weighted = of_levels.multiply(own_weights).tocsr()
                for other, of_others in indicators[k:]:
                    G[own, other] += (own_weighted.T @ of_others).toarray()
        G[np.ix_(smooth, smooth)] = total
        for k, (own, *_) in enumerate(self._levels):
            G[smooth, own] = G[own, smooth].T
            for other, *_ in self._levels[k + 1 :]:
                G[other, own] = G[own, other].T
        return G

    def rows(self, rows: slice) -> np.ndarray:
        """Phi of some rows (b, m)."""
        out = np.empty((len(range(*rows.indices(self.n))), self.m))
        out[:, self._dense_places] = self._dense[rows]
        for own, codes, size in self._levels:
            out[:, own] = _indicators(codes[rows], size).toarray()
        for own, factors in self._products:
            out[:, own] = _products(factors, rows)
        return out

    def unknown_variance(self, full: np.ndarray) -> np.ndarray:
        """Prior variance (n,) of what no weight tells: at rows outside a box, or of another level."""
        variance = np.zeros(self.n)
        for block, rows in self.unknown:
            variance[rows] += block.unknown_variance(full)
        return variance


def _products(factors: list[np.ndarray], rows: slice) -> np.ndarray:
    """Products of the functions of each column (b, m), the last column's fastest."""
    out = factors[0][rows]
    for factor in factors[1:]:
        out = (out[:, :, None] * factor[rows, None, :]).reshape(len(out), -1)
    return out


def _indicators(codes: np.ndarray, size: int) -> csr_array:
    known = codes < size
    starts = np.concatenate([[0], np.cumsum(known)])
    return csr_array((np.ones(starts[-1]), codes[known], starts), shape=(len(codes), size))
