"""Eigen-exact: the covariance of its leading eigenpairs. A reference: dearer than what it replaces."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from gpmcflow.approximations.low_rank import LOG_2PI
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import (
    MarginalLikelihood,
    noise_variances,
    scaled_sum,
)
from gpmcflow.models.regression_density import ModelDensity


class EigenExact(ModelDensity):
    """Stand-in for a regression's log posterior with the m leading eigenpairs of its covariance.

    log N(y; c, sum_i s_i b_i b_i' + D) + log p_h(theta). With noise d and r = y - c:
    r'C^-1 r = r'r / d - sum_i s_i (b_i'r)^2 / (d (s_i + d)), and
    log det C = sum_i log(s_i + d) + (n - m) log d. Noise that differs between cases is scaled out
    first: the eigenpairs are those of D^-1/2 K D^-1/2. Called with theta (d,), it returns a number.

    The best approximation of its rank, and of no use as a stand-in: the eigenvalues cost some ten
    Cholesky factorisations.

    Source: Wang & Neal (2013), section 4.2, eqs. 36-37.

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.
    m:
        Number of eigenpairs, from 1 to n.

    Raises
    ------
    InputError:
        For another likelihood, and m out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> theta = model.theta_of({"length_scale": 0.5, "signal_sd": 1.0})
    >>> exact = gp.RegressionDensity(model)(theta)
    >>> [f"{abs(gp.EigenExact(model, m)(theta) - exact):.2f}" for m in (2, 4, 8)]
    ['56.17', '0.08', '0.00']
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

    def workspace(self) -> MarginalLikelihood:
        """A new work space, with all of K."""
        return MarginalLikelihood(self.model, apart=False)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where it fails."""
        model, full = self.model, self.model.full(theta)
        terms, n = self.work.terms(full), model.n_cases
        if terms is None:
            return -np.inf
        noise = np.full(n, noise_variances(model, full))
        K, root = np.zeros((n, n)), np.sqrt(noise)
        scaled_sum(self.work.E, terms.factor, terms.constant, np.zeros(n), K)
        K /= np.outer(root, root)
        if not np.all(np.isfinite(K)):
            return -np.inf
        values, vectors = eigh(K.T, subset_by_index=(n - self.m, n - 1))
        values = np.maximum(values, 0.0)
        z = (model.eta_y - model.mean_at(full)) / root
        quadratic = z @ z - (values / (values + 1.0)) @ (vectors.T @ z) ** 2
        log_det = np.log1p(values).sum() + np.log(noise).sum()
        return float(-0.5 * (quadratic + log_det + n * LOG_2PI)) + model.log_jacobian
