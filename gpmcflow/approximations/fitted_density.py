"""A Student-t density fitted to pilot draws of theta, frozen, and drawn from exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from gpmcflow.approximations.stand_ins import array_text
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.log_density import LogDensity

EM_ROUNDS = 200
EM_TOLERANCE = 1e-10
LARGEST_DECREMENT = 0.1  # squared distance to the mode, in standard deviations
LEAST_DRAWS = 5  # times the number of coordinates


class FittedStudent(LogDensity):
    """Multivariate Student-t with location m, scale matrix LL' and v degrees of freedom, normalised.

    log p(theta) = log G((v + d) / 2) - log G(v / 2) - (d / 2) log(v pi) - log det L
    - (v + d) / 2 log(1 + |L^-1 (theta - m)|^2 / v). Its tails must be heavier than those of the
    density it stands in for, or a chain sticks where that one is relatively larger: Gaussian priors on
    theta see to that. What a pilot missed (another mode) it misses, too.
    """

    def __init__(
        self, location: np.ndarray, scale_factor: np.ndarray, dof: float, names: Sequence[str]
    ) -> None:
        self.location = np.array(location, dtype=np.float64)
        self.scale_factor = np.array(scale_factor, dtype=np.float64)
        self.dof, self.names = float(dof), tuple(names)
        d = len(self.names)
        if self.location.shape != (d,) or self.scale_factor.shape != (d, d) or not self.dof > 0:
            raise InputError(
                f"FittedStudent: location {self.location.shape}, scale {self.scale_factor.shape}, "
                f"dof {dof!r}; allowed: ({d},), ({d}, {d}) and a positive number"
            )
        self._inverse = solve_triangular(self.scale_factor, np.eye(d), lower=True)
        self._constant = (
            math.lgamma((self.dof + d) / 2)
            - math.lgamma(self.dof / 2)
            - d / 2 * math.log(self.dof * math.pi)
            - float(np.log(np.diag(self.scale_factor)).sum())
        )

    @classmethod
    def fit(
        cls,
        draws: np.ndarray,
        names: Sequence[str],
        dof: float = 6.0,
        weights: np.ndarray | None = None,
    ) -> FittedStudent:
        """Maximum likelihood location and scale for draws (draw, d) at fixed degrees of freedom (EM).

        ``weights`` (draw,) are importance weights, of any scale. Raises `InputError` for draws that are
        not finite, fewer than 5 d different ones (or as small an effective number), or that do not
        span all directions.
        """
        draws = np.asarray(draws, dtype=np.float64)
        d = len(names)
        if draws.ndim != 2 or draws.shape[1] != d or not np.all(np.isfinite(draws)):
            raise InputError(
                f"FittedStudent.fit: draws of shape {draws.shape}; allowed: finite (draw, {d})"
            )
        share = np.ones(len(draws)) if weights is None else np.asarray(weights, dtype=np.float64)
        share = share / share.sum()
        n_different = len(np.unique(draws, axis=0)) if weights is None else 1.0 / (share**2).sum()
        if not n_different >= LEAST_DRAWS * d:
            raise InputError(
                f"FittedStudent.fit: {n_different:.0f} different draws for {d} coordinates; needs "
                f"{LEAST_DRAWS * d} or more; run a longer pilot"
            )
        location = share @ draws
        scatter = ((draws - location) * share[:, None]).T @ (draws - location)
        if np.linalg.matrix_rank(scatter, hermitian=True) < d:
            raise InputError("FittedStudent.fit: the draws lie in a plane; run a longer pilot")
        for _ in range(EM_ROUNDS):
            residual = draws - location
            distance = (residual * np.linalg.solve(scatter, residual.T).T).sum(1)
            weight = share * (dof + d) / (dof + distance)
            location = weight @ draws / weight.sum()
            residual = draws - location
            before, scatter = scatter, (residual * weight[:, None]).T @ residual
            if np.abs(scatter - before).max() <= EM_TOLERANCE * np.abs(scatter).max():
                break
        return cls(location, cholesky(scatter, lower=True), dof, names)

    @classmethod
    def at_mode(
        cls, density: LogDensity, start: np.ndarray, dof: float = 6.0, step: float = 1e-3
    ) -> FittedStudent:
        """Location at the mode of a density with a gradient, scale from the curvature there.

        The mode is found by BFGS from ``start`` and the Hessian by central differences of the gradient,
        which costs some tens of gradients, counted by the density. Directions in which the density is
        flat or bends up get the scale of curvature 1. What it lacks (skewness, other modes) a fit to
        draws may mend. Raises `NumericalError` where no mode is found.
        """

        def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = density.value_and_gradient(theta)
            return -value, -gradient

        with np.errstate(all="ignore"):  # a step too far is inf, and taken back
            mode = minimize(negative, np.asarray(start, dtype=np.float64), jac=True, method="BFGS",
                             options={"gtol": 1e-3})  # fmt: skip
        steps = step * np.eye(density.dim)
        rows = [(negative(mode.x + h)[1] - negative(mode.x - h)[1]) / (2.0 * step) for h in steps]
        values, vectors = np.linalg.eigh(0.5 * (np.array(rows) + np.array(rows).T))
        values = np.where(values > 1e-6, values, 1.0)
        scale = (vectors / values) @ vectors.T
        if not np.isfinite(mode.fun) or not mode.jac @ scale @ mode.jac < LARGEST_DECREMENT:
            raise NumericalError(
                f"FittedStudent.at_mode: no mode found from {np.asarray(start).tolist()} "
                f"({mode.message}); move the start"
            )
        return cls(mode.x, cholesky(scale, lower=True), dof, density.names)

    def __repr__(self) -> str:
        fitted = array_text(location=self.location, scale=self.scale_factor)
        return f"FittedStudent(dof={self.dof}, fit={fitted}, names={self.names})"

    def evaluate(self, theta: np.ndarray) -> float:
        """Log density at theta (d,)."""
        z = self._inverse @ (theta - self.location)
        return self._constant - 0.5 * (self.dof + self.dim) * math.log1p(float(z @ z) / self.dof)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """An independent draw theta (d,) and its log density, counted as one call."""
        z = rng.standard_normal(self.dim) / math.sqrt(rng.chisquare(self.dof) / self.dof)
        theta = self.location + self.scale_factor @ z
        return theta, self(theta)

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Independent draws theta (n, d), and their log densities (n,)."""
        thetas, values = zip(*(self.draw(rng) for _ in range(n)), strict=True)
        return np.stack(thetas), np.array(values)
