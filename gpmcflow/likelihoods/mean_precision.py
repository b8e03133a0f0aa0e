"""What beta and beta-binomial share: a = mu phi and b = (1 - mu) phi, mu = sigma(eta), phi the precision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from gpmcflow.numerics.code_cache import compiled

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
        self, by_a: np.ndarray | float, by_b: np.ndarray | float, phi: float, *of_rest: np.ndarray
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


def shares(eta: np.ndarray, phi: float) -> Shares:
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


def draw_shares(rng: np.random.Generator, eta: np.ndarray, phi: float) -> np.ndarray:
    """Beta draws, shape of eta."""
    at = shares(eta, phi)
    y = rng.beta(np.maximum(at.a, SMALLEST), np.maximum(at.b, SMALLEST))
    return np.clip(y, SMALLEST, LARGEST)
