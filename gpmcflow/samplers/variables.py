"""What draws are called in results."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.parameters.parameter import own_units

LATENT_NAMES = ("latent", "weight", "cell")
DIMS = {"theta": "theta_dim"} | {name: f"{name}_dim" for name in LATENT_NAMES}  # of arrays
DIMS |= dict.fromkeys(("n_calls", "n_gradients", "n_failed"), "density")  # of a log density
FUNCTION = "function"  # dimension of what there is of each latent function


def dims_of(name: str, ndim: int) -> tuple[str, ...]:
    """Dimensions of a draw's array of so many: those of several functions have one of functions, too."""
    own = (DIMS[name],) if name in DIMS else ()
    return (FUNCTION, *own) if ndim > 1 else own[:ndim]


def by_function(model: GPModel | MultiGPModel, latents: Any) -> Any:
    """Latents (..., q n) of a model of several functions as (..., q, n); others, and weights, as they are."""
    if not isinstance(model, MultiGPModel) or model.basis:
        return latents
    return latents.reshape(*latents.shape[:-1], len(model.functions), model.n_cases)


def latent_coords(model: GPModel | MultiGPModel) -> dict[str, Any]:
    """Coordinates of the latents of a draw."""
    if isinstance(model, MultiGPModel) and not model.basis:
        return {FUNCTION: np.array(model.functions), DIMS["latent"]: np.arange(model.n_cases)}
    return {DIMS[model.latent_variable]: np.arange(model.n_latents)}


def in_own_units(model: GPModel | MultiGPModel, theta: Any) -> dict[str, Any]:
    """Draws of theta (chain, draw, d), and each free parameter by its name in its own units."""
    variables = {"theta": theta}
    for k, (name, place) in enumerate(zip(model.names, model.free, strict=True)):
        coordinate = theta[:, :, k]
        # NetCDF allows no slash in a name
        own = own_units(coordinate, model.parameters.coordinates[place])
        variables[name.replace("/", "_")] = own
    return variables
