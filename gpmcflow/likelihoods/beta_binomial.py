"""Beta-binomial likelihood with logit link: k of n that vary more than the binomial's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gpmcflow.likelihoods.base import CompiledValue
from gpmcflow.likelihoods.mean_precision import draw_shares, share_derivatives, share_of, shares
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.likelihoods.trials import TrialsLikelihood
from gpmcflow.numerics.code_cache import compiled_elementwise
from gpmcflow.numerics.gamma_ratios import (
    digamma_ratio,
    log_gamma_gap,
    log_gamma_ratio,
    polygamma_gap,
    polygamma_gaps,
)
from gpmcflow.parameters.parameter import Setting

MOST_SUMMED = 200  # trials up to which the information is a sum over all outcomes


def _value(head, f, y, constants, phi):  # constants are trials, phi is the precision
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        eta = f[i] + offset
        e = math.exp(-abs(eta))
        less, inverse = math.log1p(e), 1.0 / (1.0 + e)
        mu, rest = (inverse, e * inverse) if eta >= 0.0 else (e * inverse, inverse)
        k, others = y[i], constants[i] - y[i]
        if k > 0.0:  # log G(a + k) - log G(a + 1) + log a: a may underflow
            total += min(eta, 0.0) - less + phi[1] + log_gamma_gap(1.0 + phi[0] * mu, k - 1.0)
        if others > 0.0:
            total -= max(eta, 0.0) + less - phi[1]
            total += log_gamma_gap(1.0 + phi[0] * rest, others - 1.0)
    head[2] = total


def _factors(head, eta, out, y, constants, phi):  # as `_value`
    m, i = int(head[0]), int(head[1])
    successes, others = y[i], constants[i] - y[i]
    by_a, by_b = min(successes, 1.0), min(others, 1.0)
    more_a, more_b = max(successes - 1.0, 0.0), max(others - 1.0, 0.0)
    for k in range(m):
        mu, rest, log_a, log_b = share_of(eta[k], phi[1])
        a, b = 1.0 + phi[0] * mu, 1.0 + phi[0] * rest
        of_a, of_b = polygamma_gap(a, more_a), polygamma_gap(b, more_b)
        slopes = share_derivatives(
            mu, rest, phi[0], by_a + by_b, by_a * rest - by_b * mu,
            of_a[0] - of_b[0], of_a[1] + of_b[1], of_a[2] - of_b[2],
        )  # fmt: skip
        value = by_a * log_a + log_gamma_gap(a, more_a)
        out[k] = value + by_b * log_b + log_gamma_gap(b, more_b)
        out[m + k], out[2 * m + k], out[3 * m + k] = slopes


@compiled_elementwise
def _summed_information(mean, rest, slope, trials, phi):
    """E[l'^2], which is E[-l''], over all outcomes of the trials, elementwise; l' is 0 on average."""
    a, b = phi * mean, phi * rest
    log_p, score = 0.0, -mean  # of no success
    for j in range(int(trials)):
        log_p += math.log((b + j) / (phi + j)) if b + j > 0.0 else -math.inf
        score -= phi * slope / (b + j) if j > 0 else 0.0
    total = math.exp(log_p) * score * score
    for k in range(int(trials)):  # from k successes to one more
        left = trials - k - 1.0
        if a + k == 0.0 or b + left == 0.0:
            return total
        log_p += math.log((trials - k) / (k + 1.0) * ((a + k) / (b + left)))
        score += (phi * slope / (a + k) if k > 0 else rest) + (
            phi * slope / (b + left) if left > 0.0 else mean
        )
        total += math.exp(log_p) * score * score
    return total


@dataclass(frozen=True, eq=False, repr=False)
class BetaBinomial(TrialsLikelihood):
    """Beta-binomial likelihood with logit link: y successes of N trials whose probability varies.

    log p = log C(N, y) + log B(y + a, N - y + b) - log B(a, b), a = mu phi, b = (1 - mu) phi.

    The probability is a beta draw of mean mu = sigma(eta) and precision phi, so the variance is N mu (1 - mu)
    (phi + N) / (phi + 1); as phi grows this is the binomial. Not log-concave.

    Attributes
    ----------
    trials:
        N, a whole number >= 1, or one for each case (n,).
    precision:
        phi > 0, dimensionless: a number, a hyperprior or a `Parameter`; by default log phi ~ N(2, 1).

    Raises
    ------
    InputError:
        For trials that are not whole and positive, and a precision that is neither positive nor a hyperprior;
        in a model, for y that are not counts of at most N.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.BetaBinomial(trials=4, precision=2.0)  # all outcomes are as likely
    >>> round(likelihood.log_density(np.zeros(1), np.array([1.0])).item(), 4)
    -1.6094
    """

    trials: int | np.ndarray
    precision: Setting | None = None
    name = "beta_binomial"
    parameters = ("precision",)
    log_concave = False

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p; with v = mu (1 - mu), phi v (psi(y + a) - psi(a) - psi(N - y + b) + psi(b)), and so on.

        log G(y + a) - log G(a) is 0 for y = 0, else log a and a ratio from 1 + a, which is finite at a = 0.
        """
        phi = self._phi()
        at, others = shares(eta, phi), self.trials - y
        by_a, of_a = (y > 0) * 1.0, polygamma_gaps(1.0 + at.a, np.maximum(y - 1.0, 0.0))
        by_b, of_b = (others > 0) * 1.0, polygamma_gaps(1.0 + at.b, np.maximum(others - 1.0, 0.0))
        rest = of_a[0] - of_b[0], of_a[1] + of_b[1], of_a[2] - of_b[2]
        value = by_a * at.log_a + log_gamma_ratio(1.0 + at.a, np.maximum(y - 1.0, 0.0))
        value += by_b * at.log_b + log_gamma_ratio(1.0 + at.b, np.maximum(others - 1.0, 0.0))
        return value + self._constants(phi, y), *at.derivatives(by_a, by_b, phi, *rest)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log phi: a (psi(y + a) - psi(a)) + b (psi(N - y + b) - psi(b)), less the same of N and phi."""
        phi = self._phi()
        at, others = shares(eta, phi), self.trials - y
        slopes = _grown(at.a, y) + _grown(at.b, others) - _grown(phi, self.trials + 0.0 * y)
        return slopes.sum(-1)[..., None]

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E[-l''] by a sum over all outcomes, of more than 200 trials N v (1 + phi) / (N + phi)."""
        phi = self._phi()
        at = shares(eta, phi)
        few = np.minimum(self.trials, MOST_SUMMED)
        summed = _summed_information(at.mean, at.rest, at.slope, few, phi)
        many = self.trials * at.slope * (1.0 + phi) / (self.trials + phi)
        found = np.where(self.trials > MOST_SUMMED, many, summed)
        return np.broadcast_to(found, np.broadcast(eta, y).shape)

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The binomial's, N mu (1 - mu)."""
        v = expit(eta) * expit(-eta)
        return np.broadcast_to(self.trials * v, np.broadcast(eta, y).shape)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where quadrature over eta must look besides the cavity: maxima of log p, or where it bends.

        None or all of the trials have no maximum: there l' goes from 0 to -1 or 1, and is half way.
        """
        goal = 0.5 * ((y == self.trials) * 1.0 - (y == 0.0))
        high = np.log(self.trials) + 5.0 + np.zeros(len(y))
        low = -high
        for _ in range(30):
            centre = 0.5 * (low + high)
            above = self.gradient(centre, y) > goal
            low, high = np.where(above, centre, low), np.where(above, high, centre)
        return centre, 1.0 / np.sqrt(self.information(centre, y))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Successes of N trials whose probability is a beta draw."""
        share = draw_shares(rng, eta, self._phi())
        return rng.binomial(np.asarray(self.trials, int), share).astype(np.float64)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Trials are constants, the precision is a parameter of the loop."""
        phi, trials = self._phi(), np.full((1, len(y)), self.trials)
        constant = float(np.sum(self._constants(phi, y)))
        return CompiledValue(_value, trials, np.array([phi, np.log(phi)]), constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        phi, trials = self._phi(), np.full((1, len(y)), self.trials)
        return FactorLoop(
            _factors, trials, np.array([phi, np.log(phi)]), self._constants(phi, y) + 0.0 * y
        )

    def _constants(self, phi: float, y: np.ndarray) -> np.ndarray:
        return self._log_choices(y) - log_gamma_ratio(phi, self.trials)

    def _phi(self) -> float:
        return float(self.number("precision"))


def _grown(d: np.ndarray | float, k: np.ndarray) -> np.ndarray:
    """d (psi(d + k) - psi(d)) - k: about -k^2 / (2 d) where d is large, and 1 - k at d = 0 for k > 0."""
    more = np.maximum(k - 1.0, 0.0)
    rest = digamma_ratio(1.0 + d, more) + np.log1p(more / (1.0 + d))
    return np.where(k > 0, 1.0 + d * rest, 0.0) - k
