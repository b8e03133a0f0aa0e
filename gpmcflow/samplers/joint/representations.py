"""Six ways to hold latents while hyperparameters move, each with the density it leaves to them.

A representation freezes variables at the current (theta, f); at a proposal theta' they give latents f'
and a log density phi(theta') up to a constant, beside the hyperprior. Any update of theta that leaves
exp(phi) p_h invariant, with f' in the place of f, then leaves the posterior of (theta, f) invariant.

Source: Murray & Adams (2010), sections 2-4, algorithms 1-4; the public code has sum log s twice in the
surrogate's density, which is only right for constant S.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpmcflow.approximations.independent_sites import (
    SiteRule,
    StandardSites,
    TaylorSites,
)
from gpmcflow.covariances.dense_factor import DenseFactor
from gpmcflow.covariances.kronecker import KroneckerFactor
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.compiled import LikelihoodCode, PythonCode, log_likelihood


@dataclass(slots=True)
class Point:
    """Hyperparameters of one chain with the factors there, and the latents they stand with.

    L = sd * factor, f + offset is the predictor, ``code`` the likelihood there. ``sites`` and ``whitened``
    are None for representations without sites.
    """

    full: np.ndarray
    sd: float
    offset: float
    factor: DenseFactor | KroneckerFactor
    code: LikelihoodCode | PythonCode
    sites: Any  #: `Sites`
    whitened: Any  #: `WhitenedFactors`
    f: Any = None  #: (n,), once it is known
    log_likelihood: float = np.nan

    @property
    def n_log_sd(self) -> float:
        """Log |sd I|: log |L| is that of the factor and this."""
        return self.factor.n * float(np.log(self.sd))

    def multiply(self, v: np.ndarray) -> np.ndarray:
        """L v."""
        return self.sd * self.factor.multiply(v)

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """L'v."""
        return self.sd * self.factor.transposed(v)

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """L^-1 f."""
        return self.factor.solve(f) / self.sd


class Frozen:
    """What stays while theta moves: arrays, and one remembered result with the stamp it belongs to."""

    __slots__ = ("arrays", "remembered", "stamp")

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays
        self.stamp, self.remembered = -1, None

    def once(self, stamp: int, compute: Any) -> Any:
        """``compute()``, or its last result if the stamp is the same: nothing it depends on has moved."""
        if stamp != self.stamp:
            self.remembered, self.stamp = compute(), stamp
        return self.remembered


class Representation(ABC):
    """Frozen dataclass of settings, picklable."""

    rule: SiteRule | None = None

    @abstractmethod
    def freeze(self, rng: np.random.Generator, point: Point) -> tuple[Frozen, float]:
        """Frozen variables at a point with its latents, and phi there."""

    @abstractmethod
    def place(self, frozen: Frozen, point: Point) -> float:
        """Phi at a point; its latents and log likelihood are filled in.

        A point that comes with its latents and log likelihood still those of the current one (`fixed`)
        keeps what does not change.
        """


@dataclass(frozen=True)
class Fixed(Representation):
    """f itself: phi = log N(f; 0, Sigma') + log L(f; c'), the likelihood cancelling while c stays."""

    def freeze(self, rng: np.random.Generator, point: Point) -> tuple[Frozen, float]:
        """Hold f; phi at the point."""
        frozen = Frozen(point.f)
        return frozen, self._prior(frozen, point) + point.log_likelihood

    def place(self, frozen: Frozen, point: Point) -> float:
        """f' = f."""
        if point.f is None:
            point.f = frozen.arrays[0]
            point.log_likelihood = log_likelihood(point.code, point.f, point.offset)
        return self._prior(frozen, point) + point.log_likelihood

    @staticmethod
    def _prior(frozen: Frozen, point: Point) -> float:
        def squares() -> float:
            z = point.factor.solve(frozen.arrays[0])
            return float(z @ z)

        squared = frozen.once(point.factor.stamp, squares)
        return -0.5 * squared / point.sd**2 - point.factor.log_det - point.n_log_sd


@dataclass(frozen=True)
class PriorWhite(Representation):
    """nu = L^-1 f, of unit normals under the prior: f' = L'nu, phi = log L(f'; c')."""

    def freeze(self, rng: np.random.Generator, point: Point) -> tuple[Frozen, float]:
        """Hold nu = L^-1 f; phi at the point, the log likelihood."""
        return Frozen(point.whiten(point.f)), point.log_likelihood

    def place(self, frozen: Frozen, point: Point) -> float:
        """f' = sd' L_K'nu, of which a move of sd or c keeps the product."""
        nu = frozen.arrays[0]
        point.f = point.sd * frozen.once(point.factor.stamp, lambda: point.factor.multiply(nu))
        point.log_likelihood = log_likelihood(point.code, point.f, point.offset)
        return point.log_likelihood


@dataclass(frozen=True)
class Surrogate(Representation):
    """Noisy pseudo-data g ~ N(f, S), and eta = L_R^-1 (f - m(g)) = U'L^-1 f - U^-1 L'Wg.

    f' = L'U'^-T (eta + r'), r' = U'^-1 L''W'g with the proposed W', and

        phi = log L(f'; c') + log N(g; 0, Sigma' + S'),
        log N(g; 0, Sigma + S) = -(|u|^2 + sum_i w_i (g_i - m_i)^2) / 2 + sum_i log w_i / 2 - log |U|,

    u = U^-T r, m = L u, constants dropped. Ergodic without any other update of f.
    """

    rule: SiteRule = field(default_factory=StandardSites)

    def freeze(self, rng: np.random.Generator, point: Point) -> tuple[Frozen, float]:
        """g and eta."""
        w = point.sites.precision
        g = point.f + rng.standard_normal(len(w)) / np.sqrt(w)
        r = self._linear(point, g)
        eta = point.whitened.transposed(point.whiten(point.f)) - r
        evidence = self._evidence(point, g, point.whitened.solve_transposed(r))
        return Frozen(g, eta), evidence + point.log_likelihood

    def place(self, frozen: Frozen, point: Point) -> float:
        """f' and phi; while no precision and no covariance move, f' = f and only L(f; c') does."""

        def result() -> tuple[np.ndarray, float]:
            g, eta = frozen.arrays
            r = self._linear(point, g)
            f = point.multiply(point.whitened.solve_transposed(r + eta))
            return f, self._evidence(point, g, point.whitened.solve_transposed(r))

        point.f, evidence = frozen.once(point.whitened.stamp, result)
        point.log_likelihood = log_likelihood(point.code, point.f, point.offset)
        return point.log_likelihood + evidence

    @staticmethod
    def _linear(point: Point, g: np.ndarray) -> np.ndarray:
        return point.whitened.solve(point.transposed(point.sites.precision * g))

    def _evidence(self, point: Point, g: np.ndarray, u: np.ndarray) -> float:
        """Log N(g; 0, Sigma + S) without its constant; u = L^-1 m."""
        w = point.sites.precision
        rest = g - point.multiply(u)
        squared = float(u @ u + (w * rest) @ rest)
        return -0.5 * squared + self._log_precisions(w) - point.whitened.log_det

    @staticmethod
    def _log_precisions(w: np.ndarray) -> float:
        return 0.5 * float(np.log(w).sum())  # S moves with theta: this term is no constant


@dataclass(frozen=True)
class PosteriorWhite(Representation):
    """omega = L_R^-1 (f - m) = U'L^-1 f - U^-1 L'b, of nearly unit normals under the posterior.

    f' = L'nu', nu' = U'^-T (omega + U'^-1 L''b'), phi = log L(f'; c') - |nu'|^2 / 2 - log |U'|: equation 14
    of the paper, in which log |L'| cancels.
    """

    rule: SiteRule = field(default_factory=StandardSites)

    def freeze(self, rng: np.random.Generator, point: Point) -> tuple[Frozen, float]:
        """Hold omega, the noise of an exact draw of f under the sites; phi at the point."""
        nu = point.whiten(point.f)
        omega = point.whitened.transposed(nu) - self._linear(point)
        return Frozen(omega), point.log_likelihood + self._density(point, nu)

    def place(self, frozen: Frozen, point: Point) -> float:
        """f' and phi."""
        nu = point.whitened.solve_transposed(frozen.arrays[0] + self._linear(point))
        point.f = point.multiply(nu)
        point.log_likelihood = log_likelihood(point.code, point.f, point.offset)
        return point.log_likelihood + self._density(point, nu)

    @staticmethod
    def _linear(point: Point) -> np.ndarray:
        return point.whitened.solve(point.transposed(point.sites.shift))

    def _density(self, point: Point, nu: np.ndarray) -> float:
        return -0.5 * float(nu @ nu) - self._log_det(point)

    @staticmethod
    def _log_det(point: Point) -> float:
        return point.whitened.log_det


REPRESENTATIONS: dict[str, Representation] = {
    "fixed": Fixed(),
    "prior-white": PriorWhite(),
    "surr-site": Surrogate(),
    "surr-taylor": Surrogate(TaylorSites()),
    "post-site": PosteriorWhite(),
    "post-taylor": PosteriorWhite(TaylorSites()),
}


def representation(name: str, rule: SiteRule | None = None) -> Representation:
    """Return the representation of that name, with its own site rule or another.

    Raises `InputError` for an unknown name, and for a rule where there are no sites.
    """
    if name not in REPRESENTATIONS:
        raise unknown_name("representation", name, REPRESENTATIONS)
    own: Any = REPRESENTATIONS[name]
    if rule is None:
        return own
    if own.rule is None:
        raise InputError(f"representation {name}: it has no sites; leave the site rule out")
    return replace(own, rule=rule)
