"""Hamiltonian Monte Carlo by the leapfrog method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.hamiltonian import HamiltonianSampler, Motion, UnitMass

# Hamiltonian Monte Carlo by the leapfrog method, in standardised coordinates.


@dataclass(frozen=True)
class HMC(HamiltonianSampler):
    """Hamiltonian Monte Carlo for latents: leapfrog in the standardised coordinates of a Gaussian.

    Unit mass there is the mass matrix V^{-1} on theta, V the covariance of the Gaussian (the EP fit, where a
    model is given): H1 of the evidence study. With a Gaussian of its own for each inverse temperature (the
    curvature at the mode) this is H1_beta.

    Stable for epsilon < 2 / sqrt(1 + beta lambda_max(F' (W - tau) F)), F the factor of the predictor, W the
    curvature of the likelihood and tau the precision of the sites.

    Source: Neal (2011), section 4.1.

    Attributes
    ----------
    step_size:
        epsilon > 0, in units of the Gaussian part's standard deviations; inside the package also (chain,),
        one for each chain of a batch.
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
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> draws = gp.sample(model, gp.HMC(step_size=0.8, n_steps=3), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.7)
    True
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rates times beta grad r - zeta: the whole gradient of the log density."""
        return self.rates(target) * (target.beta_column() * gradient - position)

    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Drift: zeta + epsilon rates p."""
        drift = step_size * self.rates(target)
        return lambda position, momentum: (position + drift * momentum, momentum)


# Hamiltonian Monte Carlo with unit mass on theta itself: the textbook sampler.


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
