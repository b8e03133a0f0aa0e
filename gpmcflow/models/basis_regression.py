"""GP regression on basis functions with the weights integrated out: O(m^3) a gradient, whatever n.

y ~ N(c, Phi S^2 Phi' + D), D = tau^2 I or known variances. With V = D^-1, or I and p = tau^-2 apart: G = p
Phi'V Phi, r = p Phi'V (y - c), and log N = log Z - p (y - c)'V (y - c) / 2 - log|D| / 2 - n/2 log 2 pi, log Z
that of `WeightPosterior`. By p: <Q-bar o G_0, s s'> + mu'S r_0 - |y - c|^2 / 2.
"""

from __future__ import annotations

import numpy as np

from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import LARGEST, Evaluation, impossible
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior

_LOG_2PI = np.log(2.0 * np.pi)


class CollapsedBasisDensity:
    """As `CollapsedDensity`, of a model with basis functions: its latents are weights w (m,).

    What is known of the n cases is summed up once: Phi'V Phi, Phi'V y, Phi'V 1 and three sums, of y about its
    mean, as squares far from 0 have no digits left for what varies.
    """

    n_z = 0

    def __init__(self, model: GPModel, sites: FrozenSites | None = None) -> None:
        self.model, self.coordinates, self.sites = model, model.parameters.normal, sites
        self._level = float(model.eta_y.mean())
        design, y = model.basis_design, model.eta_y - self._level
        self._single = model.noise_place is not None
        variances = np.ones(model.n_cases)
        if not self._single:
            variances = model.likelihood.noise_variances(model.n_cases)
        V = 1.0 / variances
        self._gram, self._data, self._ones = (
            design.gram(V), design.pull_back(V * y), design.pull_back(V),
        )  # fmt: skip
        self._sums = float(V.sum()), float(V @ y), float(V @ (y * y))
        self._constant = -0.5 * (float(np.log(variances).sum()) + model.n_cases * _LOG_2PI)
        self._constant += model.log_jacobian

    def posterior(self, full: np.ndarray) -> WeightPosterior:
        """Posterior of the weights given y."""
        return self._parts(full)[0]

    def _parts(self, full: np.ndarray) -> tuple[WeightPosterior, list, float]:
        """Posterior of the weights, derivatives of log s, and p."""
        s, log_slopes = self.model.basis.scales(full)
        p = float(np.exp(-2.0 * full[self.model.noise_place])) if self._single else 1.0
        r = p * (self._data - (self.model.mean_at(full) - self._level) * self._ones)
        return WeightPosterior(self._gram.scaled(p), r, s), log_slopes, p

    def value_and_slopes(self, full: np.ndarray) -> tuple[float, np.ndarray]:
        """log N(y; c, ..) and its derivatives by ``full`` (size,); -inf where it fails."""
        model, slopes = self.model, np.zeros(len(full))
        if not model.in_range(full, LARGEST):
            return -np.inf, slopes
        with np.errstate(all="ignore"):
            posterior, log_slopes, p = self._parts(full)
        if not np.isfinite(posterior.log_evidence):
            return -np.inf, slopes
        (of_ones, of_y, of_squares), c = self._sums, model.mean_at(full) - self._level
        squares = of_squares - 2.0 * c * of_y + c * c * of_ones
        value = posterior.log_evidence - 0.5 * p * squares + self._constant
        s, mean, r = posterior.s, posterior.mean, posterior.r
        by_scale, inner = posterior.scale_slopes()
        by_log = s * by_scale
        for own, (place, log_slope) in log_slopes:
            slopes[place] += log_slope @ by_log[own]
        by_mean = p * (of_y - c * of_ones - float((s * mean) @ self._ones))
        model.add_mean_slope(slopes, by_mean)
        if self._single:
            value -= model.n_cases * full[model.noise_place]
            by_p = float(inner @ s + (s * mean) @ r) / p - 0.5 * squares
            slopes[model.noise_place] += -2.0 * p * by_p - model.n_cases
        return value, slopes

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,)."""
        theta, slopes = self.coordinates.theta(x)
        value, by_full = self.value_and_slopes(self.model.full(theta))
        if value == -np.inf:
            return impossible(self.model, 0, 0)
        none = np.empty(0)
        return Evaluation(value, by_full[self.model.free] * slopes, none, theta, none, value, value)

    def value(self, x: np.ndarray, z: np.ndarray) -> float:
        """log p(y | theta) alone, at x (d,)."""
        return self.log_likelihood(self.coordinates.theta(x)[0])

    def log_likelihood(self, theta: np.ndarray) -> float:
        """log p(y | theta) at theta (d,)."""
        return self.value_and_slopes(self.model.full(theta))[0]

    def log_constant(self) -> float:
        """Nothing is left out."""
        return 0.0

    def draw_latents(
        self, rng: np.random.Generator, theta: np.ndarray
    ) -> tuple[np.ndarray, float, float]:
        """An exact draw of w (m,) given y and theta, with log p(y | w), and that plus log N(w; 0, I)."""
        posterior = self.posterior(self.model.full(theta))
        w = posterior.weights(rng.standard_normal(self.model.n_latents))
        log_likelihood = float(self.model.log_likelihood(w, theta))
        return w, log_likelihood, log_likelihood - 0.5 * (float(w @ w) + len(w) * _LOG_2PI)
