"""Samplers of a log density by name. A new one is one file, one line here and its tests."""

from __future__ import annotations

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.samplers.collapsed_scale import CollapsedScale
from gpmcflow.samplers.density_protocol import DensitySampler
from gpmcflow.samplers.discretizing_chain import DiscretizingChain
from gpmcflow.samplers.gradient_density import DensityHMC
from gpmcflow.samplers.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.univariate_slice import UnivariateSlice

DENSITY_SAMPLERS: dict[str, type] = {
    "collapsed_scale": CollapsedScale,
    "density_hmc": DensityHMC,
    "discretizing_chain": DiscretizingChain,
    "tempered_transitions": TemperedTransitions,
    "univariate_slice": UnivariateSlice,
}


def make_density_sampler(name: str, **settings: object) -> DensitySampler:
    """Return the sampler of that name, e.g. ``make_density_sampler("univariate_slice", sweep=...)``.

    Raises `InputError` for an unknown name or setting, for one that is missing, or out of range.
    """
    if name not in DENSITY_SAMPLERS:
        raise unknown_name("density sampler", name, DENSITY_SAMPLERS)
    fields = DENSITY_SAMPLERS[name].__dataclass_fields__
    for key in settings:
        if key not in fields:
            raise unknown_name(f"density sampler {name}: setting", key, fields)
    try:
        return DENSITY_SAMPLERS[name](**settings)
    except TypeError as error:
        raise InputError(f"density sampler {name}: {error}") from None
