"""The tempered path from a Gaussian reference to the posterior, as a Gaussian part and the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.case_part import CasePart, sites_density, subtract_sites
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel


@dataclass(frozen=True, eq=False)
class Target:
    """A density over latents as samplers take it: a Gaussian times what is left of the likelihood, tempered.

    log density = -|zeta|^2 / 2 + beta r(eta(zeta)), r = log p(y | eta) - nu' eta + tau' eta^2 / 2. The sites
    (``precision`` tau, ``shift`` nu) take out of the likelihood what the Gaussian part already holds, so that
    beta = 1 is the posterior and beta = 0 the Gaussian itself.

    Build it with `Target.posterior`, or, inside the package, `TemperedPath.target`.

    Attributes
    ----------
    base:
        The Gaussian part: zeta are its standardised coordinates, in which it is N(0, I), and
        eta = base.predictor(zeta).
    beta:
        Inverse temperature, a number, or one for each chain (chain,): a ladder as one batch.
    precision, shift:
        tau and nu, (n,), or (chain, n) for a ladder in coordinates of another Gaussian.

    Raises
    ------
    InputError:
        On the way to coordinates of another Gaussian, which need beta > 0.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> target = gp.Target.posterior(gp.approximate(model).sites)
    >>> draws = gp.sample(target, gp.EllipticalSlice(), n_chains=1, n_draws=20)
    >>> dict(draws.posterior["latent"].sizes)
    {'chain': 1, 'draw': 20, 'latent_dim': 8}
    """

    base: GaussianSites
    beta: float | np.ndarray
    precision: np.ndarray
    shift: np.ndarray

    @classmethod
    def posterior(cls, base: GaussianSites) -> Target:
        """Return the posterior in the coordinates of ``base``."""
        return cls(base, 1.0, base.precision, base.shift)

    @property
    def model(self) -> LatentGaussianModel:
        """The latent Gaussian model."""
        return self.base.model

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.model.dim

    def beta_column(self) -> float | np.ndarray:
        """Beta, ready to multiply an array (chain, dim)."""
        return self.beta if np.ndim(self.beta) == 0 else np.asarray(self.beta)[:, None]

    def in_coordinates(self, base: GaussianSites) -> Target:
        """Return the same density in the coordinates of another base.

        Where that is another Gaussian, of sites (tau_b, nu_b), the residual's sites make up for it:
        with k = base - beta s, what multiplies the prior beside the likelihood, they become
        (base_b - k) / beta, shape (n,) or (chain, n) for a ladder; that needs beta > 0.
        """
        if base is self.base:
            return self
        if base.same_gaussian(self.base):
            return replace(self, base=base)
        beta = self.beta_column()
        if not np.all(np.asarray(beta) > 0.0):
            raise InputError(
                f"tempered path: beta is {self.beta!r}; with a base of its own it must be > 0"
            )
        old, new = self.base, base
        return replace(
            self,
            base=base,
            precision=(new.precision - (old.precision - beta * self.precision)) / beta,
            shift=(new.shift - (old.shift - beta * self.shift)) / beta,
        )

    def digest(self) -> str:
        """SHA-256 of all its numbers."""
        sites = {"precision": self.precision, "shift": self.shift, "beta": np.asarray(self.beta)}
        return text_digest(self.base.digest(), array_digest(sites))

    @cached_property
    def cases(self) -> CasePart:
        """All cases as one part, for a base with a dense predictor factor."""
        base, sites = self.base, () if self._no_sites else (self.precision, self.shift)
        return CasePart(
            self.model.likelihood, self.model.y, base.predictor_factor, base.predictor_mean, *sites
        )

    def residual_gradient(self, zeta: np.ndarray) -> np.ndarray:
        """Gradient of r by zeta (chain, dim): two products with the factor, else elementwise."""
        if not self.base.triangular:
            return self.cases.gradient(zeta)
        eta = self.base.predictor(zeta)
        slope = self.model.likelihood.gradient(eta, self.model.y)
        return self.base.pull_back(self._without_sites(slope, eta))

    def evaluate(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predictor (chain, n), log likelihood (chain,), r (chain,), gradient of r (chain, dim)."""
        if not self.base.triangular:
            return self.cases.evaluate(zeta)
        eta = self.base.predictor(zeta)
        log_likelihood, slope = self.model.likelihood.log_density_and_gradient(eta, self.model.y)
        gradient = self.base.pull_back(self._without_sites(slope, eta))
        return eta, log_likelihood, log_likelihood - self.sites_density(eta), gradient

    def value(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictor, log likelihood and r: `evaluate` without the gradient."""
        if not self.base.triangular:
            return self.cases.value(zeta)
        eta = self.base.predictor(zeta)
        log_likelihood = self.model.likelihood.log_density(eta, self.model.y)
        return eta, log_likelihood, log_likelihood - self.sites_density(eta)

    def sites_density(self, eta: np.ndarray) -> np.ndarray:
        """Sum_i nu_i eta_i - tau_i eta_i^2 / 2 for predictors (chain, n), shape (chain,)."""
        return sites_density(eta, self.precision, self.shift)

    def residual(
        self, zeta: np.ndarray, predictor: np.ndarray, log_likelihood: np.ndarray
    ) -> np.ndarray:
        """r (chain,) of positions whose predictor and log likelihood are known."""
        return log_likelihood - self.sites_density(predictor)

    def sites_gradient(self, zeta: np.ndarray) -> np.ndarray | float:
        """Gradient of `sites_density` by zeta (chain, dim): F' (nu - tau eta), one (d, d) product."""
        if self._no_sites:
            return 0.0
        constant, quadratic = self._sites_terms
        return constant - zeta @ quadratic

    @cached_property
    def _sites_terms(self) -> tuple[np.ndarray, np.ndarray]:
        F, eta = self.base.predictor_factor, self.base.predictor_mean
        return F.T @ (self.shift - self.precision * eta), F.T @ (self.precision[:, None] * F)

    def _without_sites(self, slope: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Slope - nu + tau eta, in place."""
        return slope if self._no_sites else subtract_sites(slope, eta, self.precision, self.shift)

    @cached_property
    def _no_sites(self) -> bool:
        return not (np.any(self.precision) or np.any(self.shift))


@dataclass(frozen=True, eq=False)
class TemperedPath:
    """log h_beta = beta [log p(y | theta) + log p(theta)] + (1 - beta) log q(theta).

    q is the reference, prior times sites, normalised. Then log h_beta = log q + beta u with
    u = log p(y | eta) - nu' eta + tau' eta^2 / 2 + log Z-tilde_0, in which the prior cancels: the
    log density ratio costs O(n) per particle and no solve.
    """

    reference: GaussianSites
    base: Any = (
        None  #: `GaussianSites` whose coordinates are those of the targets; the reference if None
    )

    def __post_init__(self) -> None:
        if self.base is None:
            object.__setattr__(self, "base", self.reference)

    def in_coordinates(self, base: GaussianSites) -> TemperedPath:
        """Return the same path with targets in the coordinates of ``base``."""
        return replace(self, base=base)

    def reference_draws(self, normals: np.ndarray) -> np.ndarray:
        """Draws of the reference in the base's coordinates, from standard normals (chain, d)."""
        if self.base.same_gaussian(self.reference):
            return normals
        return self.base.from_whitened(self.reference.to_whitened(normals))

    def digest(self) -> str:
        """SHA-256 of the reference and the base."""
        return text_digest(self.reference.digest(), self.base.digest())

    @property
    def model(self) -> LatentGaussianModel:
        """The latent Gaussian model."""
        return self.reference.model

    def target(self, beta: float | np.ndarray, base: GaussianSites | None = None) -> Target:
        """h_beta in the coordinates of ``base`` (the path's own unless given).

        In those of another Gaussian than the reference that needs beta > 0.
        """
        q = self.reference
        target = Target(q, beta, q.precision, q.shift)
        return target.in_coordinates(self.base if base is None else base)

    def log_ratio(self, predictor: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
        """u(eta) for a batch: predictor (..., n), log likelihood (...), result (...)."""
        q = (
            self.reference
        )  # over the sites' value at the mean: that alone is of the size of tau y^2
        away = predictor - q.predictor_mean
        return log_likelihood - sites_density(away, q.precision, q.residual) + q.log_peak

    def derivatives(
        self, predictor: np.ndarray, beta: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives 0-2 of phi_i = beta log p(y_i | eta_i) + (1 - beta) log site_i(eta_i).

        log site_i = nu_i eta_i - tau_i eta_i^2 / 2, that of the reference.
        """
        q = self.reference
        value, first, second, _ = self.model.likelihood.derivatives(predictor, self.model.y)
        keep = 1.0 - beta
        return (
            beta * value + keep * (q.shift - 0.5 * q.precision * predictor) * predictor,
            beta * first + keep * (q.shift - q.precision * predictor),
            beta * second - keep * q.precision,
        )
