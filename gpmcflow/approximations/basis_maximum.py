"""Hyperparameters of a model with basis functions at the maximum of an evidence of Gaussian sites."""

from __future__ import annotations

import logging

import numpy as np

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.laplace import laplace
from gpmcflow.approximations.search import SearchRange, frozen_maximum, search_range
from gpmcflow.errors import NumericalError
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior

logger = logging.getLogger(__name__)
SEARCHES = 20  # at most
FARTHEST = 37.0  # |x| where probabilities underflow: the end of a hyperprior
_NO_Z = np.empty(0)
NEAR = 0.01  # a search that moved no further has arrived


def maximise_basis_evidence(model: GPModel) -> np.ndarray:
    """Theta (d,) at the maximum of log Z(theta) + sum_i [l_i(h_i) - log site_i(h_i)], h the sites' mean.

    Sites are those of Newton's method at the last theta: at a maximum that stands still it is the evidence of
    Laplace's method, with W fixed; with Gaussian noise it is the marginal likelihood. Hyperpriors do not
    count, but length scales stay in the central share of theirs that the basis is made for. Searches start
    where the data say, see `search_range`, and at the medians of the hyperpriors; the better maximum counts,
    and one at an edge is logged.

    Raises `NumericalError` where the evidence is not finite at any start.
    """

    def sites_at(x: np.ndarray, start: FrozenSites | None) -> FrozenSites:
        return basis_sites(model, model.parameters.normal.theta(x)[0], start)

    within = _range_of_basis(model)
    low, high = _normal(model, within.low), _normal(model, within.high)
    starts = [np.clip(_normal(model, theta), low, high) for theta in within.starts]
    _, slopes = model.parameters.normal.theta(starts[0])
    scale = np.where(within.scale == 1.0, 1.0, within.scale / slopes)
    conjugate = model.likelihood.conjugate
    density, found, reason = None, [], None
    # with Gaussian noise no sites move, and a search is cheap
    for start in starts if conjugate else (starts[0], starts[-1]):
        try:
            if density is None:
                density = density_of(model, None if conjugate else sites_at(start, None))
            x, _ = frozen_maximum(
                density, start, sites_at,
                hyperprior=False, searches=SEARCHES, near=NEAR, low=low, high=high, scale=scale,
            )  # fmt: skip
            theta = density.coordinates.theta(x)[0]
            # values at frozen sites of their own do not compare
            nearby = density.sites
            value = (
                density.value(x, _NO_Z) if conjugate else _laplace_evidence(model, theta, nearby)
            )
            found.append((value, theta))
        except NumericalError as error:
            reason = error
    if not found:
        raise NumericalError(f"hyperparameters: no search has a start that is finite: {reason}")
    _, theta = max(found, key=lambda one: one[0])
    last = conjugate or model.approximate_basis  # else another search follows
    if last and (edges := within.edges(model, theta)):
        logger.warning(
            "hyperparameters: the maximum of the evidence lies at the edge of the search: %s", edges
        )
    return theta


def _laplace_evidence(model: GPModel, theta: np.ndarray, start: FrozenSites) -> float:
    """Log evidence, from sites nearby; -inf where the fit fails: it counts where no other has a value."""
    try:
        if model.likelihood.log_concave:
            return _evidence_at_mode(model, theta, start)
        return laplace(model.at(theta)).log_evidence
    except NumericalError:
        return -np.inf


def _evidence_at_mode(model: GPModel, theta: np.ndarray, start: FrozenSites) -> float:
    """That of `laplace` from products of the basis, without a matrix of n x m numbers."""
    full, sites = model.full(theta), basis_sites(model, theta, start)
    design, (s, _), c = model.basis_design, model.basis.scales(full), model.mean_at(full)
    gram, shift = design.gram(sites.precision), sites.shift - c * sites.precision
    at = WeightPosterior(gram, design.pull_back(shift), s)
    h = design.multiply(s * at.mean, np.empty(model.n_cases)) + c
    log_likelihood = float(model.likelihood_at(full).log_density(h[None], model.y)[0])
    return log_likelihood - 0.5 * float(at.mean @ at.mean) - at.log_det


def _range_of_basis(model: GPModel) -> SearchRange:
    """The range of any model, length scales in the share of their hyperpriors that the basis is made for."""
    within, share = search_range(model), model.basis.share
    at_low, at_high = list(within.at_low), list(within.at_high)
    for j, place in enumerate(model.free):
        if place in model.basis.lengths:
            prior = model.parameters.free_priors[j]
            within.low[j], within.high[j] = prior.quantile(
                np.array([1.0 - share, 1.0 + share]) / 2.0
            )
            at_low[j] = at_high[j] = (
                f"the end of the central {100.0 * share:.0f} % of its hyperprior, which the basis is made for"
            )
    return within._replace(at_low=tuple(at_low), at_high=tuple(at_high))


def _normal(model: GPModel, theta: np.ndarray) -> np.ndarray:
    """Normal coordinates (d,) of theta (d,)."""
    return np.nan_to_num(model.parameters.to_normal(theta), posinf=FARTHEST, neginf=-FARTHEST)
