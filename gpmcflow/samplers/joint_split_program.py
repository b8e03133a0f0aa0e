"""Chains of `JointSplitHMC`, tuned and frozen, as a program of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import density_of
from gpmcflow.samplers.joint_program import draw_outputs, predict_latents
from gpmcflow.samplers.joint_split_hmc import JointSplitHMC, SplitState, SplitTarget, transition
from gpmcflow.samplers.joint_split_pilot import PilotProgram, Round, as_round
from gpmcflow.samplers.representations import Point

TRACED = ("complete_log_likelihood", "n_gradient")


@dataclass(frozen=True, eq=False)
class JointSplitProgram:
    """Chains that go on from their pilots, one after another; a draw is the last of ``thin`` transitions.

    ``pilots`` holds the last round of `PilotProgram`, chain by chain, and follows from ``tuned_by`` and the
    random streams; so only the latter is part of the digest, and chains can be added.
    """

    model: GPModel
    settings: JointSplitHMC
    tuned_by: PilotProgram
    pilots: dict[str, np.ndarray]
    thin: int = 1
    X_new: np.ndarray | None = None
    keep_latents: bool = True

    stats: ClassVar[dict[str, str]] = {
        "complete_log_likelihood": "<f8", "log_likelihood": "<f8", "lp": "<f8",
        "acceptance_rate": "<f8", "energy_error": "<f8", "diverging": "|i1", "n_gradient": "<i8",
    }  # fmt: skip
    traced: ClassVar[tuple[str, ...]] = TRACED

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        arrays = {} if self.X_new is None else {"new": self.X_new}
        settings = repr((self.thin, self.keep_latents))
        return text_digest(self.tuned_by.digest(), array_digest(arrays), settings)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        return draw_outputs(self)

    def start(self, rng) -> dict[str, np.ndarray]:
        """States where the pilots ended."""
        states = []
        for k in range(len(rng.chains)):
            pilot = self._pilot(rng.chains[k])
            target = SplitTarget(density_of(self.model, pilot.frame.sites), pilot.frame)
            states.append(target.start(rng.generator(k), pilot.x, pilot.latents))
        return {
            name: np.array([getattr(state, name) for state in states])
            for name in SplitState._fields
        }

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        n_chains, length = len(carry["rest"]), stop - start
        out = {
            name: np.zeros((n_chains, length, *shape), kind)
            for name, (shape, kind) in self.outputs().items()
        }
        after = {name: value.copy() for name, value in carry.items()}
        for k, chain in enumerate(rng.chains):
            pilot, generator = self._pilot(chain), rng.generator(k)
            target = SplitTarget(density_of(self.model, pilot.frame.sites), pilot.frame)
            values = (carry[name][k] for name in SplitState._fields)
            state = SplitState(*(float(v) if v.ndim == 0 else v for v in values))
            for t in range(length):
                row = {name: value[k, t] for name, value in out.items() if value[k, t].ndim}
                scalars: dict[str, float] = {}
                state = self._draw(generator, target, state, pilot, row, scalars)
                for name, value in scalars.items():
                    out[name][k, t] = value
            for name in SplitState._fields:
                after[name][k] = getattr(state, name)
        return after, out

    def _pilot(self, chain: int) -> Round:
        return as_round(self.pilots, chain)

    def _draw(self, rng, target, state, pilot, row, scalars) -> SplitState:
        """``thin`` transitions: arrays into ``row``, numbers into ``scalars``."""
        step, n_steps, spent, rates = pilot.step_size, pilot.n_steps, 0, 0.0
        diverging = 0
        for j in range(self.thin):
            state, info = transition(rng, target, state, step, n_steps, self.settings.jitter)
            spent, rates = spent + info.n_gradient, rates + info.acceptance_rate
            diverging += info.diverging
            latents, log_likelihood, complete = state.latents, state.log_likelihood, state.complete
            if not target.density.n_z and (self.thin > 1 or j == self.thin - 1):
                latents, log_likelihood, complete = target.density.draw_latents(rng, state.theta)
            if self.thin > 1:
                row["trace_theta"][j] = state.theta
                row["trace_complete_log_likelihood"][j] = complete
                row["trace_n_gradient"][j] = info.n_gradient
        model = self.model
        scalars |= {
            "complete_log_likelihood": complete,
            "log_likelihood": log_likelihood,
            "lp": complete + model.log_prior(state.theta),
            "acceptance_rate": rates / self.thin,
            "energy_error": info.energy_error,
            "diverging": diverging,
            "n_gradient": spent,
        }
        row["theta"][:] = state.theta
        if self.keep_latents:
            row["latent"][:] = latents
        if self.X_new is not None:
            full = model.full(state.theta)
            factor, scale = model.filled_factor(full), model.scale(full)
            point = Point(full, scale, model.mean_at(full), factor, None, None, None, latents)
            found = predict_latents(model, point, self.X_new)
            row["new_mean"][:], row["new_variance"][:], row["new_response"][:] = found
        return state
