"""Autocorrelation times from one short chain: Geyer's initial monotone sequence, and a run rule."""

from __future__ import annotations

import numpy as np

from gpmcflow.diagnostics.autocorrelation import MIN_DRAWS, _autocorrelation, _checked, _moved

RUN = 5  # consecutive lags that are not significant end the sum of the run rule
LIMIT = 1.96


def initial_monotone_sequence_time(series: np.ndarray) -> np.ndarray:
    """Autocorrelation time tau = 2 sum_j G_j - 1 of each series, in draws.

    G_j = rho_(2j) + rho_(2j+1), up to before the first G_j <= 0, each replaced by the least of those
    so far: for a reversible chain the G_j are positive and decrease. White noise of 1334 draws gives
    1.04 in the mean, with sd 0.08.

    ``series`` is (..., N); returns (...). A chain that never moved has no autocorrelation time: inf.
    Raises `InputError` for fewer than 4 draws and for values that are not finite.

    Source: Geyer (1992), section 3.3.
    """
    series = _checked(series, MIN_DRAWS, "initial_monotone_sequence_time")
    n_draws = series.shape[-1]
    rho = _autocorrelation(series, n_draws - 1)
    pairs = rho[..., : n_draws // 2 * 2].reshape(*series.shape[:-1], -1, 2).sum(axis=-1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=-1)
    least = np.minimum.accumulate(pairs, axis=-1)
    tau = 2.0 * np.where(positive, least, 0.0).sum(axis=-1) - 1.0
    return np.where(_moved(series), np.maximum(tau, 1.0 / np.log10(n_draws)), np.inf)


def run_rule_time(series: np.ndarray, run: int = RUN) -> np.ndarray:
    """Autocorrelation time tau = 1 + 2 sum_(i <= k) rho_i of each series, in draws.

    k is the last lag with |rho_i| >= 1.96 / sqrt(N) before the first ``run`` consecutive lags that are
    below it: "k such that later lags are not significantly different from 0" made a rule.

    ``series`` is (..., N); returns (...); inf for a chain that never moved. Raises `InputError` for
    fewer than 4 draws and for values that are not finite. Source: Wang & Neal (2013), eq. 44.
    """
    series = _checked(series, MIN_DRAWS, "run_rule_time")
    n_draws = series.shape[-1]
    rho = _autocorrelation(series, n_draws - 1)[..., 1:]
    significant = np.abs(rho) >= LIMIT / np.sqrt(n_draws)
    flat, out = significant.reshape(-1, n_draws - 1), np.empty(rho[..., 0].size)
    for row, (marks, values) in enumerate(zip(flat, rho.reshape(flat.shape), strict=True)):
        last = -1
        for lag in np.flatnonzero(marks):
            if lag - last > run:
                break
            last = lag
        out[row] = 1.0 + 2.0 * values[: last + 1].sum()
    tau = np.maximum(out.reshape(series.shape[:-1]), 1.0 / np.log10(n_draws))
    return np.where(_moved(series), tau, np.inf)
