"""Effective sample size as R-CODA computes it: the spectral density at zero of a fitted autoregression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.errors import InputError

FLAT = 1.5e-8  # relative deviation from a straight line below which a series counts as one


class SpectrumAtZero(NamedTuple):
    """Spectral density at frequency zero, and the order of the autoregression it comes from."""

    value: float
    order: int


def spectrum_at_zero(series: np.ndarray) -> SpectrumAtZero:
    """v N / (N - p - 1) / (1 - sum_j a_j)^2 of the AR(p) that AIC chooses for one chain (N,).

    Autocovariances have the divisor N; orders are 0 .. floor(10 log10 N), by Levinson's and Durbin's
    recursion; AIC = N log v + 2 p, the least order among equals. A series that is a straight line up to
    rounding has value 0 and order 0. Raises `InputError` for fewer than 4 draws or values not finite.

    Source: R 4.2 `ar.yw`, coda 0.19 `spectrum0.ar`.
    """
    x = _checked(series)
    n = len(x)
    centred = x - x.mean()
    time = np.arange(n) - 0.5 * (n - 1)
    line = centred - time * (time @ centred) / (time @ time)
    scale = max(float(np.abs(x).max()), float(np.std(centred)))
    if np.std(line) <= FLAT * scale:
        return SpectrumAtZero(0.0, 0)
    largest = min(int(np.floor(10.0 * np.log10(n))), n - 1)
    r = np.array([centred[: n - j] @ centred[j:] for j in range(largest + 1)]) / n
    best = _best_order(r, n)
    value = best[1] * n / (n - best[0] - 1) / (1.0 - best[2].sum()) ** 2
    return SpectrumAtZero(float(value), best[0])


def effective_size(series: np.ndarray) -> np.ndarray | float:
    """N s^2 / spectrum(0) of chains (..., N), shape (...); s^2 has the divisor N - 1, no cap at N.

    0 for a series that is a straight line. Source: Murray & Adams (2010), section 6; coda 0.19
    `effectiveSize`.
    """
    series = np.asarray(series, dtype=np.float64)
    if series.ndim == 1:
        spectrum = spectrum_at_zero(series).value
        return len(series) * float(series.var(ddof=1)) / spectrum if spectrum > 0.0 else 0.0
    if series.ndim == 0:
        _checked(series)
    flat = series.reshape(-1, series.shape[-1])
    return np.array([effective_size(row) for row in flat]).reshape(series.shape[:-1])


def _best_order(r: np.ndarray, n: int) -> tuple[int, float, np.ndarray]:
    """Order, innovation variance and coefficients with the least AIC."""
    a, v = np.empty(0), r[0]
    best, least = (0, v, a), n * np.log(v)
    for m in range(1, len(r)):
        kappa = (r[m] - a @ r[m - 1 : 0 : -1]) / v
        a = np.append(a - kappa * a[::-1], kappa)
        v = v * (1.0 - kappa * kappa)
        if not v > 0.0:  # an exact recurrence: no further order can be fitted
            break
        criterion = n * np.log(v) + 2.0 * m
        if criterion < least:
            best, least = (m, v, a), criterion
    return best


def _checked(series: np.ndarray) -> np.ndarray:
    x = np.asarray(series, dtype=np.float64)
    if x.ndim != 1 or len(x) < 4:
        raise InputError(
            f"effective_size: found shape {x.shape}; allowed: 4 or more draws of a chain on the last axis"
        )
    wrong = np.flatnonzero(~np.isfinite(x))
    if wrong.size:
        raise InputError(
            f"effective_size: value {wrong[0]} is {x[wrong[0]]}; give finite draws only"
        )
    return x
