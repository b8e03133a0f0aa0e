"""Compiled passes over the tape of a covariance expression, and the values and slopes of its leaves."""

from __future__ import annotations

import numpy as np

from gpmcflow.covariances.nodes import (
    ADJOINT,
    AMPLITUDE,
    ARGUMENT,
    CROSS,
    DEGREE,
    DIAGONAL,
    DIRECT,
    DISTANCES,
    EXTRA,
    FILL,
    FRESH,
    GIVEN,
    HEAD,
    INNER_PRODUCTS,
    JITTER,
    KIND,
    LEFT,
    MISMATCHES,
    MOVED,
    N_COLUMNS,
    N_SCALES,
    ONE,
    OWN,
    OWN_SLOPE,
    PANEL,
    PHASES,
    POWER,
    PRODUCT,
    RIGHT,
    ROW,
    SAME_CASE,
    SCALE,
    SCALE_SLOPE,
    SCALED,
    SIZE,
    SLOPES,
    SLOT,
    SUM,
    SWITCH,
    VALUES,
)
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import call

# Compiled values of the leaves of a covariance expression, a panel of the matrix at a time.


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


@compiled
def _distances(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, out):
    """Sums of squares or products of a leaf for a panel, kept in its slot where it has one."""
    slot, products = table[k, SLOT], table[k, KIND] == INNER_PRODUCTS
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
                for i in range(m):
                    column[i] = before[i]
        elif products:
            _products(Zr, Zc, row, p, top, m, j + c, out, c * m)
        else:
            _squares(Zr, Zc, row, p, top, m, j + c, out, c * m)
        if slot >= 0 and slots.size and source[k] != SCALED:
            put(out, c * m, m, slots[slot], j + c, top)


@compiled(fastmath={"contract"})
def _argument(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, h):
    """What a leaf's values are computed from, for a panel."""
    kind, row, first = table[k, KIND], table[k, ROW], table[k, SCALE]
    if kind == PHASES:
        rate = 4.0 * np.exp(-2.0 * params[first])
        for c in range(w):
            _sines(
                Zr[row, top : top + m], Zr[row + 1, top : top + m],
                Zc[row, j + c], Zc[row + 1, j + c], rate, h[c * m : c * m + m],
            )  # fmt: skip
    elif kind == MISMATCHES:
        many = table[k, N_SCALES] > 1
        for d in range(table[k, N_COLUMNS]):
            amount = 2.0 * np.exp(-params[first + (d if many else 0)])
            for c in range(w):
                x, at = Zr[row + d, top : top + m], Zc[row + d, j + c]
                _add_mismatches(x, at, amount, h[c * m : c * m + m], d == 0)
    else:
        _distances(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, h)


@compiled
def _call_loop(table, loops, params, k, which, switch, head, h, v, u, bar):
    """Call a loop of a leaf: VALUES, or SLOPES, which leave slopes in ``head``."""
    extra = table[k, EXTRA]
    head[SIZE], head[OWN] = v.size, params[extra] if extra >= 0 else 0.0
    head[POWER], head[SWITCH] = table[k, DEGREE], switch
    call(loops[k, which], (head, h, v, u, bar))


@compiled(fastmath={"contract"})
def leaf_values(
    table, loops, params, k, Zr, Zc, top, m, j, w, mode, source, change, old, slots, given, K, jitter, head,
    value, argument, second,
):  # fmt: skip
    """Values of a leaf for a panel, and what its derivatives need: ``argument``, ``second``.

    Where the leaf is the whole expression and K is given, they are taken from there.
    """
    kind, row, size = table[k, KIND], table[k, ROW], w * m
    v, h, u = value[:size], argument[:size], second[:size]
    if kind <= MISMATCHES:
        filled = K.size > 0 and table.shape[0] == 1 and kind != INNER_PRODUCTS  # which are cheaper
        if not filled or table[k, ARGUMENT] == 1 or table[k, N_SCALES] == 1:
            _argument(table, params, k, Zr, Zc, top, m, j, w, source, change, old, slots, h)
            _call_loop(table, loops, params, k, VALUES, 1.0 if filled else 0.0, head, h, v, u, u)
        if filled:
            for c in range(w):
                get(K, j + c, j, m, v, c * m)
                v[c * m + c] /= 1.0 + jitter
            return
    elif kind == ONE:
        for i in range(size):
            v[i] = 1.0
    elif kind == GIVEN:
        for c in range(w):
            get(given[table[k, SLOT]], 0 if mode == DIAGONAL else j + c, top, m, v, c * m)
    else:
        for c in range(w):
            for i in range(m):
                same = 1.0
                if kind == SAME_CASE:
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


# Compiled derivatives of the leaves of a covariance expression by their parameters, a panel at a time.


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
def _period_slope(bar, Z, row, j, c, m):
    """Sum of bar v sin v cos v over a column, v = pi (x - x') / p."""
    sines, cosines, phases = Z[row, j : j + m], Z[row + 1, j : j + m], Z[row + 2, j : j + m]
    sine, cosine, phase = Z[row, j + c], Z[row + 1, j + c], Z[row + 2, j + c]
    total = 0.0
    for i in range(m):
        s = sines[i] * cosine - cosines[i] * sine
        t = cosines[i] * cosine + sines[i] * sine
        total += bar[i] * (phases[i] - phase) * s * t
    return total


@compiled(fastmath={"contract", "reassoc"})
def pull_leaf(
    table, loops, params, wanted, k, Z, j, m, w, bar, value, h, u, head, sums, crossed, slopes
):  # fmt: skip
    """Add the derivatives of a leaf for a panel to ``slopes``; ``bar`` is used up."""
    kind, row, p, first = table[k, KIND], table[k, ROW], table[k, N_COLUMNS], table[k, SCALE]
    n_scales, amplitude, extra = table[k, N_SCALES], table[k, AMPLITUDE], table[k, EXTRA]
    if amplitude >= 0 and wanted[amplitude]:
        slopes[amplitude] += 2.0 * _dot(bar, value)
    own = extra >= 0 and wanted[extra]
    if kind > MISMATCHES or (n_scales == 1 and not wanted[first] and not own):
        return
    _call_loop(table, loops, params, k, SLOPES, 1.0 if own else 0.0, head, h, value, u, bar)
    if own and kind == PHASES:
        rate = 4.0 * np.exp(-2.0 * params[first])
        for c in range(w):
            slopes[extra] += rate * _period_slope(bar[c * m : c * m + m], Z, row, j, c, m)
    elif own:
        slopes[extra] += head[OWN_SLOPE]
    if n_scales == 1:
        degree = 2.0 if kind == INNER_PRODUCTS else (0.5 if kind == MISMATCHES else 1.0)
        slopes[first] += degree * head[SCALE_SLOPE]
    elif kind == MISMATCHES:
        for d in range(p):
            rate = np.exp(-params[first + d])
            for c in range(w):
                at, total = Z[row + d, j + c], 0.0
                for i in range(m):
                    total += bar[c * m + i] if Z[row + d, j + i] != at else 0.0
                slopes[first + d] += rate * total
    elif kind == INNER_PRODUCTS:
        for c in range(w):
            for d in range(p):
                x = Z[row + d, j : j + m]
                slopes[first + d] += 2.0 * Z[row + d, j + c] * _dot(bar[c * m : c * m + m], x)
    elif p <= DIRECT:
        for c in range(w):
            for d in range(p):
                slopes[first + d] += _dot_of_squares(bar, c * m, Z, row + d, j, m, j + c)
    else:  # sum_ij W_ij (z_i - z_j)^2 = sum_i z_i^2 (W 1)_i - 2 sum_j z_j (sum_i W_ij z_i)
        rows, slot = sums[table[k, SLOT]], crossed[table[k, SLOT]]
        for c in range(w):
            _dots(bar, c * m, Z, row, p, j, m, j + c, rows, slot)


# Compiled passes over the tape of a covariance expression: values, cross covariances, and the adjoint.
#
# A tape is a table of whole numbers, one row a node, children before parents, the root last (`Tape` builds
# it). A pass goes panel by panel, a few columns of the matrix at a time: every node's values go into a
# flat buffer that stays in cache, leaves as loops over flat numbers, sums and products combining buffers.
# The adjoint evaluates each panel again and walks the tape backwards; so there is no n x n work array, and
# nothing is compiled for a new expression.
#
# Matrices are (column, row); of symmetric ones the lower triangle counts. Panels are rectangles: the
# numbers they cover above the diagonal are overwritten.


@compiled(fastmath={"contract"})
def _combine(product, a, b, out):
    if product:
        for i in range(out.size):
            out[i] = a[i] * b[i]
    else:
        for i in range(out.size):
            out[i] = a[i] + b[i]


@compiled(fastmath={"contract"})
def _seed(S, shift, j, w, m, out):
    """Adjoint of the root: of K_ij for i > j both triangles, nothing above the diagonal."""
    top, size = np.uint64(j), np.uint64(m)
    for c in range(w):
        k, begin = np.uint64(j + c), np.uint64(c * m)
        for i in range(size):
            out[begin + i] = 2.0 * S[k, top + i]
        for i in range(np.uint64(c)):
            out[begin + i] = 0.0
        out[c * m + c] = S[j + c, j + c] + shift


@compiled
def sweep(
    mode, table, loops, params, wanted, Zr, Zc, source, change, old, slots, given, twins, K, jitter, shift,
    matrix, slopes,
):  # fmt: skip
    """One pass over all panels.

    FILL writes K into the lower triangle of ``matrix``, diagonals of nodes with JITTER times 1 + ``jitter``,
    and returns its trace; CROSS the covariances of all cases (rows of Zr) with those of Zc into ``matrix``
    (new case, case), without jitter; DIAGONAL the prior variances into matrix[0], with it. ADJOINT adds
    sum_ij S_ij dK_ij / d params_k to ``slopes`` for S = ``matrix`` plus ``shift`` times I, and leaves the
    adjoint of each given matrix in ``twins``.

    ``source`` says for each node where its distances come from: the inputs, its slot of ``old``, that slot
    changed by ``change`` times the squared differences of the last row of Z, or that slot over l^2. They
    are kept in ``slots``, where that is not empty.
    """
    n_nodes, n, n_columns = table.shape[0], Zr.shape[1], Zc.shape[1]
    head = np.empty(HEAD)
    capacity = max(PANEL, n)
    value, argument = np.empty((n_nodes, capacity)), np.empty((n_nodes, capacity))
    bars = np.empty((n_nodes, capacity) if mode == ADJOINT else (0, 0))
    owner = np.empty(n_nodes, dtype=np.int64)
    second = np.empty((n_nodes, capacity))
    n_slots = old.shape[0] if mode == ADJOINT else 0
    sums, crossed = np.zeros((n_slots, n)), np.zeros((n_slots, Zr.shape[0]))
    # A plain 0 is a type of its own to Numba, which would compile the loops below for it, too.
    root, trace, zero = n_nodes - 1, 0.0, np.int64(0)
    j = zero
    while j < n_columns:
        top = zero if mode == CROSS else j
        m = 1 if mode == DIAGONAL else n - top
        w = 1 if mode == DIAGONAL else min(max(1, PANEL // m), n_columns - j)
        size = w * m
        for k in range(n_nodes):
            if table[k, KIND] >= SUM:
                _combine(
                    table[k, KIND] == PRODUCT, value[table[k, LEFT], :size],
                    value[table[k, RIGHT], :size], value[k, :size],
                )  # fmt: skip
            else:
                leaf_values(
                    table, loops, params, k, Zr, Zc, top, m, j, w, mode, source, change, old, slots,
                    given, K, jitter, head, value[k], argument[k], second[k],
                )  # fmt: skip
            if table[k, JITTER] == 1 and mode in (FILL, DIAGONAL):
                for c in range(w):
                    value[k, c * m + c] *= 1.0 + jitter
        if mode == ADJOINT:
            _seed(matrix, shift, j, w, m, bars[root])
            owner[root] = root
            for k in range(n_nodes - 1, -1, -1):
                bar = bars[owner[k], :size]
                if table[k, JITTER] == 1:
                    for c in range(w):
                        bar[c * m + c] *= 1.0 + jitter
                if table[k, KIND] == SUM:
                    # one child may use its buffer up, so the other has its own
                    left, right = table[k, LEFT], table[k, RIGHT]
                    owner[left], owner[right] = owner[k], right
                    for i in range(size):
                        bars[right, i] = bar[i]
                elif table[k, KIND] == PRODUCT:
                    left, right = table[k, LEFT], table[k, RIGHT]
                    owner[left], owner[right] = owner[k], right
                    _combine(True, bar, value[left, :size], bars[right, :size])
                    _combine(True, bar, value[right, :size], bar)
                elif table[k, KIND] == GIVEN:
                    amplitude, variance = table[k, AMPLITUDE], 1.0
                    if amplitude >= 0:
                        variance = np.exp(2.0 * params[amplitude])
                        slopes[amplitude] += 2.0 * _dot(bar, value[k, :size])
                    for c in range(w):
                        for i in range(m):
                            twins[table[k, SLOT], j + c, j + i] = variance * bar[c * m + i]
                else:
                    pull_leaf(
                        table, loops, params, wanted, k, Zr, j, m, w, bar, value[k, :size],
                        argument[k, :size], second[k, :size], head, sums, crossed, slopes,
                    )  # fmt: skip
        else:
            for c in range(w):
                at, first = (0, j) if mode == DIAGONAL else (j + c, top)
                put(value[root], c * m, m, matrix, at, first)
                if mode == FILL:
                    trace += matrix[j + c, j + c]
        j += w
    if mode == ADJOINT:
        for k in range(n_nodes):
            slot, p = table[k, SLOT], table[k, N_COLUMNS]
            if slot >= 0 and table[k, KIND] == DISTANCES and table[k, N_SCALES] > 1 and p > DIRECT:
                for d in range(p):
                    z = Zr[table[k, ROW] + d]
                    total = 0.0
                    for i in range(n):
                        total += z[i] * z[i] * sums[slot, i]
                    slopes[table[k, SCALE] + d] += total - 2.0 * crossed[slot, d]
    return trace


@compiled
def prepare(table, columns, params, source, Xt, centre, Z):
    """Fill the rows of Z (rows, n) that the leaves read, from X' (p, n); O(n p).

    Stationary leaves: (x - centre) / l, unless their slot has all that is needed; linear and polynomial
    ones: x sd; periodic ones: sine, cosine and value of pi x / p; the others: codes.
    """
    n = Xt.shape[1]
    for k in range(table.shape[0]):
        kind, row, first = table[k, KIND], table[k, ROW], table[k, SCALE]
        if source[k] == SCALED:
            continue
        if kind == PHASES:
            rate = np.pi * np.exp(-params[table[k, EXTRA]])
            x = Xt[columns[row]]
            for i in range(n):
                v = rate * (x[i] - centre[columns[row]])
                Z[row, i], Z[row + 1, i], Z[row + 2, i] = np.sin(v), np.cos(v), v
            continue
        for d in range(table[k, N_COLUMNS]):
            x, middle = Xt[columns[row + d]], centre[columns[row + d]]
            place = first + (d if table[k, N_SCALES] > 1 else 0)
            if kind == DISTANCES:
                rate = np.exp(-params[place])
                for i in range(n):
                    Z[row + d, i] = rate * (x[i] - middle)
            elif kind == INNER_PRODUCTS:
                rate = np.exp(params[place])
                for i in range(n):
                    Z[row + d, i] = rate * x[i]
            else:
                for i in range(n):
                    Z[row + d, i] = x[i]
