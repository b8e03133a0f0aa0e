"""What is seen of y* = eta + s eps through an interval: that it lies in (l, u], or that it is l.

With a law F of eps and its density f, a = (l - eta) / s and b = (u - eta) / s,

    log p = log f(a) - log s            where l = u,
    log p = log(F(b) - F(a))            where l < u; l = -inf and u = inf are allowed.

The laws are normal, logistic and smallest extreme value, the log of a unit exponential. Their densities are
log-concave, so log p is log-concave in eta (Prekopa). Survival times, grades and censored measurements are
this with other l and u.

Source: Prekopa (1973); Kalbfleisch & Prentice (2002), chapter 3.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import numba
import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood, flat_rows, values_and_slopes
from gpmcflow.likelihoods.tilted import tilted_moments, tilted_site
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.numerics.normal_tail import (
    HALF_LOG_2PI,
    INV_SQRT_2PI,
    SQRT_2_OVER_PI,
    SQRT_HALF,
    erfcx,
    mills_excess,
)

NORMAL, LOGISTIC, EXTREME_VALUE = range(3)
_LARGEST = 700.0  # exponent
_HOPELESS = 300.0  # that of a cumulative hazard: beyond it the likelihood is 0
_WIDE = 8.0  # times s: an interval whose two ends are two places for quadrature
# nodes and weights of an interval over which the density changes by a factor of a few
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NARROW = 2.0  # change of the log density

# Each law returns, at ends a <= b: log p + log s where a = b, else log p; its derivatives 1, 2, 3 by eta,
# times s, s^2, s^3; that by log s; and f(a) / P and f(b) / P, the derivatives by -l and u, times s.


@numba.njit(error_model="numpy")
def _normal_above(a):
    """As the laws do, for b = inf."""
    half = 0.5 * erfcx(abs(a) * SQRT_HALF)
    if a < 0.0:
        gauss = np.exp(-0.5 * a * a)
        value = np.log1p(-half * gauss)
        h = INV_SQRT_2PI * gauss / (1.0 - half * gauss)
    else:
        value = np.log(half) - 0.5 * a * a
        h = 0.5 * SQRT_2_OVER_PI / half
    if a < 3.0:
        excess = h - a
        third = h * (h * excess + excess * excess - 1.0)
    else:
        excess, after, last = mills_excess(a)
        h = a + excess
        third = h * excess * excess * after * (last - after)
    return value, h, -h * excess, third, a * h, h, 0.0


@numba.njit(error_model="numpy")
def _normal_narrow(a, b):
    """As the laws do, where the density changes little from a to b: cumulants of eps there, by quadrature."""
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    total = mean = square = cube = 0.0
    for k in range(_NODES.size):
        t = half * _NODES[k]
        mass = _WEIGHTS[k] * np.exp(-t * (middle + 0.5 * t))
        total += mass
        mean += mass * t
    mean /= total
    for k in range(_NODES.size):
        t = half * _NODES[k]
        mass = _WEIGHTS[k] * np.exp(-t * (middle + 0.5 * t)) / total
        square += mass * (t - mean) ** 2
        cube += mass * (t - mean) ** 3
    total *= half
    value = np.log(total) - 0.5 * middle * middle - HALF_LOG_2PI
    low = np.exp(half * (middle - 0.5 * half)) / total
    high = np.exp(-half * (middle + 0.5 * half)) / total
    first = middle + mean
    return value, first, square - 1.0, cube, a * first - 2.0 * half * high, low, high


@numba.njit(error_model="numpy")
def _normal_upper(a, b):
    """As the laws do, for a < b and a + b >= 0, from the upper tail."""
    if b == np.inf:
        return _normal_above(a)
    width = b - a
    if width * (1.0 + abs(a) + abs(b)) < _NARROW:
        return _normal_narrow(a, b)
    e_a, e_b = erfcx(abs(a) * SQRT_HALF), erfcx(b * SQRT_HALF)
    if a >= 0.0:
        ratio = np.exp(-0.5 * width * (a + b)) * e_b / e_a  # of the tails
        value = np.log(0.5 * e_a * (1.0 - ratio)) - 0.5 * a * a
        hazard = SQRT_2_OVER_PI / e_a
        low = hazard / (1.0 - ratio)
        high = SQRT_2_OVER_PI / e_b * ratio / (1.0 - ratio)
        excess = mills_excess(a)[0] if a > 3.0 else hazard - a
        excess += low * ratio
    else:
        g_a, g_b = np.exp(-0.5 * a * a), np.exp(-0.5 * b * b)
        outside = 0.5 * (g_a * e_a + g_b * e_b)
        value = np.log1p(-outside)
        low, high = INV_SQRT_2PI * g_a / (1.0 - outside), INV_SQRT_2PI * g_b / (1.0 - outside)
        excess = low - a
    first = low - high
    second = -low * excess - high * (b + high - 2.0 * low)
    m2 = low * a - high * b
    m3 = low * (a * a - 1.0) - high * (b * b - 1.0)
    third = m3 - first * (3.0 * m2 - 2.0 * first * first)
    return value, first, second, third, a * low - b * high, low, high


@numba.njit(error_model="numpy")
def _normal(a, b):
    if a == b:
        return -0.5 * a * a - HALF_LOG_2PI, a, -1.0, 0.0, a * a - 1.0, 0.0, 0.0
    if a == -np.inf and b == np.inf:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if a + b >= 0.0:
        return _normal_upper(a, b)
    value, first, second, third, by_scale, low, high = _normal_upper(-b, -a)
    return value, -first, second, -third, by_scale, high, low


@numba.njit(error_model="numpy")
def _logistic(a, b):
    # F(b) - F(a) = F(b) F(-a) (1 - exp(a - b)), whose last factor does not depend on eta
    value = first = second = third = by_scale = low = high = 0.0
    if a > -np.inf:
        e = np.exp(-abs(a))
        p, q = (1.0 / (1.0 + e), e / (1.0 + e)) if a >= 0.0 else (e / (1.0 + e), 1.0 / (1.0 + e))
        value -= max(a, 0.0) + np.log1p(e)
        low = p
        second -= p * q
        third += p * q * (q - p)
        by_scale += a * p
        if a == b:
            value += min(a, 0.0) - np.log1p(e)
            return value, p - q, 2.0 * second, 2.0 * third, a * (p - q) - 1.0, 0.0, 0.0
    if b < np.inf:
        e = np.exp(-abs(b))
        p, q = (1.0 / (1.0 + e), e / (1.0 + e)) if b >= 0.0 else (e / (1.0 + e), 1.0 / (1.0 + e))
        value += min(b, 0.0) - np.log1p(e)
        high = q
        second -= p * q
        third += p * q * (q - p)
        by_scale -= b * q
    first = low - high
    if a > -np.inf and b < np.inf:
        width = b - a
        value += np.log(-np.expm1(-width))
        both = 1.0 / np.expm1(width)
        by_scale -= width * both if both > 0.0 else 0.0
        low += both
        high += both
    return value, first, second, third, by_scale, low, high


@numba.njit(error_model="numpy")
def _extreme_value(a, b):
    # F(b) - F(a) = exp(-A) (1 - exp(-D)), A = exp(a), D = exp(b) - exp(a)
    A = np.exp(min(a, _HOPELESS))
    if a == b:
        return a - A, A - 1.0, -A, A, a * (A - 1.0) - 1.0, 0.0, 0.0
    if b == np.inf:
        return -A, A, -A, A, a * A if A > 0.0 else 0.0, A, 0.0
    share = 1.0 if a == -np.inf else -np.expm1(a - b)
    log_d = b + np.log(share)
    D = np.exp(min(log_d, _LARGEST))
    E = np.expm1(D)
    if D < 0.1:  # ratio is D / E, rest 1 - ratio
        square = D * D
        rest = D * (0.5 - D * (1.0 / 12.0 - square * (1.0 / 720.0 - square / 30240.0)))
        ratio = 1.0 - rest
        value = log_d - 0.5 * D * (1.0 - D / 12.0 * (1.0 - square / 120.0))
    else:
        ratio = D / E
        rest = 1.0 - ratio
        value = np.log(-np.expm1(-D))
    once = ratio * (rest - D) if ratio > 0.0 else 0.0  # D d/dD of the ratio, and again
    twice = once * (rest - D) - ratio * (once + D) if ratio > 0.0 else 0.0
    high = ratio / share
    low = A + ratio * (1.0 - share) / share
    by_scale = -b * ratio if a == -np.inf else a * (A - ratio) - (b - a) * high
    return value - A, A - ratio, once - A, A - twice, by_scale, low, high


@numba.njit(error_model="numpy")
def _terms(law, a, b):
    if law == NORMAL:
        return _normal(a, b)
    return _logistic(a, b) if law == LOGISTIC else _extreme_value(a, b)


@compiled
def _all_terms(law, scale, eta, low, high, out):
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            s = scale[p, i]
            a, b = (low[i] - eta[p, i]) / s, (high[i] - eta[p, i]) / s
            value, first, second, third, by_scale, below, above = _terms(law, a, b)
            out[0, p, i] = value
            out[1, p, i] = first / s
            out[2, p, i] = second / s**2
            out[3, p, i] = third / s**3
            out[4, p, i] = by_scale
            out[5, p, i] = below / s
            out[6, p, i] = above / s


@compiled
def _values_and_slopes(law, scale, eta, low, high, value, slope):
    for p in range(eta.shape[0]):
        total = 0.0
        for i in range(eta.shape[1]):
            a, b = (low[i] - eta[p, i]) / scale, (high[i] - eta[p, i]) / scale
            terms = _terms(law, a, b)
            total += terms[0]
            slope[p, i] = terms[1] / scale
        value[p] = total


@compiled(fastmath={"contract"})
def _logistic_values_and_slopes(scale, eta, low, high, value, slope):
    """sigma(b) - sigma(a) = sigma(b) sigma(-a) (1 - e^(a - b)): all but the last factor, and the slope.

    The slope is (sigma(a) + sigma(b) - 1) / s, also of the density, sigma(a) sigma(-a). Logarithms are
    taken of products of some hundred factors between 1 and 4.
    """
    for p in range(eta.shape[0]):
        total, factors = 0.0, 1.0
        for i in range(eta.shape[1]):
            a, b = (low[i] - eta[p, i]) / scale, (high[i] - eta[p, i]) / scale
            of_a, of_b = exponential(-abs(a)), exponential(-abs(b))
            factors *= (1.0 + of_a) * (1.0 + of_b)
            if factors > 1e150:
                total -= np.log(factors)
                factors = 1.0
            total -= (a if a > 0.0 else 0.0) - (b if b < 0.0 else 0.0)
            below = (1.0 if a > 0.0 else of_a) / (1.0 + of_a)
            above = (of_b if b > 0.0 else 1.0) / (1.0 + of_b)
            slope[p, i] = (below - above) / scale
        value[p] = total - np.log(factors)


def _value(head, f, y, constants, phi):  # constants are l and u, phi is the law and s
    n, law, scale, total = int(head[0]), int(phi[0]), phi[1], 0.0
    for i in range(n):
        eta = f[i] + head[1]
        total += _terms(law, (constants[i] - eta) / scale, (constants[n + i] - eta) / scale)[0]
    head[2] = total


def _factors(head, eta, out, y, constants, phi):  # constants are l and u, phi is the law and s
    m, i, n = int(head[0]), int(head[1]), int(head[2])
    law, scale, low, high = int(phi[0]), phi[1], constants[i], constants[n + i]
    for k in range(m):
        terms = _terms(law, (low - eta[k]) / scale, (high - eta[k]) / scale)
        out[k] = terms[0]
        out[m + k] = terms[1] / scale
        out[2 * m + k] = terms[2] / scale**2
        out[3 * m + k] = terms[3] / scale**3


class IntervalObserved(Likelihood):
    """A likelihood of y* = eta + s eps seen through intervals: derive from it by `code`, `s` and `ends`."""

    standard_sites = "laplace"

    @property
    @abstractmethod
    def code(self) -> int:
        """Law of eps: `NORMAL`, `LOGISTIC` or `EXTREME_VALUE`."""

    @property
    @abstractmethod
    def s(self) -> float | np.ndarray:
        """Scale of eps."""

    @abstractmethod
    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return l and u of each case, (n,), on the scale of eta; the same where y* is seen exactly."""

    def densities(self, y: np.ndarray) -> np.ndarray:
        """Where y* is seen exactly."""
        low, high = self.ends(y)
        return low == high

    def log_measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What exact cases, of such `ends`, add to log p for all eta, (n,): -log s, and a Jacobian."""
        return np.where(low == high, -np.log(self.s), 0.0)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, m1 / s, (m2 - m1^2) / s^2, (m3 - 3 m1 m2 + 2 m1^3) / s^3, m_k = s^k P^(k) / P."""
        ends = self.ends(y)
        value, first, second, third = self._terms(eta, y, ends)[:4]
        return value + self.log_measure(*ends), first, second, third

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and (f(a) - f(b)) / (s P), or -f'(a) / (s f(a))."""
        ends = self.ends(y)
        if self.code == LOGISTIC:
            loop = partial(_logistic_values_and_slopes, self.s)
            value, slope = values_and_slopes(loop, eta, *ends)
            width = (ends[1] - ends[0]) / self.s
            wide = width > 0.0
            value += np.log(-np.expm1(-np.where(wide, width, np.inf))).sum()
        else:
            loop = partial(_values_and_slopes, self.code, self.s)
            value, slope = values_and_slopes(loop, eta, *ends)
        value += self.log_measure(*ends).sum()
        return value, slope

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s: a f(a) / P - b f(b) / P, or -1 - a f'(a) / f(a); shape (..., n, 1)."""
        return self._terms(eta, y)[4][..., None]

    def by_ends(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of each case by l and by u, -f(a) / (s P) and f(b) / (s P), (..., n)."""
        *_, low, high = self._terms(eta, y)
        return -low, high

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Both ends (2, n), and s, where an interval is too wide for the quadrature of one bend."""
        low, high = self.ends(y)
        if not np.any(np.isfinite(high - low) & (high - low > _WIDE * self.s)):
            return None
        low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
        return np.stack([low, high]), np.full((2, len(y)), self.s)

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For normal eps in closed form: log p with s^2 + variance instead of s^2."""
        if self.code != NORMAL:
            return tilted_moments(self, y, mean, variance)
        width = np.sqrt(self.s**2 + variance)
        low, high = self.ends(y)
        out = np.empty((7, 1, len(y)))
        one, zero = np.ones((1, len(y))), np.zeros((1, len(y)))
        _all_terms(NORMAL, one, zero, (low - mean) / width, (high - mean) / width, out)
        value, first, second = out[:3, 0]
        measure = self.log_measure(low, high) + np.where(low == high, np.log(self.s / width), 0.0)
        return value + measure, first / width, -second / width**2

    def tilted_site(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Alpha and the site's precision; that of an exact normal case is 1 / s^2."""
        if self.code != NORMAL:
            return tilted_site(self, y, mean, variance)
        _, alpha, r = self.tilted(y, mean, variance)
        low, high = self.ends(y)
        with np.errstate(divide="ignore"):
            return alpha, np.where(low == high, self.s**-2.0, r / (1.0 - variance * r))

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Ends are constants, law and scale are parameters of the loop."""
        ends = self.ends(y)
        constant = float(self.log_measure(*ends).sum())
        phi = np.array([self.code, self.s], dtype=np.float64)
        return CompiledValue(_value, np.stack(ends), phi, constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        ends, phi = self.ends(y), np.array([self.code, self.s], dtype=np.float64)
        return FactorLoop(_factors, np.stack(ends), phi, self.log_measure(*ends))

    def _terms(
        self, eta: np.ndarray, y: np.ndarray, ends: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        if np.shape(eta)[-1:] != np.shape(y):
            eta = np.broadcast_to(eta, np.broadcast_shapes(np.shape(eta), np.shape(y)))
        scale = np.empty(np.shape(eta))
        scale[...] = self.s
        flat, scale = flat_rows(eta), flat_rows(scale)
        out = np.empty((7, *flat.shape))
        _all_terms(self.code, scale, flat, *(self.ends(y) if ends is None else ends), out)
        return out.reshape(7, *eta.shape)

    def simulate_latent(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draws of y* = eta + s eps, shape of eta."""
        shape = np.shape(eta)
        if self.code == NORMAL:
            eps = rng.standard_normal(shape)
        elif self.code == LOGISTIC:
            eps = rng.logistic(size=shape)
        else:
            eps = np.log(rng.standard_exponential(shape))
        return eta + self.s * eps

    def refuse_low_ends(self, y: np.ndarray, until: np.ndarray | None) -> None:
        """Raise `InputError` for an upper end ``until`` (n,) that is not above y; nan is none."""
        if until is not None and np.any(until <= y):
            i = int(np.argmax(until <= y))
            raise InputError(
                f"{self.name} likelihood: until[{i}] is {until[i]:g}, y is {y[i]:g}; allowed: an upper end "
                "above y; for a y that is known, nan"
            )
