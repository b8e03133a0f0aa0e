"""Samplers with one mistake each. Every one must fail the invariance test.

Most are variants of preconditioned split HMC, or of HMC where the mistake is in the force; those of
the other samplers have the mistake that is their own to make.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpmcflow.samplers import (
    HMC,
    RMHMC,
    DataSplitHMC,
    IndependenceMetropolis,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
)
from gpmcflow.samplers.latent.curvature_metric import CurvatureSystem
from gpmcflow.samplers.latent.hamiltonian import hamiltonian, select
from gpmcflow.samplers.latent.protocol import Info


class Transition:
    """The correct transition, cut into pieces that a mutant can replace one at a time."""

    def step(self, rng, target, state):
        momentum = self.momentum(rng, target)
        scale = 1.0 + self.jitter * (2.0 * rng.uniform() - 1.0)
        log_uniform = np.log1p(-rng.uniform())
        step_size = (self.step_size * scale * self.stretch(state))[:, None]
        proposal, end = self.trajectory(target, state, momentum, step_size)
        error = self.energy_error(target, state, momentum, proposal, end)
        log_accept = np.minimum(np.where(np.isfinite(error), -error, -np.inf), 0.0)
        accepted = self.decide(log_uniform, log_accept)
        info = Info.explicit(
            accepted, np.exp(log_accept), error, ~np.isfinite(error), np.ones(len(error))
        )
        return self.choose(accepted, proposal, state), info

    def momentum(self, rng, target):
        return rng.standard_normal((target.dim,))

    def stretch(self, state):
        return np.ones(len(state.position))

    def energy_error(self, target, state, momentum, proposal, end):
        return hamiltonian(target, proposal, end) - hamiltonian(target, state, momentum)

    def decide(self, log_uniform, log_accept):
        return log_uniform < log_accept

    def choose(self, accepted, proposal, state):
        return select(accepted, proposal, state)


@dataclass(frozen=True)
class NoMistake(Transition, PreconditionedSplitHMC):
    """The control: must pass."""


@dataclass(frozen=True)
class AcceptAlways(Transition, PreconditionedSplitHMC):
    def decide(self, log_uniform, log_accept):
        return np.ones_like(log_accept, dtype=bool)


@dataclass(frozen=True)
class NoKineticEnergy(Transition, PreconditionedSplitHMC):
    def energy_error(self, target, state, momentum, proposal, end):
        none = np.zeros_like(momentum)
        return hamiltonian(target, proposal, none) - hamiltonian(target, state, none)


@dataclass(frozen=True)
class WrongSignOfEnergy(Transition, PreconditionedSplitHMC):
    def energy_error(self, target, state, momentum, proposal, end):
        return -super().energy_error(target, state, momentum, proposal, end)


@dataclass(frozen=True)
class EnergyAtBetaOne(Transition, PreconditionedSplitHMC):
    """The inverse temperature is in the force but not in the energy."""

    def energy_error(self, target, state, momentum, proposal, end):
        hot = replace(target, beta=1.0)
        return super().energy_error(hot, state, momentum, proposal, end)


@dataclass(frozen=True)
class StepSizeOfThePosition(Transition, PreconditionedSplitHMC):
    """The step size depends on where the trajectory starts."""

    def stretch(self, state):
        return 0.3 + 1.0 / (1.0 + (state.position**2).sum(1))


@dataclass(frozen=True)
class RetryWithNewJitter(Transition, PreconditionedSplitHMC):
    """The step size is drawn again after a rejection, as if that were free."""

    def step(self, rng, target, state):
        following, info = super().step(rng, target, state)
        again, _ = super().step(rng, target, state)
        return select(info.accepted, following, again), info


@dataclass(frozen=True)
class StaleGradientOnRejection(Transition, PreconditionedSplitHMC):
    """A rejected proposal leaves its gradient behind."""

    def choose(self, accepted, proposal, state):
        return select(accepted, proposal, state)._replace(gradient=proposal.gradient)


@dataclass(frozen=True)
class StaleEnergyOnRejection(Transition, PreconditionedSplitHMC):
    """A rejected proposal leaves its log likelihood behind."""

    def choose(self, accepted, proposal, state):
        return select(accepted, proposal, state)._replace(residual=proposal.residual)


@dataclass(frozen=True)
class MomentumNotRefreshed(Transition, PreconditionedSplitHMC):
    """The momentum of the first transition serves all of them."""

    def momentum(self, rng, target):
        if not hasattr(rng, "kept"):
            rng.kept = rng.standard_normal((target.dim,))
        return rng.kept


@dataclass(frozen=True)
class HalfKickMissing(Transition, PreconditionedSplitHMC):
    """The last half kick is left out."""

    def trajectory(self, target, state, momentum, step_size):
        end, momentum = super().trajectory(target, state, momentum, step_size)
        return end, momentum - 0.5 * step_size * self.force(target, end.position, end.gradient)


@dataclass(frozen=True)
class WholeKickFirst(Transition, PreconditionedSplitHMC):
    """The first kick is a whole one."""

    def trajectory(self, target, state, momentum, step_size):
        kick = 0.5 * step_size * self.force(target, state.position, state.gradient)
        return super().trajectory(target, state, momentum + kick, step_size)


@dataclass(frozen=True)
class VolumeNotKept(Transition, PreconditionedSplitHMC):
    """The rotation also shrinks, a Jacobian that the acceptance does not know."""

    def motion(self, target, step_size):
        right = super().motion(target, step_size)

        def shrink(position, momentum):
            position, momentum = right(position, momentum)
            return 0.97 * position, momentum

        return shrink


@dataclass(frozen=True)
class WrongSignOfForce(Transition, PreconditionedSplitHMC):
    """The residual pushes the wrong way: exact all the same, but acceptance suffers."""

    def force(self, target, position, gradient):
        return -target.beta_column() * gradient


@dataclass(frozen=True)
class WrongSignOfResidualForce(Transition, HMC):
    """The same in HMC, where the Gaussian part of the force is right."""

    def force(self, target, position, gradient):
        return -target.beta_column() * gradient - position


@dataclass(frozen=True)
class RatesDropped(SplitHMC):
    """The kick is that of the standardised coordinates, as if all frequencies were 1."""

    def force(self, target, position, gradient):
        return target.beta_column() * gradient


@dataclass(frozen=True)
class PriorInBothParts(DataSplitHMC):
    """The slow part's kick has the prior once more."""

    def force(self, target, position, gradient):
        return super().force(target, position, gradient) - self.rates(target) * position


@dataclass(frozen=True)
class FastHalfKickMissing(DataSplitHMC):
    """The very last half kick of the fast part is left out."""

    def trajectory(self, target, state, momentum, step_size):
        end, momentum = super().trajectory(target, state, momentum, step_size)
        force = self._fast_force(target, end.position, end.gradient[:, 0])
        return end, momentum - 0.5 * step_size / self.inner_steps * force


@dataclass(frozen=True)
class SitesLeftIn(DataSplitHMC):
    """What the Gaussian part holds of the likelihood is not taken out of the fast part's force."""

    def _fast_force(self, target, position, gradient):
        return self.rates(target) * (target.beta_column() * gradient - position)


@dataclass(frozen=True)
class WrongSignOfRatio(RandomWalkMetropolis):
    """Accepts what is less likely."""

    def log_ratio(self, target, proposal, state):
        return -super().log_ratio(target, proposal, state)


@dataclass(frozen=True)
class CurrentWeightForgotten(IndependenceMetropolis):
    """Accepts by the proposal's importance weight alone."""

    def log_ratio(self, target, proposal, state):
        return target.beta * proposal.residual


class MistakenRMHMC(RMHMC):
    """RMHMC with a system that a mutant replaces."""

    kind: ClassVar[type[CurvatureSystem]] = CurvatureSystem

    def system(self, target, n_chains):
        return self.kind(target, n_chains, refactorise=self.fixed_iters > 0)


class WrongSignOfTrace(MistakenRMHMC):
    """The force has the trace term with the wrong sign."""

    class kind(CurvatureSystem):  # noqa: N801
        def geometry(self, position, slot):
            right = super().geometry(position, slot)
            return right._replace(trace=-right.trace)


class WrongSignOfMetricSlope(MistakenRMHMC):
    """The metric's derivative has the wrong sign, wherever it stands."""

    class kind(CurvatureSystem):  # noqa: N801
        def geometry(self, position, slot):
            right = super().geometry(position, slot)
            return right._replace(trace=-right.trace, weight_slope=-right.weight_slope)


class LogDeterminantDropped(MistakenRMHMC):
    """The energy has no log |G| / 2, as if the momentum's normaliser were constant."""

    class kind(CurvatureSystem):  # noqa: N801
        def energy(self, geometry, momentum):
            return super().energy(geometry, momentum) - 0.5 * geometry.log_det


class EndKickMissing(MistakenRMHMC):
    """The explicit half kick is left out."""

    class kind(CurvatureSystem):  # noqa: N801
        def end_kick(self, geometry, kick, arrival, half):
            return kick.momentum


class MomentumOfUnitMass(MistakenRMHMC):
    """The momentum is drawn from N(0, I) in place of N(0, G)."""

    class kind(CurvatureSystem):  # noqa: N801
        def draw_momentum(self, rng, geometry):
            return rng.standard_normal((self.model.dim,))


@dataclass(frozen=True)
class TooFewIterations(RMHMC):
    """A fixed number of iterations that has not converged."""

    fixed_iters: int = 1


class NeverTakenBack(RMHMC):
    """Steps that do not return are accepted like the others."""

    takes_back = False


# Mutants that leave the target invariant, as accept or reject mends any reversible map; they fail
# because acceptance does not go to one with the step size.
INEFFICIENT = (
    WrongSignOfForce,
    WrongSignOfResidualForce,
    RatesDropped,
    PriorInBothParts,
    SitesLeftIn,
)
INEXACT = (
    AcceptAlways,
    NoKineticEnergy,
    WrongSignOfEnergy,
    EnergyAtBetaOne,
    StepSizeOfThePosition,
    RetryWithNewJitter,
    StaleGradientOnRejection,
    StaleEnergyOnRejection,
    MomentumNotRefreshed,
    HalfKickMissing,
    WholeKickFirst,
    VolumeNotKept,
    FastHalfKickMissing,
    WrongSignOfRatio,
    CurrentWeightForgotten,
)
