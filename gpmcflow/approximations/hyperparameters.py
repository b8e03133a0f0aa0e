"""Hyperparameters of a GP model at the maximum of its EP evidence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.optimize import approx_fprime, minimize
from scipy.spatial.distance import pdist

from gpmcflow.approximations.basis_maximum import maximise_basis_evidence
from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    expectation_propagation,
)
from gpmcflow.approximations.laplace import Laplace, laplace
from gpmcflow.covariances.binding import bind
from gpmcflow.covariances.nodes import RATIONAL_QUADRATIC
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Progress
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import MarginalLikelihood

logger = logging.getLogger(__name__)

# Bounds of the search in natural logs, around the median distance and the unit scale: outside, the
# covariance is constant or diagonal to rounding and the evidence flat.
LENGTH_RANGE = 4.0
SIGNAL_START, SIGNAL_BOUNDS = 1.0, (-3.0, 6.0)
MAX_ITERATIONS = 60
MAX_ROUNDS = 30  # of L-BFGS, after fits that failed
MIN_RADIUS = 0.01  # of the box around the best point: fits fail beside it
DIFFERENCE = 1e-6  # of theta, where a gradient is by differences
FITS: dict[str, Callable[..., Any]] = {"ep": expectation_propagation, "laplace": laplace}


class EvidenceMaximum(NamedTuple):
    """Coordinates theta (d,) of a model's free parameters, and the fit of the model there."""

    theta: np.ndarray
    fit: ExpectationPropagation | Laplace


def maximise_evidence(model: GPModel, method: str = "ep") -> EvidenceMaximum:
    """Find the free parameters of a model at the maximum of its EP or Laplace evidence, by L-BFGS.

    Z is that of EP, with its gradient, or of Laplace's method, whose gradient is by differences; with
    Gaussian noise, where both are exact, the marginal likelihood itself.

    Hyperpriors do not count, but for their support, if it is finite: there the search stays. Length
    scales start at the median distance, amplitudes at e, the others at the median of their hyperprior. A
    maximum at the edge of the search is logged. Where an EP fit fails the search steps back: it goes on
    from the best point inside a box of half the distance, which grows again while its edge holds the
    maximum; failures are logged. With basis functions, whatever ``method``, the search is that of
    `maximise_basis_evidence`, in the share of the hyperpriors that they are made for.

    Source: Rasmussen & Williams (2006), section 5.5.

    Parameters
    ----------
    model:
        A `GPModel`.
    method:
        "ep" or "laplace".

    Returns
    -------
    ``theta`` (d,), coordinates of the free parameters, and the ``fit`` there; `GPModel.natural` gives the
    parameters in their own units.

    Raises
    ------
    InputError:
        Where no distance between inputs tells a length scale.
    NumericalError:
        Where no EP fit converges at the start, nor with smaller amplitudes.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 12)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> best = gp.maximise_evidence(model)
    >>> {name: round(value, 2) for name, value in model.natural(best.theta).items()}
    {'length_scale': 0.28, 'signal_sd': 0.9, 'mean': 0.0, 'noise_sd': 0.1}
    """
    if not model.dim:
        return EvidenceMaximum(np.empty(0), FITS[method](model.at()))
    if model.basis:
        theta = maximise_basis_evidence(model)
        return EvidenceMaximum(theta, FITS[method](model.at(theta)))
    search = _Search(model, method)
    try:
        best = search.run()
    finally:
        search.report.close()
    if search.failures:
        logger.warning(
            "hyperparameters: %d of %d fits (%s) failed and the search stepped back; the first at %s: %s",
            len(search.failures),
            search.n_fits,
            method,
            _described(model, search.failures[0][0]),
            search.failures[0][1],
        )
    if isinstance(best.fit, ExpectationPropagation) and best.fit.clipped:
        logger.warning(
            "hyperparameters: %d sites of the EP fit are clipped, so the gradient of its evidence, and "
            "with it the maximum, are approximate",
            best.fit.clipped,
        )
    at_edge = np.isclose(best.theta, search.low) | np.isclose(best.theta, search.high)
    if at_edge.any():
        logger.warning(
            "hyperparameters: the maximum of the evidence (%s) lies at the edge of the search (%s); classes "
            "that a boundary separates do that, and terms that are not needed",
            method,
            _described(model, best.theta, at_edge),
        )
    return best


def _described(model: GPModel, theta: np.ndarray, shown: np.ndarray | None = None) -> str:
    values = model.natural(theta)
    names = model.names if shown is None else np.array(model.names)[shown]
    return ", ".join(f"{name} {values[name]:.3g}" for name in names)


class _FailedFitError(Exception):
    """A fit that did not converge, at ``args[0]``."""


class _Best(NamedTuple):
    log_evidence: float
    theta: np.ndarray
    fit: ExpectationPropagation | Laplace | None  #: None where the evidence needs no fit


class _Search:
    """L-BFGS for the maximum of log Z that steps back from fits that fail."""

    def __init__(self, model: GPModel, method: str) -> None:
        self.model, self.method = model, method
        self.report = Progress("approximate", unit="fits")
        self.best: Any = None  # a `_Best`, after a fit
        self.exact = MarginalLikelihood(model) if model.likelihood.conjugate else None
        self.n_fits = 0
        self.failures: list[tuple[np.ndarray, str]] = []
        priors = model.parameters.free_priors
        self.start = model.prior_median()
        reach = np.array([prior.width for prior in priors])
        self.low, self.high = self.start - reach, self.start + reach
        self.amplitudes = np.zeros(model.dim, dtype=bool)
        self._place_covariance()
        for k, prior in enumerate(priors):
            low, high = prior.support
            bounded = np.isfinite(low) and np.isfinite(high)
            self.low[k] = low if bounded else max(self.low[k], low)
            self.high[k] = high if bounded else min(self.high[k], high)
        self.start = np.clip(self.start, self.low, self.high)

    def _place_covariance(self) -> None:
        """Start and bounds of length scales and amplitudes."""
        model = self.model
        for group, (leaf, columns) in enumerate(
            zip(model.leaves, bind(model.covariance, model.inputs)[1], strict=True)
        ):
            places = model.parameters.places(group)
            if leaf.has_amplitude:
                at = model.free == places[-1]
                self.start[at], (self.low[at], self.high[at]) = SIGNAL_START, SIGNAL_BOUNDS
                self.amplitudes |= at
            if leaf.code > RATIONAL_QUADRATIC:
                continue
            scales = places[: len(places) - bool(leaf.extra) - leaf.has_amplitude]
            at = np.isin(model.free, scales)
            if at.any():
                self.start[at] = _log_length(model.X[:, columns], len(scales))
                self.low[at] = self.start[at] - LENGTH_RANGE
                self.high[at] = self.start[at] + LENGTH_RANGE

    def objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """-log Z and its gradient; `_FailedFitError` where a fit does not converge."""
        self.n_fits += 1
        fit: Any = None
        if self.exact is not None:
            full = self.model.full(theta)
            log_evidence, slopes = self.exact.value_and_slopes(full)
            gradient = slopes[self.model.free]
            if log_evidence == -np.inf:
                self._fails(theta, "the covariance does not factorise")
        else:
            try:
                fit = FITS[self.method](self.model.at(theta))
            except NumericalError as error:
                self._fails(theta, str(error))
            log_evidence = fit.log_evidence
        if self.best is None or log_evidence > self.best.log_evidence:
            self.best = _Best(log_evidence, theta.copy(), fit)
        self.report.update()
        if self.exact is None:
            by_gradient = self.method == "ep"
            gradient = (
                evidence_gradient(self.model, theta, fit)
                if by_gradient
                else -approx_fprime(theta, self._minus_log_evidence, DIFFERENCE)
            )
        return -log_evidence, -gradient

    def _fails(self, theta: np.ndarray, why: str) -> NoReturn:
        self.failures.append((theta.copy(), why))
        raise _FailedFitError(theta.copy())

    def _minus_log_evidence(self, theta: np.ndarray) -> float:
        try:
            return -FITS[self.method](self.model.at(theta)).log_evidence
        except NumericalError as error:
            self._fails(theta, str(error))

    def run(self) -> EvidenceMaximum:
        """The maximum; `NumericalError` if no fit converges."""
        at, radius = self.start, np.inf
        for _ in range(MAX_ROUNDS):
            box = np.maximum(self.low, at - radius), np.minimum(self.high, at + radius)
            try:
                minimize(
                    self.objective,
                    at,
                    jac=True,
                    bounds=np.transpose(box),
                    method="L-BFGS-B",
                    options={"maxiter": MAX_ITERATIONS, "ftol": 1e-7},
                )
            except _FailedFitError as failed:
                if self.best is not None:
                    at = self.best.theta
                    radius = 0.5 * np.abs(failed.args[0] - at).max()
                    if radius < MIN_RADIUS:
                        break
                elif np.any((smaller := self._with_smaller_amplitudes(at)) != at):
                    at = smaller
                else:
                    raise NumericalError(
                        f"hyperparameters: no fit ({self.method}) converged; give them as numbers"
                    ) from failed
                continue
            moved, at = np.abs(self.best.theta - at).max(), self.best.theta
            if moved < 0.99 * radius:  # the maximum is inside the box
                break
            radius *= 2.0
        fit = self.best.fit or FITS[self.method](self.model.at(self.best.theta))
        return EvidenceMaximum(self.best.theta, fit)

    def _with_smaller_amplitudes(self, theta: np.ndarray) -> np.ndarray:
        return np.where(self.amplitudes, np.maximum(theta - 1.0, self.low), theta)


def _log_length(X: np.ndarray, n_scales: int) -> float:
    """Log of the median distance, and of its root n_scales-fold where each column has its own scale."""
    apart = pdist(X, "sqeuclidean")
    apart = apart[apart > 0.0]
    if not apart.size:
        raise InputError(
            "hyperparameters: all inputs are the same; give length scales as numbers instead"
        )
    return 0.5 * np.log(np.median(apart)) + 0.5 * np.log(n_scales)
