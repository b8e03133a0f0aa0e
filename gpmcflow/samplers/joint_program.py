"""Chains over hyperparameters and latents as a program of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.hyperparameter_updates import HyperparameterUpdate
from gpmcflow.samplers.joint_workspace import JointWorkspace
from gpmcflow.samplers.representations import Point, Representation

STATS = {
    "complete_log_likelihood": "<f8", "log_likelihood": "<f8", "lp": "<f8",
    "acceptance_rate": "<f8", "n_hyp": "<i8", "n_cov": "<i8", "n_lik": "<i8", "n_failed": "<i8",
}  # fmt: skip
TRACED = ("complete_log_likelihood", "n_hyp", "n_cov", "n_lik")


class DrawProgram(Protocol):
    """What the programs of chains over hyperparameters and latents have in common."""

    model: GPModel
    thin: int
    X_new: np.ndarray | None
    keep_latents: bool
    stats: ClassVar[dict[str, str]]
    traced: ClassVar[tuple[str, ...]]


class StartedProgram(Protocol):
    """What `starting_point` needs of a program."""

    model: GPModel
    start_theta: np.ndarray | None
    start_latents: np.ndarray | None


def draw_outputs(program: DrawProgram) -> dict[str, tuple[tuple[int, ...], str]]:
    """Trailing shapes and types of what each draw of a program gives."""
    d, n, thin = program.model.dim, program.model.n_cases, program.thin
    found: dict[str, tuple[tuple[int, ...], str]] = {"theta": ((d,), "<f8")}
    found |= {name: ((), kind) for name, kind in program.stats.items()}
    if program.keep_latents:
        found["latent"] = ((n,), "<f8")
    if thin > 1:
        found["trace_theta"] = ((thin, d), "<f8")
        found |= {f"trace_{name}": ((thin,), program.stats[name]) for name in program.traced}
    if program.X_new is not None:
        shape = (len(program.X_new),)
        found |= {f"new_{name}": (shape, "<f8") for name in ("mean", "variance", "response")}
    return found


def starting_point(
    program: StartedProgram, rng: np.random.Generator, chain: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Theta (d,), drawn from the hyperprior's central half if none is given, and latents (n,) if given."""
    if program.start_theta is None:
        theta = program.model.draw_prior(rng, central=0.5)
    else:
        theta = program.start_theta[chain % len(program.start_theta)]
    given = program.start_latents
    return theta, None if given is None else given[chain % len(given)]


@dataclass(frozen=True, eq=False)
class JointProgram:
    """Chains of one representation and update as a program of segments.

    An iteration is one sweep over theta and ``n_elliptical`` updates of f; a draw is the last of ``thin``
    iterations. Chain k starts from row k, modulo, of ``start_theta`` (pool, d), or without it from the
    hyperprior's central half; f starts at ``start_latents`` (pool, n), or 0. Chains are advanced one after
    another: each has its own factorisations.
    """

    model: GPModel
    representation: Representation
    update: HyperparameterUpdate
    n_elliptical: int = 10
    thin: int = 1
    start_theta: np.ndarray | None = None
    start_latents: np.ndarray | None = None
    X_new: np.ndarray | None = None
    keep_latents: bool = True

    stats: ClassVar[dict[str, str]] = STATS
    traced: ClassVar[tuple[str, ...]] = TRACED

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        given = {"theta": self.start_theta, "f": self.start_latents, "new": self.X_new}
        arrays = {name: value for name, value in given.items() if value is not None}
        settings = (
            self.representation, self.update, self.n_elliptical, self.thin, self.keep_latents,
        )  # fmt: skip
        return text_digest(self.model.digest(), array_digest(arrays), repr(settings))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        return draw_outputs(self)

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points."""
        model = self.model
        states = []
        for k, chain in enumerate(rng.chains):
            theta, f = starting_point(self, rng.generator(k), chain)
            f = np.zeros(model.n_cases) if f is None else f
            workspace = self.workspace()
            workspace.start(theta, f)
            states.append((theta, f, workspace.point.log_likelihood))
        theta, f, value = (np.array(part) for part in zip(*states, strict=True))
        return {"theta": theta, "latent": f, "log_likelihood": value}

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        n_chains, length = len(carry["theta"]), stop - start
        out = {
            name: np.zeros((n_chains, length, *shape), kind)
            for name, (shape, kind) in self.outputs().items()
        }
        carry = {name: value.copy() for name, value in carry.items()}
        workspace = self.workspace()
        for k in range(n_chains):
            generator = rng.generator(k)
            workspace.start(carry["theta"][k], carry["latent"][k])
            # its last bit may differ between a compiled loop and a call
            workspace.point.log_likelihood = float(carry["log_likelihood"][k])
            for t in range(length):
                self._draw(generator, workspace, {name: v[k, t : t + 1] for name, v in out.items()})
            carry["theta"][k], carry["latent"][k] = workspace.theta, workspace.point.f
            carry["log_likelihood"][k] = workspace.point.log_likelihood
        return carry, out

    def workspace(self) -> JointWorkspace:
        """Return buffers for one chain."""
        return JointWorkspace(self.model, self.representation)

    def _draw(self, rng: np.random.Generator, workspace: JointWorkspace, out: dict) -> None:
        """``thin`` iterations into rows of length one of every output."""
        cost, rates = workspace.cost, 0.0
        for j in range(self.thin):
            cost.reset()
            info = self.update.sweep(rng, workspace)
            workspace.update_latents(rng, self.n_elliptical)
            rates += info.acceptance_rate
            complete = workspace.complete_log_likelihood()
            for name in ("n_hyp", "n_cov", "n_lik", "n_failed"):
                out[name] += getattr(cost, name)
            if self.thin > 1:
                out["trace_theta"][0, j] = workspace.theta
                row = {"complete_log_likelihood": complete}
                row |= {name: getattr(cost, name) for name in TRACED[1:]}
                for name, value in row.items():
                    out[f"trace_{name}"][0, j] = value
        theta = workspace.theta
        out["theta"][0] = theta
        out["complete_log_likelihood"][0] = complete
        out["log_likelihood"][0] = workspace.point.log_likelihood
        out["lp"][0] = complete + self.model.log_prior(theta)
        out["acceptance_rate"][0] = rates / self.thin
        if self.keep_latents:
            out["latent"][0] = workspace.point.f
        if self.X_new is not None:
            found = predict_latents(self.model, workspace.point, self.X_new)
            out["new_mean"][0], out["new_variance"][0], out["new_response"][0] = found


def predict_latents(
    model: GPModel, point: Point, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of f at new inputs (m, p) given (theta, f), and the mean response, each (m,).

    With k the covariances with the cases: E = k'K^-1 f, Var = k_** - k'K^-1 k. The mean response, f
    integrated out, is that of one unit of exposure, or one trial.
    """
    cross = model.cross_covariance(point.full, X_new) / point.sd
    V = solve_triangular(point.factor.dense(), cross.T, lower=True)
    mean = V.T @ point.whiten(point.f)
    variance = np.maximum(model.prior_variance(point.full, X_new) - (V**2).sum(0), 0.0)
    response = model.likelihood_at(point.full).mean_response(mean + point.offset, variance)
    return mean, variance, response
