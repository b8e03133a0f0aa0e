"""Factors of a curvature metric: among the cases, or among the coordinates, whichever are fewer."""

from __future__ import annotations

import numpy as np

from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.linear_maps import pull_back, push_forward
from gpmcflow.numerics import batched_factors as compiled
from gpmcflow.numerics.lapack import ROUTINES

NEGLIGIBLE = 1e-16  # d_i K_ii of a row that changes the metric by less than rounding


class _Space:
    """Products with U, shared by the two forms of the metric."""

    def __init__(self, model: LatentGaussianModel) -> None:
        self.model, self.triangular = model, model.design is None

    def push(self, vectors: np.ndarray) -> np.ndarray:
        """U v (chain, n)."""
        return push_forward(self.model.predictor_factor, vectors, self.triangular)

    def pull(self, values: np.ndarray) -> np.ndarray:
        """U' q (chain, d)."""
        return pull_back(self.model.predictor_factor, values, self.triangular)


class CaseFactors(_Space):
    """For n <= d: G^(-1) = I - U' D^(1/2) B^(-1) D^(1/2) U, B = I + D^(1/2) U U' D^(1/2) (n, n)."""

    def __init__(self, model: LatentGaussianModel, n_chains: int) -> None:
        super().__init__(model)
        n = model.n_cases
        self.gram = model.predictor_covariance
        self.factors = np.empty((n_chains, n, n))
        self.active = np.zeros((n_chains, n), dtype=np.int64)
        self.sizes = np.zeros(n_chains, dtype=np.int64)

    def factorise(self, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Factor B of each chain; log |B| = log |G|, (chain,)."""
        log_det = np.empty(len(root))
        compiled.factor_case_matrices(
            ROUTINES, self.gram, root, slot, NEGLIGIBLE, self.factors, self.active,
            self.sizes, log_det,
        )  # fmt: skip
        return log_det

    def trace(self, weight: np.ndarray, weight_slope: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """t_i = (d'_i / d_i) [1 - (B^(-1))_ii]: exact where d_i is tiny, as the quotient cancels."""
        inverse = np.empty_like(weight)
        compiled.case_inverse_diagonals(
            ROUTINES, slot, self.factors, self.active, self.sizes, inverse
        )
        held = weight > 1e-300
        return np.where(held, weight_slope / np.where(held, weight, 1.0), 0.0) * (1.0 - inverse)

    def divide(self, momentum: np.ndarray, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """G^(-1) p (chain, d)."""
        image = self.push(momentum)
        held = np.empty_like(image)
        compiled.solve_case_matrices(
            ROUTINES, root, slot, self.factors, self.active, self.sizes, image, held
        )
        return momentum - self.pull(held)


class CoordinateFactors(_Space):
    """For d < n: G (d, d) itself is factorised."""

    def __init__(self, model: LatentGaussianModel, n_chains: int) -> None:
        super().__init__(model)
        self.design = np.ascontiguousarray(model.predictor_factor)
        self.factors = np.empty((n_chains, model.dim, model.dim))

    def factorise(self, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Factor G of each chain; log |G|, (chain,)."""
        log_det = np.empty(len(root))
        compiled.factor_coordinate_matrices(
            ROUTINES, self.design, root, slot, self.factors, log_det
        )
        return log_det

    def trace(self, weight: np.ndarray, weight_slope: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """t_i = d'_i |L^(-1) u_i|^2."""
        variance = np.empty_like(weight)
        compiled.coordinate_variances(ROUTINES, self.design, slot, self.factors, variance)
        return weight_slope * variance

    def divide(self, momentum: np.ndarray, root: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """G^(-1) p (chain, d)."""
        out = np.array(momentum, order="C")
        compiled.solve_coordinate_matrices(ROUTINES, slot, self.factors, out)
        return out
