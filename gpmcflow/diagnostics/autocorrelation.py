"""Autocorrelation times of chains, batch first: batch means, and Geyer's initial positive sequence."""

from __future__ import annotations

import numpy as np
from scipy import fft

from gpmcflow.errors import InputError

MIN_BATCHES = 8  # batch means, fewer of which do not estimate their own variance
MIN_BATCH_DRAWS = MIN_BATCHES**3
MIN_DRAWS = 4  # two pairs of lags
SHORTEST_BATCH = 5.0  # autocorrelation times
SHORTEST_CHAIN = 50.0  # autocorrelation times


def batch_means_time(series: np.ndarray) -> np.ndarray:
    """Autocorrelation time tau = B S_b^2 / S^2 of each series, in draws.

    S^2 is the sample variance of all N values, S_b^2 that of the means of floor(N^(1/3)) batches of
    B = floor(N^(2/3)) consecutive values; both are unbiased (divisors N - 1 and batches - 1). The
    tail that fills no batch counts in S^2 only. N = 50000: B = 1357, 36 batches, so that one tau has
    a relative standard error of sqrt(2 / 35) = 24 %: average over chains (`mean_and_error`). Keep
    B well above tau, as the relative bias is about -tau / (2 B).

    ``series`` is (..., N); returns (...). A chain that never moved has no autocorrelation time: inf.
    Raises `InputError` for fewer than 512 draws (8 batches) and for values that are not finite.

    Source: Shahbaba, Lan, Johnson & Neal (2014), section 4; batches as in the authors' scripts.
    """
    series = _checked(series, MIN_BATCH_DRAWS, "batch_means_time")
    n_draws = series.shape[-1]
    n_batches, size = _cube_root(n_draws), batch_length(n_draws)
    batches = series[..., : n_batches * size].reshape(*series.shape[:-1], n_batches, size)
    between = batches.mean(axis=-1).var(axis=-1, ddof=1)
    moved = _moved(series)
    variance = np.where(moved, series.var(axis=-1, ddof=1), 1.0)
    return np.where(moved, size * between / variance, np.inf)


def batch_length(n_draws: int) -> int:
    """Draws in a batch, B = floor(N^(2/3))."""
    return _cube_root(n_draws**2)


def is_underestimate(time: float, batch: int) -> bool:
    """Whether a time by batch means is too long for its batches: above B / 5 it is far too low.

    An autoregression of 0.99, whose time is 199, is given 132 on average by 5000 draws (B = 292). A chain
    that never moved (inf) is no underestimate.
    """
    return batch / SHORTEST_BATCH < time < np.inf


def initial_positive_sequence_time(
    series: np.ndarray, *, of_short_chains: bool = False
) -> np.ndarray:
    """Autocorrelation time tau = 1 + 2 sum_k rho_k of each series, in draws.

    The sum ends before the first pair of lags (2m, 2m + 1) with rho_2m + rho_(2m+1) <= 0; for a
    reversible chain all such sums are positive, so what follows is noise. tau is at least
    1 / log10(N), as the noise of an antithetic chain could carry it below zero.

    ``of_short_chains`` multiplies it by 1 + (2 K + 1) / N, with K the last lag of the sum: autocovariances
    about the mean of the chain itself are too small by tau / N each.

    ``series`` is (..., N); returns (...). A chain that never moved has no autocorrelation time: inf.
    Raises `InputError` for fewer than 4 draws and for values that are not finite.

    Sources: Geyer (1992), section 3.3; lower bound as in Vehtari et al. (2021); Wolff (2004), Computer
    Physics Communications 156, eq. 49, for short chains.
    """
    series = _checked(series, MIN_DRAWS, "initial_positive_sequence_time")
    n_draws = series.shape[-1]
    rho = _autocorrelation(series, n_draws - 1)
    pairs = rho[..., : n_draws // 2 * 2].reshape(*series.shape[:-1], -1, 2).sum(axis=-1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=-1)
    tau = 2.0 * np.where(positive, pairs, 0.0).sum(axis=-1) - 1.0
    if of_short_chains:
        last = 2 * positive.sum(axis=-1) - 1
        tau *= 1.0 + (2 * last + 1) / n_draws
    return np.where(_moved(series), np.maximum(tau, 1.0 / np.log10(n_draws)), np.inf)


def is_too_short(n_draws: int, time: float) -> bool:
    """Whether a chain is too short for its time by the initial positive sequence: below 50 times it.

    An autoregression of 0.99, whose time is 199, is given 151 on average by 2000 draws, 194 by 10000. A
    chain that never moved (inf) is not too short.

    Source: fifty times as the emcee authors advise (Foreman-Mackey et al., 2013).
    """
    return n_draws / SHORTEST_CHAIN < time < np.inf


def autocorrelation(series: np.ndarray, max_lag: int) -> np.ndarray:
    """Autocorrelations rho_0 = 1, rho_1, ..., rho_max_lag of each series.

    rho_k = c_k / c_0, c_k = sum_t (x_t - m)(x_(t+k) - m) / N with m the mean of the series, from
    the fast Fourier transform. The divisor N at every lag keeps the noise of high lags small.

    ``series`` is (..., N); returns (..., max_lag + 1); nan where a chain never moved. Raises
    `InputError` unless 0 <= max_lag < N, for fewer than 4 draws, and for values that are not finite.
    """
    series = _checked(series, MIN_DRAWS, "autocorrelation")
    if not 0 <= max_lag < series.shape[-1]:
        raise InputError(
            f"autocorrelation: max_lag is {max_lag}, allowed is 0 to {series.shape[-1] - 1} for "
            f"{series.shape[-1]} draws; give a smaller lag or a longer chain."
        )
    return _autocorrelation(series, int(max_lag))


def mean_and_error(values: np.ndarray, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Mean over ``axis`` of independent estimates, one a chain, and its standard error sd / sqrt(n).

    The sd has divisor n - 1. The error of a single estimate is nan, and so is that of estimates
    that are not all finite. Raises `InputError` when there is none.
    """
    values = np.asarray(values, dtype=np.float64)
    n = values.shape[axis] if values.ndim else 0
    if n < 1:
        raise InputError(
            f"mean_and_error: found no estimate on axis {axis} of shape {values.shape}; give one a chain."
        )
    mean = values.mean(axis=axis)
    if n == 1:
        return mean, np.full_like(mean, np.nan)
    with np.errstate(invalid="ignore"):  # inf - inf: the error is nan, as documented
        return mean, values.std(axis=axis, ddof=1) / np.sqrt(n)


def _autocorrelation(series: np.ndarray, max_lag: int) -> np.ndarray:
    centred = series - series.mean(axis=-1, keepdims=True)
    n_draws = series.shape[-1]
    # Zeros up to 2N - 1 values, or lag k would wrap round to N - k.
    length = fft.next_fast_len(2 * n_draws - 1, real=True)
    spectrum = np.abs(fft.rfft(centred, length, axis=-1)) ** 2
    covariance = fft.irfft(spectrum, length, axis=-1)[..., : max_lag + 1]
    moved = _moved(series)[..., None]
    return np.where(moved, covariance / np.where(moved, covariance[..., :1], 1.0), np.nan)


def _moved(series: np.ndarray) -> np.ndarray:
    """Whether any value differs: a variance would tell rounding of the mean from a move only by size."""
    return np.any(series != series[..., :1], axis=-1)


def _cube_root(n: int) -> int:
    """floor(n^(1/3)) in whole numbers: 64 ** (1 / 3) is 3.9999999999999996."""
    root = round(n ** (1.0 / 3.0))
    while root**3 > n:
        root -= 1
    while (root + 1) ** 3 <= n:
        root += 1
    return root


def _checked(series: np.ndarray, least: int, where: str) -> np.ndarray:
    """Series as float64, or `InputError` for too few draws and values that are not finite."""
    series = np.asarray(series, dtype=np.float64)
    n_draws = series.shape[-1] if series.ndim else 0
    if n_draws < least:
        raise InputError(
            f"{where}: found {n_draws} draws on the last axis of shape {series.shape}, needs "
            f"{least} or more; run a longer chain."
        )
    finite = np.isfinite(series)
    if not finite.all():
        first = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(
            f"{where}: {finite.size - finite.sum()} of {finite.size} values are not finite, the "
            f"first is {series[first]} at {first}; give finite draws only."
        )
    return series
