"""GP regression with its latents integrated out: log N(y; c, K + D) and its gradient, in buffers.

With C = K + D = L L', D the noise variances, a = C^-1 (y - c): log N = -|L^-1 (y - c)|^2 / 2 - log|L| - n/2
log 2 pi, and by K the derivative is S = (a a' - C^-1) / 2, by theta adjoint(S), by c sum a, by log noise_sd
2 sigma^2 tr S.

Source: Rasmussen & Williams (2006), eqs. 5.8-5.9.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution.digest import text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import Evaluation, FrozenSites, JointDensity, impossible
from gpmcflow.models.log_density import LogDensity
from gpmcflow.numerics.lapack import (
    LOWER,
    POTRI,
    ROUTINES,
    factorise_lower,
    in_place,
    triangular_solve,
)

LARGEST = 300.0  # |coordinate| above which squares overflow: such a point has no density
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _scaled_sum(E, factor, constant, noise, out):
    """factor E + constant + diag(noise), lower triangle."""
    n = out.shape[0]
    for j in range(n):
        column, given = out[j, j:], E[j, j:]
        for i in range(n - j):
            column[i] = factor * given[i] + constant
        column[0] += noise[j]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _half_difference(inverse, alpha):
    """S = (alpha alpha' - C^-1) / 2 in the place of C^-1, lower triangle; its trace, and the sum of S."""
    trace = total = 0.0
    for j in range(alpha.size):
        column, below, at = inverse[j, j:], alpha[j:], alpha[j]
        subtotal = 0.0
        for i in range(column.size):
            column[i] = 0.5 * (at * below[i] - column[i])
            subtotal += column[i]
        trace += column[0]
        total += 2.0 * subtotal - column[0]
    return trace, total


class ScaleStatistics(NamedTuple):
    """y'A^-1 y, 1'A^-1 y, 1'A^-1 1, log det A of A = E + g I; see `MarginalLikelihood.scale_statistics`."""

    squares: float
    cross: float
    ones: float
    log_det: float


class MarginalLikelihood:
    """log N(y; c, K + D) of a `GPModel` with Gaussian noise, at coordinates ``full``, and its slopes.

    Where K = s^2 E + constants, E is kept while only s, constants, mean and noise move: they cost a
    factorisation and no exponential. A covariance that is not positive definite in floating point is -inf.
    """

    def __init__(self, model: GPModel) -> None:
        if not model.likelihood.conjugate:
            raise InputError(
                f"marginal likelihood: the {model.likelihood.name} likelihood; allowed: gaussian, whose "
                "latents can be integrated out; take expectation propagation for others"
            )
        self.model, n = model, model.n_cases
        self._inner, self._scale, self._constants, self._buffers = model.scaled_covariance()
        self._E, self._C = np.empty((n, n)), np.empty((n, n))
        self._noise, self._key = np.empty(n), b""
        fixed = model.noise_place is None
        self._known_noise = model.likelihood.noise_variances(n) if fixed else None

    def factorise(self, full: np.ndarray) -> float:
        """Factor of C into the work space; log|L|, nan where it fails."""
        if not np.all(np.abs(full) < LARGEST):
            return np.nan
        unit = full.copy()
        if self._scale is not None:
            unit[self._scale] = 0.0
        key = unit[self._inner].tobytes()
        if key != self._key:
            self._unit = unit
            self._buffers.fill(unit, self._E)
            self._key = key
        model = self.model
        constant = float(np.exp(2.0 * full[self._constants]).sum())
        place = model.noise_place
        known = self._known_noise if place is None else np.exp(2.0 * full[place])
        self._noise[:] = known + model.epsilon * constant
        self._factor = 1.0 if self._scale is None else float(np.exp(2.0 * full[self._scale]))
        _scaled_sum(self._E, self._factor, constant, self._noise, self._C)
        return factorise_lower(ROUTINES, self._C)

    def solve(self, v: np.ndarray, transposed: bool = False) -> np.ndarray:
        """L^-1 v, or L^-T v, of what was factorised last."""
        out = np.array(v, dtype=np.float64)
        triangular_solve(ROUTINES, self._C, transposed, out)
        return out

    def value(self, full: np.ndarray) -> float:
        """log N(y; c, C); -inf where C is not positive definite."""
        log_det = self.factorise(full)
        if not np.isfinite(log_det):
            return -np.inf
        u = self.solve(self.model.y - self.model.mean_at(full))
        value = -0.5 * float(u @ u) - log_det - self.model.n_cases * _HALF_LOG_2PI
        return value if np.isfinite(value) else -np.inf

    def value_and_slopes(self, full: np.ndarray) -> tuple[float, np.ndarray]:
        """log N(y; c, C) and its derivatives by ``full`` (size,), for about three times the cost."""
        model, value = self.model, self.value(full)
        if value == -np.inf:
            return value, np.zeros(len(full))
        alpha = self.solve(self.solve(model.y - model.mean_at(full)), transposed=True)
        in_place(ROUTINES[POTRI], LOWER, self._C)
        trace, total = _half_difference(self._C, alpha)
        slopes = self._factor * self._buffers.adjoint(self._unit, self._C, K=self._E)
        variances = np.exp(2.0 * full[self._constants])
        np.add.at(slopes, self._constants, 2.0 * variances * (total + model.epsilon * trace))
        model.add_noise_slopes(slopes, full, float(alpha.sum()), trace)
        return value, slopes

    def scale_statistics(self, ratio: float, full: np.ndarray) -> ScaleStatistics | None:
        """Statistics of A = E + exp(2 ratio) I, ratio = log noise_sd - log s; None where it fails.

        With them the log likelihood at any overall scale s costs O(1), k = c^2 / s^2 the constant's share:
        log det C = n log s^2 + log det A + log(1 + k 1'A^-1 1),
        y'C^-1 y = (y'A^-1 y - k (1'A^-1 y)^2 / (1 + k 1'A^-1 1)) / s^2.
        """
        apart = full.copy()
        apart[self._scale], apart[self.model.noise_place] = 0.0, ratio
        apart[self._constants] = -LARGEST + 1.0
        log_det = self.factorise(apart)
        if not np.isfinite(log_det):
            return None
        u, v = self.solve(self.model.y), self.solve(np.ones(self.model.n_cases))
        return ScaleStatistics(float(u @ u), float(u @ v), float(v @ v), 2.0 * log_det)

    def draw_latents(self, rng: np.random.Generator, full: np.ndarray) -> np.ndarray:
        """An exact draw of f (n,) given y and ``full``: f_0 + K C^-1 (y - c - f_0 - noise), f_0 ~ N(0, K)."""
        model = self.model
        L = model.cholesky(full)
        f = L @ rng.standard_normal(model.n_cases)
        noise = np.sqrt(model.likelihood_at(full).noise_variances(model.n_cases))
        gap = model.y - model.mean_at(full) - f - noise * rng.standard_normal(model.n_cases)
        self.factorise(full)
        return f + L @ (L.T @ self.solve(self.solve(gap), transposed=True))


class RegressionDensity(LogDensity):
    """log N(y; c, K + D) + log prior, as a counted function of theta (d,)."""

    def __init__(self, model: GPModel) -> None:
        self.model, self.names = model, model.names
        self._work: MarginalLikelihood | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.model.n_cases}, names={self.names})"

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_work": None}  # a workspace is large and soon made

    def digest(self) -> str:
        """SHA-256 of the kind of density and its model."""
        return text_digest(type(self).__name__, self.model.digest())

    def fresh(self) -> RegressionDensity:
        """The same function with its own counters and buffers."""
        other = super().fresh()
        other._work = None
        return other

    @property
    def work(self) -> MarginalLikelihood:
        """Its work space."""
        if self._work is None:
            self._work = MarginalLikelihood(self.model)
        return self._work

    def log_prior(self, theta: np.ndarray) -> float:
        """Log prior of theta (d,)."""
        return self.model.log_prior(theta)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Exact log N(y; c, C(theta)), not counted; -inf where C is not positive definite."""
        return self.work.value(self.model.full(theta))

    def evaluate(self, theta: np.ndarray) -> float:
        """Log posterior at theta, up to a constant."""
        return self.log_likelihood(theta) + self.model.log_prior(theta)

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log posterior and its gradient (d,)."""
        value, slopes = self.work.value_and_slopes(self.model.full(theta))
        if value == -np.inf:
            return value, np.zeros(self.dim)
        prior, gradient = (
            self.model.log_prior(theta),
            self.model.parameters.log_prior_gradient(theta),
        )
        return value + prior, slopes[self.model.free] + gradient


def density_of(model: GPModel, sites: FrozenSites) -> JointDensity | CollapsedDensity:
    """Density over hyperparameters and latents; over hyperparameters alone where noise is Gaussian."""
    return (CollapsedDensity if model.likelihood.conjugate else JointDensity)(model, sites)


class CollapsedDensity:
    """As `JointDensity`, for Gaussian noise: latents are integrated out, and there is no z."""

    n_z = 0

    def __init__(self, model: GPModel, sites: FrozenSites | None = None) -> None:
        self.model, self.coordinates, self.sites = model, model.parameters.normal, sites
        self._work = MarginalLikelihood(model)

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,)."""
        theta, slopes = self.coordinates.theta(x)
        full = self.model.full(theta)
        value, by_full = self._work.value_and_slopes(full)
        if value == -np.inf:
            return impossible(self.model, 0, 0)
        none = np.empty(0)
        return Evaluation(value, by_full[self.model.free] * slopes, none, theta, none, value, value)

    def draw_latents(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """An exact draw of f (n,) given theta."""
        return self._work.draw_latents(rng, self.model.full(theta))
