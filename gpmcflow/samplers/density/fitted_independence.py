"""Independence Metropolis on a log density of a few coordinates, from Student-t densities at its modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.mixture import ModeProposal, fit_mixture, log_weights, suits
from gpmcflow.errors import InputError
from gpmcflow.execution.randomness import chain_generators
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import NormalDensity, RegressionDensity
from gpmcflow.samplers.adaptation.fitted_proposal import (
    N_JUDGED,
    beside,
    effective_share,
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
    """Independence Metropolis whose proposals come from a density fitted to the target, then frozen.

    A proposal theta' ~ q is accepted with probability min{1, pi(theta') q(theta) / [pi(theta) q(theta')]}. A
    transition costs one value of the density and no gradient: for the few hyperparameters of a GP regression
    draws are nearly independent.

    For a regression of up to 8 free hyperparameters q is a mixture: a search finds all modes of the
    posterior, and q has a Student-t at each and a tenth of the prior (`fit_mixture`), so that chains visit
    every mode.

    For other densities q is one Student-t. The fit begins with location and curvature at the mode
    (`FittedStudent.at_mode`, which needs a gradient) and is refitted once to weighted draws of itself. The
    mode is that of most mass among those found from up to three starts. What the fit misses (another mode) is
    seen seldom: chains then stand still and do not agree.

    Source: Tierney (1994), section 2.3.3; the fits by importance weights: Cappe et al. (2008).

    Attributes
    ----------
    dof:
        Degrees of freedom of the one Student-t, above 0: few give heavy tails.
    n_pilot:
        Draws that its fit at the mode is improved with.
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
    proposal: FittedStudent | ModeProposal | None = None

    least_acceptance = 0.1

    def __post_init__(self) -> None:
        require_positive("FittedIndependence: dof", self.dof)
        require_count("FittedIndependence", "n_pilot", self.n_pilot)

    def fitted(
        self, problem: DensityProblem, rng: np.random.Generator
    ) -> tuple[FittedIndependence, float]:
        """The sampler with a proposal, and the effective share of its draws, as in `fitted_proposal`."""
        exact = problem.target[0]
        if type(exact) is RegressionDensity and suits(exact.model):
            in_normal = NormalDensity(exact.model)
            _, mixture = fit_mixture(in_normal, rng)
            judged = log_weights(in_normal, mixture, mixture.draw(rng, N_JUDGED))
            own = replace(self, proposal=ModeProposal(mixture, exact.model.parameters))
            return own, effective_share(judged)
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
