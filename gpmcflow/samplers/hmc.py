"""Hamiltonian Monte Carlo by the leapfrog method, in standardised coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.tempered import Target
from gpmcflow.samplers.hamiltonian import HamiltonianSampler, Motion


@dataclass(frozen=True)
class HMC(HamiltonianSampler):
    """Leapfrog with unit mass in the base's standardised coordinates (H1 of the evidence study).

    The same as mass matrix V^{-1} on theta with V the covariance of the base. With a base of its
    own for each inverse temperature (the curvature at the mode) this is H1_beta. Stable for
    epsilon < 2 / sqrt(1 + beta lambda_max(F' (W - tau) F)). Source: Neal (2011), section 4.1.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rates times beta grad r - zeta: the whole gradient of the log density."""
        return self.rates(target) * (target.beta_column() * gradient - position)

    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Drift: zeta + epsilon rates p."""
        drift = step_size * self.rates(target)
        return lambda position, momentum: (position + drift * momentum, momentum)
