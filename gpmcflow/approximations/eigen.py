"""Eigen-exact: the covariance of its leading eigenpairs. A reference: dearer than what it replaces."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from gpmcflow.approximations.low_rank import LOG_2PI
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import ModelDensity, noise_variances, scaled_sum


class EigenExact(ModelDensity):
    """log N(y; c, sum_i s_i b_i b_i' + D) + log prior over the m leading eigenpairs of K.

    With noise d and r = y - c: r'C^-1 r = r'r / d - sum_i s_i (b_i'r)^2 / (d (s_i + d)), and
    log det C = sum_i log(s_i + d) + (n - m) log d. Noise that differs between cases is scaled out
    first: the eigenpairs are those of D^-1/2 K D^-1/2.

    The best approximation of its rank, and of no use as a stand-in: the eigenvalues cost some ten
    Cholesky factorisations. Raises `InputError` for m above the number of cases.

    Source: Wang & Neal (2013), section 4.2, eqs. 36-37.
    """

    def __init__(self, model: GPModel, m: int) -> None:
        super().__init__(model)
        if not 1 <= m <= model.n_cases:
            raise InputError(
                f"EigenExact: m is {m}; allowed: 1 to the number of cases, {model.n_cases}"
            )
        self.m = int(m)

    def __repr__(self) -> str:
        return f"EigenExact(m={self.m})"

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where it fails."""
        model, full = self.model, self.model.full(theta)
        terms, n = self.work.terms(full), model.n_cases
        if terms is None:
            return -np.inf
        noise = np.full(n, noise_variances(model, full))
        K, root = np.zeros((n, n)), np.sqrt(noise)
        scaled_sum(self.work.E, terms.factor, terms.constant, terms.noise - noise, K)
        K /= np.outer(root, root)
        if not np.all(np.isfinite(K)):
            return -np.inf
        values, vectors = eigh(K.T, subset_by_index=(n - self.m, n - 1))
        values = np.maximum(values, 0.0)
        z = (model.y - model.mean_at(full)) / root
        quadratic = z @ z - (values / (values + 1.0)) @ (vectors.T @ z) ** 2
        log_det = np.log1p(values).sum() + np.log(noise).sum()
        return float(-0.5 * (quadratic + log_det + n * LOG_2PI))
