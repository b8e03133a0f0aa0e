"""Whether chains agree and keep moving: R-hats and stands that are larger than chance explains."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, fdtri, ndtri

from gpmcflow.diagnostics.autocorrelation import MIN_DRAWS, initial_positive_sequence_time

LEAST = 1.01  # the limit of long runs
MOST = 1.2  # above it chains disagree, however few their draws
FALSE_ALARMS = 0.01  # share of correct runs above the limit of R-hat, or with such a stand


def rhat_limit(draws: np.ndarray, n_quantities: int = 1) -> float:
    """Largest rank-normalised split R-hat of draws (chain, draw) that chance explains, 1.01 to 1.2.

    Of m half chains with s effective draws each, R-hat^2 = 1 + F / (s - 1) is that of an analysis of variance
    of m groups of s independent draws: where they agree F has Fisher's distribution with m - 1 and m (s - 1)
    degrees of freedom. The limit is at its quantile that the largest of ``n_quantities``, each judged in the
    bulk and in the tails, exceeds in one run of a hundred.

    m s is the smaller number of effective draws of both: a chain that swings from side to side has many of
    its middle, and few of its spread. It is counted within chains, so that chains that differ do not lower
    it, and with the autocorrelation times of short chains. No chance explains a chain that never moved: there
    the limit is 1.01. Chains of fewer than about 15 effective draws have an R-hat above 1.2 by chance, and
    too few draws.

    Source: R-hat is that of Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), Bayesian Analysis 16.
    """
    n_chains, n_draws = draws.shape
    if n_draws < MIN_DRAWS or not np.all(np.isfinite(draws)):
        return LEAST
    both = np.stack([_normal_scores(draws), _normal_scores(np.abs(draws - np.median(draws)))])
    times = initial_positive_sequence_time(both, of_short_chains=True)
    if not np.all(np.isfinite(times)):
        return LEAST
    m = 2 * n_chains
    effective = float((n_draws / times).sum(1).min()) / m
    if effective <= 1.0:
        return MOST
    chance = fdtri(m - 1, m * (effective - 1.0), 1.0 - FALSE_ALARMS / (2.0 * n_quantities))
    return float(np.clip(np.sqrt(1.0 + chance / (effective - 1.0)), LEAST, MOST))


def _normal_scores(draws: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks of draws (chain, draw)."""
    from scipy.stats import rankdata  # takes long to load

    return ndtri((rankdata(draws).reshape(draws.shape) - 0.375) / (draws.size + 0.25))


LEAST_SHARE = 0.25  # of a chain's transitions, spent at one point: shorter stands do little harm


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
