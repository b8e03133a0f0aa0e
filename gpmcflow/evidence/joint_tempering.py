"""A ladder of temperatures over hyperparameters and latents at once, and the path that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpmcflow.evidence.parallel_tempering import swap
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.adaptation.joint_pilot import ANGLE, LARGEST_STEP, Stage, site_factor
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.split_dynamics import SplitState, SplitTarget, transition
from gpmcflow.samplers.joint.split_hmc import TunedSplitHMC
from gpmcflow.samplers.program import stacked, state_of

# The path from a Gaussian that a pilot fitted to the joint posterior of hyperparameters and latents.


class JointPath:
    """Densities N(q; 0, I) e^(beta u(q)) of q = (y, z), from beta = 0 to the posterior at beta = 1.

    u = rest + C, so that p(y) = E[e^u] over q ~ N(0, I): x = mu + A y are the hyperparameters in normal
    coordinates, z makes an exact draw of the latents under frozen sites, `SplitTarget`. The sites are those
    that the pilot fitted: weaker ones, in which it moves, overlap less with the posterior. Any is exact.

    Parameters
    ----------
    model:
        A `GPModel`.
    stage:
        The last stage of a pilot.
    """

    def __init__(self, model: GPModel, stage: Stage) -> None:
        sites = stage.frame.sites.scaled(1.0 / site_factor(model))
        self.target = SplitTarget(density_of(model, sites), stage.frame._replace(sites=sites))
        self.constant = self.target.log_constant()
        self.size = self.target.dim + self.target.density.n_z

    def log_ratio(self, state: SplitState) -> float:
        """u at a state."""
        return state.rest + self.constant

    def reference(self, rng: np.random.Generator) -> float:
        """u at a draw of N(0, I)."""
        return self.target.rest(rng.standard_normal(self.size)) + self.constant

    def posterior(self, rng: np.random.Generator, x: np.ndarray, latents: np.ndarray) -> float:
        """u at the q of a draw of the posterior, x (d,) with latents u."""
        return self.target.rest(self.target.position(rng, x, latents)) + self.constant


# A ladder of temperatures over hyperparameters and latents at once, one a chain, as a program.

SETTLING = 60  # transitions at beta = 1 that settle the step
DESCENT = 8  # at each temperature, from the one above
WIDEST_STEP, STEP_POWER = 1.2, 0.4  # of a temperature: min(1.2, eps beta^-0.4)


@dataclass(frozen=True, eq=False)
class JointTemperingProgram:
    """Chain k is a ladder of replicate k: a state at each inverse temperature of `JointPath`.

    An iteration moves every beta_t > 0 by one trajectory of `transition`, takes a fresh exact draw at beta_0
    = 0, and swaps neighbours as in `TemperingProgram`. The step at beta = 1 is tuned from the start, a draw
    of the posterior; that at beta_t is eps beta_t^-0.4, with as many steps as go as far. Then the ladder
    descends: `DESCENT` transitions at each temperature, from where the one above came to stand.

    Attributes
    ----------
    model, tuned:
        A `GPModel`, and the pilots of the replicates.
    betas:
        Inverse temperatures (T + 1,).
    starts:
        "theta" (replicate, d) and "latents" (replicate, m).
    """

    model: GPModel
    tuned: TunedSplitHMC
    betas: np.ndarray
    starts: Mapping[str, np.ndarray]

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        own = array_digest({"betas": self.betas, **self.starts})
        return text_digest(self.model.digest(), self.tuned.digest(), own)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each iteration gives."""
        kinds = {
            "log_ratio": "<f8", "swap_accepted": "|i1", "walker": "<i4", "acceptance_rate": "<f8",
            "diverging": "|i1", "n_gradient": "<i8",
        }  # fmt: skip
        return {name: ((len(self.betas),), kind) for name, kind in kinds.items()}

    def _path(self, chain: int) -> JointPath:
        return JointPath(self.model, self.tuned.stage(chain))

    def start(self, rng) -> dict[str, np.ndarray]:
        """States of all temperatures, walkers in order, and the steps."""
        ladders = [self._start(rng.generator(k), chain) for k, chain in enumerate(rng.chains)]
        return {name: np.stack([ladder[name] for ladder in ladders]) for name in ladders[0]}

    def _start(self, rng: np.random.Generator, chain: int) -> dict[str, np.ndarray]:
        path, settings = self._path(chain), self.tuned.settings
        theta, latents = (self.starts[name][chain] for name in ("theta", "latents"))
        state = path.target.start(rng, self.model.parameters.to_normal(theta), latents)
        tuner = StepSize(
            self.tuned.stage(chain).step_size, settings.target_acceptance, LARGEST_STEP
        )
        spent = 0
        for _ in range(SETTLING):
            n_steps = int(np.clip(round(ANGLE / tuner.step), 1, settings.max_steps))
            state, info = transition(rng, path.target, state, tuner.step, n_steps, settings.jitter)
            tuner.update(info.acceptance_rate)
            spent += info.n_gradient
        step = tuner.average
        steps = np.append(np.inf, np.minimum(step * self.betas[1:] ** -STEP_POWER, WIDEST_STEP))
        n_steps = np.clip(np.ceil(ANGLE / steps - 1e-9), 1, settings.max_steps).astype(np.int64)
        states = [state]
        for t in reversed(range(1, len(self.betas) - 1)):
            for _ in range(DESCENT):
                state, info = self._move(rng, path, state, steps, n_steps, t)
                spent += info.n_gradient
            states.append(state)
        states.append(self._reference(rng, path))
        walker = np.arange(len(self.betas), dtype=np.int32)
        own = {"walker": walker, "step": steps, "n_steps": n_steps, "spent": np.array(spent + 1)}
        return stacked(states[::-1]) | own

    def _move(self, rng, path: JointPath, state: SplitState, steps, n_steps, t: int):
        jitter = self.tuned.settings.jitter
        return transition(
            rng, path.target, state, steps[t], int(n_steps[t]), jitter, float(self.betas[t])
        )

    @staticmethod
    def _reference(rng: np.random.Generator, path: JointPath) -> SplitState:
        return path.target.state(rng.standard_normal(path.size))

    def advance(self, rng, carry, start: int, stop: int):
        """Iterations start..stop-1."""
        ladders = [
            self._advance(
                rng.generator(k), chain, {name: carry[name][k] for name in carry}, start, stop
            )
            for k, chain in enumerate(rng.chains)
        ]
        together = [
            {name: np.stack([ladder[end][name] for ladder in ladders]) for name in ladders[0][end]}
            for end in (0, 1)
        ]
        return together[0], together[1]

    def _advance(self, rng: np.random.Generator, chain: int, carry, start: int, stop: int):
        path, n = self._path(chain), len(self.betas)
        fields = {name: carry[name] for name in SplitState._fields}
        states = [state_of(SplitState, fields, t) for t in range(n)]
        walker, steps, n_steps = carry["walker"].copy(), carry["step"], carry["n_steps"]
        spent, rows = int(carry["spent"]), []
        for k in range(start, stop):
            rates, diverging, gradients = np.full(n, np.nan), np.zeros(n, bool), np.ones(n, int)
            for t in range(1, n):
                states[t], info = self._move(rng, path, states[t], steps, n_steps, t)
                rates[t], diverging[t] = info.acceptance_rate, info.diverging
                gradients[t] = info.n_gradient
            states[0] = self._reference(rng, path)
            u = np.array([path.log_ratio(state) for state in states])
            accepted, order = swap(self.betas, u[None], rng.random((1, n - 1)), k)
            gradients[0] += spent
            rows.append({
                "log_ratio": u, "swap_accepted": accepted[0], "walker": walker,
                "acceptance_rate": rates, "diverging": diverging, "n_gradient": gradients,
            })  # fmt: skip
            walker, states, spent = walker[order[0]], [states[t] for t in order[0]], 0
        kinds = self.outputs()
        outputs = {
            name: np.array([row[name] for row in rows]).astype(kinds[name][1]) for name in kinds
        }
        own = {"walker": walker, "step": steps, "n_steps": n_steps, "spent": np.array(spent)}
        return stacked(states) | own, outputs
