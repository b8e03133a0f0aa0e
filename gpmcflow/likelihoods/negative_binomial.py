"""Negative binomial likelihood with log link: counts that vary more than Poisson's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from scipy.special import expit

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue
from gpmcflow.likelihoods.counts import (
    LARGEST_RATE,
    SMALLEST_RATE,
    CountLikelihood,
    ZeroTerms,
    log_factorial,
    share_after_first,
)
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.gamma_ratios import digamma_ratio, log1p_less, log_gamma_ratio
from gpmcflow.parameters.parameter import Setting


def _value(head, f, y, constants, phi):  # constants are log(e / d), phi is the size d
    offset, d, total = head[1], phi[0], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        total += y[i] * min(z, 0.0) - d * max(z, 0.0) - (y[i] + d) * np.log1p(np.exp(-abs(z)))
    head[2] = total


LARGEST_SHARE = 1.0 - 2.0**-53  # of a logarithmic distribution


def _factors(head, eta, out, y, constants, phi):
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

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log d: sum of `case_slopes`."""
        return self.case_slopes(eta, y).sum(-2)

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d (psi(y + d) - psi(d) + log p) + d q - y p, (..., n, 1)."""
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
        return CompiledValue(_value, shift, np.array([d]), float(self._constant(y, d).sum()))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        d = self.number("size")
        shift = self._log_exposure(y) - np.log(d)
        return FactorLoop(_factors, shift, np.array([d]), self._constant(y, d))

    def _scaled(self, eta: np.ndarray) -> tuple[float | np.ndarray, np.ndarray]:
        d = self.number("size")
        return d, eta + (np.log(self.exposure) - np.log(d))  # log (m / d)

    @staticmethod
    def _constant(y: np.ndarray, d: float | np.ndarray) -> np.ndarray:
        return log_gamma_ratio(d, y) - log_factorial(y)
