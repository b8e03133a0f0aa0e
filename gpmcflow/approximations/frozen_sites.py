"""Gaussian sites for a joint sampler, fitted once at given hyperparameters and then frozen."""

from __future__ import annotations

import logging

import numpy as np

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.independent_sites import StandardSites
from gpmcflow.approximations.rank_one_sites import rank_one_sites
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods.sites import LARGEST_VARIANCE
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites

logger = logging.getLogger(__name__)
TOLERANCE = 1e-6  # any positive sites are exact; these decide how well the sampler mixes


def frozen_sites(
    model: GPModel, theta: np.ndarray, start: FrozenSites | None = None, *, quiet: bool = True
) -> FrozenSites:
    """Sites at theta (d,), in the units of `FrozenSites`; a fit that iterates begins at ``start``.

    Those of rank-one precision on a grid, of Newton's method where the prior is made of basis functions,
    else of expectation propagation; where that does not converge, those of one case at a time, with a warning
    unless ``quiet``.

    Raises `NumericalError` where the covariance does not factorise.
    """
    if model.kronecker:
        return rank_one_sites(model, theta, start)
    if model.basis:
        return basis_sites(model, theta, start)
    latent = model.at(theta)
    try:
        own = expectation_propagation(latent, tolerance=TOLERANCE).sites
        # a zero of a hurdle likelihood says nothing of its latent value: EP's site has no precision
        flat = own.precision == 0.0
        sites = FrozenSites(np.where(flat, 1.0 / LARGEST_VARIANCE, own.precision), own.shift)
    except NumericalError as error:
        if not quiet:
            logger.warning(
                "joint split HMC: sites are those of one case at a time, with which chains mix less well: %s",
                error,
            )
        sites = _single_sites(model, theta)
    if not model.likelihood.relative_sites:
        return sites
    variance = float(model.prior_variance(model.full(theta), model.X).mean())
    return FrozenSites(sites.precision * variance, sites.shift * np.sqrt(variance))


def _single_sites(model: GPModel, theta: np.ndarray) -> FrozenSites:
    """Sites of each case under its prior variance alone, which always exist; the sampler mixes less well."""
    full = model.full(theta)
    c, variance = model.mean_at(full), np.asarray(model.prior_variance(full, model.X))
    precision, shift, _ = StandardSites()(model.likelihood_at(full), model.y, variance, c)
    return FrozenSites(precision, shift + c * precision)  # over f + c
