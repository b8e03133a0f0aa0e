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
        away = self.contrasts[:, None] - self.contrasts[np.asarray(y, dtype=np.intp) - 1]
        values = np.einsum("cna,...an->...cn", away, eta)
        highest = values.max(axis=-2, keepdims=True)
        return -highest[..., 0, :] - np.log(np.exp(values - highest).sum(axis=-2))

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

    def class_probabilities(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(y = c) averaged over u ~ N(mean, diag variance) (..., C - 1, n), (C, ..., n); by `nodes`."""
        u = self.at_nodes(mean, variance) if np.any(variance) else mean[None]
        return np.moveaxis(np.exp(self.log_probabilities(u)).mean(0), -2, 0)


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
