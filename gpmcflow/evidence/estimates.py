"""What all routes share: columns of group ``evidence``, estimates of replicates, 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtri, stdtrit

from gpmcflow.execution import array_digest
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.storage import standard_attributes

# 95 % intervals of evidence estimates, the same columns on every route.

COVERAGE = 0.95


def half_width(df: Any) -> np.ndarray:
    """Half the width of a 95 % interval in standard errors: Student's t, for an error of ``df`` degrees
    of freedom; 1.96 where these are infinite or not known (nan)."""
    df = np.asarray(df, dtype=float)
    upper = 0.5 + 0.5 * COVERAGE
    known = np.isfinite(df)
    return np.where(known, stdtrit(np.where(known, df, 1.0), upper), ndtri(upper))


def interval_columns(value: Any, error: Any, df: float) -> dict[str, np.ndarray]:
    """``degrees_of_freedom``, ``interval_low`` and ``interval_high`` of estimates with one df.

    A standard error from the spread of 8 replicates has 7: read as normal, its intervals cover 91 %.
    """
    width = half_width(df) * np.asarray(error, dtype=float)
    return {
        "degrees_of_freedom": np.full(np.shape(value), float(df)),
        "interval_low": np.asarray(value) - width,
        "interval_high": np.asarray(value) + width,
    }


# One number from the estimates of independent replicates, its error, and columns of group ``evidence``.


class Estimate(NamedTuple):
    """Estimates of independent replicates by one estimator, and the errors they state (R,)."""

    values: np.ndarray
    errors: np.ndarray

    @property
    def mean(self) -> float:
        """Plain mean: weights by the stated errors, which go with the estimates, would bias it."""
        return float(self.values.mean())

    @property
    def spread(self) -> float:
        """Standard error of the mean from the spread of the replicates; nan of one."""
        n = len(self.values)
        return float(self.values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan

    @property
    def within(self) -> float:
        """Standard error of the mean from the errors the replicates state."""
        return float(np.sqrt((self.errors**2).sum()) / len(self.errors))

    @property
    def error(self) -> float:
        """The larger of the two."""
        return float(np.fmax(self.spread, self.within))

    @property
    def degrees_of_freedom(self) -> float:
        """R - 1 where the error is the spread's, else infinite."""
        return len(self.values) - 1.0 if self.spread > self.within else np.inf


def estimate_columns(estimates: Mapping[str, Estimate]) -> dict[str, tuple[Any, Any]]:
    """Variables of group ``evidence`` by ``estimator``, and by ``replicate``, as xarray takes them."""
    every = list(estimates.values())
    columns = {
        "log_evidence": [e.mean for e in every],
        "standard_error": [e.error for e in every],
        "replicate_error": [e.spread for e in every],
        "within_error": [e.within for e in every],
    }
    intervals = [interval_columns(e.mean, e.error, e.degrees_of_freedom) for e in every]
    columns |= {name: [float(of[name]) for of in intervals] for name in intervals[0]}
    by_replicate = {
        "replicate_log_evidence": [e.values for e in every],
        "replicate_standard_error": [e.errors for e in every],
    }
    dims = ("estimator", "replicate")
    return {name: ("estimator", column) for name, column in columns.items()} | {
        name: (dims, np.stack(rows)) for name, rows in by_replicate.items()
    }


# What the evidence groups and the attributes of all routes have in common.


def transition_columns(draws: xr.Dataset, n_moves: Any = None) -> dict[str, float]:
    """Costs (sums) and shares of failures (means over transitions) of a group with `STATISTICS`.

    Where there was no transition the acceptance rate is nan; ``n_moves`` weighs the entries that
    stand for several.
    """
    acceptance = draws["acceptance_rate"].values
    weight = np.where(np.isnan(acceptance), 0.0, 1.0 if n_moves is None else n_moves)
    total = weight.sum()

    def share(values: np.ndarray) -> float:
        return float((weight * values).sum() / total) if total else 0.0

    return {
        "n_gradient": float(np.nansum(draws["n_gradient"].values)),
        "n_factorisation": float(np.nansum(draws["n_factorisation"].values)),
        "acceptance_rate": share(np.nan_to_num(acceptance)) if total else np.nan,
        "diverging": share(np.nan_to_num(draws["diverging"].values)),
        "unsolved": share(np.nan_to_num(draws["unsolved"].values)),
    }


def run_attributes(path: TemperedPath, sampler: LatentSampler, seed: int, key: tuple) -> dict:
    """Attributes of a result file: settings, seed, checksum of the labels."""
    settings = {
        "sampler": repr(sampler),
        "likelihood": repr(path.model.likelihood),
        "key": list(key),
    }
    return standard_attributes(
        settings=settings,
        seed=seed,
        data_checksum=array_digest({"y": path.model.y}),
        jitter=path.model.jitter,
    )
