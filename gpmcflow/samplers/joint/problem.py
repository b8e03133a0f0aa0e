"""Hyperparameters and latents of a `GPModel` as a problem, with the starts of its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.description import data_of, describe
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.modes_group import StartingModes
from gpmcflow.samplers.predictive import ModelPredictive
from gpmcflow.samplers.problem import (
    Outputs,
    Problem,
    pilot_starts,
    start_rows,
)
from gpmcflow.samplers.protocol import JOINT
from gpmcflow.samplers.variables import by_function, in_own_units, latent_coords


@dataclass(frozen=True, eq=False)
class JointProblem(Problem):
    """Chain k starts from row k, modulo, of ``starts``: arrays (pool, ...) by name.

    "theta" (pool, d), without which chains start in the hyperprior's central half, and "latent" (pool, n), or
    "weight" (pool, m) of basis functions, without which a sampler takes what suits it.
    """

    target: GPModel  #: or a `MultiGPModel`
    starts: Mapping[str, np.ndarray]
    keep_latents: bool = True
    modes: StartingModes | None = None  #: of which each has a pilot of its own

    samples = JOINT
    stream = "sample_joint"

    @classmethod
    def of(cls, model: GPModel, start: Any, keep_latents: bool = True) -> Self:
        """Problem of a model, from theta (d,) or (pool, d), or from values by name.

        Names are those of parameters, each with a number in its own units, and arrays: "theta", and
        "latent" or "weight".
        """
        by_name = dict(start) if isinstance(start, Mapping) else {"theta": start}
        widths = {"theta": model.dim, model.latent_variable: model.n_latents}
        arrays = {name: by_name.pop(name) for name in widths if by_name.get(name) is not None}
        by_name.pop("theta", None)
        if by_name:
            arrays["theta"] = model.theta_of(by_name)
        starts = {name: start_rows(name, values, widths[name]) for name, values in arrays.items()}
        for row in starts.get("theta", ()):
            _require_density(model, row)
        return cls(model, starts, keep_latents)

    def digest(self) -> str:
        """SHA-256 of model and starts."""
        parts = [array_digest(dict(self.starts))]
        if self.modes is not None:
            parts.append(array_digest(self.modes._asdict()))
        return text_digest(self.target.digest(), *parts)

    @property
    def recorded(self) -> Outputs:
        """theta, latents if they are kept, T, log likelihood and log density."""
        model, scalar = self.target, ((), "<f8")
        outputs: Outputs = {"theta": ((model.dim,), "<f8")}
        outputs |= {
            name: scalar for name in ("complete_log_likelihood", "sum_log_likelihood", "lp")
        }
        latents = {model.latent_variable: ((model.n_latents,), "<f8")}
        return outputs | (latents if self.keep_latents else {})

    def start(self, rng: np.random.Generator, chain: int = 0) -> dict[str, np.ndarray]:
        """Start of a chain by name, theta always among them."""
        start = {name: pool[chain % len(pool)] for name, pool in self.starts.items()}
        if "theta" not in start:
            start["theta"] = self.target.draw_prior(rng, central=0.5)
        return start

    def pilot_starts(self, rng: np.random.Generator, pilot: int = 0) -> list[np.ndarray]:
        """Normal coordinates (d,) at which a pilot begins its search."""
        given = self.starts.get("theta") if self.modes is None else self.modes.theta[[pilot]]
        thetas = pilot_starts(self.target, rng, given)
        return [self.target.parameters.to_normal(theta) for theta in thetas]

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Names of theta's coordinates, numbers of the latents."""
        model = self.target
        return {"theta_dim": np.array(model.names), **latent_coords(model)}

    def posterior(self, draws: Mapping[str, Any]) -> dict[str, Any]:
        """theta, each free parameter in its own units, and latents."""
        variables, name = in_own_units(self.target, draws["theta"]), self.target.latent_variable
        latents = {name: by_function(self.target, draws[name])} if self.keep_latents else {}
        return variables | latents

    def predictive(self) -> ModelPredictive:
        """That of the model."""
        return ModelPredictive(self.target, self.keep_latents)

    def data(self) -> dict[str, xr.Dataset]:
        """Observations, inputs, and constants of the likelihood by case."""
        return data_of(self.target)

    def described(self) -> dict[str, Any]:
        """The model, and the checksum of its data."""
        model = self.target
        return {
            "model": describe(model),
            "jitter": 0.0 if model.basis else float(model.epsilon),
            "data_checksum": array_digest({"X": model.X, "y": model.y}),
        }


def _require_density(model: GPModel, theta: np.ndarray) -> None:
    for name, prior, value in zip(model.names, model.parameters.free_priors, theta, strict=True):
        if not np.isfinite(prior.log_density(value)):
            raise InputError(
                f"model: start of {name} is {value:g}, where its hyperprior {prior!r} has no density; "
                f"start between {prior.support[0]:g} and {prior.support[1]:g}"
            )
