"""Samplers by name. A new sampler is one file, one line here, and its tests."""

from __future__ import annotations

from typing import Any

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.density.collapsed_scale import CollapsedScale
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain
from gpmcflow.samplers.density.fitted_independence import FittedIndependence
from gpmcflow.samplers.density.hmc import DensityHMC
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.density.univariate_slice import UnivariateSlice
from gpmcflow.samplers.joint.fitted_independence import JointIndependence
from gpmcflow.samplers.joint.pseudo_marginal import PseudoMarginalHMC
from gpmcflow.samplers.joint.pseudo_marginal_independence import PseudoMarginalIndependence
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.joint.surrogate_slice import SurrogateSlice
from gpmcflow.samplers.latent.data_split_hmc import DataSplitHMC
from gpmcflow.samplers.latent.elliptical_slice import EllipticalSlice
from gpmcflow.samplers.latent.hamiltonian import HMC, LatentHMC, PreconditionedSplitHMC, SplitHMC
from gpmcflow.samplers.latent.metropolis import IndependenceMetropolis, RandomWalkMetropolis
from gpmcflow.samplers.latent.rmhmc import RMHMC
from gpmcflow.samplers.protocol import LATENTS, Sampler

SAMPLERS: dict[str, type[Sampler]] = {
    "collapsed_scale": CollapsedScale,
    "data_split_hmc": DataSplitHMC,
    "density_hmc": DensityHMC,
    "discretizing_chain": DiscretizingChain,
    "elliptical_slice": EllipticalSlice,
    "fitted_independence": FittedIndependence,
    "hmc": HMC,
    "independence_metropolis": IndependenceMetropolis,
    "joint_independence": JointIndependence,
    "joint_split_hmc": JointSplitHMC,
    "latent_hmc": LatentHMC,
    "preconditioned_split_hmc": PreconditionedSplitHMC,
    "pseudo_marginal_hmc": PseudoMarginalHMC,
    "pseudo_marginal_independence": PseudoMarginalIndependence,
    "random_walk_metropolis": RandomWalkMetropolis,
    "rmhmc": RMHMC,
    "split_hmc": SplitHMC,
    "surrogate_slice": SurrogateSlice,
    "tempered_transitions": TemperedTransitions,
    "univariate_slice": UnivariateSlice,
}
LATENT_SAMPLERS = {name: kind for name, kind in SAMPLERS.items() if kind.samples == LATENTS}

__all__ = [
    "LATENT_SAMPLERS", "SAMPLERS", "Sampler", "make_sampler",
    *(kind.__name__ for kind in SAMPLERS.values()),
]  # fmt: skip


def make_sampler(name: str, **settings: float) -> Sampler:
    """Return the sampler of that name, e.g. ``make_sampler("hmc", step_size=0.3)``.

    Raises `InputError` for an unknown name or setting, and for a value out of range.
    """
    if name not in SAMPLERS:
        raise unknown_name("sampler", name, SAMPLERS)
    kind: Any = SAMPLERS[name]  # a dataclass
    fields = kind.__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"sampler {name}: setting", key, fields)
    try:
        return kind(**settings)
    except TypeError as error:
        raise InputError(f"sampler {name}: {error}") from None
