"""Symmetric matrices that are diagonal but for some rows and columns: Phi' W Phi with indicators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ArrowMatrix(NamedTuple):
    """[[diag(d), E'], [E, F]], the first block at places ``tips``, the second at ``rest`` of m in all.

    With no tips it is a full matrix.
    """

    tips: np.ndarray  #: (L,)
    rest: np.ndarray  #: (k,)
    d: np.ndarray  #: (L,)
    E: np.ndarray  #: (k, L)
    F: np.ndarray  #: (k, k)

    def dot(self, v: np.ndarray) -> np.ndarray:
        """Its product with v (m,)."""
        a, b = v[self.tips], v[self.rest]
        out = np.empty(len(v))
        out[self.tips] = self.d * a + b @ self.E
        out[self.rest] = self.E @ a + self.F @ b
        return out

    def scaled(self, factor: float) -> ArrowMatrix:
        """The matrix times a number."""
        return self._replace(d=factor * self.d, E=factor * self.E, F=factor * self.F)

    def dense(self) -> np.ndarray:
        """All of it (m, m)."""
        out = np.zeros((len(self.tips) + len(self.rest),) * 2)
        out[self.tips, self.tips] = self.d
        out[np.ix_(self.rest, self.tips)], out[np.ix_(self.tips, self.rest)] = self.E, self.E.T
        out[np.ix_(self.rest, self.rest)] = self.F
        return out
