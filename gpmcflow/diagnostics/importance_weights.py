"""Evidence from log weights: estimate, error, effective size, and when not to believe them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

MIN_EFFECTIVE_SIZE = 10.0
MAX_WEIGHT = 0.5
HARMLESS_SHARE = 0.9  # of effective draws, from which on no shape of the weights' tail does harm
N_BOOTSTRAP = 1000
MIN_SMOOTHED = 25  # draws whose tail, a fifth of them, has the five values a fit needs
LOG_NOTHING = np.log(1e-300)
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


def smooth_weights(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Log weights (S,) with their largest ones Pareto-smoothed, on the same scale, and the shape k.

    The tail has the min(S / 5, 3 sqrt(S)) largest. Weights stay as they are, with k = nan, for fewer
    than 25 of them; with k = -inf where those of the tail do not differ; with k = inf where those
    below it are nothing (1e-300) beside the largest, or the fit fails.
    """
    n = len(log_weights)
    if n < MIN_SMOOTHED:
        return log_weights, np.nan
    n_tail = int(3.0 * np.sqrt(n)) if n > 225 else n // 5
    below, first = np.argsort(log_weights)[[n - n_tail - 1, n - n_tail]]
    if log_weights[below] < log_weights.max() + LOG_NOTHING:
        return log_weights, np.inf
    if log_weights.max() - log_weights[first] < 1e-9:  # rounding apart, such as of all alike
        return log_weights, -np.inf
    from arviz_stats.base import array_stats  # loads scipy.signal

    # The library takes the logs of inverse weights (its use is leave-one-out cross-validation), and
    # gives normalised ones; one below the tail, which is not smoothed, tells the scale.
    with np.errstate(all="ignore"):
        smoothed, k = array_stats.psislw(-log_weights)
    smoothed = smoothed + (log_weights[below] - smoothed[below])
    if not np.isfinite(k):
        return log_weights, np.inf
    return smoothed, float(k)
