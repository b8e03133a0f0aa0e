"""Evidence from draws of u at all inverse temperatures of a ladder, and how well they mix."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from gpmcflow.diagnostics.autocorrelation import MIN_BATCHES, batch_length
from gpmcflow.diagnostics.importance_weights import N_BOOTSTRAP
from gpmcflow.evidence.bridge import Terms, bridge_ratio, bridge_terms

ESTIMATORS = ("stepping_stones", "thermodynamic_integration", "bridge")


def stepping_stones(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log Z = sum_t log E_t[exp((beta_{t+1} - beta_t) u)], E_t the mean over draws at beta_t.

    ``u`` is (..., T + 1, draw), the result (...); the draws at beta_T = 1 are not used. Each factor is
    unbiased for exact draws. Source: Xie, Lewis, Fan, Kuo & Chen (2011), Systematic Biology 60, 150.
    """
    exponent = np.diff(betas)[:, None] * u[..., :-1, :]
    return (logsumexp(exponent, axis=-1) - np.log(u.shape[-1])).sum(-1)


def thermodynamic_integration(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log Z, the integral of E_beta[u] over beta, by the corrected trapezoid rule.

    sum_t (D_t / 2) (E_t + E_{t+1}) - (D_t^2 / 12) (V_{t+1} - V_t), D_t = beta_{t+1} - beta_t, E_t and
    V_t mean and variance of u at beta_t: the variance is the derivative of the mean by beta, so the
    rest is of the order D^5. ``u`` is (..., T + 1, draw), the result (...). Source: Friel & Pettitt
    (2008), JRSS B 70, 589; Friel, Hurn & Wyse (2014), Statistics and Computing 24, 709.
    """
    of_mean, of_variance = quadrature(betas)
    return u.mean(-1) @ of_mean + u.var(-1, ddof=1) @ of_variance


def bridge(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log Z, the sum of Bennett's bridges between neighbours; ``u`` is (..., T + 1, draw), the result (...).

    Source: see `gpmcflow.evidence.bridge`.
    """
    return pair_ratios(betas, u).sum(-1)


def pair_ratios(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log ratio of the normalising constants of each pair of neighbours (..., T)."""
    return bridge_ratio(*_pair_ends(betas, u))


def pair_terms(betas: np.ndarray, u: np.ndarray) -> Terms:
    """Terms of the bridge of each pair of neighbours, (..., T, draw)."""
    lower, upper = _pair_ends(betas, u)
    return bridge_terms(lower, upper, bridge_ratio(lower, upper))


def _pair_ends(betas: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gap = np.diff(betas)[:, None]
    return gap * u[..., :-1, :], gap * u[..., 1:, :]


def quadrature(betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T + 1,) of the means and of the variances in `thermodynamic_integration`."""
    gap = np.concatenate([[0.0], np.diff(betas), [0.0]])
    return 0.5 * (gap[:-1] + gap[1:]), (gap[1:] ** 2 - gap[:-1] ** 2) / 12.0


def influence(betas: np.ndarray, u: np.ndarray, estimator: str) -> np.ndarray:
    """What each draw adds to an estimate, to first order, (..., draw) of ``u`` (..., T + 1, draw).

    The mean of these numbers has the error of the estimate; all temperatures of a draw are summed,
    so that their correlation counts.
    """
    if estimator == "stepping_stones":
        weight = np.exp(
            np.diff(betas)[:, None] * (u[..., :-1, :] - u[..., :-1, :].max(-1)[..., None])
        )
        return (weight / weight.mean(-1, keepdims=True)).sum(-2)
    if estimator == "bridge":
        terms = pair_terms(betas, u)
        return (terms.lower - terms.upper).sum(-2)
    of_mean, of_variance = quadrature(betas)
    square = (u - u.mean(-1, keepdims=True)) ** 2
    return np.einsum("t,...td->...d", of_mean, u) + np.einsum("t,...td->...d", of_variance, square)


def paired_difference(betas: np.ndarray, u: np.ndarray) -> tuple[float, float, int]:
    """Thermodynamic integration less stepping stones, its standard error and degrees of freedom.

    Both come from the same draws ``u`` (chain, T + 1, draw), so that most of their errors cancels: the
    error is the jackknife's, one chain left out at a time, which also takes the bias of order 1 / N off the
    difference. Of a single chain it comes from batch means. Source: Efron (1982), The Jackknife, chapter 2.
    """

    def apart(u: np.ndarray) -> float:
        pooled = u.transpose(1, 0, 2).reshape(len(betas), -1)
        return float(thermodynamic_integration(betas, pooled) - stepping_stones(betas, pooled))

    n_chains, whole = len(u), apart(u)
    if n_chains == 1:
        of_integral, of_stones = (influence(betas, u, name) for name in ESTIMATORS[1::-1])
        return whole, float(batch_means_error(of_integral - of_stones)[0]), MIN_BATCHES - 1
    without = np.array([apart(np.delete(u, chain, axis=0)) for chain in range(n_chains)])
    error = np.sqrt((n_chains - 1) * without.var())
    return n_chains * whole - (n_chains - 1) * without.mean(), float(error), n_chains - 1


def bootstrap_intervals(
    betas: np.ndarray, u: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of 95 % percentile intervals, each in the order of `ESTIMATORS`, from resamples of the chains.

    ``u`` is (chain, T + 1, draw). A chain is taken whole, so that its autocorrelation does not matter.
    """
    n_chains, _, n_draws = u.shape
    share = (
        rng.multinomial(n_chains, np.full(n_chains, 1.0 / n_chains), size=N_BOOTSTRAP) / n_chains
    )
    exponent = np.diff(betas)[:, None] * u[:, :-1]
    largest = exponent.max((0, 2), keepdims=True)
    stones = np.log(share @ np.exp(exponent - largest).mean(-1)).sum(-1) + largest.sum()
    centre = u.mean((0, 2), keepdims=True)
    mean, square = (u - centre).mean(-1), ((u - centre) ** 2).mean(-1)
    variance = (share @ square - (share @ mean) ** 2) * (
        n_chains * n_draws / (n_chains * n_draws - 1)
    )
    of_mean, of_variance = quadrature(betas)
    integral = (share @ mean + centre[0, :, 0]) @ of_mean + variance @ of_variance
    pooled = u.transpose(1, 0, 2).reshape(len(betas), -1)
    by_chain = influence(betas, pooled, "bridge").reshape(n_chains, n_draws).mean(-1)
    bridges = bridge(betas, pooled) + share @ by_chain  # to first order
    low, high = np.percentile([stones, integral, bridges], [2.5, 97.5], axis=1, method="nearest")
    return low, high


def batch_means_error(series: np.ndarray) -> np.ndarray:
    """Standard error of the mean of each series (..., N) by batch means, (...); nan for N < 16.

    Batches of floor(N^(2/3)) draws, or shorter where that gives fewer than 8.
    """
    n_draws = series.shape[-1]
    if n_draws < 2 * MIN_BATCHES:
        return np.full(series.shape[:-1], np.nan)
    size = min(batch_length(n_draws), n_draws // MIN_BATCHES)
    n_batches = n_draws // size
    batches = series[..., : n_batches * size].reshape(*series.shape[:-1], n_batches, size)
    return batches.mean(-1).std(-1, ddof=1) / np.sqrt(n_batches)


def round_trips(walkers: np.ndarray) -> np.ndarray:
    """Journeys of any walker from beta = 0 to beta = 1 and back, counted in each chain (chain,).

    ``walkers`` (chain, T + 1, draw) says which walker stands at each temperature.
    """
    bottom, top = walkers[:, 0], walkers[:, -1]
    count = np.zeros(len(walkers), dtype=int)
    for c, (low, high) in enumerate(zip(bottom, top, strict=True)):
        for walker in np.intersect1d(low, high):
            at_top = np.flatnonzero(high == walker)
            times = np.concatenate([np.flatnonzero(low == walker), at_top])
            ends = np.concatenate([np.zeros(len(times) - len(at_top)), np.ones(len(at_top))])
            change = np.diff(ends[np.argsort(times)])
            arrived = np.flatnonzero(change > 0)  # at the top, from the bottom
            returned = np.flatnonzero(change < 0)
            count[c] += int((returned > arrived[0]).sum()) if len(arrived) else 0
    return count


def swap_rates(swap_accepted: np.ndarray) -> np.ndarray:
    """Share of proposed swaps that were accepted, of each pair of neighbours (T,).

    ``swap_accepted`` is (chain, T + 1, draw): 1, 0, or -1 where none was proposed.
    """
    pairs = swap_accepted[:, :-1]
    proposed = (pairs >= 0).sum((0, 2))
    accepted = (pairs == 1).sum((0, 2))
    return np.where(proposed > 0, accepted / np.maximum(proposed, 1), np.nan)
