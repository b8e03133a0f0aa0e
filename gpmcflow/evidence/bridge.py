"""Ratios of normalising constants by Bennett's bridge, from draws at both ends, and their error.

Two densities h_0 and h_1 = h_0 e^l, r = log Z_1 / Z_0. Sources: Bennett (1976), J. Comput. Phys. 22, 245;
Meng & Wong (1996), Statistica Sinica 6, 831.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, logsumexp

from gpmcflow.diagnostics.autocorrelation import initial_positive_sequence_time

STEPS = 64  # at most; Newton's take three to fourteen, halving an interval of some hundred nats all


class Terms(NamedTuple):
    """What each draw adds to a bridge: r changes by mean a - mean b to first order."""

    lower: np.ndarray  #: a (..., N_0), scaled to mean one
    upper: np.ndarray  #: b (..., N_1), scaled to mean one
    lower_limit: np.ndarray  #: what no a can exceed (...)
    upper_limit: np.ndarray  #: what no b can exceed (...)


class Bridge(NamedTuple):
    """A bridge between draws at two ends, and what its error is made of."""

    log_ratio: float  #: r
    standard_error: float
    terms: Terms
    upper_time: float  #: autocorrelation time of b, in draws

    @property
    def variance(self) -> float:
        """The larger of those of a and b."""
        return float(max(self.terms.lower.var(), self.terms.upper.var()))

    @property
    def counted(self) -> float:
        """Effective draws of the upper end."""
        return len(self.terms.upper) / self.upper_time

    @property
    def upper_error(self) -> float:
        """What the draws of the upper end add to the standard error."""
        return float(np.sqrt(self.terms.upper.var() / self.counted))

    @property
    def largest_share(self) -> float:
        """What one more draw, wherever it falls, can change r by at most, in nats."""
        lower = self.terms.lower_limit / len(self.terms.lower)
        return float(max(lower, self.terms.upper_limit / self.counted))


def bridge_ratio(
    lower: np.ndarray, upper: np.ndarray, n_lower: float = 1.0, n_upper: float = 1.0
) -> np.ndarray:
    """r (...) from l at draws of h_0 (..., N_0) and of h_1 (..., N_1), which count as so many.

    The root of n_0 mean_0 1 / (1 + e^(r + M - l)) = n_1 mean_1 1 / (1 + e^(l - r - M)), M = log n_0 / n_1;
    any numbers are consistent, effective ones are best. An l of -inf is a weight of zero. nan where an end
    has no finite l, or one that is nan or +inf.
    """
    M = np.log(n_lower / n_upper)
    ends = np.concatenate([lower, upper], axis=-1)
    low = np.where(np.isneginf(ends), np.inf, ends).min(-1)
    high = ends.max(-1)
    r = 0.5 * (low + high)
    moving = np.full(r.shape, True)  # a root that has been reached stays, however many others go on
    with np.errstate(divide="ignore", invalid="ignore"):  # no slope left: the interval is halved
        for _ in range(STEPS):
            below, fall = _log_mean_expit_and_slope(lower - r[..., None] - M)
            above, rise = _log_mean_expit_and_slope(r[..., None] + M - upper)
            gap = below - above + M
            low, high = np.where(gap > 0.0, r, low), np.where(gap > 0.0, high, r)
            newton, before = r + gap / (fall + rise), r
            inside = (newton > low) & (newton < high)
            r = np.where(inside, newton, 0.5 * (low + high))
            r = np.where(moving & (gap != 0.0), r, before)
            moving &= np.abs(r - before) > 4.0 * np.spacing(np.abs(r))
            if not moving.any():
                break
    known = np.isfinite(lower).any(-1) & np.isfinite(upper).any(-1)
    return np.where(known & np.isfinite(high), r, np.nan)


def bridge_terms(
    lower: np.ndarray, upper: np.ndarray, r: np.ndarray, n_lower: float = 1.0, n_upper: float = 1.0
) -> Terms:
    """Terms at the root r.

    a is proportional to e^l / (n_1 e^l + n_0 e^r) and b to 1 / (n_1 e^l + n_0 e^r): both are bounded.
    """
    shift = np.asarray(r)[..., None] + np.log(n_lower / n_upper)
    ends = lower - shift, shift - upper
    a, b = (np.exp(log_expit(end) - _log_mean_expit(end)[..., None]) for end in ends)
    with np.errstate(over="ignore"):  # ends without any overlap have no limit
        limits = (np.exp(-_log_mean_expit(end)) for end in ends)
        return Terms(a, b, *limits)


def _log_mean_expit(x: np.ndarray) -> np.ndarray:
    """log of the mean of 1 / (1 + e^-x) over the last axis: in logs, as far ends would be zero over zero."""
    return logsumexp(log_expit(x), axis=-1) - np.log(x.shape[-1])


def _log_mean_expit_and_slope(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_log_mean_expit`, and its derivative by a shift of all x; with `logsumexp` it takes twice as long."""
    log_terms = log_expit(x)
    largest = log_terms.max(-1, keepdims=True)
    shares = np.exp(log_terms - np.where(np.isfinite(largest), largest, 0.0))
    total = shares.sum(-1)
    slope = (shares * -np.expm1(log_terms)).sum(-1) / total
    return largest[..., 0] + np.log(total) - np.log(x.shape[-1]), slope


def bridge(lower: np.ndarray, upper: np.ndarray) -> Bridge:
    """Bridge from independent draws of h_0 (N_0,) and a chain of h_1 (N_1,).

    se^2 = var a / N_0 + tau var b / N_1, tau the autocorrelation time of b; N_1 / tau is how many draws of
    h_1 count.
    """
    n_lower, n_upper = len(lower), len(upper)
    time = 1.0
    for _ in range(2):
        numbers = float(n_lower), n_upper / time
        r = bridge_ratio(lower, upper, *numbers)
        terms = bridge_terms(lower, upper, r, *numbers)
        if not np.isfinite(r):
            return Bridge(np.nan, np.nan, terms, np.nan)
        time = float(initial_positive_sequence_time(terms.upper[None])[0])
        # a chain that never moved is one draw, unless there is nothing to see
        if not np.isfinite(time):
            time = float(n_upper) if np.ptp(lower) > 0.0 else 1.0
    error = np.sqrt(terms.lower.var() / n_lower + time * terms.upper.var() / n_upper)
    return Bridge(float(r), float(error), terms, time)
