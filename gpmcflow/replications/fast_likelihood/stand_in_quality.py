"""How good a stand-in is for a log density, from draws of the exact one."""

from __future__ import annotations

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity


def log_ratio_sd(exact: LogDensity, stand_in: LogDensity, thetas: np.ndarray) -> float:
    """D = sd(log pi - log pi*) over draws thetas (draw, d) of pi; inf where either is -inf.

    Constants do not count. Below about 1 a stand-in is useful: nearly independent proposals from it are
    accepted with probability 2 Phi(-D / sqrt 2). Raises `InputError` for fewer than two draws. Source:
    Wang & Neal (2013), section 4.
    """
    thetas = np.asarray(thetas, dtype=np.float64)
    if thetas.ndim != 2 or len(thetas) < 2:
        raise InputError(
            f"log_ratio_sd: thetas has shape {thetas.shape}; allowed: (draw, d), 2 draws or more"
        )
    values = np.array([(exact(theta), stand_in(theta)) for theta in thetas])
    if not np.all(np.isfinite(values)):
        return float("inf")
    return float((values[:, 0] - values[:, 1]).std(ddof=1))
