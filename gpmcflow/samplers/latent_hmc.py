"""Hamiltonian Monte Carlo with unit mass on theta itself: the textbook sampler."""

from __future__ import annotations

from dataclasses import dataclass

from gpmcflow.samplers.hamiltonian import UnitMass
from gpmcflow.samplers.hmc import HMC


@dataclass(frozen=True)
class LatentHMC(UnitMass, HMC):
    """Leapfrog with mass matrix I on theta.

    H0 of the evidence study and the standard HMC of the split Hamiltonian study: what the others
    improve on. Stable for epsilon omega_max < 2: on a Gaussian process steps are limited by the
    smallest prior standard deviation, while the posterior is as wide as the largest. Source: Neal
    (2011), section 2.3; Shahbaba, Lan, Johnson & Neal (2014), section 2.
    """
