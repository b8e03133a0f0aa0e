"""Probit likelihood: p(y | eta) = Phi(y eta), y in {-1, +1}."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numba
import numpy as np
from scipy.special import log_ndtr

from gpmcflow.likelihoods.base import CompiledValue, flat_rows
from gpmcflow.likelihoods.labels import BinaryLikelihood
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential, sum_of_logs
from gpmcflow.numerics.normal_tail import (
    HALF_LOG_2PI,
    INV_SQRT_2PI,
    SQRT_2_OVER_PI,
    SQRT_HALF,
    erfcx,
)


@numba.njit(inline="always", error_model="numpy")
def _factor_and_slope(z: float) -> tuple[float, float]:  # Phi(z), times exp(z^2 / 2) below 0
    gauss, e = exponential(-0.5 * z * z), erfcx(abs(z) * SQRT_HALF)
    tail = 0.5 * gauss * e
    below, above = SQRT_2_OVER_PI / e, INV_SQRT_2PI * gauss / (1.0 - tail)
    return (0.5 * e, below) if z < 0.0 else (1.0 - tail, above)


@compiled(fastmath={"contract"})
def _slopes(eta, y, slope):  # y lambda(y eta)
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            slope[p, i] = y[i] * _factor_and_slope(y[i] * eta[p, i])[1]


@compiled(fastmath={"contract"})
def _values_and_slopes(eta, y, value, slope):
    factors = np.empty(eta.shape[1])  # log1p would be exact for large z, and much slower
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            factors[i], rate = _factor_and_slope(y[i] * eta[p, i])
            slope[p, i] = y[i] * rate
        squares = 0.0
        for i in range(eta.shape[1]):
            z = min(y[i] * eta[p, i], 0.0)
            squares += z * z
        value[p] = sum_of_logs(factors) - 0.5 * squares


def _value(head, f, y, constants, phi):
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z = y[i] * (f[i] + offset)
        half = 0.5 * erfcx(abs(z) * SQRT_HALF)
        if z < 0.0:
            total += np.log(half) - 0.5 * z * z
        else:
            total += np.log1p(-half * np.exp(-0.5 * z * z))
    head[2] = total


@dataclass(frozen=True, eq=False, repr=False)
class Probit(BinaryLikelihood):
    """Probit likelihood of labels: the probability of +1 is the normal distribution function of eta.

    p(y | eta) = Phi(y eta), y in {-1, +1}.

    Derivatives by z = y eta: lambda = phi / Phi, w = -(log Phi)'' = lambda (z + lambda) in (0, 1),
    w' = -(log Phi)'''. For z < -3 every factor comes from the continued fraction of the Mills
    ratio, which has no cancellation (relative error 6e-16 down to z = -1e4, where the direct w'
    has no correct digit).

    Raises
    ------
    InputError:
        In a model, for labels other than -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> round(gp.Probit().log_density(np.array([1.0]), np.array([1.0])).item(), 4)
    -0.1728
    """

    def gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """y lambda(y eta), shape of eta."""
        flat = flat_rows(eta)
        slope = np.empty_like(flat)
        _slopes(flat, y, slope)
        return slope.reshape(eta.shape)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log Phi(y eta) over cases and y lambda(y eta)."""
        flat = flat_rows(eta)
        value, slope = np.empty(len(flat)), np.empty_like(flat)
        _values_and_slopes(flat, y, value, slope)
        return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log Phi(z), y lambda, -w, -y w' at z = y eta."""
        value, slope, w, w1 = log_phi_derivatives(np.asarray(y) * eta)
        return value, y * slope, -w, -y * w1

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Closed form: Z = Phi(zeta), zeta = y mean / sqrt(1 + variance)."""
        scale = np.sqrt(1.0 + variance)
        log_z, slope, w, _ = log_phi_derivatives(y * mean / scale)
        return log_z, y * slope / scale, w / (1.0 + variance)

    def tilted_cumulants(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
    ) -> np.ndarray:
        """kappa_l = s^l d^l log Phi(zeta) / d zeta^l, s = y v / sqrt(1 + v), v the variance."""
        zeta = y * mean / np.sqrt(1.0 + variance)
        s = y * variance / np.sqrt(1.0 + variance)
        lambdas = log_phi_high_derivatives(zeta, order)
        return np.stack([s**k * lambdas[k] for k in range(3, order + 1)])

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """+1 where eta plus a standard normal is positive, else -1."""
        return np.where(eta + rng.standard_normal(np.shape(eta)) > 0, 1.0, -1.0)

    def centred_moments(self, k: np.ndarray | float) -> tuple[Any, Any]:
        """pi / 2 + (pi / 2 - 1) k and k sqrt(2 / pi) / sqrt(1 + k)."""
        s = 0.5 * np.pi + (0.5 * np.pi - 1.0) * k
        return s, k * np.sqrt(2.0 / np.pi) / np.sqrt(1.0 + k)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Labels alone."""
        return CompiledValue(_value, np.empty((0, len(y))), np.empty(0), 0.0)


def log_phi_derivatives(z: np.ndarray) -> tuple[np.ndarray, ...]:
    """Log Phi(z), lambda = phi / Phi, w = -(log Phi)'' and w' = dw/dz, stable for all z."""
    z = np.asarray(z, dtype=np.float64)
    flat = flat_rows(np.atleast_1d(z)).ravel()
    value, slope, w, w1 = (np.empty_like(flat) for _ in range(4))
    low = flat < -3.0
    a = -flat[low]
    if a.size:
        c = _mills_excess(a)
        slope[low] = a + c[0]
        w[low] = slope[low] * c[0]
        w1[low] = -slope[low] * c[0] ** 2 * c[1] * (c[2] - c[1])
        value[low] = -0.5 * a**2 - HALF_LOG_2PI - np.log(slope[low])
    x = flat[~low]
    if x.size:
        lam = np.empty_like(x)
        _slopes(x[None], np.ones_like(x), lam[None])
        delta = x + lam
        slope[~low], w[~low] = lam, lam * delta
        w1[~low] = lam * (1.0 - lam * delta - delta**2)
        value[~low] = log_ndtr(x)
    return tuple(v.reshape(z.shape) for v in (value, slope, w, w1))


def log_phi_high_derivatives(z: np.ndarray, order: int) -> np.ndarray:
    """d^l log Phi / dz^l for l = 0..order, shape (order + 1, ...).

    L_{k+2} = -z L_{k+1} - k L_k - sum_j C(k, j) L_{j+1} L_{k-j+1}, from phi' = -z phi. Below
    z = -5 the recursion cancels; there the third derivative comes from the continued fraction and
    the fourth from differentiating lambda (1 - w - delta^2), the rest is set to zero (they are
    below 1e-3 of the third).
    """
    value, slope, w, w1 = log_phi_derivatives(z)
    out = np.zeros((order + 1, *np.shape(z)))
    out[0], out[1] = value, slope
    for k in range(order - 1):
        products = sum(comb(k, j) * out[j + 1] * out[k - j + 1] for j in range(k + 1))
        out[k + 2] = -z * out[k + 1] - (k * out[k] if k else 0.0) - products
    low = np.asarray(z) < -5.0
    if np.any(low):
        delta = np.where(low, _mills_excess(np.maximum(-z, 4.0))[0], 0.0)
        fourth = w * w1 / slope + slope * (w1 + 2.0 * delta * (1.0 - w))
        exact = {2: -w, 3: -w1, 4: fourth}
        for k in range(2, order + 1):
            out[k] = np.where(low, exact.get(k, 0.0), out[k])
    return out


def _mills_excess(a: np.ndarray) -> list[np.ndarray]:
    """lambda(-a) - a = 1 / (a + 2 / (a + 3 / ..)), a >= 3, and the fractions that begin with 2, 3 and 4."""
    c = [np.zeros_like(a)] * 4
    for k in range(60, 0, -1):
        c = [k / (a + c[0]), *c[:3]]
    return c
