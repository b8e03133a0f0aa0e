"""Hamiltonian Monte Carlo with unit mass on the latents themselves: the naive baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.linear_maps import solve
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.hamiltonian import HamiltonianSampler


@dataclass(frozen=True)
class LatentHMC(HamiltonianSampler):
    """Leapfrog with mass matrix I on theta (H0 of the evidence study).

    Kept because it is what the others improve on: stable steps are limited by the smallest prior
    standard deviation, sqrt(lambda_min), while the posterior is as wide as the largest. With
    theta = m + C zeta, a momentum p on theta moves zeta by C^{-1} p and feels C^{-T} times the
    gradient by zeta: two triangular solves a step.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """C^{-T} (beta grad r - zeta): the gradient of the log density by theta."""
        whole = target.beta_column() * gradient - position
        return solve(target.base.factor, whole, transpose=True)

    def flow(
        self, target: Target, position: np.ndarray, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drift of theta by epsilon p, in standardised coordinates."""
        return position + step_size * solve(target.base.factor, momentum), momentum

    def length_unit(self, target: Target) -> float:
        """Root mean square of the base's standard deviations, in units of theta."""
        C = target.base.factor
        return float(np.sqrt(np.einsum("ij,ij->", C, C) / len(C)))
