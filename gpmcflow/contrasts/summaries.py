"""Draws in a few numbers: mean, median, spread, interval, and how probable it is that there is an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, unknown_name

SCALES = ("difference", "ratio", "odds")


def require_interval(who: str, interval: float) -> None:
    """Raise `InputError` unless it is a probability."""
    if not isinstance(interval, float | int) or not 0.0 < interval < 1.0:
        raise InputError(f"{who}: interval is {interval!r}; allowed: between 0 and 1, such as 0.95")


def require_scale(who: str, scale: str, allowed: Sequence[str] = SCALES) -> None:
    """Raise `InputError` for another scale."""
    if scale not in allowed:
        raise unknown_name(f"{who}: scale", scale, allowed)


def summarised(
    values: np.ndarray,
    dims: Sequence[str],
    coords: Mapping[str, Any],
    interval: float,
    none: float | None = None,
) -> xr.Dataset:
    """Mean, median, sd, low, high of draws (draw, *dims), and the probability that they exceed ``none``."""
    tail = 0.5 * (1.0 - interval)
    low, median, high = np.quantile(values, [tail, 0.5, 1.0 - tail], axis=0)
    variables = {
        "mean": values.mean(0),
        "median": median,
        "sd": values.std(0),
        "low": low,
        "high": high,
    }
    if none is not None:
        variables["probability"] = (values > none).mean(0)
    named = {name: (tuple(dims), value) for name, value in variables.items()}
    return xr.Dataset(named, dict(coords), {"interval": interval})


def compared(first: np.ndarray, second: np.ndarray, scale: str, who: str) -> np.ndarray:
    """First less second, over it, or the ratio of their odds."""
    if scale == "difference":
        return first - second
    least = min(first.min(), second.min())
    if least < 0.0:
        raise InputError(
            f'{who}: a {scale} of negative values, such as {least:.3g}; write scale="difference"'
        )
    if scale == "odds":
        most = max(first.max(), second.max())
        if most > 1.0:
            raise InputError(
                f"{who}: odds of values above 1, such as {most:.3g}; allowed: of probabilities; write "
                'scale="ratio"'
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            return first / (1.0 - first) / (second / (1.0 - second))
    with np.errstate(divide="ignore", invalid="ignore"):
        return first / second


def no_effect(scale: str) -> float:
    """The value of a comparison where both sides are equal."""
    return 0.0 if scale in ("difference", "slope") else 1.0
