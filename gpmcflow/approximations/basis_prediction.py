"""Predictors at new inputs of a model with basis functions: products with them, no solve of n equations."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.approximations.conditional import Conditional
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel

log = logging.getLogger(__name__)


class NewDesigns:
    """Basis functions at the new inputs that the draws of a model share, each made once.

    Says so where there are inputs outside a box.
    """

    def __init__(self, model: GPModel) -> None:
        self.model = model
        self._known: list[tuple[np.ndarray, BasisDesign]] = []

    def of(self, X_new: np.ndarray) -> BasisDesign:
        """Those at coded inputs (m, p), an array that is not changed."""
        for X, design in self._known:
            if X is X_new:
                return design
        design = BasisDesign(self.model.basis, X_new)
        self._known.append((X_new, design))
        outside = np.zeros(len(X_new), dtype=bool)
        for block in self.model.basis.eigen:
            outside |= block.outside(X_new)
        if outside.any():
            log.warning(
                "predict: %d of %d new inputs lie outside the box of the basis functions, where the prior is "
                "predicted; sample with a larger boundary to predict there", outside.sum(), len(X_new),
            )  # fmt: skip
        return design


@dataclass(frozen=True, eq=False)
class BasisPredictor:
    """eta(x) = sum_j s_j phi_j(x) w_j + c at one setting of the hyperparameters; as `Predictor`.

    Attributes
    ----------
    designs, full, likelihood:
        Basis functions at new inputs, all coordinates, and the likelihood.
    coefficients:
        Weights w, or their means (draw, m).
    root:
        R of their covariance R R' (m, m), or None where they are known.
    """

    designs: NewDesigns
    full: np.ndarray
    likelihood: Likelihood
    coefficients: np.ndarray
    root: np.ndarray | None = None
    scales: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", self.model.basis.scales(self.full)[0])

    @property
    def model(self) -> GPModel:
        """Model whose process is predicted."""
        return self.designs.model

    def moments(self, X_new: np.ndarray) -> Conditional:
        """Means and variances at each of the coded inputs (m, p)."""
        design = self.designs.of(X_new)
        variance = design.unknown_variance(self.full)
        if self.root is not None:
            for rows, functions in design.rows():
                spread = (functions * self.scales) @ self.root
                variance[rows] += np.einsum("ij,ij->i", spread, spread)
        mean = self._means(design)
        return Conditional(mean, np.broadcast_to(variance, mean.shape), [self.likelihood])

    def joint(
        self, X_new: np.ndarray, average: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (draw, m) and covariance (m, m) at coded inputs (m, p), or of averages of them.

        As `Predictor.joint`; what no weight tells counts as independent between inputs.
        """
        design = self.designs.of(X_new)
        mean, own = self._means(design), design.unknown_variance(self.full)
        if average is None:
            covariance = np.diag(own)
        else:
            mean, covariance = mean @ average.T, (average * own) @ average.T
        if self.root is not None:
            spread = np.zeros((len(covariance), self.root.shape[1]))
            for rows, functions in design.rows():
                block = (functions * self.scales) @ self.root
                if average is None:
                    spread[rows] = block
                else:
                    spread += average[:, rows] @ block
            covariance += spread @ spread.T
        return mean, covariance

    def _means(self, design: BasisDesign) -> np.ndarray:
        means = np.empty((len(self.coefficients), design.n))
        for w, out in zip(self.coefficients, means, strict=True):
            design.multiply(self.scales * w, out)
        means += self.model.mean_at(self.full)
        return means


def basis_predictor(
    designs: NewDesigns,
    full: np.ndarray,
    weights: np.ndarray | None = None,
    sites: GaussianSites | None = None,
    regression: CollapsedBasisDensity | None = None,
) -> BasisPredictor:
    """The predictor given draws of weights (draw, m), their Gaussian of sites, or real data."""
    likelihood = designs.model.likelihood_at(full)
    if weights is not None:
        return BasisPredictor(designs, full, likelihood, weights)
    if sites is not None:
        mean, unit = sites.whitened_mean, np.eye(len(sites.whitened_mean))
        root = solve_triangular(sites.whitened_factor, unit).T if np.any(sites.precision) else unit
    else:
        posterior = regression.posterior(full)
        mean, root = posterior.mean, posterior.covariance_root()
    return BasisPredictor(designs, full, likelihood, mean[None], root)
