"""Distributions of positive numbers q in closed form, as densities of u = log q, for fast hyperpriors.

Standard forms, with loc = 0 and scale = 1, of the scipy.stats distribution of the same name. In terms of u
nothing underflows near zero, and what is near an upper end of 1 keeps its digits. Tests compare with mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

_TINY = 1e-17  # below it the lower tail is c q^a for a gamma and a beta, to all digits
_LOG_2_PI = np.log(2.0 / np.pi)
_SQRT_2 = np.sqrt(2.0)


class Family(NamedTuple):
    """What a hyperprior asks of a distribution; each function takes its shape parameters last."""

    log_quantile: Callable  #: u at the probabilities (below, above) it, each exact in its own tail
    log_density: Callable  #: log density of u
    tails: Callable  #: probabilities (below, above) of u


def _gamma_log_quantile(below, above, a):
    q = np.where(below < above, special.gammaincinv(a, below), special.gammainccinv(a, above))
    return np.where(q < _TINY, (np.log(below) + special.gammaln(a + 1.0)) / a, np.log(q))


def _gamma_log_density(u, a):
    return a * u - np.exp(u) - special.gammaln(a)


def _gamma_tails(u, a):
    q = np.exp(u)
    tiny = np.exp(a * u - special.gammaln(a + 1.0))
    return np.where(q < _TINY, tiny, special.gammainc(a, q)), special.gammaincc(a, q)


def _beta_log_quantile(below, above, a, b):
    low, high = special.betaincinv(a, b, below), special.betaincinv(b, a, above)
    tail = (np.log(below * a) + special.betaln(a, b)) / a
    high = np.where(high < 1e-300, 0.0, high)  # in the place of the least number there is
    return np.where(low < _TINY, tail, np.where(low < 0.5, np.log(low), np.log1p(-high)))


def _beta_log_density(u, a, b):
    return a * u + special.xlogy(b - 1.0, -np.expm1(u)) - special.betaln(a, b)


def _beta_tails(u, a, b):
    q, rest = np.exp(np.minimum(u, 0.0)), -np.expm1(np.minimum(u, 0.0))
    tail = np.exp(a * u - special.betaln(a, b)) / a
    return np.where(q < _TINY, tail, special.betainc(a, b, q)), special.betainc(b, a, rest)


def _halfnorm_log_quantile(below, above):
    return np.log(
        np.where(below < above, _SQRT_2 * special.erfinv(below), -special.ndtri(0.5 * above))
    )


def _halfcauchy_log_quantile(below, above):
    tangent = np.log(np.tan(0.5 * np.pi * np.minimum(below, above)))
    return np.where(below < above, tangent, -tangent)


_GAMMA = Family(_gamma_log_quantile, _gamma_log_density, _gamma_tails)

FAMILIES = {
    "gamma": _GAMMA,
    "invgamma": Family(
        lambda below, above, a: -_gamma_log_quantile(above, below, a),
        lambda u, a: _gamma_log_density(-u, a),
        lambda u, a: _gamma_tails(-u, a)[::-1],
    ),
    "expon": Family(
        lambda below, above: np.log(np.where(below < above, -np.log1p(-below), -np.log(above))),
        lambda u: u - np.exp(u),
        lambda u: (-np.expm1(-np.exp(u)), np.exp(-np.exp(u))),
    ),
    "beta": Family(_beta_log_quantile, _beta_log_density, _beta_tails),
    "uniform": Family(
        lambda below, above: np.where(below < above, np.log(below), np.log1p(-above)),
        lambda u: u,
        lambda u: (np.exp(np.minimum(u, 0.0)), -np.expm1(np.minimum(u, 0.0))),
    ),
    "halfnorm": Family(
        _halfnorm_log_quantile,
        lambda u: u - 0.5 * np.exp(2.0 * u) + 0.5 * _LOG_2_PI,
        lambda u: (special.erf(np.exp(u) / _SQRT_2), special.erfc(np.exp(u) / _SQRT_2)),
    ),
    "halfcauchy": Family(
        _halfcauchy_log_quantile,
        lambda u: u - np.logaddexp(0.0, 2.0 * u) + _LOG_2_PI,
        lambda u: (2.0 / np.pi * np.arctan(np.exp(u)), 2.0 / np.pi * np.arctan(np.exp(-u))),
    ),
}
