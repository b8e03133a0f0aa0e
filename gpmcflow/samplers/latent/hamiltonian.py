"""Hamiltonian samplers of latents with explicit steps: the transition they share, leapfrog, and the split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gaussian_sites import GaussianSites, PrincipalAxes
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.protocol import (
    ENERGY,
    STATISTICS,
    Info,
    LatentSampler,
    State,
    kept_energy,
)
from gpmcflow.samplers.protocol import ChainRandom, require_count, require_share

Motion = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class HamiltonianSampler(LatentSampler):
    """Settings shared by the Hamiltonian samplers, and their transition.

    The target is N(zeta; 0, I) exp(beta r(zeta)); the momentum is N(0, I) in the sampler's own
    coordinates. A trajectory alternates kicks and motions,

        half kick, motion, kick, motion, ..., motion, half kick,

    which is reversible and preserves volume for any `force` that depends on the position alone and
    any reversible, volume-preserving `motion`. It is accepted with probability min(1, exp(H - H')),
    H = |zeta|^2 / 2 - beta r(zeta) + |p|^2 / 2. A non-finite energy is a rejection, flagged as
    diverging.

    ``step_size`` epsilon > 0, a number or an array (chain,) with one for each chain of the batch, is
    multiplied, for each chain and transition, by a uniform number within 1 +- ``jitter`` (a fixed
    length can be close to a period of the orbit); ``n_steps`` is the number of motions, and of
    likelihood gradients.

    Two choices make the samplers of this family: what moves between the kicks (leapfrog: a drift
    with the momentum; split: the exact flow of the Gaussian part), and the mass (that of `UnitMass`
    is I on theta; else it is I on the standardised coordinates zeta, which is the precision matrix
    of the Gaussian part on theta):

                        mass = precision           mass = I
        leapfrog        HMC                        LatentHMC
        Gaussian flow   PreconditionedSplitHMC     SplitHMC
    """

    statistics = STATISTICS | ENERGY
    step_size: float | np.ndarray = 0.5
    n_steps: int = 4
    jitter: float = 0.1

    def __post_init__(self) -> None:
        where = type(self).__name__
        require_steps(where, self.step_size, self.n_steps)
        require_share(where, "jitter", self.jitter, zero=True)

    @abstractmethod
    def force(self, target: Target, position: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Rate of change of the momentum in a kick; ``gradient`` is that of the residual r."""

    @abstractmethod
    def motion(self, target: Target, step_size: np.ndarray) -> Motion:
        """Map of position and momentum over the time ``step_size`` (chain, 1) between two kicks."""

    def rates(self, target: Target) -> float | np.ndarray:
        """Change of each coordinate zeta_j per unit of the momentum's coordinate: 1 for equal ones."""
        return 1.0

    def gradients(self, target: Target) -> float:
        """Likelihood gradients of one transition, in passes over all cases."""
        return float(self.n_steps)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim)."""
        return State(position, *target.evaluate(position))

    def trajectory(
        self, target: Target, state: State, momentum: np.ndarray, step_size: np.ndarray
    ) -> tuple[State, np.ndarray]:
        """End point, evaluated, and its momentum, after n_steps of ``step_size`` (chain, 1)."""
        position, half = state.position, 0.5 * step_size
        move = self.motion(target, step_size)
        momentum = momentum + half * self.force(target, position, state.gradient)
        for _ in range(self.n_steps - 1):
            position, momentum = move(position, momentum)
            gradient = target.residual_gradient(position)
            momentum += step_size * self.force(target, position, gradient)
        position, momentum = move(position, momentum)
        end = self.init(target, position)
        momentum += half * self.force(target, position, end.gradient)
        return end, momentum

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """One transition of every chain."""
        momentum = rng.standard_normal((target.dim,))
        scale = 1.0 + self.jitter * (2.0 * rng.uniform() - 1.0)
        log_uniform = np.log1p(-rng.uniform())
        before = hamiltonian(target, state, momentum)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step_size = (self.step_size * scale)[:, None]
            proposal, momentum = self.trajectory(target, state, momentum, step_size)
            error = hamiltonian(target, proposal, momentum) - before
        diverging = ~np.isfinite(error)
        log_accept = np.minimum(np.where(diverging, -np.inf, -error), 0.0)
        accepted = log_uniform < log_accept
        cost = np.full(len(error), self.gradients(target))
        energy = kept_energy(accepted, before, error)
        info = Info.explicit(accepted, np.exp(log_accept), error, diverging, cost, energy)
        return select(accepted, proposal, state), info


class UnitMass:
    """Mixin: mass matrix I on theta itself, in coordinates along the Gaussian part's principal axes.

    There zeta_j = omega_j a_j with a = V' (theta - m), and V' p ~ N(0, I) is the momentum of a, so
    that the law of the chain is that of unit mass on theta without a product by V in a step.
    Step sizes are in units of theta.
    """

    def coordinates(self, base: GaussianSites) -> GaussianSites:
        """Principal axes of the base."""
        return base.principal_axes

    def rates(self, target: Target) -> np.ndarray:
        """Frequencies omega (d,)."""
        return principal_frequencies(self, target)

    def length_unit(self, target: Target) -> float:
        """Root mean square of the base's standard deviations, in units of theta."""
        return float(np.sqrt(np.mean(self.rates(target) ** -2.0)))


def principal_frequencies(sampler: object, target: Target) -> np.ndarray:
    """Frequencies of the target's base; `InputError` if its coordinates are not principal axes."""
    frequencies = getattr(target.base, "frequencies", None)
    if frequencies is None:
        raise InputError(
            f"{type(sampler).__name__}: the target's base is {type(target.base).__name__}; allowed: "
            f"{PrincipalAxes.__name__}; use target.in_coordinates(sampler.coordinates(target.base))"
        )
    return frequencies


def require_steps(where: str, step_size: float | np.ndarray, n_steps: int) -> None:
    """Raise `InputError` unless step sizes are positive and the number of steps a count."""
    if isinstance(step_size, (list, tuple)):
        raise InputError(f"{where}: step_size is {step_size!r}; allowed: a positive number")
    if np.ndim(step_size) > 1:
        shape = np.shape(step_size)
        raise InputError(f"{where}: step_size has shape {shape}; allowed: a number, or (chain,)")
    if not np.all(np.isfinite(step_size) & (np.asarray(step_size) > 0)):
        raise InputError(f"{where}: step_size is {step_size!r}; allowed: a positive number")
    require_count(where, "n_steps", n_steps)


def column(step_size: float | np.ndarray) -> float | np.ndarray:
    """Step size, ready to multiply an array (chain, dim)."""
    return step_size if np.ndim(step_size) == 0 else np.asarray(step_size)[:, None]


def hamiltonian(target: Target, state: State, momentum: np.ndarray) -> np.ndarray:
    """H = |zeta|^2 / 2 - beta r + |p|^2 / 2, (chain,)."""
    kinetic = 0.5 * np.einsum("ij,ij->i", momentum, momentum)
    return kinetic - log_density(target, state)


def log_density(target: Target, state: State) -> np.ndarray:
    """-|zeta|^2 / 2 + beta r, (chain,)."""
    position = state.position
    return target.beta * state.residual - 0.5 * np.einsum("ij,ij->i", position, position)


def select(accepted: np.ndarray, proposal: State, state: State) -> State:
    """Rows of the proposal where accepted, of the old state elsewhere."""
    if accepted.all():
        return proposal
    return State(
        *(
            np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(proposal, state, strict=True)
        )
    )


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
