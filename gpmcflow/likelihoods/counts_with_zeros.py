"""Likelihoods of counts with many zeros: zero-inflated and hurdle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammainc, logit

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import (
    NORMAL_NODES,
    NORMAL_WEIGHTS,
    CompiledValue,
    Likelihood,
    values_and_slopes,
)
from gpmcflow.likelihoods.counts import (
    CountLikelihood,
    NegativeBinomial,
    Poisson,
    log_factorial,
    validate_counts,
)
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.numerics.gamma_ratios import log_gamma_ratio
from gpmcflow.parameters.parameter import Entry, Setting

# What zero-inflated and hurdle likelihoods share: a base for counts, and a probability of zeros.


@compiled(inline="always")
def zero_terms(z, d):
    """x, each, s, p of `ZeroTerms` at z = log m: of a Poisson base where d is 0, else of size d."""
    if d == 0.0:
        rate = np.inf if z > 708.0 else exponential(z)
        return rate, z, rate, 1.0
    z -= np.log(d)
    e = exponential(-abs(z))
    less, inverse = np.log1p(e), 1.0 / (1.0 + e)
    p, q = (e * inverse, inverse) if z > 0.0 else (inverse, e * inverse)
    return d * (max(z, 0.0) + less), min(z, 0.0) - less, d * q, p


class WithZeros(Likelihood):
    """Counts of a ``base`` whose parameters and exposure come along, and the ``probability`` pi of zeros."""

    base: CountLikelihood
    probability: Setting | None
    parameters = ("probability",)
    probabilities = ("probability",)
    constants = ("exposure",)
    discrete = True
    log_concave = False
    standard_sites = "laplace"

    def __post_init__(self) -> None:
        if type(self.base) not in (Poisson, NegativeBinomial):
            raise InputError(
                f"{type(self).__name__} likelihood: base is {self.base!r}; allowed: Poisson() or "
                "NegativeBinomial(), with their settings"
            )
        object.__setattr__(self, "probability", self._checked("probability"))

    @property
    def exposure(self) -> float | np.ndarray:
        """That of the base."""
        return self.base.exposure

    @property
    def may_vary(self) -> tuple[str, ...]:
        """Return those of the base, and the probability."""
        return *self.base.may_vary, *super().may_vary

    def entries(self) -> tuple[Entry, ...]:
        """Return those of the base, and the probability."""
        return *self.base.entries(), *super().entries()

    def with_values(self, values: Sequence[float]) -> Likelihood:
        """Return the same likelihood with numbers, in their own units, one for each of `entries`."""
        changed = super().with_values(values[-1:])
        return changed._changed({"base": self.base.with_values(values[:-1])})

    def number(self, name: str) -> float | np.ndarray:
        """Value of a parameter. Raises `InputError` where it is free."""
        return super().number(name) if name == "probability" else self.base.number(name)

    def _changed(self, fields: dict[str, Any]) -> Likelihood:
        of_base = {name: value for name, value in fields.items() if name in self.constants}
        own = {name: value for name, value in fields.items() if name not in of_base}
        if of_base:
            own["base"] = self.base._changed(of_base)
        return super()._changed(own)

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, of as many cases as the exposure."""
        super().validate(y)
        validate_counts(self.name, y)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where quadrature over eta must look besides the cavity: at the count, or where p(0) falls."""
        x = self._fall()
        some = np.maximum(y, 1.0)
        at_zero = np.broadcast_to(self.base.eta_of_zero(x), y.shape)
        widths = 1.0 / np.maximum(self.base.zero_terms(at_zero).s, 1.0)
        d = self._size()
        spread = np.sqrt(1.0 / some + (1.0 / d if d else 0.0))
        centre = np.log(some) - np.log(self.exposure)
        return np.where(y > 0, centre, at_zero), np.where(y > 0, spread, widths)

    def _fall(self) -> float:
        """Minus log p(0) of the base where zeros become those of the other kind; 1 where there is none."""
        return 1.0

    def _size(self) -> float | np.ndarray:
        """Of a negative binomial base, 0 of a Poisson one."""
        return self.number("size") if isinstance(self.base, NegativeBinomial) else 0.0

    def _constants_of_base(self, y: np.ndarray) -> np.ndarray:
        """What log p0(y) has besides y each - x; 0 for y = 0."""
        d = self._size()
        return (log_gamma_ratio(d, y) if d else 0.0) - log_factorial(y)

    def _constant_of_base(self, y: np.ndarray) -> float:
        """`_constants_of_base`, summed."""
        return float(self._constants_of_base(y).sum())

    def _log_exposures(self, y: np.ndarray) -> np.ndarray:
        return np.full((1, len(y)), np.log(self.exposure))

    def _pi(self) -> float | np.ndarray:
        return super().number("probability")


# Zero-inflated counts: a share of them is zero whatever the rate.


@compiled_elementwise
def _log_zero(x, pi):
    """log(pi + (1 - pi) exp(-x)), elementwise."""
    if x < 0.5:
        return math.log1p((1.0 - pi) * math.expm1(-x))
    return math.log(pi + (1.0 - pi) * math.exp(-x))


def _inflated_poisson_value(head, f, y, constants, phi):  # constants are log exposures, phi is pi
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        rate = np.exp(z)
        total += y[i] * z - rate if y[i] > 0.0 else _log_zero(rate, phi[0])
    head[2] = total


def _inflated_negative_binomial_value(head, f, y, constants, phi):  # log(e / d); pi and the size d
    offset, d, total = head[1], phi[1], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        less = np.log1p(np.exp(-abs(z)))
        x = d * (max(z, 0.0) + less)
        total += y[i] * (min(z, 0.0) - less) - x if y[i] > 0.0 else _log_zero(x, phi[0])
    head[2] = total


def _inflated_factors(head, eta, out, y, constants, phi):  # log exposures; pi and d, 0 of a Poisson
    m, i, pi, d = int(head[0]), int(head[1]), phi[0], phi[1]
    odds = math.log(pi / (1.0 - pi))
    for k in range(m):
        x, each, s, p = zero_terms(eta[k] + constants[i], d)
        q = s / d if d > 0.0 else 0.0
        if y[i] > 0.0:
            second = -y[i] * p * q - s * p
            out[k], out[m + k] = y[i] * each - x, y[i] * p - s
            out[2 * m + k], out[3 * m + k] = second, second * (p - q)
            continue
        e = math.exp(-abs(x + odds))
        w, rest = e / (1.0 + e), 1.0 / (1.0 + e)
        w, rest = (w, rest) if x + odds >= 0.0 else (rest, w)
        s = s if w > 0.0 else 0.0
        ws, away = w * s, rest * s
        out[k], out[m + k], out[2 * m + k] = _log_zero(x, pi), -ws, ws * (away - p)
        out[3 * m + k] = ws * (3.0 * p * away - p * (p - q) - (rest - w) * away * s)


@compiled(fastmath={"contract"})
def _inflated_values_and_slopes(eta, y, log_exposure, pi, d, constant, value, slope):
    """The base is Poisson where the size d is 0."""
    one = log_exposure.size == 1
    for row in range(eta.shape[0]):
        # probabilities of zeros are multiplied: one logarithm for many
        total, zeros = constant, 1.0
        for i in range(eta.shape[1]):
            x, each, s, p = zero_terms(eta[row, i] + log_exposure[0 if one else i], d)
            if y[i] > 0.0:
                total += y[i] * each - x
                slope[row, i] = y[i] * p - s
            else:
                t = (1.0 - pi) * exponential(-x)
                slope[row, i] = -t / (pi + t) * s if t > 0.0 else 0.0
                zeros *= pi + t
                if zeros < 1e-200:
                    total += np.log(zeros)
                    zeros = 1.0
        value[row] = total + np.log(zeros)


@dataclass(frozen=True, eq=False, repr=False)
class ZeroInflated(WithZeros):
    """Zero-inflated counts: zero with probability pi, else a count of the base, which may be zero, too.

    log p = log(pi + (1 - pi) p0(0)) for y = 0, log(1 - pi) + log p0(y) for y > 0, p0 the base's. Not
    log-concave. The mean is (1 - pi) e exp(eta).

    Attributes
    ----------
    base:
        `Poisson` or `NegativeBinomial`, whose size and exposure come along.
    probability:
        pi, between 0 and 1: a number, a hyperprior (with scale "logit" or "probability") or a `Parameter`; by
        default logit pi ~ N(-1, 1.5^2).

    Raises
    ------
    InputError:
        For another base, and for a probability that is neither between 0 and 1 nor a hyperprior; in a model,
        for y that are not counts.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.ZeroInflated(gp.Poisson(), probability=0.5)
    >>> round(likelihood.log_density(np.zeros(1), np.zeros(1)).item(), 4)  # log((1 + 1 / e) / 2)
    -0.3799
    """

    base: CountLikelihood
    probability: Setting | None = None
    name = "zero_inflated"
    log_link = True

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the base for y > 0; for y = 0 with w the probability that a zero is the base's: -w s, ..

        s = -d log p0(0) / d eta, whose own derivative is s p: -w s p + w (1 - w) s^2, and so on.
        """
        value, *some = self.base.derivatives(eta, y)
        pi, at = self._pi(), self.base.zero_terms(eta)
        w, rest = self._weights(at.x)
        s = np.where(w > 0.0, at.s, 0.0)
        ws, away = w * s, rest * s
        none = (
            -ws,
            ws * (away - at.p),
            ws * (3.0 * at.p * away - at.p * (at.p - at.q) - (rest - w) * away * s),
        )
        by_eta = [np.where(y > 0, *pair) for pair in zip(some, none, strict=True)]
        return np.where(y > 0, value + np.log1p(-pi), _log_zero(at.x, pi)), *by_eta

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and slopes; -inf for rates above exp(708) of y > 0."""
        pi, log_exposure = self._pi(), np.atleast_1d(np.log(self.exposure))
        constant = self._constant_of_base(y) + np.count_nonzero(y) * np.log1p(-pi)
        settings = y, log_exposure, pi, self._size(), constant
        return values_and_slopes(_inflated_values_and_slopes, eta, *settings)

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the base, weighted with w where y = 0, and by logit pi: -pi, or (1 - w) (1 - pi) (1 - p0(0))."""
        pi, at = self._pi(), self.base.zero_terms(eta)
        w, rest = self._weights(at.x)
        weight = np.where(y > 0, 1.0, w)
        of_base = weight[..., None] * self.base.case_slopes(eta, y)
        own = np.where(y > 0, -pi, rest * (1.0 - pi) * -np.expm1(-at.x))
        return np.concatenate([of_base, own[..., None]], axis=-1)

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E[-l''] = (1 - pi) s (1 - p0(0) (1 - w) s)."""
        pi, at = self._pi(), self.base.zero_terms(eta)
        rest = self._weights(at.x)[1]
        expected = (1.0 - pi) * at.s * (1.0 - np.exp(-at.x) * at.s * rest)
        return np.broadcast_to(expected, np.broadcast(eta, y).shape)

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-l'' of the base, times w where y = 0: that of the expected complete data."""
        w, _ = self._weights(self.base.zero_terms(eta).x)
        return np.where(y > 0, 1.0, w) * -self.base.derivatives(eta, y)[2]

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Counts of the base, each replaced by zero with probability pi."""
        return np.where(rng.random(np.shape(eta)) < self._pi(), 0.0, self.base.simulate(rng, eta))

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """(1 - pi) exp(eta), for one unit of exposure."""
        return (1.0 - self._pi()) * self.base.conditional_mean(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """(1 - pi) exp(mean + variance / 2), for one unit of exposure."""
        return (1.0 - self._pi()) * self.base.mean_response(mean, variance)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """pi, and the size of a negative binomial, are parameters of the loop."""
        _, shift, size, of_base = self.base.compiled(y)
        constant = of_base + np.count_nonzero(y) * np.log1p(-self._pi())
        loop = _inflated_negative_binomial_value if len(size) else _inflated_poisson_value
        return CompiledValue(loop, shift, np.array([self._pi(), *size]), float(constant))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """Of either base by one loop."""
        constants = self._constants_of_base(y) + np.where(y > 0, np.log1p(-self._pi()), 0.0)
        phi = np.array([self._pi(), self._size()])
        return FactorLoop(_inflated_factors, self._log_exposures(y), phi, constants)

    def _weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of a zero, the probabilities that it is the base's and that it is not."""
        a = x + logit(self._pi())
        return expit(-a), expit(a)

    def _fall(self) -> float:
        return max(1.0, -float(logit(self._pi())))


# Hurdle counts: whether there is any, and how many there are if so.

TINY = 1e-200  # minus log p0(0), of which the log is that of the rate
_SERIES = (1 / 2, 1 / 12, 0.0, -1 / 720, 0.0, 1 / 30240, 0.0, -1 / 1209600, 0.0, 1 / 47900160)


def _hurdle_poisson_value(head, f, y, constants, phi):  # constants are log exposures
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        if y[i] > 0.0:
            z = f[i] + (offset + constants[i])
            rate = np.exp(z)
            total += y[i] * z - rate - (np.log(-np.expm1(-rate)) if rate > TINY else z)
    head[2] = total


def _hurdle_negative_binomial_value(head, f, y, constants, phi):  # log(e / d); phi is the size d
    offset, d, total = head[1], phi[0], 0.0
    for i in range(int(head[0])):
        if y[i] > 0.0:
            z = f[i] + (offset + constants[i])
            less = np.log1p(np.exp(-abs(z)))
            x = d * (max(z, 0.0) + less)
            total += y[i] * (min(z, 0.0) - less) - x
            total -= np.log(-np.expm1(-x)) if x > TINY else z + np.log(d)
    head[2] = total


@compiled
def _more_than(x):
    """`_more` of a number."""
    if x >= 0.3:
        return x / -math.expm1(-x) - 1.0
    series = 0.0
    for j in range(len(_SERIES)):
        series = x * (_SERIES[len(_SERIES) - 1 - j] + series)
    return series


@compiled
def _missing(t):
    """(1 - (1 + t) exp(-t)) / t: about t / 2 where t is small."""
    if t > 0.1:
        return (-math.expm1(-t) - t * math.exp(-t)) / t
    series = 1 / 840 - t * (1 / 5760 - t * (1 / 45360 - t / 403200))
    return t * (1 / 2 - t * (1 / 3 - t * (1 / 8 - t * (1 / 30 - t * (1 / 144 - t * series)))))


def _hurdle_factors(head, eta, out, y, constants, phi):  # log exposures; d, 0 of a Poisson base
    m, i, d, count = int(head[0]), int(head[1]), phi[0], y[int(head[1])]
    for k in range(m):
        if count == 0.0:
            out[k] = out[m + k] = out[2 * m + k] = out[3 * m + k] = 0.0
            continue
        x, each, s, p = zero_terms(eta[k] + constants[i], d)
        q = s / d if d > 0.0 else 0.0
        some = -math.expm1(-x)
        r = s * (math.exp(-x) / some) if TINY < x < 700.0 else s / TINY if x <= TINY else 0.0
        rate = s + r  # s / (1 - p0(0)): the rate given y > 0
        below = -_more_than(x) * (s / x if TINY < x < 1e300 else 1.0)
        if d > 0.0:
            below -= _missing(max(x / d, TINY))
        above = p - r if x > 1.0 else below + s
        bent = r * below if r > 0.0 else 0.0
        out[k] = count * each - x - (math.log(some) if x > TINY else each + phi[1])
        out[m + k] = max(count - 1.0, 0.0) * p + below
        out[2 * m + k] = -count * p * q - rate * above
        out[3 * m + k] = -count * p * q * (p - q) - rate * (above * above - p * q - bent)


@compiled(fastmath={"contract"})
def _hurdle_values_and_slopes(eta, y, log_exposure, d, constant, value, slope):
    """The base is Poisson where the size d is 0."""
    one, log_size = log_exposure.size == 1, np.log(d) if d > 0.0 else 0.0
    for row in range(eta.shape[0]):
        total = constant
        for i in range(eta.shape[1]):
            if y[i] == 0.0:
                slope[row, i] = 0.0
                continue
            x, each, s, p = zero_terms(eta[row, i] + log_exposure[0 if one else i], d)
            some = -np.expm1(-x)
            total += y[i] * each - x - (np.log(some) if x > TINY else each + log_size)
            slope[row, i] = y[i] * p - (s / some if x > TINY else p)
        value[row] = total


class _Truncated(NamedTuple):
    """`ZeroTerms`, and what a base given y > 0 needs besides: k = s / (1 - p0(0)), (..., n)."""

    x: np.ndarray
    each: np.ndarray
    k: np.ndarray
    r: np.ndarray  #: k - s
    below: np.ndarray  #: p - k without cancellation
    above: np.ndarray  #: p - r
    p: np.ndarray | float
    q: np.ndarray | float


@dataclass(frozen=True, eq=False, repr=False)
class Hurdle(WithZeros):
    """Hurdle counts: zero with probability pi, else a count of the base that is not zero.

    log p = log pi for y = 0, log(1 - pi) + log p0(y) - log(1 - p0(0)) for y > 0, p0 the base's: zeros say
    nothing of eta. Log-concave with a Poisson base. The mean is (1 - pi) e exp(eta) / (1 - p0(0)).

    Attributes
    ----------
    base:
        `Poisson` or `NegativeBinomial`, whose size and exposure come along.
    probability:
        pi, between 0 and 1: a number, a hyperprior (with scale "logit" or "probability") or a `Parameter`; by
        default logit pi ~ N(-1, 1.5^2).

    Raises
    ------
    InputError:
        For another base, and for a probability that is neither between 0 and 1 nor a hyperprior; in a model,
        for y that are not counts.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Hurdle(gp.Poisson(), probability=0.5)
    >>> round(likelihood.log_density(np.zeros(1), np.ones(1)).item(), 4)  # log(0.5 / (e - 1))
    -1.2345
    """

    base: CountLikelihood
    probability: Setting | None = None
    name = "hurdle"
    exponential_mean = True

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        """Whether the base is Poisson."""
        return isinstance(self.base, Poisson)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """For y > 0: log p, y p - k, -y p q - k (p - r), and so on; for y = 0: log pi, and zeros."""
        value, at, pi = self.base.derivatives(eta, y)[0], self._truncated(eta), self._pi()
        k, p, q = at.k, at.p, at.q
        more = np.maximum(y - 1.0, 0.0) * p
        by_eta = (
            more + at.below,
            -y * p * q - k * at.above,
            -y * p * q * (p - q) - k * (at.above**2 - p * q - at.r * at.below),
        )
        some = y > 0
        slopes = (np.where(some, d, 0.0) for d in by_eta)
        return np.where(some, value + np.log1p(-pi) - self._log_positive(at), np.log(pi)), *slopes

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and slopes; -inf for rates above exp(708)."""
        settings = y, np.atleast_1d(np.log(self.exposure)), self._size(), self._constant(y)
        return values_and_slopes(_hurdle_values_and_slopes, eta, *settings)

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the base given y > 0, and by logit pi: 1 - pi where y = 0, else -pi."""
        pi, x, some = self._pi(), self.base.zero_terms(eta).x, y > 0
        of_zero = self.base.case_slopes(eta, np.zeros_like(y)) * _odds(x)[..., None]
        slopes = np.where(some[:, None], self.base.case_slopes(eta, y) + of_zero, 0.0)
        own = np.broadcast_to(np.where(some, -pi, 1.0 - pi), x.shape)
        return np.concatenate([slopes, own[..., None]], axis=-1)

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-l'' where log-concave, else E[-l''] = (1 - pi) k (1 - r)."""
        if self.log_concave:
            return super().information(eta, y)
        at = self._truncated(eta)
        expected = (1.0 - self._pi()) * at.k * (at.q + at.above)
        return np.broadcast_to(expected, np.broadcast(eta, y).shape)

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-l'' where log-concave, else y p q + k p, that of the expected complete data; 0 for y = 0."""
        if self.log_concave:
            return super().majorising_precision(eta, y)
        at = self._truncated(eta)
        return np.where(y > 0, (y * at.q + at.k) * at.p, 0.0)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Zero with probability pi, else a count of the base that is not."""
        zero = rng.random(np.shape(eta)) < self._pi()
        return np.where(zero, 0.0, self.base.simulate_positive(rng, eta))

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """(1 - pi) exp(eta) / (1 - p0(0)): E[y | eta] over the exposure, which is not the same for all."""
        with np.errstate(over="ignore"):
            return (1.0 - self._pi()) * (np.exp(eta) + self._excess(eta))

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Exact for (1 - pi) exp(eta); the rest by quadrature."""
        mean, sd = np.broadcast_arrays(mean, np.sqrt(variance))
        with np.errstate(over="ignore"):
            total = np.exp(mean + 0.5 * sd**2)
        for node, weight in zip(NORMAL_NODES, NORMAL_WEIGHTS, strict=True):
            total += weight * self._excess(mean + node * sd)
        return (1.0 - self._pi()) * total

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """As of the base."""
        _, shift, size, _ = self.base.compiled(y)
        loop = _hurdle_negative_binomial_value if len(size) else _hurdle_poisson_value
        return CompiledValue(loop, shift, size, self._constant(y))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """Of either base by one loop."""
        d, pi = self._size(), self._pi()
        of_zeros = np.log(pi) if np.any(y == 0) else 0.0
        constants = np.where(y > 0, self._constants_of_base(y) + np.log1p(-pi), of_zeros)
        phi = np.array([d, np.log(d) if d else 0.0])
        return FactorLoop(_hurdle_factors, self._log_exposures(y), phi, constants)

    def _constant(self, y: np.ndarray) -> float:
        pi, n_positive = self._pi(), np.count_nonzero(y)
        of_zeros = (len(y) - n_positive) * np.log(pi) if n_positive < len(y) else 0.0
        return float(self._constant_of_base(y) + n_positive * np.log1p(-pi) + of_zeros)

    def _excess(self, eta: np.ndarray) -> np.ndarray:
        """exp(eta) p0(0) / (1 - p0(0))."""
        x = self.base.zero_terms(eta).x
        tiny = x < TINY  # where exp(eta) / x is 1 / e
        with np.errstate(over="ignore"):
            ratio = np.exp(eta - x) / -np.expm1(-np.where(tiny, 1.0, x))
        return np.where(tiny, 1.0 / self.exposure, ratio)

    def _log_positive(self, at: _Truncated) -> np.ndarray:
        """log(1 - p0(0)), which is log x where x is tiny."""
        d = self._size()
        log_size = np.log(d) if np.any(d) else 0.0
        tiny = at.each + log_size
        return np.where(at.x > TINY, np.log(-np.expm1(-np.maximum(at.x, TINY))), tiny)

    def _truncated(self, eta: np.ndarray) -> _Truncated:
        x, each, s, p, q = self.base.zero_terms(eta)
        r = s * _odds(x)
        k = s + r
        below = -_more(x) * np.where(x > TINY, s / np.maximum(x, TINY), 1.0)
        d = self._size()
        if np.any(d):
            t = np.maximum(x / d, TINY)
            below = below - gammainc(2.0, t) / t
        return _Truncated(x, each, k, r, below, np.where(x > 1.0, p - r, below + s), p, q)


def _odds(x: np.ndarray) -> np.ndarray:
    """p0(0) / (1 - p0(0)) = 1 / (exp(x) - 1)."""
    x = np.maximum(x, TINY)
    return np.exp(-x) / -np.expm1(-x)


def _more(x: np.ndarray) -> np.ndarray:
    """x / (1 - exp(-x)) - 1: about x / 2 where x is small."""
    small = np.where(x < 0.3, x, 0.0)
    series = np.zeros_like(small)
    for coefficient in reversed(_SERIES):
        series = small * (coefficient + series)
    large = np.maximum(x, 0.3)
    return np.where(x < 0.3, series, large / -np.expm1(-large) - 1.0)
