"""What share of cases lasts longer than a time, without a model of the times."""

from __future__ import annotations

import numpy as np

MOST_STEPS = 5000
SETTLED = 1e-9  # change of a share in a step


def share_lasting(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times by which some had ended, and the share that lasted longer, where each lies between its ends: the
    same where it was seen, inf above one that had not ended."""
    seen = low == high
    return kaplan_meier(low, seen) if (seen | np.isinf(high)).all() else turnbull(low, high)


def kaplan_meier(time: np.ndarray, event: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times at which some ended, and the share that lasted longer. Source: Kaplan & Meier (1958)."""
    ends = np.unique(time[event > 0])
    ended = np.array([((time == t) & (event > 0)).sum() for t in ends])
    at_risk = np.array([(time >= t).sum() for t in ends])
    return ends, np.cumprod(1.0 - ended / at_risk)


def turnbull(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times by which some had ended, and the share that lasted longer, where each lies in (low, high].

    A time that was seen has both ends there, one that had not ended an upper end of inf. The likelihood does
    not know where in an interval the share falls: here at its upper end. Each step of EM shares a case out
    among the upper ends in its interval. Source: Turnbull (1976).
    """
    ends = np.unique(high)
    # an upper end with no new lower end below it is in the intervals of fewer cases than the one before
    n_below = np.searchsorted(np.sort(low), ends)
    ends = ends[(np.diff(n_below, prepend=0) > 0) | np.isin(ends, low[low == high])]
    first = np.where(low < high, np.searchsorted(ends, low, "right"), np.searchsorted(ends, low))
    last, n = np.searchsorted(ends, high, "right"), len(ends)
    share = np.full(n, 1.0 / n)
    for _ in range(MOST_STEPS):
        up_to = np.insert(np.cumsum(share), 0, 0.0)
        weight = 1.0 / (up_to[last] - up_to[first])
        begun = np.bincount(first, weight, n + 1) - np.bincount(last, weight, n + 1)
        before, share = share, share * np.cumsum(begun)[:-1] / len(low)
        if np.abs(share - before).max() < SETTLED:
            break
    longer, steps = np.clip(1.0 - np.cumsum(share), 0.0, 1.0), np.isfinite(ends) & (share > SETTLED)
    return ends[steps], longer[steps]
