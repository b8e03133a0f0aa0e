"""Likelihoods of shares: k of n, binomial or beta-binomial, and numbers between 0 and 1, beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, zeta

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood, values_and_slopes
from gpmcflow.likelihoods.binary import Logistic
from gpmcflow.likelihoods.counts import validate_counts
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled, compiled_elementwise
from gpmcflow.numerics.gamma_ratios import (
    LARGE,
    digamma_less,
    digamma_ratio,
    gammas_less,
    log_gamma_gap,
    log_gamma_less,
    log_gamma_ratio,
    polygamma_gap,
    polygamma_gaps,
    polygammas,
)
from gpmcflow.parameters.parameter import Setting

# What likelihoods of k of n share: whole numbers of trials, counts of at most all, and a logit link.


class TrialsLikelihood(Likelihood):
    """Successes among N trials; N is a number, or one for each case, and sigma(eta) the mean of one trial."""

    constants = ("trials",)
    discrete = True
    standard_sites = "laplace"
    trials: int | np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = np.flatnonzero(self.trials != np.floor(self.trials))
        if wrong.size:
            raise InputError(
                f"{type(self).__name__} likelihood: trials is {np.ravel(self.trials)[wrong[0]]:g} in case "
                f"{wrong[0]}; allowed: whole numbers 1, 2, ..."
            )

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, none above its trials."""
        super().validate(y)
        validate_counts(self.name, y)
        wrong = np.flatnonzero(y > self.trials)
        if wrong.size:
            i = wrong[0]
            raise InputError(
                f"{self.name} likelihood: y[{i}] is {y[i]:g} of "
                f"{np.broadcast_to(self.trials, y.shape)[i]:g} trials; allowed: at most all"
            )

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Probability of success sigma(eta), the mean of one trial."""
        return expit(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Probability of success, as of logistic data."""
        return Logistic().mean_response(mean, variance)

    def _log_choices(self, y: np.ndarray) -> np.ndarray:
        return gammaln(self.trials + 1.0) - gammaln(y + 1.0) - gammaln(self.trials - y + 1.0)


# What beta and beta-binomial share: a = mu phi and b = (1 - mu) phi, mu = sigma(eta), phi the precision.

# of simulated shares; no share is 0 or 1
SMALLEST, LARGEST = 1e-300, 1.0 - 2.0**-53


class Shares(NamedTuple):
    """a and b of a beta distribution, and what their derivatives by eta need, each (..., n)."""

    mean: np.ndarray  #: mu
    rest: np.ndarray  #: 1 - mu
    a: np.ndarray
    b: np.ndarray
    log_a: np.ndarray
    log_b: np.ndarray
    slope: np.ndarray  #: v = mu (1 - mu), times phi the derivative of a
    skew: np.ndarray  #: 1 - 2 mu

    def derivatives(
        self,
        by_a: np.ndarray | float,
        by_b: np.ndarray | float,
        phi: float | np.ndarray,
        *of_rest: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives 1, 2, 3 by eta of by_a log a + by_b log b + A(a) + B(b).

        ``of_rest`` are A' - B', A'' + B'' and A''' - B'''.
        """
        first, second, third = of_rest
        v, c, both, speed = self.slope, self.skew, by_a + by_b, phi * self.slope
        curve = (c * c - 2.0 * v) * first + speed * (3.0 * c * second + speed * third)
        return (
            by_a * self.rest - by_b * self.mean + speed * first,
            -both * v + speed * (c * first + speed * second),
            -both * v * c + speed * curve,
        )


def shares(eta: np.ndarray, phi: float | np.ndarray) -> Shares:
    """At predictors eta (..., n)."""
    mean, rest, log_phi = expit(eta), expit(-eta), np.log(phi)
    log_a, log_b = log_phi - np.logaddexp(0.0, -eta), log_phi - np.logaddexp(0.0, eta)
    v = mean * rest
    return Shares(mean, rest, phi * mean, phi * rest, log_a, log_b, v, rest - mean)


@compiled(inline="always")
def share_of(eta, log_phi):
    """mu, 1 - mu, log a and log b at one predictor, for compiled loops."""
    e = math.exp(-abs(eta))
    less, inverse = math.log1p(e), 1.0 / (1.0 + e)
    mean, rest = (inverse, e * inverse) if eta >= 0.0 else (e * inverse, inverse)
    return mean, rest, log_phi + min(eta, 0.0) - less, log_phi - max(eta, 0.0) - less


@compiled(inline="always")
def share_derivatives(mean, rest, phi, both, of_share, first, second, third):
    """`Shares.derivatives` of numbers: ``both`` is by_a + by_b, ``of_share`` by_a (1 - mu) - by_b mu."""
    v, c = mean * rest, rest - mean
    speed = phi * v
    curve = (c * c - 2.0 * v) * first + speed * (3.0 * c * second + speed * third)
    return (
        of_share + speed * first,
        -both * v + speed * (c * first + speed * second),
        -both * v * c + speed * curve,
    )


def draw_shares(rng: np.random.Generator, eta: np.ndarray, phi: float | np.ndarray) -> np.ndarray:
    """Beta draws, shape of eta."""
    at = shares(eta, phi)
    y = rng.beta(np.maximum(at.a, SMALLEST), np.maximum(at.b, SMALLEST))
    return np.clip(y, SMALLEST, LARGEST)


# Binomial likelihood with logit link: k successes of n trials.


def _binomial_value(head, f, y, constants, phi):  # constants are trials
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        z, n = f[i] + offset, constants[i]
        total += y[i] * min(z, 0.0) - (n - y[i]) * max(z, 0.0) - n * np.log1p(np.exp(-abs(z)))
    head[2] = total


def _binomial_factors(head, eta, out, y, constants, phi):
    m, i = int(head[0]), int(head[1])
    count, n = y[i], constants[i]
    for k in range(m):
        z = eta[k]
        e = np.exp(-abs(z))
        less, more = e / (1.0 + e), 1.0 / (1.0 + e)
        p, q = (more, less) if z >= 0.0 else (less, more)
        second = -n * p * q
        out[k] = count * min(z, 0.0) - (n - count) * max(z, 0.0) - n * np.log1p(e)
        out[m + k] = count * q - (n - count) * p
        out[2 * m + k] = second
        out[3 * m + k] = second * (q - p)


@dataclass(frozen=True, eq=False, repr=False)
class Binomial(TrialsLikelihood):
    """Binomial likelihood with logit link: y successes of N trials.

    log p = log C(N, y) + y log p + (N - y) log q, p = 1 / (1 + exp(-eta)), q = 1 - p.

    Attributes
    ----------
    trials:
        N, a whole number >= 1, or one for each case (n,).

    Raises
    ------
    InputError:
        For trials that are not whole and positive; in a model, for y that are not counts of at most N.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Binomial(trials=4)
    >>> round(likelihood.log_density(np.zeros(1), np.array([1.0])).item(), 4)  # log (4 / 16)
    -1.3863
    """

    trials: int | np.ndarray

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, y q - (N - y) p, -N p q, -N p q (q - p)."""
        p, q, rest = expit(eta), expit(-eta), self.trials - y
        value = self._log_choices(y) - y * np.logaddexp(0.0, -eta) - rest * np.logaddexp(0.0, eta)
        second = -self.trials * p * q
        return value, y * q - rest * p, second, second * (q - p)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Successes of N trials with probability sigma(eta)."""
        return rng.binomial(np.asarray(self.trials, int), expit(eta)).astype(np.float64)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Trials are constants."""
        trials = np.full((1, len(y)), self.trials)
        return CompiledValue(
            _binomial_value, trials, np.empty(0), float(np.sum(self._log_choices(y)))
        )

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        trials = np.full((1, len(y)), self.trials)
        return FactorLoop(_binomial_factors, trials, np.empty(0), self._log_choices(y))


# Beta-binomial likelihood with logit link: k of n that vary more than the binomial's.

MOST_SUMMED = 200  # trials up to which the information is a sum over all outcomes


def _beta_binomial_value(head, f, y, constants, phi):  # trials; the precision and its log
    total = 0.0
    for i in range(int(head[0])):
        mu, rest, log_a, log_b = share_of(f[i] + head[1], phi[1])
        k, others = y[i], constants[i] - y[i]
        if k > 0.0:  # log G(a + k) - log G(a + 1) + log a: a may underflow
            total += log_a + log_gamma_gap(1.0 + phi[0] * mu, k - 1.0)
        if others > 0.0:
            total += log_b + log_gamma_gap(1.0 + phi[0] * rest, others - 1.0)
    head[2] = total


def _beta_binomial_factors(head, eta, out, y, constants, phi):  # as `_value`
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


@compiled
def _gamma_gap(d, y):
    """log Gamma(d + y) - log Gamma(d) and its derivative by d, for d >= 1 and a whole y >= 0."""
    if y > 64.0 or d > LARGE:
        return log_gamma_gap(d, y), polygamma_gap(d, y)[0]
    product, slope = 1.0, 0.0
    for j in range(int(y)):
        product *= d + j
        slope += 1.0 / (d + j)
    return math.log(product), slope


@compiled
def _beta_binomial_values_and_slopes(eta, y, trials, phi, log_phi, value, slope):
    for row in range(eta.shape[0]):
        total = 0.0
        for i in range(eta.shape[1]):
            mu, rest, log_a, log_b = share_of(eta[row, i], log_phi)
            others = trials[i] - y[i]
            of_share = gap = 0.0
            if y[i] > 0.0:
                log_gamma, gap = _gamma_gap(1.0 + phi * mu, y[i] - 1.0)
                total += log_a + log_gamma
                of_share = rest
            if others > 0.0:
                log_gamma, psi = _gamma_gap(1.0 + phi * rest, others - 1.0)
                total += log_b + log_gamma
                gap -= psi
                of_share -= mu
            slope[row, i] = of_share + phi * mu * rest * gap
        value[row] = total


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

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and slopes as of `derivatives`."""
        phi = self._phi()
        settings = y, np.broadcast_to(self.trials, y.shape).astype(np.float64), phi, np.log(phi)
        value, slope = values_and_slopes(_beta_binomial_values_and_slopes, eta, *settings)
        value += np.sum(self._constants(phi, y))
        return value, slope

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log phi: a (psi(y + a) - psi(a)) + b (psi(N - y + b) - psi(b)), less the same of N and phi."""
        phi = self._phi()
        at, others = shares(eta, phi), self.trials - y
        slopes = _grown(at.a, y) + _grown(at.b, others) - _grown(phi, self.trials + 0.0 * y)
        return slopes[..., None]

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
        return CompiledValue(_beta_binomial_value, trials, np.array([phi, np.log(phi)]), constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        phi, trials = self._phi(), np.full((1, len(y)), self.trials)
        return FactorLoop(
            _beta_binomial_factors,
            trials,
            np.array([phi, np.log(phi)]),
            self._constants(phi, y) + 0.0 * y,
        )

    def _constants(self, phi: float | np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._log_choices(y) - log_gamma_ratio(phi, self.trials)

    def _phi(self) -> float | np.ndarray:
        return self.number("precision")


def _grown(d: np.ndarray | float, k: np.ndarray) -> np.ndarray:
    """d (psi(d + k) - psi(d)) - k: about -k^2 / (2 d) where d is large, and 1 - k at d = 0 for k > 0."""
    more = np.maximum(k - 1.0, 0.0)
    rest = digamma_ratio(1.0 + d, more) + np.log1p(more / (1.0 + d))
    return np.where(k > 0, 1.0 + d * rest, 0.0) - k


# Beta likelihood with logit link: shares between 0 and 1.


@compiled
def _beta_terms(eta, phi, log_phi, logit_y, log_y, log_rest):
    """mu, 1 - mu, log p but for what does not depend on eta, logit y - psi(1 + a) + psi(1 + b)."""
    mu, rest, log_a, log_b = share_of(eta, log_phi)
    d = logit_y - eta
    if abs(d) < 1.0:
        fit = mu * d - math.log1p(mu * math.expm1(d))
    else:
        fit = mu * (log_y - (log_a - log_phi)) + rest * (log_rest - (log_b - log_phi))
    (gamma_a, psi_a), (gamma_b, psi_b) = (
        gammas_less(phi * mu, log_a),
        gammas_less(phi * rest, log_b),
    )
    return mu, rest, log_a + log_b + gamma_a + gamma_b + phi * fit, d - psi_a + psi_b


# constants of the loops: logit y, log y, log(1 - y); phi is the precision and its log


def _beta_value(head, f, y, constants, phi):
    n, total = int(head[0]), 0.0
    for i in range(n):
        of_y = constants[i], constants[n + i], constants[2 * n + i]
        total += _beta_terms(f[i] + head[1], phi[0], phi[1], *of_y)[2]
    head[2] = total


@compiled
def _beta_values_and_slopes(eta, constants, phi, log_phi, value, slope):
    for row in range(eta.shape[0]):
        total = 0.0
        for i in range(eta.shape[1]):
            of_y = constants[0, i], constants[1, i], constants[2, i]
            mu, rest, log_p, first = _beta_terms(eta[row, i], phi, log_phi, *of_y)
            total += log_p
            slope[row, i] = rest - mu + phi * mu * rest * first
        value[row] = total


def _beta_factors(head, eta, out, y, constants, phi):
    m, i, n = int(head[0]), int(head[1]), int(head[2])
    of_y = constants[i], constants[n + i], constants[2 * n + i]
    for k in range(m):
        mu, rest, out[k], first = _beta_terms(eta[k], phi[0], phi[1], *of_y)
        of_a, of_b = polygammas(1.0 + phi[0] * mu), polygammas(1.0 + phi[0] * rest)
        slopes = share_derivatives(
            mu, rest, phi[0], 2.0, rest - mu, first, -of_a[1] - of_b[1], of_b[2] - of_a[2]
        )
        out[m + k], out[2 * m + k], out[3 * m + k] = slopes


@dataclass(frozen=True, eq=False, repr=False)
class Beta(Likelihood):
    """Beta likelihood of shares with logit link: mean mu = sigma(eta), variance mu (1 - mu) / (1 + phi).

    log p = log G(phi) - log G(a) - log G(b) + (a - 1) log y + (b - 1) log(1 - y), a = mu phi, b = (1 - mu)
    phi, phi the precision. Not log-concave: l'' > 0 far from logit y.

    Attributes
    ----------
    precision:
        phi > 0, dimensionless: a number, a hyperprior or a `Parameter`; the larger, the less y varies about
        its mean; by default log phi ~ N(2, 1).

    Raises
    ------
    InputError:
        For a precision that is neither positive nor a hyperprior; in a model, for y that are not between 0
        and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Beta(precision=2.0)  # of mean 1/2: uniform
    >>> round(float(np.exp(likelihood.log_density(np.zeros(1), np.array([0.3])).item())), 12)
    1.0
    """

    precision: Setting | None = None
    parameters = ("precision",)
    log_concave = False
    standard_sites = "laplace"

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless all y lie between 0 and 1."""
        super().validate(y)
        wrong = np.flatnonzero(~((y > 0.0) & (y < 1.0)))
        if wrong.size:
            raise InputError(
                f"beta likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: numbers above 0 and below 1; "
                "leave such cases out, shrink y to (y (n - 1) + 0.5) / n, or take binomial where y is k of n"
            )

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, and with v = mu (1 - mu): phi v (logit y - psi(a) + psi(b)) and its derivatives."""
        phi, at = self._at(eta)
        first = self._rise(at, eta, y)
        second = -zeta(2.0, 1.0 + at.a) - zeta(2.0, 1.0 + at.b)
        third = 2.0 * (zeta(3.0, 1.0 + at.a) - zeta(3.0, 1.0 + at.b))
        by_eta = at.derivatives(1.0, 1.0, phi, first, second, third)
        return self._log_p(at, phi, eta, y), *by_eta

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and phi v (logit y - psi(a) + psi(b))."""
        phi = self._phi()
        settings = self._of_y(y), phi, np.log(phi)
        value, slope = values_and_slopes(_beta_values_and_slopes, eta, *settings)
        value += self._constant(phi, y).sum()
        return value, slope

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log phi: phi (psi(phi) - mu (psi(a) - log y) - (1 - mu) (psi(b) - log(1 - y)))."""
        phi, at = self._at(eta)
        less = phi * digamma_less(np.asarray(phi), np.log(phi))
        less = less - at.a * digamma_less(at.a, at.log_a) - at.b * digamma_less(at.b, at.log_b)
        return (1.0 + phi * self._fit(at, eta, y) + less)[..., None]

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """phi^2 v^2 (psi'(a) + psi'(b))."""
        phi, at = self._at(eta)
        rest = zeta(2.0, 1.0 + at.a) + zeta(2.0, 1.0 + at.b)
        return np.broadcast_to(
            at.mean**2 + at.rest**2 + (phi * at.slope) ** 2 * rest, np.broadcast(eta, y).shape
        )

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The larger of information and -l''."""
        return np.maximum(self.information(eta, y), -self.derivatives(eta, y)[2])

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where quadrature over eta must look besides the cavity: maxima of log p, and widths there.

        A maximum lies between 0 and logit y, as psi(a) - psi(b) is farther from 0 than eta is.
        """
        top = logit(y)
        low, high = np.minimum(top, 0.0), np.maximum(top, 0.0)
        for _ in range(30):
            centre = 0.5 * (low + high)
            above = self.gradient(centre, y) > 0.0
            low, high = np.where(above, centre, low), np.where(above, high, centre)
        return centre, 1.0 / np.sqrt(self.information(centre, y))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Beta draws of mean sigma(eta), between 1e-300 and 1 - 1e-16."""
        return draw_shares(rng, eta, self._phi())

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return sigma(eta)."""
        return expit(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """As of logistic data."""
        return Logistic().mean_response(mean, variance)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Logits of the responses are constants, the precision is a parameter of the loop."""
        phi = self._phi()
        constant = float(self._constant(phi, y).sum())
        return CompiledValue(_beta_value, self._of_y(y), np.array([phi, np.log(phi)]), constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        phi = self._phi()
        of_phi = np.array([phi, np.log(phi)])
        return FactorLoop(_beta_factors, self._of_y(y), of_phi, self._constant(phi, y))

    @staticmethod
    def _of_y(y: np.ndarray) -> np.ndarray:
        return np.stack([logit(y), np.log(y), np.log1p(-y)])

    def _log_p(
        self, at: Shares, phi: float | np.ndarray, eta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        gammas = log_gamma_less(at.a, at.log_a) + log_gamma_less(at.b, at.log_b)
        return at.log_a + at.log_b + gammas + phi * self._fit(at, eta, y) + self._constant(phi, y)

    @staticmethod
    def _rise(at: Shares, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """logit y - psi(1 + a) + psi(1 + b)."""
        return (logit(y) - eta) - digamma_less(at.a, at.log_a) + digamma_less(at.b, at.log_b)

    @staticmethod
    def _fit(at: Shares, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """mu log(y / mu) + (1 - mu) log((1 - y) / (1 - mu)), at most 0."""
        d = logit(y) - eta
        near = np.abs(d) < 1.0
        close = at.mean * d - np.log1p(at.mean * np.expm1(np.where(near, d, 0.0)))
        above, below = np.log(y) + np.logaddexp(0.0, -eta), np.log1p(-y) + np.logaddexp(0.0, eta)
        return np.where(near, close, at.mean * above + at.rest * below)

    @staticmethod
    def _constant(phi: float | np.ndarray, y: np.ndarray) -> np.ndarray:
        log_phi = np.log(phi)
        return -log_phi - log_gamma_less(phi, log_phi) - np.log(y) - np.log1p(-y)

    def _at(self, eta: np.ndarray) -> tuple[float | np.ndarray, Shares]:
        phi = self._phi()
        return phi, shares(eta, phi)

    def _phi(self) -> float | np.ndarray:
        return self.number("precision")
