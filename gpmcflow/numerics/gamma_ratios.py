"""Ratios of gamma functions of large arguments, without differences of large logarithms."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma, gammaln, zeta

from gpmcflow.numerics.code_cache import compiled, compiled_elementwise

_LOG_2PI = math.log(2.0 * math.pi)
LARGE = 1e3  # above it, four terms of Stirling's series are exact to rounding


def log_gamma_ratio(d: np.ndarray | float, y: np.ndarray | float) -> np.ndarray:
    """log Gamma(d + y) - log Gamma(d) for d > 0, y >= 0, elementwise."""
    d, y = np.broadcast_arrays(np.asarray(d, np.float64), np.asarray(y, np.float64))
    out = gammaln(d + y) - gammaln(d)
    large = d > LARGE
    if large.any():
        d, y = d[large], y[large]
        series = _stirling(d + y) - _stirling(d)
        out = np.array(out)
        out[large] = y * np.log(d) + (d + y - 0.5) * np.log1p(y / d) - y + series
    return out


@compiled_elementwise
def log_gamma_less(z, log_z):
    """z log z - z - log Gamma(1 + z) for z >= 0, elementwise: about -log(2 pi z) / 2 where z is large."""
    if z > LARGE:
        r = 1.0 / z
        return -0.5 * (log_z + _LOG_2PI) - r * (1.0 / 12.0 - r * r * (1.0 / 360.0 - r * r / 1260.0))
    return z * log_z - z - math.lgamma(1.0 + z)


def digamma_less(z: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """psi(1 + z) - log z for z >= 0, elementwise: about 1 / (2 z) where z is large."""
    large = z > LARGE
    r = 1.0 / np.where(large, z, 1.0)
    series = r * (0.5 - r * (1.0 / 12.0 - r * r / 120.0))
    return np.where(large, series, digamma(1.0 + z) - log_z)


@compiled
def gammas_less(z, log_z):
    """`log_gamma_less` and `digamma_less` of a number, by one recurrence to 9 and Stirling's series."""
    if z > LARGE:
        r = 1.0 / z
        return log_gamma_less(z, log_z), r * (0.5 - r * (1.0 / 12.0 - r * r / 120.0))
    x, lower, product = 1.0 + z, 0.0, 1.0
    while x < 9.0:  # three factors by one division
        upper = (x + 1.0) * (x + 2.0)
        lower += (upper + x * (2.0 * x + 3.0)) / (x * upper)
        product *= x * upper
        x += 3.0
    r, log_x = 1.0 / x, math.log(x)
    t = r * r
    series = 1 / 1260 - t * (1 / 1680 - t * (1 / 1188 - t * (691 / 360360)))
    log_gamma = (x - 0.5) * log_x - x + 0.5 * _LOG_2PI + r * (1 / 12 - t * (1 / 360 - t * series))
    series = 1 / 120 - t * (1 / 252 - t * (1 / 240 - t * (1 / 132 - t * (691 / 32760))))
    psi = log_x - 0.5 * r - t * (1 / 12 - t * series) - lower
    return z * log_z - z - log_gamma + math.log(product), psi - log_z


def polygamma_gaps(d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """psi(d + y) - psi(d) and the same of psi' and psi'', for d >= 1, y >= 0, elementwise."""
    first = digamma_ratio(d, y) + np.log1p(y / d)
    d, y = np.broadcast_arrays(np.asarray(d, np.float64), np.asarray(y, np.float64))
    second = np.array(zeta(2.0, d + y) - zeta(2.0, d))
    third = np.array(2.0 * (zeta(3.0, d) - zeta(3.0, d + y)))
    large = d > LARGE
    if large.any():
        a, b = 1.0 / d[large], 1.0 / (d[large] + y[large])
        gap, sum_, product = y[large] * a * b, a + b, a * b  # gap is a - b
        squares, cubes = sum_**2 - product, sum_ * (sum_**2 - 2.0 * product)
        second[large] = -gap * (1.0 + sum_ / 2.0 + squares / 6.0)
        third[large] = gap * (sum_ + squares + cubes / 2.0)
    return first, second, third


@compiled
def log_gamma_gap(d, y):
    """`log_gamma_ratio` of numbers, for compiled loops."""
    if d < LARGE:
        return math.lgamma(d + y) - math.lgamma(d)
    e = d + y
    series = (1.0 / 12.0 - 1.0 / (360.0 * e * e)) / e - (1.0 / 12.0 - 1.0 / (360.0 * d * d)) / d
    return y * math.log(d) + (e - 0.5) * math.log1p(y / d) - y + series


@compiled
def polygammas(z):
    """psi(z), psi'(z), psi''(z) of a number z > 0: recurrence to 12, then asymptotic series."""
    first = second = third = 0.0
    while z < 12.0:
        r = 1.0 / z
        first, second, third = first - r, second + r * r, third - 2.0 * r * r * r
        z += 1.0
    r = 1.0 / z
    t = r * r
    series = 1 / 120 - t * (1 / 252 - t * (1 / 240 - t * (1 / 132 - t * (691 / 32760))))
    first += math.log(z) - 0.5 * r - t * (1 / 12 - t * series)
    series = 1 / 30 - t * (1 / 42 - t * (1 / 30 - t * (5 / 66 - t * (691 / 2730))))
    second += r + 0.5 * t + r * t * (1 / 6 - t * series)
    series = 1 / 6 - t * (1 / 6 - t * (3 / 10 - t * (5 / 6 - t * (691 / 210))))
    third -= t + r * t + t * t * (0.5 - t * series)
    return first, second, third


@compiled_elementwise
def digamma_ratio(d, y):
    """psi(d + y) - psi(d) - log(1 + y / d) for d > 0, y >= 0, elementwise: about y / (2 d (d + y))."""
    if d <= LARGE:
        return polygammas(d + y)[0] - polygammas(d)[0] - math.log1p(y / d)
    a, b = 1.0 / d, 1.0 / (d + y)
    both = a + b
    return y * a * b * (0.5 + both / 12.0 - both * (a * a + b * b) / 120.0)  # y a b is a - b


@compiled
def polygamma_gap(d, y):
    """`polygamma_gaps` of numbers d >= 1 and a whole y >= 0, for compiled loops."""
    first = second = third = 0.0
    if y <= 64.0:
        for j in range(int(y)):
            r = 1.0 / (d + j)
            first, second, third = first + r, second - r * r, third + 2.0 * r * r * r
        return first, second, third
    if d <= LARGE:
        (of_sum, of_d) = polygammas(d + y), polygammas(d)
        return of_sum[0] - of_d[0], of_sum[1] - of_d[1], of_sum[2] - of_d[2]
    a, b = 1.0 / d, 1.0 / (d + y)
    gap, both = y * a * b, a + b  # gap is a - b
    squares = both * both - a * b
    first = gap * (0.5 + both / 12.0 - both * (a * a + b * b) / 120.0) + math.log1p(y / d)
    second = -gap * (1.0 + both / 2.0 + squares / 6.0)
    third = gap * (both + squares + both * (both * both - 2.0 * a * b) / 2.0)
    return first, second, third


@compiled_elementwise
def log1p_less(x):
    """log(1 + x) - x for x > -1, elementwise: about -x^2 / 2."""
    if abs(x) >= 0.01:
        return -math.inf if x == -1.0 else math.log1p(x) - x
    series = 0.0
    for k in range(9, 1, -1):
        series = x * series + (1.0 if k % 2 else -1.0) / k
    return x * x * series


def log_gamma_rest(a: np.ndarray | float) -> np.ndarray:
    """a log a - a - log Gamma(a) for a > 0, elementwise: about log(a / (2 pi)) / 2 where a is large."""
    small = np.minimum(a, LARGE)
    series = 0.5 * np.log(np.maximum(a, LARGE) / (2.0 * np.pi)) - _stirling(np.maximum(a, LARGE))
    return np.where(a > LARGE, series, small * np.log(small) - small - gammaln(small))


def log_less_digamma(a: np.ndarray | float) -> np.ndarray:
    """log a - psi(a) for a > 0, elementwise: about 1 / (2 a)."""
    small, r = np.minimum(a, LARGE), 1.0 / np.maximum(a, LARGE)
    series = r * (0.5 + r * (1.0 / 12.0 - r * r / 120.0))
    return np.where(a > LARGE, series, np.log(small) - digamma(small))


def _stirling(z: np.ndarray) -> np.ndarray:
    """log Gamma(z) - (z - 1/2) log z + z - log(2 pi) / 2, for large z."""
    r = 1.0 / (z * z)
    return (1.0 / 12.0 - r * (1.0 / 360.0 - r / 1260.0)) / z
