"""Likelihoods of positive numbers: gamma and log-normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import CompiledValue, Likelihood, values_and_slopes
from gpmcflow.likelihoods.real import Gaussian
from gpmcflow.likelihoods.sites import Sites
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.numerics.gamma_ratios import log_gamma_rest, log_less_digamma
from gpmcflow.parameters.parameter import Setting

# What likelihoods of positive responses share: a log link, and one line where y is not positive.


class PositiveLikelihood(Likelihood):
    """Responses above 0 whose mean is exp(eta) times what is the same for all eta."""

    log_link = True
    eta_of = "log y"

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless all y are positive and finite."""
        super().validate(y)
        wrong = np.flatnonzero(~((y > 0.0) & (y < np.inf)))
        if wrong.size:
            raise InputError(
                f"{self.name} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: numbers above 0; leave "
                "such cases out, or take gaussian or student_t"
            )


# Gamma likelihood with log link: positive responses whose spread grows with their mean.

SMALLEST, LARGEST_RESPONSE = 1e-300, 1e300  # simulated responses


def _gamma_value(head, f, y, constants, phi):  # constants are log y, phi is the shape
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        d = constants[i] - f[i] - offset
        total += d - np.expm1(d)
    head[2] = phi[0] * total


def _factors(head, eta, out, y, constants, phi):
    m, i, a = int(head[0]), int(head[1]), phi[0]
    for k in range(m):
        d = constants[i] - eta[k]
        rest = np.expm1(d)
        out[k] = a * (d - rest)
        out[m + k] = a * rest
        out[2 * m + k] = -a * (1.0 + rest)
        out[3 * m + k] = a * (1.0 + rest)


@compiled(fastmath={"contract"})
def _values_and_slopes(eta, log_y, shape, constant, value, slope):
    for p in range(eta.shape[0]):
        for i in range(eta.shape[1]):
            x = log_y[i] - eta[p, i]
            slope[p, i] = np.inf if x > 708.0 else exponential(x) - 1.0
        total = 0.0
        for i in range(eta.shape[1]):
            total += (log_y[i] - eta[p, i]) - slope[p, i]
            slope[p, i] *= shape
        value[p] = shape * total + constant


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(PositiveLikelihood):
    """Gamma likelihood of positive, skewed responses with log link: mean m = exp(eta), variance m^2 / shape.

    log p = a log a - a eta + (a - 1) log y - a y exp(-eta) - log G(a), a the shape.

    Attributes
    ----------
    shape:
        a > 0, dimensionless: a number, a hyperprior or a `Parameter`; 1 is the exponential distribution, and
        the larger, the less y varies about its mean; by default log a ~ N(1, 1).

    Raises
    ------
    InputError:
        For a shape that is neither positive nor a hyperprior; in a model, for y that are not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Gamma(1.0).log_density(np.zeros(1), np.ones(1)).item()  # exponential of mean 1
    -1.0
    """

    shape: Setting | None = None
    parameters = ("shape",)
    standard_sites = "laplace"

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum over cases, and a (y exp(-eta) - 1); -inf where y exp(-eta) overflows."""
        a, log_y = self._shape(), np.log(y)
        constant = float(self._constant(log_y, a).sum())
        return values_and_slopes(_values_and_slopes, eta, log_y, a, constant)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, a (q - 1), -a q, a q with q = y exp(-eta)."""
        a, log_y = self._shape(), np.log(y)
        d = log_y - eta
        with np.errstate(over="ignore"):
            first, third = a * np.expm1(d), a * np.exp(d)
        return self._constant(log_y, a) + (a * d - first), first, -third, third

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log a: a (log a - psi(a) + log q - q + 1)."""
        a, d = self._shape(), np.log(y) - eta
        with np.errstate(over="ignore"):
            return (a * (log_less_digamma(a) + (d - np.expm1(d))))[..., None]

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Gamma draws of mean exp(eta), within 1e-300 and 1e300."""
        a = self._shape()
        with np.errstate(over="ignore"):
            y = np.exp(eta) * rng.standard_gamma(a, np.shape(eta)) / a
        return np.clip(y, SMALLEST, LARGEST_RESPONSE)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return exp(eta)."""
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return exp(mean + variance / 2)."""
        return self.conditional_mean(mean + 0.5 * variance)

    def taylor_sites(self, y: np.ndarray, offset: float) -> Sites:
        """The maximum is at log y: w = a, b = a (log y - c)."""
        a = self._shape()
        return Sites(np.full(len(y), a), a * (np.log(y) - offset), True)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Logs of the responses are constants, the shape is a parameter of the loop."""
        a, log_y = self._shape(), np.log(y)
        constant = float(self._constant(log_y, a).sum())
        return CompiledValue(_gamma_value, log_y[None], np.array([a]), constant)

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        a, log_y = self._shape(), np.log(y)
        return FactorLoop(_factors, log_y[None], np.array([a]), self._constant(log_y, a))

    def _shape(self) -> float | np.ndarray:
        return self.number("shape")

    @staticmethod
    def _constant(log_y: np.ndarray, a: float | np.ndarray) -> np.ndarray:
        return log_gamma_rest(a) - log_y


# Log-normal likelihood: log y = eta + noise.

LARGEST_LOG_RESPONSE = 700.0  # |log y| of simulated responses


def _log_normal_value(head, f, y, constants, phi):  # log y; the precision of the noise
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        r = constants[i] - f[i] - offset
        total -= r * r
    head[2] = 0.5 * phi[0] * total


@dataclass(frozen=True, eq=False, repr=False)
class LogNormal(PositiveLikelihood, Gaussian):
    """Log-normal likelihood of positive, skewed responses: log y = eta + noise.

    p(y | eta) = N(log y; eta, noise_sd^2) / y. Latents can be integrated out, as with `Gaussian` noise of log
    y; densities and evidences are those of y itself, which compare with other likelihoods of the same y. The
    median of y is exp(eta), its mean exp(eta + noise_sd^2 / 2).

    Attributes
    ----------
    noise_sd:
        Standard deviation > 0 of log y about eta, roughly the relative spread of y: a number, a hyperprior
        or a `Parameter`; by default log noise_sd ~ N(-1, 1).

    Raises
    ------
    InputError:
        For a noise level that is neither positive nor a hyperprior; in a model, for y that are not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> price = np.array([1.2, 0.9, 3.0, 7.5])
    >>> model = gp.GPModel(np.arange(4.0), price, gp.Matern32(2.0, 1.0), gp.LogNormal(0.5))
    >>> round(gp.approximate(model).log_evidence, 4)
    -8.6678
    """

    noise_sd: Setting | None = None
    name = "log_normal"
    constants = ()  # type: ignore[assignment]  # noise known by case says nothing of new ones

    def to_eta(self, y: np.ndarray) -> np.ndarray:
        """Return log y."""
        return np.log(y)

    def from_eta(self, value: np.ndarray) -> np.ndarray:
        """Return exp(value)."""
        with np.errstate(over="ignore"):
            return np.exp(value)

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return -log y."""
        return -np.log(y)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log N(log y; eta, s^2) - log y, (log y - eta) / s^2, -1 / s^2, 0."""
        log_y = np.log(y)
        value, *slopes = Gaussian.derivatives(self, eta, log_y)
        return value - log_y, *slopes

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s: (log y - eta)^2 / s^2 - 1."""
        return Gaussian.case_slopes(self, eta, np.log(y))

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Closed form: Z = N(log y; mean, variance + s^2) / y."""
        log_y = np.log(y)
        log_z, alpha, r = Gaussian.tilted(self, log_y, mean, variance)
        return log_z - log_y, alpha, r

    def tilted_site(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The likelihood itself, of precision 1 / s^2."""
        return Gaussian.tilted_site(self, np.log(y), mean, variance)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return exp(eta plus noise), within exp(-700) and exp(700)."""
        return np.exp(
            np.clip(Gaussian.simulate(self, rng, eta), -LARGEST_LOG_RESPONSE, LARGEST_LOG_RESPONSE)
        )

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return exp(eta + s^2 / 2)."""
        return self.mean_response(eta, np.zeros(()))

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return exp(mean + (variance + s^2) / 2)."""
        return self.from_eta(mean + 0.5 * (variance + self.number("noise_sd") ** 2))

    def taylor_sites(self, y: np.ndarray, offset: float) -> Sites:
        """w = 1 / s^2, b = w (log y - c): the likelihood itself."""
        return Gaussian.taylor_sites(self, np.log(y), offset)

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Logs of the responses are constants."""
        s, log_y = self.number("noise_sd"), np.log(y)
        constant = -len(y) * (np.log(s) + 0.5 * np.log(2.0 * np.pi)) - log_y.sum()
        return CompiledValue(_log_normal_value, log_y[None], np.array([s**-2.0]), float(constant))
