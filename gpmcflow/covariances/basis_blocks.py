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
from gpmcflow.covariances.sine_series import SineSeries

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

    def outside(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, p) lie outside the box, where there is nothing of it."""
        return np.any(np.abs(X[:, self.columns] - self.centre) > self.half_widths, axis=1)

    def unknown_variance(self, full: np.ndarray) -> float:
        """Prior variance of the term, which is all that is known outside the box."""
        return float(np.exp(2.0 * full[self.amplitude]))

    def functions(self, X: np.ndarray) -> SineSeries:
        """Functions of the rows of X (n, p); 0 outside the box."""
        x = (X[:, self.columns] - self.centre).T
        L = self.half_widths[:, None]
        factors = np.where(np.abs(x) <= L, L**-0.5, 0.0)
        return SineSeries(np.pi / (2.0 * L) * (x + L), factors, self.sizes)


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
        """The column (n,)."""
        return np.ones(len(X)) if self.column is None else X[:, self.column]


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

    def unknown_variance(self, full: np.ndarray) -> float:
        """Prior variance of the weight of a level that is not among them."""
        return float(np.exp(2.0 * self.log_scales(full)[0][0]))


class BasisBlocks:
    """All columns of a model: blocks of terms one after another.

    Attributes
    ----------
    blocks, slices, size:
        The blocks, the places of their weights, and the number m of all weights.
    share:
        Central share of the length scales' hyperpriors that sizes were chosen for.
    """

    def __init__(self, blocks: Sequence[Block], share: float = 1.0) -> None:
        self.share = share
        self.blocks = tuple(blocks)
        ends = np.cumsum([0, *(block.size for block in blocks)]).tolist()
        self.slices = [slice(*ends[k : k + 2]) for k in range(len(blocks))]
        self.size = ends[-1]

    @property
    def eigen(self) -> list[EigenBlock]:
        """The blocks of eigenfunctions."""
        return [block for block in self.blocks if isinstance(block, EigenBlock)]

    @property
    def waves(self) -> list[WaveBlock]:
        """The blocks of periodic terms."""
        return [block for block in self.blocks if isinstance(block, WaveBlock)]

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
