"""Zero-inflated counts: a share of them is zero whatever the rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from gpmcflow.likelihoods.base import CompiledValue, flat_rows
from gpmcflow.likelihoods.counts import CountLikelihood
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.likelihoods.with_zeros import WithZeros, zero_terms
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.parameters.parameter import Setting


@compiled_elementwise
def _log_zero(x, pi):
    """log(pi + (1 - pi) exp(-x)), elementwise."""
    if x < 0.5:
        return math.log1p((1.0 - pi) * math.expm1(-x))
    return math.log(pi + (1.0 - pi) * math.exp(-x))


def _poisson_value(head, f, y, constants, phi):  # constants are log exposures, phi is pi
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        rate = np.exp(z)
        total += y[i] * z - rate if y[i] > 0.0 else _log_zero(rate, phi[0])
    head[2] = total


def _negative_binomial_value(head, f, y, constants, phi):  # log(e / d); pi and the size d
    offset, d, total = head[1], phi[1], 0.0
    for i in range(int(head[0])):
        z = f[i] + (offset + constants[i])
        less = np.log1p(np.exp(-abs(z)))
        x = d * (max(z, 0.0) + less)
        total += y[i] * (min(z, 0.0) - less) - x if y[i] > 0.0 else _log_zero(x, phi[0])
    head[2] = total


def _factors(head, eta, out, y, constants, phi):  # log exposures; pi and the size, 0 of a Poisson
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
def _values_and_slopes(eta, y, log_exposure, pi, d, constant, value, slope):
    """The base is Poisson where the size d is 0."""
    one = log_exposure.size == 1
    for row in range(eta.shape[0]):
        total, zeros = (
            constant,
            1.0,
        )  # probabilities of zeros are multiplied: one logarithm for many
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
        flat = flat_rows(eta)
        value, slope = np.empty(len(flat)), np.empty_like(flat)
        pi, log_exposure = self._pi(), np.atleast_1d(np.log(self.exposure))
        constant = self._constant_of_base(y) + np.count_nonzero(y) * np.log1p(-pi)
        _values_and_slopes(flat, y, log_exposure, pi, self._size(), constant, value, slope)
        return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the base, weighted with w where y = 0, and by logit pi: -pi, or (1 - w) (1 - pi) (1 - p0(0))."""
        pi, at = self._pi(), self.base.zero_terms(eta)
        w, rest = self._weights(at.x)
        weight = np.where(y > 0, 1.0, w)
        of_base = (weight[..., None] * self.base.case_slopes(eta, y)).sum(-2)
        own = np.where(y > 0, -pi, rest * (1.0 - pi) * -np.expm1(-at.x)).sum(-1)
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
        loop = _negative_binomial_value if len(size) else _poisson_value
        return CompiledValue(loop, shift, np.array([self._pi(), *size]), float(constant))

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """Of either base by one loop."""
        constants = self._constants_of_base(y) + np.where(y > 0, np.log1p(-self._pi()), 0.0)
        phi = np.array([self._pi(), self._size()])
        return FactorLoop(_factors, self._log_exposures(y), phi, constants)

    def _weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of a zero, the probabilities that it is the base's and that it is not."""
        a = x + logit(self._pi())
        return expit(-a), expit(a)

    def _fall(self) -> float:
        return max(1.0, -float(logit(self._pi())))
