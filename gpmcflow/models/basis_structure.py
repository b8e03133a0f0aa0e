"""Latents made of basis functions, f = Phi (s w): O(n m + m^3) a gradient."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites, PriorStructure
from gpmcflow.models.weight_posterior import WeightPosterior

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class BasisStructure(PriorStructure):
    """u = w (m,), the weights of basis functions, w ~ N(0, I); z (m,), w = mu + C^-T z of `WeightPosterior`.

    The predictor is h = Phi beta + c, beta = s(theta) w; sites are in h (a = 1). G = Phi'W Phi, r = Phi'b and
    t = Phi'w stand while the sites do; only Phi beta and Phi'l' touch the n cases.
    """

    def __init__(self, model: GPModel, sites: FrozenSites) -> None:
        self.model, self._blocks, self._design = model, model.basis, model.basis_design
        self.n_z = self.n_latents = self._blocks.size
        self.predictor = np.empty(model.n_cases)
        self.sites = sites

    def freeze(self) -> None:
        """G, r, t, and the sums of b and w."""
        w, b = self.sites
        self._gram = self._design.gram(w)
        self._shift, self._weight = self._design.pull_back(b), self._design.pull_back(w)
        self._totals = float(b.sum()), float(w.sum())

    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Scales, the factor of Q, and an exact draw of the weights."""
        c = self.model.mean_at(full)
        s, self._log_slopes = self._blocks.scales(full)
        self._full, self._z, self._mean = full, z, c
        self._posterior = WeightPosterior(self._gram, self._shift - c * self._weight, s)
        if not math.isfinite(self._posterior.log_evidence):
            return np.nan
        self.latents = self._posterior.weights(z)
        self._coefficients = s * self.latents
        self._product = self._gram.dot(self._coefficients)
        self._design.multiply(self._coefficients, self.predictor)
        self.predictor += c
        of_b, of_w = self._totals
        return self._posterior.log_evidence + c * of_b - 0.5 * c * c * of_w

    def log_sites(self) -> float:
        """Sum of b_i h_i - w_i h_i^2 / 2, of m numbers."""
        c, (of_b, of_w) = self._mean, self._totals
        linear = self._posterior.r - 0.5 * self._product
        return float(self._coefficients @ linear) + c * of_b - 0.5 * c * c * of_w

    def log_prior(self) -> float:
        """Log N(w; 0, I)."""
        w = self.latents
        return -0.5 * float(w @ w) - self.n_latents * _HALF_LOG_2PI

    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By z, and by the parameters of the covariance and the mean."""
        model, posterior = self.model, self._posterior
        s, w, mean = posterior.s, self.latents, posterior.mean
        rho = self._design.pull_back(slope) - posterior.r + self._product
        slope_z = posterior.solve(s * rho)
        solved = posterior.solve(slope_z, transposed=True)
        by_scale, _ = posterior.scale_slopes(self._z, slope_z, solved)
        by_scale += rho * w
        by_log = s * by_scale
        by_full = np.zeros(len(self._full))
        for own, (place, log_slope) in self._log_slopes:
            by_full[place] += log_slope @ by_log[own]
        by_mean = float(slope.sum() + self._weight @ (self._coefficients - s * (mean + solved)))
        model.add_mean_slope(by_full, by_mean)
        return slope_z, by_full

    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """C' (w - mu): nothing is random."""
        return self._posterior.whitened(latents)
