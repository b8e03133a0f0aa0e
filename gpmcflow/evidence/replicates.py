"""One number from the estimates of independent replicates, its error, and columns of group ``evidence``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpmcflow.evidence.intervals import interval_columns


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
