"""The quadrature of `tilted`, compiled, one case after the other.

A likelihood gives its derivatives as a loop over the nodes of one case, `FactorLoop`; the rules are those of
`tilted`, where they are explained, with as many nodes as a case needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.core.ccallback import CFunc

from gpmcflow.numerics.code_cache import compiled, compiled_callback
from gpmcflow.numerics.lapack import call

# Relative errors of all are below 1e-8 for cavity variances 1e-6 to 1e6 (tests/likelihoods/test_tilted.py).
STEP = 0.1  # of t, between nodes
SPACING = 0.6  # of nodes far from the bend, in cavity standard deviations
REACH = 8.4  # cavity standard deviations beyond mode and bend
FAR = 38.0  # a bend this many from the mode gives less than 1e-300
FARTHEST = 4.0  # cavity standard deviations of a mode that panels around the mean resolve
PANELS, ORDER = 16, 12  # a side of each place of a factor that is not log-concave; nodes a panel
_LEGENDRE = np.polynomial.legendre.leggauss(ORDER)
_X, _W = _LEGENDRE
_SIGNATURE = types.void(*[types.CPointer(types.float64)] * 6)


class FactorLoop(NamedTuple):
    """log p of one case and its derivatives at many predictors, as a loop for `numba.cfunc`.

    ``loop(head, eta, out, y, constants, phi)`` takes pointers to float64: head holds the number m of
    predictors, the case i and the number n of cases, eta the predictors; out (4, m), row by row, gets log p
    up to ``constant`` and its derivatives 1, 2, 3; constants is (k, n) row by row.
    """

    loop: Callable
    constants: np.ndarray  #: (k, n)
    phi: np.ndarray  #: numbers that are the same for all cases
    constant: np.ndarray  #: what does not depend on eta, (n,)


@cache
def _compiled(loop: Callable) -> CFunc:
    """Compile a likelihood's own loop, once in a process."""
    return compiled_callback(loop, _SIGNATURE, fastmath={"contract"})


def shapes(
    factors: FactorLoop,
    log_concave: bool,
    places: tuple[np.ndarray, np.ndarray] | None,
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """log Z, alpha, tilted over cavity variance, and r where that ratio is near 1, else nan, (4, n).

    As `tilted.tilted_shape`; without places by the rule of one bend, else by that of panels.
    """
    n = len(y)
    centres, widths = (np.empty((0, n)),) * 2 if places is None else map(np.atleast_2d, places)
    arrays = (
        np.ascontiguousarray(array, dtype=np.float64)
        for array in (y, *factors[1:], mean, variance, centres, widths)
    )
    out = np.empty((4, n))
    one_bend = log_concave and places is None
    _shapes(_compiled(factors.loop).address, *arrays, one_bend, log_concave, out)
    return out


@compiled
def _at(address, head, x, node, four, y, constants, phi):
    """Derivatives 0 to 3 at one predictor, in ``four``."""
    head[0] = 1.0
    node[0] = x
    call(address, (head, node, four, y, constants, phi))


@compiled
def _mode(address, head, node, four, y, constants, phi, mean, variance):
    """As `tilted.tilted_mode`."""
    _at(address, head, mean, node, four, y, constants, phi)
    side = np.sign(four[1])
    reach = np.sqrt(variance)
    for _ in range(60):
        _at(address, head, mean + side * reach, node, four, y, constants, phi)
        if not side * (side * reach / variance - four[1]) < 0.0:
            break
        reach *= 2.0
    low, high = mean + min(0.0, side * reach), mean + max(0.0, side * reach)
    eta, last = mean, high - low
    for _ in range(200):
        _at(address, head, eta, node, four, y, constants, phi)
        slope = (eta - mean) / variance - four[1]
        if slope < 0.0:
            low = eta
        elif slope > 0.0:
            high = eta
        precision = 1.0 / variance - four[2]
        step = -slope / precision
        inside = low < eta + step < high
        newton = (inside and abs(step) < 0.5 * last) or slope == 0.0
        following = eta + step if newton else 0.5 * (low + high)
        last = abs(following - eta)
        eta = following
        if last <= 1e-3 / np.sqrt(precision):
            break
    return eta


@compiled
def _rough_mode(address, head, node, four, y, constants, phi, mean, variance):
    """As `tilted._rough_mode`, for a factor that may have several modes."""
    _at(address, head, mean, node, four, y, constants, phi)
    side, sd = np.sign(four[1]), np.sqrt(variance)
    reach = sd
    for _ in range(60):
        _at(address, head, mean + side * reach, node, four, y, constants, phi)
        if not side * (side * reach / variance - four[1]) < 0.0:
            break
        reach *= 2.0
    low, high = min(0.0, side * reach), max(0.0, side * reach)
    while high - low > sd:
        middle = 0.5 * (low + high)
        _at(address, head, mean + middle, node, four, y, constants, phi)
        if middle / variance - four[1] < 0.0:
            low = middle
        else:
            high = middle
    return mean + 0.5 * (low + high)


@compiled
def _bend(address, head, node, four, y, constants, phi, mode, low, high):
    """As `tilted._bend`."""
    _at(address, head, low, node, four, y, constants, phi)
    first, curved = four[1], four[2]
    _at(address, head, high, node, four, y, constants, phi)
    last, curved_too = four[1], four[2]
    if np.isfinite(first) and first - last <= 1e-13 * abs(first):
        return (low if curved < curved_too else high), np.inf
    _at(address, head, mode, node, four, y, constants, phi)
    centre, unit, bend, width = four[1], 1.0, mode, 1.0
    for _ in range(2):
        level = min(max(0.5 * (first + last), centre - unit), centre + unit)
        left, right, above, below = low, high, first, last
        for _ in range(100):
            bend = 0.5 * (left + right)
            _at(address, head, bend, node, four, y, constants, phi)
            curvature, chord = -four[2], (above - below) / (right - left)
            if not curvature >= chord:  # the larger one, or the one that is a number
                curvature = chord if chord == chord else curvature
            width = 1.0 / np.sqrt(curvature)
            whole = 0.5 * (first - last) / curvature
            if not width <= whole:
                width = whole if whole == whole else width
            if not right - left > 0.2 * width:
                break
            if four[1] > level:
                left, above = bend, four[1]
            else:
                right, below = bend, four[1]
        ratio = abs(four[3] / four[2])
        unit = max(1.0, ratio) if np.isfinite(ratio) else 1.0
        if not unit > 2.0:
            break
    return bend, width


@compiled
def _panel_edges(mean, mode, sd, centres, widths, i, edges):
    """Edges of the panels of one case, sorted; how many."""
    count = 0
    for k in range(11):
        edges[count] = mean + sd * (2.0 * k - 10.0)
        count += 1
    if abs(mode - mean) > FARTHEST * sd:
        for k in range(11):
            edges[count] = mode + sd * (2.0 * k - 10.0)
            count += 1
    for place in range(centres.shape[0]):
        width = widths[place, i]
        growth = np.arcsinh(max(12.0, 10.0 * sd / width)) / PANELS
        for k in range(-PANELS, PANELS + 1):
            edges[count] = centres[place, i] + width * np.sinh(k * growth)
            count += 1
    for k in range(1, count):  # a few sorted runs, sorted by insertion
        edge, j = edges[k], k
        while j > 0 and edges[j - 1] > edge:
            edges[j] = edges[j - 1]
            j -= 1
        edges[j] = edge
    return count


@compiled
def _shapes(
    address, y, constants, phi, constant, mean, variance, centres, widths, one_bend, log_concave, out
):  # fmt: skip
    n = y.size
    head, node, four = np.array([1.0, 0.0, float(n)]), np.empty(1), np.empty(4)
    edges = np.empty(22 + centres.shape[0] * (2 * PANELS + 1))
    size = max(1024, edges.size * ORDER)
    eta, weight, values = np.empty(2 * size), np.empty(size), np.empty(4 * size)
    for i in range(n):
        head[1] = float(i)
        mu, v = mean[i], variance[i]
        sd = np.sqrt(v)
        if one_bend:
            mode = _mode(address, head, node, four, y, constants, phi, mu, v)
            low, high = min(mu, mode) - FAR * sd, max(mu, mode) + FAR * sd
            bend, w = _bend(address, head, node, four, y, constants, phi, mode, low, high)
            s = SPACING * sd / STEP
            origin = min(max(bend, mode - FAR * sd), mode + FAR * sd)
            w = min(w, s) if origin == bend and w == w else s
            first = np.arcsinh(s / w * np.sinh((min(origin, mode) - REACH * sd - origin) / s))
            last = np.arcsinh(s / w * np.sinh((max(origin, mode) + REACH * sd - origin) / s))
            if not np.isfinite(last - first):  # where no derivative is a number
                out[:, i] = np.nan
                continue
            m = int(np.ceil((last - first) / STEP)) + 1
            if m > size:
                size = 2 * m
                eta, weight, values = np.empty(2 * size), np.empty(size), np.empty(4 * size)
            step = (last - first) / (m - 1)
            power, growth = np.exp(first), np.exp(step)
            for k in range(m):  # eta = origin + s asinh(x), x = w / s sinh t
                inverse = 1.0 / power
                x = 0.5 * w / s * (power - inverse)
                root = np.sqrt(1.0 + x * x)
                distance = s * np.log1p(abs(x) + x * x / (1.0 + root))
                eta[k] = origin + (distance if x >= 0.0 else -distance)
                weight[k] = 0.5 * step * w * (power + inverse) / root
                power *= growth
        else:
            origin, m = mu, 0
            if log_concave:
                mode = _mode(address, head, node, four, y, constants, phi, mu, v)
            else:
                mode = _rough_mode(address, head, node, four, y, constants, phi, mu, v)
            count = _panel_edges(mu, mode, sd, centres, widths, i, edges)
            for panel in range(count - 1):
                middle = 0.5 * (edges[panel] + edges[panel + 1])
                half = 0.5 * (edges[panel + 1] - edges[panel])
                for k in range(ORDER):
                    eta[m] = middle + half * _X[k]
                    weight[m] = half * _W[k]
                    m += 1
        head[0] = float(m)
        call(address, (head, eta, values, y, constants, phi))
        values[:m] += constant[i]
        _moments(i, m, origin, mu, v, log_concave, eta, weight, values, out)


@compiled
def _moments(i, m, origin, mu, v, log_concave, eta, weight, values, out):
    """What `tilted.tilted_nodes` and `tilted_shape` make of the nodes of one case."""
    constant = -0.5 * (origin - mu) ** 2 / v
    top = largest = -np.inf
    cavity = values[3 * m : 4 * m]  # third derivatives have no use
    for k in range(m):
        # relative to the origin: squares over a small variance would round away log p
        away = eta[k] - origin
        cavity[k] = -0.5 * away * (away + 2.0 * (origin - mu)) / v
        top = max(top, values[k] + cavity[k])
        largest = max(largest, values[k])
    total, heaviest, best = 0.0, 0, -1.0
    share = eta[m : 2 * m]
    for k in range(m):
        share[k] = weight[k] * np.exp(values[k] + cavity[k] - top)
        total += share[k]
        if share[k] > best:
            heaviest, best = k, share[k]
    scale = np.sqrt(2.0 * np.pi * v)
    log_z = constant + top + np.log(total / scale)
    if abs(log_z) < 1e-3 and largest <= 0.0:
        lost = 0.0
        for k in range(m):
            lost += weight[k] * np.exp(constant + cavity[k]) * np.expm1(values[k])
        log_z = np.log1p(max(lost / scale, -0.5))
    # from the slope where the weight is largest: else rounding hides a variance far below its square
    peak = values[m + heaviest]
    shift = size = slope = steep = curvature = curved = deviation = 0.0
    for k in range(m):
        mass = share[k] / total
        if mass == 0.0:  # far off, where rates may be infinite
            continue
        away, own, bent = eta[k] - mu, values[m + k], values[2 * m + k]
        shift += mass * away
        size += mass * abs(away)
        slope += mass * own
        steep += mass * abs(own)
        curvature += mass * bent
        curved += mass * abs(bent)
        deviation += mass * (own - peak)
    square = spread = 0.0
    for k in range(m):
        mass = share[k] / total
        if mass == 0.0:
            continue
        square += mass * (eta[k] - mu - shift) ** 2
        spread += mass * (values[m + k] - peak - deviation) ** 2
    shrink, flat = square / v, -curvature - spread
    by_variance = 1.0 + shrink < v * (curved + spread)
    if log_concave:
        shrink, flat = min(shrink, 1.0), max(flat, 0.0)
    out[0, i] = log_z
    out[1, i] = shift / v if size < 0.5 * v * steep else slope
    out[2, i] = shrink
    out[3, i] = np.nan if by_variance else flat
