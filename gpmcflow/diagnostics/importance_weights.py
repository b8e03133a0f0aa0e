"""Evidence from log weights: estimate, error, effective size, and when not to believe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

MIN_EFFECTIVE_SIZE = 10.0
MAX_WEIGHT = 0.5
HARMLESS_SHARE = 0.9  # of effective draws, from which on no shape of the weights' tail does harm
N_BOOTSTRAP = 1000
MIN_SMOOTHED = 25  # draws whose tail, a fifth of them, has the five values a fit needs
LOG_NOTHING = np.log(1e-300)
PRIOR_ROWS = 10  # that a Pareto shape of one half is worth, to steady fits of few
MOST_GRID = 1_000_000  # numbers that fits of Pareto tails hold at a time
BAD_K = 0.7  # a Pareto k above which weights are not to be trusted


@dataclass(frozen=True)
class EvidenceEstimate:
    """Log of the mean weight and what goes with it.

    Attributes
    ----------
    log_evidence:
        log(mean w); its expectation is at most the log evidence.
    standard_error:
        Delta method, sqrt((P / ESS - 1) / (P - 1)); meaningless below an effective size of 10.
    effective_size:
        ESS = (sum w)^2 / sum w^2.
    bootstrap_low, bootstrap_high:
        95 % percentile interval of log(mean w) over resampled particles.
    mean_log_weight, sd_log_weight:
        The mean is a stochastic lower bound of the log evidence.
    max_weight:
        Largest normalised weight.
    n_particles:
        P.
    """

    log_evidence: float
    standard_error: float
    effective_size: float
    bootstrap_low: float
    bootstrap_high: float
    mean_log_weight: float
    sd_log_weight: float
    max_weight: float
    n_particles: int


def normalised_weights(log_weights: np.ndarray) -> np.ndarray:
    """Weights (..., P) that sum to one over the last axis."""
    return np.exp(log_weights - logsumexp(log_weights, axis=-1, keepdims=True))


def effective_size(log_weights: np.ndarray) -> np.ndarray:
    """ESS = (sum w)^2 / sum w^2 over the last axis, (...)."""
    return np.exp(2.0 * logsumexp(log_weights, axis=-1) - logsumexp(2.0 * log_weights, axis=-1))


def standard_error(log_weights: np.ndarray) -> np.ndarray:
    """Of the log of the mean weight over the last axis, (...).

    By the delta method: sqrt((P / ESS - 1) / (P - 1)).
    """
    n = log_weights.shape[-1]
    return np.sqrt(np.maximum(n / effective_size(log_weights) - 1.0, 0.0) / (n - 1))


def systematic_resample(weights: np.ndarray, uniform: float, n: int | None = None) -> np.ndarray:
    """Indices (n,) in which i appears on average n w_i times, from one uniform number; n = P if None."""
    n = len(weights) if n is None else n
    points = (uniform + np.arange(n)) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)


def conditional_effective_size(log_weights: np.ndarray, log_increments: np.ndarray) -> float:
    """(sum W v)^2 / sum W v^2 as a fraction of 1, W normalised weights, v incremental weights.

    One for increments without variance. Source: Zhou, Johansen & Aston (2016).
    """
    log_w = log_weights - logsumexp(log_weights)
    first = logsumexp(log_w + log_increments)
    return float(np.exp(2.0 * first - logsumexp(log_w + 2.0 * log_increments)))


def estimate_evidence(log_weights: np.ndarray, rng: np.random.Generator) -> EvidenceEstimate:
    """Evidence estimate from log weights (P,), P >= 2; ``rng`` draws the bootstrap resamples."""
    log_weights = np.asarray(log_weights, dtype=np.float64)
    n = len(log_weights)
    ess = float(effective_size(log_weights))
    low, high = bootstrap_interval(log_weights, rng)
    return EvidenceEstimate(
        log_evidence=float(logsumexp(log_weights) - np.log(n)),
        standard_error=float(standard_error(log_weights)),
        effective_size=ess,
        bootstrap_low=low,
        bootstrap_high=high,
        mean_log_weight=float(log_weights.mean()),
        sd_log_weight=float(log_weights.std(ddof=1)),
        max_weight=float(normalised_weights(log_weights).max()),
        n_particles=n,
    )


def bootstrap_interval(log_weights: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % percentile interval of log(mean w), from `N_BOOTSTRAP` resamples of the weights (P,)."""
    n, largest = len(log_weights), log_weights.max()
    # Multinomial counts instead of resampled indices: one matrix product for all resamples.
    counts = rng.multinomial(n, np.full(n, 1.0 / n), size=N_BOOTSTRAP)
    with np.errstate(divide="ignore"):
        resampled = np.log(counts @ np.exp(log_weights - largest) / n) + largest
    low, high = np.percentile(resampled, [2.5, 97.5], method="nearest")  # no -inf minus -inf
    return float(low), float(high)


def smooth_weights(log_weights: np.ndarray) -> tuple[np.ndarray, Any]:
    """Log weights (..., S) with their largest ones Pareto-smoothed, on the same scale, and shapes k (...).

    The tail has the min(S / 5, 3 sqrt(S)) largest. They become quantiles of the generalised Pareto
    distribution that fits them, at most the largest weight. Weights stay as they are, with k = nan, for
    fewer than 25 of them; with k = -inf where those of the tail do not differ; with k = inf where those
    below it are nothing (1e-300) beside the largest, or the fit fails.

    Source: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72), algorithm 1.
    """
    n = log_weights.shape[-1]
    if n < MIN_SMOOTHED:
        return log_weights, np.full(log_weights.shape[:-1], np.nan)[()]
    rows = log_weights.reshape(-1, n)
    n_tail = int(3.0 * np.sqrt(n)) if n > 225 else n // 5
    order = np.argsort(rows, axis=1)
    places, highest = order[:, -n_tail:], np.take_along_axis(rows, order[:, -1:], axis=1)
    tail = np.take_along_axis(rows, places, axis=1) - highest
    below = np.take_along_axis(rows, order[:, -n_tail - 1 : -n_tail], axis=1) - highest
    alike = -tail[:, 0] < 1e-9  # rounding apart, such as of all alike
    with np.errstate(all="ignore"):
        floor = np.exp(below)
        k, sigma = generalised_pareto(np.exp(tail) - floor)
        ranks = np.log1p(-(np.arange(n_tail) + 0.5) / n_tail)
        excess = sigma[:, None] * np.expm1(-k[:, None] * ranks) / k[:, None]
        fitted = np.minimum(np.log(floor + excess), 0.0)
    fits = (below[:, 0] >= LOG_NOTHING) & ~alike & np.isfinite(k) & np.isfinite(fitted).all(1)
    smoothed = rows.copy()
    smoothed[np.flatnonzero(fits)[:, None], places[fits]] = fitted[fits] + highest[fits]
    k = np.where(fits, k, np.where(alike & (below[:, 0] >= LOG_NOTHING), -np.inf, np.inf))
    return smoothed.reshape(log_weights.shape), k.reshape(log_weights.shape[:-1])[()]


def generalised_pareto(excesses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape k and scale (R,) of the generalised Pareto distributions that fit ascending rows (R, m) best.

    Averages over the posterior of a profile likelihood; k is drawn to 1/2 with the weight of 10 observations.
    Source: Zhang & Stephens (2009), Technometrics 51; the prior: Vehtari et al. (2024), appendix C.
    """
    m = excesses.shape[1]
    n_grid = 30 + int(np.sqrt(m))
    at = 1.0 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))
    k, scale = np.empty((2, len(excesses)))
    size = max(1, MOST_GRID // (n_grid * m))
    for start in range(0, len(excesses), size):
        own = excesses[start : start + size]
        b = at / (3.0 * own[:, [int(m / 4 + 0.5) - 1]]) + 1.0 / own[:, -1:]
        shapes = np.log1p(-b[:, :, None] * own[:, None]).mean(-1)
        profile = m * (np.log(-b / shapes) - shapes - 1.0)
        weights = np.exp(profile - profile.max(1, keepdims=True))
        b = (b * weights).sum(1) / weights.sum(1)
        shape = np.log1p(-b[:, None] * own).mean(1)
        scale[start : start + size] = -shape / b
        k[start : start + size] = (m * shape + 0.5 * PRIOR_ROWS) / (m + PRIOR_ROWS)
    return k, scale
