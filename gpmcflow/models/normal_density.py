"""Log posterior density of a regression's hyperparameters, in coordinates that are normal a priori."""

from __future__ import annotations

import numpy as np

from gpmcflow.execution.digest import text_digest
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.collapsed_density import CollapsedDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.marginal_likelihood import require_gaussian

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class NormalDensity(LogDensity):
    """log t(x) = log N(x; 0, I) + log p(y | theta(x)) of a regression, and its gradient.

    theta(x) has the hyperprior where x (d,) is standard normal, so the integral of t is p(y). The latents are
    integrated out. Raises `InputError` for a likelihood that does not allow that.
    """

    model: GPModel

    def __init__(self, model: GPModel) -> None:
        require_gaussian(model, "modes")
        self.model, self.names = model, model.names
        collapsed = CollapsedBasisDensity if model.basis else CollapsedDensity
        self._density = collapsed(model)

    def __repr__(self) -> str:
        return f"NormalDensity(n={self.model.n_cases}, names={self.names})"

    def digest(self) -> str:
        """SHA-256 of the model."""
        return text_digest(type(self).__name__, self.model.digest())

    def log_prior(self, x: np.ndarray) -> float:
        """log N(x; 0, I)."""
        return -0.5 * float(x @ x) - len(x) * _HALF_LOG_2PI

    def values(self, xs: np.ndarray) -> np.ndarray:
        """Log densities (k,) at xs (k, d): all transforms of coordinates in one call."""
        thetas = self.theta(xs)
        found = np.array([self._density.log_likelihood(theta) for theta in thetas])
        found = np.where(np.isfinite(found), found, -np.inf)
        self.n_calls += len(xs)
        self.n_failed += int(np.isinf(found).sum())
        return found - 0.5 * np.square(xs).sum(1) - self.dim * _HALF_LOG_2PI

    def evaluate(self, x: np.ndarray) -> float:
        """Log density at x (d,)."""
        return self._density.value(x, np.empty(0)) + self.log_prior(x)

    def evaluate_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (d,)."""
        at = self._density.evaluate(x, np.empty(0))
        return at.rest + self.log_prior(x), at.slope_x - x

    def theta(self, x: np.ndarray) -> np.ndarray:
        """Coordinates theta (..., d) of the model at x (..., d)."""
        return self.model.parameters.normal.theta(x)[0]

    def draw_latents(self, rng: np.random.Generator, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """An exact draw of the latents given y and theta, and log p(y | latents)."""
        latents, log_likelihood, _ = self._density.draw_latents(rng, theta)
        return latents, log_likelihood
