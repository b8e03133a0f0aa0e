"""Tilted moments of a Student-t factor, as the mixture of normals that it is."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.numerics.code_cache import compiled

# Relative errors are below 1e-10 for cavity variances 1e-6 to 1e6 (tests/likelihoods/test_normal_mixture.py).
STEP = 0.25  # of log lambda, between nodes; for large df a share of its standard deviation
NARROW = 0.5
LOST = 40.0  # nats below the largest term
LARGEST_DF = 200.0  # above, so many nodes would be needed that panels are faster


@compiled
def student_t_tilted(y, mean, variance, scale, df, out):
    """log Z, alpha, r and 1 - v r of N(eta; mean, v) times a Student-t density of y, into ``out`` (4, n).

    A Student-t error is normal with variance s^2 / lambda, lambda ~ Gamma(df / 2, rate df / 2). Given lambda
    the tilted distribution is normal: with d = y - mean, sigma^2 = s^2 / lambda and t = 1 / (v + sigma^2),

        Z = E[N(d; 0, v + sigma^2)], alpha = E[d t], r = E[t] - Var(d t),
        1 - v r = E[sigma^2 t] + v Var(d t),

    expectations of the last three under the weights of Z. No difference of large numbers is left. The sum is
    a trapezoid rule in log lambda, where the integrand is analytic and falls off exponentially.

    Source: Andrews & Mallows (1974), for the mixture; Trefethen & Weideman (2014), for the rule.
    """
    weight, slope = np.empty(64), np.empty(64)
    for i in range(y.size):
        d, v, s2, half = y[i] - mean[i], variance[i], scale[i] ** 2, 0.5 * df[i]
        # left of `outlier` and `flat` the factor is a power of lambda with exponent (df + 1) / 2
        outlier = min(0.0, math.log(s2 * (1.0 + 2.0 * half) / (d * d + 1e-300)))
        flat = min(outlier, math.log(s2 / v))
        low = max(outlier - 2.0 - LOST / half, flat - 3.0 - LOST / (half + 0.5))
        high = math.log1p(LOST / half + math.sqrt(2.0 * LOST / half))
        if not math.isfinite(low + high):
            out[:, i] = np.nan
            continue
        step = min(STEP, NARROW / math.sqrt(half + 0.5))
        m = math.ceil((high - low) / step) + 1
        if m > weight.size:
            weight, slope = np.empty(2 * m), np.empty(2 * m)
        step = (high - low) / (m - 1)
        growth, rate, top = math.exp(step), math.exp(low), -np.inf
        for k in range(m):
            u, t = low + k * step, rate / (v * rate + s2)
            slope[k] = t
            weight[k] = half * (u - rate) + 0.5 * math.log(t) - 0.5 * d * d * t
            top = max(top, weight[k])
            rate *= growth
        total = by_t = by_noise = 0.0
        rate = math.exp(low)
        for k in range(m):
            own = math.exp(weight[k] - top)
            weight[k] = own
            total += own
            by_t += own * slope[k]
            by_noise += own * s2 / (v * rate + s2)  # 1 - v t, without the difference
            rate *= growth
        by_t /= total
        by_noise /= total
        spread = 0.0
        for k in range(m):
            spread += weight[k] * (slope[k] - by_t) ** 2
        spread *= d * d / total
        constant = half * math.log(half) - math.lgamma(half) - 0.5 * math.log(2.0 * math.pi)
        out[0, i] = constant + top + math.log(total * step)
        out[1, i] = d * by_t
        out[2, i] = by_t - spread
        out[3, i] = by_noise + v * spread
