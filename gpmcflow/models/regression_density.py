"""Log densities of the hyperparameters of GP regression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.execution.digest import text_digest
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.collapsed_density import CollapsedDensity
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.marginal_likelihood import LARGEST, MarginalLikelihood, require_gaussian

# Log posterior density of a regression's hyperparameters, in coordinates that are normal a priori.

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
DEAR_ROWS = 600  # above which a value takes milliseconds


class NormalDensity(LogDensity):
    """log t(x) = log N(x; 0, I) + log p(y | theta(x)) of a regression, and its gradient.

    theta(x) has the hyperprior where x (d,) is standard normal, so the integral of t is p(y). The latents are
    integrated out. Raises `InputError` for a likelihood that does not allow that.
    """

    model: GPModel

    def __init__(self, model: GPModel) -> None:
        require_gaussian(model, "modes")
        self.model, self.names = model, model.names
        self.dear = model.n_cases > DEAR_ROWS and not (model.basis or model.kronecker)
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


# Log densities of the hyperparameters of GP regression, the exact one and the base of its stand-ins.


class ScaleStatistics(NamedTuple):
    """r'A^-1 r, 1'A^-1 r, 1'A^-1 1, log det A; see `RegressionDensity.scale_statistics`."""

    squares: float
    cross: float
    ones: float
    log_det: float


class ModelDensity(LogDensity):
    """Log likelihood of a `GPModel` with Gaussian noise, plus log prior: a counted function of theta (d,).

    A subclass gives `log_likelihood`, and `workspace`, what it keeps between calls.
    """

    model: GPModel

    def __init__(self, model: GPModel) -> None:
        require_gaussian(model, type(self).__name__)
        self.model, self.names = model, model.names
        self._work: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.model.n_cases}, names={self.names})"

    def __getstate__(self) -> dict:
        return {
            **self.__dict__,
            "_work": None,
        }  # a copy makes its own, which is large and soon made

    def digest(self) -> str:
        """SHA-256 of the kind of density, its settings and its model."""
        return text_digest(type(self).__name__, self.model.digest(), repr(self))

    @property
    def work(self) -> Any:
        """Its work space, made when it is first asked for."""
        if self._work is None:
            self._work = self.workspace()
        return self._work

    def workspace(self) -> Any:
        """A new work space."""
        return MarginalLikelihood(self.model)

    def log_prior(self, theta: np.ndarray) -> float:
        """Log prior of theta (d,)."""
        return self.model.log_prior(theta)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Log likelihood at theta (d,), not counted; -inf where it fails."""
        raise NotImplementedError

    def evaluate(self, theta: np.ndarray) -> float:
        """Log likelihood plus log prior at theta."""
        return self.log_likelihood(theta) + self.model.log_prior(theta)


class RegressionDensity(ModelDensity):
    """Exact log posterior density of a GP regression's hyperparameters, the latents integrated out.

    log N(y; c, K + D) + log p_h(theta), D the noise variances; with a gradient. Called with theta (d,), the
    free coordinates of the model, it returns a number, -inf where the covariance does not factorise.

    Source: Rasmussen & Williams (2006), eqs. 5.8-5.9.

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.

    Raises
    ------
    InputError:
        For another model, or another likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> density = gp.RegressionDensity(model)
    >>> density.names
    ('length_scale', 'signal_sd')
    >>> round(float(density(np.array([-1.0, 0.0]))), 3)
    -6.241
    >>> density.n_calls
    1
    """

    def __init__(self, model: GPModel) -> None:
        super().__init__(model)
        self._by_weights = CollapsedBasisDensity(model) if model.basis else None

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Exact log N(y; c, C(theta)), not counted; -inf where C is not positive definite."""
        if self._by_weights is not None:
            return self._by_weights.log_likelihood(theta)
        return self.work.value(self.model.full(theta))

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log posterior and its gradient (d,)."""
        model, full = self.model, self.model.full(theta)
        value, slopes = (self._by_weights or self.work).value_and_slopes(full)
        if value == -np.inf:
            return value, np.zeros(self.dim)
        gradient = slopes[model.free] + model.parameters.log_prior_gradient(theta)
        return value + model.log_prior(theta), gradient

    def scale_statistics(self, ratio: float, theta: np.ndarray) -> ScaleStatistics | None:
        """Statistics of A = E + exp(2 ratio) I, ratio = log noise_sd - log s; None where it fails.

        With them the log likelihood at any overall scale s costs O(1) (of log y where noise is added to
        that: what differs is the same for all theta), k = c_0^2 / s^2 the share of the
        constants c_0^2, r = y - c: log det C = n log s^2 + log det A + log(1 + k 1'A^-1 1),
        r'C^-1 r = (r'A^-1 r - k (1'A^-1 r)^2 / (1 + k 1'A^-1 1)) / s^2. Counted as a call. Of theta, what
        is neither s nor the noise level counts.
        """
        self.n_calls += 1
        model, work, full = self.model, self.work, self.model.full(theta)
        residual = model.eta_y - model.mean_at(full)
        full[work.scale], full[model.noise_place] = 0.0, ratio
        full[work.constants] = -LARGEST + 1.0
        log_det = work.factorise(full)
        if not np.isfinite(log_det):
            self.n_failed += 1
            return None
        u, v = work.solve(residual), work.solve(np.ones(model.n_cases))
        return ScaleStatistics(float(u @ u), float(u @ v), float(v @ v), 2.0 * log_det)

    def draw_responses(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """A draw of y (n,) ~ N(c, C(theta)): `GPModel.simulate` in one step, of n random numbers.

        Raises `NumericalError` where C is not positive definite.
        """
        model, full = self.model, self.model.full(theta)
        if model.basis:
            return model.simulate(rng, theta)[1]
        y = rng.standard_normal(model.n_cases)
        if not np.isfinite(self.work.factorise(full)):
            raise NumericalError(
                f"regression: the covariance of y is not positive definite at {full.tolist()}; check the "
                "noise level and the length scales"
            )
        return model.likelihood.from_eta(model.mean_at(full) + self.work.multiply(y))
