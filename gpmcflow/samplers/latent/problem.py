"""Latents at fixed hyperparameters as a problem: a `Target` and where its chains start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.description import data_of, describe
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.latent.protocol import LatentSampler
from gpmcflow.samplers.predictive import LatentPredictive
from gpmcflow.samplers.problem import Outputs, Problem, start_rows
from gpmcflow.samplers.protocol import LATENTS


@dataclass(frozen=True, eq=False)
class LatentProblem(Problem):
    """Chains that start at ``start_latents`` (pool, d), chain k at row k modulo its length.

    Without it at draws of the target's Gaussian part, or of the Gaussian ``start_from`` where that is another
    one: for a sampler that moves in other coordinates than those it was given.
    """

    target: Target
    start_latents: np.ndarray | None = None
    start_from: GaussianSites | None = None

    samples = LATENTS
    stream = "sample"

    @classmethod
    def of(cls, target: Target, sampler: LatentSampler, starts: Any) -> LatentProblem:
        """Problem of a target in the coordinates of a sampler, from latents (d,) or (pool, d), or None.

        Also from {"latent": latents}, of basis functions {"weight": weights}, as where hyperparameters are
        free.
        """
        if isinstance(starts, Mapping):
            if len(starts) != 1 or not set(starts) <= {"latent", "weight"}:
                raise InputError(
                    f"sample: start has {', '.join(map(str, starts))}; hyperparameters are fixed here: "
                    "give latent (of basis functions weight) alone"
                )
            (starts,) = starts.values()
        base, coordinates = target.base, sampler.coordinates(target.base)
        other = isinstance(base, GaussianSites) and not coordinates.same_gaussian(base)
        pool = None if starts is None else start_rows("latents", starts, target.dim)
        return cls(target.in_coordinates(coordinates), pool, base if other else None)

    def digest(self) -> str:
        """SHA-256 of target and starts."""
        start = {} if self.start_latents is None else {"start": self.start_latents}
        origin = () if self.start_from is None else (self.start_from.digest(),)
        return text_digest(self.target.digest(), array_digest(start), *origin)

    @property
    def recorded(self) -> Outputs:
        """Latents, log likelihood and log density."""
        scalar = ((), "<f8")
        return {"latent": ((self.target.dim,), "<f8"), "sum_log_likelihood": scalar, "lp": scalar}

    def start(self, rng: Any, chain: int = 0) -> np.ndarray:
        """Positions (chain, dim) of the chains of a block."""
        target = self.target
        if self.start_latents is not None:
            rows = np.array(rng.chains) % len(self.start_latents)
            position = target.base.from_latent(self.start_latents[rows])
        else:
            position = rng.standard_normal((target.dim,))
            if self.start_from is not None:
                path = TemperedPath(self.start_from, target.base)
                position = path.reference_draws(position)
        return position

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Numbers of the latents."""
        return {"latent_dim": np.arange(self.target.dim)}

    def posterior(self, draws: Mapping[str, Any]) -> dict[str, Any]:
        """Variable ``latent`` of the posterior."""
        return {"latent": draws["latent"]}

    def predictive(self) -> LatentPredictive | None:
        """That of a `LatentGaussianModel`, at its posterior."""
        model, beta = self.target.model, self.target.beta
        known = isinstance(model, LatentGaussianModel) and np.ndim(beta) == 0 and beta == 1.0
        return LatentPredictive(model) if known else None

    def data(self) -> dict[str, xr.Dataset]:
        """Observations; of a `GPModel` all its data."""
        if self._gp is not None:
            return data_of(self._gp.model)
        y = self.target.model.y
        return {"observed_data": xr.Dataset({"y": ("case", y)}, {"case": np.arange(len(y))})}

    def described(self) -> dict[str, Any]:
        """Likelihood, and the checksum of the observations; of a `GPModel` itself, and where it stands."""
        model, own = self.target.model, {}
        if self._gp is not None:
            own = {"model": describe(self._gp.model), "full": self._gp.full.tolist()}
        checksum = array_digest({"y": model.y})
        return {"likelihood": repr(model.likelihood), "data_checksum": checksum, **own}

    @property
    def _gp(self) -> CovarianceAt | None:
        return getattr(self.target.model, "covariance_function", None)
