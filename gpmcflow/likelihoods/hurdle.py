"""Hurdle counts: whether there is any, and how many there are if so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc

from gpmcflow.likelihoods.base import NORMAL_NODES, NORMAL_WEIGHTS, CompiledValue, flat_rows
from gpmcflow.likelihoods.counts import CountLikelihood
from gpmcflow.likelihoods.poisson import Poisson
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.likelihoods.with_zeros import WithZeros, zero_terms
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.parameters.parameter import Setting

TINY = 1e-200  # minus log p0(0), of which the log is that of the rate
_SERIES = (1 / 2, 1 / 12, 0.0, -1 / 720, 0.0, 1 / 30240, 0.0, -1 / 1209600, 0.0, 1 / 47900160)


def _poisson_value(head, f, y, constants, phi):  # constants are log exposures
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        if y[i] > 0.0:
            z = f[i] + (offset + constants[i])
            rate = np.exp(z)
            total += y[i] * z - rate - (np.log(-np.expm1(-rate)) if rate > TINY else z)
    head[2] = total


def _negative_binomial_value(head, f, y, constants, phi):  # log(e / d); phi is the size d
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


def _factors(head, eta, out, y, constants, phi):  # log exposures; the size, 0 of a Poisson base
    m, i, d, count = int(head[0]), int(head[1]), phi[0], y[int(head[1])]
    for k in range(m):
        if count == 0.0:
            out[k] = out[m + k] = out[2 * m + k] = out[3 * m + k] = 0.0
            continue
        x, each, s, p = zero_terms(eta[k] + constants[i], d)
        q = s / d if d > 0.0 else 0.0
        some = -math.expm1(-x)
        r = s * (math.exp(-x) / some) if TINY < x < 700.0 else s / TINY if x <= TINY else 0.0
        rate = s + r  # of those that are not zero
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
def _values_and_slopes(eta, y, log_exposure, d, constant, value, slope):
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
        flat = flat_rows(eta)
        value, slope = np.empty(len(flat)), np.empty_like(flat)
        log_exposure = np.atleast_1d(np.log(self.exposure))
        _values_and_slopes(flat, y, log_exposure, self._size(), self._constant(y), value, slope)
        return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the base given y > 0, and by logit pi: 1 - pi where y = 0, else -pi."""
        pi, x, some = self._pi(), self.base.zero_terms(eta).x, y > 0
        of_zero = self.base.case_slopes(eta, np.zeros_like(y)) * _odds(x)[..., None]
        slopes = np.where(some[:, None], self.base.case_slopes(eta, y) + of_zero, 0.0).sum(-2)
        own = np.broadcast_to(np.where(some, -pi, 1.0 - pi).sum(), (*slopes.shape[:-1], 1))
        return np.concatenate([slopes, own], axis=-1)

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
        loop = _negative_binomial_value if len(size) else _poisson_value
        return CompiledValue(loop, shift, size, self._constant(y))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """Of either base by one loop."""
        d, pi = self._size(), self._pi()
        of_zeros = np.log(pi) if np.any(y == 0) else 0.0
        constants = np.where(y > 0, self._constants_of_base(y) + np.log1p(-pi), of_zeros)
        phi = np.array([d, np.log(d) if d else 0.0])
        return FactorLoop(_factors, self._log_exposures(y), phi, constants)

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
        log_size = np.log(d) if d else 0.0
        tiny = at.each + log_size
        return np.where(at.x > TINY, np.log(-np.expm1(-np.maximum(at.x, TINY))), tiny)

    def _truncated(self, eta: np.ndarray) -> _Truncated:
        x, each, s, p, q = self.base.zero_terms(eta)
        r = s * _odds(x)
        k = s + r
        below = -_more(x) * np.where(x > TINY, s / np.maximum(x, TINY), 1.0)
        if d := self._size():
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
