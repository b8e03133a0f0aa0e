"""Constants of a likelihood: numbers, or one for each case."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution.digest import array_digest


def positive_constant(value: Any, where: str) -> float | np.ndarray:
    """Return a positive number, or an array of them that cannot be written to."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if array.ndim > 1 or not array.size or wrong.size:
        shown = repr(value)
        if array.ndim:
            shown = f"of shape {array.shape}"
        if array.ndim == 1 and wrong.size:
            where, shown = f"{where}[{wrong[0]}]", f"{array[wrong[0]]:g}"
        raise InputError(f"{where} is {shown}; allowed: a positive number, or one for each case")
    array.setflags(write=False)
    return array if array.ndim else float(array)


def by_case(value: Any, where: str, allowed: str) -> np.ndarray:
    """Numbers of each case (n,), which may be nan, in an array that cannot be written to."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim != 1 or not array.size:
        shown = f"of shape {array.shape}" if array.ndim > 1 or np.ndim(value) else repr(value)
        raise InputError(f"{where} is {shown}; allowed: one for each case: {allowed}")
    array.setflags(write=False)
    return array


def value_text(value: Any) -> str:
    """A setting in a repr: of an array shape and digest."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"array({value.shape}, {array_digest({'': value})[:16]})"
