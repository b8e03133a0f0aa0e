"""Log densities over a parameter vector that count what they cost: the interface of every stand-in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Self

import numpy as np

from gpmcflow.errors import InputError, NumericalError

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel


class LogDensity:
    """A function theta (d,) -> log density (unnormalised is enough) that counts its calls.

    A subclass gives `names` and `evaluate`. Calling the object counts; what fails numerically or is
    not finite comes back as -inf (for a sampler a rejection) and is counted, too. The value must be a
    fixed deterministic function of theta: caches may save time but must never change a bit of it.

    Attributes
    ----------
    names:
        Names of the coordinates of theta.
    n_calls, n_gradients, n_failed:
        Calls, calls of `value_and_gradient`, and those of either whose value was not finite.
    seconds:
        Wall-clock seconds spent in both.
    """

    names: tuple[str, ...] = ()
    model: GPModel | None = None  #: of which it is a density
    dear: bool = False  #: whether a value takes milliseconds, so that searches ask for fewer
    n_calls: int = 0
    n_gradients: int = 0
    n_failed: int = 0
    seconds: float = 0.0

    @property
    def dim(self) -> int:
        """Number d of coordinates."""
        return len(self.names)

    def __call__(self, theta: np.ndarray) -> float:
        """Log density at theta (d,), -inf where it cannot be computed."""
        began = perf_counter()
        value = self.evaluate(theta)
        self.n_calls += 1
        if not -np.inf < value < np.inf:
            self.n_failed += 1
            value = -np.inf
        self.seconds += perf_counter() - began
        return value

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (d,); (-inf, zeros) where they cannot be computed."""
        began = perf_counter()
        value, gradient = self.evaluate_gradient(theta)
        self.n_gradients += 1
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            self.n_failed += 1
            value, gradient = -np.inf, np.zeros(self.dim)
        self.seconds += perf_counter() - began
        return value, gradient

    def values(self, thetas: np.ndarray) -> np.ndarray:
        """Log densities (k,) at thetas (k, d), each counted."""
        return np.array([self(theta) for theta in thetas])

    def evaluate(self, theta: np.ndarray) -> float:
        """Log density at theta, not counted; nan or -inf where it fails."""
        raise NotImplementedError

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and gradient at theta, not counted. Raises `InputError` where there is none."""
        raise InputError(
            f"{type(self).__name__} has no gradient; use a sampler without gradients, or the exact density."
        )

    def log_prior(self, theta: np.ndarray) -> float:
        """Part of the log density that is not the log likelihood; 0 where they are not told apart."""
        return 0.0

    def digest(self) -> str:
        """Text that decides the function, for the identity of a run. A subclass with data adds them."""
        return repr(self)

    def fresh(self) -> Self:
        """Return the same function with counters at zero and a workspace of its own (for a thread)."""
        other = copy.copy(self)
        other.reset()
        return other

    def reset(self) -> None:
        """Set the counters to zero."""
        self.n_calls = self.n_gradients = self.n_failed = 0
        self.seconds = 0.0


class FunctionDensity(LogDensity):
    """A log density given by a Python function of your own, counted.

    For worker processes all functions must be picklable.

    Parameters
    ----------
    function:
        Called with theta (d,), returns its log density, up to a constant; what is not finite counts as -inf.
    names:
        Names of the d coordinates of theta.
    gradient:
        Called with theta, returns the gradient of the log density (d,), for samplers that need one.
    log_prior:
        Called with theta, returns the part of the log density that is not the log likelihood.
    label:
        Tells two functions apart where runs are stored.

    Raises
    ------
    InputError:
        Where a gradient is asked for, and none was given.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> density = gp.FunctionDensity(lambda theta: -0.5 * float(theta @ theta), ("a", "b"))
    >>> density(np.array([1.0, 1.0])), density.n_calls
    (-1.0, 1)
    >>> draws = gp.sample(density, start=np.zeros(2), n_chains=1, n_draws=50)
    >>> dict(draws.posterior["theta"].sizes)
    {'chain': 1, 'draw': 50, 'theta_dim': 2}
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], float],
        names: Sequence[str],
        *,
        gradient: Callable[[np.ndarray], np.ndarray] | None = None,
        log_prior: Callable[[np.ndarray], float] | None = None,
        label: str = "",
    ) -> None:
        self.function, self.names, self.gradient = function, tuple(names), gradient
        self.prior, self.label = log_prior, label

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"FunctionDensity({name}, names={self.names}, label={self.label!r})"

    def evaluate(self, theta: np.ndarray) -> float:
        """The function's value."""
        return float(self.function(theta))

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The functions' values."""
        if self.gradient is None:
            return super().evaluate_gradient(theta)
        return float(self.function(theta)), np.asarray(self.gradient(theta), dtype=np.float64)

    def log_prior(self, theta: np.ndarray) -> float:
        """The log prior function's value, or 0."""
        return 0.0 if self.prior is None else float(self.prior(theta))


def finite_start(density: LogDensity, theta: np.ndarray, which: str = "the density") -> float:
    """Log density at the start of a run.

    Raises `InputError` for a start of the wrong shape, `NumericalError` where the density is -inf
    there: no transition could leave it.
    """
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (density.dim,) or not np.all(np.isfinite(theta)):
        raise InputError(
            f"start: found {theta.tolist()!r}, allowed: {density.dim} finite numbers "
            f"({', '.join(density.names)})"
        )
    value = density(theta)
    if value == -np.inf:
        raise NumericalError(
            f"start: {which} ({type(density).__name__}) is -inf at {theta.tolist()}; move the start, "
            "or choose another approximation"
        )
    return value
