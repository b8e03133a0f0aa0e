"""The joint density of hyperparameters and latents in coordinates that hardly depend on each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.joint_adjoint import (
    condition,
    covariance_adjoint,
    factorise_copy,
    fill_covariance,
    fill_isotropic,
    fill_kronecker,
    invert_lower,
    length_slopes,
    pull_back,
)
from gpmcflow.models.joint_covariance import DIRECT, ROUTINES, plain_distances, triangular_solve
from gpmcflow.models.joint_model import JointModel
from gpmcflow.models.normal_coordinates import normal_coordinates

LARGEST = 150.0  # |log| of a scale above which squares overflow: such a point has no density
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class FrozenSites(NamedTuple):
    """Gaussian sites exp(b_i s_i - w_i s_i^2 / 2) that stay while hyperparameters move.

    Binary data: s = f / sigma_f, so that sites grow with the amplitude; else s = f + c.
    """

    precision: np.ndarray  #: w > 0 (n,)
    shift: np.ndarray  #: b (n,)


class Evaluation(NamedTuple):
    """The density at one point; -inf and zeros where a factorisation fails."""

    rest: float  #: log pi - log N(x; 0, I) - log N(z; 0, I), up to a constant
    slope_x: np.ndarray  #: its gradient by x (d,)
    slope_z: np.ndarray  #: and by (z_1, z_2), (2n,)
    theta: np.ndarray  #: hyperparameters (d,)
    latents: np.ndarray  #: f (n,)
    log_likelihood: float  #: log L(f; c)
    complete: float  #: log L(f; c) + log N(f; 0, Sigma)


def scales_with_amplitude(model: JointModel) -> bool:
    """Whether the frozen sites are in f / sigma_f: binary data, where only the sign of f is seen."""
    return model.likelihood.relative_sites


class JointDensity:
    """log pi(x, z_1, z_2) of a `JointModel` and its gradient, in buffers of one chain.

    theta = theta(x) with x ~ N(0, I) a priori; with t = f / sigma_f ~ N(0, K + eps I) the latents are an
    exact draw of their posterior under frozen Gaussian sites, made of z_1, z_2 ~ N(0, I) by pathwise
    conditioning (`joint_adjoint`), and

        log pi = log N(x) + log N(z) + log Z(theta) + sum_i [l_i(f_i + c) - b_i s_i + w_i s_i^2 / 2].

    log Z is the evidence of the sites: given data that sites describe well, all that is not a unit normal
    varies slowly. The density is exact for any positive site precisions. A gradient by all coordinates
    takes 8 n^3 / 3 flops, the length scales being one symmetric product. A Kronecker grid is evaluated as
    a dense covariance, its factors and inverses made from those of the axes.

    Raises `NumericalError` for sites that are not positive, `InputError` for a hyperprior that has no
    transform.
    """

    def __init__(self, model: JointModel, sites: FrozenSites) -> None:
        pin_blas()
        self.model = model
        self.coordinates = normal_coordinates(model)
        n, p = model.X.shape
        self._relative = scales_with_amplitude(model)
        self._K, self._L, self._B, self._S = (np.empty((n, n)) for _ in range(4))
        self._vectors = [np.empty(n) for _ in range(5)]
        centred = model.X - 0.5 * (model.X.min(0) + model.X.max(0))
        self._rows = np.ascontiguousarray(np.vstack([centred.T, np.ones(n)]))
        self._axes = model.factor() if model.kronecker else None
        shared = model.isotropic and p > 1 and not model.kronecker
        self._distances = np.empty((n, n) if shared else (0, 0))
        if shared:
            plain_distances(self._rows[:p], self._distances)
        many = p > DIRECT and not shared
        self._products = np.empty((p + 1, n) if many else (0, 0))
        self._length_slopes = np.empty(p)
        self.sites = sites

    @property
    def sites(self) -> FrozenSites:
        """Frozen sites; set them to change the coordinates."""
        return self._sites

    @sites.setter
    def sites(self, sites: FrozenSites) -> None:
        w, b = (np.ascontiguousarray(v, dtype=np.float64) for v in sites)
        wrong = np.flatnonzero(~(np.isfinite(w) & np.isfinite(b) & (w > 0.0)))
        if wrong.size:
            k = int(wrong[0])
            raise NumericalError(
                f"joint split HMC: site {k} has precision {w[k]:g} and shift {b[k]:g}; allowed: positive, "
                "finite; take a log-concave likelihood, or narrower hyperpriors"
            )
        self._sites = FrozenSites(w, b)

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,), z = (z_1, z_2) (2n,)."""
        placed = self._place(x, z)
        if placed is None:
            return self._impossible(x)
        full, slopes, sd, omega, evidence = placed
        model, n = self.model, self.model.n_cases
        a, alpha, whitened, t, adjoint = self._vectors
        f = sd * t
        predictor = f + full[-1]
        with np.errstate(all="ignore"):
            value, slope = model.likelihood.log_density_and_gradient(predictor, model.y)
            s, unit = (t, 1.0) if self._relative else (predictor, sd)
            removed, pull = self._without_sites(s)
            rest = evidence + float(value) + removed
            rho = sd * slope + unit * pull
        if not np.isfinite(rest) or not np.all(np.isfinite(rho)):
            return self._impossible(x)
        slope_z = np.empty(2 * n)
        pull_back(ROUTINES, self._L, self._B, omega, rho, adjoint, slope_z[:n], slope_z[n:])
        inverse = self._inverse()
        covariance_adjoint(
            ROUTINES, self._K, inverse, self._B, self._S, omega, alpha, a, adjoint, slope_z[:n], z[:n]
        )  # fmt: skip
        by_full = self._by_coordinates(full, float(slope @ f))
        by_full[-1] = 0.0 if self._relative else (alpha.sum() + adjoint.sum()) / sd
        log_normal = (
            -0.5 * float(whitened @ whitened) - self._log_det - n * (full[-2] + _HALF_LOG_2PI)
        )
        return Evaluation(
            rest, by_full[model.free] * slopes, slope_z, full[model.free], f, float(value),
            float(value) + log_normal,
        )  # fmt: skip

    def augment(self, rng: np.random.Generator, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Draw z = (z_1, z_2) (2n,) given x (d,) and latents f (n,), exactly.

        From z ~ N(0, I) with latents f_0: z_1 + L^-1 (t - t_0), z_2 - omega (t - t_0), t = f / sigma_f.
        Raises `NumericalError` where the covariance does not factorise.
        """
        n = self.model.n_cases
        z = rng.standard_normal(2 * n)
        placed = self._place(x, z)
        if placed is None:
            raise NumericalError(
                "joint split HMC: the covariance is not positive definite at the start; give a larger "
                f"jitter than {self.model.jitter:g}"
            )
        _, _, sd, omega, _ = placed
        gap = f / sd - self._vectors[3]
        z[n:] -= omega * gap
        triangular_solve(ROUTINES, self._L, False, gap)
        z[:n] += gap
        return z

    def _without_sites(self, s: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log of the sites at s, and its gradient."""
        w, b = self._sites
        return float(s @ (0.5 * w * s - b)), w * s - b

    def _place(self, x: np.ndarray, z: np.ndarray) -> tuple | None:
        """Factors, vectors and log Z at a point, or None."""
        model, n = self.model, self.model.n_cases
        theta, slopes = self.coordinates.theta(x)
        full = model.full(theta)
        if not np.all(np.abs(full) < LARGEST):  # nan, too
            return None
        sd = float(np.exp(full[-2]))
        self._log_det = self._factorise(full[:-2])
        if not np.isfinite(self._log_det):
            return None
        w, b = self._sites
        omega, gamma = np.sqrt(w), b / w
        if not self._relative:
            omega, gamma = sd * omega, (gamma - full[-1]) / sd
        a, alpha, whitened, t, _ = self._vectors
        evidence = condition(
            ROUTINES, self._K, self._L, self._B, omega, gamma, z[:n], z[n:], a, alpha, whitened, t
        )
        if not np.isfinite(evidence):
            return None
        return full, slopes, sd, omega, evidence

    def _factorise(self, log_lengths: np.ndarray) -> float:
        """Fill K and L; log |L|, nan where it fails."""
        jitter = self.model.jitter
        if self._axes is not None:
            return self._factorise_axes(log_lengths)
        if self._distances.size:
            fill_isotropic(self._distances, log_lengths[0], jitter, self._K)
        else:
            fill_covariance(self._rows[:-1], log_lengths, jitter, self._K)
        return factorise_copy(ROUTINES, self._K, self._L)

    def _factorise_axes(self, log_lengths: np.ndarray) -> float:
        axes = self._axes
        if not axes.fill(log_lengths):
            return np.nan
        factors = [part.dense() for part in axes.parts]
        fill_kronecker(*(np.ascontiguousarray((L @ L.T).T) for L in factors), self._K)
        fill_kronecker(*(np.ascontiguousarray(L.T) for L in factors), self._L)
        return axes.log_det

    def _inverse(self) -> np.ndarray:
        """L^-1, in the place of L."""
        if self._axes is None:
            invert_lower(ROUTINES, self._L)
        else:
            inverses = [np.linalg.inv(part.dense()).T.copy() for part in self._axes.parts]
            fill_kronecker(*inverses, self._L)
        return self._L

    def _by_coordinates(self, full: np.ndarray, slope_f: float) -> np.ndarray:
        """Derivatives by (log l, log sigma_f, c), that by c left open; ``slope_f`` is l'(f + c)'f."""
        p = self.model.X.shape[1]
        slopes = self._length_slopes
        lengths = np.broadcast_to(full[:-2], p) if self._axes is not None else full[:-2]
        total = length_slopes(
            ROUTINES, self._B, self._rows, self._products, self._distances, lengths, slopes
        )
        out = np.zeros(len(full))
        if self.model.isotropic and not self._distances.size:
            out[0] = slopes.sum()
        else:
            out[: len(full) - 2] = slopes[: len(full) - 2]
        out[-2] = slope_f if self._relative else 2.0 * total
        return out

    def _impossible(self, x: np.ndarray) -> Evaluation:
        d, n = self.model.dim, self.model.n_cases
        nowhere = np.full(d, np.nan)
        zero = np.zeros(2 * n)
        return Evaluation(-np.inf, np.zeros(d), zero, nowhere, zero[:n], -np.inf, -np.inf)
