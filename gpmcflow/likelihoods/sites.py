"""Gaussian sites fitted to one case at a time: what any likelihood can do without closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gpmcflow.likelihoods.base import Likelihood

LARGEST_VARIANCE = 1e6  # of a site: precisions below its inverse are raised to it


class Sites(NamedTuple):
    """What stands for the likelihood: exp(b f - w f^2 / 2) for each L_i(f + c)."""

    precision: np.ndarray  #: w > 0, (n,)
    shift: np.ndarray  #: b, (n,)
    equal: bool  #: whether w is one number for all cases, whatever y


def thresholded(w: np.ndarray, b: np.ndarray, equal: bool) -> Sites:
    """Sites with the least precision there may be."""
    return Sites(np.maximum(w, 1.0 / LARGEST_VARIANCE), b, equal)


def moment_sites(
    likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, offset: float
) -> Sites:
    """Sites with the moments of L_i(f + offset) N(f; 0, k), k a number or one for each case.

    By `Likelihood.tilted_site`, with moments mu = k alpha and v: w = 1 / v - 1 / k, b = mu / v.

    Factors that are not log-concave may have w < 0: it is clipped, and b = mu (1 / k + w) keeps the mean.
    """
    index: Any = slice(None)
    if np.ndim(k) == 0 and not likelihood.per_case:
        y, index = np.unique(y, return_inverse=True)
    n = len(y)
    mean, k = np.full(n, offset, dtype=np.float64), np.full(n, k, dtype=np.float64)
    alpha, w = likelihood.tilted_site(y, mean, k)
    if likelihood.log_concave:
        return thresholded(w[index], (alpha * (1.0 + k * w))[index], False)
    w = np.maximum(w, 1.0 / LARGEST_VARIANCE)
    return Sites(w[index], (alpha * (1.0 + k * w))[index], False)


def bracket(
    slope: Callable[[np.ndarray], np.ndarray],
    zero: np.ndarray,
    k: np.ndarray,
    at_zero: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends between which an increasing ``slope`` changes sign: ``zero``, and sqrt(k) away or farther.

    ``at_zero`` is slope(zero), where it is known.
    """
    side, reach = -np.sign(slope(zero) if at_zero is None else at_zero), np.sqrt(k)
    for _ in range(60):
        short = side * slope(side * reach) < 0.0
        if not short.any():
            break
        reach = np.where(short, 2.0 * reach, reach)
    return np.minimum(zero, side * reach), np.maximum(zero, side * reach)


def laplace_sites(
    likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, offset: float
) -> Sites:
    """Sites at the mode mu of L_i(f + offset) N(f; 0, k), k a number or one for each case.

    There f / k = l'(f + offset); w is `majorising_precision`, b = mu (1 / k + w).

    Newton steps inside a bracket, which grows from 0 until the slope changes sign; where l is convex they
    take that precision for -l''. A step that leaves the bracket or is not half the one before is replaced
    by half the bracket.
    """
    k = np.full(len(y), k, dtype=np.float64)

    def slope(f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore"):
            _, first, second = likelihood.derivatives(f + offset, y)[:3]
            return f / k - first, -second

    f = np.zeros(len(k))
    at_zero = slope(f)
    low, high = bracket(lambda f: slope(f)[0], f, k, at_zero[0])
    last = high - low
    for number in range(200):
        done = last <= 1e-14 * (1.0 + np.abs(f))  # rounding would send these off again
        if done.all():
            break
        here, precision = slope(f) if number else at_zero
        low, high = np.where(here < 0.0, f, low), np.where(here > 0.0, f, high)
        convex = precision < 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite rate has no Newton step
            if convex.any():
                majorising = likelihood.majorising_precision(f + offset, y)
                precision = np.where(convex, majorising, precision)
            step = -here / (1.0 / k + precision)
        inside = (f + step >= low) & (f + step <= high) & (np.abs(step) <= 0.5 * last)
        following = np.where(inside | (here == 0.0), f + step, 0.5 * (low + high))
        following = np.where(done, f, following)
        last = np.where(done, last, np.abs(following - f))
        f = following
    w = np.maximum(likelihood.majorising_precision(f + offset, y), 1.0 / LARGEST_VARIANCE)
    return Sites(w, f * (1.0 / k + w), False)
