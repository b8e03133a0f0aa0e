"""A covariance expression as blocks of columns: f = sum_j s_j(theta) phi_j(x) w_j, w ~ N(0, I)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpmcflow.covariances.basis_functions import (
    LARGEST,
    SMOOTHNESS,
    BasisFunctions,
    axis_size,
    box_width,
    log_scales,
    squared_frequencies,
)
from gpmcflow.covariances.expressions import Covariance, Leaf, Sum
from gpmcflow.covariances.leaves import Categorical, Constant, Group, Linear
from gpmcflow.covariances.sine_series import SineSeries
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior

CENTRAL = (0.01, 0.99)  # quantiles of a hyperprior between which a basis has to do
LARGEST_DIMENSION = 3
ALLOWED = "a sum of SquaredExponential, Matern12, Matern32, Matern52, Linear, Constant, Group and Categorical"

Slope = tuple[int, np.ndarray]  # place in full, derivative of log s by it (size,)


class Block(ABC):
    """Columns of one term, with the scales of their weights."""

    size: int

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
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        ends = np.cumsum([0, *(block.size for block in blocks)]).tolist()
        self.slices = [slice(*ends[k : k + 2]) for k in range(len(blocks))]
        self.size = ends[-1]

    @property
    def eigen(self) -> list[EigenBlock]:
        """The blocks of eigenfunctions."""
        return [block for block in self.blocks if isinstance(block, EigenBlock)]

    def scales(self, full: np.ndarray) -> tuple[np.ndarray, list[tuple[slice, Slope]]]:
        """s (m,) and the derivatives of log s."""
        logs, slopes = np.empty(self.size), []
        for block, own in zip(self.blocks, self.slices, strict=True):
            logs[own], of_block = block.log_scales(full)
            slopes += [(own, slope) for slope in of_block]
        return np.exp(logs), slopes


def bind_basis(
    settings: BasisFunctions,
    covariance: Covariance,
    columns: Sequence[tuple[int, ...]],
    places: Sequence[np.ndarray],
    priors: Sequence[Hyperprior | float],
    X: np.ndarray,
    names: Sequence[str],
) -> BasisBlocks:
    """Blocks of a covariance with its defaults; ``columns`` and ``places`` are those of its leaves.

    ``priors`` are hyperpriors or fixed coordinates of all parameters, ``names`` those of the columns of X.
    Raises `InputError` for a term that has no basis, one of more than 3 columns, length scales that are too
    short for `LARGEST` functions, and a group with one level.
    """
    terms = covariance.operands() if isinstance(covariance, Sum) else [covariance]
    blocks: list[Block] = []
    bound = iter(zip(columns, places, strict=True))
    for term in terms:
        own = [next(bound) for _ in term.leaves()]
        if not isinstance(term, Leaf):
            raise InputError(
                f'basis functions: {term} is a product; allowed: {ALLOWED}; or take structure="dense"'
            )
        blocks += _blocks_of(settings, term, *own[0], priors, X, names)
    _refuse_large(settings, [block for block in blocks if isinstance(block, EigenBlock)], names)
    return BasisBlocks(blocks)


def _blocks_of(settings, leaf, columns, places, priors, X, names) -> list[Block]:
    places = [int(place) for place in places]
    if leaf.code in SMOOTHNESS:
        return [_eigen_block(settings, leaf, columns, places, priors, X, names)]
    if isinstance(leaf, Constant):
        return [ColumnBlock(None, places[0])]
    if isinstance(leaf, Linear):
        places = places if len(places) > 1 else places * len(columns)
        return [ColumnBlock(c, place) for c, place in zip(columns, places, strict=True)]
    if isinstance(leaf, (Group, Categorical)):
        levels = np.unique(X[:, columns], axis=0)
        if len(levels) < 2:
            raise InputError(
                f"basis functions: {leaf} has one level; allowed: two or more; drop the term"
            )
        if isinstance(leaf, Group):
            return [LevelBlock(columns, levels, places[0])]
        if len(columns) == 1:
            length, scale = places
            return [ColumnBlock(None, scale, length), LevelBlock(columns, levels, scale, length)]
        raise InputError(
            f"basis functions: {leaf} has {len(columns)} columns; allowed: one; write one term a column, or "
            'take structure="dense"'
        )
    raise InputError(
        f'basis functions: {leaf} has no basis; allowed: {ALLOWED}; or take structure="dense"'
    )


def _eigen_block(settings, leaf, columns, places, priors, X, names) -> EigenBlock:
    D, nu = len(columns), SMOOTHNESS[leaf.code]
    error = settings.axis_error(D)
    if D > LARGEST_DIMENSION:
        raise InputError(
            f"basis functions: {leaf} has {D} columns; allowed: at most {LARGEST_DIMENSION} a term, as the "
            'number of functions is a product; write a sum of terms, or take structure="dense"'
        )
    own = X[:, columns]
    low, high = own.min(0), own.max(0)
    half = 0.5 * (high - low)
    if not np.all(half > 0.0):
        name = names[columns[int(np.argmin(half))]]
        raise InputError(
            f"basis functions: column {name!r} of {leaf} is constant; drop it from the term"
        )
    *lengths, amplitude = places
    lengths = lengths * D if len(lengths) == 1 else lengths
    boxes, sizes = [], []
    for d, place in enumerate(lengths):
        shortest, longest = (length / half[d] for length in central_lengths(priors[place]))
        box = settings.axis("boundary", d, D) or box_width(nu, longest, error)
        boxes.append(box)
        sizes.append(settings.axis("m", d, D) or axis_size(nu, shortest, box, error))
    half_widths = np.array(boxes) * half
    if np.prod(np.array(sizes, dtype=float)) > LARGEST:
        _refuse_sizes(settings, nu, leaf, lengths, priors, half, boxes, sizes, columns, names)
    centre = 0.5 * (low + high)
    return EigenBlock(
        leaf.name or leaf.term,
        columns,
        nu,
        centre,
        half_widths,
        half,
        tuple(sizes),
        tuple(lengths),
        amplitude,
    )


def central_lengths(prior: Hyperprior | float) -> tuple[float, float]:
    """Shortest and longest length scale of the central 98 % of a hyperprior, or the fixed one twice."""
    if isinstance(prior, Hyperprior):
        low, high = (float(np.exp(prior.quantile(q))) for q in CENTRAL)
        return low, high
    return (float(np.exp(prior)),) * 2


def _refuse_sizes(settings, nu, leaf, lengths, priors, half, boxes, sizes, columns, names) -> None:
    """Say which length scales would fit: those of the hyperpriors, all longer by one factor."""
    if settings.m is not None:
        raise InputError(
            f"basis functions: {leaf} has {' x '.join(map(str, sizes))} functions; allowed: at most "
            f"{LARGEST} in all; give a smaller m"
        )
    shortest = np.array([central_lengths(priors[place])[0] for place in lengths])
    factor, error = 1.0, settings.axis_error(len(lengths))
    while True:
        factor *= 1.01
        sizes = [
            axis_size(nu, factor * length / width, box, error)
            for length, width, box in zip(shortest, half, boxes, strict=True)
        ]
        if np.prod(np.array(sizes, dtype=float)) <= LARGEST:
            break
    fits = {names[c]: f"{factor * length:.3g}" for c, length in zip(columns, shortest, strict=True)}
    shown = ", ".join(f"{length} for {name}" for name, length in fits.items())
    raise InputError(
        f"basis functions: {leaf} has length scales down to {shortest.min():.3g} (central 98 % of the "
        f"hyperprior), too short for {LARGEST} functions; the shortest that fits is {shown}; narrow the "
        'hyperprior, allow a larger error, or take structure="dense"'
    )


def _refuse_large(
    settings: BasisFunctions, eigen: Sequence[EigenBlock], names: Sequence[str]
) -> None:
    sizes = [block.size for block in eigen]
    if sum(sizes) > LARGEST:
        raise InputError(
            f"basis functions: the terms have {' + '.join(map(str, sizes))} functions; allowed: at most "
            f"{LARGEST} in all; narrow the hyperpriors of the length scales, or allow a larger error"
        )
