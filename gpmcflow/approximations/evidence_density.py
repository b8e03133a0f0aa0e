"""The EP evidence of a GP model times its hyperpriors: an approximate density of theta with a gradient."""

from __future__ import annotations

import numpy as np

from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    expectation_propagation,
)
from gpmcflow.approximations.hyperparameters import evidence_gradient
from gpmcflow.errors import NumericalError
from gpmcflow.execution import text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity


class EvidenceDensity(LogDensity):
    """log Z_EP(theta) + log p_h(theta) of a `GPModel`: near its log marginal posterior, not equal to it.

    -inf, and counted as failed, where EP does not converge. ``of_fits`` are settings of the fits.
    """

    def __init__(self, model: GPModel, **of_fits: float) -> None:
        self.model, self.names, self.of_fits = model, model.names, of_fits

    def __repr__(self) -> str:
        return f"EvidenceDensity(n={self.model.n_cases}, names={self.names})"

    def fit(self, theta: np.ndarray) -> ExpectationPropagation:
        """The EP fit at theta (d,)."""
        return expectation_propagation(self.model.at(theta), **self.of_fits)

    def log_prior(self, theta: np.ndarray) -> float:
        """log p_h(theta)."""
        return self.model.log_prior(theta)

    def digest(self) -> str:
        """SHA-256 of the model."""
        return text_digest(type(self).__name__, self.model.digest())

    def evaluate(self, theta: np.ndarray) -> float:
        """Log density at theta (d,)."""
        try:
            return self.fit(theta).log_evidence + self.log_prior(theta)
        except NumericalError:
            return -np.inf

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (d,), at the fixed point of EP."""
        model = self.model
        try:
            fit = self.fit(theta)
        except NumericalError:
            return -np.inf, np.zeros(self.dim)
        priors = zip(model.parameters.free_priors, theta, strict=True)
        scores = np.array([prior.score(value) for prior, value in priors])
        value = fit.log_evidence + self.log_prior(theta)
        return value, evidence_gradient(model, theta, fit) + scores
