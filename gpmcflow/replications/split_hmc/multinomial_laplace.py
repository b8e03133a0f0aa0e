"""Laplace approximation of a multinomial logit by damped Newton steps."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.multinomial import DenseGaussian, MultinomialLogit

MAX_ITERATIONS = 100
TOLERANCE = 1e-10


def multinomial_laplace(model: MultinomialLogit) -> tuple[DenseGaussian, int]:
    """Gaussian at the posterior mode with the Hessian there as precision, and the Newton steps taken.

    From theta = 0; a step is halved while U = -log likelihood + |theta|^2 / (2 s^2) rises, and the
    iteration ends when the step is shorter than 1e-10. The prior makes U strictly convex. Raises
    `NumericalError` if that does not happen.
    """
    pin_blas()
    theta = np.zeros(model.dim)
    potential, slope = _potential(model, theta)
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = cho_solve(cho_factor(model.hessian(theta), lower=True), slope)
        length = float(np.linalg.norm(step))
        following, gradient = _potential(model, theta - step)
        while following > potential + TOLERANCE * abs(potential) and np.linalg.norm(step) > 1e-14:
            step = 0.5 * step
            following, gradient = _potential(model, theta - step)
        theta, potential, slope = theta - step, following, gradient
        if length < TOLERANCE * (1.0 + float(np.linalg.norm(theta))):
            return DenseGaussian(model, theta, model.hessian(theta)), iteration
    raise NumericalError(
        f"multinomial logit: Newton's method has not converged after {MAX_ITERATIONS} steps; "
        "standardise the features"
    )


def _potential(model: MultinomialLogit, theta: np.ndarray) -> tuple[float, np.ndarray]:
    _, value, gradient = model.cases.evaluate(theta[None])
    scale = model.prior_sd**-2.0
    return 0.5 * scale * float(theta @ theta) - float(value[0]), scale * theta - gradient[0]
