"""How hyperpriors are evaluated: normal, uniform, a closed form on the log of the parameter, or SciPy.

A closed form is one of u = log q, where nothing underflows near zero, and what is near an upper end of 1
keeps its digits; its families are the standard forms (loc = 0, scale = 1) of the scipy.stats distributions of
the same names. Tests compare with mpmath. A distribution of a probability is evaluated as one of its log u,
with theta = logit exp(u).

All have `transform`, `quantile`, `log_density` inside the support and `to_normal`, as `Hyperprior` says them.
Those that are ``like`` each other can be stacked into one of arrays. Callers silence NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.special import log_expit, ndtr, ndtri

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
    high = np.where(high < 1e-300, 0.0, high)  # where it came out as the least positive number
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


_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def _normal_log_density(x):
    return -0.5 * x * x - _LOG_SQRT_2PI


def _normal_of(below, above):
    return np.where(below < 0.5, ndtri(np.maximum(below, 0.0)), -ndtri(np.maximum(above, 0.0)))


@dataclass(frozen=True, eq=False)
class _Located:
    stacks = True  # log densities of several at once

    loc: Any  # numbers, or arrays (d,) when stacked
    scale: Any
    shapes: tuple

    def stack(self, forms: Sequence[_Located]) -> _Located:
        loc, scale = (
            np.array([getattr(form, name) for form in forms]) for name in ("loc", "scale")
        )
        shapes = tuple(np.array([form.shapes for form in forms]).T)
        return replace(self, loc=loc, scale=scale, shapes=shapes)


class _Normal(_Located):
    """Theta ~ N(loc, scale^2)."""

    like: Hashable = "normal"

    def transform(self, x):
        return self.loc + self.scale * x, np.full_like(x, self.scale)

    def quantile(self, p):
        return self.loc + self.scale * ndtri(p)

    def log_density(self, theta):
        return _normal_log_density((theta - self.loc) / self.scale) - np.log(self.scale)

    def score(self, theta):
        return -(theta - self.loc) / self.scale**2

    def to_normal(self, theta):
        return (theta - self.loc) / self.scale


class _Uniform(_Located):
    """Theta uniform on (loc, loc + scale)."""

    like: Hashable = "uniform"

    def transform(self, x):
        return self.loc + self.scale * ndtr(x), self.scale * np.exp(_normal_log_density(x))

    def quantile(self, p):
        return self.loc + self.scale * p

    def log_density(self, theta):
        return -np.log(self.scale)

    def score(self, theta):
        return 0.0

    def to_normal(self, theta):
        below = (theta - self.loc) / self.scale
        return _normal_of(below, 1.0 - below)


class _ByTails:
    """From quantiles and log densities `at`, and `tails`, that are exact below and above."""

    def transform(self, x):
        theta, log_p = self.at(ndtr(x), ndtr(-x))
        return theta, np.exp(_normal_log_density(x) - log_p)

    def quantile(self, p):
        return self.at(p, 1.0 - p)[0]

    def to_normal(self, theta):
        return _normal_of(*self.tails(theta))


@dataclass(frozen=True, eq=False)
class _Closed(_ByTails, _Located):
    """One of `FAMILIES`, in u = log((h - loc) / scale) for h = exp(theta), or theta itself."""

    family: str
    natural: bool  # h = exp(theta)
    simple: bool  # and no loc: theta = u + log(scale)

    @property
    def like(self) -> Hashable:
        return self.family, self.natural, self.simple

    def at(self, below, above):
        family = FAMILIES[self.family]
        u = family.log_quantile(below, above, *self.shapes)
        log_p = family.log_density(u, *self.shapes)
        if self.simple:
            return u + np.log(self.scale), log_p
        h = self.loc + self.scale * np.exp(u)
        theta = np.log(h) if self.natural else h
        return theta, log_p + self._log_jacobian(u, theta)

    def _log_jacobian(self, u, theta):  # log |du / dtheta|
        return (theta if self.natural else 0.0) - u - np.log(self.scale)

    def _u(self, theta):
        if self.simple:
            return theta - np.log(self.scale)
        h = np.exp(theta) if self.natural else theta
        return np.log(np.maximum((h - self.loc) / self.scale, 0.0))

    def log_density(self, theta):
        u = self._u(theta)
        log_p = FAMILIES[self.family].log_density(u, *self.shapes)
        return log_p if self.simple else log_p + self._log_jacobian(u, theta)

    def tails(self, theta):
        return FAMILIES[self.family].tails(self._u(theta), *self.shapes)


class _FromSciPy(_ByTails):
    """Any distribution, frozen; on the natural scale it is cut at zero, ``below`` of it being lost.

    F(h) - F(0) has no digits near zero: there it is the integral of the density, by Simpson's rule.
    """

    stacks = False

    def __init__(self, frozen, natural: bool, below: float) -> None:
        self._frozen, self._natural, self._below = frozen, natural, below
        self._near = 1e-4 * below  # so little that the density is a parabola
        self.like: Hashable = (frozen.dist.name, frozen.args, repr(frozen.kwds), natural)

    def stack(self, forms: Sequence[_FromSciPy]) -> _FromSciPy:  # they are equal
        return self

    def at(self, below, above):
        left = 1.0 - self._below
        low, high = self._below + left * below, left * above
        h = np.where(low < high, self._frozen.ppf(low), self._frozen.isf(high))
        if self._below > 0.0:
            h = np.where(left * below < self._near, self._near_zero(left * below), h)
        log_p = self._frozen.logpdf(h)
        if not self._natural:
            return h, log_p
        return np.log(h), log_p + np.log(h) - np.log(left)

    def log_density(self, theta):
        if not self._natural:
            return self._frozen.logpdf(theta)
        h = np.exp(theta)
        if not 0.0 < h < np.inf:
            return -np.inf
        return self._frozen.logpdf(h) + theta - np.log1p(-self._below)

    def tails(self, theta):
        h = np.exp(theta) if self._natural else theta
        low, high = self._frozen.cdf(h) - self._below, self._frozen.sf(h)
        if self._below > 0.0:
            low = np.where(low < self._near, self._integral(h), low)
        return low / (1.0 - self._below), high / (1.0 - self._below)

    def _integral(self, h):
        pdf = self._frozen.pdf
        return h / 6.0 * (pdf(0.0) + 4.0 * pdf(0.5 * h) + pdf(h))

    def _near_zero(self, mass):
        h = mass / self._frozen.pdf(0.0)
        for _ in range(3):
            h = h + (mass - self._integral(h)) / self._frozen.pdf(h)
        return h


@dataclass(frozen=True, eq=False)
class _OnLogit(_ByTails):
    """A distribution between 0 and 1 over theta = logit h, by its form over u = log h."""

    stacks = True

    of_log: _Closed

    @property
    def like(self) -> Hashable:
        return "logit", self.of_log.like

    def stack(self, forms: Sequence[_OnLogit]) -> _OnLogit:
        stacked: Any = self.of_log.stack([form.of_log for form in forms])
        return _OnLogit(stacked)

    def at(self, below, above):
        u, log_p = self.of_log.at(below, above)
        theta = u - np.log(-np.expm1(u))
        return theta, log_p + log_expit(-theta)

    def log_density(self, theta):
        return self.of_log.log_density(log_expit(theta)) + log_expit(-theta)

    def tails(self, theta):
        return self.of_log.tails(log_expit(theta))


Form = _Normal | _Uniform | _Closed | _FromSciPy | _OnLogit


def form_of(
    distribution: str, parameters: Mapping[str, float], natural: bool, frozen: Any, below: float
) -> Form:
    """Fastest form of a distribution of theta, or of exp(theta) on the natural scale."""
    shapes = dict(parameters)
    loc, scale = shapes.pop("loc", 0.0), shapes.pop("scale", 1.0)
    if not natural and distribution in ("norm", "uniform"):
        return (_Normal if distribution == "norm" else _Uniform)(loc, scale, ())
    if natural and loc == 0.0 and distribution == "lognorm":
        return _Normal(float(np.log(scale)), shapes["s"], ())
    if natural and loc == 0.0 and distribution in ("loguniform", "reciprocal"):
        low, high = float(np.log(shapes["a"] * scale)), float(np.log(shapes["b"] * scale))
        return _Uniform(low, high - low, ())
    if distribution in FAMILIES and below == 0.0:
        order = (frozen.dist.shapes or "").replace(" ", "").split(",")
        values = tuple(shapes[name] for name in order if name)
        return _Closed(loc, scale, values, distribution, natural, natural and loc == 0.0)
    return _FromSciPy(frozen, natural, below)


def probability_form(distribution: str, parameters: Mapping[str, float]) -> _OnLogit:
    """Form of a beta or uniform distribution of a probability, over its logit."""
    order = ("a", "b") if distribution == "beta" else ()
    shapes = tuple(parameters[name] for name in order)
    loc, scale = parameters.get("loc", 0.0), parameters.get("scale", 1.0)
    return _OnLogit(_Closed(loc, scale, shapes, distribution, True, loc == 0.0))
