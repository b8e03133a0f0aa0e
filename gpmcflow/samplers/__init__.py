"""Samplers by name. A new sampler is one file, one line here, one config entry and its tests."""

from __future__ import annotations

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.data_split_hmc import DataSplitHMC
from gpmcflow.samplers.hmc import HMC
from gpmcflow.samplers.latent_hmc import LatentHMC
from gpmcflow.samplers.metropolis import IndependenceMetropolis, RandomWalkMetropolis
from gpmcflow.samplers.protocol import Info, Sampler, State
from gpmcflow.samplers.rmhmc import RMHMC
from gpmcflow.samplers.split_hmc import PreconditionedSplitHMC, SplitHMC

SAMPLERS: dict[str, type] = {
    "data_split_hmc": DataSplitHMC,
    "hmc": HMC,
    "independence_metropolis": IndependenceMetropolis,
    "latent_hmc": LatentHMC,
    "preconditioned_split_hmc": PreconditionedSplitHMC,
    "random_walk_metropolis": RandomWalkMetropolis,
    "rmhmc": RMHMC,
    "split_hmc": SplitHMC,
}

__all__ = [
    "HMC",
    "RMHMC",
    "SAMPLERS",
    "DataSplitHMC",
    "IndependenceMetropolis",
    "Info",
    "LatentHMC",
    "PreconditionedSplitHMC",
    "RandomWalkMetropolis",
    "Sampler",
    "SplitHMC",
    "State",
    "make_sampler",
]


def make_sampler(name: str, **settings: float) -> Sampler:
    """Return the sampler of that name, e.g. ``make_sampler("hmc", step_size=0.3)``.

    Raises `InputError` for an unknown name or setting, and for a value out of range.
    """
    if name not in SAMPLERS:
        raise unknown_name("sampler", name, SAMPLERS)
    fields = SAMPLERS[name].__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"sampler {name}: setting", key, fields)
    try:
        return SAMPLERS[name](**settings)
    except TypeError as error:
        raise InputError(f"sampler {name}: {error}") from None
