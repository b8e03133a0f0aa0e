"""Independence Metropolis on a log density of a few coordinates, from a Student-t fitted at its mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.errors import InputError
from gpmcflow.execution.randomness import chain_generators
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.adaptation.fitted_proposal import (
    beside,
    fitted_proposal,
    warn_of_a_poor_fit,
)
from gpmcflow.samplers.density.problem import DensityProblem
from gpmcflow.samplers.density.protocol import (
    DensityInfo,
    DensitySampler,
    DensityState,
    require_densities,
    start_values,
)
from gpmcflow.samplers.protocol import Tuned, require_count, require_positive

N_STARTS = 64  # starts drawn from the proposal: chain k begins at the k-th, modulo


@dataclass(frozen=True)
class FittedIndependence(DensitySampler):
    """Independence Metropolis whose proposals come from a Student-t fitted to the density, then frozen.

    A proposal theta' ~ q is accepted with probability min{1, pi(theta') q(theta) / [pi(theta) q(theta')]}.
    The fit begins with location and curvature at the mode (`FittedStudent.at_mode`, which needs a gradient)
    and is refitted once to weighted draws of itself. A transition costs one value of the density and no
    gradient: for the few hyperparameters of a GP regression, whose posterior is close to normal, draws are
    nearly independent. The mode is that of most mass among those found from up to three starts. What the fit
    misses (another mode) is seen seldom: chains then stand still and do not agree.

    Source: Tierney (1994), section 2.3.3; the fit by importance weights: Cappe et al. (2008).

    Attributes
    ----------
    dof:
        Degrees of freedom of the proposal, above 0: few give heavy tails.
    n_pilot:
        Draws that the fit at the mode is improved with.
    proposal:
        The fitted density; None fits one before the first draw.

    Raises
    ------
    InputError:
        For settings out of range, and a density without gradient.
    NumericalError:
        Where no mode is found.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 12)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian())
    >>> draws = gp.sample(model, "fitted_independence", n_draws=50, n_chains=2)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.5)
    True
    """

    dof: float = 6.0
    n_pilot: int = 600
    proposal: FittedStudent | None = None

    least_acceptance = 0.1

    def __post_init__(self) -> None:
        require_positive("FittedIndependence: dof", self.dof)
        require_count("FittedIndependence", "n_pilot", self.n_pilot)

    def fitted(
        self, problem: DensityProblem, rng: np.random.Generator
    ) -> tuple[FittedIndependence, float]:
        """The sampler with a proposal, and the effective share of its draws (`fitted_proposal`)."""
        density, starts = problem.target[0].fresh(), problem.pilot_starts(beside(rng))
        proposal, share = fitted_proposal(density, starts, rng, self.n_pilot, self.dof)
        return replace(self, proposal=proposal), share

    def adapt(self, problem: DensityProblem, *, seed: int, key: Sequence[Any], **run: Any) -> Tuned:
        """Fit the proposal, and start chains at draws of it."""
        rng = chain_generators(seed, *key, "fitted_independence", chains=range(1)).generator(0)
        sampler = self
        if self.proposal is None:
            sampler, share = self.fitted(problem, rng)
            warn_of_a_poor_fit(self, share)
        assert sampler.proposal is not None
        starts = np.stack([sampler.proposal.draw(rng)[0] for _ in range(N_STARTS)])
        return Tuned(sampler, replace(problem, starts=starts), {})

    def init(self, densities: Sequence[LogDensity], position: np.ndarray) -> DensityState:
        """State at a start; carries log pi and log q."""
        require_densities("FittedIndependence", densities, 1)
        if self.proposal is None:
            raise InputError(
                "FittedIndependence: no proposal is fitted yet; run it by sample, or give proposal"
            )
        position = np.array(position, dtype=np.float64)
        return DensityState(
            position, (*start_values(densities, position), self.proposal.evaluate(position))
        )

    def step(
        self, rng: np.random.Generator, densities: Sequence[LogDensity], state: DensityState
    ) -> tuple[DensityState, DensityInfo]:
        """One proposal and the decision."""
        assert self.proposal is not None  # see `init`
        position, log_proposal = self.proposal.draw(rng)
        value = densities[0](position)
        change = value - log_proposal - (state.values[0] - state.values[1])
        rate = float(np.exp(min(0.0, change)))
        if rng.random() < rate:
            return DensityState(position, (value, log_proposal)), DensityInfo(True, rate)
        return state, DensityInfo(False, rate, value == -np.inf)
