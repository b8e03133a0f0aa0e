"""Eigenfunctions of a box in the place of a covariance, how many it takes, and their spectral scales.

On the box [-L_d, L_d] about the centre of the data, phi_j(x) = prod_d L_d^-1/2 sin(omega_jd (x_d + L_d)) with
omega_jd = pi j_d / (2 L_d); f = sum_j s_j phi_j w_j, w ~ N(0, I), s_j^2 = S(omega_j), the spectral density.

Sources: Solin & Sarkka (2020); Riutort-Mayol et al. (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # scipy.stats is loaded on first use, as it takes longest of all to load
from scipy.optimize import brentq
from scipy.special import gammaln, stdtrit

from gpmcflow.errors import InputError

LARGEST = 400  # eigenfunctions of a model
LEAST_BOUNDARY = 1.2
LEAST_WAVES = 2
_SMALLEST = 1e-290


@dataclass(frozen=True)
class BasisFunctions:
    """Structure of a prior made of basis functions: O(n m + m^3) a gradient, for n of 100,000 and more.

    f(x) = sum_j s_j(theta) phi_j(x) w_j, w ~ N(0, I): phi_j are m eigenfunctions of the Laplacian on a box
    about the data, s_j^2 the spectral density of the covariance at their frequencies. For sums and products
    of squared exponential and Matern covariances of 1 to 3 columns each; a `Periodic` term of a fixed period
    is a Fourier series; `Linear`, `Polynomial`, `Constant`, `Group` and `Categorical` terms are columns of
    their own, and exact. A product has all products of its factors' functions: ``Matern32(columns="age") *
    Group(columns="ward")`` is a curve for each ward. There is no jitter.

    Source: Solin & Sarkka (2020); Riutort-Mayol et al. (2023); of periodic terms Solin & Sarkka (2014).

    Attributes
    ----------
    m:
        Eigenfunctions a column of a term, a whole number or one for each; by default as many as ``error``
        asks for at the shortest length scale of the central 98 % of the hyperprior, or of 90 or 80 % where
        these take more than 400 in all, the most there may be; results tell if the posterior goes beyond.
    boundary:
        Half width of the box over that of the data, > 1, a number or one for each column; by default what
        ``error`` asks for at the longest length scale of the central 98 %, and at least 1.2. Functions of a
        random walk end at so many times the data's distance from its start, by default 1.5.
    error:
        Share of the variance that images behind the box may have at the ends of the data, and the cut tail
        of the spectrum; from 1e-6 to 0.5. The largest error of the covariance is 1 to 2.5 times it. Where
        data say much, the error of a posterior is more: 0.01 may take a tenth off a narrow one's width.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 2000)
    >>> length = gp.Hyperprior.log_uniform(0.1, 1.0)
    >>> y = np.sign(x - 0.3001)
    >>> covariance = gp.SquaredExponential(length)
    >>> model = gp.GPModel(x, y, covariance, gp.Probit(), structure=gp.BasisFunctions())
    >>> model.latent_variable, model.n_latents
    ('weight', 32)
    """

    m: int | Sequence[int] | None = None
    boundary: float | Sequence[float] | None = None
    error: float = 0.01

    def __post_init__(self) -> None:
        for name in ("m", "boundary"):
            value = getattr(self, name)
            if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(np.asarray(value).tolist()))
        for m in self.m if isinstance(self.m, tuple) else (self.m,):
            whole = isinstance(m, (int, np.integer)) and not isinstance(m, bool)
            if not (m is None or (whole and 1 <= m <= LARGEST)):
                raise InputError(
                    f"BasisFunctions: m is {self.m!r}; allowed: a whole number from 1 to {LARGEST}, one for "
                    "each column, or None"
                )
        for c in self.boundary if isinstance(self.boundary, tuple) else (self.boundary,):
            number = isinstance(c, (int, float, np.number)) and not isinstance(c, bool)
            if not (c is None or (number and 1.0 < c < np.inf)):
                raise InputError(
                    f"BasisFunctions: boundary is {self.boundary!r}; allowed: a number above 1, one for each "
                    "column, or None"
                )
        error = self.error
        if not isinstance(error, (int, float, np.number)) or not 1e-6 <= error <= 0.5:
            raise InputError(f"BasisFunctions: error is {error!r}; allowed: from 1e-6 to 0.5")

    def axis_error(self, n_columns: int) -> float:
        """Share of ``error`` that each column of a term may have."""
        return self.error / n_columns

    def axis(self, name: str, column: int, n_columns: int) -> float | None:
        """Setting "m" or "boundary" of one of the columns of a term."""
        value = getattr(self, name)
        if not isinstance(value, tuple):
            return value
        if len(value) != n_columns:
            raise InputError(
                f"BasisFunctions: {name} has {len(value)} entries for a term of {n_columns} columns; "
                "allowed: one number for all, or one each"
            )
        return value[column]


def correlation(nu: float, r: np.ndarray | float) -> np.ndarray | float:
    """k(r) at a distance r in length scales, of amplitude 1."""
    if nu == np.inf:
        return np.exp(-0.5 * r * r)
    a = np.sqrt(2.0 * nu) * r
    return np.exp(-a) * (1.0 + (a if nu > 1.0 else 0.0) + (a * a / 3.0 if nu > 2.0 else 0.0))


def box_width(nu: float, longest: float, error: float) -> float:
    """Half width c of the box for a length scale, both over the half width of the data.

    Images of the data stand 2 (c - 1) behind the ends: c = 1 + R longest / 2 with k(R) = error.
    """
    reach = brentq(lambda r: correlation(nu, r) - error, 0.0, 100.0)
    return max(LEAST_BOUNDARY, 1.0 + 0.5 * reach * longest)


def axis_size(nu: float, shortest: float, box: float, error: float) -> int:
    """Functions of one column for a length scale: beyond them lies the share ``error`` of the spectrum.

    The spectral density is that of Student's t with 2 nu degrees of freedom. ``box`` is c of `box_width`.
    """
    # a billion stands for what is far too many, and fits into a whole number
    return int(np.ceil(min(2.0 * box / (np.pi * shortest) * _quantile(nu, error), 1e9)))


def walk_size(box: float, error: float) -> int:
    """Functions of a random walk on one side of its start, which end at ``box`` times the data's end.

    The variance of those beyond m, over that at the data's end, is at most 2 box / pi^2 sum_{j > m} 1 /
    (j - 1/2)^2, about 2 box / (pi^2 m). An integrated walk has as many, so that its slope has this error; its
    own is of order m^-3.
    """
    return int(np.ceil(2.0 * box / (np.pi**2 * error)))


def _quantile(nu: float, error: float) -> float:
    """1 - error / 2 quantile of the spectral density."""
    if nu == np.inf:
        return float(scipy.special.ndtri(1.0 - 0.5 * error))
    return float(stdtrit(2.0 * nu, 1.0 - 0.5 * error))


def squared_frequencies(
    half_widths: Sequence[float] | np.ndarray, sizes: Sequence[int]
) -> np.ndarray:
    """omega_jd^2 (D, m) of all products of the functions of D columns, the last column's fastest."""
    axes = [
        (np.pi * np.arange(1.0, m + 1.0) / (2.0 * L)) ** 2
        for L, m in zip(half_widths, sizes, strict=True)
    ]
    return np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")])


def fourier_log_scales(size: int, log_length: float) -> tuple[np.ndarray, np.ndarray]:
    """log s_j (size + 1,) of the waves of a periodic covariance of amplitude 1, and its slopes by log l.

    exp(-2 sin^2(t / 2) / l^2) = sum_j s_j^2 cos(j t) with a = 1 / l^2, s_0^2 = I_0(a) exp(-a) and
    s_j^2 = 2 I_j(a) exp(-a), the modified Bessel functions: Solin & Sarkka (2014), eq. 27.
    """
    a, j = np.exp(-2.0 * log_length), np.arange(size + 2.0)
    scaled = scipy.special.ive(j, a)
    tiny = scaled < _SMALLEST  # where I_j(a) is its first term, (a / 2)^j / j!
    logs = np.log(np.where(tiny, 1.0, scaled))
    logs = np.where(tiny, j * np.log(0.5 * a) - gammaln(j + 1.0) - a, logs)
    above = np.exp(logs[1:] - logs[:-1])
    twice = np.log(np.where(j[:-1] > 0, 2.0, 1.0))
    return 0.5 * (logs[:-1] + twice), a - a * above - j[:-1]


def n_waves(shortest: float, error: float) -> int:
    """Waves of a periodic covariance for a length scale: those beyond them have the share ``error``.

    At least 2, as a wide term of a large amplitude is a level and a small wave.
    """
    size = 8
    while True:
        variances = np.exp(2.0 * fourier_log_scales(size, float(np.log(shortest)))[0])
        left = 1.0 - np.cumsum(variances)
        if left[-1] <= error or size > LARGEST:
            return max(LEAST_WAVES, int(np.argmax(left <= error))) if left[-1] <= error else size
        size *= 2


def log_scales(
    nu: float, squares: np.ndarray, log_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log s_j (m,) of amplitude 1, and its derivatives by log l_d (D, m), at ``squares`` omega_jd^2 (D, m).

    s_j^2 is the spectral density of D columns; log s_j = log S(omega_j) / 2.
    """
    D = len(squares)
    scaled = np.exp(2.0 * log_lengths)[:, None] * squares
    volume = float(log_lengths.sum())
    if nu == np.inf:
        value = 0.5 * (0.5 * D * np.log(2.0 * np.pi) + volume) - 0.25 * scaled.sum(0)
        return value, 0.5 * (1.0 - scaled)
    whole = 2.0 * nu + scaled.sum(0)
    constant = D * np.log(2.0) + 0.5 * D * np.log(np.pi) + gammaln(nu + 0.5 * D) - gammaln(nu)
    constant += nu * np.log(2.0 * nu) + volume
    value = 0.5 * (constant - (nu + 0.5 * D) * np.log(whole))
    return value, 0.5 * (1.0 - (2.0 * nu + D) * scaled / whole)
