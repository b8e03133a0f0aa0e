"""Poisson likelihood with log link: counts of log-Gaussian Cox processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.likelihoods.base import CompiledValue, flat_rows
from gpmcflow.likelihoods.counts import (
    LARGEST_FINITE,
    LARGEST_RATE,
    CountLikelihood,
    ZeroTerms,
    log_factorial,
    share_after_first,
)
from gpmcflow.likelihoods.sites import Sites, thresholded
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential


def _value(head, f, y, constants, phi):  # constants are log exposures
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
    table = np.full(
        (2, largest + 1), np.nan
    )  # counts repeat: with the same k and c each is solved once
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


def _factors(head, eta, out, y, constants, phi):  # constants are log e
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
        flat = flat_rows(eta)
        value, slope = np.empty(len(flat)), np.empty_like(flat)
        _values_and_slopes(flat, y, np.atleast_1d(np.log(self.exposure)), value, slope)
        return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)

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
        return FactorLoop(_factors, self._log_exposure(y), np.empty(0), -log_factorial(y))

    def compiled(self, y: np.ndarray) -> CompiledValue:
        """Log exposures are constants."""
        constant = -float(log_factorial(y).sum())
        return CompiledValue(_value, self._log_exposure(y), np.empty(0), constant)
