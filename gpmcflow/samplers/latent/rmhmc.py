"""Riemannian-manifold Hamiltonian Monte Carlo: the metric follows the curvature of the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.curvature_metric import CurvatureSystem, Geometry
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, integrate
from gpmcflow.samplers.latent.hamiltonian import require_steps, select
from gpmcflow.samplers.latent.protocol import (
    ENERGY,
    STATISTICS,
    Info,
    LatentSampler,
    State,
    kept_energy,
)
from gpmcflow.samplers.protocol import ChainRandom, require_share

RETURNED = 1e-6  # of the start: largest difference of a coordinate, in prior standard deviations


@dataclass(frozen=True)
class RMHMC(LatentSampler):
    """Riemannian-manifold Hamiltonian Monte Carlo for latents: the metric follows the curvature.

    Its metric is the negative Hessian of the tempered log density on the latents, in the prior's coordinates,

        G(f) = K^(-1) + diag(beta w(f) + (1 - beta) tau),

    w the curvature of the likelihood, in expectation where that is not log-concave, and trajectories follow
    it by the generalised leapfrog method. A transition draws p ~ N(0, G), takes ``n_steps`` of ``step_size``
    times a uniform number within 1 +- ``jitter``, and is accepted with probability min(1, exp(H - H')). Where
    an implicit equation is not solved, or a step taken back does not return, the whole transition is rejected
    and told as ``unsolved``.

    One step costs 2/3 n^3 flops a chain for n cases (or d^3, where the d coordinates are fewer), and products
    with n^2: a step of a fixed-metric sampler has two products alone.

    Source: Paquet & Fraccaro (2018); Girolami & Calderhead (2011); section 4.1 of the latter for the sampler.

    Attributes
    ----------
    step_size:
        epsilon > 0, in units of the metric, of standard deviations of the posterior nearby; inside the
        package also (chain,), one for each chain of a batch.
    n_steps:
        Steps of a trajectory, 1 or more.
    jitter:
        Each transition multiplies the step size by a uniform number within 1 +- jitter, since a fixed length
        can be close to a period of the orbit; from 0 to below 1.
    tolerance:
        Largest relative change in which an implicit equation counts as solved, above 0 and below 1.
    max_iterations:
        Most iterations for either equation.
    fixed_iters:
        k > 0 is the scheme of the literature instead: k plain iterations for either equation, a factorisation
        at each of the second's, and no test; reversible, and so exact, only as far as they converge.

    Raises
    ------
    InputError:
        For settings out of range, and, when it is used, a Gaussian with a site of negative precision.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> draws = gp.sample(model, gp.RMHMC(step_size=0.5, n_steps=3), n_chains=1, n_draws=20, n_warmup=5)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.7)
    True
    """

    statistics = STATISTICS | ENERGY
    step_size: float | np.ndarray = 0.2
    n_steps: int = 5
    jitter: float = 0.1
    tolerance: float = 1e-8
    max_iterations: int = 100
    fixed_iters: int = 0

    def __post_init__(self) -> None:
        require_steps("RMHMC", self.step_size, self.n_steps)
        require_share("RMHMC", "jitter", self.jitter, zero=True)
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
            kept_energy(accepted, before, error),
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
