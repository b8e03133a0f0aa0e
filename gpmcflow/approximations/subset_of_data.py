"""Subset of data: the log posterior of some of the cases as a stand-in for that of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import require_gaussian
from gpmcflow.models.regression_density import RegressionDensity


class SubsetOfData(RegressionDensity):
    """Stand-in for a regression's log posterior: that of some of its cases, O(m^3) instead of O(n^3).

    log N(y_I; c, C_II) + log p_h(theta) for the cases I. As a density of theta it is broader than the
    posterior, having seen less. Called with theta (d,), it returns a number.

    Source: Wang & Neal (2013), section 4.1, eq. 31 (y there is y_I).

    Parameters
    ----------
    model:
        A `GPModel` with Gaussian noise.
    cases:
        I, m different whole numbers from 0 to n - 1, two or more.

    Raises
    ------
    InputError:
        For another likelihood, and for cases that repeat (C_II without noise would be singular), do not
        exist, or are fewer than two.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> stand_in = gp.SubsetOfData(model, cases=[0, 2, 4, 6])
    >>> exact = gp.RegressionDensity(model.take(np.array([0, 2, 4, 6])))
    >>> stand_in(np.zeros(2)) == exact(np.zeros(2))
    True
    """

    def __init__(self, model: GPModel, cases: Sequence[int] | np.ndarray) -> None:
        require_gaussian(model, "SubsetOfData")
        self.cases = checked_cases(cases, model.n_cases, "SubsetOfData")
        super().__init__(model.take(self.cases))


def nested_subsets(
    n_cases: int, sizes: Sequence[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the first m cases of one random permutation for each size m: each set holds the smaller ones.

    Layers of tempered transitions whose subsets are nested differ by what the larger one adds, not by
    two independent choices. Raises `InputError` for a size below 2 or above n.
    """
    for m in sizes:
        _require_size(m, n_cases, "nested_subsets")
    order = rng.permutation(n_cases)
    return [order[:m].copy() for m in sizes]


def checked_cases(cases: Sequence[int] | np.ndarray, n_cases: int, where: str) -> np.ndarray:
    """Cases as an integer array (m,), or `InputError`."""
    chosen = np.asarray(cases)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise InputError(
            f"{where}: cases is {chosen.dtype} of shape {chosen.shape}; allowed: a list of integers"
        )
    _require_size(len(chosen), n_cases, where)
    if chosen.min() < 0 or chosen.max() >= n_cases:
        raise InputError(
            f"{where}: cases range over {chosen.min()} to {chosen.max()}; allowed: 0 to {n_cases - 1}"
        )
    values, counts = np.unique(chosen, return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"{where}: case {values[counts.argmax()]} is in the subset {counts.max()} times; "
            "allowed: once; draw without replacement"
        )
    return chosen.astype(np.int64)


def _require_size(m: int, n_cases: int, where: str) -> None:
    if not 2 <= m <= n_cases:
        raise InputError(
            f"{where}: m is {m}; allowed: 2 to the number of cases, {n_cases}; take a smaller m"
            if m > n_cases
            else f"{where}: m is {m}; allowed: 2 to {n_cases}"
        )
