"""Chains that stand still for longer than chance explains."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

LEAST_SHARE = 0.25  # of a chain's transitions, spent at one point: shorter stands do little harm
FALSE_ALARMS = 0.01  # share of correct runs with such a stand


def longest_stands(draws: np.ndarray) -> np.ndarray:
    """Transitions without a move in the longest stand of each chain, 0 where chance explains it, (chain,).

    ``draws`` (chain, draw, ...). A stand of r transitions counts where it takes a quarter of the chain's N
    transitions or more, and chance explains it in fewer than one run of a hundred: N C B(s + r, v) / B(s, v)
    is below 0.01. Of the chain's other transitions v move and s - 1 stay; the ratio of beta functions is the
    chance that the next r ones stay, and N C the number of places in all C chains. A chain that never moved
    tells no such chance, and has no stand.
    """
    moved = np.any(np.diff(draws, axis=1) != 0.0, axis=tuple(range(2, draws.ndim)))
    n_chains, n = moved.shape
    stands = np.zeros(n_chains, dtype=int)
    for k, own in enumerate(moved):
        at = np.concatenate([[-1], np.flatnonzero(own), [n]])
        longest = int(np.diff(at).max()) - 1
        moves = int(own.sum())
        if not moves or longest < LEAST_SHARE * n:
            continue
        others = n - moves - longest + 1
        chance = betaln(others + longest, moves) - betaln(others, moves)
        if np.log(n_chains * n) + chance < np.log(FALSE_ALARMS):
            stands[k] = longest
    return stands
