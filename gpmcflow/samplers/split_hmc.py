"""Split Hamiltonian Monte Carlo: the Gaussian part is solved exactly, the rest is kicked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import unknown_name
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.hamiltonian import HamiltonianSampler, Motion, UnitMass, column

FLOWS = ("exact", "fixed")


class GaussianSplit:
    """Mixin: kicks by the residual's gradient, exact flow of the Gaussian part between them.

    H = U_1 / 2 + [U_0 + K] + U_1 / 2 with U_0 = |zeta|^2 / 2 and U_1 = -beta r. The flow of U_0 + K
    is a rotation by the angle epsilon omega_j in each (zeta_j, p_j) plane, so the energy error comes
    from the non-Gaussian rest alone; where there is none (beta = 0) every proposal is accepted.
    Source: Shahbaba, Lan, Johnson & Neal (2014), section 3.1, algorithm 1.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rates times beta grad r: the rest only."""
        return self.rates(target) * (target.beta_column() * gradient)

    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Rotation by the angle epsilon omega_j."""
        angle = self.flow_time(step_size) * self.rates(target)
        cos, sin = np.cos(angle), np.sin(angle)
        return lambda position, momentum: (
            position * cos + momentum * sin,
            momentum * cos - position * sin,
        )

    def flow_time(self, step_size: np.ndarray) -> float | np.ndarray:
        """Time of the flow between two kicks: the step size (chain, 1)."""
        return step_size


@dataclass(frozen=True)
class PreconditionedSplitHMC(GaussianSplit, HamiltonianSampler):
    """The Gaussian part is a rotation by the same angle epsilon in every direction.

    Its mass matrix is the precision of the Gaussian part (all omega_j = 1), which makes it another
    sampler than `SplitHMC`, and usually a far better one where the scales of theta differ: H2 of the
    evidence study. Source: Casas, Sanz-Serna & Shaw (2022), Statistics and Computing 32, 86.
    """


@dataclass(frozen=True)
class SplitHMC(GaussianSplit, UnitMass, HamiltonianSampler):
    """Split HMC as published, with mass matrix I on theta: omega_j are the frequencies of the fit.

    Stable but for narrow windows of epsilon omega_j just beside each multiple of pi, where the kicks
    resonate with the flow; the jitter smears them. ``flow`` is the time of the Gaussian flow between
    two kicks: "exact" takes that of the kicks, "fixed" always the mean step size, as the authors'
    programs do (one matrix exponential for all transitions). That is valid too, but no approximation
    of H: its energy error does not vanish with the step size unless ``jitter`` is 0.
    Source: Shahbaba, Lan, Johnson & Neal (2014), algorithm 1.
    """

    flow: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flow not in FLOWS:
            raise unknown_name("SplitHMC: flow", self.flow, FLOWS)

    def flow_time(self, step_size: np.ndarray) -> float | np.ndarray:
        """The step size, or its mean for a fixed flow."""
        return step_size if self.flow == "exact" else column(self.step_size)
