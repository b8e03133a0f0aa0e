"""Updates of hyperparameters given a representation of the latents: slice sweeps, Metropolis-Hastings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.density.univariate_slice import slice_on_line
from gpmcflow.samplers.joint.workspace import JointWorkspace
from gpmcflow.samplers.protocol import require_count, require_positive


class HyperparameterUpdate(Protocol):
    """Leaves exp(phi) p_h invariant. Frozen dataclass of settings, picklable."""

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> float:
        """Move theta, and f with it, of a chain whose variables it freezes first.

        Returns the mean acceptance probability of its proposals, 1 for slices.
        """


@dataclass(frozen=True)
class SliceUpdate:
    """Slice update of each hyperparameter in a fresh random order, for `SurrogateSlice`.

    A bracket of width sigma_d at random about theta_d, cut to the hyperprior's support, shrinks towards
    theta_d until phi + log p_h is above the level (`slice_on_line`), phi the log density that the
    representation of the latents leaves to theta, p_h the hyperprior. The representation's variables are
    frozen once a sweep.

    Source: Murray & Adams (2010), algorithm 4; order and widths as in their public code.

    Attributes
    ----------
    width:
        sigma_d > 0 in units of the width of the hyperprior's support (its central 99 % where that is
        infinite): a number, or one for each coordinate of theta.
    max_steps:
        Most widths a bracket has: 1 for no stepping out.

    Raises
    ------
    InputError:
        For settings out of range, and, on a model, a wrong number of widths.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> sampler = gp.SurrogateSlice(update=gp.SliceUpdate(width=(0.5, 1.0)))
    >>> draws = gp.sample(model, sampler, n_chains=1, n_draws=50)
    >>> bool((draws.sample_stats["n_hyp"] >= 2).all())  # settings of theta tried, two coordinates
    True
    """

    width: float | tuple[float, ...] = 1.0
    max_steps: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", require_positive("SliceUpdate: width", self.width))
        require_count("SliceUpdate", "max_steps", self.max_steps)

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> float:
        """One update of every coordinate."""
        widths = _per_coordinate("SliceUpdate: width", self.width, chain)
        chain.begin_sweep(rng)
        for k in rng.permutation(len(chain.free)).tolist():
            self._update(rng, chain, chain.free[k], widths[k])
        return 1.0

    def _update(
        self, rng: np.random.Generator, chain: JointWorkspace, place: int, width: float
    ) -> None:
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
        if t != x:
            chain.accept(phi)


@dataclass(frozen=True)
class MetropolisUpdate:
    """Metropolis-Hastings update of hyperparameters, for `SurrogateSlice`.

    theta' is accepted with probability min(1, exp(phi' - phi) p_h' q / (p_h q')), phi the log density that
    the representation of the latents leaves to theta, p_h the hyperprior, q the proposal.

    Source: Murray & Adams (2010), algorithms 1-3, by representation.

    Attributes
    ----------
    scale:
        Standard deviation > 0 of the random walk in units of the hyperprior's width, as in `SliceUpdate`: a
        number, or one for each coordinate of theta.
    joint:
        Move all coordinates at once; else one after another in random order.
    proposal:
        "walk", or "prior" for independent draws of the hyperprior (``scale`` then has no effect).

    Raises
    ------
    InputError:
        For settings out of range, an unknown proposal, and, on a model, a wrong number of scales.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> sampler = gp.SurrogateSlice("prior-white", gp.MetropolisUpdate(scale=0.2, joint=True))
    >>> draws = gp.sample(model, sampler, n_chains=1, n_draws=50)
    >>> bool((draws.sample_stats["n_hyp"] <= 1).all())  # settings of theta tried, both coordinates at once
    True
    """

    scale: float | tuple[float, ...] = 0.1
    joint: bool = False
    proposal: str = "walk"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", require_positive("MetropolisUpdate: scale", self.scale))
        if self.proposal not in ("walk", "prior"):
            raise unknown_name("MetropolisUpdate: proposal", self.proposal, ("walk", "prior"))

    def sweep(self, rng: np.random.Generator, chain: JointWorkspace) -> float:
        """One proposal, or one for each coordinate."""
        widths = _per_coordinate("MetropolisUpdate: scale", self.scale, chain)
        chain.begin_sweep(rng)
        d = len(chain.free)
        groups = [list(range(d))] if self.joint else [[k] for k in rng.permutation(d).tolist()]
        return float(np.mean([self._update(rng, chain, group, widths) for group in groups]))

    def _update(self, rng, chain: JointWorkspace, group: list[int], widths) -> float:
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
            return 0.0
        current = chain.phi
        phi = chain.propose(full, places[0] if len(places) == 1 else None)
        ratio = phi - current + (after - before if self.proposal == "walk" else 0.0)
        if log_u < ratio:
            chain.accept(phi)
        return float(np.exp(min(ratio, 0.0)))


def _per_coordinate(where: str, setting: Any, chain: JointWorkspace) -> np.ndarray:
    own = np.array([prior.width for prior in chain.model.parameters.free_priors])
    if np.ndim(setting) and len(setting) != len(own):
        raise InputError(f"{where} has {len(setting)} entries; allowed: one for all, or {len(own)}")
    return own * np.asarray(setting)
