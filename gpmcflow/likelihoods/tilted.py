"""Moments of tilted distributions N(eta; mean, variance) p(y | eta) by quadrature.

A log-concave factor is smooth but for one bend (logistic: 0; Poisson: the edge where the rate ends
it), which may lie many cavity deviations away from the tilted mode and be far narrower than they
are; where p is nearly 1 or exponential, the derivatives of log Z come from there alone. So the
nodes are those of a trapezoid rule in t with

    eta = b + s asinh((w / s) sinh t),

whose spacing is w near the bend b, grows with the distance from it, and ends at the scale s of the
cavity: all is analytic, so the rule converges exponentially. It reaches over mode and bend.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.likelihoods.sites import bracket
from gpmcflow.likelihoods.tilted_loops import (
    FAR,
    FARTHEST,
    ORDER,
    PANELS,
    REACH,
    SPACING,
    STEP,
    shapes,
)
from gpmcflow.numerics.code_cache import compiled

if TYPE_CHECKING:
    from gpmcflow.likelihoods.base import Likelihood


def tilted_moments(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log normaliser of the tilted distribution N(eta; mean, variance) p(y | eta), elementwise.

    Returns log Z, alpha = d log Z / d mean and r = -d^2 log Z / d mean^2. The tilted mean is
    mean + variance alpha and the tilted variance is variance (1 - variance r).
    """
    log_z, alpha, shrink, flat = tilted_shape(likelihood, y, mean, variance)
    r = np.where(np.isfinite(flat), flat, (1.0 - shrink) / variance)
    return log_z, alpha, np.minimum(r, (1.0 - 1e-13) / variance)


def tilted_site(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """alpha, and 1 / tilted - 1 / cavity variance without cancellation, elementwise."""
    _, alpha, shrink, flat = tilted_shape(likelihood, y, mean, variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = (1.0 - shrink) / (shrink * variance)
        return alpha, np.where(np.isfinite(flat), flat / (1.0 - variance * flat), narrow)


def tilted_shape(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """log Z, alpha, tilted over cavity variance, and r where that ratio is near 1, else nan.

    alpha is E[l'] or E[eta - mean] / variance, r is E[-l''] - Var(l') or (1 - tilted over cavity
    variance) / variance under the tilted distribution, whichever sum has the smaller terms. Compiled where
    the likelihood has a loop of its derivatives.
    """
    factors = likelihood.factor_loop(y)
    if factors is not None:
        places = _places(likelihood, y)
        log_z, alpha, shrink, flat = shapes(
            factors, likelihood.log_concave, places, y, mean, variance
        )
        return log_z, alpha, shrink, flat
    log_z, weight, eta, (slope, curvature) = tilted_nodes(likelihood, y, mean, variance)
    far = weight == 0.0  # where rates may be infinite
    slope, curvature = np.where(far, 0.0, slope), np.where(far, 0.0, curvature)

    def expect(values: np.ndarray) -> np.ndarray:
        return np.einsum("i...,i...->...", weight, values)

    # from the slope where the weight is largest: else rounding hides a variance far below its square
    deviation = slope - np.take_along_axis(slope, weight.argmax(0)[None], 0)
    deviation = np.where(far, 0.0, deviation - expect(np.where(far, 0.0, deviation)))
    away = eta - mean
    shift, spread = expect(away), expect(deviation**2)
    by_mean = expect(np.abs(away)) < 0.5 * variance * expect(np.abs(slope))
    alpha = np.where(by_mean, shift / variance, expect(slope))
    shrink = expect((away - shift) ** 2) / variance
    by_variance = 1.0 + shrink < variance * (expect(np.abs(curvature)) + spread)
    flat = -expect(curvature) - spread
    if likelihood.log_concave:
        shrink, flat = np.minimum(shrink, 1.0), np.maximum(flat, 0.0)
    return log_z, alpha, shrink, np.where(by_variance, np.nan, flat)


_last_places: tuple = (None, np.empty(0), None)  # likelihood, outcomes, places


def _places(likelihood: Likelihood, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """`Likelihood.places`, kept until the next question: EP asks the same at every one of its steps."""
    global _last_places
    of, outcomes, places = _last_places
    if of is not likelihood or not np.array_equal(outcomes, y):
        places = likelihood.places(y)
        _last_places = likelihood, np.array(y), places
    return places


def tilted_cumulants(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
) -> np.ndarray:
    """Cumulants 3..order of the tilted distribution, shape (order - 2, n)."""
    _, weight, eta, _ = tilted_nodes(likelihood, y, mean, variance)
    deviation = eta - (weight * eta).sum(0)
    central = np.stack([(weight * deviation**k).sum(0) for k in range(order + 1)])
    return central_moments_to_cumulants(central)[3 : order + 1]


def tilted_nodes(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Log Z (n,), weights that sum to one and nodes (m, n) of the tilted distribution, and l', l''."""
    places = _places(likelihood, y)
    one_bend = likelihood.log_concave and places is None
    with np.errstate(over="ignore", under="ignore"):
        if one_bend:
            origin, eta, width = _bend_rule(likelihood, y, mean, variance)
        else:
            origin, eta, width = _panel_rule(likelihood, y, places, mean, variance)
        log_p, slope, curvature, _ = likelihood.derivatives(eta, y)
        # relative to the origin: squares over a small variance would round away what log p says
        log_cavity = -0.5 * (eta - origin) * (eta - origin + 2.0 * (origin - mean)) / variance
        constant = -0.5 * (origin - mean) ** 2 / variance
        top = (log_p + log_cavity).max(0)
        weight = width * np.exp(log_p + log_cavity - top)
        total = weight.sum(0)
        scale = np.sqrt(2.0 * np.pi * variance)
        log_z = constant + top + np.log(total / scale)
        near_one = (np.abs(log_z) < 1e-3) & (log_p.max(0) <= 0.0)
        if near_one.any():
            lost = (width * np.exp(constant + log_cavity) * np.expm1(log_p)).sum(0) / scale
            log_z = np.where(near_one, np.log1p(np.maximum(lost, -0.5)), log_z)
    return log_z, weight / total, eta, (slope, curvature)


def _bend_rule(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An origin (n,), nodes and their widths (m, n) for a log-concave factor, by this module's map."""
    sd = np.sqrt(variance)
    mode = tilted_mode(likelihood, y, mean, variance)
    low, high = np.minimum(mean, mode) - FAR * sd, np.maximum(mean, mode) + FAR * sd
    bend, w = _bend(likelihood, y, mode, low, high)
    s = SPACING * sd / STEP
    near = np.clip(bend, mode - FAR * sd, mode + FAR * sd)
    w = np.where(near == bend, np.minimum(w, s), s)
    ends = np.minimum(near, mode) - REACH * sd, np.maximum(near, mode) + REACH * sd
    low, high = (np.arcsinh(s / w * np.sinh((end - near) / s)) for end in ends)
    m = int(np.ceil(((high - low) / STEP).max())) + 1
    t = np.linspace(low, high, m)
    k = w / s * np.sinh(t)
    width = (high - low) / (m - 1) * w * np.cosh(t) / np.sqrt(1.0 + k**2)
    return near, near + s * np.arcsinh(k), width


def _bend(
    likelihood: Likelihood, y: np.ndarray, mode: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where a log-concave factor bends (n,), and over which width: inside [low, high].

    There l' is halfway between its values at the ends, or one unit from that at the mode if this is
    nearer (one over the factor's own scale where l'' changes faster).
    """
    (first, curved), (last, curved_too) = (
        likelihood.derivatives(end, y)[1:3] for end in (low, high)
    )
    with np.errstate(invalid="ignore"):  # a slope may be infinite at either end
        straight = np.isfinite(first) & (first - last <= 1e-13 * np.abs(first))
    # where it is, the bend is beyond the end that curves more
    centre, unit = likelihood.derivatives(mode, y)[1], 1.0
    with np.errstate(all="ignore"):
        for _ in range(2):
            level = np.clip(0.5 * (first + last), centre - unit, centre + unit)
            left, right, above, below, width = low, high, first, last, 0.0
            for _ in range(100):
                bend = 0.5 * (left + right)
                _, slope, second, third = likelihood.derivatives(bend, y)
                curvature = np.fmax(-second, (above - below) / (right - left))
                width = np.fmin(1.0 / np.sqrt(curvature), 0.5 * (first - last) / curvature)
                wide = (right - left > 0.2 * width) & ~straight
                if not wide.any():
                    break
                after = wide & (slope > level)
                left, above = np.where(after, (bend, slope), (left, above))
                right, below = np.where(wide & ~after, (bend, slope), (right, below))
            unit = np.nan_to_num(np.maximum(1.0, np.abs(third / second)), nan=1.0, posinf=1.0)
            if not np.any((unit > 2.0) & ~straight):
                break
    end = np.where(curved < curved_too, low, high)
    return np.where(straight, end, bend), np.where(straight, np.inf, width)


def _panel_rule(
    likelihood: Likelihood,
    y: np.ndarray,
    places: tuple[np.ndarray, np.ndarray] | None,
    mean: np.ndarray,
    variance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Origin, nodes and widths for any other factor: Gauss-Legendre panels around the cavity and its places.

    They cover mean +- 10 sd and each place +- 12 widths, and grow with the distance from the place. A factor
    that falls like an exponential far from its places moves the tilted mode away from both: then this +- 10
    sd, too.
    """
    sd = np.sqrt(variance)
    cavity = sd * np.linspace(-10.0, 10.0, 11)[:, None]
    edges = [mean + cavity]
    mode = _rough_mode(likelihood, y, mean, variance)
    if np.any(np.abs(mode - mean) > FARTHEST * sd):
        edges.append(mode + cavity)
    if places is not None:
        for centre, width in zip(*map(np.atleast_2d, places), strict=True):
            growth = np.arcsinh(np.maximum(12.0, 10.0 * sd / width)) / PANELS
            edges.append(centre + width * np.sinh(np.arange(-PANELS, PANELS + 1)[:, None] * growth))
    edges = np.sort(np.concatenate(edges), axis=0)
    x, weight = np.polynomial.legendre.leggauss(ORDER)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
    shape = (-1, *np.shape(mean))
    nodes = (middle[:, None] + half[:, None] * x[:, None]).reshape(shape)
    return mean, nodes, (half[:, None] * weight[:, None]).reshape(shape)


def _rough_mode(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """A mode of a tilted distribution to half a cavity deviation, by bisection; there may be others."""

    def slope(f: np.ndarray) -> np.ndarray:
        return f / variance - likelihood.gradient(mean + f, y)

    low, high = bracket(slope, np.zeros_like(mean), variance)
    while np.any(high - low > np.sqrt(variance)):
        middle = 0.5 * (low + high)
        rising = slope(middle) < 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return mean + 0.5 * (low + high)


def tilted_mode(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Solve (eta - mean) / variance = l'(eta), to 1e-3 of the tilted width, for a log-concave factor.

    The left side minus the right is increasing, so a bracket grows from the mean until the sign
    changes. Where a Newton step leaves the bracket or is not half the step before (far up an
    exponential it is 1, however far), the bracket is halved.
    """
    eta = np.array(mean, dtype=np.float64)
    low, high = bracket(
        lambda f: f / variance - likelihood.derivatives(mean + f, y)[1],
        np.zeros_like(eta),
        variance,
    )
    low, high = mean + low, mean + high
    last = high - low
    for _ in range(200):
        _, first, second, _ = likelihood.derivatives(eta, y)
        slope = (eta - mean) / variance - first
        low, high = np.where(slope < 0, eta, low), np.where(slope > 0, eta, high)
        precision = 1.0 / variance - second
        with np.errstate(invalid="ignore"):  # an infinite rate has no Newton step
            step = -slope / precision
        inside = (eta + step > low) & (eta + step < high)
        newton = (inside & (np.abs(step) < 0.5 * last)) | (slope == 0.0)
        following = np.where(newton, eta + step, 0.5 * (low + high))
        last = np.abs(following - eta)
        eta = following
        if np.all(last <= 1e-3 / np.sqrt(precision)):
            break
    return eta


@compiled
def logistic_moments(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """`tilted_moments` of sigma(y eta) by the same rule with its bend at 0, compiled; shape (3, n)."""
    n = mean.size
    out = np.empty((3, n))
    growth = np.exp(STEP)
    for i in range(n):
        mu, v = y[i] * mean[i], variance[i]
        sd = np.sqrt(v)
        # Newton from the side where it cannot overshoot: sigma is convex below 0 and concave above
        mode = max(mu, 0.0) if mu + 0.5 * v >= 0.0 else min(mu + v, 0.0)
        for _ in range(60):
            q = 1.0 / (1.0 + np.exp(mode))
            step = (mu + v * q - mode) / (1.0 + v * q * (1.0 - q))
            mode += step
            if abs(step) < 0.05 * sd:
                break
        bend = min(max(0.0, mode - FAR * sd), mode + FAR * sd)
        s = SPACING * sd / STEP
        w = min(2.0, s) if bend == 0.0 else s
        low, high = min(bend, mode) - REACH * sd, max(bend, mode) + REACH * sd
        top = min(mode, 0.0) - np.log1p(np.exp(-abs(mode))) - 0.5 * (mode - mu) ** 2 / v
        first = np.floor(np.arcsinh(s / w * np.sinh((low - bend) / s)) / STEP)
        last = np.ceil(np.arcsinh(s / w * np.sinh((high - bend) / s)) / STEP)
        exponential = np.exp(STEP * first)
        total = p_sum = p_square = q_sum = q_square = away = square = lost = 0.0
        for _ in range(int(last - first) + 1):
            k = 0.5 * w / s * (exponential - 1.0 / exponential)
            root = np.sqrt(1.0 + k * k)
            x = np.log(abs(k) + root) * s
            eta = bend + (x if k >= 0.0 else -x)
            width = (exponential + 1.0 / exponential) / root
            exponential *= growth
            e = np.exp(-abs(eta))
            inverse = 1.0 / (1.0 + e)
            exponent = -0.5 * (eta - mu) ** 2 / v - top
            f = width * inverse * np.exp(min(eta, 0.0) + exponent)
            p, q = (inverse, e * inverse) if eta >= 0.0 else (e * inverse, inverse)
            total += f
            p_sum += f * p
            p_square += f * p * p
            q_sum += f * q
            q_square += f * q * q
            away += f * (eta - mode)
            square += f * (eta - mode) ** 2
            if eta >= 0.0:
                lost += f * e
            elif top > -1.0:  # not needed elsewhere
                lost += width * inverse * np.exp(exponent)
        unit = 0.5 * w * STEP / np.sqrt(2.0 * np.pi * v)
        log_z = top + np.log(unit * total)
        out[0, i] = log_z if log_z < -1e-3 else np.log1p(-unit * lost * np.exp(top))
        out[1, i] = y[i] * q_sum / total
        # pq less the variance of p, which is that of q: by the smaller of the two
        one, two = (p_sum, p_square) if p_sum < q_sum else (q_sum, q_square)
        one, two = one / total, two / total
        shrink = (square / total - (away / total) ** 2) / v
        r = one - 2.0 * two + one * one
        if 1.0 + shrink < v * one:
            r = (1.0 - shrink) / v
        out[2, i] = min(max(r, 0.0), (1.0 - 1e-13) / v)
    return out


def central_moments_to_cumulants(central: np.ndarray) -> np.ndarray:
    """Cumulants 0..order from central moments 0..order (leading axis); the first is zero.

    Recursion kappa_k = m_k - sum_{j=1}^{k-1} C(k-1, j-1) kappa_j m_{k-j}.
    """
    cumulants = np.zeros_like(central)
    for k in range(2, len(central)):
        lower = sum(comb(k - 1, j - 1) * cumulants[j] * central[k - j] for j in range(2, k))
        cumulants[k] = central[k] - lower
    return cumulants
