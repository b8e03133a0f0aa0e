"""What the two binary likelihoods share: labels in {-1, +1}."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.sites import Sites, thresholded


class BinaryLikelihood(Likelihood):
    """p(y | eta) = F(y eta), y in {-1, +1}, with F(z) + F(-z) = 1."""

    relative_sites = True
    discrete = binary = True

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless every label is -1 or +1."""
        labels = np.unique(y)
        if not np.isin(labels, (-1.0, 1.0)).all():
            shown = ", ".join(f"{v:g}" for v in labels[:5]) + (", ..." if len(labels) > 5 else "")
            raise InputError(
                f"{self.name} likelihood: labels {shown}; allowed: -1 and +1; recode the two classes"
            )

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """F(eta), the probability of +1."""
        return np.exp(self.derivatives(np.asarray(eta), np.ones(np.shape(eta)[-1:]))[0])

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Probability of +1: the normaliser of the tilted distribution."""
        mean, variance = np.asarray(mean), np.maximum(variance, 1e-12)
        log_z = self.tilted(np.ones(mean.size), mean.ravel(), variance.ravel())[0]
        return np.exp(log_z).reshape(mean.shape)

    def moment_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """Without an offset by `centred_moments`: the mean is y h, the variance k - h^2."""
        if offset != 0.0:
            return super().moment_sites(y, k, offset)
        s, h = self.centred_moments(k)
        w = np.full(len(y), 1.0 / s)
        return thresholded(w, y * (h / (k - h * h)), not isinstance(k, np.ndarray))

    @abstractmethod
    def centred_moments(self, k: np.ndarray | float) -> tuple[Any, Any]:
        """s and h = E[f y] of F(y f) N(f; 0, k), whose variance k - h^2 is 1 / (1 / k + 1 / s)."""

    def laplace_sites(self, y: np.ndarray, k: np.ndarray | float, offset: float) -> Sites:
        """One Newton solve where both labels have the same |mu|."""
        if offset != 0.0 or isinstance(k, np.ndarray):
            return super().laplace_sites(y, k, offset)
        mode, one = 0.0, np.ones(1)
        for _ in range(100):
            _, first, second, _ = (float(d[0]) for d in self.derivatives(mode * one, one))
            step = (first - mode / k) / (1.0 / k - second)
            mode += step  # log-concave, from 0 with a slope that falls: the steps stay on one side
            if abs(step) <= 1e-14 * (1.0 + mode):
                break
        w = -float(self.derivatives(mode * one, one)[2][0])
        return thresholded(np.full(len(y), w), y * (mode * (1.0 / k + w)), True)
