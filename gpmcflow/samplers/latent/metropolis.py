"""Metropolis-Hastings samplers without gradients: random walk, and independent proposals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.hamiltonian import (
    UnitMass,
    column,
    log_density,
    require_steps,
    select,
)
from gpmcflow.samplers.latent.protocol import Info, LatentSampler, State
from gpmcflow.samplers.protocol import ChainRandom, require_count


class Metropolis(LatentSampler):
    """A transition of ``n_steps`` proposals in a row, each accepted or rejected; no gradients.

    In its `Info`, ``accepted`` says whether any proposal was taken, ``acceptance_rate`` is the mean
    over them, ``energy_error`` minus the log acceptance ratio of the last; a likelihood value counts
    as half a gradient (one product of two).
    """

    @abstractmethod
    def propose(self, rng: ChainRandom, target: Target, state: State) -> np.ndarray:
        """Proposed positions (chain, dim)."""

    @abstractmethod
    def log_ratio(self, target: Target, proposal: State, state: State) -> np.ndarray:
        """Log of the Metropolis-Hastings ratio (chain,)."""

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim); there is no gradient, (chain, 0)."""
        return State(position, *target.value(position), np.empty((len(position), 0)))

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain."""
        n_chains = len(state.position)
        moved, diverging = np.zeros(n_chains, bool), np.zeros(n_chains, bool)
        rate = np.zeros(n_chains)
        for _ in range(self.n_steps):
            position = self.propose(rng, target, state)
            log_uniform = np.log1p(-rng.uniform())
            with np.errstate(over="ignore", invalid="ignore"):
                proposal = self.init(target, position)
                ratio = self.log_ratio(target, proposal, state)
            failed = ~np.isfinite(ratio)
            log_accept = np.minimum(np.where(failed, -np.inf, ratio), 0.0)
            accepted = log_uniform < log_accept
            state = select(accepted, proposal, state)
            moved, diverging = moved | accepted, diverging | failed
            rate += np.exp(log_accept) / self.n_steps
        cost = np.full(n_chains, 0.5 * self.n_steps)
        return state, Info.explicit(moved, rate, -ratio, diverging, cost)


@dataclass(frozen=True)
class RandomWalkMetropolis(UnitMass, Metropolis):
    """Random walk Metropolis for latents: steps of normal noise, accepted by the ratio of densities.

    It proposes theta + step_size N(0, I), ``n_steps`` times in a row in each transition.

    Source: Metropolis et al. (1953); the comparison of Shahbaba, Lan, Johnson & Neal (2014), Figure
    1, has n_steps = 20 proposals an iteration.

    Attributes
    ----------
    step_size:
        epsilon > 0, standard deviation of a proposal, in units of theta; inside the package also (chain,),
        one for each chain of a batch.
    n_steps:
        Proposals of a transition, 1 or more.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> design = np.column_stack([np.ones(6), np.arange(6.0)])
    >>> y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    >>> model = gp.LatentGaussianModel.from_design(design, 5.0, gp.Logistic(), y)
    >>> draws = gp.sample(model, gp.RandomWalkMetropolis(step_size=0.5), n_chains=1, n_draws=50)
    >>> 0.1 < draws.sample_stats["acceptance_rate"].mean().item() < 0.9
    True
    """

    step_size: float | np.ndarray = 0.5
    n_steps: int = 20

    target_acceptance: ClassVar[float] = 0.234  # optimal in many dimensions (Roberts et al. 1997)

    def __post_init__(self) -> None:
        require_steps("RandomWalkMetropolis", self.step_size, self.n_steps)

    def propose(self, rng: ChainRandom, target: Target, state: State) -> np.ndarray:
        """A step from where each chain stands."""
        noise = rng.standard_normal((target.dim,))
        return state.position + column(self.step_size) * self.rates(target) * noise

    def log_ratio(self, target: Target, proposal: State, state: State) -> np.ndarray:
        """Difference of the log densities: the proposal is symmetric."""
        return log_density(target, proposal) - log_density(target, state)


@dataclass(frozen=True)
class IndependenceMetropolis(Metropolis):
    """Independence Metropolis for latents: draws of a Gaussian, accepted by the ratio of the rests.

    The ratio is exp(beta r' - beta r), r the log of the posterior over the Gaussian (the EP fit, where a
    model is given): importance weights made into a chain. Good only where the Gaussian fits everywhere.

    Source: Hastings (1970); Tierney (1994).

    Attributes
    ----------
    n_steps:
        Proposals of a transition, 1 or more.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> draws = gp.sample(model, gp.IndependenceMetropolis(), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.5)
    True
    """

    n_steps: int = 1

    def __post_init__(self) -> None:
        require_count("IndependenceMetropolis", "n_steps", self.n_steps)

    def with_steps(self, step_size: float | np.ndarray, n_steps: int) -> Self:
        """Itself: a proposal is a whole draw of the Gaussian, and there is nothing to tune."""
        return self

    def propose(self, rng: ChainRandom, target: Target, state: State) -> np.ndarray:
        """Draws of N(0, I)."""
        return rng.standard_normal((target.dim,))

    def log_ratio(self, target: Target, proposal: State, state: State) -> np.ndarray:
        """Beta times the difference of the rests: the Gaussian part cancels."""
        return target.beta * (proposal.residual - state.residual)
