"""Likelihoods of labels in {-1, +1}: logistic and probit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numba
import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood, flat_rows, values_and_slopes
from gpmcflow.likelihoods.levels import are_numbers
from gpmcflow.likelihoods.sites import Sites, thresholded
from gpmcflow.likelihoods.tilted import logistic_moments
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.exponentials import exponential, sum_of_logs
from gpmcflow.numerics.normal_tail import (
    HALF_LOG_2PI,
    INV_SQRT_2PI,
    SQRT_2_OVER_PI,
    SQRT_HALF,
    erfcx,
)

# What the two binary likelihoods share: labels in {-1, +1}.


class BinaryLikelihood(Likelihood):
    """p(y | eta) = F(y eta), y in {-1, +1}, with F(z) + F(-z) = 1."""

    relative_sites = True
    discrete = binary = True
    _slopes: ClassVar[Callable]  #: compiled loop (eta, y, slope) of the gradient, eta (rows, n)
    _values_and_slopes: ClassVar[Callable]  #: (eta, y, value, slope)
    _value: ClassVar[Callable]  #: loop of `compiled`

    def coded(self, y: Any) -> Any:
        """Labels as they are; `InputError` for words, of which nothing says which is +1."""
        values = np.asarray(y)
        if not are_numbers(values):
            first, last = str(values.ravel()[0]), max(str(value) for value in values.ravel())
            raise InputError(
                f"{self.name} likelihood: y[0] is {first!r}; allowed: -1 and +1; write "
                f"np.where(np.asarray(y) == {last!r}, 1, -1) if {last!r} is to be +1, or take "
                "GPModel.from_frame, which codes two labels"
            )
        return y

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless every label is -1 or +1."""
        labels = np.unique(y)
        if not np.isin(labels, (-1.0, 1.0)).all():
            shown = ", ".join(f"{v:g}" for v in labels[:5]) + (", ..." if len(labels) > 5 else "")
            remedy = (
                "write 2 * y - 1" if np.isin(labels, (0.0, 1.0)).all() else "recode the classes"
            )
            raise InputError(
                f"{self.name} likelihood: labels {shown}; allowed: -1 and +1; {remedy}, or take "
                "GPModel.from_frame, which codes two labels"
            )

    def gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """y (log F)'(y eta), shape of eta."""
        flat = flat_rows(eta)
        slope = np.empty_like(flat)
        self._slopes(flat, y, slope)
        return slope.reshape(eta.shape)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log F(y eta) over cases and `gradient`."""
        return values_and_slopes(self._values_and_slopes, eta, y)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """F(eta), the probability of +1."""
        return np.exp(self.derivatives(np.asarray(eta), np.ones(np.shape(eta)[-1:]))[0])

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Probability of +1: the normaliser of the tilted distribution, F(mean) where nothing is open."""
        mean, variance = np.broadcast_arrays(mean, variance)
        response = np.array(self.conditional_mean(mean))
        open_ = variance > 0.0
        if open_.any():
            m, v = mean[open_], np.maximum(variance[open_], 1e-12)
            response[open_] = np.exp(self.tilted(np.ones(m.size), m, v)[0])
        return response

    def moment_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """Without an offset by `centred_moments`: the mean is y h, the variance k - h^2."""
        if offset != 0.0:
            return super().moment_sites(y, k, offset)
        s, h = self.centred_moments(k)
        w = np.full(len(y), 1.0 / s)
        return thresholded(w, y * (h / (k - h * h)), not isinstance(k, np.ndarray))

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Labels alone."""
        return CompiledValue(self._value, np.empty((0, len(y))), np.empty(0), 0.0)

    @abstractmethod
    def centred_moments(self, k: np.ndarray | float) -> tuple[Any, Any]:
        """s and h = E[f y] of F(y f) N(f; 0, k), whose variance k - h^2 is 1 / (1 / k + 1 / s)."""

    def laplace_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """One Newton solve where both labels have the same |mu|."""
        if offset != 0.0 or isinstance(k, np.ndarray):
            return super().laplace_sites(y, k, offset)
        mode, one = 0.0, np.ones(1)
        for _ in range(100):
            _, first, second, _ = (float(d[0]) for d in self.derivatives(mode * one, one))
            step = (first - mode / k) / (1.0 / k - second)
            mode += step  # log-concave, from 0 with a slope that falls: the steps stay on one side
            if abs(step) <= 1e-14 * (1.0 + mode):
                break
        w = -float(self.derivatives(mode * one, one)[2][0])
        return thresholded(np.full(len(y), w), y * (mode * (1.0 / k + w)), True)


# Logistic likelihood: p(y | eta) = 1 / (1 + exp(-y eta)), y in {-1, +1}.


@compiled(fastmath={"contract"})
def _logistic_slopes(eta, y, slope):  # y sigma(-y eta)
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            e = exponential(-abs(eta[p, i]))
            slope[p, i] = y[i] * (e if y[i] * eta[p, i] >= 0.0 else 1.0) / (1.0 + e)


@compiled(fastmath={"contract"})
def _logistic_values_and_slopes(eta, y, value, slope):
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


def _logistic_value(head, f, y, constants, phi):
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

    _slopes = staticmethod(_logistic_slopes)
    _values_and_slopes = staticmethod(_logistic_values_and_slopes)
    _value = staticmethod(_logistic_value)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log sigma(z), y q, -p q, -y p q (q - p) at z = y eta; p = sigma(z), q = sigma(-z)."""
        z = np.asarray(y) * eta
        p, q = expit(z), expit(-z)
        value = np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))
        return value, y * q, -p * q, -y * p * q * (q - p)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """sigma(eta), the probability of +1."""
        return expit(np.asarray(eta))

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


# Probit likelihood: p(y | eta) = Phi(y eta), y in {-1, +1}.


@numba.njit(inline="always", error_model="numpy")
def _factor_and_slope(z: float) -> tuple[float, float]:  # Phi(z), times exp(z^2 / 2) below 0
    gauss, e = exponential(-0.5 * z * z), erfcx(abs(z) * SQRT_HALF)
    tail = 0.5 * gauss * e
    below, above = SQRT_2_OVER_PI / e, INV_SQRT_2PI * gauss / (1.0 - tail)
    return (0.5 * e, below) if z < 0.0 else (1.0 - tail, above)


@compiled(fastmath={"contract"})
def _probit_slopes(eta, y, slope):  # y lambda(y eta)
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            slope[p, i] = y[i] * _factor_and_slope(y[i] * eta[p, i])[1]


@compiled(fastmath={"contract"})
def _probit_values_and_slopes(eta, y, value, slope):
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


def _probit_value(head, f, y, constants, phi):
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

    _slopes = staticmethod(_probit_slopes)
    _values_and_slopes = staticmethod(_probit_values_and_slopes)
    _value = staticmethod(_probit_value)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log Phi(z), y lambda, -w, -y w' at z = y eta."""
        value, slope, w, w1 = log_phi_derivatives(np.asarray(y) * eta)
        return value, y * slope, -w, -y * w1

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Phi(eta), the probability of +1."""
        return ndtr(np.asarray(eta))

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
        _probit_slopes(x[None], np.ones_like(x), lam[None])
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
