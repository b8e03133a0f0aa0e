"""The reasons not to trust an evidence estimate, in one place.

Each function returns a list of messages, empty where there is nothing to say; a run's ``alarm`` is
their text (`join`). Numbers that are not known are nan, and raise no alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from scipy.special import lambertw, ndtr, stdtrit

from gpmcflow.diagnostics.convergence import longest_stands, rhat_limit
from gpmcflow.diagnostics.importance_weights import (
    BAD_K,
    HARMLESS_SHARE,
    MAX_WEIGHT,
    MIN_EFFECTIVE_SIZE,
)

MAX_DIVERGING = 1e-3  # share of transitions
MAX_UNSOLVED = 0.02
MAX_JUMP = 3.0  # pooled standard deviations between neighbours of a ladder
MIN_SWAP_RATE = 0.05
MAX_ERRORS_APART = 3.0  # between two estimates of one number
MAX_SPREAD_RATIO = 3.0  # spread over replicates, in errors stated from within
MIN_SPREAD_REPLICATES = 4  # of fewer, a spread says little
MIN_TAIL_REACH = 0.5
MAX_BRIDGE_VARIANCE = 20.0  # between what was fine (6) and what was not (51)
MAX_SHARE = 0.1  # nats
MAX_LADDER_STEP = 1.5
MAX_RHAT, MIN_RHAT_DRAWS = 1.05, 8
ROUNDING = 1e-8  # of a log evidence: where the reference is the posterior, no error is larger
NEGLIGIBLE = 1e-4  # nats, on which no answer depends


def join(*groups: list[str]) -> str:
    """All messages as one text, empty if there is none."""
    return "; ".join(chain.from_iterable(groups))


def weight_alarms(effective_size: float, max_weight: float = np.nan) -> list[str]:
    """Effective size below 10, largest normalised weight above one half."""
    alarms = []
    if effective_size < MIN_EFFECTIVE_SIZE:
        alarms.append(f"effective size {effective_size:.1f} < {MIN_EFFECTIVE_SIZE:g}")
    if max_weight > MAX_WEIGHT:
        alarms.append(f"largest weight {max_weight:.2f} > {MAX_WEIGHT:g}")
    return alarms


def tail_alarms(log_evidence: float, log_weights: np.ndarray) -> list[str]:
    """Particles too few for the spread of their log weights (P,): the large weights are still unseen.

    Pi = sqrt(W((P - 1)^2 / 2 pi)) - sqrt(2 S) below 0.5, S = |log Z - mean log w| and W Lambert's
    function. For normal log weights of variance s^2 the evidence comes from weights s^2 above their mean,
    S = s^2 / 2, and the first root is how far, in s, P draws reach. An effective size, which knows only the
    weights that were seen, can be silent there. Particles of weight zero do not count.

    Source: Wu & Kofke (2004), J. Chem. Phys. 121, 8742; (2005), 123, 084109.
    """
    seen = log_weights[np.isfinite(log_weights)]
    if len(seen) < 2 or not np.isfinite(log_evidence):
        return []
    lost = abs(log_evidence - seen.mean())
    reach = np.sqrt(lambertw((len(seen) - 1) ** 2 / (2.0 * np.pi)).real) - np.sqrt(2.0 * lost)
    if reach >= MIN_TAIL_REACH:
        return []
    return [
        f"mean log weight {lost:.1f} nats from the log evidence: too far for {len(seen)} particles "
        f"(Pi {reach:.2f} < {MIN_TAIL_REACH:g})"
    ]


def transition_alarms(diverging: float, unsolved: float) -> list[str]:
    """Shares of transitions that failed: above 0.1 % non-finite, above 2 % unsolved."""
    alarms = []
    if diverging > MAX_DIVERGING:
        alarms.append(f"{100 * diverging:.2g} % of transitions had a non-finite energy")
    if unsolved > MAX_UNSOLVED:
        alarms.append(f"{100 * unsolved:.2g} % of transitions had implicit equations unsolved")
    return alarms


def jump_alarms(mean: np.ndarray, sd: np.ndarray, what: str = "log likelihood") -> list[str]:
    """A jump along the ladder: means of neighbours that differ by more than 3 pooled deviations.

    ``mean`` and ``sd`` (T + 1,) are those of the log likelihood, or of u, at each temperature; the
    pooled deviation of a pair is the root mean square of its two. A ladder that jumps has left the
    typical set, as at a phase transition: weights and swaps across it say nothing.
    """
    pooled = np.sqrt(0.5 * (np.square(sd[:-1]) + np.square(sd[1:])))
    gap = np.abs(np.diff(mean))
    jumps = np.flatnonzero(gap > np.maximum(MAX_JUMP * pooled, NEGLIGIBLE))
    if not len(jumps):
        return []
    with np.errstate(divide="ignore"):
        size = np.where(pooled > 0.0, gap / pooled, np.inf)
    where = jumps[np.argmax(size[jumps])]
    return [
        f"{what} jumps by {size[where]:.1f} standard deviations between temperatures {where} and "
        f"{where + 1} (limit {MAX_JUMP:g})"
    ]


def swap_alarms(rates: np.ndarray, n_round_trips: int) -> list[str]:
    """A pair of neighbours that swaps in less than 5 % of the trials; no round trip."""
    alarms = []
    known = np.flatnonzero(~np.isnan(rates))
    if len(known) and rates[known].min() < MIN_SWAP_RATE:
        pair = known[np.argmin(rates[known])]
        alarms.append(
            f"swap rate {rates[pair]:.3f} < {MIN_SWAP_RATE:g} between temperatures {pair} and "
            f"{pair + 1}"
        )
    if n_round_trips == 0:
        alarms.append("no round trip between beta = 0 and beta = 1")
    return alarms


def disagreement_alarms(
    first: tuple[str, float], second: tuple[str, float], difference: float, error: float, df: int
) -> list[str]:
    """Two estimates (name, value) of one number that are too far apart, from their paired difference.

    More than 3 standard errors, or what is as rare for Student's t with ``df`` degrees of freedom.
    """
    limit = stdtrit(df, ndtr(MAX_ERRORS_APART))
    distance = abs(difference) / max(error, NEGLIGIBLE)
    if not distance > limit:
        return []
    return [
        f"{first[0]} {first[1]:.4g} and {second[0]} {second[1]:.4g} are {distance:.1f} errors of their "
        f"difference apart (limit {limit:.1f})"
    ]


def spread_alarms(spread: float, stated: float, n_replicates: int) -> list[str]:
    """Standard error from the spread of replicates above 3 times that stated from within them."""
    stated = max(stated, NEGLIGIBLE)
    if n_replicates < MIN_SPREAD_REPLICATES or not spread > MAX_SPREAD_RATIO * stated:
        return []
    return [
        f"replicates spread {spread / stated:.1f} times as far as their own errors say "
        f"(limit {MAX_SPREAD_RATIO:g})"
    ]


def pareto_alarms(k: float, n_draws: int, effective_size: float) -> list[str]:
    """Pareto shape of the weights' tail above min(1 - 1 / log10 S, 0.7), S draws, that costs draws.

    A tail of any shape does no harm where nearly all draws are effective: k knows no scale, and of weights
    that are almost equal it is arbitrary.

    Source: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72), section 3.
    """
    limit = max_pareto_k(n_draws)
    if not k > limit or effective_size >= HARMLESS_SHARE * n_draws:
        return []
    return [f"Pareto k {k:.2f} > {limit:.2f}"]


def max_pareto_k(n_draws: int) -> float:
    """min(1 - 1 / log10 S, 0.7), the largest shape at which S draws are enough."""
    return min(1.0 - 1.0 / np.log10(max(n_draws, 2)), BAD_K)


def overlap_alarms(variance: float, pareto_k: float, largest_share: float) -> list[str]:
    """A bridge whose two ends overlap too little, from its terms, which have mean one.

    Their variance is above 20: few draws of one end lie where the other has its mass. Or the Pareto shape of
    their tail is above 0.7 and one more draw could change the estimate by ``largest_share`` of more than 0.1
    nats; terms are bounded, so that of a smaller share no tail matters.
    """
    messages = []
    if variance > MAX_BRIDGE_VARIANCE:
        messages.append(
            f"variance of the bridge's terms {variance:.0f} > {MAX_BRIDGE_VARIANCE:g}: little overlap"
        )
    if pareto_k > BAD_K and largest_share > MAX_SHARE:
        messages.append(
            f"Pareto k {pareto_k:.2f} > {BAD_K:g} of the bridge's terms, of which one can be "
            f"{largest_share:.2g} nats"
        )
    return messages


def short_ladder_alarms(distance: float, n_temperatures: int) -> list[str]:
    """Steps of a ladder above 1.5 standard deviations of u, as it may have no more temperatures."""
    step = distance / n_temperatures
    if not step > MAX_LADDER_STEP:
        return []
    return [f"steps of the ladder are {step:.1f} sd of u (limit {MAX_LADDER_STEP:g})"]


def slow_alarms(counts: Sequence[float], least: float) -> list[str]:
    """Fewer effective draws of the posterior side of a bridge than ``least``, the mean of replicates.

    Or half as many in one of them: its autocorrelation time is hardly known.
    """
    if not counts or (np.mean(counts) >= least and min(counts) >= 0.5 * least):
        return []
    return [
        f"{np.mean(counts):.0f} effective draws of the posterior in a replicate, {min(counts):.0f} in one "
        f"(least {least:g} in the mean, {0.5 * least:g} in each)"
    ]


def few_effective_alarms(effective_size: float, least: float) -> list[str]:
    """Fewer effective draws of a mixture than ``least``: the weights of a few decide."""
    if not effective_size < least:
        return []
    return [f"{effective_size:.0f} effective draws of the mixture (least {least:g})"]


def late_mode_alarms(late: bool) -> list[str]:
    """Draws of a mixture that still lead to a mode which it lacks: there may be more."""
    return ["the draws found a mode that the search had missed"] if late else []


def apart_alarms(theta: np.ndarray) -> list[str]:
    """Replicates that stand at different hyperparameters, theta (replicate, draw, d).

    R-hat of one is above 1.05 and above what so many draws show by chance (`rhat_limit`). Each replicate may
    then have found another mode, and miss the others' mass.
    """
    if theta.shape[0] < 2 or theta.shape[1] < MIN_RHAT_DRAWS:
        return []
    from arviz_stats.base import array_stats  # loads scipy.signal

    messages = []
    for k in range(theta.shape[-1]):
        own = theta[..., k]
        rhat = float(array_stats.rhat(own, chain_axis=0, draw_axis=1))
        limit = max(MAX_RHAT, rhat_limit(own, theta.shape[-1]))
        if rhat > limit:
            messages.append((
                rhat, f"replicates differ in a hyperparameter, R-hat {rhat:.2f} > {limit:.2f}"
            ))  # fmt: skip
    return [max(messages)[1]] if messages else []


def stand_alarms(theta: np.ndarray) -> list[str]:
    """A replicate of theta (replicate, draw, d) that stands still for longer than chance explains."""
    stands = longest_stands(theta)
    if not stands.any():
        return []
    return [f"a replicate stood still for {stands.max() + 1} of {theta.shape[1]} draws"]


def not_finite_alarms(log_evidence: float) -> list[str]:
    """An estimate that is no number."""
    return [] if np.isfinite(log_evidence) else ["the log evidence is not finite"]
