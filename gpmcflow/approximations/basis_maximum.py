"""Hyperparameters of a model with basis functions at the maximum of an evidence of Gaussian sites."""

from __future__ import annotations

import logging

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.regression_density import density_of

logger = logging.getLogger(__name__)
SEARCHES, EVALUATIONS = 20, 12  # at most, each at sites of its own, of so many gradients
COLLAPSED_EVALUATIONS = 200  # with Gaussian noise, where no sites move
STEP = 1.0  # how far one search may go, in normal coordinates
NEAR = 0.01  # a search that moved no further has arrived
TOLERANCE = 1e-9  # of one search, over the evidence


def maximise_basis_evidence(model: GPModel) -> np.ndarray:
    """Theta (d,) at the maximum of log Z(theta) + sum_i [l_i(h_i) - log site_i(h_i)], h the sites' mean.

    Sites are those of Newton's method at the last theta: at a maximum that stands still it is the evidence of
    Laplace's method, with W fixed; with Gaussian noise it is the marginal likelihood. Hyperpriors do not
    count, but the search stays in the central share of them that the basis is made for. A maximum at an edge
    is logged.

    Raises `NumericalError` where the evidence is not finite at the medians of the hyperpriors.
    """
    x = np.zeros(model.dim)
    density = density_of(model, None if model.likelihood.conjugate else _sites(model, x))
    z, edge = np.zeros(density.n_z), float(ndtri(0.5 + 0.5 * model.basis.share))

    def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = density.evaluate(x, z)
        return (-at.rest, -at.slope_x) if np.isfinite(at.rest) else (1e10, np.zeros_like(x))

    most = EVALUATIONS if density.n_z else COLLAPSED_EVALUATIONS
    step = STEP if density.n_z else 2.0 * edge
    for k in range(SEARCHES):
        if k and density.n_z:
            density.sites = _sites(model, x, density.sites)
        box = np.stack([np.maximum(x - step, -edge), np.minimum(x + step, edge)], axis=1)
        options = {"maxfun": most, "ftol": TOLERANCE}
        result = minimize(minus, x, jac=True, method="L-BFGS-B", bounds=box, options=options)
        if not result.fun < 1e10:
            raise NumericalError(
                "hyperparameters: no finite evidence with basis functions near the hyperpriors' medians; "
                "take narrower hyperpriors"
            )
        moved, x = float(np.abs(result.x - x).max()), result.x
        if moved < NEAR or not density.n_z:
            break
        step = min(step, max(2.0 * moved, NEAR))
    theta, at_edge = density.coordinates.theta(x)[0], np.abs(x) > 0.999 * edge
    if at_edge.any():
        values = model.natural(theta)
        names = np.array(model.names)[at_edge]
        logger.warning(
            "hyperparameters: the maximum of the evidence (%s) lies at the end of the central %.0f %% of its "
            "hyperprior; terms that are not needed do that, and hyperpriors that are too narrow",
            ", ".join(f"{name} {values[name]:.3g}" for name in names),
            100.0 * model.basis.share,
        )
    return theta


def _sites(model: GPModel, x: np.ndarray, start: FrozenSites | None = None) -> FrozenSites:
    return basis_sites(model, model.parameters.normal.theta(x)[0], start)
