"""The log posterior of all cases in single precision, as a stand-in for that in double precision."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from gpmcflow.approximations.stand_ins import LOG_2PI
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.regression_density import ModelDensity
from gpmcflow.numerics.code_cache import compiled


@compiled
def _rounded_sum(E, diagonal, out):
    """E + diag(diagonal) in float32, lower triangle (column, row)."""
    n = out.shape[0]
    for j in range(n):
        column, entries = out[j, j:], E[j, j:]
        for i in range(n - j):
            column[i] = np.float32(entries[i])
        column[0] = np.float32(entries[0] + diagonal[j])


class _Work(MarginalLikelihood):
    def __init__(self, model) -> None:
        super().__init__(model, apart=False)
        n = model.n_cases
        self.rounded = np.empty((n, n), dtype=np.float32)
        self.sides = np.ones((n, 2), dtype=np.float32, order="F")


class SinglePrecision(ModelDensity):
    """log N(y; c, C) + log prior with the factorisation in float32: about half the time.

    Where K = s^2 E + c_0^2 (see `GPModel.scaled_covariance`), A = E + D / s^2 is factorised, which is better
    conditioned than C, with the constant as a correction of rank one: for A = LL', r = y - c,
    (u, w) = L^-1 (r, 1) and k = c_0^2 / s^2, r'C^-1 r = (u'u - k (u'w)^2 / (1 + k w'w)) / s^2 and
    log det C = n log s^2 + log det A + log(1 + k w'w). E is made, and sums are taken, in float64.

    A factor that fails in float32 where it would not in float64 is -inf for the stand-in: such points
    are then left to the exact density's acceptance, and are never reached by moves of the stand-in
    alone. Use it where the noise is not tiny: sigma^2 / s^2 well above 1e-6.
    """

    def workspace(self) -> _Work:
        """A new work space."""
        return _Work(self.model)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where the factorisation fails."""
        model, work, full = self.model, self.work, self.model.full(theta)
        terms = work.terms(full)
        if terms is None:
            return -np.inf
        _rounded_sum(work.E, terms.noise / terms.factor, work.rounded)
        L, info = lapack.spotrf(work.rounded.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return -np.inf
        work.sides[:, 0] = model.eta_y - model.mean_at(full)
        u = lapack.strtrs(L, work.sides, lower=1)[0].astype(np.float64)
        squares, cross, _, ones = (u.T @ u).ravel()
        k = terms.constant / terms.factor
        quadratic = (squares - k * cross**2 / (1.0 + k * ones)) / terms.factor
        log_det = 2.0 * np.log(np.diagonal(L).astype(np.float64)).sum() + np.log1p(k * ones)
        n = model.n_cases
        value = -0.5 * (quadratic + log_det + n * (np.log(terms.factor) + LOG_2PI))
        return float(value) + model.log_jacobian
