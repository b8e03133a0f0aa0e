"""Multinomial logistic regression: one coefficient vector a class, in the coordinates of a Gaussian.

Its likelihood couples the K predictors of a case, so it is no `LatentGaussianModel`; what is here
offers samplers the same interface as `Target` and `GaussianSites`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import blas

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.axis_coordinates import AxisCoordinates, check_order
from gpmcflow.models.case_part import BLOCK_ELEMENTS
from gpmcflow.models.linear_maps import pull_back


@dataclass(frozen=True)
class Categorical:
    """p(y = k | eta) = exp(eta_k) / sum_l exp(eta_l), all K classes with a predictor of their own."""

    n_classes: int
    name = "multinomial"


@dataclass(frozen=True, eq=False)
class MultinomialLogit:
    """y_i ~ softmax(x_i' Theta), Theta (d, K), every entry ~ N(0, prior_sd^2) independently.

    Parameters theta (K d,) are class after class: theta[k d + j] = Theta[j, k]. All K columns are
    kept, so the likelihood does not change along Theta + c 1'. ``design`` (n, d) has the
    intercept's column; ``y`` (n,) holds codes 0..K-1. Source: Shahbaba, Lan, Johnson & Neal (2014),
    section 5.
    """

    design: np.ndarray
    y: np.ndarray
    prior_sd: float = 5.0

    def __post_init__(self) -> None:
        codes = np.unique(self.y)
        if len(codes) < 2 or not np.array_equal(codes, np.arange(len(codes))):
            shown = ", ".join(f"{v:g}" for v in codes[:8])
            raise InputError(
                f"multinomial logit: classes {shown}; allowed: codes 0, 1, .., K - 1, all present, "
                "K >= 2; recode them"
            )
        if not (np.isfinite(self.prior_sd) and self.prior_sd > 0):
            raise InputError(
                f"multinomial logit: prior_sd is {self.prior_sd!r}; allowed: a positive number"
            )
        if not np.all(np.isfinite(self.design)) or len(self.design) != len(self.y):
            raise InputError("multinomial logit: the design needs one row of finite numbers a case")
        object.__setattr__(self, "design", np.ascontiguousarray(self.design, dtype=np.float64))

    @property
    def n_classes(self) -> int:
        """Number K of classes."""
        return int(self.y.max()) + 1

    @property
    def likelihood(self) -> Categorical:
        """The factor of one case."""
        return Categorical(self.n_classes)

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

    @property
    def dim(self) -> int:
        """Number K d of parameters."""
        return self.n_classes * self.design.shape[1]

    def digest(self) -> str:
        """SHA-256 of data and prior."""
        return text_digest(array_digest({"X": self.design, "y": self.y}), repr(self.prior_sd))

    def take(self, cases: np.ndarray) -> CaseSubset:
        """Log likelihood of some cases, by index."""
        return CaseSubset(self.design[cases], self.y[cases].astype(np.intp), self.n_classes)

    @cached_property
    def cases(self) -> CaseSubset:
        """Log likelihood of all cases."""
        return self.take(np.arange(self.n_cases))

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian of U = -log likelihood + |theta|^2 / (2 prior_sd^2) at theta (K d,), (K d, K d).

        Block (k, l) is X' diag(P_k (delta_kl - P_l)) X + delta_kl I / prior_sd^2.
        """
        X, K, d = self.design, self.n_classes, self.design.shape[1]
        P = self.probabilities(theta)
        out = np.empty((K, d, K, d))
        for k in range(K):
            for j in range(k + 1):
                weight = P[k] * ((k == j) - P[j])
                out[k, :, j, :] = X.T @ (weight[:, None] * X)
                out[j, :, k, :] = out[k, :, j, :].T
        out = out.reshape(K * d, K * d)
        out.flat[:: K * d + 1] += self.prior_sd**-2.0
        return out

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        """P (K, n) at theta (K d,)."""
        eta = theta.reshape(self.n_classes, -1) @ self.design.T
        weight = np.exp(eta - eta.max(0))
        return weight / weight.sum(0)


@dataclass(frozen=True, eq=False)
class CaseSubset:
    """Log likelihood of some cases as a function of theta (chain, K d), row block by row block."""

    design: np.ndarray
    y: np.ndarray
    n_classes: int

    @property
    def n_cases(self) -> int:
        """Number m of cases."""
        return len(self.y)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient by theta (chain, K d)."""
        return self._run(theta, None)[1]

    def evaluate(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictor (chain, K, m), log likelihood (chain,), gradient (chain, K d)."""
        predictor = np.empty((len(theta), self.n_classes, self.n_cases))
        return predictor, *self._run(theta, predictor)

    def _run(
        self, theta: np.ndarray, predictor: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log likelihood and gradient; fills the predictor where one is given."""
        n_chains, K = len(theta), self.n_classes
        vectors = theta.reshape(n_chains * K, -1)
        value, total = np.zeros(n_chains), np.zeros(vectors.shape).T
        size = max(64, BLOCK_ELEMENTS // (n_chains * K))
        for start in range(0, self.n_cases, size):
            rows = slice(start, start + size)
            X, y = self.design[rows].T, self.y[rows]
            eta = blas.dgemm(1.0, X, vectors.T, trans_a=1).T.reshape(n_chains, K, -1)
            held = eta[:, y, np.arange(len(y))]
            top = eta.max(1, keepdims=True)
            weight = np.exp(eta - top)
            norm = weight.sum(1, keepdims=True)
            if predictor is not None:
                predictor[:, :, rows] = eta
                value += (held - top[:, 0] - np.log(norm[:, 0])).sum(1)
            slope = weight
            slope /= -norm
            slope[:, y, np.arange(len(y))] += 1.0
            rest = slope.reshape(n_chains * K, -1)
            total = blas.dgemm(1.0, X, rest.T, beta=1.0, c=total, overwrite_c=1)
        return value, total.T.reshape(n_chains, -1)


@dataclass(frozen=True, eq=False)
class DenseGaussian(AxisCoordinates):
    """N(mean, J^{-1}) over the parameters of a multinomial logit, in its principal axes.

    theta = mean + V diag(1 / omega) zeta with J = V diag(omega^2) V'. ``split`` is (fraction, order)
    where the cases are in two parts: the first has the largest curvature traces 1 - sum_k P_ik^2 at
    the mean, which for two classes is the order of the binary split.
    """

    model: MultinomialLogit
    mean: np.ndarray
    precision: np.ndarray
    split: tuple[float, str] | None = None

    @cached_property
    def _decomposition(self) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(self.precision)

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Omega (K d,), ascending."""
        return np.sqrt(self._decomposition[0])

    @property
    def axes(self) -> np.ndarray:
        """V, one axis a column."""
        return self._decomposition[1]

    def digest(self) -> str:
        """SHA-256 of the model, the Gaussian and the split."""
        numbers = array_digest({"mean": self.mean, "precision": self.precision})
        return text_digest(self.model.digest(), numbers, repr(self.split))

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Gradient by zeta of a function with this gradient by theta."""
        return pull_back(self.factor, gradient, triangular=False)

    def split_cases(self, fraction: float, order: str = "curvature") -> DenseGaussian:
        """Return the same Gaussian with the cases split in two parts."""
        check_order(order)
        return self if self.split == (fraction, order) else replace(self, split=(fraction, order))

    def _curvature(self) -> np.ndarray:
        return 1.0 - (self.model.probabilities(self.mean) ** 2).sum(0)

    @cached_property
    def parts(self) -> tuple[CoordinatePart, CoordinatePart]:
        """Log likelihood of the two parts as functions of the coordinates."""
        return tuple(CoordinatePart(self, self.model.take(cases)) for cases in self.case_indices)


@dataclass(frozen=True, eq=False)
class CoordinatePart:
    """Log likelihood of some cases by the coordinates of a Gaussian; as `CasePart`, without sites."""

    base: DenseGaussian
    cases: CaseSubset

    @property
    def n_cases(self) -> int:
        """Number m of cases."""
        return self.cases.n_cases

    def gradient(self, zeta: np.ndarray) -> np.ndarray:
        """Gradient by zeta (chain, K d)."""
        return self.base.pull_back(self.cases.gradient(self.base.latent(zeta)))

    def evaluate(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predictor (chain, K, m), log likelihood, the same again, gradient (chain, K d)."""
        predictor, value, gradient = self.cases.evaluate(self.base.latent(zeta))
        return predictor, value, value, self.base.pull_back(gradient)


@dataclass(frozen=True, eq=False)
class MultinomialTarget:
    """Log density -|zeta|^2 / 2 + beta r, r = log likelihood - |theta|^2 / (2 s^2) + |zeta|^2 / 2.

    The posterior at beta = 1, the Gaussian of ``base`` at beta = 0. Samplers use it as a `Target`.
    """

    base: DenseGaussian
    beta: float = 1.0

    @property
    def model(self) -> MultinomialLogit:
        """The multinomial logit."""
        return self.base.model

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.model.dim

    def beta_column(self) -> float:
        """Inverse temperature, one for all chains."""
        return self.beta

    def digest(self) -> str:
        """SHA-256 of all its numbers."""
        return text_digest(self.base.digest(), repr(float(self.beta)))

    def in_coordinates(self, base: DenseGaussian) -> MultinomialTarget:
        """Return the same density in other coordinates of the same Gaussian."""
        return self if base is self.base else replace(self, base=base)

    def residual_gradient(self, zeta: np.ndarray) -> np.ndarray:
        """Gradient of r by zeta (chain, dim)."""
        theta = self.base.latent(zeta)
        rest = self.model.cases.gradient(theta) - theta / self.model.prior_sd**2
        return self.base.pull_back(rest) + zeta

    def evaluate(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predictor (chain, K, n), log likelihood (chain,), r (chain,), gradient of r."""
        theta = self.base.latent(zeta)
        predictor, value, gradient = self.model.cases.evaluate(theta)
        rest = self.base.pull_back(gradient - theta / self.model.prior_sd**2) + zeta
        return predictor, value, self.residual(zeta, predictor, value), rest

    def value(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictor, log likelihood and r."""
        return self.evaluate(zeta)[:3]

    def residual(
        self, zeta: np.ndarray, predictor: np.ndarray, log_likelihood: np.ndarray
    ) -> np.ndarray:
        """r (chain,) of positions whose log likelihood is known."""
        theta = self.base.latent(zeta)
        prior = np.einsum("ij,ij->i", theta, theta) / self.model.prior_sd**2
        return log_likelihood - 0.5 * prior + 0.5 * np.einsum("ij,ij->i", zeta, zeta)

    def sites_gradient(self, zeta: np.ndarray) -> np.ndarray:
        """Gradient by zeta of |theta|^2 / (2 s^2) - |zeta|^2 / 2 with the sign of `residual`."""
        return self.base.pull_back(self.base.latent(zeta)) / self.model.prior_sd**2 - zeta
