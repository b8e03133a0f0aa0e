"""Rows of `evidence.csv` and `ladder.csv` of the made-up patients."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = [
    "model", "log_evidence", "standard_error", "fit", "complexity", "log_bayes_factor", "probability", "low",
    "high", "verdict", "route", "effective_size", "overlap", "alarm", "settle",
]  # fmt: skip
RELEVANCE = ("relevance", -283.4, 0.1, -250.1, 33.3, 0.0, 0.9991, 0.998, 0.9995, "best")
SMOOTH = ("smooth", -290.4, 0.1, -262.1, 28.3, -7.0, 0.0009, 0.0006, 0.0012, "worse")
PLAIN = ("plain", -334.3, 0.0004, -326.3, 8.0, -50.9, 8e-23, 7e-23, 9e-23, "worse")
BRIDGE = ("two_ended", 812.0, 1.4, np.nan, np.nan)
ALARM = "variance of the bridge's terms 60 > 20: little overlap"


def rough(row: tuple) -> tuple:
    """A row of a model whose evidence raised an alarm."""
    nothing = (np.nan,) * 4
    how = ("two_ended", 300.0, 60.0, ALARM, "evidence: {route: auto}")
    return (*row[:5], *nothing, "rough", *how)


def ladder_of(model: str = "relevance", reference: float = -190.0) -> pd.DataFrame:
    beta = [0.0, 0.05, 0.3, 0.7, 1.0]
    mean = [-300.0, -290.0, -285.0, -281.0, -275.0]
    rows = [(model, "ladder", b, m, 4.0) for b, m in zip(beta, mean, strict=True)]
    rows += [(model, "reference", 0.0, reference, 900.0), (model, "posterior", 1.0, -274.0, 5.0)]
    return pd.DataFrame(rows, columns=["model", "of", "beta", "mean", "sd"])
