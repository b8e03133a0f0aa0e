"""The log posterior of all cases in single precision, as a stand-in for that in double precision."""

from __future__ import annotations

import numpy as np

from gpmcflow.models import regression_covariance as covariance
from gpmcflow.models.gp_regression import GPLogDensity


class SinglePrecision(GPLogDensity):
    """log N(y; 0, C) + log prior with the factorisation in float32: about half the time.

    A = E + D / eta^2 is factorised, which is better conditioned than C, with the constant c^2 as a
    correction of rank one: for A = LL', (u, w) = L^-1 (y, 1) and k = c^2 / eta^2,
    y'C^-1 y = (u'u - k (u'w)^2 / (1 + k w'w)) / eta^2 and
    log det C = n log eta^2 + log det A + log(1 + k w'w). Sums are in float64.

    A factor that fails in float32 where it would not in float64 is -inf for the stand-in: such points
    are then left to the exact density's acceptance, and are never reached by moves of the stand-in
    alone. Use it where the noise is not tiny: sigma^2 / eta^2 well above 1e-6.
    """

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Approximate log likelihood at theta (d,); -inf where the factorisation fails."""
        model = self.model
        if self._work is None:
            self._work = covariance.Workspace(model.X, np.float32)
            self._sides = np.ones((model.n_cases, 2), dtype=np.float32, order="F")
            self._sides[:, 0] = model.y
        work = self._work
        eta2, sigma2, in_range = covariance.unpack(theta, model.has_noise, work.inverse_scales)
        if not in_range:
            return -np.inf
        work.diagonal[:] = (sigma2 if model.has_noise else model.noise_variances) / eta2
        work.correlate()
        if not work.factorise(1.0, 0.0):
            return -np.inf
        u = work.solve(self._sides).astype(np.float64)
        _, logs = covariance.squares_and_log_diagonal(work.factor, u[:, 0])
        gram = u.T @ u
        k = model.constant**2 / eta2
        quadratic = (gram[0, 0] - k * gram[0, 1] ** 2 / (1.0 + k * gram[1, 1])) / eta2
        log_det = model.n_cases * np.log(eta2) + 2.0 * logs + np.log1p(k * gram[1, 1])
        return float(-0.5 * (quadratic + log_det + model.n_cases * np.log(2.0 * np.pi)))
