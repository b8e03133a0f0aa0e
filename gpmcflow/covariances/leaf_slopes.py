"""Compiled derivatives of the leaves of a covariance expression by their parameters, a panel at a time."""

from __future__ import annotations

import numpy as np

from gpmcflow.covariances.leaf_values import power
from gpmcflow.covariances.nodes import (
    AMPLITUDE,
    CATEGORICAL,
    CODE,
    DEGREE,
    DIRECT,
    EXTRA,
    MATERN12,
    MATERN32,
    MATERN52,
    N_COLUMNS,
    N_SCALES,
    PERIODIC,
    POLYNOMIAL,
    RATIONAL_QUADRATIC,
    ROW,
    SCALE,
    SLOT,
    SQUARED_EXPONENTIAL,
)
from gpmcflow.numerics.code_cache import compiled


@compiled(fastmath={"contract", "reassoc"})
def _dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled(fastmath={"contract", "reassoc"})
def _dot_of_squares(weight, begin, Z, row, j, m, column):
    """sum_i W_i (z_i - z_column)^2 of a row of Z from ``j`` on."""
    k, top, begin, at, total = np.uint64(row), np.uint64(j), np.uint64(begin), Z[row, column], 0.0
    for i in range(np.uint64(m)):
        z = Z[k, top + i] - at
        total += weight[begin + i] * z * z
    return total


@compiled(fastmath={"contract", "reassoc"})
def _dots(weight, begin, Z, row, p, j, m, column, rows, out):
    """rows_i += W_i and rows_column += sum_i W_i; out_d += z_d,column sum_i W_i z_di, four at a time."""
    size, top, begin, total = np.uint64(m), np.uint64(j), np.uint64(begin), 0.0
    for i in range(size):
        g = weight[begin + i]
        rows[top + i] += g
        total += g
    rows[column] += total
    d = 0
    while d + 4 <= p:
        k0, k1, k2, k3 = (
            np.uint64(row + d), np.uint64(row + d + 1), np.uint64(row + d + 2), np.uint64(row + d + 3),
        )  # fmt: skip
        s0 = s1 = s2 = s3 = 0.0
        for i in range(size):
            g = weight[begin + i]
            s0 += g * Z[k0, top + i]
            s1 += g * Z[k1, top + i]
            s2 += g * Z[k2, top + i]
            s3 += g * Z[k3, top + i]
        out[d] += s0 * Z[k0, column]
        out[d + 1] += s1 * Z[k1, column]
        out[d + 2] += s2 * Z[k2, column]
        out[d + 3] += s3 * Z[k3, column]
        d += 4
    while d < p:
        k0, s0 = np.uint64(row + d), 0.0
        for i in range(size):
            s0 += weight[begin + i] * Z[k0, top + i]
        out[d] += s0 * Z[row + d, column]
        d += 1


@compiled(fastmath={"contract", "reassoc"})
def _periodic_slope(bar, value, Z, row, j, c, m):
    """Sum of bar k v sin v cos v over a column, v = pi (x - x') / p."""
    sines, cosines, phases = Z[row, j : j + m], Z[row + 1, j : j + m], Z[row + 2, j : j + m]
    sine, cosine, phase = Z[row, j + c], Z[row + 1, j + c], Z[row + 2, j + c]
    total = 0.0
    for i in range(m):
        s = sines[i] * cosine - cosines[i] * sine
        t = cosines[i] * cosine + sines[i] * sine
        total += bar[i] * value[i] * (phases[i] - phase) * s * t
    return total


@compiled(fastmath={"contract"})
def _weigh(code, alpha, bar, value, h, u):
    """bar becomes bar * w, the derivative of k by log l_c being w (x_c - x'_c)^2 / l_c^2."""
    if code in (SQUARED_EXPONENTIAL, CATEGORICAL, PERIODIC):
        for i in range(bar.size):
            bar[i] *= value[i]
    elif code == MATERN12:
        for i in range(bar.size):
            safe = h[i] if h[i] > 0.0 else 1.0
            bar[i] = bar[i] * value[i] * 2.0 / safe if h[i] > 0.0 else 0.0  # infinite at one place
    elif code == MATERN32:
        for i in range(bar.size):
            bar[i] *= 3.0 * value[i] / (1.0 + 0.5 * h[i])
    elif code == MATERN52:
        for i in range(bar.size):
            a = 0.5 * h[i]
            bar[i] *= 5.0 * (1.0 + a) * value[i] / (3.0 + 3.0 * a + a * a)
    else:
        for i in range(bar.size):
            bar[i] *= value[i] / (1.0 + u[i] / (2.0 * alpha))


@compiled(fastmath={"contract", "reassoc"})
def pull_leaf(table, params, wanted, k, Z, j, m, w, bar, value, h, u, sums, crossed, slopes):
    """Add the derivatives of a leaf for a panel to ``slopes``; ``bar`` is used up."""
    code, row, p, first = table[k, CODE], table[k, ROW], table[k, N_COLUMNS], table[k, SCALE]
    n_scales, amplitude, extra = table[k, N_SCALES], table[k, AMPLITUDE], table[k, EXTRA]
    if amplitude >= 0 and wanted[amplitude]:
        slopes[amplitude] += 2.0 * _dot(bar, value)
    if code == POLYNOMIAL:
        degree = table[k, DEGREE]
        if degree > 1:
            power(h, degree - 1, value)
            for i in range(bar.size):
                bar[i] *= degree * value[i]
        offset = 0.0
        if extra >= 0:
            offset = 2.0 * np.exp(2.0 * params[extra])
            total = 0.0
            for i in range(bar.size):
                total += bar[i]
            slopes[extra] += offset * total
            offset *= total
        if n_scales == 1:
            slopes[first] += 2.0 * _dot(bar, h) - offset
            return
        for c in range(w):
            for d in range(p):
                x = Z[row + d, j : j + m]
                slopes[first + d] += 2.0 * Z[row + d, j + c] * _dot(bar[c * m : c * m + m], x)
        return
    if code > CATEGORICAL:
        return
    alpha = 1.0
    if code == RATIONAL_QUADRATIC:
        alpha = np.exp(params[extra])
        if wanted[extra]:
            total = 0.0
            for i in range(bar.size):
                total += bar[i] * value[i] * (u[i] / (2.0 + u[i] / alpha) - 0.5 * h[i])
            slopes[extra] += total
    if code == PERIODIC and wanted[extra]:
        rate = 4.0 * np.exp(-2.0 * params[first])
        for c in range(w):
            begin = c * m
            slopes[extra] += rate * _periodic_slope(
                bar[begin : begin + m], value[begin : begin + m], Z, row, j, c, m
            )
    if n_scales == 1 and not wanted[first]:
        return
    _weigh(code, alpha, bar, value, h, u)
    if n_scales == 1:
        if code in (SQUARED_EXPONENTIAL, PERIODIC):
            slopes[first] += _dot(bar, h)
        elif code == CATEGORICAL:
            slopes[first] += 0.5 * _dot(bar, h)
        elif code == RATIONAL_QUADRATIC:
            slopes[first] += _dot(bar, u)
        else:
            factor = 4.0 if code == MATERN12 else (12.0 if code == MATERN32 else 20.0)
            total = 0.0
            for i in range(bar.size):
                total += bar[i] * h[i] * h[i]
            slopes[first] += total / factor
    elif code == CATEGORICAL:
        for d in range(p):
            rate = np.exp(-params[first + d])
            for c in range(w):
                at, total = Z[row + d, j + c], 0.0
                for i in range(m):
                    total += bar[c * m + i] if Z[row + d, j + i] != at else 0.0
                slopes[first + d] += rate * total
    elif p <= DIRECT:
        for c in range(w):
            for d in range(p):
                slopes[first + d] += _dot_of_squares(bar, c * m, Z, row + d, j, m, j + c)
    else:  # sum_ij W_ij (z_i - z_j)^2 = sum_i z_i^2 (W 1)_i - 2 sum_j z_j (sum_i W_ij z_i)
        rows, slot = sums[table[k, SLOT]], crossed[table[k, SLOT]]
        for c in range(w):
            _dots(bar, c * m, Z, row, p, j, m, j + c, rows, slot)
