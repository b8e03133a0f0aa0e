"""The Gaussian prior of a model's latents as samplers over hyperparameters and latents see it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpmcflow.errors import NumericalError

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel


class FrozenSites(NamedTuple):
    """Gaussian sites exp(b_i s_i - w_i s_i^2 / 2) that stay while hyperparameters move.

    s = (f + c) / a, where a is the amplitude of the covariance, a^2 = trace(K) / n, for binary data, so that
    sites grow with it, and 1 for others, and wherever the prior is made of basis functions.
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

    def scaled(self, factor: float) -> FrozenSites:
        """Sites with the same means and ``factor`` times their precisions."""
        return FrozenSites(factor * self.precision, factor * self.shift)


class PriorStructure(ABC):
    """The prior N(u; 0, P(theta)) of latents u under frozen sites, at one place, in buffers of one chain.

    The predictor is h = H u + c, and z ~ N(0, I) gives an exact draw of u under prior times sites, whose
    evidence is Z(theta). `place` goes to a point; the other methods speak of that point. No sampler knows
    more of the covariance than this. ``full`` are all coordinates of a `GPModel`, fixed ones included.

    Attributes
    ----------
    n_z, n_latents, n_functions:
        Lengths of z and of u, and how many functions h has.
    predictor, latents:
        h (n,), or (q, n) of several functions, and u at the point.
    sites:
        The `FrozenSites`; set them to change the coordinates.
    amplitude:
        a of the sites' s = h / a, at the point.
    """

    model: GPModel
    amplitude: float = 1.0
    n_functions: int = 1
    n_z: int
    n_latents: int
    predictor: np.ndarray
    latents: np.ndarray
    _sites: FrozenSites | None = None

    @property
    def sites(self) -> FrozenSites:
        """Sites that stay while theta moves, and make the coordinates of the latents."""
        return self._sites

    @sites.setter
    def sites(self, sites: FrozenSites) -> None:
        before, self._sites = self._sites, sites.checked()
        if before is None or any(a is not b for a, b in zip(before, self._sites, strict=True)):
            self.freeze()  # once for the same arrays: of basis functions it takes n m^2 flops

    def freeze(self) -> None:  # noqa: B027 - most have nothing to do
        """Compute what depends on the sites alone."""

    @abstractmethod
    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Go to a point (``full``, z) and return log Z less `log_constant`; nan where a factor fails."""

    def log_constant(self) -> float:
        """What `place` leaves out of log Z, the same at every point."""
        return 0.0

    @abstractmethod
    def log_sites(self) -> float:
        """Sum of b_i s_i - w_i s_i^2 / 2."""

    @abstractmethod
    def log_prior(self) -> float:
        """Log N(u; 0, P)."""

    @abstractmethod
    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient of log Z + g(h) - log sites by z and by ``full``, g with gradient ``slope`` (n,) by h.

        To be called once at a point, whose factors it may use up.
        """

    def augment(
        self, rng: np.random.Generator, full: np.ndarray, latents: np.ndarray
    ) -> np.ndarray:
        """Draw z given u exactly. Raises `NumericalError` where the prior does not factorise."""
        z = rng.standard_normal(self.n_z)
        if not math.isfinite(self.place(full, z)):
            raise NumericalError(
                "joint split HMC: the covariance is not positive definite at the start; take narrower "
                f"hyperpriors, or give a larger jitter than {self.model.epsilon:g}"
            )
        return self.coordinates_of(latents, z)

    @abstractmethod
    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """z of latents u, from N(0, I) draws z at which the structure stands; these may be used up."""
