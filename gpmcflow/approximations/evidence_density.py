"""The EP evidence of a GP model times its hyperpriors: an approximate density of theta with a gradient."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.approximations.expectation_propagation import (
    ExpectationPropagation,
    QuickFit,
    expectation_propagation,
    quick_fit,
)
from gpmcflow.errors import NumericalError
from gpmcflow.execution import text_digest
from gpmcflow.models.case_prior import CasePrior, prior_at
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import NormalDensity
from gpmcflow.models.site_adjoint import site_factor
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import LAUUM, LOWER, ROUTINES, in_place, invert_factored

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
TOLERANCE = 1e-3  # of fits that stand in for the evidence in a search
STEP = 1e-3  # of differences in the log of a likelihood's parameter


class EvidenceDensity(LogDensity):
    """log Z_EP(theta) + log p_h(theta) of a `GPModel`: near its log marginal posterior, not equal to it.

    -inf, and counted as failed, where EP does not converge. ``of_fits`` are settings of the fits.
    """

    dear = True

    def __init__(self, model: GPModel, **of_fits: float) -> None:
        self.model, self.names, self.of_fits = model, model.names, of_fits

    def __repr__(self) -> str:
        return f"EvidenceDensity(n={self.model.n_cases}, names={self.names})"

    def fit(self, theta: np.ndarray) -> ExpectationPropagation:
        """The EP fit at theta (d,)."""
        return expectation_propagation(self.model.at(theta), **self.of_fits)

    def _quick(self, prior: CasePrior | LatentGaussianModel, theta: np.ndarray) -> QuickFit:
        return quick_fit(prior, **self.of_fits)

    def _at(self, theta: np.ndarray) -> tuple[CasePrior | LatentGaussianModel, QuickFit]:
        prior = prior_at(self.model, theta)
        return prior, self._quick(prior, theta)

    def _settled(self, theta: np.ndarray) -> tuple[CasePrior | LatentGaussianModel, QuickFit]:
        """The same, of sites that gradients can be taken at."""
        return self._at(theta)

    def _gradient(
        self, theta: np.ndarray, fit: QuickFit, prior: CasePrior | LatentGaussianModel
    ) -> np.ndarray:
        return evidence_gradient(self.model, theta, fit, prior)

    def log_prior(self, theta: np.ndarray) -> float:
        """log p_h(theta)."""
        return self.model.log_prior(theta)

    def digest(self) -> str:
        """SHA-256 of the model."""
        return text_digest(type(self).__name__, self.model.digest())

    def evaluate(self, theta: np.ndarray) -> float:
        """Log density at theta (d,)."""
        try:
            return self._at(theta)[1].log_evidence + self.log_prior(theta)
        except NumericalError:
            return -np.inf

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (d,), at the fixed point of EP."""
        model = self.model
        try:
            prior, fit = self._settled(theta)
        except NumericalError:
            return -np.inf, np.zeros(self.dim)
        priors = zip(model.parameters.free_priors, theta, strict=True)
        scores = np.array([prior.score(value) for prior, value in priors])
        value = fit.log_evidence + self.log_prior(theta)
        return value, self._gradient(theta, fit, prior) + scores


class NormalEvidenceDensity(EvidenceDensity):
    """log N(x; 0, I) + log Z_EP(theta(x)), theta(x) with the hyperprior where x (d,) is standard normal."""

    def __repr__(self) -> str:
        return f"NormalEvidenceDensity(n={self.model.n_cases}, names={self.names})"

    def log_prior(self, x: np.ndarray) -> float:
        """log N(x; 0, I)."""
        return -0.5 * float(x @ x) - len(x) * _HALF_LOG_2PI

    def theta(self, x: np.ndarray) -> np.ndarray:
        """Coordinates theta (..., d) of the model at x (..., d)."""
        return self.model.parameters.normal.theta(x)[0]

    def evaluate(self, x: np.ndarray) -> float:
        """Log density at x (d,)."""
        try:
            return self._at(self.theta(x))[1].log_evidence + self.log_prior(x)
        except NumericalError:
            return -np.inf

    def evaluate_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (d,), at the fixed point of EP."""
        theta, slopes = self.model.parameters.normal.theta(x)
        try:
            prior, fit = self._settled(theta)
        except NumericalError:
            return -np.inf, np.zeros(self.dim)
        gradient = self._gradient(theta, fit, prior) * slopes - x
        return fit.log_evidence + self.log_prior(x), gradient


def normal_density(model: GPModel) -> NormalDensity | NormalEvidenceDensity:
    """log N(x; 0, I) + log p(y | theta(x)) of a regression; of other models EP stands in for the second."""
    if model.likelihood.conjugate:
        return NormalDensity(model)
    return NormalEvidenceDensity(model, tolerance=TOLERANCE)


def evidence_gradient(
    model: GPModel,
    theta: np.ndarray,
    fit: ExpectationPropagation | QuickFit,
    prior: CasePrior | LatentGaussianModel | None = None,
) -> np.ndarray:
    """Gradient (d,) of log Z_EP by theta, at the EP fixed point ``fit`` of ``model.at(theta)``.

    ``prior`` is the `CasePrior` at theta, where the fit began with one.

    With b = nu - tau m = K^-1 (m - mean), m the mean of the predictors, and P = S B^-1 S, B = I + S K S,
    S = diag(tau)^(1/2): d log Z / d theta = tr[(b b' - P) dK / d theta] / 2 for the covariance, jitter
    included, and sum b for the mean; with basis functions the same by matrices (m, m). log Z is stationary
    in the sites, so a parameter of the likelihood changes the normalisers of the tilted distributions alone;
    those are differenced, at fixed cavities.
    Source: Rasmussen & Williams (2006), alg. 5.2; Seeger (2005).
    """
    full, n = model.full(theta), model.n_cases
    tau, b = fit.precision, fit.residual
    slopes = np.zeros(len(full))
    of_covariance = [model.parameters.places(group) for group in range(len(model.leaves))]
    by_covariance = np.isin(model.free, np.concatenate(of_covariance)).any()
    if by_covariance and model.basis:
        _add_scale_slopes(model, full, fit, slopes)
    elif by_covariance:
        if not isinstance(prior, CasePrior):
            prior = CasePrior(model, theta)
        buffers, R, root = prior.buffers, prior.R, np.sqrt(tau)
        of_functions = np.square(buffers.V @ b)
        inverse = getattr(fit, "inverse_factor", None)
        if inverse is not None and not len(buffers.V):
            B = np.array(inverse.T, order="C")
            in_place(ROUTINES[LAUUM], LOWER, B)
        else:
            B = np.zeros((n, n))
            site_factor(ROUTINES, R, buffers.V, root, B)
            if len(buffers.V):
                h = solve_triangular(B.T, (root * buffers.V).T, lower=True)
                of_functions -= np.square(h).sum(0)
            invert_factored(ROUTINES, B)
        _by_covariance(B, b, root)
        slopes += buffers.adjoint(full, B, 0.0, R, 0.5 * of_functions)
    for place in model.free:
        owners = model.owners(place)
        if "mean" in owners:
            slopes[place] += b.sum()
        if "likelihood" in owners:
            slopes[place] += _likelihood_slope(model, full, place, fit)
    return slopes[model.free]


@compiled
def _by_covariance(B, b, root):
    """(b b' - S B^-1 S) / 2 over B^-1, S = diag(root): the derivative of log Z by K, lower triangle."""
    for j in range(b.size):
        for i in range(j, b.size):
            B[j, i] = 0.5 * (b[j] * b[i] - root[j] * root[i] * B[j, i])


def _add_scale_slopes(
    model: GPModel, full: np.ndarray, fit: ExpectationPropagation | QuickFit, slopes: np.ndarray
) -> None:
    """Add the derivatives by the parameters of the covariance of basis functions: O(n m^2)."""
    s, log_slopes = model.basis.scales(full)
    design, tau = model.basis_design, fit.precision
    r = design.pull_back(getattr(fit, "sites", fit).shift - model.mean_at(full) * tau)
    by_scale, _ = WeightPosterior(design.gram(tau), r, s).scale_slopes()
    by_log = s * by_scale
    for own, (place, log_slope) in log_slopes:
        slopes[place] += log_slope @ by_log[own]


def _likelihood_slope(
    model: GPModel, full: np.ndarray, place: int, fit: ExpectationPropagation | QuickFit
) -> float:
    """Derivative of sum_i log Z_i at fixed cavities by one coordinate: differences of fourth order."""

    def difference(step: float) -> float:
        ends = []
        for moved in (full[place] + step, full[place] - step):
            likelihood = model.likelihood_at(np.where(np.arange(len(full)) == place, moved, full))
            ends.append(likelihood.tilted(model.y, fit.cavity_mean, fit.cavity_variance)[0])
        return float((ends[0] - ends[1]).sum()) / (2.0 * step)

    return (4.0 * difference(STEP) - difference(2.0 * STEP)) / 3.0
