"""Likelihoods of real numbers: Gaussian and Student-t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.likelihoods.base import CompiledValue, Likelihood
from gpmcflow.likelihoods.normal_mixture import LARGEST_DF, student_t_tilted
from gpmcflow.likelihoods.sites import Sites
from gpmcflow.likelihoods.tilted import tilted_moments, tilted_site
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.gamma_ratios import digamma_ratio, log1p_less, log_gamma_ratio
from gpmcflow.parameters.parameter import Setting

# Gaussian likelihood: y = eta + noise.


def _gaussian_value(head, f, y, constants, phi):
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

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s: (y - eta)^2 / s^2 - 1."""
        r = (y - eta) / self.number("noise_sd")
        return (r * r - 1.0)[..., None]

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
        return CompiledValue(_gaussian_value, np.full((1, n), s**-2.0), np.empty(0), constant)


# Student-t likelihood: y = eta + noise with outliers.


def _student_t_value(head, f, y, constants, phi):  # phi is (1 / (s sqrt nu), (nu + 1) / 2)
    offset, total = head[1], 0.0
    for i in range(int(head[0])):
        r = (y[i] - f[i] - offset) * phi[0]
        total -= np.log1p(r * r)
    head[2] = phi[1] * total


def _factors(head, eta, out, y, constants, phi):  # phi is (s, nu)
    m, i, s, nu = int(head[0]), int(head[1]), phi[0], phi[1]
    for k in range(m):
        r = (y[i] - eta[k]) / s
        square = r * r
        u = s * (nu + square)
        per = (nu + 1.0) / u
        out[k] = -0.5 * (nu + 1.0) * np.log1p(square / nu)
        out[m + k] = per * r
        out[2 * m + k] = per * (square - nu) / u
        out[3 * m + k] = 2.0 * per * r * (square - 3.0 * nu) / (u * u)


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Likelihood):
    """Student-t likelihood: y = eta + noise with outliers.

    y = eta + s t, t of nu degrees of freedom. With r = (y - eta) / s and u = nu + r^2,
    log p = log G((nu + 1) / 2) - log G(nu / 2) - log(nu pi) / 2 - log s - (nu + 1) / 2 log(1 + r^2 / nu). Not
    log-concave: l'' > 0 where |y - eta| > s sqrt(nu).

    Attributes
    ----------
    scale:
        s > 0, in the units of y: a number, a hyperprior or a `Parameter`; by default log s ~ N(-1, 1).
    df:
        nu > 0, in the same way; by default log nu ~ N(1.5, 0.75^2).

    Raises
    ------
    InputError:
        For settings that are neither positive numbers nor hyperpriors.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.StudentT(scale=1.0, df=1.0)
    >>> round(likelihood.log_density(np.zeros(1), np.ones(1)).item(), 4)  # Cauchy: -log(2 pi)
    -1.8379
    """

    scale: Setting | None = None
    df: Setting | None = None
    name = "student_t"
    parameters = ("scale", "df")
    in_units_of_y = ("scale",)
    log_concave = False
    frozen_sites = False  # of few cases any may be outliers, or the noise small
    standard_sites = "laplace"

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Log p, (nu+1) r / (s u), (nu+1) (r^2 - nu) / (s u)^2, 2 (nu+1) r (r^2 - 3 nu) / (s u)^3."""
        s, nu, r, u = self._standardised(eta, y)
        value = self._constant(s, nu) - 0.5 * (nu + 1.0) * np.log1p(r * r / nu)
        per = (nu + 1.0) / (s * u)
        second = per * (r * r - nu) / (s * u)
        return value, per * r, second, 2.0 * per * r * (r * r - 3.0 * nu) / (s * u) ** 2

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log s and log nu."""
        _, nu, r, u = self._standardised(eta, y)
        share = (nu + 1.0) * r * r / u
        # psi((nu + 1) / 2) - psi(nu / 2) - 1 / nu, and -log(1 + r^2 / nu) + share / nu, both of order nu^-2
        psi = digamma_ratio(0.5 * nu, 0.5) + log1p_less(1.0 / nu)
        by_df = 0.5 * (nu * (psi - log1p_less(r * r / nu)) + r * r * (1.0 - r * r) / u)
        return np.stack([share - 1.0, by_df], axis=-1)

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E[-l''] = (nu + 1) / ((nu + 3) s^2)."""
        s, nu, r, _ = self._standardised(eta, y)
        return np.full_like(r, (nu + 1.0) / ((nu + 3.0) * s**2))

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(nu + 1) / (s^2 u), the weight of EM's pseudo-data y: its steps always ascend."""
        s, nu, _, u = self._standardised(eta, y)
        return (nu + 1.0) / (s**2 * u)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where quadrature over eta must look besides the cavity: centres y and widths s, (n,)."""
        return y, np.full(len(y), self.number("scale"))

    def tilted(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As a mixture of normals (`normal_mixture`); of nearly normal errors by panels over eta."""
        if np.any(self.number("df") > LARGEST_DF):
            return tilted_moments(self, y, mean, variance)
        log_z, alpha, r, _ = self._mixture(y, mean, variance)
        return log_z, alpha, r

    def tilted_site(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """In the same way: r / (1 - v r), both without cancellation."""
        if np.any(self.number("df") > LARGEST_DF):
            return tilted_site(self, y, mean, variance)
        _, alpha, r, shrink = self._mixture(y, mean, variance)
        return alpha, r / shrink

    def _mixture(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        out = np.empty((4, len(y)))
        settings = (self.number("scale"), self.number("df"))
        each = (np.full(len(y), value, dtype=np.float64) for value in (mean, variance, *settings))
        student_t_tilted(np.asarray(y, dtype=np.float64), *each, out)
        return out

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return eta plus s times Student-t noise."""
        return eta + self.number("scale") * rng.standard_t(self.number("df"), np.shape(eta))

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return the location eta, which is the median where df <= 1 and there is no mean."""
        return np.array(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the location; nan where df <= 1 and there is no mean."""
        return np.where(self.number("df") > 1.0, mean, np.nan)

    def has_moment(self, order: int) -> bool:
        """Whether df is above the order."""
        return bool(np.all(self.number("df") > order))

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Scale and degrees of freedom are parameters of the loop."""
        s, nu = self.number("scale"), self.number("df")
        phi = np.array([1.0 / (s * np.sqrt(nu)), 0.5 * (nu + 1.0)])
        return CompiledValue(
            _student_t_value, np.empty((0, len(y))), phi, len(y) * float(self._constant(s, nu))
        )

    def factor_loop(self, y: np.ndarray) -> FactorLoop:
        """As `compiled`."""
        s, nu = self.number("scale"), self.number("df")
        constant = np.full(len(y), self._constant(s, nu))
        return FactorLoop(_factors, np.empty((0, len(y))), np.array([s, nu]), constant)

    def _standardised(self, eta: np.ndarray, y: np.ndarray) -> tuple:
        s, nu = self.number("scale"), self.number("df")
        r = (y - eta) / s
        return s, nu, r, nu + r * r

    @staticmethod
    def _constant(s: float | np.ndarray, nu: float | np.ndarray) -> np.ndarray:
        return log_gamma_ratio(0.5 * nu, 0.5) - 0.5 * np.log(nu * np.pi) - np.log(s)
