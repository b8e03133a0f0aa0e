"""Split Hamiltonian Monte Carlo: the Gaussian part is solved exactly, the rest is kicked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import unknown_name
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.hamiltonian import HamiltonianSampler, Motion, UnitMass, column

FLOWS = ("exact", "fixed")


class GaussianSplit(HamiltonianSampler):
    """Kicks by the residual's gradient, exact flow of the Gaussian part between them.

    H = U_1 / 2 + [U_0 + K] + U_1 / 2 with U_0 = |zeta|^2 / 2 and U_1 = -beta r. The flow of U_0 + K
    is a rotation by the angle epsilon omega_j in each (zeta_j, p_j) plane, so the energy error comes
    from the non-Gaussian rest alone; where there is none (beta = 0) every proposal is accepted.
    Source: Shahbaba, Lan, Johnson & Neal (2014), section 3.1, algorithm 1.
    """

    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rates times beta grad r: the rest only."""
        return self.rates(target) * (target.beta_column() * gradient)

    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Rotation by the angle epsilon omega_j."""
        angle = self.flow_time(step_size) * self.rates(target)
        cos, sin = np.cos(angle), np.sin(angle)
        return lambda position, momentum: (
            position * cos + momentum * sin,
            momentum * cos - position * sin,
        )

    def flow_time(self, step_size: np.ndarray) -> float | np.ndarray:
        """Time of the flow between two kicks: the step size (chain, 1)."""
        return step_size


@dataclass(frozen=True)
class PreconditionedSplitHMC(GaussianSplit):
    """Split Hamiltonian Monte Carlo for latents whose mass is the precision of the Gaussian part.

    The flow of the Gaussian part is solved exactly: a rotation by the same angle epsilon in every direction.
    Its mass matrix makes all omega_j = 1, and it another sampler than `SplitHMC`, usually a far better one
    where the scales of theta differ: H2 of the evidence study, and what `sample` takes for latents.

    Source: Casas, Sanz-Serna & Shaw (2022), Statistics and Computing 32, 86.

    Attributes
    ----------
    step_size:
        epsilon > 0, the angle of a rotation in radians; inside the package also (chain,), one for each chain
        of a batch.
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
    >>> draws = gp.sample(model, gp.PreconditionedSplitHMC(step_size=0.8, n_steps=2), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.9)
    True
    """


@dataclass(frozen=True)
class SplitHMC(GaussianSplit, UnitMass, HamiltonianSampler):
    """Split Hamiltonian Monte Carlo for latents as published, with mass matrix I on theta.

    The flow of the Gaussian part is solved exactly: rotations by epsilon omega_j along its principal axes,
    omega_j their frequencies. Stable but for narrow windows of epsilon omega_j just beside each multiple of
    pi, where the kicks resonate with the flow; the jitter smears them.

    Source: Shahbaba, Lan, Johnson & Neal (2014), algorithm 1.

    Attributes
    ----------
    step_size:
        epsilon > 0, in units of theta; inside the package also (chain,), one for each chain of a batch.
    n_steps:
        Steps of a trajectory, 1 or more, each with one gradient of the likelihood.
    jitter:
        Each transition multiplies the step size by a uniform number within 1 +- jitter, since a fixed length
        can be close to a period of the orbit; from 0 to below 1.
    flow:
        Time of the Gaussian flow between two kicks: "exact" takes that of the kicks, "fixed" always the mean
        step size, as the authors' programs do (one matrix exponential for all transitions). That is valid
        too, but no approximation of H: its energy error does not vanish with the step size unless ``jitter``
        is 0.

    Raises
    ------
    InputError:
        For settings out of range, and an unknown flow.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> design = np.column_stack([np.ones(6), np.arange(6.0)])
    >>> y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    >>> model = gp.LatentGaussianModel.from_design(design, 5.0, gp.Logistic(), y)
    >>> draws = gp.sample(gp.laplace(model), gp.SplitHMC(step_size=0.5, n_steps=4), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.7)
    True
    """

    flow: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flow not in FLOWS:
            raise unknown_name("SplitHMC: flow", self.flow, FLOWS)

    def flow_time(self, step_size: np.ndarray) -> float | np.ndarray:
        """The step size, or its mean for a fixed flow."""
        return step_size if self.flow == "exact" else column(self.step_size)
