"""The generalised leapfrog method for Hamiltonians with a position-dependent metric."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from gpmcflow.samplers.latent.fixed_point import FixedPointSolver

RETURNED = 100.0  # solver tolerances between a start and where the reversed step ends


class Solved(NamedTuple):
    """What an implicit equation gave, one row a chain."""

    values: Any  #: the system's own record of the solution
    iterations: np.ndarray  #: (chain,)
    solved: np.ndarray  #: (chain,) bool


class RiemannianSystem(Protocol):
    """H(x, p) = U(x) + log |G(x)| / 2 + p' G(x)^(-1) p / 2, a batch of chains at a time.

    A ``geometry`` is all that depends on the positions alone, a NamedTuple of arrays with the chain
    axis first, ``position`` and ``slot`` among them; a ``kick`` is the ``momentum`` after half a step
    with its velocity there.
    """

    def geometry(self, position: np.ndarray, slot: np.ndarray) -> Any:
        """Potential, metric and their derivatives; ``slot`` says where a chain's own matrices go."""

    def half_kick(
        self, geometry: Any, momentum: np.ndarray, half: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """Solve p' = p - half dH/dx(x, p') for the kick, half (chain, 1)."""

    def drift(
        self, geometry: Any, kick: Any, step_size: np.ndarray, solver: FixedPointSolver
    ) -> Solved:
        """Solve x' = x + step_size [dH/dp(x, p') + dH/dp(x', p')] / 2 for (x', velocity at x')."""

    def end_kick(self, geometry: Any, kick: Any, arrival: Any, half: np.ndarray) -> np.ndarray:
        """P' - half dH/dx(x', p'): the explicit half."""

    def energy(self, geometry: Any, momentum: np.ndarray) -> np.ndarray:
        """H (chain,)."""


class Trajectory(NamedTuple):
    """End of a trajectory; rows of chains whose equations were not solved are those before it."""

    geometry: Any
    momentum: np.ndarray
    solved: np.ndarray  #: (chain,) bool
    kick_iterations: np.ndarray  #: (chain,) summed over steps, those of the check not among them
    drift_iterations: np.ndarray  #: (chain,)
    steps: np.ndarray  #: (chain,) steps completed


def integrate(
    system: RiemannianSystem,
    geometry: Any,
    momentum: np.ndarray,
    step_size: np.ndarray,
    n_steps: int,
    solver: FixedPointSolver,
    check: bool = True,
) -> Trajectory:
    """Take n_steps of size ``step_size`` (chain, 1), each an implicit half kick, drift, half kick.

        p' = p - eps/2 dH/dx(x, p')
        x' = x + eps/2 [dH/dp(x, p') + dH/dp(x', p')]
        p'' = p' - eps/2 dH/dx(x', p')

    Symmetric, so reversible, and volume preserving where both equations are solved; of second order.
    A chain whose equations are not solved stops there, and its proposal has to be rejected.

    At large steps equations can have several solutions, and the same solver can miss, on the way
    back, the one it came from: then accept or reject is not exact. With ``check`` each step is also
    taken back, by the same solver and the metric at hand (no further factorisation), and one that
    does not return counts as not solved. Source: Leimkuhler & Reich (2004), section 6.3.2; Girolami &
    Calderhead (2011), section 3; Zappa, Holmes-Cerfon & Goodman (2018) for the check.
    """
    n = len(momentum)
    steps = np.zeros(n, int)
    kick_iterations, drift_iterations = np.zeros(n, int), np.zeros(n, int)
    rows, here, momentum_now, step_now = np.arange(n), geometry, momentum, step_size
    for _ in range(n_steps):
        kick = system.half_kick(here, momentum_now, 0.5 * step_now, solver)
        kick_iterations[rows] += kick.iterations
        arrival = system.drift(here, kick.values, step_now, solver)
        drift_iterations[rows] += arrival.iterations
        good = kick.solved & arrival.solved
        here, kicked, arrived = (take(r, good) for r in (here, kick.values, arrival.values))
        rows, step_now = rows[good], step_now[good]
        if not len(rows):
            break
        start, here = here.position, system.geometry(arrived.position, here.slot)
        momentum_now = system.end_kick(here, kicked, arrived, 0.5 * step_now)
        if check:
            good = _returns(system, here, momentum_now, step_now, solver, start, kicked.momentum)
            here, rows, step_now = take(here, good), rows[good], step_now[good]
            momentum_now = momentum_now[good]
            if not len(rows):
                break
        steps[rows] += 1
    solved = np.zeros(n, bool)
    solved[rows] = True
    if not solved.all():
        ends, momentum = [field.copy() for field in geometry], momentum.copy()
        if len(rows):
            momentum[rows] = momentum_now
            for whole, part in zip(ends, here, strict=True):
                whole[rows] = part
        here, momentum_now = type(geometry)(*ends), momentum
    return Trajectory(here, momentum_now, solved, kick_iterations, drift_iterations, steps)


def _returns(
    system: RiemannianSystem,
    geometry: Any,
    momentum: np.ndarray,
    step_size: np.ndarray,
    solver: FixedPointSolver,
    start: np.ndarray,
    kicked: np.ndarray,
) -> np.ndarray:
    """Whether a step from here with the momentum reversed ends where this one began, (chain,)."""
    kick = system.half_kick(geometry, -momentum, 0.5 * step_size, solver)
    arrival = system.drift(geometry, kick.values, step_size, solver)
    limit = RETURNED * solver.tolerance
    return (
        kick.solved
        & arrival.solved
        & _alike(-kick.values.momentum, kicked, limit)
        & _alike(arrival.values.position, start, limit)
    )


def _alike(a: np.ndarray, b: np.ndarray, limit: float) -> np.ndarray:
    """Whether rows are equal up to ``limit`` times (1 + their largest entry), (chain,)."""
    return np.abs(a - b).max(axis=1) < limit * (1.0 + np.abs(b).max(axis=1))


def take(record: Any, rows: np.ndarray) -> Any:
    """Rows of a NamedTuple of arrays; ``rows`` is a mask, and all of them are the record itself."""
    return record if rows.all() else type(record)(*(field[rows] for field in record))
