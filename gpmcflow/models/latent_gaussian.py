"""Latent Gaussian models: a Gaussian prior times a factorising likelihood of a linear map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, pin_blas, text_digest
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.linear_maps import pull_back, push_forward


@dataclass(frozen=True, eq=False)
class LatentGaussianModel:
    """A latent Gaussian model: Gaussian variables theta, observed through a linear map and a likelihood.

    theta ~ N(mean, L L'), eta = A theta + offset, y_i ~ p(y_i | eta_i).

    GP classification and Cox processes have A = I (``design`` is None, theta is the latent f);
    logistic regression has A = X. Build it with `GPModel.at`, `from_covariance` or `from_design`.

    All inference happens in prior-whitened coordinates xi ~ N(0, I): theta = mean + L xi,
    eta = predictor_mean + U xi with U = A L, so that K^{-1} never appears.

    Attributes
    ----------
    likelihood, y:
        The factors; y has shape (n,).
    mean, cholesky:
        Prior mean (d,) and lower factor L (d, d), in Fortran order.
    predictor_mean, predictor_factor:
        A mean (n,) and U = A L (n, d); U is L itself when A = I.
    jitter:
        What was added to the covariance's diagonal before it factorised (0 as a rule).
    design:
        A (n, d), or None for the identity.
    covariance_function, X:
        What predictions at new inputs need (`CovarianceAt`); None for models not made by `GPModel.at`.
    offset:
        Of the linear predictor, a number, 0 as a rule.

    Raises
    ------
    InputError:
        For numbers that are not finite, shapes that do not match, and observations the likelihood cannot
        have.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.LatentGaussianModel(gp.Probit(), np.array([1.0, -1.0]), np.zeros(2), np.eye(2))
    >>> model.n_cases, model.dim
    (2, 2)
    """

    likelihood: Likelihood
    y: np.ndarray
    mean: np.ndarray
    cholesky: np.ndarray
    jitter: float = 0.0
    design: np.ndarray | None = None
    covariance_function: Callable | None = None
    X: np.ndarray | None = None
    offset: float = 0.0
    predictor_mean: np.ndarray = field(init=False, repr=False)
    predictor_factor: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        y = np.ascontiguousarray(self.y, dtype=np.float64)
        if y.ndim != 1 or not np.all(np.isfinite(y)):
            raise InputError("latent Gaussian model: y must be a vector of finite numbers")
        self.likelihood.validate(y)
        if not np.all(np.isfinite(self.mean)):
            raise InputError("latent Gaussian model: the prior mean has NaN or infinity")
        if self.design is not None and np.shape(self.design)[1:] != (len(self.cholesky),):
            raise InputError(
                f"latent Gaussian model: the design has shape {np.shape(self.design)} for "
                f"{len(self.cholesky)} latent variables; allowed: one column each"
            )
        object.__setattr__(self, "y", y)
        factor = self.cholesky if self.design is None else self.design @ self.cholesky
        if len(factor) != len(y):
            raise InputError(
                f"latent Gaussian model: {len(y)} observations for {len(factor)} linear predictors"
            )
        mean = (self.mean if self.design is None else self.design @ self.mean) + self.offset
        object.__setattr__(self, "predictor_factor", np.asfortranarray(factor))
        object.__setattr__(self, "predictor_mean", mean)

    @classmethod
    def from_covariance(
        cls,
        covariance: np.ndarray,
        likelihood: Likelihood,
        y: np.ndarray,
        *,
        mean: float | np.ndarray = 0.0,
        design: np.ndarray | None = None,
        **extra: Any,
    ) -> LatentGaussianModel:
        """Model with a prior covariance, which may need a jitter to factorise.

        Jitter: zero first, then 1e-12 of the mean diagonal, times ten until it factorises; found
        once and recorded, since a jitter that adapts per call would change the target.

        Parameters
        ----------
        covariance:
            Of theta, (d, d).
        likelihood, y:
            The factors; y has shape (n,).
        mean:
            Of theta, a number or (d,).
        design:
            A (n, d); None for the identity.
        extra:
            Further fields of the model, ``covariance_function`` and ``X``.

        Returns
        -------
        The `LatentGaussianModel`.

        Raises
        ------
        InputError:
            For numbers that are not finite, and shapes that do not match.
        NumericalError:
            Where a jitter of 1e-4 of the diagonal is not enough.

        Examples
        --------
        >>> import numpy as np
        >>> import gpmcflow as gp
        >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> gp.LatentGaussianModel.from_covariance(K, gp.Probit(), np.array([1.0, -1.0])).cholesky.round(4)
        array([[1.4142, 0.    ],
               [0.7071, 1.2247]])
        """
        pin_blas()
        covariance = np.asarray(covariance, dtype=np.float64)
        if not np.all(np.isfinite(covariance)):
            raise InputError("latent Gaussian model: the prior covariance has NaN or infinity")
        factor, jitter = factorise(covariance)
        mean = np.broadcast_to(np.asarray(mean, dtype=np.float64), (len(covariance),)).copy()
        return cls(likelihood, y, mean, factor, jitter, design, **extra)

    @classmethod
    def from_design(
        cls, design: np.ndarray, prior_sd: float | np.ndarray, likelihood: Likelihood, y: np.ndarray
    ) -> LatentGaussianModel:
        """Generalised linear model: coefficients theta_j ~ N(0, prior_sd_j^2), eta = A theta.

        Parameters
        ----------
        design:
            A (n, d); an intercept is a column of ones.
        prior_sd:
            Standard deviations > 0 of the coefficients, in units of eta over those of the column: a number,
            or (d,).
        likelihood, y:
            The factors; y has shape (n,).

        Returns
        -------
        The `LatentGaussianModel`, whose latent variables are the coefficients.

        Raises
        ------
        InputError:
            For a design with other than finite numbers, and for a flat prior, which has no evidence.

        Examples
        --------
        >>> import numpy as np
        >>> import gpmcflow as gp
        >>> design = np.column_stack([np.ones(6), np.arange(6.0)])
        >>> y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
        >>> model = gp.LatentGaussianModel.from_design(design, 5.0, gp.Logistic(), y)
        >>> model.n_cases, model.dim
        (6, 2)
        """
        design = np.asarray(design, dtype=np.float64)
        if design.ndim != 2 or not np.all(np.isfinite(design)):
            raise InputError("regression: the design has to be a matrix of finite numbers")
        wrong = np.ravel(prior_sd)[~(np.isfinite(np.ravel(prior_sd)) & (np.ravel(prior_sd) > 0))]
        if wrong.size:
            rank, width = np.linalg.matrix_rank(design), design.shape[1]
            hint = f"; the design has rank {rank} of {width}, so none would be proper"
            raise InputError(
                f"regression: prior_sd is {wrong[0]:g}; allowed: positive numbers, as a flat prior has "
                f"no evidence{hint if rank < width else ''}; give a wide prior instead"
            )
        sd = np.broadcast_to(np.asarray(prior_sd, dtype=np.float64), (design.shape[1],))
        return cls.from_covariance(np.diag(sd**2), likelihood, y, design=design)

    def digest(self) -> str:
        """SHA-256 of everything that makes the model: data, prior, likelihood."""
        arrays = {"y": self.y, "mean": self.mean, "cholesky": self.cholesky}
        if self.design is not None:
            arrays["design"] = self.design
        if self.offset:
            arrays["offset"] = np.array(self.offset)
        return text_digest(
            array_digest(arrays), self.likelihood.digest(), repr(self.covariance_function)
        )

    @cached_property
    def predictor_covariance(self) -> np.ndarray:
        """Prior covariance U U' of the linear predictor (n, n), from its factor."""
        U = self.predictor_factor
        if self.design is not None:
            return U @ U.T
        # reversed rows and columns make an upper factor of the lower one
        product, _ = lapack.dlauum(np.array(U[::-1, ::-1], order="F"), lower=0, overwrite_c=1)
        product = np.triu(product)[::-1, ::-1]
        return np.asfortranarray(product + np.tril(product, -1).T)

    @cached_property
    def predictor_variance(self) -> np.ndarray:
        """Prior variance of the linear predictor (n,)."""
        return np.einsum("ij,ij->i", self.predictor_factor, self.predictor_factor)

    @property
    def direct(self) -> bool:
        """Whether A = I: the linear predictors are the latent variables."""
        return self.design is None

    @property
    def dim(self) -> int:
        """Number d of latent variables."""
        return len(self.cholesky)

    @property
    def n_cases(self) -> int:
        """Number n of observations."""
        return len(self.y)

    def latent(self, xi: np.ndarray) -> np.ndarray:
        """Theta = mean + L xi for a batch (..., d)."""
        return push_forward(self.cholesky, xi, triangular=True) + self.mean

    def predictor(self, xi: np.ndarray) -> np.ndarray:
        """Eta = A mean + U xi for a batch (..., d), shape (..., n)."""
        triangular = self.design is None
        return push_forward(self.predictor_factor, xi, triangular) + self.predictor_mean

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """U' g: turns a gradient by eta (..., n) into one by xi (..., d)."""
        return pull_back(self.predictor_factor, gradient, triangular=self.design is None)


def factorise(covariance: np.ndarray) -> tuple[np.ndarray, float]:
    """Lower Cholesky factor (Fortran order) of a covariance matrix and the jitter it needed."""
    size = float(np.mean(np.diag(covariance)))
    jitter = 0.0
    while True:
        matrix = np.array(covariance, order="F")
        matrix.flat[:: len(matrix) + 1] += jitter
        factor, info = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
        if info == 0:
            return factor, jitter
        jitter = 10.0 * jitter if jitter else 1e-12 * size
        if not jitter <= 1e-4 * size:
            raise NumericalError(
                "prior covariance is not positive definite even with a jitter of 1e-4 of its "
                "diagonal; check for wrong signs or asymmetry, or drop duplicate inputs"
            )


def require_latent(who: str, model: object) -> None:
    """Raise `InputError` unless a model is a `LatentGaussianModel`."""
    if not isinstance(model, LatentGaussianModel):
        raise InputError(
            f"{who}: found {type(model).__name__}; allowed: a LatentGaussianModel, such as "
            "GPModel.at(theta); approximate takes a GPModel"
        )
