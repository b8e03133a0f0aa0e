"""The joint density of hyperparameters and latents in coordinates that hardly depend on each other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpmcflow.models.basis_structure import BasisStructure
from gpmcflow.models.dense_structure import DenseStructure
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.kronecker_structure import KroneckerStructure
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.multi_structure import MultiStructure
from gpmcflow.models.prior_structure import FrozenSites, PriorStructure

LARGEST = 150.0  # size of a log above which squares overflow: such a point has no density


class Evaluation(NamedTuple):
    """The density at one point; -inf and zeros where a factorisation fails."""

    rest: float  #: log pi - log N(x; 0, I) - log N(z; 0, I), up to a constant
    slope_x: np.ndarray  #: its gradient by x (d,)
    slope_z: np.ndarray  #: and by z (n_z,)
    theta: np.ndarray  #: hyperparameters (d,)
    latents: np.ndarray  #: u of `PriorStructure`, f (n,); empty where they are integrated out
    log_likelihood: float  #: log p(y | u, theta), or log p(y | theta) where u is integrated out
    complete: float  #: log p(y | u, theta) + log N(u; 0, P)


def impossible(model: GPModel, n_z: int, n_latents: int) -> Evaluation:
    """Where there is no density."""
    nowhere, zero = np.full(model.dim, np.nan), np.zeros(model.dim)
    return Evaluation(-np.inf, zero, np.zeros(n_z), nowhere, np.zeros(n_latents), -np.inf, -np.inf)


def structure_of(model: GPModel | MultiGPModel, sites: FrozenSites) -> PriorStructure:
    """Buffers for the structure of a model's prior; functions that share a dense covariance are one part."""
    if isinstance(model, MultiGPModel):
        parts: list[PriorStructure] = []
        rows = [values.reshape(len(model.parts), -1) for values in sites]
        for part, functions in model.own_parts():
            w, b = (own[functions] for own in rows)
            if part.basis or part.kronecker:
                parts += [structure_of(part, FrozenSites(*own)) for own in zip(w, b, strict=True)]
            else:
                parts.append(
                    DenseStructure(part, FrozenSites(w.ravel(), b.ravel()), len(functions))
                )
        return MultiStructure(model, parts, sites)
    if model.basis:
        return BasisStructure(model, sites)
    return (KroneckerStructure if model.kronecker else DenseStructure)(model, sites)


class JointDensity:
    """log pi(x, z) of a `GPModel` and its gradient, in buffers of one chain.

    theta = theta(x) with x ~ N(0, I) a priori; the latents u ~ N(0, P) are an exact draw of their posterior
    under frozen Gaussian sites, made of z ~ N(0, I) by a `PriorStructure`, and

        log pi = log N(x) + log N(z) + log Z(theta) + sum_i [l_i(h_i) - b_i s_i + w_i s_i^2 / 2].

    log Z is the evidence of the sites: given data that sites describe well, all that is not a unit normal
    varies slowly. The density is exact for any positive site precisions.

    Raises `NumericalError` for sites that are not positive, `InputError` for a hyperprior that has no
    transform.
    """

    def __init__(self, model: GPModel, sites: FrozenSites) -> None:
        self.model, self.coordinates = model, model.parameters.normal
        self.structure = structure_of(model, sites)
        self.n_z = self.structure.n_z

    @property
    def sites(self) -> FrozenSites:
        """Frozen sites; set them to change the coordinates."""
        return self.structure.sites

    @sites.setter
    def sites(self, sites: FrozenSites) -> None:
        self.structure.sites = sites

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> Evaluation:
        """Value and gradient at x (d,), z (n_z,)."""
        model, structure = self.model, self.structure
        theta, slopes = self.coordinates.theta(x)
        full = model.full(theta)
        if not model.in_range(full, LARGEST):
            return self._nowhere()
        with np.errstate(all="ignore"):
            rest = structure.place(full, z)
            if not math.isfinite(rest):
                return self._nowhere()
            likelihood, predictor = model.likelihood_at(full), structure.predictor
            value, slope = likelihood.log_density_and_gradient(predictor, model.y)
            value = float(value)
            rest += value - structure.log_sites()
        if not math.isfinite(rest) or not np.isfinite(slope).all():
            return self._nowhere()
        complete = value + structure.log_prior()
        slope_z, by_full = structure.pull_back(slope)
        model.add_likelihood_slopes(by_full, likelihood, predictor)
        slope_x = by_full[model.free] * slopes
        return Evaluation(rest, slope_x, slope_z, theta, structure.latents.copy(), value, complete)

    def value(self, x: np.ndarray, z: np.ndarray) -> float:
        """``rest`` of `evaluate` alone, at a quarter of its flops where the covariance is dense."""
        model, structure = self.model, self.structure
        full = model.full(self.coordinates.theta(x)[0])
        if not model.in_range(full, LARGEST):
            return -np.inf
        with np.errstate(all="ignore"):
            rest = structure.place(full, z)
            if math.isfinite(rest):
                likelihood = model.likelihood_at(full)
                rest += float(likelihood.log_density(structure.predictor, model.y))
                rest -= structure.log_sites()
        return rest if math.isfinite(rest) else -np.inf

    def log_constant(self) -> float:
        """What ``rest`` leaves out: log p(y) is that plus the log mean of exp(rest) over N(0, I)."""
        return self.structure.log_constant()

    def _nowhere(self) -> Evaluation:
        return impossible(self.model, self.n_z, self.structure.n_latents)

    def augment(self, rng: np.random.Generator, x: np.ndarray, latents: np.ndarray) -> np.ndarray:
        """Draw z (n_z,) given x (d,) and latents u, exactly.

        Raises `NumericalError` where the covariance does not factorise.
        """
        theta, _ = self.coordinates.theta(x)
        return self.structure.augment(rng, self.model.full(theta), latents)
