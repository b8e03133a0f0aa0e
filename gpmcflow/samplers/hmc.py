"""Hamiltonian Monte Carlo in standardised coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.tempered import Target
from gpmcflow.samplers.hamiltonian import HamiltonianSampler


@dataclass(frozen=True)
class HMC(HamiltonianSampler):
    """Leapfrog with unit mass in the base's standardised coordinates (H1 of the evidence study).

    The same as mass matrix V^{-1} on theta with V the covariance of the base. With a base of its
    own for each inverse temperature (the curvature at the mode) this is H1_beta. Stable for
    epsilon < 2 / sqrt(1 + beta lambda_max(F' (W - tau) F)). Source: Neal (2011), section 4.1.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Beta grad r - zeta: the whole gradient of the log density."""
        return target.beta_column() * gradient - position

    def flow(
        self, target: Target, position: np.ndarray, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drift: zeta + epsilon p."""
        return position + step_size * momentum, momentum
