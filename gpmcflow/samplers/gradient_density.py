"""Hamiltonian Monte Carlo on a log density of a few coordinates that has a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density_protocol import (
    DensityInfo,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.univariate_slice import require_count


@dataclass(frozen=True)
class DensityHMC:
    """Leapfrog steps in theta / scales, with velocities N(0, I), accepted by the change of energy.

    What a user of a gradient-based program would run on the log marginal likelihood of a GP. A step
    costs one `value_and_gradient`; the gradient at the start is carried.

    Attributes
    ----------
    step_size, n_steps:
        Of the leapfrog integrator, in units of ``scales``.
    scales:
        Posterior standard deviations of theta, say, one for each coordinate.
    jitter:
        Each iteration's step size is ``step_size`` times U(1 - jitter, 1 + jitter).
    """

    step_size: float
    n_steps: int
    scales: tuple[float, ...]
    jitter: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(float(s) for s in np.atleast_1d(self.scales)))
        require_count("DensityHMC", "n_steps", self.n_steps)
        if not (0.0 < self.step_size < np.inf and all(0.0 < s < np.inf for s in self.scales)):
            raise InputError(
                f"DensityHMC: step_size {self.step_size!r}, scales {self.scales}; allowed: positive numbers"
            )
        if not 0.0 <= self.jitter < 1.0:
            raise InputError(f"DensityHMC: jitter is {self.jitter!r}; allowed: 0 <= jitter < 1")

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start; carries log pi and its gradient."""
        require_densities("DensityHMC", densities, 1)
        position = np.array(position, dtype=np.float64)
        if len(self.scales) != len(position):
            raise InputError(
                f"DensityHMC: {len(self.scales)} scales for {len(position)} coordinates; give one for each"
            )
        start_values(densities, position)
        value, gradient = densities[0].value_and_gradient(position)
        return DensityState(position, (value, *gradient))

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One trajectory and the decision."""
        scales = np.array(self.scales)
        step = self.step_size * (1.0 + self.jitter * (2.0 * rng.random() - 1.0))
        velocity = rng.standard_normal(len(scales))
        energy = 0.5 * velocity @ velocity - state.values[0]
        position, gradient = state.position, np.array(state.values[1:])
        for _ in range(self.n_steps):
            velocity = velocity + 0.5 * step * scales * gradient
            position = position + step * scales * velocity
            value, gradient = densities[0].value_and_gradient(position)
            if value == -np.inf:
                return state, DensityInfo(False, 0.0, True)
            velocity = velocity + 0.5 * step * scales * gradient
        change = energy - (0.5 * velocity @ velocity - value)
        rate = float(np.exp(min(0.0, change)))
        if rng.random() < rate:
            return DensityState(position, (value, *gradient)), DensityInfo(True, rate)
        return state, DensityInfo(False, rate)
