"""Split Hamiltonian Monte Carlo: the Gaussian part is solved exactly, the rest is kicked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.tempered import Target
from gpmcflow.samplers.hamiltonian import HamiltonianSampler


@dataclass(frozen=True)
class SplitHMC(HamiltonianSampler):
    """Kicks by the residual's gradient, exact rotation under the Gaussian part between them.

    In standardised coordinates the Gaussian part's flow is a rotation by the angle epsilon in each
    (zeta_i, p_i) plane, so the energy error comes from the non-Gaussian rest alone; where there is
    none (beta = 0) every proposal is accepted. H2 of the evidence study. Source: Shahbaba, Lan,
    Johnson & Neal (2014), section 3.1.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Beta grad r: the rest only."""
        return target.beta_column() * gradient

    def flow(
        self, target: Target, position: np.ndarray, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rotation by the angle epsilon."""
        cos, sin = np.cos(step_size), np.sin(step_size)
        return position * cos + momentum * sin, momentum * cos - position * sin
