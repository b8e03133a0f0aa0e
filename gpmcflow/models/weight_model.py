"""Weights of basis functions at fixed hyperparameters as a latent Gaussian model."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.weight_posterior import WeightPosterior

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel


class WeightModel(LatentGaussianModel):
    """w ~ N(0, I), eta = Phi (s w) + c: products go by the structure of the basis.

    Phi diag(s) itself, n x m numbers, is made when something asks for it.
    """

    covariance_function: CovarianceAt

    def __init__(self, model: GPModel, full: np.ndarray) -> None:
        c = model.mean_at(full)
        own = {
            "likelihood": model.likelihood_at(full), "y": model.y, "mean": np.zeros(model.n_latents),
            "offset": c, "covariance_function": CovarianceAt(model, full), "X": model.X,
            "predictor_mean": np.full(model.n_cases, c),
        }  # fmt: skip
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def _model(self) -> GPModel:
        return self.covariance_function.model

    @cached_property
    def scales(self) -> np.ndarray:
        """s (m,)."""
        assert self._model.basis is not None
        return self._model.basis.scales(self.covariance_function.full)[0]

    @cached_property
    def cholesky(self) -> np.ndarray:  # type: ignore[override]
        """I (m, m)."""
        return np.eye(self.dim, order="F")

    @cached_property
    def design(self) -> np.ndarray:  # type: ignore[override]
        """Phi diag(s) (n, m)."""
        return self._model.basis_design.matrix() * self.scales

    @cached_property
    def predictor_factor(self) -> np.ndarray:  # type: ignore[override]
        """The design in Fortran order."""
        return np.asfortranarray(self.design)

    @cached_property
    def predictor_variance(self) -> np.ndarray:
        """Prior variance of the linear predictor (n,)."""
        design, s = self._model.basis_design, self.scales
        variance = np.empty(self.n_cases)
        for rows, own in design.scaled_rows(s):
            variance[rows] = sum(np.einsum("ij,ij->i", part, part) for part in own)
        return variance

    @property
    def direct(self) -> bool:
        """No."""
        return False

    @property
    def dim(self) -> int:
        """Number m of weights."""
        return len(self.mean)

    def predictor(self, xi: np.ndarray) -> np.ndarray:
        """Eta = Phi (s xi) + c for a batch (..., m), shape (..., n)."""
        design, rows = self._model.basis_design, (self.scales * xi).reshape(-1, self.dim)
        eta = np.array([design.multiply(row, np.empty(self.n_cases)) for row in rows])
        return eta.reshape(*np.shape(xi)[:-1], -1) + self.offset

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """S Phi' g: turns a gradient by eta (..., n) into one by xi (..., m)."""
        design, rows = self._model.basis_design, gradient.reshape(-1, self.n_cases)
        slopes = np.array([design.pull_back(row) for row in rows])
        return self.scales * slopes.reshape(*gradient.shape[:-1], -1)

    def posterior(self, precision: np.ndarray, shift: np.ndarray) -> WeightPosterior:
        """Weights under sites of the linear predictor (n,) each."""
        design = self._model.basis_design
        r = design.pull_back(shift - self.offset * precision)
        return WeightPosterior(design.gram(precision), r, self.scales)

    def variances(self, posterior: WeightPosterior) -> np.ndarray:
        """Variances of the linear predictor under a posterior of the weights (n,)."""
        return posterior.variances(self._model.basis_design)
