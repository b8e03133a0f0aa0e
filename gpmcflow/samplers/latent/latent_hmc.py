"""Hamiltonian Monte Carlo with unit mass on theta itself: the textbook sampler."""

from __future__ import annotations

from dataclasses import dataclass

from gpmcflow.samplers.latent.hamiltonian import UnitMass
from gpmcflow.samplers.latent.hmc import HMC


@dataclass(frozen=True)
class LatentHMC(UnitMass, HMC):
    """Hamiltonian Monte Carlo for latents with mass matrix I on theta: the textbook sampler.

    H0 of the evidence study and the standard HMC of the split Hamiltonian study: what the others
    improve on. Stable for epsilon omega_max < 2: on a Gaussian process steps are limited by the
    smallest prior standard deviation, while the posterior is as wide as the largest.

    Source: Neal (2011), section 2.3; Shahbaba, Lan, Johnson & Neal (2014), section 2.

    Attributes
    ----------
    step_size:
        epsilon > 0, in units of theta; inside the package also (chain,), one for each chain of a batch.
    n_steps:
        Steps of a trajectory, 1 or more, each with one gradient of the likelihood.
    jitter:
        Each transition multiplies the step size by a uniform number within 1 +- jitter, since a fixed length
        can be close to a period of the orbit; from 0 to below 1.

    Raises
    ------
    InputError:
        For settings out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> design = np.column_stack([np.ones(6), np.arange(6.0)])
    >>> y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    >>> model = gp.LatentGaussianModel.from_design(design, 5.0, gp.Logistic(), y)
    >>> draws = gp.sample(model, gp.LatentHMC(step_size=0.2, n_steps=10), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.7)
    True
    """
