"""Likelihoods of counts with log link: Poisson and negative binomial."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import expit, gammaln

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood, flat_rows, values_and_slopes
from gpmcflow.likelihoods.sites import Sites, thresholded
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.numerics.gamma_ratios import (
    digamma_ratio,
    log1p_less,
    log_gamma_gap,
    log_gamma_ratio,
)
from gpmcflow.parameters.parameter import Setting

# What likelihoods of counts share: whole numbers, and a log link with an exposure.

_LOG_FACTORIALS = gammaln(np.arange(1.0, 1025.0))
LARGEST_FINITE = 1e300  # rate in terms of p(0), which is 0 long before
SMALLEST_RATE = 1e-300
LARGEST_RATE = 1e18  # of simulated counts, which NumPy draws as 64-bit integers


def validate_counts(where: str, y: np.ndarray) -> None:
    """Raise `InputError` unless y holds counts."""
    wrong = np.flatnonzero((y < 0) | (y != np.floor(y)))
    if wrong.size:
        raise InputError(
            f"{where} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: counts 0, 1, 2, ..."
        )


def share_after_first(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The share of (0, x) that follows the first event of a Poisson process, given that there is one."""
    first = -np.log1p(rng.random(np.shape(x)) * np.expm1(-x))
    return np.clip(1.0 - first / np.maximum(x, SMALLEST_RATE), 0.0, 1.0)


@compiled_elementwise
def log_factorial(y):
    """Log y! of counts, elementwise: from a table where they are small, else they take most of a gradient."""
    return _LOG_FACTORIALS[int(y)] if y < _LOG_FACTORIALS.size else math.lgamma(y + 1.0)


class ZeroTerms(NamedTuple):
    """p(0) = exp(-x) of counts with log p(y) = y each - x + what is the same for all eta, each (..., n).

    The derivatives of x by eta are s, s p, s p (p - q), that of ``each`` is p.
    """

    x: np.ndarray
    each: np.ndarray
    s: np.ndarray
    p: np.ndarray | float
    q: np.ndarray | float  #: 1 - p


class CountLikelihood(Likelihood):
    """Counts with mean e exp(eta); the exposure e is a number, or one for each case."""

    constants = ("exposure",)
    discrete = counts = log_link = True
    standard_sites = "laplace"
    exposure: float | np.ndarray

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, of as many cases as the exposure."""
        super().validate(y)
        validate_counts(self.name, y)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Exp(eta), for one unit of exposure."""
        return np.exp(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Exp(mean + variance / 2), for one unit of exposure."""
        with np.errstate(over="ignore"):
            return np.exp(mean + 0.5 * variance)

    @abstractmethod
    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Its first constant is added to eta + offset; the size, if there is one, is its one parameter."""

    @abstractmethod
    def zero_terms(self, eta: np.ndarray) -> ZeroTerms:
        """Minus log p(0), and its derivatives."""

    @abstractmethod
    def eta_of_zero(self, x: float) -> np.ndarray:
        """Predictors at which minus log p(0) is x, () or one a case."""

    @abstractmethod
    def simulate_positive(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draws given that they are not zero, shape of eta."""

    def _log_exposure(self, y: np.ndarray) -> np.ndarray:
        """(1, n), for compiled loops."""
        return np.full((1, len(y)), np.log(self.exposure))

    def _rate(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.exposure * np.exp(eta)


# Poisson likelihood with log link: counts of log-Gaussian Cox processes.


def _poisson_value(head, f, y, constants, phi):  # constants are log exposures
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        eta = f[i] + (offset + constants[i])
        total += y[i] * eta - np.exp(eta)
    head[2] = total


@compiled(fastmath={"contract"})
def _values_and_slopes(eta, y, log_exposure, value, slope):
    one, constant = log_exposure.size == 1, 0.0
    for i in range(y.size):
        constant += y[i] * log_exposure[0 if one else i] - log_factorial(y[i])
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            x = eta[p, i] + log_exposure[0 if one else i]
            slope[p, i] = np.inf if x > 708.0 else exponential(x)
        total = constant
        for i in range(eta.shape[1]):
            total += y[i] * eta[p, i] - slope[p, i]
            slope[p, i] = y[i] - slope[p, i]
        value[p] = total


@compiled
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


@compiled
def _laplace(y, k, c, same, w, b):
    """Mode mu with mu = k (y - e^(mu + c)): z = k e^(mu + c) is the Wright omega of log k + k y + c."""
    largest = 0
    for i in range(y.size):
        largest = max(largest, int(min(y[i], 512.0)))
    # counts repeat: with the same k and c each is solved once
    table = np.full((2, largest + 1), np.nan)
    for i in range(y.size):
        small = same and y[i] <= 512.0
        slot = int(y[i]) if small else 0
        if small and table[0, slot] == table[0, slot]:
            w[i], b[i] = table[0, slot], table[1, slot]
            continue
        log_k = np.log(k[i])
        z = wright_omega(log_k + k[i] * y[i] + c[i])
        # one of the two forms of mu is a difference of nearly equal numbers
        mode = k[i] * y[i] - z if z < 1.0 else np.log(z) - log_k - c[i]
        w[i], b[i] = z / k[i], mode * (1.0 + z) / k[i]
        if small:
            table[0, slot], table[1, slot] = w[i], b[i]


def _poisson_factors(head, eta, out, y, constants, phi):  # constants are log e
    m, i = int(head[0]), int(head[1])
    count, shift = y[i], constants[i]
    for k in range(m):
        rate = np.exp(eta[k] + shift)
        out[k] = count * (eta[k] + shift) - rate
        out[m + k] = count - rate
        out[2 * m + k] = out[3 * m + k] = -rate


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(CountLikelihood):
    """Poisson likelihood of counts with log link: log-Gaussian Cox processes on a grid of cells.

    p(y | eta) = Poisson(y; e exp(eta)).

    Attributes
    ----------
    exposure:
        e > 0, the size of each cell or the time it was watched, in units of which exp(eta) is the rate: a
        number, or one for each case (n,).

    Raises
    ------
    InputError:
        For an exposure that is not positive; in a model, for y that are not counts.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> round(gp.Poisson(exposure=2.0).log_density(np.zeros(1), np.zeros(1)).item(), 4)
    -2.0
    """

    exposure: float | np.ndarray = 1.0

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of log Poisson(y; e exp(eta)) over cases and y - e exp(eta); -inf for rates above exp(708)."""
        return values_and_slopes(_values_and_slopes, eta, y, np.atleast_1d(np.log(self.exposure)))

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log Poisson(y; r), y - r, -r, -r with r = e exp(eta)."""
        rate = self._rate(eta)
        with np.errstate(invalid="ignore"):
            value = y * (eta + np.log(self.exposure)) - rate - log_factorial(y)
        return value, y - rate, -rate, -rate

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Poisson counts with rate e exp(eta), at most `LARGEST_RATE`."""
        return rng.poisson(np.minimum(self._rate(eta), LARGEST_RATE)).astype(np.float64)

    def zero_terms(self, eta: np.ndarray) -> ZeroTerms:
        """The rate."""
        rate = np.minimum(self._rate(eta), LARGEST_FINITE)
        return ZeroTerms(rate, eta + np.log(self.exposure), rate, 1.0, 0.0)

    def eta_of_zero(self, x: float) -> np.ndarray:
        """log(x / e)."""
        return np.log(x) - np.log(self.exposure)

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """There is no parameter."""
        return np.zeros((*np.shape(eta), 0))

    def simulate_positive(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """One, and what comes after the first event."""
        rate = np.minimum(self._rate(eta), LARGEST_RATE)
        return 1.0 + rng.poisson(rate * share_after_first(rng, rate))

    def laplace_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """mu = k y - z and w = z / k with z + log z = log k + k y + c, c with the log exposure."""
        n, c = len(y), offset + np.log(self.exposure)
        w, b = np.empty(n), np.empty(n)
        same = not isinstance(k, np.ndarray) and not isinstance(self.exposure, np.ndarray)
        _laplace(y, np.full(n, k), np.full(n, c), same, w, b)
        return thresholded(w, b, False)

    def taylor_sites(self, y: np.ndarray, offset: float) -> Sites:
        """y > 0: w = y, b = y (log y - c); y = 0 has no maximum: the least precision, b = 0."""
        c = offset + np.log(self.exposure)
        return thresholded(y, y * (np.log(np.maximum(y, 1.0)) - c), False)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        return FactorLoop(_poisson_factors, self._log_exposure(y), np.empty(0), -log_factorial(y))

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Log exposures are constants."""
        constant = -float(log_factorial(y).sum())
        return CompiledValue(_poisson_value, self._log_exposure(y), np.empty(0), constant)


# Negative binomial likelihood with log link: counts that vary more than Poisson's.


def _negative_binomial_value(head, f, y, constants, phi):  # log(e / d); the size d
    offset, d, total = head[1], phi[0], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        total += y[i] * min(z, 0.0) - d * max(z, 0.0) - (y[i] + d) * np.log1p(np.exp(-abs(z)))
    head[2] = total


LARGEST_SHARE = 1.0 - 2.0**-53  # of a logarithmic distribution


def _negative_binomial_factors(head, eta, out, y, constants, phi):
    m, i, d = int(head[0]), int(head[1]), phi[0]
    count, shift = y[i], constants[i]
    for k in range(m):
        z = eta[k] + shift
        e = np.exp(-abs(z))
        less, more = e / (1.0 + e), 1.0 / (1.0 + e)
        p, q = (less, more) if z >= 0.0 else (more, less)
        second = -(count + d) * p * q
        out[k] = count * min(z, 0.0) - d * max(z, 0.0) - (count + d) * np.log1p(e)
        out[m + k] = count * p - d * q
        out[2 * m + k] = second
        out[3 * m + k] = second * (p - q)


@compiled(fastmath={"contract"})
def _negative_binomial_values_and_slopes(eta, y, shift, d, value, slope):
    one, constant = shift.size == 1, 0.0
    for i in range(y.size):
        constant += log_gamma_gap(d, y[i]) - log_factorial(y[i])
    for row in range(eta.shape[0]):
        total = constant
        for i in range(eta.shape[1]):
            z = eta[row, i] + shift[0 if one else i]
            e = exponential(-abs(z))
            inverse = 1.0 / (1.0 + e)
            p, q = (e * inverse, inverse) if z >= 0.0 else (inverse, e * inverse)
            total += y[i] * min(z, 0.0) - d * max(z, 0.0) - (y[i] + d) * np.log1p(e)
            slope[row, i] = y[i] * p - d * q
        value[row] = total


@compiled(fastmath={"contract"})
def _negative_binomial_size_slopes(eta, y, shift, d, slope):  # by log d, summed over the cases
    one, psi = shift.size == 1, 0.0
    for i in range(y.size):
        psi += digamma_ratio(d, y[i])
    for row in range(eta.shape[0]):
        total = psi
        for i in range(eta.shape[1]):
            z = eta[row, i] + shift[0 if one else i]
            t = exponential(-abs(z))
            inverse = 1.0 / (1.0 + t)
            p, q = (t * inverse, inverse) if z >= 0.0 else (inverse, t * inverse)
            e = (y[i] / d) * p - q
            if abs(e) < 0.01:
                total += log1p_less(e)
            else:
                total += np.log1p(y[i] / d) - max(z, 0.0) - np.log1p(t) - e
        slope[row] = d * total


Kind = TypeVar("Kind", bound=type)


def _refuse_old_name(kind: Kind) -> Kind:
    """Refuse ``dispersion``, the name that ``size`` had, of which a larger value meant a smaller variance."""
    own: Any = kind
    made = own.__init__

    @wraps(made)
    def init(self: Any, *values: Any, **settings: Any) -> None:
        if "dispersion" in settings:
            value = settings["dispersion"]
            raise InputError(
                f"{own.name} likelihood: dispersion is {value!r}, and is called size now, as in R (variance "
                f"m + m^2 / size); write size={value!r}, in a config size: {value}"
            )
        made(self, *values, **settings)

    own.__init__ = init
    return kind


@_refuse_old_name
@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomial(CountLikelihood):
    """Negative binomial likelihood of counts with log link: mean m = e exp(eta), variance m + m^2 / d.

    log p = log G(y + d) - log G(d) - log G(y + 1) + y log q + d log p, q = m / (m + d), p = 1 - q.

    As d grows this is Poisson's.

    Attributes
    ----------
    size:
        d > 0, dimensionless, as R's ``size``: a number, a hyperprior or a `Parameter`; the smaller, the more
        counts vary, and large is Poisson's; by default log d ~ N(1, 1.5^2).
    exposure:
        e > 0, the size of each cell or the time it was watched: a number, or one for each case (n,).

    Raises
    ------
    InputError:
        For settings that are not positive; in a model, for y that are not counts.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> round(gp.NegativeBinomial(size=1.0).log_density(np.zeros(1), np.zeros(1)).item(), 4)  # log 1/2
    -0.6931
    """

    size: Setting | None = None
    exposure: float | np.ndarray = 1.0
    name = "negative_binomial"
    parameters = ("size",)
    renamed = ("dispersion",)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, y p - d q, -(y + d) p q, -(y + d) p q (p - q)."""
        d, z = self._scaled(eta)
        p, q = expit(-z), expit(z)
        value = self._constant(y, d) - y * np.logaddexp(0.0, -z) - d * np.logaddexp(0.0, z)
        second = -(y + d) * p * q
        return value, y * p - d * q, second, second * (p - q)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and slopes y p - d q."""
        d, shift = self._size_and_shift()
        return values_and_slopes(_negative_binomial_values_and_slopes, eta, y, shift, d)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Sums of `case_slopes`."""
        if not self.entries():  # the size is a function
            return super().parameter_gradient(eta, y)
        flat, (d, shift) = flat_rows(eta), self._size_and_shift()
        slope = np.empty(len(flat))
        _negative_binomial_size_slopes(flat, y, shift, d, slope)
        return slope.reshape(*eta.shape[:-1], 1)

    def _size_and_shift(self) -> tuple[float, np.ndarray]:
        d = float(self.number("size"))
        return d, np.atleast_1d(np.log(self.exposure) - np.log(d))

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log d: d (psi(y + d) - psi(d) + log p) + d q - y p."""
        d, z = self._scaled(eta)
        # with e = (y - m) / (m + d): log(1 + y / d) + log p = log(1 + e), and y p - d q = d e
        e = (y / d) * expit(-z) - expit(z)
        less = np.log1p(y / d) - np.logaddexp(0.0, z) - e
        less = np.where(np.abs(e) < 0.01, log1p_less(e), less)
        return (d * (less + digamma_ratio(d, y)))[..., None]

    def zero_terms(self, eta: np.ndarray) -> ZeroTerms:
        """d log(1 + m / d), log q, d q, p, q."""
        d, z = self._scaled(eta)
        p, q = expit(-z), expit(z)
        return ZeroTerms(d * np.logaddexp(0.0, z), -np.logaddexp(0.0, -z), d * q, p, q)

    def eta_of_zero(self, x: float) -> np.ndarray:
        """log(d (exp(x / d) - 1) / e)."""
        d = self.number("size")
        return np.log(d) - np.log(self.exposure) + x / d + np.log(-np.expm1(-x / d))

    def simulate_positive(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Clusters of logarithmic sizes, in a Poisson number d log(1 + m / d): one, and those after it."""
        d, z = self._scaled(eta)
        at = self.zero_terms(eta)
        first = rng.logseries(np.clip(at.q, SMALLEST_RATE, LARGEST_SHARE))
        with np.errstate(over="ignore"):
            rest = np.exp(z) * rng.standard_gamma(d * share_after_first(rng, at.x))
        return first + rng.poisson(np.minimum(rest, LARGEST_RATE)).astype(np.float64)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Poisson counts whose rates are gamma draws with mean m and shape d."""
        d = self.number("size")
        rate = self._rate(eta) * rng.standard_gamma(d, np.shape(eta)) / d
        return rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """The size is a parameter of the loop."""
        d = self.number("size")
        shift = self._log_exposure(y) - np.log(d)
        return CompiledValue(
            _negative_binomial_value, shift, np.array([d]), float(self._constant(y, d).sum())
        )

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        d = self.number("size")
        shift = self._log_exposure(y) - np.log(d)
        return FactorLoop(_negative_binomial_factors, shift, np.array([d]), self._constant(y, d))

    def _scaled(self, eta: np.ndarray) -> tuple[float | np.ndarray, np.ndarray]:
        d = self.number("size")
        return d, eta + (np.log(self.exposure) - np.log(d))  # log (m / d)

    @staticmethod
    def _constant(y: np.ndarray, d: float | np.ndarray) -> np.ndarray:
        return log_gamma_ratio(d, y) - log_factorial(y)
