"""A covariance expression in basis functions: its terms as blocks, their sizes and error, what has none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gpmcflow.covariances.basis_blocks import (
    BasisBlocks,
    Block,
    ColumnBlock,
    EigenBlock,
    LevelBlock,
    MonomialBlock,
    ProductBlock,
    StructureBlock,
    WalkBlock,
    WaveBlock,
)
from gpmcflow.covariances.basis_functions import (
    LARGEST,
    BasisFunctions,
    axis_size,
    box_width,
    correlation,
    log_scales,
    n_waves,
    walk_size,
)
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum, short_text
from gpmcflow.covariances.finite import FEW, few_functions
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.leaves import Categorical, Constant, Group, Linear, Periodic, Polynomial
from gpmcflow.covariances.walks import Walk
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior

# How far the covariance of basis functions is from the one they stand for.

POINTS = (81, 13, 6)  # of each column, by their number


def covariance_error(block: EigenBlock, lengths: np.ndarray) -> float:
    """Largest difference over the amplitude's square, between pairs of a grid of the data's box.

    ``lengths`` (D,) are length scales in the units of the columns. The ends, where the error of the boundary
    is largest, are on the grid.
    """
    D = len(block.sizes)
    grid = [np.linspace(-half, half, POINTS[D - 1]) for half in block.data_half_widths]
    points = np.stack(np.meshgrid(*grid, indexing="ij"), -1).reshape(-1, D)
    at = np.empty((len(points), max(block.columns) + 1))
    at[:, block.columns] = points + block.centre
    functions = block.values(at)
    logs, _ = log_scales(block.nu, block.squares, np.log(lengths))
    functions *= np.exp(logs)
    exact = correlation(block.nu, cdist(points / lengths, points / lengths))
    return float(np.max(np.abs(functions @ functions.T - exact)))


def settings_for(
    block: EigenBlock, shortest: np.ndarray, longest: np.ndarray, settings: BasisFunctions
) -> tuple[list[int], list[float]]:
    """m and boundary of each column that would do for these length scales (D,)."""
    half, error = block.data_half_widths, settings.axis_error(len(block.sizes))
    boxes = [box_width(block.nu, at, error) for at in longest / half]
    sizes = [
        axis_size(block.nu, at, box, error) for at, box in zip(shortest / half, boxes, strict=True)
    ]
    return sizes, boxes


# A covariance expression meets basis functions: its terms as blocks, their sizes, what has none.

#: central shares of a hyperprior for which a basis has to do: the first that fits
CENTRAL = (0.98, 0.9, 0.8)
LARGEST_DIMENSION = 3
FARTHEST = 1e4  # level of a column over its range, whose square is the loss of digits
LARGEST_PRODUCT = 2000  # functions of products with a smooth factor, such as a curve of each group
WALK_BOUNDARY = 1.5  # ends of a walk's functions over those of the data, unless stated
SMOOTH = (EigenBlock, WaveBlock, WalkBlock)
ALLOWED = (
    "sums and products of SquaredExponential, Matern12, Matern32, Matern52, Periodic, Wiener, "
    "IntegratedWiener, Linear, Polynomial, Constant, Group, Categorical and Areal"
)


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
    Sizes follow from the central 98 % of the hyperpriors of length scales, or, where these take more than
    `LARGEST` functions, from the central 90 or 80 %: results say if the posterior goes beyond them.

    Raises `InputError` for a term that has no basis, one of more than 3 columns, length scales that are too
    short for `LARGEST` functions, and a group with one level.
    """
    for share in CENTRAL:
        try:
            return _bound(_Binding(settings, share, priors, X, names), covariance, columns, places)
        except _TooManyError as error:
            reason = str(error)
    raise InputError(reason)


def has_finite_basis(covariance: Covariance) -> bool:
    """Whether a covariance is made of leaves that are finitely many functions, so that its basis is exact."""
    exact = (Constant, Linear, Polynomial, Group, Categorical, KnownLevels)
    return all(isinstance(leaf, exact) for leaf in covariance.leaves())


def far_columns(basis: BasisBlocks, X: np.ndarray) -> bool:
    """Whether a slope's column is so far from 0 that the weights' precision would lose half the digits."""
    places = {block.column for block in basis.factors if isinstance(block, ColumnBlock)}
    for block in basis.factors:
        if isinstance(block, MonomialBlock):
            places.update(np.flatnonzero(block.functions.powers.any(0)).tolist())
    columns = [X[:, place] for place in places if place is not None]
    return any(np.abs(column).max() > FARTHEST * max(np.ptp(column), 1.0) for column in columns)


class _TooManyError(InputError):
    """More functions than `LARGEST`."""


@dataclass(frozen=True)
class _Binding:
    """What all terms share."""

    settings: BasisFunctions
    share: float  #: of the hyperpriors of length scales
    priors: Sequence[Hyperprior | float]
    X: np.ndarray
    names: Sequence[str]

    def lengths(self, place: int) -> tuple[float, float]:
        """Shortest and longest length scale of the central share of a hyperprior, or the fixed one twice."""
        prior = self.priors[place]
        if isinstance(prior, Hyperprior):
            tail = 0.5 * (1.0 - self.share)
            low, high = (float(np.exp(prior.quantile(q))) for q in (tail, 1.0 - tail))
            return low, high
        return (float(np.exp(prior)),) * 2


def _bound(binding: _Binding, covariance: Covariance, columns, places) -> BasisBlocks:
    bound = iter(zip(columns, places, strict=True))
    blocks: list[Block] = []
    terms = []
    for term in covariance.operands() if isinstance(covariance, Sum) else [covariance]:
        first = len(blocks)
        blocks += _blocks(binding, term, bound)
        terms.append(range(first, len(blocks)))
    found = BasisBlocks(blocks, binding.share, terms)
    _refuse_large([block for block in found.blocks if isinstance(block, SMOOTH)], LARGEST)
    products = [block for block in found.blocks if isinstance(block, ProductBlock)]
    _refuse_large([block for block in products if _is_smooth(block)], LARGEST_PRODUCT)
    return found


def _is_smooth(block: ProductBlock) -> bool:
    return any(isinstance(factor, SMOOTH) for factor in block.others)


def _blocks(binding: _Binding, covariance: Covariance, bound: Iterator) -> list[Block]:
    """Blocks of an expression; a product of sums is the sum of the products of their terms."""
    if isinstance(covariance, (Sum, Product)):
        left = _blocks(binding, covariance.left, bound)
        right = _blocks(binding, covariance.right, bound)
        if isinstance(covariance, Sum):
            return left + right
        pairs = itertools.product(left, right)
        return [ProductBlock([*_factors(a), *_factors(b)], binding.X) for a, b in pairs]
    return _blocks_of(binding, covariance, *next(bound))  # type: ignore[arg-type]


def _factors(block: Block) -> Sequence[Block]:
    return block.factors if isinstance(block, ProductBlock) else [block]


def _blocks_of(binding: _Binding, leaf: Leaf, columns, places) -> list[Block]:
    places = [int(place) for place in places]
    if leaf.smoothness is not None:
        return [_eigen_block(binding, leaf, columns, places)]
    if isinstance(leaf, Periodic):
        return [
            _wave_block(binding, leaf, columns, dict(zip(leaf.parameters(), places, strict=True)))
        ]
    if isinstance(leaf, Walk):
        return [_walk_block(binding, leaf, columns[0], places[-1])]
    if isinstance(leaf, Constant):
        return [ColumnBlock(None, places[0])]
    if isinstance(leaf, KnownLevels):
        return [StructureBlock(leaf, columns[0], tuple(places[:-1]), places[-1])]
    if isinstance(leaf, Polynomial):
        size = len(binding.priors)
        functions = few_functions(leaf, [columns], [places], binding.X.shape[1], size)
        if functions is None:
            raise InputError(
                f"basis functions: {short_text(leaf)} has too many monomials; allowed: at most {FEW}; take a "
                'lower degree or fewer columns, or structure="dense"'
            )
        return [MonomialBlock(functions)]
    if isinstance(leaf, Linear):
        places = places if len(places) > 1 else places * len(columns)
        return [ColumnBlock(c, place) for c, place in zip(columns, places, strict=True)]
    if isinstance(leaf, (Group, Categorical)):
        levels = np.unique(binding.X[:, columns], axis=0)
        if len(levels) < 2:
            raise InputError(
                f"basis functions: {short_text(leaf)} has one level; allowed: two or more; drop the term"
            )
        if isinstance(leaf, Group):
            return [LevelBlock(columns, levels, places[0])]
        if len(columns) == 1:
            length, scale = places
            return [ColumnBlock(None, scale, length), LevelBlock(columns, levels, scale, length)]
        raise InputError(
            f"basis functions: {short_text(leaf)} has {len(columns)} columns; allowed: one; write one term a "
            'column, or take structure="dense"'
        )
    raise InputError(
        f'basis functions: {short_text(leaf)} has no basis; allowed: {ALLOWED}; or take structure="dense"'
    )


def _eigen_block(binding: _Binding, leaf: Leaf, columns, places) -> EigenBlock:
    D, nu, settings = len(columns), leaf.smoothness, binding.settings
    error = settings.axis_error(D)
    if D > LARGEST_DIMENSION:
        raise InputError(
            f"basis functions: {short_text(leaf)} has {D} columns; allowed: at most {LARGEST_DIMENSION} a "
            'term, as the number of functions is a product; write a sum of terms, or take structure="dense"'
        )
    own = binding.X[:, columns]
    low, high = own.min(0), own.max(0)
    half = 0.5 * (high - low)
    if not np.all(half > 0.0):
        name = binding.names[columns[int(np.argmin(half))]]
        raise InputError(
            f"basis functions: column {name!r} of {short_text(leaf)} is constant; drop it from the term"
        )
    *lengths, amplitude = places
    lengths = lengths * D if len(lengths) == 1 else lengths
    boxes, sizes = [], []
    for d, place in enumerate(lengths):
        shortest, longest = (length / half[d] for length in binding.lengths(place))
        box = settings.axis("boundary", d, D) or box_width(nu, longest, error)
        boxes.append(box)
        sizes.append(settings.axis("m", d, D) or axis_size(nu, shortest, box, error))
    half_widths = np.array(boxes) * half
    if np.prod(np.array(sizes, dtype=float)) > LARGEST:
        _refuse_sizes(binding, leaf, lengths, half, boxes, sizes, columns)
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


def _wave_block(binding: _Binding, leaf: Leaf, columns, places: dict[str, int]) -> WaveBlock:
    period = binding.priors[places["period"]]
    if isinstance(period, Hyperprior):
        raise InputError(
            f"basis functions: {short_text(leaf)} has a free period; allowed: a number, as waves of one "
            'period are fixed functions; state it, or take structure="dense"'
        )
    length, amplitude = places["length_scale"], places["signal_sd"]
    waves = n_waves(binding.lengths(length)[0], binding.settings.error)
    name = leaf.name or leaf.term
    return WaveBlock(name, columns[0], float(np.exp(period)), waves, length, amplitude)


def _walk_block(binding: _Binding, leaf: Walk, column: int, amplitude: int) -> WalkBlock:
    settings = binding.settings
    boundary = settings.axis("boundary", 0, 1) or WALK_BOUNDARY
    before, after = leaf.reach(binding.X[:, [column]])
    m = settings.axis("m", 0, 1) or walk_size(boundary, settings.error)
    return WalkBlock(leaf, column, (boundary * before, boundary * after), int(m), amplitude)


def _refuse_sizes(binding: _Binding, leaf: Leaf, lengths, half, boxes, sizes, columns) -> None:
    """Say which length scales would fit: those of the hyperpriors, all longer by one factor."""
    nu, names = leaf.smoothness, binding.names
    if binding.settings.m is not None:
        raise InputError(
            f"basis functions: {short_text(leaf)} has {' x '.join(map(str, sizes))} functions; allowed: at "
            f"most {LARGEST} in all; give a smaller m"
        )
    shortest = np.array([binding.lengths(place)[0] for place in lengths])
    factor, error = 1.0, binding.settings.axis_error(len(lengths))
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
    raise _TooManyError(
        f"basis functions: {short_text(leaf)} has length scales down to {shortest.min():.3g} (central "
        f"{100 * binding.share:.0f} % of the hyperprior), too short for {LARGEST} functions; the shortest "
        f'that fits is {shown}; narrow the hyperprior, allow a larger error, or take structure="dense"'
    )


def _refuse_large(blocks: Sequence[Block], largest: int) -> None:
    sizes = [block.size for block in blocks]
    if sum(sizes) > largest:
        what = "products" if largest == LARGEST_PRODUCT else "terms"
        raise _TooManyError(
            f"basis functions: the {what} have {' + '.join(map(str, sizes))} functions; allowed: at most "
            f"{largest} in all; narrow the hyperpriors of the length scales, or allow a larger error"
        )
