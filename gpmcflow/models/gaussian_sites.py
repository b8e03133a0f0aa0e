"""Gaussians of the form prior times Gaussian sites: EP, Laplace, references, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack, qr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.axis_coordinates import AxisCoordinates, check_order
from gpmcflow.models.case_part import CasePart
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.linear_maps import pull_back, push_forward, solve
from gpmcflow.models.weight_model import WeightModel
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.numerics.lapack import lower_inverse

# of tau_i times the prior variance: above it, products of the factor lose the rest
LARGEST_GRADE = 1e8
WEAKEST, STRONGEST = 1e-5, 1e4  # tau_i K_ii between which a site is as good as an observation
LEAST_SHARE = 1e-4  # 1 - tau_i Var eta_i: below it, the difference has lost four digits


@dataclass(frozen=True, eq=False)
class GaussianSites:
    """A Gaussian that is a prior times Gaussian sites: what EP, Laplace, references and metrics share.

    q(theta) is proportional to N(theta; mean_0, P) exp(sum_i nu_i eta_i - tau_i eta_i^2 / 2). Its precision
    is P^{-1} + A' diag(tau) A: the one form that the prior (tau = nu = 0), an EP or Laplace fit, and the
    metric of a sampler have in common.

    With U the whitened predictor factor of the model, G = I + U' diag(tau) U is the precision of xi; G = W W'
    with W upper triangular (a Cholesky factorisation from the last row up), so that L W^{-T}, the factor of
    the covariance of theta, is again lower triangular and maps a batch at half the flops of a full matrix.

    Attributes
    ----------
    model:
        The `LatentGaussianModel`, whose prior it is.
    precision:
        tau >= 0 (n,), in units of 1 / eta^2.
    shift:
        nu (n,), in units of 1 / eta.

    Raises
    ------
    InputError:
        For shapes other than (n,), and a precision that is negative or not finite.
    NumericalError:
        Where G does not factorise, when it is first needed.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.LatentGaussianModel.from_covariance(np.eye(2), gp.Probit(), np.array([1.0, -1.0]))
    >>> sites = gp.GaussianSites(model, precision=np.ones(2), shift=np.array([1.0, -1.0]))
    >>> sites.mean, sites.predictor_variance.round(4)
    (array([ 0.5, -0.5]), array([0.5, 0.5]))
    """

    model: LatentGaussianModel
    precision: np.ndarray
    shift: np.ndarray

    def __post_init__(self) -> None:
        tau = np.asarray(self.precision, dtype=np.float64)
        if tau.shape != (self.model.n_cases,) or np.shape(self.shift) != tau.shape:
            raise InputError(
                "Gaussian sites: one precision and one shift per case are needed; a Gaussian with "
                "another precision matrix than prior plus diagonal is not supported as reference"
            )
        if not (np.all(tau >= 0.0) and np.all(np.isfinite(tau + self.shift))):
            raise InputError("Gaussian sites: precisions must be finite and not negative")

    @classmethod
    def prior(cls, model: LatentGaussianModel) -> GaussianSites:
        """Return the prior itself: all sites are 1."""
        zero = np.zeros(model.n_cases)
        return cls(model, zero, zero)

    def digest(self) -> str:
        """SHA-256 of the model and the sites."""
        arrays = {"precision": self.precision, "shift": self.shift}
        return text_digest(self.model.digest(), array_digest(arrays))

    def same_gaussian(self, other: GaussianSites) -> bool:
        """Whether another object is the same Gaussian, perhaps in other coordinates."""
        return self.model is other.model and all(
            mine is theirs or np.array_equal(mine, theirs)
            for mine, theirs in ((self.precision, other.precision), (self.shift, other.shift))
        )

    @cached_property
    def is_prior(self) -> bool:
        """Whether all sites are 1."""
        return not (np.any(self.precision) or np.any(self.shift))

    @cached_property
    def weight_posterior(self) -> WeightPosterior | None:
        """The same of weights of basis functions, by blocks of levels, for moments without a matrix (n, d).

        None for other latents, and where sites are too precise for products of the design with itself.
        """
        if not isinstance(self.model, WeightModel):
            return None
        if (self.precision * self.model.predictor_variance).max() > LARGEST_GRADE:
            return None
        posterior = self.model.posterior(self.precision, self.shift)
        if not np.isfinite(posterior.log_det):
            raise NumericalError("Gaussian sites: I + U' diag(tau) U is not positive definite")
        return posterior

    @cached_property
    def whitened_factor(self) -> np.ndarray:
        """W, upper triangular, with W W' = I + U' diag(tau) U (d, d)."""
        if not np.any(self.precision):
            return np.eye(self.model.dim, order="F")
        scaled = self.model.predictor_factor * np.sqrt(self.precision)[:, None]
        sizes = np.einsum("ij,ij->i", scaled, scaled)
        if sizes.max() > LARGEST_GRADE:
            return _graded_factor(scaled[np.argsort(-sizes)])
        gram = blas.dsyrk(1.0, scaled, trans=1, lower=0)
        gram.flat[:: len(gram) + 1] += 1.0
        # reversed rows and columns turn upper storage into lower and W into an ordinary factor
        reversed_gram = np.asfortranarray(gram[::-1, ::-1])
        factor, info = lapack.dpotrf(reversed_gram, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NumericalError("Gaussian sites: I + U' diag(tau) U is not positive definite")
        return np.asfortranarray(factor[::-1, ::-1])

    @cached_property
    def log_det(self) -> float:
        """Log |I + U' diag(tau) U|, also log |prior covariance| - log |covariance of q|."""
        if self.weight_posterior:
            return 2.0 * self.weight_posterior.log_det
        return 2.0 * float(np.log(np.diag(self.whitened_factor)).sum())

    @cached_property
    def whitened_mean(self) -> np.ndarray:
        """Mean of xi: G^{-1} U' (nu - tau A mean_0), shape (d,), which is U' times the `residual`."""
        if (
            self._precise
        ):  # in the sum of the first form, precise sites leave no digits to the others
            return self.model.pull_back(self.residual[None])[0]
        if self.weight_posterior:
            return self.weight_posterior.mean
        W = self.whitened_factor
        return blas.dtrsv(W, blas.dtrsv(W, self._linear_term, lower=0), lower=0, trans=1)

    @cached_property
    def _linear_term(self) -> np.ndarray:
        model = self.model
        return model.pull_back((self.shift - self.precision * model.predictor_mean)[None])[0]

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of theta (d,)."""
        return self.model.latent(self.whitened_mean[None])[0]

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower triangular C with C C' the covariance of theta (d, d)."""
        return self._divide(self.model.cholesky)

    @cached_property
    def predictor_mean(self) -> np.ndarray:
        """Mean of eta (n,)."""
        return self.model.predictor(self.whitened_mean[None])[0]

    @cached_property
    def predictor_factor(self) -> np.ndarray:
        """F = A C with F F' the covariance of eta (n, d); C itself when A = I."""
        return self.factor if self.model.direct else self._divide(self.model.predictor_factor)

    @property
    def triangular(self) -> bool:
        """Whether `predictor_factor` is lower triangular."""
        return self.model.direct

    def _divide(self, matrix: np.ndarray) -> np.ndarray:
        """Matrix W^{-T}, itself under sites that are 1."""
        if not np.any(self.precision):
            return matrix
        return blas.dtrsm(1.0, self.whitened_factor, matrix, side=1, lower=0, trans_a=1)

    @cached_property
    def predictor_variance(self) -> np.ndarray:
        """Variances of eta (n,): sums of squares, so without cancellation."""
        if isinstance(self.model, WeightModel) and self.weight_posterior:
            return self.model.variances(self.weight_posterior)
        F = self.predictor_factor
        return np.einsum("ij,ij->i", F, F)

    @cached_property
    def _precise(self) -> bool:
        """Whether a site is so precise that differences of large numbers hide what the others say of it.

        With more cases than latent variables no case is known from its own site alone. The share of a case is
        at least 1 / (1 + tau_i K_ii), which costs far less than the share itself.
        """
        if self.model.n_cases > self.model.dim:
            return False
        if (self.precision * self.model.predictor_variance).max() < 1.0 / LEAST_SHARE - 1.0:
            return False
        share = 1.0 - self.precision * self.predictor_variance
        return bool(np.any(share < LEAST_SHARE))

    @cached_property
    def _case_factor(self) -> np.ndarray:
        """Lower factor of B = I + S K S, S = diag(tau)^(1/2), K the prior covariance of eta (n, n)."""
        root = np.sqrt(self.precision)
        B = root[:, None] * self.model.predictor_covariance * root
        B.flat[:: len(B) + 1] += 1.0
        factor, info = lapack.dpotrf(B, lower=1, clean=1)
        if info != 0:
            raise NumericalError("Gaussian sites: I + S K S is not positive definite")
        return factor

    @cached_property
    def as_observations(self) -> tuple[np.ndarray, np.ndarray] | None:
        """L (n, n) with L L' = K + diag(1 / tau), and L^-1 (nu / tau - mean_0) (n,).

        Under observations nu_i / tau_i of variance 1 / tau_i the posterior is the same; L = S^-1 times the
        factor of B. None where a site is so weak or so strong that this loses digits, or A is not I.
        """
        strength = self.precision * self.model.predictor_variance
        if not self.model.direct or not np.all((strength > WEAKEST) & (strength < STRONGEST)):
            return None
        root = np.sqrt(self.precision)
        h = self.shift - self.precision * self.model.predictor_mean
        coefficients = blas.dtrsv(self._case_factor, h / root, lower=1)
        return np.asfortranarray(self._case_factor / root[:, None]), coefficients

    @cached_property
    def cavity_share(self) -> np.ndarray:
        """1 - tau_i Var eta_i (n,): variance of each predictor over that without its own site.

        It is the diagonal of B^-1, which has no cancellation.
        """
        if not self._precise:
            return 1.0 - self.precision * self.predictor_variance
        inverse = lower_inverse(self._case_factor)
        return np.einsum("ij,ij->j", inverse, inverse)

    @cached_property
    def residual(self) -> np.ndarray:
        """nu_i - tau_i E eta_i (n,), slopes of the log sites at the mean: eta - prior mean = K residual.

        With precise sites it solves (I + diag(tau) K) b = h, h that at the prior mean: b = w + S c with
        B c = S^-1 (h - w) - S K w, w what h has at weak sites.
        """
        tau = self.precision
        if not self._precise:
            return self.shift - tau * self.predictor_mean
        K, root = self.model.predictor_covariance, np.sqrt(tau)
        h = self.shift - tau * self.model.predictor_mean
        strong = tau * np.diag(K) > 1.0
        weak = np.where(strong, 0.0, h)
        right = np.divide(h, root, out=np.zeros_like(h), where=strong) - root * (K @ weak)
        solved, _ = lapack.dpotrs(self._case_factor, right, lower=1)
        return weak + root * solved

    def squared_length(self, xi: np.ndarray) -> float:
        """|W' xi|^2 of whitened coordinates (d,)."""
        if self.weight_posterior:
            return float(np.square(self.weight_posterior.pull_back(xi)).sum())
        return float(np.square(xi @ self.whitened_factor).sum())

    @cached_property
    def log_peak(self) -> float:
        """Log of the integral of prior times sites, over the sites' value at the mean.

        That is log prior - log q at the mean.
        """
        return -0.5 * float(self.whitened_mean @ self.whitened_mean) - 0.5 * self.log_det

    def predictor(self, zeta: np.ndarray) -> np.ndarray:
        """Eta of standardised coordinates zeta (..., d), shape (..., n); zeta ~ N(0, I) under q."""
        return push_forward(self.predictor_factor, zeta, self.triangular) + self.predictor_mean

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """F' g: gradient by zeta (..., d) of a function with gradient g by eta (..., n)."""
        return pull_back(self.predictor_factor, gradient, self.triangular)

    def latent(self, zeta: np.ndarray) -> np.ndarray:
        """Theta of standardised coordinates zeta (..., d)."""
        return push_forward(self.factor, zeta, triangular=True) + self.mean

    def from_latent(self, theta: np.ndarray) -> np.ndarray:
        """Standardised coordinates zeta of latents theta (..., d)."""
        return solve(self.factor, theta - self.mean)

    def to_whitened(self, zeta: np.ndarray) -> np.ndarray:
        """Xi = mean + W^{-T} zeta: from these coordinates to the prior's."""
        W = self.whitened_factor
        rows = np.array(zeta, dtype=np.float64, order="C")
        out = blas.dtrsm(1.0, W, rows.T, lower=0, trans_a=1, overwrite_b=1).T
        return out + self.whitened_mean

    def from_whitened(self, xi: np.ndarray) -> np.ndarray:
        """Zeta = W' (xi - mean): from the prior's coordinates to these."""
        rows = np.array(xi - self.whitened_mean, dtype=np.float64, order="C")
        return blas.dtrmm(1.0, self.whitened_factor, rows.T, lower=0, trans_a=1, overwrite_b=1).T

    @cached_property
    def principal_axes(self) -> PrincipalAxes:
        """Return the same Gaussian in coordinates along the eigenvectors of its covariance."""
        return PrincipalAxes(self.model, self.precision, self.shift)

    def split_cases(self, fraction: float, order: str = "curvature") -> SplitCases:
        """Return the same Gaussian in its principal axes, with the cases split in two parts."""
        return SplitCases(self.model, self.precision, self.shift, fraction, order)


class PrincipalAxes(AxisCoordinates, GaussianSites):
    """A Gaussian in coordinates along its principal axes: theta = mean + V diag(1 / omega) zeta.

    V has the eigenvectors of the covariance of theta, 1 / omega_j its standard deviations, so omega_j
    are the angular frequencies of Hamiltonian motion with unit mass on theta. These coordinates are a
    rotation of those of `GaussianSites`, zeta_axes = Q' zeta, from the singular value decomposition
    C = V diag(1 / omega) Q' of its factor, which keeps small deviations accurate where eigenvalues of
    the covariance would not.
    """

    @cached_property
    def _triangular_form(self) -> GaussianSites:
        return GaussianSites(self.model, self.precision, self.shift)

    @cached_property
    def _decomposition(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.linalg.svd(self._triangular_form.factor)

    def digest(self) -> str:
        """SHA-256 of the model, the sites and the coordinates."""
        return text_digest(super().digest(), "principal axes")

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Omega (d,), ascending."""
        return 1.0 / self._decomposition[1]

    @property
    def axes(self) -> np.ndarray:
        """V (d, d), one axis a column, in the order of `frequencies`."""
        return self._decomposition[0]

    @cached_property
    def predictor_factor(self) -> np.ndarray:
        """A V diag(1 / omega) (n, d)."""
        if self.model.design is None:
            return self.factor
        return np.asfortranarray(self.model.design @ self.factor)

    def to_whitened(self, zeta: np.ndarray) -> np.ndarray:
        """Xi: from these coordinates to the prior's."""
        return self._triangular_form.to_whitened(zeta @ self._decomposition[2])

    def from_whitened(self, xi: np.ndarray) -> np.ndarray:
        """Zeta: from the prior's coordinates to these."""
        return self._triangular_form.from_whitened(xi) @ self._decomposition[2].T


@dataclass(frozen=True, eq=False)
class SplitCases(PrincipalAxes):
    """A Gaussian in its principal axes and the likelihood of its cases in two parts.

    The first part has the round(``fraction`` n) cases (at least one, at most n - 1) with the largest
    curvature -d^2 log p(y_i | eta_i) / d eta_i^2 at the Gaussian's mean, ties by index (``order``
    "curvature"), or a random choice of as many that is always the same ("random").
    """

    fraction: float = 0.4
    order: str = "curvature"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "split", (self.fraction, self.order))
        check_order(self.order)
        if self.model.n_cases < 2:
            raise InputError("split of the cases: there is one case; allowed: two or more")

    def split_cases(self, fraction: float, order: str = "curvature") -> SplitCases:
        """Itself, if the split is the same."""
        same = (fraction, order) == self.split
        return self if same else super().split_cases(fraction, order)

    def digest(self) -> str:
        """SHA-256 of the model, the sites, the coordinates and the split."""
        return text_digest(super().digest(), repr(self.fraction), self.order)

    def _curvature(self) -> np.ndarray:
        return -self.model.likelihood.derivatives(self.predictor_mean, self.model.y)[2]

    @cached_property
    def parts(self) -> tuple[CasePart, CasePart]:
        """Log likelihood of the two parts as functions of the coordinates."""
        model = self.model
        whole = CasePart(model.likelihood, model.y, self.predictor_factor, self.predictor_mean)
        first, second = self.case_indices
        return whole.take(first), whole.take(second)


def _graded_factor(scaled: np.ndarray) -> np.ndarray:
    """W, upper triangular, with W W' = I + M'M for rows M (n, d) of sizes that differ much, largest first.

    By Householder's QR decomposition of M over I, which keeps what small rows say beside large ones.
    """
    d = scaled.shape[1]
    stacked = np.asfortranarray(np.concatenate([scaled, np.eye(d)])[:, ::-1])
    (R,) = qr(stacked, mode="r", overwrite_a=True, check_finite=False)
    factor = (R[:d].T * np.sign(np.diag(R)))[::-1, ::-1]
    return np.asfortranarray(factor)
