"""Hamiltonian Monte Carlo on a log density of a few coordinates that has a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density.protocol import (
    DensityInfo,
    DensitySampler,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.protocol import require_count, require_positive, require_share


@dataclass(frozen=True)
class DensityHMC(DensitySampler):
    """Hamiltonian Monte Carlo for a log density of a few coordinates that has a gradient.

    Leapfrog steps in theta / scales, with velocities N(0, I), accepted by the change of energy: what a user
    of a gradient-based program would run on the log marginal likelihood of a GP. A step costs one
    `value_and_gradient`; the gradient at the start is carried.

    Source: Neal (2011), section 2.3.

    Attributes
    ----------
    step_size, n_steps:
        Of the leapfrog integrator: a number > 0, in units of ``scales``, and 1 or more.
    scales:
        Posterior standard deviations of theta, say, one for each coordinate.
    jitter:
        Each iteration's step size is ``step_size`` times U(1 - jitter, 1 + jitter); from 0 to below 1.

    Raises
    ------
    InputError:
        For settings out of range, and for a density without gradient.
    NumericalError:
        Where a density is -inf at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> bell = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"), gradient=np.negative)
    >>> sampler = gp.DensityHMC(step_size=0.5, n_steps=4, scales=(1.0, 1.0))
    >>> draws = gp.sample(bell, sampler, start=np.zeros(2), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.9)
    True
    """

    statistics: ClassVar[Mapping[str, str]] = {**DensitySampler.statistics, "energy": "<f8"}
    step_size: float
    n_steps: int
    scales: tuple[float, ...]
    jitter: float = 0.2

    def __post_init__(self) -> None:
        scales = require_positive("DensityHMC: scales", np.atleast_1d(self.scales).tolist())
        object.__setattr__(self, "scales", scales)
        require_positive("DensityHMC: step_size", self.step_size)
        require_count("DensityHMC", "n_steps", self.n_steps)
        require_share("DensityHMC", "jitter", self.jitter, zero=True)

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
                return state, DensityInfo(False, 0.0, True, energy=float(energy))
            velocity = velocity + 0.5 * step * scales * gradient
        after = 0.5 * velocity @ velocity - value
        change = energy - after
        rate = float(np.exp(min(0.0, float(change))))
        if rng.random() < rate:
            return DensityState(position, (value, *gradient)), DensityInfo(
                True, rate, energy=float(after)
            )
        return state, DensityInfo(False, rate, energy=float(energy))
