"""Exponentials and logarithms of whole buffers, in passes that a compiler turns into vector instructions."""

from __future__ import annotations

import math

import numba
import numpy as np

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest whole number in the low bits
_MANTISSA, _ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
_SQRT2 = 1.4142135623730951
_FACTORIALS = np.array([1.0 / math.factorial(k) for k in range(13)])  # series of exp
_ODD = np.array([1.0 / (2 * k + 1) for k in range(11)])  # series of artanh(s) / s in s^2


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def exponentials(squared, out, out_bits, scratch, bits):
    """out = exp(-squared / 2), squared >= 0, relative error 4e-16; two passes the compiler can vectorise.

    ``out_bits`` and ``bits`` are ``out`` and ``scratch`` seen as whole numbers: 2^k goes straight into the
    exponent. Below exp(-300) everything is exp(-300): far below rounding, and products of two are no
    denormal numbers.
    """
    for i in range(squared.size):
        x = max(-0.5 * squared[i], -300.0)
        shifted = x * _LOG2E + _MAGIC
        k = shifted - _MAGIC
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = _FACTORIALS[12]
        for j in range(11, -1, -1):
            p = p * r + _FACTORIALS[j]
        scratch[i] = shifted
        out[i] = p
    for i in range(squared.size):
        out_bits[i] += bits[i] << 52


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def logarithms(x, out, scratch, bits):
    """out = log(x), x >= 1 (normal, finite), relative error 1e-15; passes the compiler can vectorise.

    x = 2^k m with m in [sqrt(1/2), sqrt 2), log m = 2 artanh((m - 1) / (m + 1)) by its series; ``bits`` is
    ``scratch`` seen as whole numbers.
    """
    for i in range(x.size):
        scratch[i] = x[i]
    for i in range(x.size):
        k = (bits[i] >> 52) - 1023
        bits[i] = (bits[i] & _MANTISSA) | _ONE
        out[i] = k
    for i in range(x.size):
        m, k = scratch[i], out[i]
        high = m > _SQRT2
        m = 0.5 * m if high else m
        k = k + 1.0 if high else k
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        p = _ODD[10]
        for j in range(9, -1, -1):
            p = p * q + _ODD[j]
        out[i] = k * 0.6931471805599453 + 2.0 * s * p
