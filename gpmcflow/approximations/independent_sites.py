"""Gaussian sites fitted to one case at a time under the prior's variance: closed forms, no iteration.

For each case L_i(f + c) N(f; 0, k) is fitted by a mean mu and a variance v; the site's precision is then
w = 1 / v - 1 / k and its natural mean b = mu / v: exp(b f - w f^2 / 2) stands for L_i. Sites depend on
hyperparameters through k and the offset c, never on the latents, which makes samplers with them valid.

Source: Murray & Adams (2010), sections 3.1 and 4, which fit them numerically.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numba
import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit

LARGEST_VARIANCE = 1e6  # of a site: precisions below its inverse are raised to it


class Sites(NamedTuple):
    """What stands for the likelihood."""

    precision: np.ndarray  #: w > 0, (n,)
    shift: np.ndarray  #: b, (n,)
    equal: bool  #: whether w is one number for all cases, whatever y


class SiteRule(Protocol):
    """Fits sites. Frozen, picklable, with a repr that tells its settings."""

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,) under N(f; 0, variance) and eta = f + offset."""


@numba.njit(cache=True, nogil=True, error_model="numpy")
def logistic_overlap(k):
    """q(k) = integral of sigma(f) sigma(-f) N(f; 0, k) df, by the trapezoid rule.

    Step min(1, sqrt k) / 2 on |f| <= min(9 sqrt k, 40): at most 161 points, error about 1e-13.
    """
    sd = np.sqrt(k)
    step, end = 0.5 * min(1.0, sd), min(9.0 * sd, 40.0)
    total, m = 0.125, 1
    while m * step <= end * (1.0 + 1e-12):
        f = m * step
        e = np.exp(-f)
        total += e / ((1.0 + e) * (1.0 + e)) * np.exp(-0.5 * f * f / k)
        m += 1
    return 2.0 * total * step / (sd * 2.5066282746310002)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def wright_omega(a):
    """z > 0 with z + log z = a, by Newton steps z (1 + a - log z) / (1 + z)."""
    if a < -40.0:
        return np.exp(a)  # to 1e-17, relative
    z = np.exp(a) if a < -1.0 else (1.0 if a < 2.0 else a - np.log(a))
    for _ in range(50):
        following = z * (1.0 + a - np.log(z)) / (1.0 + z)
        if abs(following - z) <= 1e-15 * following:
            return following
        z = following
    return z


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _poisson_laplace(y, k, c, w, b):
    """Mode mu with mu = k (y - e^(mu + c)): z = k e^(mu + c) is the Wright omega of log k + k y + c."""
    largest = 0
    for i in range(y.size):
        largest = max(largest, int(min(y[i], 512.0)))
    table = np.full((2, largest + 1), np.nan)  # counts repeat: each is solved once
    log_k = np.log(k)
    for i in range(y.size):
        small = y[i] <= 512.0
        slot = int(y[i]) if small else 0
        if small and table[0, slot] == table[0, slot]:
            w[i], b[i] = table[0, slot], table[1, slot]
            continue
        z = wright_omega(log_k + k * y[i] + c)
        # one of the two forms of mu is a difference of nearly equal numbers
        mode = k * y[i] - z if z < 1.0 else np.log(z) - log_k - c
        w[i], b[i] = z / k, mode * (1.0 + z) / k
        if small:
            table[0, slot], table[1, slot] = w[i], b[i]


def _thresholded(w: np.ndarray, b: np.ndarray, equal: bool) -> Sites:
    return Sites(np.maximum(w, 1.0 / LARGEST_VARIANCE), b, equal)


def _gaussian(likelihood: Gaussian, y: np.ndarray, offset: float) -> Sites:
    w = 1.0 / likelihood.noise_sd**2
    return Sites(np.full(len(y), w), w * (y - offset), True)


def _count_offset(likelihood: Poisson, offset: float) -> float:
    return offset + float(np.log(likelihood.exposure))


@dataclass(frozen=True)
class MomentSites:
    """Mean and variance of L_i N(f; 0, k) itself: exact for Gaussian, closed forms for binary data.

    With h = E[f y]: v = k - h^2. Probit: h = k sqrt(2 / pi) / sqrt(1 + k). Logistic: h = 2 k q(k), where q
    is `logistic_overlap`. An offset is not supported for binary data. Poisson: `tilted` moments by
    quadrature.
    """

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        k = variance
        if isinstance(likelihood, Gaussian):
            return _gaussian(likelihood, y, offset)
        if isinstance(likelihood, Poisson):
            return _tilted_sites(likelihood, y, k, offset)
        _refuse_offset("MomentSites", likelihood, offset)
        if isinstance(likelihood, Probit):
            s = 0.5 * np.pi + (0.5 * np.pi - 1.0) * k
            h = k * np.sqrt(2.0 / np.pi) / np.sqrt(1.0 + k)
        elif isinstance(likelihood, Logistic):
            q = logistic_overlap(k)
            s, h = 1.0 / (4.0 * q * q) - k, 2.0 * k * q
        else:
            return _tilted_sites(likelihood, y, k, offset)
        return _thresholded(np.full(len(y), 1.0 / s), y * (h / (k - h * h)), True)


@dataclass(frozen=True)
class LaplaceSites:
    """Mode mu of L_i N(f; 0, k) and its curvature: w = -(log L_i)''(mu), b = mu (1 / k + w).

    Poisson: mu = k y - z and w = z / k with z + log z = log k + k y + c. Binary data: one Newton solve, as
    both labels have the same |mu|.
    """

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        k = variance
        if isinstance(likelihood, Gaussian):
            return _gaussian(likelihood, y, offset)
        if isinstance(likelihood, Poisson):
            w, b = np.empty(len(y)), np.empty(len(y))
            _poisson_laplace(y, k, _count_offset(likelihood, offset), w, b)
            return _thresholded(w, b, False)
        _refuse_offset("LaplaceSites", likelihood, offset)
        mode, one = 0.0, np.ones(1)
        for _ in range(100):
            _, first, second, _ = (float(d[0]) for d in likelihood.derivatives(mode * one, one))
            step = (first - mode / k) / (1.0 / k - second)
            mode += step  # log-concave, from 0 with a slope that falls: the steps stay on one side
            if abs(step) <= 1e-14 * (1.0 + mode):
                break
        w = -float(likelihood.derivatives(mode * one, one)[2][0])
        return _thresholded(np.full(len(y), w), y * (mode * (1.0 / k + w)), True)


@dataclass(frozen=True)
class TaylorSites:
    """Expansion of log L_i alone at its own maximum: independent of k.

    Poisson, y > 0: w = y, b = y (log y - c); y = 0 has no maximum: variance `LARGEST_VARIANCE`, b = 0.
    Binary data: `InputError`, since log L_i has no maximum at all.
    """

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        if isinstance(likelihood, Gaussian):
            return _gaussian(likelihood, y, offset)
        if not isinstance(likelihood, Poisson):
            raise InputError(
                f"TaylorSites: the {likelihood.name} likelihood has no maximum to expand at; allowed: "
                "gaussian, poisson; take the site rule"
            )
        log_y = np.log(np.maximum(y, 1.0))
        return _thresholded(y, y * (log_y - _count_offset(likelihood, offset)), False)


@dataclass(frozen=True)
class StandardSites:
    """The rule that suits the likelihood: moments for binary and Gaussian data, Laplace for counts."""

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        rule = _LAPLACE if isinstance(likelihood, Poisson) else _MOMENTS
        return rule(likelihood, y, variance, offset)


_LAPLACE, _MOMENTS = LaplaceSites(), MomentSites()


@dataclass(frozen=True)
class ScaledSites:
    """Sites of a rule with their variances times ``factor``: the same pseudo-data b / w, w / factor."""

    factor: float
    rule: SiteRule = field(default_factory=StandardSites)

    def __post_init__(self) -> None:
        _require_positive("ScaledSites: factor", self.factor)

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        w, b, equal = self.rule(likelihood, y, variance, offset)
        return Sites(w / self.factor, b / self.factor, equal)


@dataclass(frozen=True)
class ConstantSites:
    """One variance alpha set by hand for all cases; the pseudo-data b / w are those of a rule."""

    variance: float
    rule: SiteRule = field(default_factory=StandardSites)

    def __post_init__(self) -> None:
        _require_positive("ConstantSites: variance", self.variance)

    def __call__(
        self, likelihood: Likelihood, y: np.ndarray, variance: float, offset: float = 0.0
    ) -> Sites:
        """Sites of y (n,)."""
        w, b, _ = self.rule(likelihood, y, variance, offset)
        return Sites(np.full(len(y), 1.0 / self.variance), b / (w * self.variance), True)


SITE_RULES: dict[str, type] = {
    "constant": ConstantSites,
    "laplace": LaplaceSites,
    "moments": MomentSites,
    "scaled": ScaledSites,
    "standard": StandardSites,
    "taylor": TaylorSites,
}


def site_rule(name: str, **settings: float) -> SiteRule:
    """Return the site rule of that name, e.g. ``site_rule("constant", variance=0.5)``."""
    if name not in SITE_RULES:
        raise unknown_name("site rule", name, SITE_RULES)
    try:
        return SITE_RULES[name](**settings)
    except TypeError as error:
        raise InputError(f"site rule {name}: {error}") from None


def _tilted_sites(likelihood: Likelihood, y: np.ndarray, k: float, offset: float) -> Sites:
    """By the likelihood's own tilted moments: v = k (1 - k r), mu = k alpha."""
    distinct, index = np.unique(y, return_inverse=True)
    mean = np.full(len(distinct), offset)
    _, alpha, r = likelihood.tilted(distinct, mean, np.full(len(distinct), k))
    return _thresholded((r / (1.0 - k * r))[index], (alpha / (1.0 - k * r))[index], False)


def _refuse_offset(who: str, likelihood: Likelihood, offset: float) -> None:
    if offset != 0.0:
        raise InputError(
            f"{who}: offset is {offset!r} with the {likelihood.name} likelihood; allowed: 0, as only "
            "counts have an offset"
        )


def _require_positive(where: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"{where} is {value!r}; allowed: a positive number")
