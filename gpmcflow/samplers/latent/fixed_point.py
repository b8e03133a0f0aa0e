"""Fixed points of a batch of equations, by iteration with Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.samplers.protocol import require_share

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
