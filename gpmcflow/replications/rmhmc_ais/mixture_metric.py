"""Hamiltonians on a mixture of Gaussians, with a metric that is not a Hessian, and with none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.replications.rmhmc_ais.gaussian_mixture import GaussianMixture
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, Solved, integrate


class Geometry(NamedTuple):
    """What depends on the position alone, one row a chain."""

    position: np.ndarray  #: x (chain, d)
    log_density: np.ndarray  #: (chain,)
    explicit: np.ndarray  #: -grad log p + tr(G^{-1} dG) / 2 (chain, d)
    metric: np.ndarray  #: G (chain, d, d)
    inverse: np.ndarray  #: G^{-1} (chain, d, d)
    slopes: np.ndarray  #: dG / dx_i in [:, i] (chain, d, d, d)
    log_det: np.ndarray  #: log |G| (chain,)
    slot: np.ndarray  #: number of the chain (chain,)


class Kick(NamedTuple):
    """Momentum after half a step and its velocity at the old position."""

    momentum: np.ndarray  #: (chain, d)
    velocity: np.ndarray  #: (chain, d)


class Arrival(NamedTuple):
    """New position."""

    position: np.ndarray  #: (chain, d)


class MixtureSystem:
    """H = -log p(x) + log |G(x)| / 2 + p' G(x)^(-1) p / 2 with G(x) = sum_k r_k(x) P_k.

    A mixture is not log-concave, so that its Hessian is no metric; the precisions P_k of the
    components weighted by their responsibilities r_k(x) are. With v = G^(-1) p,

        dH/dx_i = -d log p / dx_i + tr(G^(-1) dG/dx_i) / 2 - v' (dG/dx_i) v / 2,
        dG/dx_i = sum_k (dr_k/dx_i) P_k,   grad r_k = r_k (-P_k (x - mu_k) - grad log p).

    The implicit equations are solved as they stand, for p' and for x'. ``flat`` puts G = I in place
    of that metric: then the generalised leapfrog method is the ordinary one and the sampler HMC.
    """

    def __init__(self, mixture: GaussianMixture, flat: bool = False) -> None:
        self.mixture, self.flat = mixture, flat

    def geometry(self, position: np.ndarray, slot: np.ndarray) -> Geometry:
        """Density, metric and its derivatives at positions (chain, d)."""
        log_density, r, pull = self.mixture.evaluate(position)
        gradient = -np.einsum("nk,nki->ni", r, pull)
        n, d = position.shape
        if self.flat:
            one, none = np.broadcast_to(np.eye(d), (n, d, d)), np.zeros((n, d, d, d))
            return Geometry(position, log_density, -gradient, one, one, none, np.zeros(n), slot)
        metric = np.einsum("nk,kij->nij", r, self.mixture.precisions)
        r_slopes = r[:, :, None] * (-pull - gradient[:, None, :])
        slopes = np.einsum("nki,kab->niab", r_slopes, self.mixture.precisions)
        inverse = np.linalg.inv(metric)
        trace = np.einsum("nab,niba->ni", inverse, slopes)
        log_det = np.linalg.slogdet(metric)[1]
        explicit = 0.5 * trace - gradient
        return Geometry(position, log_density, explicit, metric, inverse, slopes, log_det, slot)

    def draw_momentum(self, normals: np.ndarray, geometry: Geometry) -> np.ndarray:
        """P ~ N(0, G) from standard normals (chain, d)."""
        return np.einsum("nij,nj->ni", np.linalg.cholesky(geometry.metric), normals)

    def energy(self, geometry: Geometry, momentum: np.ndarray) -> np.ndarray:
        """H (chain,), without constants."""
        kinetic = 0.5 * np.einsum("ni,nij,nj->n", momentum, geometry.inverse, momentum)
        return kinetic + 0.5 * geometry.log_det - geometry.log_density

    def force(self, geometry: Geometry, momentum: np.ndarray) -> np.ndarray:
        """dH/dx (chain, d)."""
        v = np.einsum("nij,nj->ni", geometry.inverse, momentum)
        return geometry.explicit - 0.5 * np.einsum("na,niab,nb->ni", v, geometry.slopes, v)

    def half_kick(
        self, geometry: Geometry, momentum: np.ndarray, half: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """P' = p - half dH/dx(x, p')."""

        def update(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            here = Geometry(*(field[rows] for field in geometry))
            return momentum[rows] - half[rows] * self.force(here, values)

        kicked, iterations, solved = solver(update, momentum)
        velocity = np.einsum("nij,nj->ni", geometry.inverse, kicked)
        return Solved(Kick(kicked, velocity), iterations, solved)

    def drift(
        self, geometry: Geometry, kick: Kick, step_size: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """X' = x + step_size [G(x)^(-1) p' + G(x')^(-1) p'] / 2."""
        half = 0.5 * step_size
        known = geometry.position + half * kick.velocity

        def update(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return known[rows] + half[rows] * self._velocity(values, kick.momentum[rows])

        start = known + half * kick.velocity
        position, iterations, solved = solver(update, start)
        return Solved(Arrival(position), iterations, solved)

    def _velocity(self, position: np.ndarray, momentum: np.ndarray) -> np.ndarray:
        """G(x)^(-1) p."""
        if self.flat:
            return momentum
        r = self.mixture.responsibilities(position)
        metric = np.einsum("nk,kij->nij", r, self.mixture.precisions)
        return np.linalg.solve(metric, momentum[:, :, None])[:, :, 0]

    def end_kick(
        self, geometry: Geometry, kick: Kick, arrival: Arrival, half: np.ndarray
    ) -> np.ndarray:
        """Explicit half kick at the new position."""
        return kick.momentum - half * self.force(geometry, kick.momentum)


class Travel(NamedTuple):
    """Trajectories of a batch, at their start and after each step."""

    position: np.ndarray  #: (chain, n_steps + 1, d)
    momentum: np.ndarray  #: (chain, n_steps + 1, d)
    acceptance_rate: np.ndarray  #: were that the end, (chain, n_steps + 1); zero once unsolved
    solved: np.ndarray  #: (chain, n_steps + 1) bool


def travel(
    system: MixtureSystem,
    position: np.ndarray,
    normals: np.ndarray,
    step_size: float,
    n_steps: int,
    solver: FixedPointSolver,
) -> Travel:
    """Trajectories from positions (chain, d) with momenta made of standard normals (chain, d)."""
    here = system.geometry(position, np.arange(len(position)))
    momentum = system.draw_momentum(normals, here)
    before, steps = system.energy(here, momentum), np.full((len(position), 1), step_size)
    alive = np.ones(len(position), bool)
    states = [(position, momentum, np.ones(len(position)), alive)]
    for _ in range(n_steps):
        with np.errstate(over="ignore", invalid="ignore"):
            end = integrate(system, here, momentum, steps, 1, solver)
            error = system.energy(end.geometry, end.momentum) - before
        here, momentum, alive = end.geometry, end.momentum, alive & end.solved
        usable = alive & np.isfinite(error)
        rate = np.where(usable, np.exp(-np.maximum(np.where(usable, error, 0.0), 0.0)), 0.0)
        states.append((here.position, momentum, rate, alive))
    return Travel(*(np.stack(column, axis=1) for column in zip(*states, strict=True)))
