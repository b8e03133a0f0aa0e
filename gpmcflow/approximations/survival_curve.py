"""Survival curves at new inputs: the probability of lasting longer than each of some times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.conditional import Conditional
from gpmcflow.approximations.prediction import N_DRAWS, conditionals
from gpmcflow.covariances.inputs import row_labels
from gpmcflow.errors import InputError
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Survival
from gpmcflow.models.gp_model import GPModel

INTERVAL = (0.025, 0.5, 0.975)
_BLOCK = 4_000_000  # numbers at a time
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def survival_curve(
    source: Any,
    X_new: Any,
    times: Any,
    *,
    unseen: str = "error",
    quantiles: Sequence[float] = INTERVAL,
    model: GPModel | None = None,
) -> xr.Dataset:
    """Probability of no event up to each time, S(t) = E[1 - F((log t - eta) / s)].

    Parameters
    ----------
    source, X_new, unseen, model:
        As of `predict`: draws or a fit of a model with the `Survival` likelihood, and new inputs (m, p).
    times:
        Times > 0 (t,), in the units of y.
    quantiles:
        Levels of the quantiles.

    Returns
    -------
    Variables survival (time, new_case), the probability for a new case, and survival_quantile (quantile,
    time, new_case), what the posterior says of the curve of cases like it.

    Raises
    ------
    InputError:
        For another likelihood, and times that are not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel([0.0, 1.0], [2.0, 5.0], gp.Matern32(1.0, 1.0), gp.Survival(scale=1.0))
    >>> curve = gp.survival_curve(gp.approximate(model), [0.0, 1.0], [1.0, 4.0])
    >>> curve["survival"].values.round(2)
    array([[0.58, 0.69],
           [0.18, 0.28]])
    """
    pin_blas()
    grid = np.asarray(times, dtype=np.float64)
    if grid.ndim != 1 or not grid.size or not np.all((grid > 0.0) & (grid < np.inf)):
        raise InputError(f"survival_curve: times is {times!r}; allowed: a list of positive numbers")
    parts = conditionals(source, X_new, model=model, unseen=unseen, n_draws=N_DRAWS)
    likelihood = parts[0].likelihoods[0]
    if not isinstance(likelihood, Survival):
        raise InputError(
            f"survival_curve: the likelihood is {likelihood.name}; allowed: survival, such as gp.Survival()"
        )
    m, levels = parts[0].mean.shape[1], list(quantiles)
    n = sum(len(part.mean) for part in parts)
    weights = np.tile(_WEIGHTS / (n * _WEIGHTS.sum()), n)
    mean, spread = np.empty((len(grid), m)), np.empty((len(levels), len(grid), m))
    block = max(1, _BLOCK // (len(grid) * len(weights)))
    for first in range(0, m, block):
        own = slice(first, first + block)
        curves = np.concatenate([_curves(part.take(own), grid) for part in parts], axis=-1)
        mean[:, own] = curves @ weights
        spread[:, :, own] = _weighted_quantiles(curves, weights, levels)
    return xr.Dataset(
        {
            "survival": (("time", "new_case"), mean),
            "survival_quantile": (("quantile", "time", "new_case"), spread),
        },
        {"time": grid, "quantile": levels, "new_case": np.arange(m)},
    ).assign_coords(row_labels(X_new, "new_case"))


def _curves(eta: Conditional, times: np.ndarray) -> np.ndarray:
    """Probability of lasting longer at nodes of eta for each draw, (time, m, draw * node)."""
    own: list[Any] = list(eta.likelihoods) * (len(eta.mean) if len(eta.likelihoods) == 1 else 1)
    curves = [
        np.exp(survival.log_survival(mean[:, None] + sd[:, None] * _NODES, times[:, None, None]))
        for survival, mean, sd in zip(own, eta.mean, np.sqrt(eta.variance), strict=True)
    ]
    return np.concatenate(curves, axis=-1)


def _weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, levels: Sequence[float]
) -> np.ndarray:
    """Quantiles (level, ...) of values (..., k) of weights (k,) that sum to 1."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    below = np.cumsum(weights[order], axis=-1) - 0.5 * weights[order]
    flat, rows = ordered.reshape(-1, len(weights)), below.reshape(-1, len(weights))
    found = np.array([np.interp(levels, at, row) for at, row in zip(rows, flat, strict=True)])
    return np.moveaxis(found.reshape(*values.shape[:-1], len(levels)), -1, 0)
