"""Latents f ~ N(0, K_1 x K_2) on a grid, sites of rank-one precision: O(n^1.5) a gradient."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.errors import NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites, PriorStructure
from gpmcflow.numerics.lapack import lower_inverse

RANK_ONE = 1e-8  # relative error of r_1 x r_2 that is taken for rounding
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def rank_one(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """r_1 and r_2 of r_1 r_2': row means, and column means over the mean; exact for a matrix of rank one."""
    return matrix.mean(1), matrix.mean(0) / matrix.mean()


class SiteSpectrum:
    """B = I + omega K omega of sites omega = omega_1 x omega_2 by the eigenvectors of its axes.

    omega_a K_a omega_a = U_a Lambda_a U_a', so that B has the eigenvectors U_1 x U_2 and the eigenvalues
    ``values`` (n_1, n_2), 1 + Lambda_1i Lambda_2j. Raises `LinAlgError` where an axis is not finite.
    """

    def __init__(self, K: list[np.ndarray], omega: list[np.ndarray]) -> None:
        pairs = [np.linalg.eigh(w[:, None] * k * w) for k, w in zip(K, omega, strict=True)]
        self.axes = [np.maximum(values, 0.0) for values, _ in pairs]  # below zero by rounding
        self.vectors = [vectors for _, vectors in pairs]
        self.values = 1.0 + np.outer(*self.axes)

    def solve(self, X: np.ndarray) -> np.ndarray:
        """B^-1 x of matrices X (..., n_1, n_2)."""
        first, second = self.vectors
        return first @ ((first.T @ X @ second) / self.values) @ second.T

    def log_det(self) -> float:
        """log |B|."""
        return float(np.log(self.values).sum())

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """d log |B| by the eigenvalues of each axis: no derivative of an eigenvector occurs."""
        first, second = self.axes
        return (1.0 / self.values) @ second, first @ (1.0 / self.values)

    def variance(self) -> np.ndarray:
        """diag(I - B^-1) as (n_1, n_2): sums of squares, so without cancellation."""
        first, second = self.vectors
        return first**2 @ (1.0 - 1.0 / self.values) @ (second**2).T


class KroneckerStructure(PriorStructure):
    """u = f (n,), z = (z_1, z_2) (2n,): pathwise conditioning as in `DenseStructure`, by axis matrices.

    With vectors as matrices (n_1, n_2) row by row, K v is K_1 V K_2 and L v is L_1 V L_2'. The sites'
    precision has to be r_1 x r_2, so that B has the eigenvectors of two small matrices; their shift is free,
    and carries the mean. The amplitude a of relative sites has a^2 = trace K_1 trace K_2 / n.

    Where the cases are not the cells in their order, n is the number of cells, and the predictor of a case is
    that of its cell. A cell without a case has a site and no likelihood: the joint density takes the site off
    again, which is exact.

    Raises `NumericalError` for precisions that are not of rank one.
    """

    def __init__(self, model: GPModel, sites: FrozenSites) -> None:
        self.model, n = model, model.n_latents
        self.n_z, self.n_latents, self._cells = 2 * n, n, model.cells
        self._covariance = model.covariance_buffers()
        self.shape = self._covariance.shape
        self.sites = sites

    def freeze(self) -> None:
        """r_1 and r_2 of the precision."""
        w = self.sites.precision.reshape(self.shape)
        axes = rank_one(w)
        self._w, self._b = np.outer(*axes), self.sites.shift.reshape(self.shape)
        error = np.abs(self._w / w - 1.0)
        if not error.max() <= RANK_ONE:
            k = int(error.argmax())
            raise NumericalError(
                f"joint split HMC: precisions of sites on a grid are r_1 x r_2; that of site {k} is "
                f"{w.flat[k]:g}, r_1 x r_2 has {self._w.flat[k]:g}; take sites of rank_one_sites"
            )
        self._roots = [np.sqrt(axis) for axis in axes]

    def place(self, full: np.ndarray, z: np.ndarray) -> float:
        """Factors of the axes and of B, and an exact draw f."""
        model, n, first = self.model, self.n_latents, self._roots[0]
        self._full, self._c = full, model.mean_at(full)
        self._K = self._covariance.fill_axes(full)
        self._traces = [float(K.trace()) for K in self._K]
        self.amplitude = (
            math.sqrt(math.prod(self._traces) / n) if model.likelihood.relative_sites else 1.0
        )
        self._omegas = [first / self.amplitude, self._roots[1]]
        try:
            self._L = [np.linalg.cholesky(K) for K in self._K]
            self._B = SiteSpectrum(self._K, self._omegas)
        except np.linalg.LinAlgError:
            return np.nan
        (L1, L2), omega = self._L, np.outer(*self._omegas)
        self._omega, self._z1 = omega, z[:n].reshape(self.shape)
        gamma = self.amplitude * self._b / self._w - self._c
        pseudo = omega * gamma
        prior = omega * (L1 @ self._z1 @ L2.T)
        pair = np.stack([pseudo - prior - z[n:].reshape(self.shape), pseudo])
        self._a, self._alpha = omega * self._B.solve(pair)
        self._whitened = self._z1 + L1.T @ self._a @ L2
        self.latents = (L1 @ self._whitened @ L2.T).ravel()
        self.predictor = model.at_cases(self.latents) + self._c
        return -0.5 * float(np.vdot(gamma, self._alpha)) - 0.5 * self._B.log_det()

    def log_constant(self) -> float:
        """Sum of b_i^2 / 2 w_i."""
        w, b = self.sites
        return 0.5 * float(b @ (b / w))

    def log_sites(self) -> float:
        """Sum of b_i s_i - w_i s_i^2 / 2."""
        s = (self.latents + self._c) / self.amplitude
        return float(s @ (self._b - 0.5 * self._w * s.reshape(self.shape)).ravel())

    def log_prior(self) -> float:
        """Log N(f; 0, K)."""
        logs = [float(np.log(np.diagonal(L)).sum()) for L in self._L]
        log_det = self.shape[1] * logs[0] + self.shape[0] * logs[1]
        squares = float(np.vdot(self._whitened, self._whitened))
        return -0.5 * squares - log_det - self.n_latents * _HALF_LOG_2PI

    def pull_back(self, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By z = (z_1, z_2), and by the covariance's parameters and the mean."""
        (K1, K2), (L1, L2), model, full = self._K, self._L, self.model, self._full
        h, by_cell = (self.latents + self._c).reshape(self.shape), self._by_cell(slope)
        rho = by_cell + (self._w * h / self.amplitude - self._b) / self.amplitude
        by_z2 = -self._B.solve(self._omega * (K1 @ rho @ K2))
        v_bar = rho + self._omega * by_z2
        by_z1 = L1.T @ v_bar @ L2
        by_mean = float(self._alpha.sum() + v_bar.sum())
        axes = self._adjoints(v_bar, by_z1)
        if model.likelihood.relative_sites:
            # f, c and a scaled alike change the likelihood alone, which gives the derivative by log a
            by_amplitude = float(slope @ self.predictor) - self._c * by_mean
            by_amplitude -= 2.0 * float(np.vdot(axes[0], K1))
            for S, trace in zip(axes, self._traces, strict=True):
                S.flat[:: len(S) + 1] += 0.5 * by_amplitude / trace
        by_full = self._covariance.adjoint_of_axes(full, axes)
        model.add_mean_slope(by_full, by_mean)
        return np.concatenate([by_z1.ravel(), by_z2.ravel()]), by_full

    def _by_cell(self, slope: np.ndarray) -> np.ndarray:
        """Slopes (n,) of the cases as those of the cells; a cell without a case has no likelihood."""
        if self._cells is None:
            return slope.reshape(self.shape)
        return np.bincount(self._cells, slope, self.n_latents).reshape(self.shape)

    def _adjoints(self, v_bar: np.ndarray, by_z1: np.ndarray) -> list[np.ndarray]:
        """S_a, derivatives by K_1 and K_2 at fixed amplitude.

        Of alpha'K alpha / 2 + v-bar'K a, of -log |B| / 2, and of v-bar'L z_1.
        """
        (K1, K2), alpha, a = self._K, self._alpha, self._a
        half = 0.5 * alpha
        first = half @ (alpha @ K2).T + v_bar @ (a @ K2).T
        second = half.T @ (K1 @ alpha) + v_bar.T @ (K1 @ a)
        products = by_z1 @ self._z1.T, by_z1.T @ self._z1
        adjoints = []
        for S, product, L, of_log_det in zip(
            (first, second), products, self._L, self._log_det_adjoints(), strict=True
        ):
            S = S + cholesky_adjoint(L, product) - 0.5 * of_log_det
            adjoints.append(0.5 * (S + S.T))
        return adjoints

    def _log_det_adjoints(self) -> list[np.ndarray]:
        """Derivatives of log |B| by K_1 and K_2."""
        B, adjoints = self._B, []
        for omega, U, slopes in zip(self._omegas, B.vectors, B.slopes(), strict=True):
            columns = omega[:, None] * U
            adjoints.append((columns * slopes) @ columns.T)
        return adjoints

    def coordinates_of(self, latents: np.ndarray, z: np.ndarray) -> np.ndarray:
        """With latents f_0 of z: z_1 + L^-1 (f - f_0), z_2 - omega (f - f_0)."""
        n, gap = self.n_latents, (latents - self.latents).reshape(self.shape)
        inverses = [lower_inverse(L) for L in self._L]
        z[:n] += (inverses[0] @ gap @ inverses[1].T).ravel()
        z[n:] -= (self._omega * gap).ravel()
        return z


def cholesky_adjoint(L: np.ndarray, product: np.ndarray) -> np.ndarray:
    """L^-T Phi(L'L-bar) L^-1 of ``product`` = L'L-bar, whose symmetric part is the derivative by K = L L'.

    Phi is the lower triangle with half its diagonal.
    """
    lower = np.tril(product)
    lower.flat[:: len(lower) + 1] *= 0.5
    inverse = lower_inverse(L)
    return inverse.T @ lower @ inverse
