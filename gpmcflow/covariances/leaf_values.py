"""Compiled values of the leaves of a covariance expression, a panel of the matrix at a time."""

from __future__ import annotations

import numpy as np

from gpmcflow.covariances.nodes import (
    AMPLITUDE,
    CATEGORICAL,
    CODE,
    CONSTANT,
    CROSS,
    DEGREE,
    DIAGONAL,
    EXTRA,
    FRESH,
    GIVEN,
    MATERN12,
    MATERN32,
    MATERN52,
    MOVED,
    N_COLUMNS,
    N_SCALES,
    PERIODIC,
    POLYNOMIAL,
    RATIONAL_QUADRATIC,
    ROW,
    SCALE,
    SCALED,
    SLOT,
    SQUARED_EXPONENTIAL,
    WHITE,
)
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponentials, logarithms


# Loops below index by unsigned numbers: a signed index might be negative, which keeps the compiler from using
# vector instructions, and a slice is a counted reference, as dear as ten numbers.
@compiled(fastmath={"contract"})
def _squares(Zr, Zc, row, p, top, m, at, out, begin):
    """out_i = sum_d (z_di - z_d,at)^2 of p rows of Z, from ``begin`` on."""
    size, top, begin, k = np.uint64(m), np.uint64(top), np.uint64(begin), np.uint64(row)
    rest = p % 4
    if rest == 0:
        for i in range(size):
            out[begin + i] = 0.0
    for d in range(rest):
        x = Zc[k, at]
        if d == 0:
            for i in range(size):
                z = Zr[k, top + i] - x
                out[begin + i] = z * z
        else:
            for i in range(size):
                z = Zr[k, top + i] - x
                out[begin + i] += z * z
        k += np.uint64(1)
    for _ in range(p // 4):
        k1, k2, k3 = k + np.uint64(1), k + np.uint64(2), k + np.uint64(3)
        x0, x1, x2, x3 = Zc[k, at], Zc[k1, at], Zc[k2, at], Zc[k3, at]
        for i in range(size):
            z0, z1 = Zr[k, top + i] - x0, Zr[k1, top + i] - x1
            z2, z3 = Zr[k2, top + i] - x2, Zr[k3, top + i] - x3
            out[begin + i] += (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)
        k += np.uint64(4)


@compiled(fastmath={"contract"})
def _products(Zr, Zc, row, p, top, m, at, out, begin):
    """out_i = sum_d z_di z_d,at of p rows of Z, from ``begin`` on."""
    size, top, begin = np.uint64(m), np.uint64(top), np.uint64(begin)
    for d in range(p):
        k = np.uint64(row + d)
        x = Zc[k, at]
        if d == 0:
            for i in range(size):
                out[begin + i] = Zr[k, top + i] * x
        else:
            for i in range(size):
                out[begin + i] += Zr[k, top + i] * x


@compiled
def put(values, begin, m, matrix, column, top):
    """matrix[column, top : top + m] = given[begin : begin + m]."""
    k, top, begin = np.uint64(column), np.uint64(top), np.uint64(begin)
    for i in range(np.uint64(m)):
        matrix[k, top + i] = values[begin + i]


@compiled
def get(matrix, column, top, m, out, begin):
    """out[begin : begin + m] = matrix[column, top : top + m]."""
    k, top, begin = np.uint64(column), np.uint64(top), np.uint64(begin)
    for i in range(np.uint64(m)):
        out[begin + i] = matrix[k, top + i]


@compiled(fastmath={"contract"})
def _moved(x, at, change, before, out):
    for i in range(x.size):
        z = x[i] - at
        out[i] = max(before[i] + change * z * z, 0.0)


@compiled(fastmath={"contract"})
def _sines(sines, cosines, sine, cosine, rate, out):
    for i in range(sines.size):
        s = sines[i] * cosine - cosines[i] * sine
        out[i] = rate * s * s


@compiled
def _add_mismatches(x, at, amount, out, first):
    for i in range(x.size):
        differs = amount if x[i] != at else 0.0
        out[i] = differs if first else out[i] + differs


@compiled(fastmath={"contract"})
def _matern(code, argument, value):
    """Times the polynomial in a = argument / 2."""
    second = 1.0 / 12.0 if code == MATERN52 else 0.0
    for i in range(value.size):
        h = argument[i]
        value[i] *= 1.0 + 0.5 * h + second * h * h


@compiled(fastmath={"contract"})
def power(base, degree, out):
    """out = base to a whole power."""
    for i in range(base.size):
        out[i] = base[i]
    for _ in range(degree - 1):
        for i in range(base.size):
            out[i] *= base[i]


@compiled
def _distances(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, out):
    """Sums of squares or products of a leaf for a panel, kept in its slot where it has one."""
    slot, products = table[k, SLOT], table[k, CODE] == POLYNOMIAL
    row, p = table[k, ROW], table[k, N_COLUMNS]
    rate = np.exp(-2.0 * params[table[k, SCALE]])
    for c in range(w):
        if slot >= 0 and source[k] != FRESH:
            column, before = out[c * m : c * m + m], old[slot, j + c, top : top + m]
            if source[k] == MOVED:  # the row of Z that moved comes unscaled, after all others
                last = Zr.shape[0] - 1
                _moved(Zr[last, top : top + m], Zc[last, j + c], change, before, column)
            elif source[k] == SCALED:
                for i in range(m):
                    column[i] = rate * before[i]
            else:
                column[:] = before
        elif products:
            _products(Zr, Zc, row, p, top, m, j + c, out, c * m)
        else:
            _squares(Zr, Zc, row, p, top, m, j + c, out, c * m)
        if slot >= 0 and slots.size and source[k] != SCALED:
            put(out, c * m, m, slots[slot], j + c, top)


@compiled(fastmath={"contract"})
def leaf_values(
    table, params, k, Zr, Zc, top, m, j, w, mode, source, change, old, slots, given, K, jitter,
    value, argument, second,
):  # fmt: skip
    """Values of a leaf for a panel, and what its derivatives need: ``argument``, ``second``.

    Where the leaf is the whole expression and K is given, they are taken from there.
    """
    code, row, size = table[k, CODE], table[k, ROW], w * m
    v, h, u = value[:size], argument[:size], second[:size]
    if code <= CATEGORICAL:
        filled = K.size > 0 and table.shape[0] == 1
        if code == PERIODIC:
            rate = 4.0 * np.exp(-2.0 * params[table[k, SCALE]])
            for c in range(w):
                _sines(
                    Zr[row, top : top + m], Zr[row + 1, top : top + m],
                    Zc[row, j + c], Zc[row + 1, j + c], rate, h[c * m : c * m + m],
                )  # fmt: skip
        elif code == CATEGORICAL:
            many = table[k, N_SCALES] > 1
            for d in range(table[k, N_COLUMNS]):
                amount = 2.0 * np.exp(-params[table[k, SCALE] + (d if many else 0)])
                for c in range(w):
                    x, at = Zr[row + d, top : top + m], Zc[row + d, j + c]
                    _add_mismatches(x, at, amount, h[c * m : c * m + m], d == 0)
        elif not (
            filled and code == SQUARED_EXPONENTIAL and table[k, N_SCALES] > 1
        ):  # not needed then
            squares = u if code == RATIONAL_QUADRATIC else h
            _distances(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, squares)
            if code == RATIONAL_QUADRATIC:
                alpha = np.exp(params[table[k, EXTRA]])
                for i in range(size):
                    v[i] = 1.0 + squares[i] / (2.0 * alpha)
                logarithms(v, h)
                for i in range(size):
                    h[i] *= 2.0 * alpha
            elif code != SQUARED_EXPONENTIAL:
                factor = 4.0 if code == MATERN12 else (12.0 if code == MATERN32 else 20.0)
                for i in range(size):
                    h[i] = np.sqrt(factor * h[i])
        if filled:
            for c in range(w):
                get(K, j + c, j, m, v, c * m)
                v[c * m + c] /= 1.0 + jitter
            return
        exponentials(h, v)
        if code in (MATERN32, MATERN52):
            _matern(code, h, v)
    elif code == POLYNOMIAL:
        _distances(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, h)
        if table[k, EXTRA] >= 0:
            offset = np.exp(2.0 * params[table[k, EXTRA]])
            for i in range(size):
                h[i] += offset
        power(h, table[k, DEGREE], v)
    elif code == CONSTANT:
        v[:] = 1.0
    elif code == GIVEN:
        for c in range(w):
            at = 0 if mode == DIAGONAL else j + c
            v[c * m : c * m + m] = given[table[k, SLOT], at, top : top + m]
    else:
        for c in range(w):
            for i in range(m):
                same = 1.0
                if code == WHITE:
                    same = 1.0 if mode != CROSS and top + i == j + c else 0.0
                else:
                    for d in range(table[k, N_COLUMNS]):
                        if Zr[row + d, top + i] != Zc[row + d, j + c]:
                            same = 0.0
                v[c * m + i] = same
    if table[k, AMPLITUDE] >= 0:
        variance = np.exp(2.0 * params[table[k, AMPLITUDE]])
        if variance != 1.0:
            for i in range(size):
                v[i] *= variance
