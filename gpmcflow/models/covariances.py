"""Covariance functions of Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError


def squared_distances(X: np.ndarray, X2: np.ndarray | None = None) -> np.ndarray:
    """Squared Euclidean distances between the rows of X (n, p) and X2 (m, p), shape (n, m).

    Clamped at zero; the diagonal of X against itself is exactly zero, so that a covariance
    matrix has exactly its signal variance there.
    """
    X = np.asarray(X, dtype=np.float64)
    centre = X.mean(0)  # distances do not change, but |x|^2 + |x'|^2 - 2 x'x cancels far from zero
    other = X - centre if X2 is None else np.asarray(X2, dtype=np.float64) - centre
    X = X - centre
    distances = (X**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2.0 * (X @ other.T)
    np.maximum(distances, 0.0, out=distances)
    if X2 is None:
        distances = 0.5 * (distances + distances.T)
        np.fill_diagonal(distances, 0.0)
    return distances


@dataclass(frozen=True)
class SquaredExponential:
    """k(x, x') = s^2 exp(-sum_d (x_d - x'_d)^2 / (2 l_d^2)).

    ``length_scale`` l is a positive number (isotropic) or one per feature (ARD), in the units of
    the features; ``signal_sd`` s is in the units of the latent function. Raises `InputError` for
    values that are not positive and finite. Source: Rasmussen & Williams (2006), eqs. 4.9, 5.1.
    """

    length_scale: float | tuple[float, ...] = 1.0
    signal_sd: float = 1.0

    def __post_init__(self) -> None:
        scale = np.asarray(self.length_scale, dtype=np.float64)
        if scale.ndim > 1 or scale.size == 0 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise InputError(
                f"SquaredExponential: length_scale is {self.length_scale!r}; allowed: a positive "
                "number, or one positive number per feature"
            )
        if not (np.isfinite(self.signal_sd) and self.signal_sd > 0):
            raise InputError(
                f"SquaredExponential: signal_sd is {self.signal_sd!r}; allowed: a positive number"
            )
        if scale.ndim == 1:  # a tuple keeps the dataclass hashable and its repr plain
            object.__setattr__(self, "length_scale", tuple(float(s) for s in scale))

    def __call__(self, X: np.ndarray, X2: np.ndarray | None = None) -> np.ndarray:
        """Covariance matrix of the rows of X (n, p) with those of X2 (m, p), shape (n, m)."""
        scaled = self._scale(X)
        other = None if X2 is None else self._scale(X2)
        return self.signal_sd**2 * np.exp(-0.5 * squared_distances(scaled, other))

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Prior variances k(x, x) of the rows of X, shape (n,)."""
        return np.full(len(X), self.signal_sd**2)

    def _scale(self, X: np.ndarray) -> np.ndarray:
        X = np.asarray(X, dtype=np.float64)
        scale = np.asarray(self.length_scale)
        if scale.ndim == 1 and scale.size != X.shape[1]:
            raise InputError(
                f"SquaredExponential: {scale.size} length scales for {X.shape[1]} features; "
                "allowed: one for all, or one per feature"
            )
        return X / scale
