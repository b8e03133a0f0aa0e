"""Ladders of inverse temperatures from 0 (reference) to 1 (posterior)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.adaptation.pilot import Pilot

LADDERS = ("adaptive", "geometric", "linear", "power")


def geometric(n_temperatures: int, smallest: float) -> np.ndarray:
    """beta_0 = 0, beta_t = b^((T - t) / (T - 1)), so beta_1 = b and beta_T = 1; shape (T + 1,)."""
    _require(n_temperatures)
    if not 0.0 < smallest <= 1.0:
        raise InputError(f"geometric ladder: smallest is {smallest!r}; allowed: 0 < smallest <= 1")
    if n_temperatures == 1:
        return np.array([0.0, 1.0])
    t = np.arange(1, n_temperatures + 1)
    return np.concatenate([[0.0], smallest ** ((n_temperatures - t) / (n_temperatures - 1))])


def power(n_temperatures: int, exponent: float = 4.0) -> np.ndarray:
    """beta_t = (t / T)^exponent, shape (T + 1,). Source: Kuss & Rasmussen (2005), exponent 4."""
    _require(n_temperatures)
    if not exponent > 0.0:
        raise InputError(f"power ladder: exponent is {exponent!r}; allowed: a positive number")
    return (np.arange(n_temperatures + 1) / n_temperatures) ** exponent


def linear(n_temperatures: int) -> np.ndarray:
    """beta_t = t / T, shape (T + 1,)."""
    return power(n_temperatures, 1.0)


def equal_distance(n_temperatures: int, betas: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Ladder with equal steps in a distance known at some betas, shape (T + 1,).

    ``distance`` (stages + 1,) starts at 0 and increases with ``betas``; between stages beta is
    linear in it.
    """
    _require(n_temperatures)
    ladder = np.interp(np.linspace(0.0, distance[-1], n_temperatures + 1), distance, betas)
    ladder[0], ladder[-1] = 0.0, 1.0
    return ladder


def check_ladder(betas: Sequence[float]) -> np.ndarray:
    """Return the ladder as an array; raise `InputError` unless it increases from 0 to 1."""
    ladder = np.asarray(betas, dtype=np.float64)
    if ladder.ndim != 1 or len(ladder) < 2 or ladder[0] != 0.0 or ladder[-1] != 1.0:
        raise InputError("ladder: the inverse temperatures must start at 0 and end at 1")
    if not np.all(np.diff(ladder) > 0.0):
        where = int(np.argmin(np.diff(ladder)))
        raise InputError(
            f"ladder: inverse temperature {where + 1} is {ladder[where + 1]:g} after "
            f"{ladder[where]:g}; they must increase"
        )
    return ladder


def _require(n_temperatures: int) -> None:
    if n_temperatures != int(n_temperatures) or n_temperatures < 1:
        raise InputError(f"ladder: n_temperatures is {n_temperatures!r}; allowed: 1, 2, 3, ...")


def make_ladder(kind: str, n_temperatures: int, pilot: Pilot) -> np.ndarray:
    """Ladder of that kind: the geometric one starts at 1 / sd(u), the adaptive is the pilot's."""
    if kind == "adaptive":
        return equal_distance(n_temperatures, pilot.betas, pilot.distance)
    if kind == "geometric":
        return geometric(n_temperatures, min(1.0 / max(pilot.ratio_sd, 1e-300), 0.5))
    if kind == "linear":
        return linear(n_temperatures)
    if kind == "power":
        return power(n_temperatures)
    raise unknown_name("annealing: ladder", kind, LADDERS)
