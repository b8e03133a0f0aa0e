"""Gaussian process regression with its latent values integrated out: a density over hyperparameters."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution.digest import array_digest, text_digest
from gpmcflow.models import regression_covariance as covariance
from gpmcflow.models.log_density import LogDensity

log = logging.getLogger(__name__)


class Hyperparameters(NamedTuple):
    """eta, sigma (None where the noise variances are given) and the length scales rho (p,)."""

    eta: float
    sigma: float | None
    rho: np.ndarray


class ScaleStatistics(NamedTuple):
    """y'A^-1 y, 1'A^-1 y, 1'A^-1 1 and log det A of A = E + g I; see `GPLogDensity.scale_statistics`."""

    squares: float
    cross: float
    ones: float
    log_det: float


@dataclass(frozen=True, eq=False)
class GPRegression:
    """y | theta ~ N(0, C), C_ij = c^2 + eta^2 exp(-sum_k (x_ik - x_jk)^2 / rho_k^2) + noise_i [i = j].

    There is no factor 1/2 in the exponent. theta = (log eta, log sigma, log rho) with one length
    scale, or with ``ard`` one a feature; the noise is sigma^2, or ``noise_variances`` (n,) that are
    given, and then theta has no log sigma. The priors are independent Gaussians on these logs, so
    that there is no Jacobian anywhere. Fixed: ``constant`` c.

    Attributes
    ----------
    X, y:
        Inputs (n, p) or (n,), responses (n,).
    prior_mean, prior_sd:
        Of theta, (d,) or a number for all.

    Raises `InputError` for values that are not finite, fewer than two cases, and shapes or scales
    that do not fit. Warns of ARD with as many features as cases or more: the prior then decides.

    Source: Wang & Neal (2013), eqs. 22-24.
    """

    X: np.ndarray
    y: np.ndarray
    ard: bool = False
    constant: float = 10.0
    prior_mean: np.ndarray | float = 0.0
    prior_sd: np.ndarray | float = 1.0
    noise_variances: np.ndarray | None = None

    def __post_init__(self) -> None:
        X = np.asarray(self.X, dtype=np.float64)
        X = np.ascontiguousarray(X[:, None] if X.ndim == 1 else X)
        y = np.array(self.y, dtype=np.float64)
        _require(X.ndim == 2 and X.shape[1] > 0, f"X has shape {X.shape}; allowed: (n, p)")
        n, p = X.shape
        _require(y.shape == (n,), f"y has shape {y.shape}; allowed: ({n},), one for each row of X")
        _require(
            n > 1, f"found {n} case; allowed: 2 or more, as one tells nothing of length scales"
        )
        _require_finite("X", X)
        _require_finite("y", y)
        _require(
            bool(np.isfinite(self.constant)) and self.constant >= 0,
            f"constant is {self.constant!r}; allowed: a finite number >= 0",
        )
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        if self.noise_variances is not None:
            noise = np.array(self.noise_variances, dtype=np.float64)
            _require(
                noise.shape == (n,) and bool(np.all((noise > 0) & np.isfinite(noise))),
                f"noise_variances of shape {noise.shape}; allowed: ({n},), all positive and finite",
            )
            object.__setattr__(self, "noise_variances", noise)
        d = self.dim
        for name in ("prior_mean", "prior_sd"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            _require(
                value.shape in ((), (d,)) and bool(np.all(np.isfinite(value))),
                f"{name} of shape {value.shape}; allowed: a finite number, or {d}: {', '.join(self.names)}",
            )
            object.__setattr__(self, name, np.array(np.broadcast_to(value, (d,))))
        _require(bool(np.all(self.prior_sd > 0)), "prior_sd has an entry <= 0; allowed: positive")
        if self.ard and p >= n:
            log.warning(
                "GPRegression: ARD with %d features and %d cases: the data say little of so many "
                "length scales, their priors decide; take ard=False, or fewer features", p, n,
            )  # fmt: skip

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number p of features."""
        return self.X.shape[1]

    @property
    def has_noise(self) -> bool:
        """Whether theta has log sigma."""
        return self.noise_variances is None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates of theta."""
        many = self.ard and self.n_features > 1
        rho = [f"log_rho_{k + 1}" for k in range(self.n_features)] if many else ["log_rho"]
        return ("log_eta", *(["log_sigma"] if self.has_noise else []), *rho)

    @property
    def dim(self) -> int:
        """Number d of coordinates of theta."""
        return len(self.names)

    def digest(self) -> str:
        """SHA-256 of data, priors and settings."""
        arrays = {"X": self.X, "y": self.y, "mean": self.prior_mean, "sd": self.prior_sd}
        if not self.has_noise:
            arrays["noise"] = self.noise_variances
        return text_digest(array_digest(arrays), repr((self.ard, float(self.constant))))

    def hyperparameters(self, theta: np.ndarray) -> Hyperparameters:
        """Return eta, sigma and the length scales (p,) of theta (d,)."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.dim,):
            raise InputError(
                f"GPRegression: theta has shape {theta.shape}; allowed: ({self.dim},): "
                f"{', '.join(self.names)}"
            )
        values = np.exp(theta)
        rho = np.array(np.broadcast_to(values[2 if self.has_noise else 1 :], (self.n_features,)))
        return Hyperparameters(float(values[0]), float(values[1]) if self.has_noise else None, rho)

    def noise(self, theta: np.ndarray) -> np.ndarray:
        """Noise variances (n,) at theta."""
        if not self.has_noise:
            return self.noise_variances
        return np.full(self.n_cases, np.exp(2.0 * theta[1]))

    def covariance(self, theta: np.ndarray, X2: np.ndarray | None = None) -> np.ndarray:
        """K = c^2 + eta^2 E without noise: of the cases (n, n), or of them with X2 (m, p): (n, m)."""
        eta, _, rho = self.hyperparameters(theta)
        others = self.X if X2 is None else np.asarray(X2, dtype=np.float64)
        out = np.empty((len(others), self.n_cases))
        covariance.negative_cross_distances(
            np.ascontiguousarray(self.X.T), np.ascontiguousarray(others.T), 1.0 / rho, out
        )
        return self.constant**2 + eta**2 * np.exp(out.T)

    def log_prior(self, theta: np.ndarray) -> float:
        """Sum of the Gaussian log densities of theta (d,)."""
        return covariance.log_normal(theta, self.prior_mean, self.prior_sd)

    def log_density(self) -> GPLogDensity:
        """Return the exact log posterior of theta: log N(y; 0, C) + log prior, as a counted function."""
        return GPLogDensity(self)

    def take(self, cases: np.ndarray) -> GPRegression:
        """Return the model of some of the cases, with the same theta and prior."""
        noise = None if self.has_noise else self.noise_variances[cases]
        return replace(self, X=self.X[cases], y=self.y[cases], noise_variances=noise)

    def with_y(self, y: np.ndarray) -> GPRegression:
        """Return the model of other responses (n,) at the same inputs."""
        return replace(self, y=y)

    def simulate(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """Draw y (n,) ~ N(0, C(theta)). Raises `NumericalError` where C is not positive definite."""
        return self._factor(theta) @ rng.standard_normal(self.n_cases)

    def draw_prior(self, rng: np.random.Generator) -> np.ndarray:
        """Draw theta (d,) from its prior."""
        return self.prior_mean + self.prior_sd * rng.standard_normal(self.dim)

    def predict(self, theta: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of y at new inputs (m, p) given theta.

        E = k'C^-1 y, Var = c^2 + eta^2 + sigma^2 - k'C^-1 k, k the covariances with y. Where noise
        variances are given that of a new case is not, and the variance is that without noise.

        Source: Wang & Neal (2013), eqs. 25-26.
        """
        X_new = np.asarray(X_new, dtype=np.float64)
        X_new = X_new[:, None] if X_new.ndim == 1 else X_new
        if X_new.ndim != 2 or X_new.shape[1] != self.n_features:
            raise InputError(
                f"predict: X_new has shape {X_new.shape}; allowed: (m, {self.n_features})"
            )
        _require_finite("X_new", X_new)
        L = self._factor(theta)
        v = solve_triangular(L, self.covariance(theta, X_new), lower=True)
        u = solve_triangular(L, self.y, lower=True)
        eta, sigma, _ = self.hyperparameters(theta)
        total = self.constant**2 + eta**2 + (sigma or 0.0) ** 2
        return v.T @ u, total - (v**2).sum(0)

    def predict_from_draws(
        self, draws: np.ndarray, X_new: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of y at new inputs over posterior draws of theta (draw, d).

        The mean is that of the E_t; the variance is the mean of Var_t plus the variance of the E_t.
        One factorisation a draw: thin them. Source: Wang & Neal (2013), eqs. 27-28.
        """
        draws = np.asarray(draws, dtype=np.float64).reshape(-1, self.dim)
        if not len(draws):
            raise InputError("predict_from_draws: found no draw; give one or more of shape (d,)")
        means, variances = zip(*(self.predict(theta, X_new) for theta in draws), strict=True)
        return np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0)

    def _factor(self, theta: np.ndarray) -> np.ndarray:
        C = self.covariance(theta)
        C[np.diag_indices_from(C)] += self.noise(theta)
        try:
            return cholesky(C, lower=True)
        except (np.linalg.LinAlgError, ValueError):
            raise NumericalError(
                f"GPRegression: the covariance of y is not positive definite at theta = "
                f"{np.asarray(theta).tolist()}; check the noise level and the length scales"
            ) from None


class GPLogDensity(LogDensity):
    """log N(y; 0, C(theta)) + log prior, exact, in buffers that are made once.

    With C = LL', Lu = y: log N = -u'u / 2 - sum_i log L_ii - (n / 2) log 2 pi. E is kept while the
    length scales stay, so that eta and sigma cost a factorisation and no exponential. No jitter: a
    covariance that is not positive definite in floating point is -inf, and counted.

    Source: Wang & Neal (2013), eqs. 29-30.
    """

    def __init__(self, model: GPRegression) -> None:
        self.model, self.names = model, model.names
        self._work: covariance.Workspace | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.model.n_cases}, names={self.names})"

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_work": None}  # a workspace is large and soon made

    def digest(self) -> str:
        """SHA-256 of the kind of density and its model."""
        return text_digest(type(self).__name__, self.model.digest())

    def fresh(self) -> GPLogDensity:
        """Return the same function with its own counters and buffers."""
        other = super().fresh()
        other._work = None
        return other

    def log_prior(self, theta: np.ndarray) -> float:
        """Log prior of theta (d,)."""
        return self.model.log_prior(theta)

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Exact log N(y; 0, C(theta)), not counted; -inf where C is not positive definite."""
        model, work, squares = self.model, self._factorised(theta), np.inf
        if work is not None:
            u = work.solve(model.y)
            squares, logs = covariance.squares_and_log_diagonal(work.factor, u)
        if not squares < np.inf:
            return -np.inf
        return -0.5 * squares - logs - 0.5 * model.n_cases * np.log(2.0 * np.pi)

    def evaluate(self, theta: np.ndarray) -> float:
        """Log posterior at theta."""
        return self.log_likelihood(theta) + self.model.log_prior(theta)

    def evaluate_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log posterior and its gradient (d,), for about three times the cost of the value.

        With a = C^-1 y: d log N / d theta_j = tr((a a' - C^-1) dC / d theta_j) / 2.
        """
        model, value = self.model, self.evaluate(theta)
        if value == -np.inf:
            return value, np.zeros(self.dim)
        work = self._work
        alpha = work.solve(work.solve(model.y), transposed=True)
        found = np.empty(1 + model.n_features)
        eta2, sigma2, _ = covariance.unpack(theta, model.has_noise, work.inverse_scales)
        trace = covariance.contract_gradient(
            work.packed, work.invert(), alpha, work.Xt, work.inverse_scales, eta2, found
        )
        rho = found[1:] if self.dim > 2 + model.has_noise else found[1:].sum(keepdims=True)
        sigma = [sigma2 * trace] if model.has_noise else []
        gradient = np.concatenate([found[:1], sigma, rho])
        return value, gradient - (theta - model.prior_mean) / model.prior_sd**2

    def scale_statistics(self, ratio: float, log_rho: np.ndarray) -> ScaleStatistics | None:
        """Statistics of A = E + exp(2 ratio) I, ratio = log sigma - log eta; None where it fails.

        With them the log likelihood at any overall scale eta costs O(1), k = c^2 / eta^2:
        log det C = n log eta^2 + log det A + log(1 + k 1'A^-1 1),
        y'C^-1 y = (y'A^-1 y - k (1'A^-1 y)^2 / (1 + k 1'A^-1 1)) / eta^2. Counted as a call.
        """
        self.n_calls += 1
        theta = np.concatenate([[0.0, ratio], log_rho])
        work = self._factorised(theta, constant=0.0)
        if work is None:
            self.n_failed += 1
            return None
        u = work.solve(np.column_stack([self.model.y, np.ones(self.model.n_cases)]))
        _, logs = covariance.squares_and_log_diagonal(work.factor, u[:, 0])
        gram = u.T @ u
        return ScaleStatistics(gram[0, 0], gram[0, 1], gram[1, 1], 2.0 * logs)

    def _factorised(self, theta: np.ndarray, constant: float | None = None):
        """Workspace with the factor of C(theta), or None."""
        model = self.model
        if self._work is None:
            self._work = covariance.Workspace(model.X)
            if not model.has_noise:
                self._work.diagonal[:] = model.noise_variances
        work = self._work
        eta2, sigma2, in_range = covariance.unpack(theta, model.has_noise, work.inverse_scales)
        if not in_range:
            return None
        if model.has_noise:
            work.diagonal.fill(sigma2)
        work.correlate()
        constant = model.constant if constant is None else constant
        return work if work.factorise(eta2, constant * constant) else None


def dense_log_likelihood(C: np.ndarray, y: np.ndarray) -> float:
    """log N(y; 0, C) by general routines, for references and checks: slow, and with no buffer."""
    L = cholesky(C, lower=True)
    quadratic = y @ cho_solve((L, True), y)
    return float(-0.5 * quadratic - np.log(np.diag(L)).sum() - 0.5 * len(y) * np.log(2.0 * np.pi))


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(f"GPRegression: {message}")


def _require_finite(name: str, values: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = ", ".join(str(int(i)) for i in bad[0])
        raise InputError(
            f"GPRegression: {name}[{where}] is {values[tuple(bad[0])]}; allowed: finite numbers; drop or "
            f"impute {'it' if len(bad) == 1 else f'these {len(bad)} values'}"
        )
