"""A log density of a few coordinates as a problem, with its stand-ins and the starts of its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.description import data_of, describe
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.predictive import ModelPredictive
from gpmcflow.samplers.problem import (
    Outputs,
    Problem,
    pilot_starts,
    start_rows,
)
from gpmcflow.samplers.protocol import DENSITY
from gpmcflow.samplers.variables import DIMS, in_own_units


@dataclass(frozen=True, eq=False)
class DensityProblem(Problem):
    """The exact density first, then its stand-ins; chain k starts from row k of ``starts``, modulo.

    Without them, which takes the density of a `GPModel`, in the hyperprior's central half.
    """

    target: tuple[LogDensity, ...]
    starts: np.ndarray | None

    samples = DENSITY
    stream = "sample_density"

    @classmethod
    def of(cls, target: Any, start: Any) -> DensityProblem:
        """Problem of a density, or of several, from theta (d,) or (pool, d).

        Of the density of a model also from {"theta": theta}, and {parameter: value in its own units}.
        """
        densities = (target,) if isinstance(target, LogDensity) else tuple(target)
        exact = densities[0]
        if exact.model is not None:
            if start is None:
                return cls(densities, None)
            if isinstance(start, Mapping):
                start = start["theta"] if list(start) == ["theta"] else exact.model.theta_of(start)
        elif start is None:
            raise InputError(
                f"sample: a log density tells no start; give start, ({exact.dim},): "
                f"{', '.join(exact.names)}"
            )
        return cls(densities, start_rows(", ".join(exact.names), start, exact.dim))

    def digest(self) -> str:
        """SHA-256 of densities and starts."""
        parts = [density.digest() for density in self.target]
        return text_digest(
            *parts, array_digest({} if self.starts is None else {"start": self.starts})
        )

    @property
    def recorded(self) -> Outputs:
        """theta, log likelihood and log density."""
        scalar = ((), "<f8")
        return {"theta": ((self.target[0].dim,), "<f8"), "sum_log_likelihood": scalar, "lp": scalar}

    def statistics(self, of_sampler: Mapping[str, str]) -> Outputs:
        """Counters have an entry for each density."""
        own = super().statistics(of_sampler)
        counters = [name for name in own if DIMS.get(name) == "density"]
        return own | {name: ((len(self.target),), "<i8") for name in counters}

    def start(self, rng: Any, chain: int = 0) -> np.ndarray:
        """theta (d,)."""
        if self.starts is None:
            return self._prior.draw_prior(rng, central=0.5)
        return self.starts[chain % len(self.starts)]

    def pilot_starts(self, rng: np.random.Generator) -> list[np.ndarray]:
        """theta (d,) from which a pilot searches."""
        return pilot_starts(self.target[0].model, rng, self.starts)

    @property
    def _prior(self) -> GPModel:
        model = self.target[0].model
        assert model is not None  # else starts are given, see `of`
        return model

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Names of coordinates and densities."""
        labels = [f"{k}: {density!r}" for k, density in enumerate(self.target)]
        return {"theta_dim": np.array(self.target[0].names), "density": np.array(labels)}

    def posterior(self, draws: Mapping[str, Any]) -> dict[str, Any]:
        """theta, and each free parameter of a model in its own units."""
        model = self.target[0].model
        return {"theta": draws["theta"]} if model is None else in_own_units(model, draws["theta"])

    def predictive(self) -> ModelPredictive | None:
        """That of the model of a density that has one, whose latents are integrated out."""
        model = self.target[0].model
        return None if model is None else ModelPredictive(model, has_latents=False)

    def data(self) -> dict[str, xr.Dataset]:
        """Those of the model of a density that has one."""
        model = self.target[0].model
        return {} if model is None else data_of(model)

    def described(self) -> dict[str, Any]:
        """The densities and their checksum, and the model of the first if it has one."""
        checksum, model = text_digest(*(d.digest() for d in self.target)), self.target[0].model
        own = {} if model is None else {"model": describe(model)}
        return {"densities": self.coords["density"].tolist(), "data_checksum": checksum, **own}
