"""Elliptical slice sampling: updates of a Gaussian's coordinates that need no tuning and no gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.protocol import Info, State
from gpmcflow.samplers.univariate_slice import require_count

MAX_SHRINKS = 500  # by then the bracket is 0 at double precision: the chain stays


def elliptical_slice(
    rng: object,
    position: np.ndarray,
    value: np.ndarray,
    draws: np.ndarray,
    log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One elliptical slice update of every chain under N(f; 0, Sigma) exp(log_likelihood(f)).

    With nu ~ N(0, Sigma) (``draws``) and the level l = log L(f) - E, E ~ Exp(1): an angle a ~ U(0, 2 pi) on
    the bracket [a - 2 pi, a], f' = f cos a + nu sin a, until log L(f') > l; each failure becomes the end of
    the bracket on its side of 0.

    Parameters
    ----------
    rng:
        Generators of the chains: with `execution.ChainGenerators` each draws the same numbers whatever
        its block mates do, as only chains that are not done draw.
    position, value:
        f (chain, n) and log L(f) (chain,).
    log_likelihood:
        Called with proposals (m, n) and their chains (m,): those that are not done yet.

    Returns the new positions and values, the angles' cosines and sines (chain, 2) with which coordinates
    that f is linear in follow, and the evaluations of each chain (chain,).

    Source: Murray, Adams & MacKay (2010); Murray & Adams (2010), section 2.2.
    """
    n_chains = len(position)
    level = value + np.log1p(-rng.uniform())
    angle = 2.0 * np.pi * rng.uniform()
    low, high = angle - 2.0 * np.pi, angle.copy()
    position, value = position.copy(), value.copy()
    weights = np.tile([1.0, 0.0], (n_chains, 1))
    counts, open_ = np.zeros(n_chains), np.ones(n_chains, dtype=bool)
    for _ in range(MAX_SHRINKS):
        rows = np.flatnonzero(open_)
        if not rows.size:
            break
        cosine, sine = np.cos(angle[rows]), np.sin(angle[rows])
        proposal = position[rows] * cosine[:, None] + draws[rows] * sine[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            found = log_likelihood(proposal, rows)
        counts[rows] += 1.0
        taken = found > level[rows]
        done = rows[taken]
        position[done], value[done] = proposal[taken], found[taken]
        weights[done, 0], weights[done, 1] = cosine[taken], sine[taken]
        open_[done] = False
        below = open_ & (angle < 0.0)
        low, high = np.where(below, angle, low), np.where(open_ & ~below, angle, high)
        if open_.any():
            angle = np.where(open_, low + (high - low) * _uniform(rng, open_), angle)
    return position, value, weights, counts


def _uniform(rng: object, where: np.ndarray) -> np.ndarray:
    return rng.uniform(where=where) if hasattr(rng, "chains") else rng.uniform()


@dataclass(frozen=True)
class EllipticalSlice:
    """``n_steps`` elliptical slice updates a transition, of any target: its Gaussian part is the ellipse.

    In the base's coordinates the Gaussian part, a prior, EP or Laplace fit, is N(0, I), and what is left
    of the likelihood, beta r, takes the place of log L. All chains' draws of an update are one product
    with the predictor's factor; each evaluation then costs O(n). A likelihood value counts as half a
    gradient in its `Info`; every update is accepted. Source: `elliptical_slice`.
    """

    n_steps: int = 1

    step_size = 1.0  # there is none, and nothing to tune
    target_acceptance: ClassVar[float] = 0.8

    def __post_init__(self) -> None:
        require_count("EllipticalSlice", "n_steps", self.n_steps)

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Those of the Gaussian itself."""
        return base

    def length_unit(self, target: Target) -> float:
        """Updates have the Gaussian's own scale."""
        return 1.0

    def with_steps(self, step_size: float | np.ndarray, n_steps: int) -> Self:
        """Return the sampler with another number of updates."""
        return replace(self, n_steps=n_steps)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim); there is no gradient, (chain, 0)."""
        if np.ndim(target.precision) > 1:
            raise InputError(
                "EllipticalSlice: a ladder in coordinates of another Gaussian is not supported; take "
                "those of its reference"
            )
        return State(position, *target.value(position), np.empty((len(position), 0)))

    def step(self, rng: object, target: Target, state: State) -> tuple[State, Info]:
        """``n_steps`` updates of every chain."""
        n_chains, base = len(state.position), target.base
        beta = np.broadcast_to(np.asarray(target.beta, dtype=np.float64), (n_chains,))
        likelihood, y, mean = target.model.likelihood, target.model.y, base.predictor_mean
        counts, moved = np.zeros(n_chains), np.zeros(n_chains, dtype=bool)

        def rest(eta: np.ndarray, rows: np.ndarray) -> np.ndarray:
            eta = eta + mean
            r = likelihood.log_density(eta, y) - target.sites_density(eta)
            return np.where(
                beta[rows] > 0.0, beta[rows] * r, 0.0
            )  # the reference itself: no 0 * inf

        for _ in range(self.n_steps):
            draws = rng.standard_normal((target.dim,))
            eta, _, weights, spent = elliptical_slice(
                rng,
                state.predictor - mean,
                np.where(beta > 0.0, beta * state.residual, 0.0),
                base.predictor(draws) - mean,
                rest,
            )
            position = state.position * weights[:, :1] + draws * weights[:, 1:]
            predictor = eta + mean
            log_likelihood = likelihood.log_density(predictor, y)
            residual = target.residual(position, predictor, log_likelihood)
            state = State(position, predictor, log_likelihood, residual, state.gradient)
            counts, moved = counts + spent, moved | (weights[:, 1] != 0.0)
        zero = np.zeros(n_chains)
        flags = np.zeros(n_chains, dtype=bool)
        return state, Info.explicit(moved, np.ones(n_chains), zero, flags, 0.5 * counts)
