"""Log-normal likelihood: log y = eta + noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.likelihoods.base import CompiledValue
from gpmcflow.likelihoods.gaussian import Gaussian
from gpmcflow.likelihoods.positive import PositiveLikelihood
from gpmcflow.likelihoods.sites import Sites
from gpmcflow.parameters.parameter import Setting

LARGEST = 700.0  # |log y| of simulated responses


def _value(head, f, y, constants, phi):  # constants are log y, phi is the precision of the noise
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

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s: sum of (log y - eta)^2 / s^2 - 1."""
        return Gaussian.parameter_gradient(self, eta, np.log(y))

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
        return np.exp(np.clip(Gaussian.simulate(self, rng, eta), -LARGEST, LARGEST))

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
        return CompiledValue(_value, log_y[None], np.array([s**-2.0]), float(constant))
