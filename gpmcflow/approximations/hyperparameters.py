"""Hyperparameters of a GP model at the maximum of its EP evidence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.optimize import approx_fprime, minimize

from gpmcflow.approximations.basis_maximum import maximise_basis_evidence
from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    QuickFit,
    expectation_propagation,
    quick_fit,
)
from gpmcflow.approximations.laplace import Laplace, laplace
from gpmcflow.approximations.mixture import find_modes, suits
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.approximations.multi_maximum import maximise_multi_evidence
from gpmcflow.approximations.search import search_range
from gpmcflow.errors import NumericalError
from gpmcflow.execution import Progress
from gpmcflow.models.case_prior import prior_at
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.regression_density import NormalDensity

logger = logging.getLogger(__name__)

MAX_ITERATIONS = 60
MAX_ROUNDS = 30  # of L-BFGS, after fits that failed
MIN_RADIUS = 0.01  # of the box around the best point: fits fail beside it
HIGHER = 1e-3  # nats by which a maximum from another start has to be higher to be taken
DIFFERENCE = 1e-6  # of theta, where a gradient is by differences
TOLERANCE = 1e-5  # of EP fits on the way
MOST_SEARCHED = 500  # rows, up to which a search for all modes takes less than some seconds
MOST_MODES = 8  # that searches start at
MOST_ROWS = 600  # above which searches begin at maxima of some rows
SOME_ROWS = 300
APART = 0.1  # distance of maxima of some rows that differ
MOST_STARTS = 2  # of them, for a search of all rows
SEED = 0  # of the points of that search, so that a model has one maximum
FITS: dict[str, Callable[..., Any]] = {"ep": expectation_propagation, "laplace": laplace}


class EvidenceMaximum(NamedTuple):
    """Coordinates theta (d,) of a model's free parameters, and the fit of the model there."""

    theta: np.ndarray
    fit: ExpectationPropagation | Laplace | FunctionsFit


def maximise_evidence(model: GPModel | MultiGPModel, method: str = "ep") -> EvidenceMaximum:
    """Find the free parameters of a model at the maximum of its EP or Laplace evidence, by L-BFGS.

    Z is that of EP, with its gradient, or of Laplace's method, whose gradient is by differences; with
    Gaussian noise, where both are exact, the marginal likelihood itself.

    Hyperpriors do not count, but for their support, if it is finite: there the search stays. Searches
    start at several places, and the highest maximum counts. Length scales start around the median
    distance, amplitudes and noise around the spread of y (around 1 where the latents have other units
    than y), slopes around that over the size of their columns, the others at the median of their
    hyperprior: the fit does not depend on units. Where responses lose their correlation over shorter
    distances than these, a search starts there, too. A regression (latents integrated out) of up to 500 rows
    and 8 free parameters also starts at all modes of the hyperparameters' posterior that a search finds.
    Of more than 600 rows these searches are of 300 of them, taken at random; the search of all rows starts
    at the best of their maxima by the evidence of all, with Gaussian noise at the two best.
    A maximum at the edge of the search is logged, with what it means. Where an EP fit fails the search
    steps back: it goes on from the best point inside a box of half the distance, which grows again while
    its edge holds the maximum; failures are logged. With basis functions the search is that of
    `maximise_basis_evidence`, in the share of the hyperpriors that they are made for, whatever
    ``method``; where they are exact it is where the search of ``method`` starts.

    Source: Rasmussen & Williams (2006), section 5.5.

    Parameters
    ----------
    model:
        A `GPModel`.
    method:
        "ep" or "laplace". Several latent functions take `maximise_multi_evidence`.

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
    if isinstance(model, MultiGPModel):
        fit = maximise_multi_evidence(model, method)
        return EvidenceMaximum(fit.theta, fit)
    if not model.dim:
        return EvidenceMaximum(np.empty(0), FITS[method](model.at()))
    start = None
    if model.basis:
        start = maximise_basis_evidence(model)
        if model.approximate_basis or model.likelihood.conjugate:
            return EvidenceMaximum(start, FITS[method](model.at(start)))
    search = _Search(model, method, start)
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
    if edges := search.range.edges(model, best.theta):
        logger.warning(
            "hyperparameters: the maximum of the evidence (%s) lies at the edge of the search: %s",
            method,
            edges,
        )
    return best


def _described(model: GPModel, theta: np.ndarray) -> str:
    values = model.natural(theta)
    return ", ".join(f"{name} {values[name]:.3g}" for name in model.names)


class _FailedFitError(Exception):
    """A fit that did not converge, at ``args[0]``."""


class _Best(NamedTuple):
    log_evidence: float
    theta: np.ndarray
    fit: QuickFit | Laplace | None  #: None where the evidence needs no fit


class _Search:
    """L-BFGS for the maximum of log Z that steps back from fits that fail."""

    def __init__(self, model: GPModel, method: str, start: np.ndarray | None = None) -> None:
        self.model, self.method = model, method
        self.report = Progress("approximate", unit="fits")
        self.best: Any = None  # a `_Best`, after a fit
        self.exact = MarginalLikelihood(model) if model.likelihood.conjugate else None
        self.n_fits = 0
        self.sites: tuple[np.ndarray, np.ndarray] | None = None  # of the last EP fit
        self.prior: Any = None  # that it began with
        self.failures: list[tuple[np.ndarray, str]] = []
        self.range = search_range(model)
        if start is not None:
            self.range = self.range._replace(starts=start[None])
        elif suits(model) and model.n_cases <= MOST_SEARCHED:
            starts = np.clip(self._modes(), self.range.low, self.range.high)
            self.range = self.range._replace(starts=np.concatenate([self.range.starts, starts]))

    def _modes(self) -> np.ndarray:
        """Modes (k, d) of a regression's hyperparameters, at most `MOST_MODES`, those of most mass."""
        density = NormalDensity(self.model)
        try:
            modes = find_modes(density, np.random.default_rng(SEED))[:MOST_MODES]
        except NumericalError:  # the density is zero wherever it was tried
            return np.empty((0, self.model.dim))
        return density.theta(np.array([mode.x for mode in modes]))

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
                fit = self._fit(theta)
            except NumericalError as error:
                self._fails(theta, str(error))
            log_evidence = fit.log_evidence
        if self.best is None or log_evidence > self.best.log_evidence:
            kept = fit._replace(inverse_factor=None) if isinstance(fit, QuickFit) else fit
            self.best = _Best(log_evidence, theta.copy(), kept)
        self.report.update()
        if self.exact is None:
            by_gradient = self.method == "ep"
            gradient = (
                evidence_gradient(self.model, theta, fit, self.prior)
                if by_gradient
                else -approx_fprime(theta, self._minus_log_evidence, DIFFERENCE * self.range.scale)
            )
        return -log_evidence, -gradient

    def _scaled_objective(self, scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.objective(scaled * self.range.scale)
        return value, gradient * self.range.scale

    def _fit(self, theta: np.ndarray) -> QuickFit | Laplace:
        """The fit at theta; one of EP begins at the sites of the one before."""
        if self.method != "ep":
            return laplace(self.model.at(theta))
        self.prior = prior_at(self.model, theta)
        try:
            fit = quick_fit(self.prior, tolerance=TOLERANCE, start=self.sites)
        except NumericalError:
            if self.sites is None:
                raise
            fit = quick_fit(self.prior, tolerance=TOLERANCE)
        self.sites = fit.precision, fit.shift
        return fit

    def _fails(self, theta: np.ndarray, why: str) -> NoReturn:
        self.failures.append((theta.copy(), why))
        raise _FailedFitError(theta.copy())

    def _minus_log_evidence(self, theta: np.ndarray) -> float:
        try:
            return -FITS[self.method](self.model.at(theta)).log_evidence
        except NumericalError as error:
            self._fails(theta, str(error))

    def run(self) -> EvidenceMaximum:
        """The highest maximum from several starts; `NumericalError` if no fit converges.

        Each start costs a fit. A search from one other than the first is made where it is the more likely
        one; with Gaussian noise, where fits are cheap, from each.
        """
        if self.model.n_cases > MOST_ROWS and not self.model.kronecker and not self.model.basis:
            self._begin_at_maxima_of_some_rows()
        return self._highest()

    def _begin_at_maxima_of_some_rows(self) -> None:
        """Replace the starts by maxima of the evidence of `SOME_ROWS` rows, at most `MOST_STARTS`, those with
        the most evidence of all rows first."""
        rows = np.random.default_rng(SEED).choice(self.model.n_cases, SOME_ROWS, replace=False)
        part = _Search(self.model.take(np.sort(rows)), self.method)
        starts = np.clip(part.range.starts, self.range.low, self.range.high)
        part.range = self.range
        found = [best.theta for start in starts if (best := part._from(start))]
        apart: list[np.ndarray] = []
        for theta in found:
            ways = [np.abs((theta - other) / self.range.scale).max() for other in apart]
            apart += [theta] if min(ways, default=np.inf) > APART else []
        values = np.array([self._value(theta) for theta in apart])
        order = [k for k in np.argsort(-values, kind="stable") if values[k] > -np.inf]
        if order:
            starts = np.array([apart[k] for k in order[:MOST_STARTS]])
            self.range = self.range._replace(starts=starts)

    def _highest(self) -> EvidenceMaximum:
        values = [self._value(start) for start in self.range.starts]
        order = np.argsort(values[1:], kind="stable")[::-1] + 1
        others = [k for k in order if values[k] > -np.inf]
        if self.exact is None:
            others = [k for k in others[:1] if values[k] > values[0]]
        best = self._from(self.range.starts[0])
        for k in others:
            n_failures = len(self.failures)
            found = self._from(self.range.starts[k])
            if best is None or found.log_evidence > best.log_evidence + HIGHER:
                best = found
            else:
                del self.failures[n_failures:]
        if best is None:
            raise NumericalError(
                f"hyperparameters: no fit ({self.method}) converged; give them as numbers"
            )
        # to full precision, and from nothing: it depends on theta, not on the way there
        fit = best.fit if isinstance(best.fit, Laplace) else None
        return EvidenceMaximum(best.theta, fit or FITS[self.method](self.model.at(best.theta)))

    def _value(self, theta: np.ndarray) -> float:
        if self.exact is not None:
            return self.exact.value(self.model.full(theta))
        try:
            return self._fit(theta).log_evidence
        except NumericalError:
            return -np.inf

    def _from(self, start: np.ndarray) -> Any:
        """The `_Best` that a search from this start finds; None where no fit converges."""
        self.best, at, radius, scale = None, start, np.inf, self.range.scale
        for _ in range(MAX_ROUNDS):
            reach = radius * scale
            box = np.stack(
                [np.maximum(self.range.low, at - reach), np.minimum(self.range.high, at + reach)]
            )
            try:
                minimize(
                    self._scaled_objective,
                    at / scale,
                    jac=True,
                    bounds=np.transpose(box / scale),
                    method="L-BFGS-B",
                    options={"maxiter": MAX_ITERATIONS, "ftol": 1e-7},
                )
            except _FailedFitError as failed:
                if self.best is not None:
                    at = self.best.theta
                    radius = 0.5 * np.abs((failed.args[0] - at) / scale).max()
                    if radius < MIN_RADIUS:
                        break
                elif np.any((smaller := self._with_smaller_amplitudes(at)) != at):
                    at = smaller
                else:
                    return None
                continue
            moved, at = np.abs((self.best.theta - at) / scale).max(), self.best.theta
            if moved < 0.99 * radius:  # the maximum is inside the box
                break
            radius *= 2.0
        return self.best

    def _with_smaller_amplitudes(self, theta: np.ndarray) -> np.ndarray:
        return np.where(self.range.amplitudes, np.maximum(theta - 1.0, self.range.low), theta)
