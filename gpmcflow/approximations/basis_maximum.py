"""Hyperparameters of a model with basis functions at the maximum of an evidence of Gaussian sites."""

from __future__ import annotations

import logging

import numpy as np
from scipy.special import ndtri

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.frozen_search import frozen_maximum
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites

logger = logging.getLogger(__name__)
SEARCHES = 20  # at most
NEAR = 0.01  # a search that moved no further has arrived


def maximise_basis_evidence(model: GPModel) -> np.ndarray:
    """Theta (d,) at the maximum of log Z(theta) + sum_i [l_i(h_i) - log site_i(h_i)], h the sites' mean.

    Sites are those of Newton's method at the last theta: at a maximum that stands still it is the evidence of
    Laplace's method, with W fixed; with Gaussian noise it is the marginal likelihood. Hyperpriors do not
    count, but the search stays in the central share of them that the basis is made for. A maximum at an edge
    is logged.

    Raises `NumericalError` where the evidence is not finite at the medians of the hyperpriors.
    """

    def sites_at(x: np.ndarray, start: FrozenSites | None) -> FrozenSites:
        return basis_sites(model, model.parameters.normal.theta(x)[0], start)

    x, edge = np.zeros(model.dim), float(ndtri(0.5 + 0.5 * model.basis.share))
    density = density_of(model, None if model.likelihood.conjugate else sites_at(x, None))
    x, _ = frozen_maximum(
        density, x, sites_at, hyperprior=False, searches=SEARCHES, near=NEAR, edge=edge
    )
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
