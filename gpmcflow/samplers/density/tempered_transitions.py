"""Mapping by tempered transitions: out through ever cheaper densities, and back, judged as one move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density.protocol import (
    DensityInfo,
    DensitySampler,
    DensityState,
    Move,
    require_densities,
    start_values,
)
from gpmcflow.samplers.protocol import require_count


@dataclass(frozen=True)
class TemperedTransitions(DensitySampler):
    """Mapping by tempered transitions: out through ever cheaper densities, and back, judged as one move.

    MCMC for pi_0 that proposes by moves under pi_1, ..., pi_N and back, N the number of layers. With T_i a
    transition that leaves pi_i invariant and T~_i its exact reverse, the proposal is

        x_0 -T_1-> x_1 ... -T_N-> x_N = x'_N -T~_N-> x'_(N-1) ... -T~_1-> x'_0,

    accepted with probability min{1, prod_i [pi_i(x_(i-1)) / pi_(i-1)(x_(i-1))]
    prod_i [pi_(i-1)(x'_(i-1)) / pi_i(x'_(i-1))]}: the weights use the state before T_i going out
    and after T~_i coming back. Only the last state costs an evaluation of pi_0. With cheaper and
    broader densities outward, large moves are made where they cost little, and the layers between
    bring the state back to where pi_0 is large.

    Densities: [pi_0, pi_1, ..., pi_N]. The log densities carried are of pi_0 and pi_1.

    Source: Neal (1996); Wang & Neal (2013), section 3.2, eq. 15.

    Attributes
    ----------
    transitions:
        Such as `SliceSweep`, one for each layer, or one for all.
    repeats:
        q_i, moves of T_i going out, and of T~_i coming back, one number for each layer or one for all.

    Raises
    ------
    InputError:
        For settings out of range, and for numbers of densities, transitions and repeats that do not match.
    NumericalError:
        Where a density is -inf at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> bell = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"))
    >>> wide = gp.FunctionDensity(lambda theta: -0.3 * float(theta @ theta), ("a", "b"))
    >>> sampler = gp.TemperedTransitions(gp.SliceSweep((1.0, 1.0)), repeats=2)
    >>> draws = gp.sample([bell, wide], sampler, start=np.zeros(2), n_chains=1, n_draws=50)
    >>> draws.sample_stats["n_calls"].sel(draw=0, chain=0).values[0].item()  # of the exact density
    1
    """

    transitions: tuple[Move, ...]
    repeats: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for name in ("transitions", "repeats"):
            value = getattr(self, name)
            value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
            object.__setattr__(self, name, value)
            if not value:
                raise InputError(f"TemperedTransitions: {name} is empty; give one for each layer")
        for q in self.repeats:
            require_count("TemperedTransitions", "repeats", q)

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start, where all densities must be finite."""
        require_densities("TemperedTransitions", densities, 2, 100)
        n_layers = len(densities) - 1
        for name in ("transitions", "repeats"):
            if len(getattr(self, name)) not in (1, n_layers):
                raise InputError(
                    f"TemperedTransitions: {len(getattr(self, name))} {name} for {n_layers} layers; allowed: "
                    "one for all, or one for each"
                )
        values = start_values(densities, position)
        return DensityState(np.array(position, dtype=np.float64), values[:2])

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One iteration: out, back, and the decision."""
        n_layers = len(densities) - 1
        layers = self._layers(n_layers)
        x, (below, value) = state.position, state.values
        log_ratio = 0.0
        for i in range(1, n_layers + 1):  # below = log pi_(i-1)(x), value = log pi_i(x)
            log_ratio += value - below
            for transition in layers[i - 1]:
                x, value = transition.forward(rng, densities[i], x, value)
            if i < n_layers:
                below, value = value, densities[i + 1](x)
        for i in range(n_layers, 0, -1):
            for transition in layers[i - 1]:
                x, value = transition.backward(rng, densities[i], x, value)
            below = densities[i - 1](x)
            log_ratio += below - value
            if i == 1:
                arrived = (below, value)
            value = below
        if not np.isfinite(log_ratio):  # -inf or nan: a density failed somewhere on the way
            return state, DensityInfo(False, 0.0, True)
        rate = float(np.exp(min(0.0, log_ratio)))
        if log_ratio >= 0.0 or rng.random() < rate:
            return DensityState(x, arrived), DensityInfo(True, rate)
        return state, DensityInfo(False, rate)

    def _layers(self, n_layers: int) -> list[list[Move]]:
        """The moves of each layer."""
        transitions = self.transitions * (n_layers if len(self.transitions) == 1 else 1)
        repeats = self.repeats * (n_layers if len(self.repeats) == 1 else 1)
        return [[t] * q for t, q in zip(transitions, repeats, strict=True)]
