"""Exponentials and logarithms in arithmetic that a compiler turns into vector instructions.

Those of the C library are a call for each number, some three times as slow; NumPy calls them where the
processor has no AVX-512.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from gpmcflow.numerics.code_cache import compiled

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest whole number in the low bits
_MANTISSA, _ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
_SQRT2 = 1.4142135623730951
_FACTORIALS = np.array([1.0 / math.factorial(k) for k in range(13)])  # series of exp
_ODD = np.array([1.0 / (2 * k + 1) for k in range(11)])  # series of artanh(s) / s in s^2


@numba.njit(inline="always", error_model="numpy")
def exponential(x: float) -> float:
    """exp(x) for x <= 708, relative error 4e-16; 0 below -708, not a number where x is none."""
    shifted = x * _LOG2E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _FACTORIALS[12]
    for j in range(11, -1, -1):
        p = p * r + _FACTORIALS[j]
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return 0.0 if x < -708.0 else np.int64(bits).view(np.float64)  # 2^k went into the exponent


@compiled(fastmath={"contract"})
def exponentials(squared, out):
    """out = exp(-squared / 2), squared >= 0.

    Below exp(-300) everything is exp(-300): far below rounding, and products of two are no denormal numbers.
    """
    for i in range(squared.size):
        out[i] = exponential(max(-0.5 * squared[i], -300.0))


@compiled(fastmath={"contract"})
def logarithms(x, out):
    """out = log(x), x >= 1 (normal, finite), relative error 1e-15.

    x = 2^k m with m in [sqrt(1/2), sqrt 2), log m = 2 artanh((m - 1) / (m + 1)) by its series.
    """
    for i in range(x.size):
        bits = np.float64(x[i]).view(np.int64)
        k = np.float64((bits >> 52) - 1023)
        m = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
        high = m > _SQRT2
        m = 0.5 * m if high else m
        k = k + 1.0 if high else k
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        p = _ODD[10]
        for j in range(9, -1, -1):
            p = p * q + _ODD[j]
        out[i] = k * 0.6931471805599453 + 2.0 * s * p


@compiled
def sum_of_logs(x):
    """Sum of log(x), x in (1e-18, 1e18): the logarithm of a product of 16 in place of 16 logarithms."""
    total, whole = 0.0, x.size - x.size % 16
    for i in range(0, whole, 16):
        first = ((x[i] * x[i + 1]) * (x[i + 2] * x[i + 3])) * (
            (x[i + 4] * x[i + 5]) * (x[i + 6] * x[i + 7])
        )
        second = ((x[i + 8] * x[i + 9]) * (x[i + 10] * x[i + 11])) * (
            (x[i + 12] * x[i + 13]) * (x[i + 14] * x[i + 15])
        )
        total += np.log(first * second)
    rest = 1.0
    for i in range(whole, x.size):
        rest *= x[i]
    return total + np.log(rest)
