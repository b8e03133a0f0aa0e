"""Laplace approximation by damped Newton steps, of the posterior or of any tempered density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel, require_latent
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.models.weight_model import WeightModel

MAX_ITERATIONS = 100
# share of a step: from a rate of 1 to counts of 1e12, a tenth of the way is too far
SHORTEST = 1e-16
TOLERANCE = 1e-10
# largest ascent, in nats, that may be left where precise sites let it fall no further
ROUNDING = 1e-5
MIN_PRECISION = 1e-8  # of a site where the log likelihood is convex at the mode


@dataclass(frozen=True, eq=False)
class Laplace:
    """A Laplace fit: Gaussian ``sites`` at the mode, ``log_evidence``, and ``iterations`` taken."""

    sites: GaussianSites
    log_evidence: float
    iterations: int


def laplace(model: LatentGaussianModel) -> Laplace:
    """Fit a Gaussian at the mode of the posterior of latents: Laplace's method.

    log Z_LA = log p(y | eta-hat) - |xi-hat|^2 / 2 - log |I + U' W U| / 2 with
    W = -d^2 log p(y_i | eta_i) / d eta_i^2, xi the prior-whitened latents and U their map to eta.

    A likelihood that is not log-concave may have W_i < 0 at the mode: the
    evidence takes W as it is, the sites have max(W, 1e-8).

    Source: Rasmussen & Williams (2006), algorithms 3.1-3.2, in prior-whitened coordinates.

    Parameters
    ----------
    model:
        A `LatentGaussianModel`, such as `GPModel.at` gives.

    Returns
    -------
    A `Laplace` fit with ``sites``, ``log_evidence`` (in nats) and ``iterations``.

    Raises
    ------
    NumericalError:
        Where Newton's method does not converge, or I + U' W U is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.LatentGaussianModel.from_covariance(np.eye(1), gp.Probit(), np.ones(1))
    >>> round(gp.laplace(model).log_evidence, 4)  # the true one is log 1/2
    -0.7007
    """
    require_latent("laplace", model)
    pin_blas()
    sites, iterations = tempered_mode(TemperedPath(GaussianSites.prior(model)), 1.0)
    xi, eta = sites.whitened_mean, sites.predictor_mean
    log_likelihood = float(model.likelihood.log_density(eta[None], model.y)[0])
    if model.likelihood.log_concave:
        return Laplace(sites, log_likelihood + sites.log_peak, iterations)
    W = -model.likelihood.derivatives(eta, model.y)[2]
    half_log_det = _half_log_det(model, W)
    if not np.isfinite(half_log_det):
        raise NumericalError(
            f"Laplace: the {model.likelihood.name} likelihood leaves a curvature that is not positive "
            "definite at the mode, so no Gaussian fits there; take EP"
        )
    evidence = log_likelihood - 0.5 * float(xi @ xi) - half_log_det
    return Laplace(sites, evidence, iterations)


def _half_log_det(model: LatentGaussianModel, W: np.ndarray) -> float:
    """log |I + U' diag(W) U| / 2, nan where it is not positive definite."""
    if isinstance(model, WeightModel):
        return model.posterior(W, np.zeros_like(W)).log_det
    U = model.predictor_factor
    try:
        factor = np.linalg.cholesky(np.eye(model.dim) + U.T @ (W[:, None] * U))
    except np.linalg.LinAlgError:
        return np.nan
    return float(np.log(np.diag(factor)).sum())


def tempered_mode(
    path: TemperedPath, beta: float, start: np.ndarray | None = None
) -> tuple[GaussianSites, int]:
    """Gaussian at the mode of h_beta with its curvature, and the Newton steps it took.

    One step maps predictors eta to the Gaussian with sites tau = -phi''(eta), nu = phi'(eta) + tau
    eta, whose mean is the next iterate (log h_beta is concave). ``start`` is a whitened position
    (d,). The step is halved while the objective Psi(xi) = sum_i phi_i - |xi|^2 / 2 falls. For a
    likelihood that is not log-concave tau is the majorising precision, with which no step descends.
    """
    model = path.model
    floor = 0.0 if model.likelihood.log_concave else MIN_PRECISION
    xi = path.reference.whitened_mean if start is None else start
    eta = model.predictor(xi[None])[0]
    value, first, second = path.derivatives(eta, beta)
    objective, promise = value.sum() - 0.5 * xi @ xi, np.inf
    for iteration in range(1, MAX_ITERATIONS + 1):
        precision = np.maximum(-second, 0.0)  # rounding alone can make a log-concave factor convex
        if not model.likelihood.log_concave:
            precision = beta * model.likelihood.majorising_precision(eta, model.y)
            precision += (1.0 - beta) * path.reference.precision
        sites = GaussianSites(model, precision, first + precision * eta)
        direction = sites.whitened_mean - xi
        # twice the ascent the step promises, until it is rounding; that of the objective may be larger
        promise, before = sites.squared_length(direction), promise
        converged = promise < TOLERANCE or before <= promise < ROUNDING
        step = 1.0
        while True:
            trial = xi + step * direction
            eta = model.predictor(trial[None])[0]
            value, first, second = path.derivatives(eta, beta)
            following = value.sum() - 0.5 * trial @ trial
            if converged or following >= objective - TOLERANCE * (1.0 + abs(objective)):
                break
            step *= 0.5
            if step < SHORTEST:
                raise NumericalError(
                    f"Laplace: no ascent at inverse temperature {beta:g} after {iteration} Newton "
                    "steps; check the data for values the likelihood cannot have"
                )
        tolerance = TOLERANCE * max(1.0, 1e-3 * abs(objective))  # rounding of large sums
        converged = converged or (abs(following - objective) < tolerance and step == 1.0)
        xi, objective = trial, following
        if converged:
            precision = np.maximum(-second, floor)
            return GaussianSites(model, precision, first + precision * eta), iteration
    raise NumericalError(
        f"Laplace: Newton's method has not converged after {MAX_ITERATIONS} steps at inverse "
        f"temperature {beta:g}; rescale the inputs or the hyperparameters"
    )
