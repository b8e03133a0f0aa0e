"""Mapping to a discretizing chain: move along a chain of a cheap density, judged by the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
class DiscretizingChain(DensitySampler):
    """Mapping to a discretizing chain: move along a chain of a cheap density, judged by the exact one.

    MCMC for pi that proposes along a chain simulated under a stand-in pi*. Think of a chain of infinite
    length, simulated by a transition R that leaves pi* invariant: forward in time by R, backward by its exact
    reverse R~. The present state is put at a mark on it, say 0. As the whole chain with its mark may be built
    from any of its states, the marked chain has density pi(x_k) / pi*(x_k) relative to one that is equally
    likely at all marks, and a Metropolis move from mark k to k' is accepted with probability

        min{1, [pi(x_k') / pi*(x_k')] / [pi(x_k) / pi*(x_k)]}.

    An iteration maps theta to such a chain, makes r moves by s places to either side with probability
    one half each, and maps back, forgetting the chain. Entries are simulated when first visited and
    never again, so that with r = s = 1 an iteration costs one move of R (cheap) and exactly one
    evaluation of pi. pi* need not be accurate: what it lacks shows in the acceptance rate.

    Densities: [pi, pi*]. The log densities carried are of both.

    Source: Wang & Neal (2013), section 3.1, eq. 13.

    Attributes
    ----------
    transition:
        R and R~, e.g. `SliceSweep`; or `IndependentDraws` of
        `gpmcflow.samplers.density.discretizing_chain`, for a pi* that can be drawn from.
    r, s:
        Moves in an iteration, and places per move, 1 or more.

    Raises
    ------
    InputError:
        For settings out of range, and for other than two densities.
    NumericalError:
        Where a density is -inf at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> bell = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"))
    >>> wide = gp.FunctionDensity(lambda theta: -0.3 * float(theta @ theta), ("a", "b"))
    >>> sampler = gp.DiscretizingChain(gp.SliceSweep((1.0, 1.0)))
    >>> draws = gp.sample([bell, wide], sampler, start=np.zeros(2), n_chains=1, n_draws=50)
    >>> draws.sample_stats["n_calls"].sel(draw=0, chain=0).values[0].item()  # of the exact density
    1
    """

    transition: Move
    r: int = 1
    s: int = 1

    def __post_init__(self) -> None:
        require_count("DiscretizingChain", "r", self.r)
        require_count("DiscretizingChain", "s", self.s)

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start, where both densities must be finite."""
        require_densities("DiscretizingChain", densities, 2)
        return DensityState(np.array(position, dtype=np.float64), start_values(densities, position))

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One iteration: r moves of the mark on a new chain."""
        exact, fast = densities
        chain = _MarkedChain(rng, fast, self.transition, state.position, state.values[1])
        chain.exact[0] = state.values[0]
        mark, rates, failed = 0, 0.0, False
        for _ in range(self.r):
            proposed = mark + (self.s if rng.random() < 0.5 else -self.s)
            position, fast_value = chain.entry(proposed)
            if proposed not in chain.exact:
                chain.exact[proposed] = exact(position)
            failed |= chain.exact[proposed] == -np.inf
            log_ratio = (chain.exact[proposed] - fast_value) - (
                chain.exact[mark] - chain.entries[mark][1]
            )
            rates += np.exp(min(0.0, log_ratio))
            if log_ratio >= 0.0 or rng.random() < np.exp(log_ratio):
                mark = proposed
        position, fast_value = chain.entries[mark]
        info = DensityInfo(mark != 0, rates / self.r, bool(failed))
        return DensityState(position, (chain.exact[mark], fast_value)), info


@dataclass
class _MarkedChain:
    """Entries simulated so far, by mark: (theta, log pi*); exact log densities where evaluated."""

    rng: np.random.Generator
    density: LogDensity
    transition: Move
    position: np.ndarray
    value: float
    entries: dict[int, tuple[np.ndarray, float]] = field(init=False)
    exact: dict[int, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = {0: (self.position, self.value)}
        self.low = self.high = 0

    def entry(self, mark: int) -> tuple[np.ndarray, float]:
        """Entry at a mark, extending the chain as far as is needed and no further."""
        while self.high < mark:
            at = self.entries[self.high]
            self.high += 1
            self.entries[self.high] = self.transition.forward(self.rng, self.density, *at)
        while self.low > mark:
            at = self.entries[self.low]
            self.low -= 1
            self.entries[self.low] = self.transition.backward(self.rng, self.density, *at)
        return self.entries[mark]


@dataclass(frozen=True)
class IndependentDraws:
    """Independent draws of a density with ``draw(rng) -> (theta, log density)``, e.g. `FittedStudent`.

    Reversible, so that forward and backward are the same. In a discretizing chain with r = s = 1 this
    is independence Metropolis: one exact evaluation per iteration, and no other of note.
    """

    def forward(
        self, rng: np.random.Generator, density: Any, position: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """A new draw."""
        return density.draw(rng)

    backward = forward
