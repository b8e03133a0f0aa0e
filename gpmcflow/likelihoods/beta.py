"""Beta likelihood with logit link: shares between 0 and 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, zeta

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood
from gpmcflow.likelihoods.logistic import Logistic
from gpmcflow.likelihoods.mean_precision import (
    Shares,
    draw_shares,
    share_derivatives,
    share_of,
    shares,
)
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.gamma_ratios import digamma_less, log_gamma_less, polygammas_less
from gpmcflow.parameters.parameter import Setting


def _value(
    head, f, y, constants, phi
):  # constants: logit y, log y, log(1 - y); phi: it and its log
    offset, n, total = head[1], int(head[0]), 0.0
    for i in range(n):
        eta, e = f[i] + offset, math.exp(-abs(f[i] + offset))
        less = math.log1p(e)
        log_a, log_b = phi[1] + min(eta, 0.0) - less, phi[1] - max(eta, 0.0) - less
        mu, rest = 1.0 / (1.0 + e), e / (1.0 + e)
        mu, rest = (mu, rest) if eta >= 0.0 else (rest, mu)
        a, b, d = phi[0] * mu, phi[0] * rest, constants[i] - eta
        if abs(d) < 1.0:
            fit = mu * d - math.log1p(mu * math.expm1(d))
        else:
            fit = mu * (constants[n + i] - min(eta, 0.0) + less)
            fit += rest * (constants[2 * n + i] + max(eta, 0.0) + less)
        total += log_a + log_b + log_gamma_less(a, log_a) + log_gamma_less(b, log_b) + phi[0] * fit
    head[2] = total


def _factors(head, eta, out, y, constants, phi):  # as `_value`
    m, i, n = int(head[0]), int(head[1]), int(head[2])
    logit_y, log_y, log_rest = constants[i], constants[n + i], constants[2 * n + i]
    for k in range(m):
        mu, rest, log_a, log_b = share_of(eta[k], phi[1])
        a, b, d = phi[0] * mu, phi[0] * rest, logit_y - eta[k]
        if abs(d) < 1.0:
            fit = mu * d - math.log1p(mu * math.expm1(d))
        else:
            fit = mu * (log_y - (log_a - phi[1])) + rest * (log_rest - (log_b - phi[1]))
        less_a, curve_a, bend_a = polygammas_less(a, log_a)
        less_b, curve_b, bend_b = polygammas_less(b, log_b)
        first = d - less_a + less_b
        slopes = share_derivatives(
            mu, rest, phi[0], 2.0, rest - mu, first, -curve_a - curve_b, bend_b - bend_a
        )
        gammas = log_gamma_less(a, log_a) + log_gamma_less(b, log_b)
        out[k] = log_a + log_b + gammas + phi[0] * fit
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
    >>> gp.Beta(precision=2.0).log_density(np.zeros(1), np.array([0.3])).item()  # uniform
    0.0
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
        phi, at = self._at(eta)
        first = self._rise(at, eta, y)
        slope = at.skew + phi * at.slope * first
        return self._log_p(at, phi, eta, y).sum(-1), slope

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log phi: sum of phi (psi(phi) - mu (psi(a) - log y) - (1 - mu) (psi(b) - log(1 - y)))."""
        phi, at = self._at(eta)
        less = phi * digamma_less(np.asarray(phi), np.log(phi))
        less = less - at.a * digamma_less(at.a, at.log_a) - at.b * digamma_less(at.b, at.log_b)
        return (1.0 + phi * self._fit(at, eta, y) + less).sum(-1)[..., None]

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
        phi, constants = self._phi(), np.stack([logit(y), np.log(y), np.log1p(-y)])
        constant = float(self._constant(phi, y).sum())
        return CompiledValue(_value, constants, np.array([phi, np.log(phi)]), constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        phi, constants = self._phi(), np.stack([logit(y), np.log(y), np.log1p(-y)])
        return FactorLoop(_factors, constants, np.array([phi, np.log(phi)]), self._constant(phi, y))

    def _log_p(self, at: Shares, phi: float, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
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
    def _constant(phi: float, y: np.ndarray) -> np.ndarray:
        log_phi = np.log(phi)
        return -log_phi - log_gamma_less(phi, log_phi) - np.log(y) - np.log1p(-y)

    def _at(self, eta: np.ndarray) -> tuple[float, Shares]:
        phi = self._phi()
        return phi, shares(eta, phi)

    def _phi(self) -> float:
        return float(self.number("precision"))
