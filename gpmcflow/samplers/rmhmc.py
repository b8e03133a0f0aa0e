"""Riemannian-manifold Hamiltonian Monte Carlo: the metric follows the curvature of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.curvature_metric import CurvatureSystem, Geometry
from gpmcflow.samplers.fixed_point import FixedPointSolver
from gpmcflow.samplers.generalised_leapfrog import integrate
from gpmcflow.samplers.hamiltonian import require_steps, select
from gpmcflow.samplers.protocol import ChainRandom, Info, State

RETURNED = 1e-6  # of the start: largest difference of a coordinate, in prior standard deviations


@dataclass(frozen=True)
class RMHMC:
    """Hamiltonian Monte Carlo whose metric is the negative Hessian of the tempered log density.

    G(f) = K^(-1) + diag(beta w(f) + (1 - beta) tau) on the latents, in the prior's coordinates, by
    the generalised leapfrog method (`integrate`). A transition draws p ~ N(0, G), takes ``n_steps``
    of ``step_size`` times a uniform number within 1 +- ``jitter``, and is accepted with probability
    min(1, exp(H - H')). Where an implicit equation is not solved to ``tolerance`` within
    ``max_iterations``, or a step taken back does not return, the whole transition is rejected and
    told as ``unsolved``.

    ``fixed_iters`` = k > 0 is the scheme of the literature instead: k plain iterations for either
    equation, a factorisation at each of the second's, and no test; reversible, and so exact, only as
    far as they converge.

    Needs a log-concave likelihood. One step costs 2/3 n^3 flops a chain for n cases (or d^3, where
    the d coordinates are fewer), and products with n^2: a step of a
    fixed-metric sampler has two products alone. Source: Paquet & Fraccaro (2018); Girolami & Calderhead
    (2011); section 4.1 of the latter for the sampler.
    """

    step_size: float | np.ndarray = 0.2
    n_steps: int = 5
    jitter: float = 0.1
    tolerance: float = 1e-8
    max_iterations: int = 100
    fixed_iters: int = 0

    target_acceptance: ClassVar[float] = 0.8

    def __post_init__(self) -> None:
        require_steps("RMHMC", self.step_size, self.n_steps)
        if not 0.0 <= self.jitter < 1.0:
            raise InputError(f"RMHMC: jitter is {self.jitter!r}; allowed: 0 <= jitter < 1")
        FixedPointSolver(self.tolerance, self.max_iterations, self.fixed_iters)

    @property
    def solver(self) -> FixedPointSolver:
        """Solver of the implicit equations."""
        return FixedPointSolver(self.tolerance, self.max_iterations, self.fixed_iters)

    @property
    def takes_back(self) -> bool:
        """Whether steps that do not return are rejected: the scheme of the literature does not look."""
        return not self.fixed_iters

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Coordinates the sampler moves in: those of the prior, whatever the reference."""
        return base if base.is_prior else GaussianSites.prior(base.model)

    def length_unit(self, target: Target) -> float:
        """Steps are in units of the metric."""
        return 1.0

    def with_steps(self, step_size: float | np.ndarray, n_steps: int) -> Self:
        """Return the sampler with another step size and number of steps."""
        return replace(self, step_size=step_size, n_steps=n_steps)

    def system(self, target: Target, n_chains: int) -> CurvatureSystem:
        """Hamiltonian system of a target."""
        return CurvatureSystem(target, n_chains, refactorise=self.fixed_iters > 0)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim); there is no gradient, (chain, 0)."""
        model = target.model
        predictor = target.base.predictor(position)
        log_likelihood = model.likelihood.log_density(predictor, model.y)
        residual = log_likelihood - target.sites_density(predictor)
        return State(position, predictor, log_likelihood, residual, np.empty((len(position), 0)))

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain."""
        n_chains = len(state.position)
        system = self.system(target, n_chains)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            here = system.geometry(state.position, np.arange(n_chains))
            momentum = system.draw_momentum(rng, here)
            scale = 1.0 + self.jitter * (2.0 * rng.uniform() - 1.0)
            log_uniform = np.log1p(-rng.uniform())
            before = system.energy(here, momentum)
            step_size = (self.step_size * scale)[:, None]
            steps = (step_size, self.n_steps, self.solver)
            end = integrate(system, here, momentum, *steps, check=self.takes_back)
            after = np.full(n_chains, np.inf)
            if end.solved.any():
                after = system.energy(end.geometry, end.momentum)
            error = np.where(end.solved, after - before, np.inf)
        diverging = end.solved & ~np.isfinite(error)
        log_accept = np.minimum(np.where(np.isfinite(error), -error, -np.inf), 0.0)
        accepted = log_uniform < log_accept
        info = Info(
            accepted,
            np.exp(log_accept),
            error,
            diverging,
            system.n_passes,
            system.n_factorised,
            ~end.solved,
        )
        return select(accepted, self._state(end.geometry), state), info

    def irreversible(self, rng: ChainRandom, target: Target, position: np.ndarray) -> float:
        """Share of trajectories from ``position`` (chain, d) that do not lead back when reversed.

        One that is solved, unchecked, and whose way back with the momentum reversed ends further than
        RETURNED (largest coordinate) from its start: what makes accept or reject inexact. nan if none
        is solved.
        """
        n_chains = len(position)
        system, slots = self.system(target, n_chains), np.arange(n_chains)
        step_size = np.full((n_chains, 1), self.step_size, dtype=float)
        steps = (step_size, self.n_steps, self.solver)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            here = system.geometry(position, slots)
            there = integrate(system, here, system.draw_momentum(rng, here), *steps, check=False)
            start = system.geometry(there.geometry.position, slots)
            back = integrate(system, start, -there.momentum, *steps, check=False)
        if not there.solved.any():
            return np.nan
        apart = np.abs(back.geometry.position - position).max(axis=1)
        lost = ~back.solved | ~(apart < RETURNED)
        return float(lost[there.solved].mean())

    @staticmethod
    def _state(geometry: Geometry) -> State:
        nothing = np.empty((len(geometry.position), 0))
        return State(
            geometry.position,
            geometry.predictor,
            geometry.log_likelihood,
            geometry.residual,
            nothing,
        )
