"""Gaussian noise whose standard deviation is a function of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gpmcflow.likelihoods.multi import MultiLikelihood
from gpmcflow.parameters.hyperpriors import default_hyperprior

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
_LARGEST = 300.0  # of a log sd; its square has to be a number


@dataclass(frozen=True, eq=False, repr=False)
class HeteroscedasticGaussian(MultiLikelihood):
    """Gaussian noise that varies: y ~ N(m, e^(2g)), with latent functions ``mean`` m and ``log_sd`` g.

    log p = -g - log(2 pi) / 2 - (y - m)^2 e^(-2g) / 2. The expected information of (m, g) is diagonal,
    (e^(-2g), 2). The mean of g is free by default, with the hyperprior of a Gaussian likelihood's log noise.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 3.0, 12)
    >>> y = np.sin(x) + 0.1 * (1.0 + x) * np.cos(20.0 * x)
    >>> covariance = {"mean": gp.Matern52(), "log_sd": gp.SquaredExponential(1.0)}
    >>> model = gp.GPModel(x, y, covariance, gp.HeteroscedasticGaussian())
    >>> model.names[:2]
    ('mean.length_scale', 'mean.signal_sd')
    """

    name = "heteroscedastic_gaussian"
    functions = ("mean", "log_sd")
    noise_function = "log_sd"

    def default_means(self) -> dict[str, Any]:
        """0, and the hyperprior of the log of a Gaussian likelihood's noise."""
        return {"mean": 0.0, "log_sd": default_hyperprior("gaussian", "noise_sd")}

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p and its gradient by mean and log sd."""
        mean, g = eta[..., 0, :], np.clip(eta[..., 1, :], -_LARGEST, _LARGEST)
        precision = np.exp(-2.0 * g)
        gap = y - mean
        squares = precision * gap * gap
        slope = np.stack([precision * gap, squares - 1.0], axis=-2)
        return -g - _HALF_LOG_2PI - 0.5 * squares, slope

    def information_blocks(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return diag(e^(-2g), 2) of each case."""
        g = np.clip(eta[..., 1, :], -_LARGEST, _LARGEST)
        blocks = np.zeros((*eta.shape[:-2], 2, 2, eta.shape[-1]))
        blocks[..., 0, 0, :], blocks[..., 1, 1, :] = np.exp(-2.0 * g), 2.0
        return blocks

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draw m + e^g eps."""
        mean, g = eta[..., 0, :], eta[..., 1, :]
        return mean + np.exp(g) * rng.standard_normal(mean.shape)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return m."""
        return eta[..., 0, :]

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the mean of m, exactly."""
        return mean[..., 0, :]

    def log_mean(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return log E p(y | m, g): over m in closed form, over g by 32 nodes of Gauss and Hermite."""
        g = mean[..., 1, :] + np.multiply.outer(_NODES, np.sqrt(variance[..., 1, :]))
        total = variance[..., 0, :] + np.exp(2.0 * np.clip(g, -_LARGEST, _LARGEST))
        terms = -0.5 * (y - mean[..., 0, :]) ** 2 / total - 0.5 * np.log(total) - _HALF_LOG_2PI
        weights = _LOG_WEIGHTS.reshape(-1, *([1] * (terms.ndim - 1)))
        return logsumexp(terms + weights, axis=0)
