"""Gaussian likelihood: y = eta + noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.likelihoods.base import CompiledValue, Likelihood
from gpmcflow.likelihoods.sites import Sites
from gpmcflow.parameters.parameter import Setting


def _value(head, f, y, constants, phi):
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        r = y[i] - f[i] - offset
        total -= 0.5 * constants[i] * r * r
    head[2] = total


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Likelihood):
    """Gaussian likelihood: y = eta + noise.

    p(y | eta) = N(y; eta, noise_sd^2). Latents can be integrated out, and every approximation here is exact.

    Attributes
    ----------
    noise_sd:
        Standard deviation > 0 of the noise, in the units of y: a number, a hyperprior, a `Parameter`, or
        known ones for each case (n,); by default log noise_sd ~ N(-1, 1).

    Raises
    ------
    InputError:
        For a noise level that is neither positive nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> round(gp.Gaussian(0.5).log_density(np.zeros(1), np.ones(1)).item(), 4)
    -2.2258
    """

    noise_sd: Setting | np.ndarray | None = None
    parameters = in_units_of_y = ("noise_sd",)
    constants = ("noise_sd",)
    conjugate = True

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log N(y; eta, s^2), (y - eta) / s^2, -1 / s^2, 0."""
        s = self.number("noise_sd")
        slope = (y - eta) / s**2
        value = -0.5 * (y - eta) * slope - np.log(s) - 0.5 * np.log(2.0 * np.pi)
        return value, slope, np.full_like(slope, -1.0 / s**2), np.zeros_like(slope)

    def noise_variances(self, n: int) -> np.ndarray:
        """Return the squares of the noise levels of n cases."""
        return np.broadcast_to(np.square(self.number("noise_sd")), (n,))

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s: sum of (y - eta)^2 / s^2 - 1."""
        if not self.entries():
            return np.zeros((*np.shape(eta)[:-1], 0))
        r = (y - eta) / self.number("noise_sd")
        return (r * r - 1.0).sum(-1)[..., None]

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Closed form: Z = N(y; mean, variance + s^2)."""
        total = variance + self.number("noise_sd") ** 2
        alpha = (y - mean) / total
        log_z = -0.5 * (y - mean) * alpha - 0.5 * np.log(2.0 * np.pi * total)
        return log_z, alpha, 1.0 / total

    def tilted_site(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The likelihood itself, of precision 1 / s^2."""
        s = self.number("noise_sd")
        return (y - mean) / (variance + s**2), np.full_like(variance, s**-2.0)

    def tilted_cumulants(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, order: int
    ) -> np.ndarray:
        """All zero: the tilted distribution is Gaussian."""
        return np.zeros((order - 2, *np.shape(mean)))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return eta plus noise."""
        return eta + self.number("noise_sd") * rng.standard_normal(np.shape(eta))

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return eta: E[y | eta] of noise with mean zero."""
        return np.array(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the mean."""
        return np.array(mean)

    def taylor_sites(self, y: np.ndarray, offset: float) -> Sites:
        """w = 1 / s^2, b = w (y - c): the likelihood itself."""
        s = self.number("noise_sd")
        w = 1.0 / s**2
        return Sites(np.full(len(y), w), w * (y - offset), not isinstance(s, np.ndarray))

    def moment_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """Those of `taylor_sites`, whatever k."""
        return self.taylor_sites(y, offset)

    laplace_sites = moment_sites

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Precisions of the noise are constants."""
        s, n = self.number("noise_sd"), len(y)
        terms = np.log(s) + 0.5 * np.log(2.0 * np.pi)
        constant = -float(terms.sum() if np.ndim(s) else n * terms)
        return CompiledValue(_value, np.full((1, n), s**-2.0), np.empty(0), constant)
