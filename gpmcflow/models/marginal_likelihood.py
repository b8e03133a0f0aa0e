"""GP regression with its latents integrated out: log N(y; c, K + D) and its gradient, in buffers.

With C = K + D = L L', D the noise variances, a = C^-1 (y - c): log N = -|L^-1 (y - c)|^2 / 2 - log|L| - n/2
log 2 pi, and by K the derivative is S = (a a' - C^-1) / 2, by theta adjoint(S), by c sum a, by log noise_sd
2 sigma^2 tr S.

Terms that are few functions, V V' of n x q, stand apart where one is linear or polynomial. With A = L L' the
rest, C = A + V V', W = L^-1 V, u = L^-1 (y - c), w at the minimum of |u - W w|^2 + |w|^2 and M = I + W'W: the
quadratic form is that minimum, log|C| = log|A| + log|M|, a = L^-T (u - W w), and the slope by the log of the
j-th function's scale is w_j^2 - 1 + (M^-1)_jj. The QR decomposition of W over I keeps digits that V V' loses.

Source: Rasmussen & Williams (2006), eqs. 5.8-5.9, and section 2.7 for functions beside the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, qr, solve_triangular

from gpmcflow.covariances.finite import FewFunctions
from gpmcflow.covariances.tape import OwnJitter
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.numerics import lapack
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import ROUTINES

LARGEST = 300.0  # size of a log above which squares overflow: such a point has no density
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@compiled
def scaled_sum(E, factor, constant, noise, out):
    """factor E + constant + diag(noise), lower triangle (column, row)."""
    n = out.shape[0]
    for j in range(n):
        column, entries = out[j, j:], E[j, j:]
        for i in range(n - j):
            column[i] = factor * entries[i] + constant
        column[0] += noise[j]


@compiled
def _log_normal(routines, E, factor, constant, noise, C, u):
    """log N(u; 0, factor E + constant + diag(noise)); its factor into C, L^-1 u over u."""
    scaled_sum(E, factor, constant, noise, C)
    log_det = lapack.factorise_lower(routines, C)
    if log_det - log_det != 0.0:
        return -np.inf
    lapack.triangular_solve(routines, C, False, u)
    return -0.5 * np.dot(u, u) - log_det - u.size * _HALF_LOG_2PI


@compiled(fastmath={"contract", "reassoc"})
def _slope_matrix(routines, C, u):
    """S = (a a' - C^-1) / 2 over the factor in C, lower triangle, and a over u; its trace, and its sum."""
    lapack.triangular_solve(routines, C, True, u)
    lapack.invert_factored(routines, C)
    trace = total = 0.0
    for j in range(u.size):
        column, below, at = C[j, j:], u[j:], u[j]
        subtotal = 0.0
        for i in range(column.size):
            column[i] = 0.5 * (at * below[i] - column[i])
            subtotal += column[i]
        trace += column[0]
        total += 2.0 * subtotal - column[0]
    return trace, total


def noise_variances(model: GPModel, full: np.ndarray) -> np.ndarray | float:
    """Noise variance(s) at ``full``: one, or known ones (n,)."""
    place = model.noise_place
    known = place is None
    return model.likelihood.noise_variances(model.n_cases) if known else np.exp(2.0 * full[place])


class Terms(NamedTuple):
    """C = factor E + constant + diag(noise), E in `MarginalLikelihood.E`."""

    factor: float
    constant: float
    noise: np.ndarray  #: (n,)


class MarginalLikelihood:
    """log N(y; c, K + D) of a `GPModel` with Gaussian noise, at coordinates ``full``, and its slopes.

    Where the noise is Gaussian on another scale, as that of log y, y stands for `eta_y`, and the logarithm of
    the Jacobian is added: all values are log densities of y itself.

    Where K = s^2 E + constants, E is kept while only s, constants, mean and noise move: they cost a
    factorisation and no exponential. A covariance that is not positive definite in floating point is -inf.
    ``apart``: whether `GPModel.functions` are kept out of E, as they are for accuracy.
    """

    def __init__(self, model: GPModel, *, apart: bool = True) -> None:
        require_gaussian(model, "marginal likelihood")
        self.model, n = model, model.n_cases
        self.functions: FewFunctions | None = model.functions if apart else None
        self._buffers: Any
        self.scale, self.constants = None, np.empty(0, dtype=int)
        if self.functions is None:
            self.inner, self.scale, self.constants, self._buffers = model.scaled_covariance()
        else:
            self.inner, self._buffers = model.rest_of_functions()
            if isinstance(self._buffers, OwnJitter) and model.jitter is None:
                self._buffers.jitter = 0.0  # the noise is enough
        # (column, row): the lower triangle; the other one is added to, so it starts as numbers
        self.E, self._C = np.zeros((n, n)), np.zeros((n, n))
        self._noise, self._u = np.empty(n), np.empty(n)
        self._key: bytes | None = None  # of the parameters E is filled for

    def terms(self, full: np.ndarray) -> Terms | None:
        """E, filled unless it is there already, and what C is made of besides; None out of range."""
        if not self.model.in_range(full, LARGEST):
            return None
        model, unit, factor, constant = self.model, full, 1.0, 0.0
        if self.scale is not None:
            unit = full.copy()
            unit[self.scale] = 0.0
            factor = float(np.exp(2.0 * full[self.scale]))
        if len(self.constants):
            constant = float(np.exp(2.0 * full[self.constants]).sum())
        key = unit[self.inner].tobytes()
        if key != self._key:
            self._unit = unit.copy()
            self._buffers.fill(unit, self.E)
            self._key = key
        self._noise[:] = noise_variances(model, full)
        return Terms(factor, constant, self._noise)

    def factorise(self, full: np.ndarray) -> float:
        """Factor of C into the work space; log|L|, nan where it fails."""
        log_det = self._factorise_rest(full)
        if self.functions is None or not np.isfinite(log_det):
            return log_det
        return lapack.add_functions(self._C, log_det, self.model.function_values(full))

    def _factorise_rest(self, full: np.ndarray) -> float:
        """As `factorise`, of C less V V'."""
        terms = self.terms(full)
        if terms is None:
            return np.nan
        scaled_sum(self.E, *terms, self._C)
        return lapack.factorise_lower(ROUTINES, self._C)

    def dense_factor(self, full: np.ndarray, *, rest: bool = False) -> np.ndarray:
        """Lower factor of C (n, n), or of C less V V' (``rest``), in Fortran order.

        Raises `NumericalError` where there is none.
        """
        if not np.isfinite(self._factorise_rest(full) if rest else self.factorise(full)):
            raise NumericalError(
                f"regression: the covariance of y is not positive definite at {full.tolist()}; check the "
                "noise level and the length scales"
            )
        return lapack.lower_columns(self._C.T).T

    def solve(self, v: np.ndarray, transposed: bool = False) -> np.ndarray:
        """L^-1 v, or L^-T v, of what was factorised last."""
        out = np.array(v, dtype=np.float64)
        lapack.triangular_solve(ROUTINES, self._C, transposed, out)
        return out

    def multiply(self, v: np.ndarray) -> np.ndarray:
        """L v, over v."""
        lapack.triangular_product(ROUTINES, self._C, False, v)
        return v

    def value(self, full: np.ndarray) -> float:
        """log N(y; c, C), of y itself; -inf where C is not positive definite."""
        if self.functions is not None:
            return self._value_apart(full)
        terms = self.terms(full)
        if terms is None:
            return -np.inf
        np.subtract(self.model.eta_y, self.model.mean_at(full), out=self._u)
        value = _log_normal(ROUTINES, self.E, *terms, self._C, self._u)
        return value + self.model.log_jacobian if value < np.inf else -np.inf

    def _value_apart(self, full: np.ndarray) -> float:
        """As `value`, with functions; u - W w is left over u, and w, W and R beside it."""
        log_det = self._factorise_rest(full)
        if not np.isfinite(log_det):
            return -np.inf
        self._u = u = self.solve(self.model.eta_y - self.model.mean_at(full))
        V = self.model.function_values(full).T
        self._W = W = blas.dtrsm(1.0, self._C.T, V, lower=1)
        if not np.all(np.isfinite(W)):
            return -np.inf
        n, q = W.shape
        Q, self._R = qr(np.concatenate([W, np.eye(q)]), mode="economic", check_finite=False)
        self._w = np.zeros(q)
        for _ in range(2):  # the second corrects the rounding of the first
            step = solve_triangular(self._R, Q[:n].T @ u - Q[n:].T @ self._w)
            self._w += step
            u -= W @ step
        squares = float(u @ u) + float(self._w @ self._w)
        log_det += float(np.log(np.abs(np.diag(self._R))).sum())
        return -0.5 * squares - log_det - n * _HALF_LOG_2PI + self.model.log_jacobian

    def value_and_slopes(self, full: np.ndarray) -> tuple[float, np.ndarray]:
        """log N(y; c, C) and its derivatives by ``full`` (size,), for about three times the cost."""
        model, value = self.model, self.value(full)
        if value == -np.inf:
            return value, np.zeros(len(full))
        Y = None
        if self.functions is not None:
            root = solve_triangular(self._R, np.eye(len(self._R)))  # R^-1
            Y = blas.dtrsm(1.0, self._C.T, self._W @ root, lower=1, trans_a=1)
        trace, total = _slope_matrix(ROUTINES, self._C, self._u)
        if Y is not None:  # C^-1 = A^-1 - Y Y'
            self._C += 0.5 * (Y @ Y.T)
            trace += 0.5 * float(np.square(Y).sum())
        slopes = self._buffers.adjoint(self._unit, self._C, K=self.E)
        if Y is not None:
            by_scale = np.square(self._w) - 1.0 + np.square(root).sum(1)
            slopes += self.functions.exponents.T @ by_scale
        if self.scale is not None:
            slopes *= np.exp(2.0 * full[self.scale])
        if len(self.constants):
            variances = np.exp(2.0 * full[self.constants])
            np.add.at(slopes, self.constants, 2.0 * variances * total)
        model.add_noise_slopes(slopes, full, float(self._u.sum()), trace)
        return value, slopes


def require_gaussian(model: GPModel, where: str) -> None:
    """Refuse a model whose latents cannot be integrated out, in a message that begins with ``where``."""
    if not isinstance(model, GPModel):
        raise InputError(f"{where}: found {type(model).__name__}; allowed: a GPModel")
    if not model.likelihood.conjugate:
        raise InputError(
            f"{where}: the {model.likelihood.name} likelihood; allowed: gaussian and log_normal, whose "
            "latents can be integrated out; take expectation propagation for others"
        )
