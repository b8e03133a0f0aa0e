"""Second-order correction of the EP evidence by the cumulants EP neglects."""

from __future__ import annotations

from math import factorial

import numpy as np

from gpmcflow.approximations.expectation_propagation import ExpectationPropagation

DEFAULT_ORDER = 6


def second_order_correction(fit: ExpectationPropagation, order: int = DEFAULT_ORDER) -> np.ndarray:
    """Correct the log evidence of EP by the cumulants it neglects, to second order.

    log Z = log Z_EP + log R, log R = (1/2) sum_{l=3}^{order} k_l' (R^{o l}) k_l / l!, with R the
    correlation matrix of the predictors under q with zero diagonal (elementwise powers) and k_l
    the tilted cumulants over the l-th power of the marginal standard deviations. The size of the correction
    is also a diagnostic of EP.

    Source: Opper, Paquet & Winther (2013).

    Parameters
    ----------
    fit:
        Of `expectation_propagation`, or ``fit`` of what `approximate` returns.
    order:
        Largest cumulant, 3 or more.

    Returns
    -------
    log R (order - 2,), in nats, up to cumulants 3, 4, .., ``order``: the last entry is the correction.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> K = 4.0 * np.array([[1.0, 0.9], [0.9, 1.0]])
    >>> model = gp.LatentGaussianModel.from_covariance(K, gp.Probit(), np.ones(2))
    >>> fit = gp.expectation_propagation(model)
    >>> exact = np.log(0.25 + np.arcsin(K[0, 1] / (1.0 + K[0, 0])) / (2.0 * np.pi))
    >>> round(float(exact) - fit.log_evidence, 4), round(gp.second_order_correction(fit)[-1].item(), 4)
    (0.0085, 0.0083)
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
