"""The joint density of hyperparameters and latents in coordinates that hardly depend on each other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.site_adjoint import condition, covariance_adjoint, pull_back
from gpmcflow.numerics.lapack import ROUTINES, triangular_solve

LARGEST = 150.0  # |coordinate| above which squares overflow: such a point has no density
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class FrozenSites(NamedTuple):
    """Gaussian sites exp(b_i s_i - w_i s_i^2 / 2) that stay while hyperparameters move.

    s = (f + c) / a, where a is the amplitude of the covariance, a^2 = trace(K) / n, for binary data, so that
    sites grow with it, and 1 for others.
    """

    precision: np.ndarray  #: w > 0 (n,)
    shift: np.ndarray  #: b (n,)

    def checked(self) -> FrozenSites:
        """The same as arrays. Raises `NumericalError` for sites that are not positive."""
        w, b = (np.ascontiguousarray(v, dtype=np.float64) for v in self)
        wrong = np.flatnonzero(~(np.isfinite(w) & np.isfinite(b) & (w > 0.0)))
        if wrong.size:
            k = int(wrong[0])
            raise NumericalError(
                f"joint split HMC: site {k} has precision {w[k]:g} and shift {b[k]:g}; allowed: positive, "
                "finite; take narrower hyperpriors"
            )
        return FrozenSites(w, b)


class Evaluation(NamedTuple):
    """The density at one point; -inf and zeros where a factorisation fails."""

    rest: float  #: log pi - log N(x; 0, I) - log N(z; 0, I), up to a constant
    slope_x: np.ndarray  #: its gradient by x (d,)
    slope_z: np.ndarray  #: and by z (n_z,)
    theta: np.ndarray  #: hyperparameters (d,)
    latents: np.ndarray  #: f (n,); empty where they are integrated out
    log_likelihood: float  #: log p(y | f, theta), or log p(y | theta) where f is integrated out
    complete: float  #: log p(y | f, theta) + log N(f; 0, K)


def impossible(model: GPModel, n_z: int, n_latents: int) -> Evaluation:
    """Where there is no density."""
    nowhere, zero = np.full(model.dim, np.nan), np.zeros(model.dim)
    return Evaluation(-np.inf, zero, np.zeros(n_z), nowhere, np.zeros(n_latents), -np.inf, -np.inf)


class JointDensity:
    """log pi(x, z_1, z_2) of a `GPModel` and its gradient, in buffers of one chain.

    theta = theta(x) with x ~ N(0, I) a priori; the latents f ~ N(0, K) are an exact draw of their posterior
    under frozen Gaussian sites, made of z_1, z_2 ~ N(0, I) by pathwise conditioning (`site_adjoint`), and

        log pi = log N(x) + log N(z) + log Z(theta) + sum_i [l_i(f_i + c) - b_i s_i + w_i s_i^2 / 2].

    log Z is the evidence of the sites: given data that sites describe well, all that is not a unit normal
    varies slowly. The density is exact for any positive site precisions. A gradient by all coordinates
    takes 8 n^3 / 3 flops and two passes over the covariance's tape. With a derived from K its derivative is
    kappa I added to the adjoint of K, kappa = (l'.(f + c) - c g_c - 2 <K-bar, K>) / (2 trace K).

    Raises `NumericalError` for sites that are not positive, `InputError` for a hyperprior that has no
    transform.
    """

    def __init__(self, model: GPModel, sites: FrozenSites) -> None:
        self.model, n = model, model.n_cases
        self.coordinates = model.parameters.normal
        self.n_z = 2 * n
        self._covariance = model.covariance_buffers()
        self._K, self._L, self._B, self._S = (np.empty((n, n)) for _ in range(4))
        self._vectors = [np.empty(n) for _ in range(5)]
        self.sites = sites

    @property
    def sites(self) -> FrozenSites:
        """Frozen sites; set them to change the coordinates."""
        return self._sites

    @sites.setter
    def sites(self, sites: FrozenSites) -> None:
        self._sites = sites.checked()

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,), z = (z_1, z_2) (2n,)."""
        placed = self._place(x, z)
        if placed is None:
            return impossible(self.model, self.n_z, self.model.n_cases)
        full, slopes, scale, trace, omega, evidence = placed
        model, n = self.model, self.model.n_cases
        a, alpha, whitened, f, adjoint = self._vectors
        w, b = self._sites
        likelihood, c = model.likelihood_at(full), model.mean_at(full)
        predictor = f + c
        with np.errstate(all="ignore"):
            value, slope = likelihood.log_density_and_gradient(predictor, model.y)
            s = predictor / scale
            rest = evidence + float(value) + float(s @ (0.5 * w * s - b))
            rho = slope + (w * s - b) / scale
        if not math.isfinite(rest) or not np.all(np.isfinite(rho)):
            return impossible(model, self.n_z, n)
        slope_z = np.empty(2 * n)
        pull_back(ROUTINES, self._L, self._B, omega, rho, adjoint, slope_z[:n], slope_z[n:])
        self._covariance.invert(self._L)
        inner, by_mean = covariance_adjoint(
            ROUTINES, self._K, self._L, self._B, self._S, omega, alpha, a, adjoint, slope_z[:n], z[:n]
        )  # fmt: skip
        shift = 0.0
        if likelihood.relative_sites:
            shift = (0.5 * (float(slope @ predictor) - c * by_mean) - inner) / trace
        by_full = self._covariance.adjoint(full, self._B, shift, self._K)
        model.add_slopes(by_full, full, by_mean, predictor)
        value = float(value)
        log_normal = -0.5 * float(whitened @ whitened) - self._log_det - n * _HALF_LOG_2PI
        slope_x, theta = by_full[model.free] * slopes, full[model.free]
        return Evaluation(rest, slope_x, slope_z, theta, f.copy(), value, value + log_normal)

    def augment(self, rng: np.random.Generator, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Draw z = (z_1, z_2) (2n,) given x (d,) and latents f (n,), exactly.

        From z ~ N(0, I) with latents f_0: z_1 + L^-1 (f - f_0), z_2 - omega (f - f_0). Raises
        `NumericalError` where the covariance does not factorise.
        """
        n = self.model.n_cases
        z = rng.standard_normal(2 * n)
        placed = self._place(x, z)
        if placed is None:
            raise NumericalError(
                "joint split HMC: the covariance is not positive definite at the start; give a larger "
                f"jitter than {self.model.epsilon:g}"
            )
        gap = f - self._vectors[3]
        z[n:] -= placed[4] * gap
        triangular_solve(ROUTINES, self._L, False, gap)
        z[:n] += gap
        return z

    def _place(self, x: np.ndarray, z: np.ndarray) -> tuple | None:
        """Factors, vectors and log Z at a point, or None."""
        model, n = self.model, self.model.n_cases
        theta, slopes = self.coordinates.theta(x)
        full = model.full(theta)
        if not np.all(np.abs(full) < LARGEST):  # nan, too
            return None
        trace = self._covariance.fill(full, self._K)
        self._log_det = self._covariance.factorise(self._K, self._L)
        if not math.isfinite(self._log_det):
            return None
        w, b = self._sites
        scale = math.sqrt(trace / n) if model.likelihood.relative_sites else 1.0
        omega, gamma = np.sqrt(w) / scale, scale * b / w - model.mean_at(full)
        a, alpha, whitened, f, _ = self._vectors
        evidence = condition(
            ROUTINES, self._K, self._L, self._B, omega, gamma, z[:n], z[n:], a, alpha, whitened, f
        )
        if not math.isfinite(evidence):
            return None
        return full, slopes, scale, trace, omega, evidence
