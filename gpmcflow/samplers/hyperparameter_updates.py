"""Updates of hyperparameters given a representation of the latents: slice sweeps, Metropolis-Hastings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.joint_workspace import JointWorkspace
from gpmcflow.samplers.univariate_slice import require_count, slice_on_line


class UpdateInfo(NamedTuple):
    """What a sweep tells."""

    acceptance_rate: (
        float  #: mean acceptance probability of Metropolis-Hastings proposals; 1 for slices
    )
    moved: bool  #: whether theta changed at all


class HyperparameterUpdate(Protocol):
    """Leaves exp(phi) p_h invariant. Frozen dataclass of settings, picklable."""

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> UpdateInfo:
        """Move theta, and f with it, of a chain whose variables it freezes first."""


@dataclass(frozen=True)
class SliceUpdate:
    """Slice update of each coordinate in a fresh random order, with the variables frozen once.

    A bracket of width sigma_d at random about theta_d, cut to the hyperprior's support, shrinks towards
    theta_d until phi + log p_h is above the level (`slice_on_line`). Source: Murray & Adams (2010),
    algorithm 4; order and widths as in their public code.

    Attributes
    ----------
    width:
        sigma_d in units of the width of the hyperprior's support (its central 99 % where that is
        infinite): a number, or one for each coordinate.
    max_steps:
        Most widths a bracket has: 1 for no stepping out.
    """

    width: float | tuple[float, ...] = 1.0
    max_steps: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _positive("SliceUpdate: width", self.width))
        require_count("SliceUpdate", "max_steps", self.max_steps)

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> UpdateInfo:
        """One update of every coordinate."""
        widths = _per_coordinate("SliceUpdate: width", self.width, chain)
        chain.begin_sweep(rng)
        moved = False
        for k in rng.permutation(len(chain.free)).tolist():
            place = chain.free[k]
            moved |= self._update(rng, chain, place, widths[k])
        return UpdateInfo(1.0, moved)

    def _update(
        self, rng: np.random.Generator, chain: JointWorkspace, place: int, width: float
    ) -> bool:
        x = float(chain.point.full[place])
        full = chain.point.full.copy()
        prior, phi = chain.priors[place], chain.phi

        def density(t: float) -> float:
            nonlocal phi
            log_prior = prior.log_density(t)
            if not np.isfinite(log_prior):
                return -np.inf  # no covariance work, and no count
            full[place] = t
            phi = chain.propose(full, place)
            return phi + log_prior

        value = chain.phi + prior.log_density(x)
        t, _ = slice_on_line(rng, density, x, value, width, self.max_steps, prior.support)
        if t == x:
            return False
        chain.accept(phi)
        return True


@dataclass(frozen=True)
class MetropolisUpdate:
    """Metropolis-Hastings updates: theta' is accepted by exp(phi' - phi) p_h' q / (p_h q').

    Source: Murray & Adams (2010), algorithms 1-3, by representation.

    Attributes
    ----------
    scale:
        Standard deviation of the random walk in units of the hyperprior's width, as in `SliceUpdate`.
    joint:
        Move all coordinates at once; else one after another in random order.
    proposal:
        "walk", or "prior" for independent draws of the hyperprior (``scale`` then has no effect).
    """

    scale: float | tuple[float, ...] = 0.1
    joint: bool = False
    proposal: str = "walk"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _positive("MetropolisUpdate: scale", self.scale))
        if self.proposal not in ("walk", "prior"):
            raise unknown_name("MetropolisUpdate: proposal", self.proposal, ("walk", "prior"))

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> UpdateInfo:
        """One proposal, or one for each coordinate."""
        widths = _per_coordinate("MetropolisUpdate: scale", self.scale, chain)
        chain.begin_sweep(rng)
        d = len(chain.free)
        groups = [list(range(d))] if self.joint else [[k] for k in rng.permutation(d).tolist()]
        rates, moved = [], False
        for group in groups:
            rate, accepted = self._update(rng, chain, group, widths)
            rates.append(rate)
            moved |= accepted
        return UpdateInfo(float(np.mean(rates)), moved)

    def _update(self, rng, chain: JointWorkspace, group: list[int], widths) -> tuple[float, bool]:
        places = [chain.free[k] for k in group]
        old, full = chain.point.full[places], chain.point.full.copy()
        if self.proposal == "prior":
            full[places] = [float(chain.priors[p].draw(rng)) for p in places]
        else:
            full[places] = old + widths[group] * rng.standard_normal(len(group))
        log_u = np.log1p(-rng.random())
        before = sum(chain.log_prior(p, v) for p, v in zip(places, old, strict=True))
        after = sum(chain.log_prior(p, full[p]) for p in places)
        if not np.isfinite(after):
            return 0.0, False
        current = chain.phi
        phi = chain.propose(full, places[0] if len(places) == 1 else None)
        ratio = phi - current + (after - before if self.proposal == "walk" else 0.0)
        rate = float(np.exp(min(ratio, 0.0)))
        if not log_u < ratio:
            return rate, False
        chain.accept(phi)
        return rate, True


UPDATES: dict[str, type] = {"metropolis": MetropolisUpdate, "slice": SliceUpdate}


def hyperparameter_update(name: str, **settings: object) -> HyperparameterUpdate:
    """Return the update of that name, e.g. ``hyperparameter_update("slice", width=0.5)``."""
    if name not in UPDATES:
        raise unknown_name("hyperparameter update", name, UPDATES)
    fields = UPDATES[name].__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"hyperparameter update {name}: setting", key, fields)
    return UPDATES[name](**settings)


def _positive(where: str, value: object) -> float | tuple[float, ...]:
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.ndim != 1 or not np.all(np.isfinite(values) & (values > 0)):
        raise InputError(f"{where} is {value!r}; allowed: a positive number, or one a coordinate")
    return float(values[0]) if np.ndim(value) == 0 else tuple(values.tolist())


def _per_coordinate(where: str, setting: object, chain: JointWorkspace) -> np.ndarray:
    own = np.array([prior.width for prior in chain.model.parameters.free_priors])
    if np.ndim(setting) and len(setting) != len(own):
        raise InputError(f"{where} has {len(setting)} entries; allowed: one for all, or {len(own)}")
    return own * np.asarray(setting)
