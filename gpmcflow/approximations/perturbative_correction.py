"""Second-order correction of the EP evidence by the cumulants EP neglects."""

from __future__ import annotations

from math import factorial

import numpy as np

from gpmcflow.approximations.expectation_propagation import ExpectationPropagation

DEFAULT_ORDER = 6


def second_order_correction(fit: ExpectationPropagation, order: int = DEFAULT_ORDER) -> np.ndarray:
    """log R up to cumulants 3, 4, .., ``order``: an array (order - 2,) of cumulative sums.

    log Z = log Z_EP + log R, log R = (1/2) sum_{l=3}^{order} k_l' (R^{o l}) k_l / l!, with R the
    correlation matrix of the predictors under q with zero diagonal (elementwise powers) and k_l
    the tilted cumulants over the l-th power of the marginal standard deviations. The last entry is
    the correction; its size is also a diagnostic of EP. Source: Opper, Paquet & Winther (2013).
    """
    cumulants = standardised_cumulants(fit, order)
    correlation = predictor_correlation(fit)
    power = correlation**2
    terms = []
    for degree in range(3, order + 1):
        power = power * correlation
        kappa = cumulants[degree - 3]
        terms.append(0.5 * kappa @ power @ kappa / factorial(degree))
    return np.cumsum(terms)


def standardised_cumulants(fit: ExpectationPropagation, order: int) -> np.ndarray:
    """Tilted cumulants 3..order over powers of the marginal sd, shape (order - 2, n)."""
    model = fit.sites.model
    cumulants = model.likelihood.tilted_cumulants(
        model.y, fit.cavity_mean, fit.cavity_variance, order
    )
    sd = np.sqrt(fit.sites.predictor_variance)
    return cumulants / sd ** np.arange(3, order + 1)[:, None]


def predictor_correlation(fit: ExpectationPropagation) -> np.ndarray:
    """Correlations of the predictors under q, zero diagonal, shape (n, n)."""
    rows = fit.sites.predictor_factor / np.sqrt(fit.sites.predictor_variance)[:, None]
    correlation = rows @ rows.T
    np.fill_diagonal(correlation, 0.0)
    return correlation
