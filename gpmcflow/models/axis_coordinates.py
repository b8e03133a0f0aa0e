"""Coordinates along the principal axes of a Gaussian, and cases in two parts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from gpmcflow.errors import unknown_name
from gpmcflow.models.linear_maps import push_forward


class AxisCoordinates:
    """Coordinates along principal axes, theta = mean + V diag(1 / omega) zeta, and cases in two parts.

    A subclass has ``mean``, `axes` and `frequencies`; and for cases in two parts ``model``, ``split``
    (fraction, order) and `_curvature`.
    """

    triangular = False  # the predictor factor is dense
    model: Any
    mean: np.ndarray
    split: Any

    @property
    def axes(self) -> np.ndarray:
        """V (d, d), one axis a column."""
        raise NotImplementedError

    @property
    def frequencies(self) -> np.ndarray:
        """Omega (d,)."""
        raise NotImplementedError

    def _curvature(self) -> np.ndarray:
        """What cases are ranked by, (n,)."""
        raise NotImplementedError

    @property
    def principal_axes(self) -> Self:
        """The coordinates are along principal axes already."""
        return self

    @cached_property
    def factor(self) -> np.ndarray:
        """V diag(1 / omega) (d, d)."""
        return np.asfortranarray(self.axes / self.frequencies)

    def latent(self, zeta: np.ndarray) -> np.ndarray:
        """Theta of coordinates zeta (..., d)."""
        return push_forward(self.factor, zeta, triangular=False) + self.mean

    def from_latent(self, theta: np.ndarray) -> np.ndarray:
        """Coordinates zeta of latents theta (..., d)."""
        return (theta - self.mean) @ self.axes * self.frequencies

    @cached_property
    def case_indices(self) -> tuple[np.ndarray, np.ndarray]:
        """Cases of the two parts, ascending."""
        (fraction, order), n = self.split, self.model.n_cases
        size = min(max(round(fraction * n), 1), n - 1)
        if order == "random":
            ranked = np.random.default_rng(n).permutation(n)
        else:
            ranked = np.argsort(-self._curvature(), kind="stable")
        return np.sort(ranked[:size]), np.sort(ranked[size:])

    def join_cases(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Arrays (..., part of the cases) as one (..., n) in the order of the cases."""
        joined = np.empty((*first.shape[:-1], self.model.n_cases))
        joined[..., self.case_indices[0]], joined[..., self.case_indices[1]] = first, second
        return joined


def check_order(order: str) -> None:
    """Refuse an order of the cases that there is not."""
    if order not in ("curvature", "random"):
        raise unknown_name("split of the cases: order", order, ("curvature", "random"))
