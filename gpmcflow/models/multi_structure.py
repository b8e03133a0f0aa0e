"""The priors of several latent functions as samplers over hyperparameters and latents see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.models.prior_structure import FrozenSites, PriorStructure

if TYPE_CHECKING:
    from gpmcflow.models.multi_gp_model import MultiGPModel


class MultiStructure(PriorStructure):
    """u = (u_1, .., u_q) and z = (z_1, .., z_q) in a row, h (q, n): a `PriorStructure` of each function.

    Functions with one dense covariance are one part. Given frozen sites, diagonal in functions, functions are
    independent: log Z, log sites and log prior are sums, and gradients are those of the parts.
    """

    def __init__(
        self, model: MultiGPModel, parts: list[PriorStructure], sites: FrozenSites
    ) -> None:
        self.model, self.parts = model, parts
        self.n_z = sum(part.n_z for part in parts)
        self.n_latents = sum(part.n_latents for part in parts)
        self._splits = np.cumsum([part.n_z for part in parts])[:-1]
        ends = np.cumsum([part.n_functions for part in parts])
        self._rows = [
            slice(end - part.n_functions, end) for part, end in zip(parts, ends, strict=True)
        ]
        self._places = [model.part_places[rows.start] for rows in self._rows]
        self.sites = sites

    def freeze(self) -> None:
        """Hand each part its sites."""
        w, b = (values.reshape(self._rows[-1].stop, -1) for values in self.sites)
        for part, rows in zip(self.parts, self._rows, strict=True):
            part.sites = FrozenSites(w[rows].ravel(), b[rows].ravel())

    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Go to a point in each part; log Z is the sum."""
        own = zip(self.parts, self._places, np.split(z, self._splits), strict=True)
        evidence = sum(part.place(full[places], at) for part, places, at in own)
        if np.isfinite(evidence):
            self.predictor = np.vstack([part.predictor for part in self.parts])
            self.latents = np.concatenate([part.latents for part in self.parts])
        return evidence

    def log_constant(self) -> float:
        """Sum over the parts."""
        return sum(part.log_constant() for part in self.parts)

    def log_sites(self) -> float:
        """Sum over the parts."""
        return sum(part.log_sites() for part in self.parts)

    def log_prior(self) -> float:
        """Sum over the parts."""
        return sum(part.log_prior() for part in self.parts)

    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of slopes (q, n) go to the parts."""
        by_full, slopes_z = np.zeros(self.model.parameters.size), []
        for part, places, rows in zip(self.parts, self._places, self._rows, strict=True):
            slope_z, own = part.pull_back(slope[rows].reshape(part.predictor.shape))
            slopes_z.append(slope_z)
            np.add.at(by_full, places, own)
        return np.concatenate(slopes_z), by_full

    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """z of latents, part by part."""
        splits = np.cumsum([part.n_latents for part in self.parts])[:-1]
        own = zip(self.parts, np.split(latents, splits), np.split(z, self._splits), strict=True)
        return np.concatenate([part.coordinates_of(f, at) for part, f, at in own])
