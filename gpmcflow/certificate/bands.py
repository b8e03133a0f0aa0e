"""Simultaneous bands of an empirical distribution function, where n values should be uniform.

Of n independent uniforms, N_i are at or below z_i = i / n. A band at level g keeps those counts of which
neither tail, P(X <= N_i) or P(X >= N_i) with X ~ Binomial(n, z_i), is g / 2 or less. How often such a band is
left anywhere is computed exactly: the numbers of values in the n cells are independent Poisson(1) given that
their sum is n, so the distribution of N_i among paths that stay inside follows from that of N_(i-1) by a
convolution.

Source: Sailynoja, Buerkner & Vehtari (2022), "Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing 32:32.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, poisson

BISECTIONS = 40
LEAST_LEVEL = 1e-12
MOST_IN_A_CELL = 40  # Poisson(1): the rest is below 1e-48


class Band(NamedTuple):
    """Where the empirical distribution function of n uniforms lies at z_i = i / n, 0 < i < n."""

    z: np.ndarray  #: (n - 1,)
    low: np.ndarray  #: smallest shares inside (n - 1,)
    high: np.ndarray  #: largest shares inside (n - 1,)


def counts_below(values: np.ndarray) -> np.ndarray:
    """How many of n values in [0, 1] are at or below i / n, for 0 < i < n."""
    return np.searchsorted(np.sort(values), _points(len(values)), side="right")


def p_value(values: np.ndarray) -> float:
    """Probability that n independent uniforms stray at least as far as these at the worst of the points.

    Of fewer than 2 values it is 1.
    """
    n = len(values)
    if n < 2:
        return 1.0
    counts, z = counts_below(values), _points(n)
    below, above = binom.cdf(counts, n, z), binom.sf(counts - 1, n, z)
    # the next larger number, as tails that are equal to the worst one count as straying as far
    level = np.nextafter(2.0 * min(below.min(), above.min()), 2.0)
    return _share_outside(n, max(float(level), LEAST_LEVEL))


@cache
def simultaneous_band(n: int, false_alarms: float) -> Band:
    """The narrowest band of the form above that n uniforms leave with at most this probability."""
    low, high = LEAST_LEVEL, false_alarms
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if _share_outside(n, middle) <= false_alarms else (low, middle)
    least, most = _limits(n, low)
    return Band(_points(n), least / n, most / n)


def _points(n: int) -> np.ndarray:
    return np.arange(1, n) / n


def _limits(n: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest counts of which no tail is level / 2 or less (n - 1,)."""
    z, tail = _points(n), 0.5 * level
    least = binom.ppf(tail, n, z).astype(int)
    least += binom.cdf(least, n, z) <= tail
    most = binom.isf(tail, n, z).astype(int)
    most += binom.sf(most, n, z) > tail
    most -= binom.sf(most - 1, n, z) <= tail
    return least, most


def _share_outside(n: int, level: float) -> float:
    """Probability that the counts of n uniforms leave the band of a level."""
    cell = poisson.pmf(np.arange(min(n, MOST_IN_A_CELL) + 1), 1.0)
    inside, first = np.ones(1), 0  # of the counts first, first + 1, ..
    for least, most in zip(*_limits(n, level), strict=True):
        if least > most:
            return 1.0
        moved = np.convolve(inside, cell)
        start = max(int(least) - first, 0)
        inside, first = moved[start : max(int(most) - first + 1, start)], first + start
        if not inside.size:
            return 1.0
    places = n - first - np.arange(len(inside))
    last = np.where(
        (places >= 0) & (places < len(cell)), cell[np.clip(places, 0, len(cell) - 1)], 0.0
    )
    return float(np.clip(1.0 - inside @ last / poisson.pmf(n, float(n)), 0.0, 1.0))
