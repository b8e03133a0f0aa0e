"""Split Hamiltonian Monte Carlo by splitting the data: informative cases take smaller steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.case_part import CasePart
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.hamiltonian import HamiltonianSampler, Motion, UnitMass
from gpmcflow.samplers.latent.protocol import State
from gpmcflow.samplers.protocol import require_count, require_share


@dataclass(frozen=True)
class DataSplitHMC(UnitMass, HamiltonianSampler):
    """Split Hamiltonian Monte Carlo by splitting the data: informative cases take smaller steps.

    Nested leapfrog with unit mass on theta: M small steps along U_0 in each step along U_1. U_0 holds the
    prior and the cases R_0, U_1 the other cases R_1, each with its likelihood,

        H = U_1 / 2 + sum_{m=1}^{M} [U_0 / 2 + K + U_0 / 2] / M + U_1 / 2.

    R_0 are the round(fraction n) cases with the largest curvature -(log L_i)'' at the mean of the
    Gaussian the target's coordinates belong to, ties by index: the mode for a Laplace fit, which for
    a logistic likelihood ranks cases by their nearness to the boundary. (A prior has the same mean
    for all cases, hence no useful ranking: give a fit.)

    A transition costs (f M + 1 - f) L gradients, f = |R_0| / n, L = ``n_steps``, M = ``inner_steps``.

    Source: Shahbaba, Lan, Johnson & Neal (2014), section 3.2, algorithm 2.

    Attributes
    ----------
    step_size:
        epsilon > 0, in units of theta; inside the package also (chain,), one for each chain of a batch.
    n_steps:
        L, steps along U_1 of a trajectory, 1 or more.
    jitter:
        Each transition multiplies the step size by a uniform number within 1 +- jitter, since a fixed length
        can be close to a period of the orbit; from 0 to below 1.
    inner_steps:
        M, 1 or more.
    fraction:
        Share of the cases that R_0 has, above 0 and below 1.
    order:
        "curvature", or "random" for a fixed random R_0 of the same size, to measure what the ranking is
        worth.

    Raises
    ------
    InputError:
        For settings out of range, and, on a model, for a single case or an unknown order.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> design = np.column_stack([np.ones(6), np.arange(6.0)])
    >>> y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    >>> model = gp.LatentGaussianModel.from_design(design, 5.0, gp.Logistic(), y)
    >>> sampler = gp.DataSplitHMC(step_size=0.5, n_steps=4, inner_steps=5, fraction=0.5)
    >>> draws = gp.sample(gp.laplace(model), sampler, n_chains=1, n_draws=50)
    >>> draws.sample_stats["n_gradient"].values[0, 0].item()  # (0.5 * 5 + 0.5) * 4
    12.0
    """

    inner_steps: int = 10
    fraction: float = 0.4
    order: str = "curvature"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("DataSplitHMC", "inner_steps", self.inner_steps)
        require_share("DataSplitHMC", "fraction", self.fraction)

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Principal axes of the base, its cases split in two."""
        return base.split_cases(self.fraction, self.order)

    def gradients(self, target: Target) -> float:
        """(|R_0| M + |R_1|) L / n."""
        fast, slow = (part.n_cases for part in _parts(target))
        return (fast * self.inner_steps + slow) * self.n_steps / (fast + slow)

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Of the slow part, U_1: rates times beta times the gradient of its log likelihood."""
        return self.rates(target) * (target.beta_column() * gradient)

    def _fast_force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Of U_0: the Gaussian part less its sites, and the fast cases."""
        rest = gradient - target.sites_gradient(position)
        return self.rates(target) * (target.beta_column() * rest - position)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target; the gradients of the two parts are kept apart, (chain, 2, dim).

        Raises `InputError` unless the target is in this sampler's coordinates, with its split.
        """
        if self.coordinates(target.base) is not target.base:
            raise InputError(
                f"DataSplitHMC: the target's base is {type(target.base).__name__}, or of another "
                "split; use target.in_coordinates(sampler.coordinates(target.base))"
            )
        fast, slow = (part.evaluate(position) for part in _parts(target))
        return _join(target, position, fast, slow)

    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Drift of one inner step."""
        drift = step_size / self.inner_steps * self.rates(target)
        return lambda position, momentum: (position + drift * momentum, momentum)

    def trajectory(
        self, target: Target, state: State, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[State, np.ndarray]:
        """End point, evaluated, and its momentum, after n_steps of ``step_size`` (chain, 1)."""
        fast, slow = _parts(target)
        position, inner = state.position, step_size / self.inner_steps
        drift = self.motion(target, step_size)
        fast_force = self._fast_force(target, position, state.gradient[:, 0])
        momentum = momentum + 0.5 * step_size * self.force(target, position, state.gradient[:, 1])
        for outer in range(self.n_steps):
            last = outer == self.n_steps - 1
            momentum += 0.5 * inner * fast_force
            for m in range(self.inner_steps):
                position, momentum = drift(position, momentum)
                if last and m == self.inner_steps - 1:
                    fast_end = fast.evaluate(position)
                    gradient = fast_end[-1]
                else:
                    gradient = fast.gradient(position)
                fast_force = self._fast_force(target, position, gradient)
                momentum += (1.0 if m < self.inner_steps - 1 else 0.5) * inner * fast_force
            if not last:
                momentum += step_size * self.force(target, position, slow.gradient(position))
        slow_end = slow.evaluate(position)
        momentum += 0.5 * step_size * self.force(target, position, slow_end[-1])
        return _join(target, position, fast_end, slow_end), momentum


def _parts(target: Target) -> tuple[CasePart, CasePart]:
    base: Any = target.base  # in this sampler's coordinates
    return base.parts


def _join(target: Target, position: np.ndarray, fast: tuple, slow: tuple) -> State:
    """State from the evaluations of the two parts."""
    base: Any = target.base
    predictor = base.join_cases(fast[0], slow[0])
    log_likelihood = fast[1] + slow[1]
    residual = target.residual(position, predictor, log_likelihood)
    return State(
        position, predictor, log_likelihood, residual, np.stack([fast[-1], slow[-1]], axis=1)
    )
