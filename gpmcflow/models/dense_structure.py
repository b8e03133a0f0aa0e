"""Latents f ~ N(0, K) with a dense covariance matrix: 8 n^3 / 3 flops a gradient."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites, PriorStructure
from gpmcflow.models.site_adjoint import (
    condition,
    covariance_adjoint,
    function_squares,
    pull_back,
)
from gpmcflow.numerics.lapack import ROUTINES, triangular_solve

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class DenseStructure(PriorStructure):
    """u = f (n,), z = (z_1, z_2) (2n,): pathwise conditioning of `site_adjoint`.

    The amplitude a of relative sites comes from K; its derivative is kappa I added to the adjoint of K,
    kappa = (l'.(f + c) - c g_c - 2 <K-bar, K>) / (2 trace K). K = R + V'V, see `DenseCovariance`.

    Of ``n_functions`` m that share K and have sites of their own, u and z are one after the other, and h is
    (m, n): K is factorised, and its parameters have their slopes, once for all.
    """

    def __init__(self, model: GPModel, sites: FrozenSites, n_functions: int = 1) -> None:
        self.model, n, m = model, model.n_cases, n_functions
        self.n_functions, self._shape = m, (n,) if m == 1 else (m, n)
        self.n_z, self.n_latents = 2 * m * n, m * n
        self._covariance = model.covariance_buffers()
        self._R, self._L, self._S = (np.empty((n, n)) for _ in range(3))
        self._B = np.empty((m, n, n))
        self._a, self._alpha, self._whitened, self._f, self._adjoint, self._p = (
            np.empty((m, n)) for _ in range(6)
        )
        self.latents = self._f.reshape(m * n)
        self.sites = sites

    def freeze(self) -> None:
        """Sites of each function; roots and halves of their precisions."""
        self._w, self._b = (values.reshape(self._f.shape) for values in self.sites)
        self._root_w, self._half_w = np.sqrt(self._w), 0.5 * self._w

    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Factors of K and of B, and an exact draw f."""
        model = self.model
        self._full, z = full, z.reshape(self.n_functions, 2, -1)
        self._z1 = np.ascontiguousarray(z[:, 0])
        self._trace = self._covariance.fill(full, self._R)
        self._log_det = self._covariance.factorise(self._R, self._L)
        if not math.isfinite(self._log_det):
            return np.nan
        self.amplitude = 1.0
        if model.likelihood.relative_sites:
            self.amplitude = math.sqrt(self._trace / model.n_cases)
        self._omega, mean = self._root_w / self.amplitude, model.mean_at(full)
        gamma, evidence = self.amplitude * self._b / self._w - mean, 0.0
        for c, (z1, z2) in enumerate(z):
            evidence += condition(
                ROUTINES, self._R, self._L, self._B[c], self._omega[c], gamma[c], z1, z2,
                self._a[c], self._alpha[c], self._whitened[c], self._f[c], self._covariance.V,
            )  # fmt: skip
        self.predictor = (self._f + mean).reshape(self._shape)
        return evidence

    def log_constant(self) -> float:
        """Sum of b_i^2 / 2 w_i."""
        w, b = self.sites
        return 0.5 * float(b @ (b / w))

    def log_sites(self) -> float:
        """Sum of b_i s_i - w_i s_i^2 / 2."""
        s = self.predictor.reshape(self._f.shape) / self.amplitude
        return float(np.vdot(s, self._b - self._half_w * s))

    def log_prior(self) -> float:
        """Log N(f; 0, K)."""
        squares = float(np.vdot(self._whitened, self._whitened))
        log_dets = self.n_functions * self._log_det
        return -0.5 * squares - log_dets - self.n_latents * _HALF_LOG_2PI

    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By z = (z_1, z_2), and by the covariance's parameters and the mean."""
        model, full, predictor = self.model, self._full, self.predictor.reshape(self._f.shape)
        rho = slope.reshape(self._f.shape)
        rho = rho + (self._w * predictor / self.amplitude - self._b) / self.amplitude
        slope_z = np.empty((self.n_functions, 2, model.n_cases))
        V = self._covariance.V
        squares = np.zeros(len(V))
        for c, (slope1, slope2) in enumerate(slope_z):
            B, omega = self._B[c], self._omega[c]
            pull_back(ROUTINES, self._L, B, omega, rho[c], self._adjoint[c], slope1, slope2)
            if len(squares):
                squares += function_squares(
                    ROUTINES, self._L, B, V, omega, self._alpha[c], slope1, self._z1[c],
                    self._whitened[c],
                )  # fmt: skip
        self._p[:] = slope_z[:, 0]
        self._covariance.invert(self._L)
        inner, by_mean = covariance_adjoint(
            ROUTINES, self._R, self._L, self._B, self._S, self._omega, self._alpha, self._a, self._adjoint,
            self._p, self._z1,
        )  # fmt: skip
        shift = 0.0
        if model.likelihood.relative_sites:
            inner += float(squares.sum())
            by_scale = float(np.vdot(slope, self.predictor)) - model.mean_at(full) * by_mean
            shift = (0.5 * by_scale - inner) / self._trace
        by_full = self._covariance.adjoint(full, self._B[0], shift, self._R, squares)
        model.add_mean_slope(by_full, by_mean)
        return slope_z.reshape(self.n_z), by_full

    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """With latents f_0 of z: z_1 + L^-1 (f - f_0), z_2 - omega (f - f_0)."""
        gaps = (latents - self.latents).reshape(self._f.shape)
        z = z.reshape(self.n_functions, 2, -1)
        z[:, 1] -= self._omega * gaps
        for gap in gaps:
            triangular_solve(ROUTINES, self._L, False, gap)
        z[:, 0] += gaps
        return z.reshape(self.n_z)
