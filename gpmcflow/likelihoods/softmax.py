"""Softmax likelihood: one of several classes that have no order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.levels import checked_levels, coded_levels, require_levels
from gpmcflow.likelihoods.multi import MultiLikelihood
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential

BLOCK = 256  # cases at a time


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(MultiLikelihood):
    """One of C classes: p(y = c | u) = e^(eta_c) / sum_k e^(eta_k), eta = A u.

    A (C, C - 1) has orthonormal columns orthogonal to 1 (Helmert's contrasts), so that the C - 1 latent
    functions u have no direction that data cannot see. All have one covariance and one set of
    hyperparameters, which makes the prior the same for every order of the classes: eta has the covariance
    (I - 1 1' / C) k. Two classes are `Logistic` with a latent sqrt(2) times as large.

    Attributes
    ----------
    levels:
        How many classes there are, or their names, as y then has them. None: those of y, sorted; whole
        numbers from 1 are the classes 1 to the largest, others, such as 0, 1, 2, are names.

    Raises
    ------
    InputError:
        For fewer than two levels, and names that repeat; in a model, for classes that are not among them.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Softmax(levels=("ash", "beech", "oak"))
    >>> likelihood.class_probabilities(np.zeros((2, 1)), np.zeros((2, 1))).ravel().round(4)
    array([0.3333, 0.3333, 0.3333])
    """

    levels: int | Sequence[str] | None = None
    name = "softmax"
    options = ("levels",)
    discrete = True
    relative_sites = True
    same_prior = True
    log_concave = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is not None:
            such_as = "such as ('ash', 'beech', 'oak')"
            levels = checked_levels(self.levels, "Softmax", "classes", such_as)
            object.__setattr__(self, "levels", levels)

    @property
    def n_levels(self) -> int:
        """C, how many classes there are."""
        levels: Any = self.levels
        if levels is None:
            raise InputError("softmax likelihood: levels is left out; give it, or a model with y")
        return int(levels) if isinstance(levels, int | np.integer) else len(levels)

    @property
    def functions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the contrasts; one stands for all where levels are left to y."""
        n = 2 if self.levels is None else self.n_levels
        return tuple(f"contrast[{k}]" for k in range(1, n))

    @property
    def classes(self) -> tuple[str, ...] | range:
        """Names of the classes, or their numbers."""
        return self.levels if isinstance(self.levels, tuple) else range(1, self.n_levels + 1)

    @property
    def contrasts(self) -> np.ndarray:
        """A (C, C - 1)."""
        return _helmert(self.n_levels)

    # -- observations ----------------------------------------------------------------------------

    def with_levels_of(self, y: Any) -> Softmax:
        """Return the likelihood with the classes of y for its levels, unless they are stated."""
        if self.levels is not None:
            return self
        if isinstance(getattr(y, "dtype", None), pd.CategoricalDtype):
            return Softmax(tuple(str(level) for level in y.dtype.categories))
        values = np.asarray(y)
        if values.dtype.kind in "iufb":
            numbers = values.astype(float).ravel()
            if not np.isfinite(numbers).all() or not numbers.size:  # which the model refuses
                return self
            part = np.flatnonzero(numbers != np.floor(numbers))
            if part.size:
                raise InputError(
                    f"softmax likelihood: y[{part[0]}] is {numbers[part[0]]:g}; allowed: whole numbers, or "
                    "names as words"
                )
            if numbers.min() < 1:
                return Softmax(tuple(_as_words(np.unique(numbers))))
            return Softmax(max(2, int(numbers.max())))
        return Softmax(tuple(sorted({str(value) for value in values.ravel()})))

    def coded(self, y: Any) -> Any:
        """Numbers 1 to C of names of levels; numbers are classes, or names where levels are left to y."""
        levels = self.with_levels_of(y).levels
        if self.levels is None and isinstance(levels, tuple):
            y = _as_words(y)
        return coded_levels(y, levels, self.name, "classes")

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless classes are whole numbers from 1 to C."""
        super().validate(y)
        require_levels(y, self.n_levels, self.name, "classes")

    # -- densities -------------------------------------------------------------------------------

    def log_probabilities(self, eta: np.ndarray) -> np.ndarray:
        """Return log p(y = c | u) (..., C, n) of contrasts u (..., C - 1, n)."""
        values = self.contrasts @ eta
        values -= values.max(axis=-2, keepdims=True)
        return values - np.log(np.exp(values).sum(axis=-2, keepdims=True))

    def case_log_density(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return -log sum_c e^(eta_c - eta_y), the contrasts of each class with the one seen."""
        away = self.contrasts[:, :, None] - self.contrasts[np.asarray(y, dtype=np.intp) - 1].T[None]
        eta = np.ascontiguousarray(eta, dtype=np.float64)
        out = np.empty((*eta.shape[:-2], eta.shape[-1]))
        _log_shares(away, eta.reshape(-1, *eta.shape[-2:]), out.reshape(-1, out.shape[-1]))
        return out

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p and its gradient A'(e_y - p)."""
        log_p = self.log_probabilities(eta)
        place = np.asarray(y, dtype=np.intp) - 1
        value = np.take_along_axis(
            log_p, np.broadcast_to(place, (*log_p.shape[:-2], 1, place.size)), axis=-2
        )[..., 0, :]
        observed = self.contrasts[place].T
        return value, observed - self.contrasts.T @ np.exp(log_p)

    def information_blocks(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return A'(diag p - p p')A of each case, which is minus the Hessian."""
        A, p = self.contrasts, np.exp(self.log_probabilities(eta))
        first = A.T @ p
        blocks = np.einsum("ca,...cn,cb->...abn", A, p, A)
        return blocks - first[..., :, None, :] * first[..., None, :, :]

    def densities(self, y: np.ndarray) -> np.ndarray:
        """Nowhere."""
        return np.zeros(len(y), dtype=bool)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draw classes 1 to C."""
        p = np.exp(self.log_probabilities(eta))
        below = np.cumsum(p, axis=-2)[..., :-1, :]
        uniform = rng.random((*p.shape[:-2], 1, p.shape[-1]))
        return 1.0 + (uniform > below).sum(-2).astype(float)

    # -- responses -------------------------------------------------------------------------------

    def class_probabilities(
        self, mean: np.ndarray, variance: np.ndarray, nodes: np.ndarray | None = None
    ) -> np.ndarray:
        """P(y = c) averaged over u ~ N(mean, diag variance) (..., C - 1, n), (C, ..., n); by `nodes`."""
        z = self.nodes() if nodes is None else nodes
        z = z if np.any(variance) else np.zeros((1, len(self.functions)))
        q, shape = np.shape(mean)[-2], (*np.shape(mean)[:-2], np.shape(mean)[-1])
        mean, sd = (np.moveaxis(own, -2, 0).reshape(q, -1) for own in (mean, np.sqrt(variance)))
        out = np.empty((self.n_levels, mean.shape[1]))
        _average_shares(
            self.contrasts, z, np.ascontiguousarray(mean), np.ascontiguousarray(sd), out
        )
        return out.reshape(-1, *shape)


@compiled(fastmath={"contract"})
def _log_shares(away, eta, out):
    """out (k, n) = -log sum_c exp(sum_a away[c, a] eta[:, a]), away (c, a, n), eta (k, a, n)."""
    n_classes, n_contrasts, n = away.shape
    values, highest, total = np.empty((n_classes, n)), np.empty(n), np.empty(n)
    for k in range(len(eta)):
        highest[:], total[:] = -np.inf, 0.0
        for c in range(n_classes):
            for i in range(n):
                values[c, i] = away[c, 0, i] * eta[k, 0, i]
            for a in range(1, n_contrasts):
                for i in range(n):
                    values[c, i] += away[c, a, i] * eta[k, a, i]
            for i in range(n):
                highest[i] = max(highest[i], values[c, i])
        for c in range(n_classes):
            for i in range(n):
                total[i] += exponential(values[c, i] - highest[i])
        for i in range(n):
            out[k, i] = -highest[i] - np.log(total[i])


@compiled(fastmath={"contract"})
def _average_shares(contrasts, z, mean, sd, out):
    """out (C, n): softmax of contrasts @ (mean + sd z), averaged over nodes z (k, q); mean and sd (q, n)."""
    n_classes, n_contrasts = contrasts.shape
    values, u = np.empty((n_classes, BLOCK)), np.empty(BLOCK)
    highest, total = np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, mean.shape[1], BLOCK):
        n = min(BLOCK, mean.shape[1] - first)
        out[:, first : first + n] = 0.0
        for node in range(len(z)):
            values[:] = 0.0
            for a in range(n_contrasts):
                for i in range(n):
                    u[i] = mean[a, first + i] + sd[a, first + i] * z[node, a]
                for c in range(n_classes):
                    for i in range(n):
                        values[c, i] += contrasts[c, a] * u[i]
            highest[:], total[:] = -np.inf, 0.0
            for c in range(n_classes):
                for i in range(n):
                    highest[i] = max(highest[i], values[c, i])
            for c in range(n_classes):
                for i in range(n):
                    values[c, i] = exponential(values[c, i] - highest[i])
                    total[i] += values[c, i]
            for i in range(n):
                total[i] = 1.0 / (len(z) * total[i])
            for c in range(n_classes):
                for i in range(n):
                    out[c, first + i] += values[c, i] * total[i]


@cache
def _helmert(n: int) -> np.ndarray:
    """Orthonormal columns orthogonal to 1, (n, n - 1)."""
    A = np.zeros((n, n - 1))
    for k in range(1, n):
        A[:k, k - 1], A[k, k - 1] = 1.0, -float(k)
        A[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return A


def _as_words(y: Any) -> Any:
    """Whole numbers as words; words and categories as they are."""
    if isinstance(getattr(y, "dtype", None), pd.CategoricalDtype):
        return y
    values = np.asarray(y)
    return [f"{value:.0f}" for value in values.astype(float)] if values.dtype.kind in "iufb" else y
