"""Levels of an outcome, such as grades or classes: how many there are, or their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.errors import InputError


def checked_levels(levels: Any, who: str, noun: str, such_as: str) -> int | tuple[str, ...]:
    """The number of levels, 2 or more, or their names as a tuple.

    Raises `InputError` that speaks of ``noun``, such as grades, and shows names ``such_as`` these.
    """
    if isinstance(levels, bool) or not isinstance(levels, int | np.integer):
        named = () if levels is None or isinstance(levels, str | bool) else tuple(levels)
        if len(set(named)) < max(2, len(named)) or not all(isinstance(n, str) for n in named):
            raise InputError(
                f"{who} likelihood: levels is {levels!r}; allowed: the number of {noun}, or their names "
                f"{such_as}"
            )
        return named
    if levels < 2:
        raise InputError(f"{who} likelihood: levels is {levels}; allowed: 2 {noun} or more")
    return int(levels)


def coded_levels(y: Any, levels: int | Sequence[str] | None, who: str, noun: str) -> Any:
    """Places 1 to C of the names of levels; numbers, which are places, as they are.

    Raises `InputError` that speaks of ``noun``, such as grades, for a name that is not among the levels, and
    for words where no level has a name.
    """
    if isinstance(getattr(y, "dtype", None), pd.CategoricalDtype):
        y = y.astype(object).to_numpy()
    values = np.asarray(y)
    if values.dtype.kind in "iufb":
        return values
    if not isinstance(levels, tuple):
        if are_numbers(values):
            return y
        names = tuple(sorted({str(value) for value in values.ravel()}))
        stated = "left out" if levels is None else str(levels)
        raise InputError(
            f"{who} likelihood: y[0] is {str(values.ravel()[0])!r}, and levels is {stated}; name the {noun} "
            f"in their order, such as levels={names[:4]!r}"
        )
    places = {level: k + 1.0 for k, level in enumerate(levels)}
    for i, value in enumerate(values.ravel()):
        if str(value) not in places:
            raise InputError(
                f"{who} likelihood: y[{i}] is {str(value)!r}; allowed: {', '.join(levels)}; add it to "
                "levels, or leave the case out"
            )
    return np.array([places[str(value)] for value in values.ravel()]).reshape(values.shape)


def are_numbers(values: np.ndarray) -> bool:
    """Whether all observations are numbers, or text of them."""
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return False
    return True


def require_levels(y: np.ndarray, n_levels: int, who: str, noun: str) -> None:
    """Raise `InputError` unless y are whole numbers from 1 to the number of levels."""
    wrong = np.flatnonzero((y != np.floor(y)) | (y < 1.0) | (y > n_levels))
    if wrong.size:
        from_zero = "; where they count from 0, write y + 1" if y.min() == 0.0 else ""
        raise InputError(
            f"{who} likelihood: y[{wrong[0]}] is {y[wrong[0]]:g}; allowed: {noun} 1 to {n_levels}, or their "
            f"names as words{from_zero}"
        )
