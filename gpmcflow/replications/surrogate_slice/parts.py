"""One row a results file of the surrogate-slice study: estimates of each chain, counts and seconds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats

from gpmcflow.errors import InputError
from gpmcflow.jobs.parts import make_part
from gpmcflow.replications.surrogate_slice.settings import STUDY
from gpmcflow.storage import open_results, read_sidecar

# Effective sample size as R-CODA computes it: the spectral density at zero of a fitted autoregression.

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


COUNTERS = ("n_hyp", "n_cov", "n_lik")


def replicate_part(path: str | Path) -> dict:
    """Problem, method, settings, origin and, of each chain, what `chain_estimates` gives."""
    tree = open_results(path)
    seconds = read_sidecar(path)["seconds"]
    series = traces(tree)
    stats = tree["sample_stats"].to_dataset()
    chains = [
        chain_estimates(series.isel(chain=k), stats.isel(chain=k), seconds) | {"latent_ess": size}
        for k, size in enumerate(latent_sizes(tree))
    ]
    for chain, share in zip(chains, seconds.get("pilot") or (), strict=False):
        chain["pilot_seconds"] = share
    values = {
        "n_cases": int(tree["observed_data"].sizes["case"]),
        "names": [str(name) for name in series["theta_dim"].values],
        "chains": chains,
    }
    part = make_part(STUDY, "replicate", path, tree.attrs, values)
    part["settings"] = {key: part["settings"][key] for key in ("problem", "method")}
    tree.close()
    return part


def latent_sizes(tree: xr.DataTree) -> list[float]:
    """Least effective size (R-CODA's) of the kept latent values of each chain; thinning bounds it."""
    latents = tree["posterior"]["latent"].values
    return [float(np.min(effective_size(chain.T))) for chain in latents]


def traces(tree: xr.DataTree) -> xr.Dataset:
    """Theta, T and the counters of every iteration kept: (chain, iteration).

    A gradient is one setting of theta, one covariance and one evaluation of the likelihood.
    """
    if "trace" in tree:
        every = tree["trace"].to_dataset()
    else:
        stats = tree["sample_stats"].to_dataset()
        every = stats.assign(theta=tree["posterior"].to_dataset()["theta"])
        every = every.rename({"draw": "iteration"})
    if "n_gradient" in every:
        every = every.assign(dict.fromkeys(COUNTERS, every["n_gradient"]))
    return every[["complete_log_likelihood", "theta", *COUNTERS]].load()


def chain_estimates(series: xr.Dataset, stats: xr.Dataset, seconds: dict) -> dict:
    """Effective sizes of T and theta (R-CODA's; of T also ArviZ's bulk), moments, sums of the counters.

    ``seconds`` are those of one iteration; the chain's are as many times these as it kept iterations.
    ``dense_seconds`` are those with a dense covariance: the chain's own, but for a Kronecker one. Of joint
    split HMC ``n_failed`` are trajectories.
    """
    T, theta = series["complete_log_likelihood"].values, series["theta"].values
    n = len(T)
    failed = "n_failed" if "n_failed" in stats else "diverging"
    return {
        "iterations": n,
        "ess": float(effective_size(T)),
        "ess_bulk": float(array_stats.ess(T[None], chain_axis=0, draw_axis=1, method="bulk")),
        **{name: int(series[name].values.sum()) for name in COUNTERS},
        "n_failed": int(stats[failed].values.sum()),
        "acceptance": float(stats["acceptance_rate"].values.mean()),
        "seconds": n * seconds["iteration"],
        "dense_seconds": n * (seconds["dense_iteration"] or seconds["iteration"]),
        "T_mean": float(T.mean()),
        "T_sd": float(T.std(ddof=1)),
        "theta_mean": theta.mean(0).tolist(),
        "theta_sd": theta.std(0, ddof=1).tolist(),
        "theta_ess": np.asarray(effective_size(theta.T)).tolist(),
    }


READERS = {f"{STUDY}/*/*/replicate_*.nc": replicate_part}
