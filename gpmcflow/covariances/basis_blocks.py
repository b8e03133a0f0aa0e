"""Blocks of columns of a basis, with their scales: f = sum_j s_j(theta) phi_j(x) w_j, w ~ N(0, I)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpmcflow.covariances.basis_functions import (
    fourier_log_scales,
    log_scales,
    squared_frequencies,
)
from gpmcflow.covariances.finite import FewFunctions
from gpmcflow.covariances.known_levels import KnownLevels, eigen_basis
from gpmcflow.covariances.sine_series import SineSeries
from gpmcflow.covariances.walks import Walk

ZERO = 1e-12  # of the largest eigenvalue: below it one is 0
Slope = tuple[int, np.ndarray]  # place in full, derivative of log s by it (size,)


class Block(ABC):
    """Columns of one term, with the scales of their weights."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of columns."""

    @abstractmethod
    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives."""

    @property
    def indicators(self) -> LevelBlock | None:
        """The levels of which each has columns that are 0 in all other rows; None without them."""
        return None

    @abstractmethod
    def values(self, X: np.ndarray) -> np.ndarray:
        """The columns at the rows of X (n, p), (n, size); those of one level, at its rows, if it has any."""

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) have a part that no weight tells: outside a box, or of another level."""
        return np.zeros(len(X), dtype=bool)

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Prior variance of the term at the rows of X (n, p), (n,)."""
        return np.square(self.values(X)) @ np.exp(2.0 * self.log_scales(full)[0])

    def unknown_draws(
        self, full: np.ndarray, X: np.ndarray, rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """Draws (n, m) from the prior of the term at `unknown` rows X (m, p)."""
        return np.sqrt(self.prior_variance(full, X)) * rng.standard_normal((n, len(X)))


@dataclass(frozen=True, eq=False)
class EigenBlock(Block):
    """Eigenfunctions of a box, of a squared exponential or Matern covariance."""

    term: str  #: name of the term
    columns: tuple[int, ...]
    nu: float
    centre: np.ndarray  #: (D,)
    half_widths: np.ndarray  #: of the box, (D,)
    data_half_widths: np.ndarray  #: (D,)
    sizes: tuple[int, ...]
    lengths: tuple[int, ...]  #: places of the length scales, one for each column
    amplitude: int
    squares: np.ndarray = field(init=False, repr=False)  #: omega^2 (D, size)

    def __post_init__(self) -> None:
        squares = squared_frequencies(self.half_widths, self.sizes)
        object.__setattr__(self, "squares", squares)

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(np.prod(self.sizes))

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives by log length scales and amplitude."""
        value, by_length = log_scales(self.nu, self.squares, full[list(self.lengths)])
        slopes = list(zip(self.lengths, by_length, strict=True))
        return value + full[self.amplitude], [(self.amplitude, np.ones(self.size)), *slopes]

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) lie outside the box, where there is nothing of it."""
        return np.any(np.abs(X[:, self.columns] - self.centre) > self.half_widths, axis=1)

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Square of the amplitude, (n,)."""
        return np.full(len(X), np.exp(2.0 * full[self.amplitude]))

    def functions(self, X: np.ndarray) -> SineSeries:
        """Functions of the rows of X (n, p); 0 outside the box."""
        x = (X[:, self.columns] - self.centre).T
        L = self.half_widths[:, None]
        factors = np.where(np.abs(x) <= L, L**-0.5, 0.0)
        return SineSeries(np.pi / (2.0 * L) * (x + L), factors, self.sizes)

    def values(self, X: np.ndarray) -> np.ndarray:
        """The functions (n, size)."""
        return self.functions(X).matrix()


@dataclass(frozen=True, eq=False)
class ColumnBlock(Block):
    """One column of X as it is, or ones: a slope or an intercept."""

    column: int | None
    scale: int  #: place of the log of its weight's standard deviation
    decay: int | None = None  #: place of log l where the variance has a factor exp(-1 / l)
    size = 1

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (1,) and its derivatives."""
        value, slopes = full[self.scale], [(self.scale, np.ones(1))]
        if self.decay is not None:
            half = 0.5 * np.exp(-full[self.decay])
            value, slopes = value - half, [*slopes, (self.decay, np.full(1, half))]
        return np.full(1, value), slopes

    def values(self, X: np.ndarray) -> np.ndarray:
        """The column (n, 1)."""
        return np.ones((len(X), 1)) if self.column is None else X[:, [self.column]]


@dataclass(frozen=True, eq=False)
class WaveBlock(Block):
    """1, cos(j t), sin(j t), j = 1 to ``n_waves``, of t = 2 pi x / period: a periodic covariance."""

    term: str  #: name of the term
    column: int
    period: float
    n_waves: int
    length: int  #: place of the log length scale
    amplitude: int

    @property
    def size(self) -> int:
        """Number of functions."""
        return 2 * self.n_waves + 1

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives by log length scale and amplitude."""
        value, slope = fourier_log_scales(self.n_waves, float(full[self.length]))
        both = np.concatenate([np.arange(self.n_waves + 1), np.arange(1, self.n_waves + 1)])
        slopes = [(self.amplitude, np.ones(self.size)), (self.length, slope[both])]
        return value[both] + full[self.amplitude], slopes

    def left_out(self, length: float) -> float:
        """Share of the variance in the waves beyond ``n_waves``."""
        return float(1.0 - np.exp(2.0 * fourier_log_scales(self.n_waves, np.log(length))[0]).sum())

    def values(self, X: np.ndarray) -> np.ndarray:
        """The functions (n, size)."""
        t = np.outer(2.0 * np.pi / self.period * X[:, self.column], np.arange(self.n_waves + 1.0))
        return np.hstack([np.cos(t), np.sin(t[:, 1:])])


@dataclass(frozen=True, eq=False)
class WalkBlock(Block):
    """Eigenfunctions of a random walk on both sides of its start, or their integrals."""

    leaf: Walk
    column: int
    ends: tuple[float, float]  #: before and after the start, in spans
    n_functions: int  #: of each side
    amplitude: int

    @property
    def size(self) -> int:
        """Number of functions."""
        return self.n_functions * int(np.count_nonzero(self.ends))

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,), that of the amplitude, and its derivative."""
        ones = np.ones(self.size)
        return full[self.amplitude] * ones, [(self.amplitude, ones)]

    def values(self, X: np.ndarray) -> np.ndarray:
        """The functions (n, size)."""
        return self.leaf.functions(X[:, [self.column]], self.ends, self.n_functions)

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) lie beyond the ends."""
        return self.leaf.outside(X[:, [self.column]], self.ends)

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """k(x, x) (n,)."""
        own = self.leaf.diagonal_of(X[:, [self.column]], np.empty(0))
        return np.exp(2.0 * full[self.amplitude]) * own


@dataclass(frozen=True, eq=False)
class LevelBlock(Block):
    """An indicator of each level of some columns: an intercept of each group."""

    columns: tuple[int, ...]
    levels: np.ndarray  #: (size, columns), in order
    scale: int  #: place of the log of its weights' standard deviation
    decay: int | None = None  #: place of log l where the variance has a factor 1 - exp(-1 / l)

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives."""
        ones = np.ones(self.size)
        value, slopes = full[self.scale], [(self.scale, ones)]
        if self.decay is not None:
            rate = np.exp(-full[self.decay])
            value = value + 0.5 * np.log(-np.expm1(-rate))
            slopes.append((self.decay, (-0.5 * rate / np.expm1(rate)) * ones))
        return value * ones, slopes

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Number of each row's level (n,), ``size`` for a level that is not among them."""
        rows, inverse = np.unique(X[:, self.columns], axis=0, return_inverse=True)
        known = {tuple(level): code for code, level in enumerate(self.levels.tolist())}
        code_of = np.array([known.get(tuple(row), self.size) for row in rows.tolist()], dtype=int)
        return code_of[inverse.ravel()]

    @property
    def indicators(self) -> LevelBlock:
        """Itself."""
        return self

    def values(self, X: np.ndarray) -> np.ndarray:
        """Ones (n, 1)."""
        return np.ones((len(X), 1))

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) have a level that is not among them."""
        return self.codes(X) == self.size

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of the weight of a level, whether it is among them or not, (n,)."""
        return np.full(len(X), np.exp(2.0 * self.log_scales(full)[0][0]))

    def unknown_draws(
        self, full: np.ndarray, X: np.ndarray, rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """A weight for each new level, at its rows (n, m)."""
        level = self.numbers(X)
        scale = np.exp(self.log_scales(full)[0][0])
        return scale * rng.standard_normal((n, level.max() + 1))[:, level]

    def numbers(self, X: np.ndarray) -> np.ndarray:
        """A number for each level that the rows of X have, whether among them or not, (n,)."""
        return np.unique(X[:, self.columns], axis=0, return_inverse=True)[1].ravel()


@dataclass(frozen=True, eq=False)
class StructureBlock(Block):
    """Eigenvectors of a known matrix between levels, exact: areas with neighbours, correlated groups."""

    leaf: KnownLevels
    column: int
    own: tuple[int, ...]  #: places of its parameters but the amplitude
    amplitude: int
    values_of: np.ndarray = field(init=False, repr=False)  #: eigenvalues (size,)
    vectors: np.ndarray = field(init=False, repr=False)  #: (level, size)

    def __post_init__(self) -> None:
        c, U = eigen_basis(self.leaf.structure)
        used = slice(None) if self.own else c > ZERO * c[-1]  # of others a parameter gives variance
        object.__setattr__(self, "values_of", np.maximum(c[used], 0.0))
        object.__setattr__(self, "vectors", U[:, used])

    @property
    def size(self) -> int:
        """Number of eigenvectors."""
        return len(self.values_of)

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,), s^2 = signal_sd^2 times the eigenvalues of k, and its derivatives."""
        variance, by_own = self.leaf.variances(self.values_of, full[list(self.own)])
        slopes = [(self.amplitude, np.ones(self.size))]
        slopes += [(p, 0.5 * slope / variance) for p, slope in zip(self.own, by_own, strict=True)]
        return 0.5 * np.log(variance) + full[self.amplitude], slopes

    def values(self, X: np.ndarray) -> np.ndarray:
        """The eigenvectors at each row's level (n, size)."""
        vectors = np.vstack([self.vectors, np.zeros(self.size)])
        return vectors[self.leaf.places_of(X[:, [self.column]])]

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) are of a level that is neither in the data nor known."""
        return self.leaf.places_of(X[:, [self.column]]) == self.leaf.n_levels

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Square of the amplitude times the diagonal, (n,)."""
        own = self.leaf.diagonal_of(X[:, [self.column]], full[list(self.own)])
        return np.exp(2.0 * full[self.amplitude]) * own

    def unknown_draws(
        self, full: np.ndarray, X: np.ndarray, rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """A value for each new level, at its rows (n, m)."""
        level = np.unique(X[:, self.column], return_inverse=True)[1]
        scale = np.exp(full[self.amplitude])
        return scale * rng.standard_normal((n, level.max() + 1))[:, level]


@dataclass(frozen=True, eq=False)
class MonomialBlock(Block):
    """Monomials of columns of X: a polynomial covariance."""

    functions: FewFunctions

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self.functions.constant)

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives."""
        exponents = self.functions.exponents
        slopes = [(int(place), exponents[:, place]) for place in np.flatnonzero(exponents.any(0))]
        return self.functions.log_scales(full), slopes

    def values(self, X: np.ndarray) -> np.ndarray:
        """The monomials (n, size)."""
        return self.functions.values(X)


class ProductBlock(Block):
    """All products of a function of each of several blocks: a slope or a curve of each level, and the like.

    Factors that are levels give one function for each combination that is among ``rows`` (n, p); weights
    are ordered by these, then by the functions of ``others``.

    Attributes
    ----------
    factors:
        The blocks that are multiplied, none a product itself.
    others:
        The factors without levels.
    """

    def __init__(self, factors: Sequence[Block], X: np.ndarray) -> None:
        self.factors = tuple(factors)
        self._of_levels = [block for block in factors if isinstance(block, LevelBlock)]
        self.others = tuple(block for block in factors if not isinstance(block, LevelBlock))
        self._levels: LevelBlock | None = None
        if self._of_levels:
            columns = tuple(
                dict.fromkeys(column for block in self._of_levels for column in block.columns)
            )
            self._levels = LevelBlock(columns, np.unique(X[:, columns], axis=0), -1)
        self.width = int(np.prod([block.size for block in self.others]))  #: functions of each level

    @property
    def indicators(self) -> LevelBlock | None:
        """The combinations of the factors' levels as one block."""
        return self._levels

    @property
    def size(self) -> int:
        """Number of products."""
        return self.width * (self._levels.size if self._levels else 1)

    def log_scales(self, full: np.ndarray) -> tuple[np.ndarray, list[Slope]]:
        """log s (size,) and its derivatives: sums of those of the factors."""
        value, slopes, sizes = np.zeros(()), [], [block.size for block in self.others]
        repeats = (self._levels.size if self._levels else 1, *sizes)
        for level in self._of_levels:
            own, of_block = level.log_scales(full)
            value = value + own[0]
            slopes += [(place, np.full(self.size, slope[0])) for place, slope in of_block]
        for k, block in enumerate(self.others):
            shape = [1] * len(sizes)
            shape[k] = -1
            own, of_block = block.log_scales(full)
            value = value + own.reshape(shape)
            slopes += [
                (place, np.broadcast_to(slope.reshape(shape), repeats).ravel())
                for place, slope in of_block
            ]
        return np.broadcast_to(value, repeats).ravel(), slopes

    def values(self, X: np.ndarray) -> np.ndarray:
        """Products of the functions of ``others`` at the rows of X, (n, width)."""
        out = np.ones((len(X), 1))
        for block in self.others:
            out = (out[:, :, None] * block.values(X)[:, None, :]).reshape(len(X), -1)
        return out

    def unknown(self, X: np.ndarray) -> np.ndarray:
        """Rows of a combination of levels that is not among them, or outside the box of a factor."""
        blocks = (*self.others, *([self._levels] if self._levels else []))
        return np.any([block.unknown(X) for block in blocks], axis=0)

    def prior_variance(self, full: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Product of those of the factors, (n,)."""
        return np.prod([block.prior_variance(full, X) for block in self.factors], axis=0)

    def unknown_draws(
        self, full: np.ndarray, X: np.ndarray, rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """Weights of each new combination of levels, times the other functions at its rows (n, m)."""
        outside = np.any([np.zeros(len(X), bool), *(b.unknown(X) for b in self.others)], axis=0)
        out = super().unknown_draws(full, X, rng, n)
        new = X[~outside]
        if self._levels and len(new):
            level, functions = self._levels.numbers(new), self.values(new)
            scales = np.exp(
                self.log_scales(full)[0][: self.width]
            )  # those of each level are the same
            weights = scales * rng.standard_normal((n, level.max() + 1, self.width))
            out[:, ~outside] = np.einsum("nmk,mk->nm", weights[:, level], functions)
        return out


class BasisBlocks:
    """All columns of a model: blocks of terms one after another.

    Attributes
    ----------
    blocks, slices, size:
        The blocks, the places of their weights, and the number m of all weights.
    terms:
        Numbers of the blocks of each term of a sum.
    share:
        Central share of the length scales' hyperpriors that sizes were chosen for.
    """

    def __init__(
        self, blocks: Sequence[Block], share: float = 1.0, terms: Sequence[range] = ()
    ) -> None:
        self.share, self.terms = share, tuple(terms)
        self.blocks = tuple(blocks)
        ends = np.cumsum([0, *(block.size for block in blocks)]).tolist()
        self.slices = [slice(*ends[k : k + 2]) for k in range(len(blocks))]
        self.size = ends[-1]

    @property
    def factors(self) -> list[Block]:
        """All blocks, with each product replaced by its factors."""
        return [
            factor
            for block in self.blocks
            for factor in (block.factors if isinstance(block, ProductBlock) else [block])
        ]

    @property
    def eigen(self) -> list[EigenBlock]:
        """The blocks of eigenfunctions, each term's once."""
        found = [block for block in self.factors if isinstance(block, EigenBlock)]
        return list({id(block): block for block in found}.values())

    @property
    def waves(self) -> list[WaveBlock]:
        """The blocks of periodic terms, each term's once."""
        found = [block for block in self.factors if isinstance(block, WaveBlock)]
        return list({id(block): block for block in found}.values())

    @property
    def exact(self) -> bool:
        """Whether the functions are the covariance's own: none is one of infinitely many."""
        return not any(isinstance(b, (EigenBlock, WaveBlock, WalkBlock)) for b in self.factors)

    @property
    def lengths(self) -> set[int]:
        """Places of the length scales that numbers of functions were chosen for."""
        own = {block.length for block in self.waves}
        return own.union(*(block.lengths for block in self.eigen))

    def scales(self, full: np.ndarray) -> tuple[np.ndarray, list[tuple[slice, Slope]]]:
        """s (m,) and the derivatives of log s."""
        logs, slopes = np.empty(self.size), []
        for block, own in zip(self.blocks, self.slices, strict=True):
            logs[own], of_block = block.log_scales(full)
            slopes += [(own, slope) for slope in of_block]
        return np.exp(logs), slopes
