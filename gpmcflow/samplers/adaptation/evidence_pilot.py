"""The pilot of `PseudoMarginalHMC`: modes of EP's evidence, a mixture there, and a frame to move in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.integrated import WarmEvidence, climbed_modes, weighted_draws
from gpmcflow.approximations.mixture import Mixture, Mode
from gpmcflow.diagnostics.importance_weights import (
    effective_size,
    normalised_weights,
    smooth_weights,
    systematic_resample,
)
from gpmcflow.models.gp_model import GPModel

N_STARTS = 60  # fits of which the nearest lends its sites to a new one, and starts of chains
FIRST_STEP, LARGEST_STEP = 0.7, 1.5
ANGLE = 1.6  # of trajectories: a quarter of a turn
MOST_STEPS = 16


class EvidenceFrame(NamedTuple):
    """What transitions need, frozen; coordinates are normal, x = center + scale u."""

    mixture: Mixture  #: that jumps are proposed from
    center: np.ndarray  #: (d,)
    scale: np.ndarray  #: (d, d)
    step_size: float  #: of u
    x: np.ndarray  #: settings (k, d) of fits nearby
    precision: np.ndarray  #: of their sites (k, n)
    shift: np.ndarray  #: (k, n)

    @property
    def n_steps(self) -> int:
        """Steps of a trajectory of angle `ANGLE`."""
        return int(np.clip(round(ANGLE / self.step_size), 1, MOST_STEPS))

    def start(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and shifts (n,) of the nearest fit, for one at x (d,)."""
        nearest = int(np.square(self.x - x).sum(1).argmin())
        return self.precision[nearest], self.shift[nearest]

    def refitted(self, draws: np.ndarray) -> EvidenceFrame:
        """The same with center and scale of draws x (m, d); the old ones count as d + 1 draws."""
        m, d = draws.shape
        return self._replace(
            **_moments(draws, np.full(m, 1.0 / m), m, self.scale @ self.scale.T, d + 1)
        )


def first_frame(
    model: GPModel, rng: np.random.Generator
) -> tuple[EvidenceFrame, np.ndarray, xr.Dataset]:
    """A frame by weighted draws of a mixture at the modes, starts x (k, d) of chains, and a report of both.

    Raises `NumericalError` where no mode is found.
    """
    density = WarmEvidence(model)
    modes = climbed_modes(model, density, rng)
    x, log_weights = weighted_draws(density, modes, rng)
    usable = np.isfinite(log_weights)
    x, log_weights = x[usable], log_weights[usable]
    smoothed, k = smooth_weights(log_weights)
    shares, size = normalised_weights(smoothed), float(effective_size(log_weights))
    chosen = np.unique(systematic_resample(shares, rng.random(), N_STARTS))
    fits = [density.fitted(theta) for theta in density.theta(x[chosen])]
    curvature = np.linalg.inv(modes[0].precision)
    frame = EvidenceFrame(
        mixture=Mixture.at_modes(modes).refitted(x, log_weights),
        step_size=FIRST_STEP,
        x=x[chosen],
        precision=np.array([fit.precision for fit in fits]),
        shift=np.array([fit.shift for fit in fits]),
        **_moments(x, shares, size, curvature, model.dim + 1),
    )
    return frame, x[:N_STARTS], _report(modes, size, k, len(density.fits))


def _moments(
    x: np.ndarray, shares: np.ndarray, size: float, before: np.ndarray, weight: float
) -> dict[str, np.ndarray]:
    """Mean, and factor of the covariance, of weighted draws; ``before`` counts as ``weight`` of them."""
    center = shares @ x
    away = x - center
    covariance = size * (away * shares[:, None]).T @ away + weight * before
    return {"center": center, "scale": np.linalg.cholesky(covariance / (size + weight))}


def _report(modes: list[Mode], size: float, k: float, n_fits: int) -> xr.Dataset:
    masses = normalised_weights(np.array([mode.log_mass for mode in modes]))
    return xr.Dataset(
        {"mode_mass": ("mode", masses), "effective_size": size, "pareto_k": k, "n_fit": n_fits}
    )
