"""The generalised leapfrog method for Hamiltonians with a position-dependent metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.samplers.protocol import require_share

# Fixed points of a batch of equations, by iteration with Anderson acceleration.

Update = Callable[[np.ndarray, np.ndarray], np.ndarray]

RUNAWAY = 1e6  # a change this much larger than the start means that the iteration diverges
MEMORY = 2  # residuals kept beside the last one


@dataclass(frozen=True)
class FixedPointSolver:
    """Solves x = g(x) for each row of a batch.

    Plain iteration x <- g(x), accelerated by Anderson's method with the last three residuals: the
    combination of past values whose residual is least in the least-squares sense. A row is solved
    when max |g(x) - x| < ``tolerance`` (1 + max |g(x)|), and given up after ``max_iterations``, for
    values that are not finite and for changes that run away. With ``fixed_iterations`` > 0 there
    are exactly so many plain iterations and no test: the usual scheme of the literature, which
    leaves a Hamiltonian integrator reversible only approximately.

    Source: Anderson (1965); Walker & Ni (2011), SIAM J. Numer. Anal. 49, 1715.
    """

    tolerance: float = 1e-8
    max_iterations: int = 100
    fixed_iterations: int = 0

    def __post_init__(self) -> None:
        require_share("fixed point", "tolerance", self.tolerance)
        for name, least in (("max_iterations", 1), ("fixed_iterations", 0)):
            value = getattr(self, name)
            if value != int(value) or value < least:
                raise InputError(
                    f"fixed point: {name} is {value!r}; allowed: whole numbers from {least}"
                )

    def __call__(
        self, update: Update, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Solutions (chain, k), iterations spent (chain,) and whether solved (chain,).

        ``update(values, rows)`` is g at values (m, k) of the chains ``rows`` (m,).
        """
        if self.fixed_iterations:
            values, rows = start, np.arange(len(start))
            for _ in range(self.fixed_iterations):
                values = update(values, rows)
            counts = np.full(len(start), self.fixed_iterations)
            return values, counts, np.isfinite(values).all(axis=1)
        return self._accelerated(update, start)

    def _accelerated(
        self, update: Update, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        solution, solved = start.copy(), np.zeros(len(start), bool)
        counts = np.zeros(len(start), int)
        rows, values = np.arange(len(start)), start
        images: list[np.ndarray] = []
        residuals: list[np.ndarray] = []
        limit = RUNAWAY * (1.0 + np.abs(start).max(axis=1))
        for _ in range(self.max_iterations):
            image = update(values, rows)
            residual = image - values
            counts[rows] += 1
            change = np.abs(residual).max(axis=1)
            done = change < self.tolerance * (1.0 + np.abs(image).max(axis=1))
            solution[rows[done]] = image[done]
            solved[rows[done]] = True
            going = ~done & (change < limit[rows])  # nan is not going either
            if not going.any():
                break
            images = [*images[-MEMORY:], image]
            residuals = [*residuals[-MEMORY:], residual]
            if not going.all():
                rows = rows[going]
                images, residuals = ([a[going] for a in history] for history in (images, residuals))
            values = _combine(images, residuals)
        return solution, counts, solved


def _combine(images: list[np.ndarray], residuals: list[np.ndarray]) -> np.ndarray:
    """Last image less the part of it that the past residuals explain."""
    image, residual = images[-1], residuals[-1]
    if len(images) == 1:
        return image
    steps = np.stack([residual - old for old in residuals[:-1]], axis=1)  # (chain, memory, k)
    gram = np.einsum("pik,pjk->pij", steps, steps)
    right = np.einsum("pik,pk->pi", steps, residual)
    diagonal = np.einsum("pii->pi", gram)
    diagonal += 1e-14 * diagonal.sum(axis=1, keepdims=True) + 1e-300  # parallel steps
    weights = np.linalg.solve(gram, right[:, :, None])
    return image - sum(weights[:, j] * (image - old) for j, old in enumerate(images[:-1]))


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
