"""What draws are called in results."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.models.gp_model import GPModel

LATENT_NAMES = ("latent", "weight")
DIMS = {"theta": "theta_dim", "latent": "latent_dim", "weight": "weight_dim"}  # of arrays
DIMS |= dict.fromkeys(
    ("n_calls", "n_gradients", "n_failed"), "density"
)  # where a log density has them


def in_own_units(model: GPModel, theta: Any) -> dict[str, Any]:
    """Draws of theta (chain, draw, d), and each free parameter by its name in its own units."""
    variables = {"theta": theta}
    for k, (name, place) in enumerate(zip(model.names, model.free, strict=True)):
        coordinate = theta[:, :, k]
        is_log = model.parameters.is_log[place]
        # NetCDF allows no slash in a name
        variables[name.replace("/", "_")] = np.exp(coordinate) if is_log else coordinate
    return variables
