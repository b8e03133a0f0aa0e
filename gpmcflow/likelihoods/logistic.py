"""Logistic likelihood: p(y | eta) = 1 / (1 + exp(-y eta)), y in {-1, +1}."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from gpmcflow.likelihoods.base import CompiledValue, flat_rows
from gpmcflow.likelihoods.labels import BinaryLikelihood
from gpmcflow.likelihoods.tilted import logistic_moments
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.exponentials import exponential, sum_of_logs


@compiled(fastmath={"contract"})
def _slopes(eta, y, slope):  # y sigma(-y eta)
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            e = exponential(-abs(eta[p, i]))
            slope[p, i] = y[i] * (e if y[i] * eta[p, i] >= 0.0 else 1.0) / (1.0 + e)


@compiled(fastmath={"contract"})
def _values_and_slopes(eta, y, value, slope):
    factors = np.empty(eta.shape[1])  # log1p would be exact for large z, and much slower
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            z = y[i] * eta[p, i]
            e = exponential(-abs(z))
            factors[i] = 1.0 + e
            slope[p, i] = y[i] * (e if z >= 0.0 else 1.0) / (1.0 + e)
        below = 0.0
        for i in range(eta.shape[1]):
            below += min(y[i] * eta[p, i], 0.0)
        value[p] = below - sum_of_logs(factors)


def _value(head, f, y, constants, phi):
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z = y[i] * (f[i] + offset)
        total += min(z, 0.0) - np.log1p(np.exp(-abs(z)))
    head[2] = total


@compiled_elementwise
def logistic_overlap(k):
    """q(k) = integral of sigma(f) sigma(-f) N(f; 0, k) df, elementwise, by the trapezoid rule.

    Step min(1, sqrt k) / 2 on |f| <= min(9 sqrt k, 40): at most 161 points, error about 1e-13.
    """
    sd = np.sqrt(k)
    step, end = 0.5 * min(1.0, sd), min(9.0 * sd, 40.0)
    total, m = 0.125, 1
    while m * step <= end * (1.0 + 1e-12):
        f = m * step
        e = np.exp(-f)
        total += e / ((1.0 + e) * (1.0 + e)) * np.exp(-0.5 * f * f / k)
        m += 1
    return 2.0 * total * step / (sd * 2.5066282746310002)


@dataclass(frozen=True, eq=False, repr=False)
class Logistic(BinaryLikelihood):
    """Logistic likelihood of labels: the probability of +1 is the logistic function of eta.

    p(y | eta) = sigma(y eta), y in {-1, +1}, sigma(z) = 1 / (1 + exp(-z)).

    Raises
    ------
    InputError:
        In a model, for labels other than -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> round(gp.Logistic().log_density(np.array([1.0]), np.array([1.0])).item(), 4)
    -0.3133
    """

    def gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """y sigma(-y eta), shape of eta."""
        flat = flat_rows(eta)
        slope = np.empty_like(flat)
        _slopes(flat, y, slope)
        return slope.reshape(eta.shape)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log sigma(y eta) over cases and y sigma(-y eta)."""
        flat = flat_rows(eta)
        value, slope = np.empty(len(flat)), np.empty_like(flat)
        _values_and_slopes(flat, y, value, slope)
        return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log sigma(z), y q, -p q, -y p q (q - p) at z = y eta; p = sigma(z), q = sigma(-z)."""
        z = np.asarray(y) * eta
        p, q = expit(z), expit(-z)
        value = np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))
        return value, y * q, -p * q, -y * p * q * (q - p)

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By the quadrature of any log-concave likelihood, compiled."""
        arrays = np.broadcast_arrays(
            *(np.asarray(a, dtype=np.float64) for a in (y, mean, variance))
        )
        moments = logistic_moments(*(np.ravel(a) for a in arrays))
        return tuple(moments.reshape(3, *arrays[0].shape))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """+1 with probability sigma(eta), else -1."""
        return np.where(rng.random(np.shape(eta)) < expit(eta), 1.0, -1.0)

    def centred_moments(self, k: np.ndarray | float) -> tuple[Any, Any]:
        """1 / (4 q^2) - k and 2 k q, q(k) the `logistic_overlap`."""
        q = logistic_overlap(k)
        return 1.0 / (4.0 * q * q) - k, 2.0 * k * q

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Labels alone."""
        return CompiledValue(_value, np.empty((0, len(y))), np.empty(0), 0.0)
