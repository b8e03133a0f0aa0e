"""Outputs of a chain over hyperparameters and latents as an ArviZ DataTree."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.execution import array_digest
from gpmcflow.samplers.joint_program import DrawProgram
from gpmcflow.storage import standard_attributes


def run_attributes(program: DrawProgram, seed: int, key: tuple, **sampler: Any) -> dict:
    """Attributes of a results file: the sampler's settings, the model's, seed, checksum of the data."""
    model = program.model
    settings = {
        **sampler,
        "thin": program.thin,
        "likelihood": repr(model.likelihood),
        "covariance": repr(model.covariance),
        "hyperpriors": dict(zip(model.names, map(repr, model.parameters.free_priors), strict=True)),
        "structure": "kronecker" if model.kronecker else "dense",
        "jitter": float(model.epsilon),
        "key": list(key),
    }
    checksum = array_digest({"X": model.X, "y": model.y})
    return standard_attributes(settings=settings, seed=seed, data_checksum=checksum)


def results_tree(arrays: dict, n_warmup: int, program: DrawProgram) -> xr.DataTree:
    """Groups ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data``, and those asked for."""
    kept = {name: values[:, n_warmup:] for name, values in arrays.items()}
    model = program.model
    n_chains, n_draws = kept["lp"].shape
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    names, cases = np.array(model.names), np.arange(model.n_cases)
    posterior = {"theta": (("chain", "draw", "theta_dim"), kept["theta"])}
    for k, (name, place) in enumerate(zip(model.names, model.free, strict=True)):
        coordinate = kept["theta"][:, :, k]
        is_log = model.parameters.is_log[place]
        # NetCDF allows no slash in a name
        posterior[name.replace("/", "_")] = (
            ("chain", "draw"), np.exp(coordinate) if is_log else coordinate,
        )  # fmt: skip
    posterior_coords = coords | {"theta_dim": names}
    if program.keep_latents:
        posterior["latent"] = (("chain", "draw", "latent_dim"), kept["latent"])
        posterior_coords = posterior_coords | {"latent_dim": cases}
    groups = {
        "posterior": xr.Dataset(posterior, posterior_coords),
        "sample_stats": xr.Dataset(
            {s: (("chain", "draw"), kept[s]) for s in program.stats}, coords
        ),
        "observed_data": xr.Dataset({"y": ("case", model.y)}, {"case": cases}),
        "constant_data": xr.Dataset(
            {"X": (("case", "feature"), model.X)},
            {"case": cases, "feature": np.array(model.inputs.names)},
        ),
    }
    if program.thin > 1:
        flat = {"chain": coords["chain"], "iteration": np.arange(n_draws * program.thin)}
        trace = {
            name: (("chain", "iteration"), kept[f"trace_{name}"].reshape(n_chains, -1))
            for name in program.traced
        }
        theta = kept["trace_theta"].reshape(n_chains, -1, model.dim)
        trace["theta"] = (("chain", "iteration", "theta_dim"), theta)
        groups["trace"] = xr.Dataset(trace, flat | {"theta_dim": names})
    if program.X_new is not None:
        mean, variance = kept["new_mean"], kept["new_variance"]
        spread = variance.mean((0, 1)) + mean.var((0, 1))  # within draws, and between them
        groups["predictions"] = xr.Dataset(
            {
                "latent_mean": ("new_case", mean.mean((0, 1))),
                "latent_sd": ("new_case", spread**0.5),
                "response_mean": ("new_case", kept["new_response"].mean((0, 1))),
                "X": (("new_case", "feature"), program.X_new),
            },
            {"new_case": np.arange(len(program.X_new)), "feature": np.array(model.inputs.names)},
        )
    return xr.DataTree.from_dict(groups)
