"""Terms of a covariance that are few functions: constants, linear and polynomial ones, and their products."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial
from typing import NamedTuple

import numpy as np

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Covariance, Leaf, Product, Sum

FEW = 16  # functions; more cost as much as the rest of a dense matrix


class FewFunctions(NamedTuple):
    """k(x, x') = sum_j s_j^2 phi_j(x) phi_j(x'), with log s_j linear in the parameters' logs."""

    powers: np.ndarray  #: (q, p): phi_j is the product of the columns of X to these powers
    constant: np.ndarray  #: log s_j where all parameters are 1 (q,)
    exponents: np.ndarray  #: derivatives of log s_j by all coordinates (q, size)

    def values(self, X: np.ndarray) -> np.ndarray:
        """Functions at inputs (m, p), shape (m, q)."""
        return np.prod(X[:, None, :] ** self.powers, axis=-1)

    def log_scales(self, full: np.ndarray) -> np.ndarray:
        """log s (q,) at all coordinates (size,)."""
        return self.constant + self.exponents @ full

    def plus(self, other: FewFunctions) -> FewFunctions:
        """Functions of a sum."""
        return FewFunctions(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def times(self, other: FewFunctions) -> FewFunctions:
        """Functions of a product: all products of two."""
        one = np.repeat(np.arange(len(self.constant)), len(other.constant))
        two = np.tile(np.arange(len(other.constant)), len(self.constant))
        return FewFunctions(*(a[one] + b[two] for a, b in zip(self, other, strict=True)))


def is_finite(covariance: Covariance) -> bool:
    """Whether a covariance is that of few functions, whatever their number."""
    return all(leaf.kind in (nodes.ONE, nodes.INNER_PRODUCTS) for leaf in covariance.leaves())


def few_functions(
    covariance: Covariance, columns: list, places: list, p: int, size: int
) -> FewFunctions | None:
    """Functions of a covariance that `is_finite`, of p columns of X; None where there are more than `FEW`.

    ``columns`` and ``places`` are those of its leaves, in X and in the ``size`` coordinates.
    """
    bound = iter(zip(columns, places, strict=True))
    found = _of(covariance, bound, p, size)
    return found if len(found.constant) <= FEW else None


def _of(covariance: Covariance, bound: Iterator, p: int, size: int) -> FewFunctions:
    if isinstance(covariance, (Sum, Product)):
        left, right = (_of(part, bound, p, size) for part in (covariance.left, covariance.right))
        return left.plus(right) if isinstance(covariance, Sum) else left.times(right)
    leaf: Leaf = covariance  # type: ignore[assignment]
    columns, places = next(bound)
    if leaf.kind == nodes.ONE:
        exponents = np.zeros((1, size))
        exponents[0, places[-1]] = 1.0
        return FewFunctions(np.zeros((1, p), dtype=int), np.zeros(1), exponents)
    offset = int(places[-1]) if leaf.extra else None
    scales = list(places[: len(places) - bool(leaf.extra)])
    scales = scales if len(scales) > 1 else scales * len(columns)
    degree = int(getattr(leaf, "degree", 1))
    factors = [*range(len(columns)), *([-1] if offset is not None else [])]
    rows, constants, slopes = [], [], []
    for chosen in combinations_with_replacement(factors, degree):
        row, slope = np.zeros(p, dtype=int), np.zeros(size)
        ways = factorial(degree)
        for k in set(chosen):
            times = chosen.count(k)
            ways //= factorial(times)
            slope[offset if k < 0 else scales[k]] += times
            if k >= 0:
                row[columns[k]] += times
        rows.append(row)
        constants.append(0.5 * np.log(ways))
        slopes.append(slope)
    return FewFunctions(np.array(rows), np.array(constants), np.array(slopes))
