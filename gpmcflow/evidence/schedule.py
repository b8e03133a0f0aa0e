"""Ladders of inverse temperatures, and what else a pilot finds and the estimation run then keeps fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpmcflow.approximations.laplace import tempered_mode
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution import array_digest
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.adaptation.pilot import Pilot
from gpmcflow.samplers.latent.protocol import LatentSampler

# Ladders of inverse temperatures from 0 (reference) to 1 (posterior).

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


# What a pilot finds and the estimation run then keeps fixed: ladder, step sizes, coordinates.


@dataclass(frozen=True, eq=False)
class Schedule:
    """Frozen settings of an annealing run, one entry per inverse temperature (T + 1 of them).

    Attributes
    ----------
    betas:
        The ladder, 0 = beta_0 < .. < beta_T = 1.
    step_size, n_steps:
        Of the sampler at each beta.
    bases:
        Gaussians (sites precision and shift, each (B, n)) whose standardised coordinates the
        sampler moves in, or None for those of the reference.
    base_index:
        Which of them each beta uses (T + 1,).
    """

    betas: np.ndarray
    step_size: np.ndarray
    n_steps: np.ndarray
    bases: tuple[np.ndarray, np.ndarray] | None = None
    base_index: np.ndarray | None = None

    @classmethod
    def constant(cls, betas: np.ndarray, sampler: LatentSampler) -> Schedule:
        """Use the sampler's own step size and number of steps at every beta."""
        betas = check_ladder(betas)
        steps = np.full(len(betas), sampler.n_steps)
        return cls(betas, np.full(len(betas), float(sampler.step_size)), steps)

    @classmethod
    def from_pilot(cls, pilot: Pilot, path: TemperedPath, betas: np.ndarray) -> Schedule:
        """Tuned settings for any ladder: between stages, log step size and steps by interpolation."""
        betas = check_ladder(betas)
        step_size = np.exp(np.interp(betas, pilot.betas, np.log(pilot.step_size)))
        n_steps = np.rint(np.interp(betas, pilot.betas, pilot.n_steps)).astype(int)
        schedule = cls(betas, step_size, n_steps)
        return schedule.with_mode_bases(path, pilot.betas) if pilot.mode_bases else schedule

    def digest(self) -> str:
        """SHA-256 of all its numbers."""
        arrays = {"betas": self.betas, "step_size": self.step_size, "n_steps": self.n_steps}
        if self.bases is not None:
            arrays |= {"precision": self.bases[0], "shift": self.bases[1], "index": self.base_index}
        return array_digest(arrays)

    @property
    def n_temperatures(self) -> int:
        """T, the number of weight increments."""
        return len(self.betas) - 1

    def sampler(self, prototype: LatentSampler, index: int) -> LatentSampler:
        """Return the prototype with the step size and number of steps of one temperature."""
        return prototype.with_steps(float(self.step_size[index]), int(self.n_steps[index]))

    def base(self, path: TemperedPath, index: int) -> GaussianSites | None:
        """Gaussian part of one temperature, None for the reference."""
        if self.bases is None:
            return None
        row = int(self.base_index[index])
        return GaussianSites(path.model, self.bases[0][row], self.bases[1][row])

    def with_mode_bases(self, path: TemperedPath, at: np.ndarray) -> Schedule:
        """Move in coordinates standardised by the curvature at the mode of h_beta (H1_beta).

        ``at`` lists the betas > 0 whose modes are found (one factorisation each, shared by all
        particles); a temperature uses the nearest of them from above. The metric does not depend
        on the particle, so any choice leaves h_beta invariant.
        """
        at = np.unique(np.append(at[at > 0.0], 1.0))
        start, rows = None, []
        for beta in at:
            sites, _ = tempered_mode(path, float(beta), start)
            start = sites.whitened_mean
            rows.append((sites.precision, sites.shift))
        bases = tuple(np.stack(column) for column in zip(*rows, strict=True))
        index = np.searchsorted(at, self.betas * (1.0 - 1e-12))
        return replace(self, bases=bases, base_index=np.minimum(index, len(at) - 1))
