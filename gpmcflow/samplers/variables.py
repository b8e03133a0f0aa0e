"""What draws are called in results."""

from __future__ import annotations

from typing import Any

from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.parameter import own_units

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
        # NetCDF allows no slash in a name
        own = own_units(coordinate, model.parameters.coordinates[place])
        variables[name.replace("/", "_")] = own
    return variables
