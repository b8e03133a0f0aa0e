"""Latent Gaussian models with unknown hyperparameters: the joint density of (theta, f)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, pin_blas, text_digest
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.joint_covariance import DenseFactor
from gpmcflow.models.kronecker_covariance import KroneckerFactor, grid_axes
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior

JITTER = 1e-6


class Hyperparameters(NamedTuple):
    """What the coordinates theta stand for."""

    lengths: np.ndarray  #: length scales l (p,), or (1,) if isotropic
    signal_sd: float  #: sigma_f
    offset: float  #: c of the log rate; 0 without counts


@dataclass(frozen=True, eq=False)
class JointModel:
    """theta ~ p_h, f | theta ~ N(0, Sigma), y_i ~ p(y_i | f_i + c).

    Sigma = sigma_f^2 (K + eps I), K_ij = exp(-sum_d (x_id - x_jd)^2 / (2 l_d^2)). The coordinates that are
    sampled are theta = (log l_1 .. log l_p, log sigma_f, c), those of them that have a hyperprior; numbers
    in their place fix l, sigma_f and c. All densities are with respect to these coordinates.

    Attributes
    ----------
    likelihood, X, y:
        Factors, inputs (n, p) or (n,), observations (n,).
    length:
        Hyperprior (or number) of every length scale, or a sequence of one for each feature.
    signal, offset:
        Hyperprior or number of sigma_f, and of c, which binary data have not.
    isotropic:
        One length scale for all features.
    jitter:
        eps, a part of the model: one number for all theta.
    kronecker:
        Sigma = sigma_f^2 (K_1 + eps I) x (K_2 + eps I), for cases that are a grid, row by row.

    Hyperpriors may be mappings of their fields, as in a config. Raises `InputError` for inputs that are
    not finite, observations the likelihood cannot have, an offset of binary data, duplicate inputs with
    no jitter, and a grid that is none.

    Source: Murray & Adams (2010), section 2; eps, hyperpriors and c as their public code has them.
    """

    likelihood: Likelihood
    X: np.ndarray
    y: np.ndarray
    length: Hyperprior | Mapping | float | Sequence
    signal: Hyperprior | Mapping | float = 1.0
    offset: Hyperprior | Mapping | float = 0.0
    isotropic: bool = False
    jitter: float = JITTER
    kronecker: bool = False

    def __post_init__(self) -> None:
        X = np.asarray(self.X, dtype=np.float64)
        X = np.ascontiguousarray(X[:, None] if X.ndim == 1 else X)
        y = np.ascontiguousarray(self.y, dtype=np.float64)
        if X.ndim != 2 or y.shape != (len(X),) or not X.size:
            raise InputError(
                f"joint model: X has shape {X.shape}, y {y.shape}; allowed: (n, p) and (n,)"
            )
        for name, values in (("X", X), ("y", y)):
            wrong = np.argwhere(~np.isfinite(values))
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                raise InputError(
                    f"joint model: {name}{list(at)} is {values[at]}; give finite numbers"
                )
        self.likelihood.validate(y)
        if not (np.isfinite(self.jitter) and self.jitter >= 0):
            raise InputError(f"joint model: jitter is {self.jitter!r}; allowed: a number >= 0")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "priors", self._gathered())
        if self.kronecker:
            object.__setattr__(self, "_axes", grid_axes(X))
        if self.jitter == 0.0:
            _refuse_duplicates(X)

    def _gathered(self) -> tuple[Hyperprior | float, ...]:
        """Hyperprior or fixed coordinate of each of (log l, log sigma_f, c)."""
        n_lengths, given = self.n_lengths, self.length
        if isinstance(given, (Hyperprior, Mapping, int, float, np.number)):
            given = [given] * n_lengths
        given = list(given)
        if len(given) != n_lengths:
            raise InputError(
                f"joint model: length has {len(given)} entries; allowed: one for all, or {n_lengths}"
            )
        named = [
            *((g, f"joint model: length[{k}]") for k, g in enumerate(given)),
            (self.signal, "joint model: signal"),
        ]
        found: list[Hyperprior | float] = []
        for setting, where in named:
            prior = hyperprior(setting, where)
            if not isinstance(prior, Hyperprior):
                if not (np.isfinite(prior) and prior > 0):
                    raise InputError(f"{where} is {prior!r}; allowed: a positive number")
                prior = float(np.log(prior))
            found.append(prior)
        offset = hyperprior(self.offset, "joint model: offset")
        if self.likelihood.relative_sites and offset != 0.0:
            raise InputError(
                f"joint model: offset is {offset!r} with the {self.likelihood.name} likelihood; allowed: "
                "none, as binary data have none here; leave it out"
            )
        if not isinstance(offset, Hyperprior) and not np.isfinite(offset):
            raise InputError(f"joint model: offset is {offset!r}; allowed: a finite number")
        return (*found, offset)

    # -- coordinates -----------------------------------------------------------------------------

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

    @property
    def n_lengths(self) -> int:
        """Number of length scales."""
        return 1 if self.isotropic else self.X.shape[1]

    @cached_property
    def free(self) -> np.ndarray:
        """Places in (log l, log sigma_f, c) of the coordinates that are sampled."""
        return np.array([k for k, p in enumerate(self.priors) if isinstance(p, Hyperprior)], int)

    @property
    def dim(self) -> int:
        """Number d of coordinates of theta."""
        return len(self.free)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates of theta."""
        many = self.n_lengths > 1
        lengths = [f"log_length_{k + 1}" for k in range(self.n_lengths)] if many else ["log_length"]
        return tuple(np.array([*lengths, "log_signal_sd", "offset"])[self.free].tolist())

    @cached_property
    def free_priors(self) -> tuple[Hyperprior, ...]:
        """Hyperpriors of the coordinates of theta."""
        return tuple(self.priors[k] for k in self.free)

    @cached_property
    def _fixed(self) -> np.ndarray:
        return np.array([np.nan if isinstance(p, Hyperprior) else p for p in self.priors])

    def full(self, theta: np.ndarray) -> np.ndarray:
        """(log l, log sigma_f, c), the fixed ones included, of theta (d,)."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.dim,):
            raise InputError(
                f"joint model: theta has shape {theta.shape}; allowed: ({self.dim},): "
                f"{', '.join(self.names)}"
            )
        out = self._fixed.copy()
        out[self.free] = theta
        return out

    def hyperparameters(self, theta: np.ndarray) -> Hyperparameters:
        """Length scales, sigma_f and offset of theta (d,)."""
        full = self.full(theta)
        return Hyperparameters(np.exp(full[:-2]), float(np.exp(full[-2])), float(full[-1]))

    def log_prior(self, theta: np.ndarray) -> float:
        """Log p_h(theta), -inf outside the support."""
        return sum(p.log_density(t) for p, t in zip(self.free_priors, theta, strict=True))

    def from_normal(self, x: np.ndarray) -> np.ndarray:
        """Theta whose prior is that of standard normal x (d,); see `Hyperprior.from_normal`."""
        return np.array([float(p.from_normal(v)) for p, v in zip(self.free_priors, x, strict=True)])

    def to_normal(self, theta: np.ndarray) -> np.ndarray:
        """Inverse of `from_normal`."""
        return np.array(
            [float(p.to_normal(v)) for p, v in zip(self.free_priors, theta, strict=True)]
        )

    def normal_slopes(self, x: np.ndarray) -> np.ndarray:
        """d theta_j / dx_j of `from_normal`, (d,)."""
        return np.array(
            [float(p.normal_slope(v)) for p, v in zip(self.free_priors, x, strict=True)]
        )

    def draw_prior(self, rng: np.random.Generator, central: float = 1.0) -> np.ndarray:
        """Draw theta (d,) from its prior, or from the central part that holds this probability."""
        u = 0.5 + central * (rng.random(self.dim) - 0.5)
        return np.array([float(p.quantile(v)) for p, v in zip(self.free_priors, u, strict=True)])

    def prior_median(self) -> np.ndarray:
        """Theta (d,) at the median of every hyperprior."""
        return np.array([float(p.quantile(0.5)) for p in self.free_priors])

    # -- latents ---------------------------------------------------------------------------------

    def factor(self) -> DenseFactor | KroneckerFactor:
        """Return empty buffers for the factor of K + eps I. BLAS has one thread from here on."""
        pin_blas()
        if self.kronecker:
            return KroneckerFactor(self._axes, self.isotropic, self.jitter)
        return DenseFactor(self.X, self.isotropic, self.jitter)

    def filled_factor(self, theta: np.ndarray) -> DenseFactor | KroneckerFactor:
        """Factor of K + eps I at theta. Raises `NumericalError` where it is not positive definite."""
        factor = self.factor()
        if not factor.fill(self.full(theta)[:-2]):
            raise NumericalError(
                f"joint model: the covariance is not positive definite at theta = "
                f"{np.asarray(theta).tolist()}; give a larger jitter than {self.jitter:g}"
            )
        return factor

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """Sigma at theta (n, n), with its jitter."""
        L = np.exp(self.full(theta)[-2]) * self.filled_factor(theta).dense()
        return L @ L.T

    def prior_variance(self, theta: np.ndarray) -> float:
        """k = Sigma_ii, the same for all cases."""
        diagonal = (1.0 + self.jitter) ** (2 if self.kronecker else 1)
        return float(np.exp(2.0 * self.full(theta)[-2])) * diagonal

    def log_likelihood(self, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Log p(y | f, c) for latents (..., n), shape (...)."""
        f = np.atleast_1d(np.asarray(f, dtype=np.float64))
        return self.likelihood.log_density(f + self.full(theta)[-1], self.y)

    def log_density(self, theta: np.ndarray, f: np.ndarray) -> float:
        """Log p_h(theta) + log N(f; 0, Sigma) + log p(y | f, c), the slow way."""
        factor, log_sd = self.filled_factor(theta), self.full(theta)[-2]
        z = factor.solve(np.asarray(f, dtype=np.float64)) / np.exp(log_sd)
        n = self.n_cases
        log_normal = -0.5 * (z @ z) - factor.log_det - n * log_sd - 0.5 * n * np.log(2.0 * np.pi)
        return self.log_prior(theta) + log_normal + float(self.log_likelihood(f, theta))

    def simulate(
        self, rng: np.random.Generator, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw latents f (n,) and observations (n,) given theta."""
        z = rng.standard_normal(self.n_cases)
        _, sd, c = self.hyperparameters(theta)
        f = sd * self.filled_factor(theta).multiply(z)
        return f, self.likelihood.simulate(rng, f + c)

    def with_y(self, y: np.ndarray) -> JointModel:
        """Return the model of other observations (n,)."""
        return replace(self, y=y)

    def cross_covariance(self, theta: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """Covariances of latents at new inputs (m, p) with those of the cases, (m, n); no jitter."""
        lengths, sd, _ = self.hyperparameters(theta)
        return sd**2 * np.exp(-0.5 * squared_distances_between(X_new / lengths, self.X / lengths))

    def digest(self) -> str:
        """SHA-256 of data, priors and settings."""
        settings = (self.likelihood, self.priors, self.isotropic, self.jitter, self.kronecker)
        return text_digest(array_digest({"X": self.X, "y": self.y}), repr(settings))


def squared_distances_between(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared distances of rows of A (m, p) and B (n, p), shape (m, n)."""
    return cdist(A, B, "sqeuclidean")


def checked_inputs(model: JointModel, X_new: np.ndarray) -> np.ndarray:
    """New inputs as (m, p), or `InputError`."""
    X_new = np.asarray(X_new, dtype=np.float64)
    X_new = X_new[:, None] if X_new.ndim == 1 else X_new
    if X_new.ndim != 2 or X_new.shape[1] != model.X.shape[1] or not np.all(np.isfinite(X_new)):
        raise InputError(
            f"joint model: new inputs have shape {X_new.shape}; allowed: finite numbers "
            f"(m, {model.X.shape[1]})"
        )
    model.likelihood.mean_response(
        np.zeros(1), np.ones(1)
    )  # what has none is refused before it runs
    return X_new


def _refuse_duplicates(X: np.ndarray) -> None:
    order = np.lexsort(X.T)
    same = np.flatnonzero(np.all(X[order[1:]] == X[order[:-1]], axis=1))
    if same.size:
        pair = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        raise InputError(
            f"joint model: cases {pair[0]} and {pair[1]} have the same inputs and jitter is 0; give a "
            "positive jitter, or drop one"
        )
