"""95 % intervals of evidence estimates, the same columns on every route."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

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
