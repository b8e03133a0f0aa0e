"""A maximum over hyperparameters by searches at frozen sites, each with sites of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from gpmcflow.errors import NumericalError
from gpmcflow.models.collapsed_density import Density
from gpmcflow.models.prior_structure import FrozenSites

EVALUATIONS = 12  # at most, of one search
COLLAPSED_EVALUATIONS = 200  # where latents are integrated out and no sites move
STEP = 1.0  # how far one search may go, in normal coordinates
TOLERANCE = 1e-9  # of one search, over the value
_NOWHERE = 1e10  # at least, for minus a log density that is not finite


def value_and_slope(density: Density, x: np.ndarray, hyperprior: bool) -> tuple[float, np.ndarray]:
    """rest(x, z = 0), plus log N(x; 0, I) with the ``hyperprior``, and its gradient by x (d,).

    Up to a constant that depends on the sites.
    """
    at = density.evaluate(x, np.zeros(density.n_z))
    if hyperprior:
        return at.rest - 0.5 * float(x @ x), at.slope_x - x
    return at.rest, at.slope_x


def frozen_maximum(
    density: Density,
    x: np.ndarray,
    sites_at: Callable[[np.ndarray, FrozenSites | None], FrozenSites],
    *,
    hyperprior: bool,
    searches: int,
    near: float,
    low: np.ndarray | float,
    high: np.ndarray | float,
    scale: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, int]:
    """x (d,) at a maximum of `value_and_slope` that stands still when sites are fitted anew, and gradients.

    Each of at most ``searches`` stays within `STEP` of its start, or twice the last one's move, and between
    ``low`` and ``high`` in every coordinate; the last moved by less than ``near``. Moves are in units of
    ``scale``. The density is left with the sites of the last search.

    Raises `NumericalError` where the density is not finite at a start.
    """
    spent, sites, step = 0, None, STEP if density.n_z else np.inf
    most = EVALUATIONS if density.n_z else COLLAPSED_EVALUATIONS

    def minus(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal nowhere, found
        value, slope = value_and_slope(density, u * scale, hyperprior)
        if not np.isfinite(value):
            return nowhere, np.zeros_like(u)
        # a value itself is large where data lie far outside what hyperpriors allow
        nowhere, found = max(nowhere, 10.0 * abs(value)), True
        return -value, -slope * scale

    nowhere, found = _NOWHERE, False
    for _ in range(searches):
        found = False
        if density.n_z:
            density.sites = sites = sites_at(x, sites)
        u = x / scale
        box = np.stack(
            [np.maximum(u - step, low / scale), np.minimum(u + step, high / scale)], axis=1
        )
        options = {"maxfun": most, "ftol": TOLERANCE}
        result = minimize(minus, u, jac=True, method="L-BFGS-B", bounds=box, options=options)
        spent += result.nfev
        if not found:
            raise NumericalError(f"no finite density at x = {np.round(x, 3).tolist()}")
        moved, x = float(np.abs(result.x - u).max()), result.x * scale
        if moved < near or not density.n_z:
            break
        step = min(step, max(2.0 * moved, near))
    return x, spent
