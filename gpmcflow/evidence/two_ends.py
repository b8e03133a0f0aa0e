"""u at draws of the posterior and of the reference of `JointPath`: of chains, or of draws there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpmcflow.evidence.joint_tempering import JointPath
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.adaptation.joint_pilot import Stage
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import SplitInfo
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC, SplitTransition, TunedSplitHMC
from gpmcflow.samplers.problem import Outputs

PER_DRAW = 4  # draws of the reference, values only, for one of the posterior


class EndsProblem(JointProblem):
    """As `JointProblem`, with u at each draw, and at draws of the reference."""

    stream = "model_evidence"

    @property
    def recorded(self) -> Outputs:
        """theta, latents, log likelihoods, u of the draw, and of `PER_DRAW` of the reference."""
        ends: Outputs = {"log_ratio": ((), "<f8"), "reference": ((PER_DRAW,), "<f8")}
        return super().recorded | ends


class EndsSampler(TunedSplitHMC):
    """`TunedSplitHMC` whose chains record u."""

    def bind(self, target: GPModel, chain: int = 0) -> EndsTransition:
        """Transitions of one chain in the frame of its pilot."""
        return EndsTransition(target, self.stage(chain), self.settings)

    def digest(self) -> str:
        """That of the pilots, and what is recorded."""
        return f"{self.tuned_by} {PER_DRAW}"


class EndsTransition(SplitTransition):
    """Trajectories of one chain, with u at each draw in the frame whose sites are as they were fitted."""

    def __init__(self, model: GPModel, pilot: Stage, settings: JointSplitHMC) -> None:
        super().__init__(model, pilot, settings)
        self.path = JointPath(model, pilot)

    def record(self, rng: np.random.Generator, state: Any) -> dict[str, Any]:
        """What `SplitTransition` records, and u."""
        ends = _ends(rng, self.path, self.target.x(state), state.latents)
        return super().record(rng, state) | ends


@dataclass(frozen=True, eq=False)
class GivenDraws:
    """Draws of the posterior that are there already, one a row of a chain.

    theta (chain, draw, d), latents (chain, draw, m) and log p(y | f) (chain, draw); the last two are None
    where latents are integrated out, of which each theta then gets an exact draw.
    """

    theta: np.ndarray
    latents: np.ndarray | None = None
    log_likelihood: np.ndarray | None = None

    def digest(self) -> str:
        """SHA-256 of all numbers."""
        arrays = {"theta": self.theta, "latents": self.latents, "likelihood": self.log_likelihood}
        return array_digest({name: array for name, array in arrays.items() if array is not None})


class Place(NamedTuple):
    """Which draw a chain stands at."""

    draw: int


class ReplaySampler(EndsSampler):
    """Goes from one given draw to the next, at no cost but that of u."""

    state = Place

    def __init__(self, tuned: TunedSplitHMC, draws: GivenDraws) -> None:
        super().__init__(tuned.settings, tuned.tuned_by, tuned.last)
        object.__setattr__(self, "draws", draws)

    def digest(self) -> str:
        """That of the pilots and of the draws."""
        return text_digest(super().digest(), self.draws.digest())

    def bind(self, target: GPModel, chain: int = 0) -> Replay:
        """The draws of one chain."""
        return Replay(target, self.stage(chain), self.draws, chain)


class Replay:
    """Given draws of one chain as transitions."""

    def __init__(self, model: GPModel, pilot: Stage, draws: GivenDraws, chain: int) -> None:
        self.model, self.path = model, JointPath(model, pilot)
        self.draws, self.chain = draws, chain

    def init(self, rng: np.random.Generator, start: Any) -> Place:
        """Before the first draw."""
        return Place(-1)

    def step(self, rng: np.random.Generator, state: Place) -> tuple[Place, SplitInfo]:
        """To the next draw."""
        return Place(state.draw + 1), SplitInfo(True, np.nan, np.nan, False, 0, 0, np.nan)

    def record(self, rng: np.random.Generator, state: Place) -> dict[str, Any]:
        """The draw, and u."""
        draws, at, model = self.draws, (self.chain, state.draw), self.model
        theta = draws.theta[at]
        if draws.latents is None:
            density = self.path.target.density
            latents, log_likelihood, _ = density.draw_latents(rng, theta)
        else:
            latents, log_likelihood = draws.latents[at], draws.log_likelihood[at]
        return {
            "theta": theta,
            model.latent_variable: latents,
            "complete_log_likelihood": np.nan,
            "sum_log_likelihood": log_likelihood,
            "lp": np.nan,
            **_ends(rng, self.path, model.parameters.to_normal(theta), latents),
        }


def _ends(
    rng: np.random.Generator, path: JointPath, x: np.ndarray, latents: np.ndarray
) -> dict[str, Any]:
    reference = np.array([path.reference(rng) for _ in range(PER_DRAW)])
    return {"log_ratio": path.posterior(rng, x, latents), "reference": reference}
