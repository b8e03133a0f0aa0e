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
_NO_FUNCTIONS = np.empty(0)


class DenseStructure(PriorStructure):
    """u = f (n,), z = (z_1, z_2) (2n,): pathwise conditioning of `site_adjoint`.

    The amplitude a of relative sites comes from K; its derivative is kappa I added to the adjoint of K,
    kappa = (l'.(f + c) - c g_c - 2 <K-bar, K>) / (2 trace K). K = R + V'V, see `DenseCovariance`.
    """

    def __init__(self, model: GPModel, sites: FrozenSites) -> None:
        self.model, n = model, model.n_cases
        self.n_z, self.n_latents = 2 * n, n
        self._covariance = model.covariance_buffers()
        self._R, self._L, self._B, self._S = (np.empty((n, n)) for _ in range(4))
        self._a, self._alpha, self._whitened, self.latents, self._adjoint = (
            np.empty(n) for _ in range(5)
        )
        self.sites = sites

    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Factors of K and of B, and an exact draw f."""
        model, n = self.model, self.model.n_cases
        self._full, self._z1 = full, z[:n]
        self._trace = self._covariance.fill(full, self._R)
        self._log_det = self._covariance.factorise(self._R, self._L)
        if not math.isfinite(self._log_det):
            return np.nan
        w, b = self.sites
        self.amplitude = math.sqrt(self._trace / n) if model.likelihood.relative_sites else 1.0
        self._omega, mean = np.sqrt(w) / self.amplitude, model.mean_at(full)
        evidence = condition(
            ROUTINES, self._R, self._L, self._B, self._omega, self.amplitude * b / w - mean, z[:n], z[n:],
            self._a, self._alpha, self._whitened, self.latents, self._covariance.V,
        )  # fmt: skip
        self.predictor = self.latents + mean
        return evidence

    def log_constant(self) -> float:
        """Sum of b_i^2 / 2 w_i."""
        w, b = self.sites
        return 0.5 * float(b @ (b / w))

    def log_sites(self) -> float:
        """Sum of b_i s_i - w_i s_i^2 / 2."""
        (w, b), s = self.sites, self.predictor / self.amplitude
        return float(s @ (b - 0.5 * w * s))

    def log_prior(self) -> float:
        """Log N(f; 0, K)."""
        squares = float(self._whitened @ self._whitened)
        return -0.5 * squares - self._log_det - self.n_latents * _HALF_LOG_2PI

    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By z = (z_1, z_2), and by the covariance's parameters and the mean."""
        (w, b), n, model, full = self.sites, self.n_latents, self.model, self._full
        rho = slope + (w * self.predictor / self.amplitude - b) / self.amplitude
        slope_z = np.empty(2 * n)
        pull_back(
            ROUTINES, self._L, self._B, self._omega, rho, self._adjoint, slope_z[:n], slope_z[n:]
        )
        squares = _NO_FUNCTIONS
        if len(self._covariance.V):
            squares = function_squares(
                ROUTINES, self._L, self._B, self._covariance.V, self._omega, self._alpha, slope_z[:n],
                self._z1, self._whitened,
            )  # fmt: skip
        self._covariance.invert(self._L)
        inner, by_mean = covariance_adjoint(
            ROUTINES, self._R, self._L, self._B, self._S, self._omega, self._alpha, self._a, self._adjoint,
            slope_z[:n], self._z1,
        )  # fmt: skip
        shift = 0.0
        if model.likelihood.relative_sites:
            inner += float(squares.sum())
            by_scale = float(slope @ self.predictor) - model.mean_at(full) * by_mean
            shift = (0.5 * by_scale - inner) / self._trace
        by_full = self._covariance.adjoint(full, self._B, shift, self._R, squares)
        model.add_mean_slope(by_full, by_mean)
        return slope_z, by_full

    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """With latents f_0 of z: z_1 + L^-1 (f - f_0), z_2 - omega (f - f_0)."""
        n, gap = self.n_latents, latents - self.latents
        z[n:] -= self._omega * gap
        triangular_solve(ROUTINES, self._L, False, gap)
        z[:n] += gap
        return z
