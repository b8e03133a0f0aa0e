"""Chains over hyperparameters and latents as a program of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.joint_model import JointModel
from gpmcflow.models.likelihoods import Gaussian, Poisson
from gpmcflow.samplers.hyperparameter_updates import HyperparameterUpdate
from gpmcflow.samplers.joint_workspace import JointWorkspace
from gpmcflow.samplers.representations import Point, Representation

STATS = {
    "complete_log_likelihood": "<f8", "log_likelihood": "<f8", "lp": "<f8",
    "acceptance_rate": "<f8", "n_hyp": "<i8", "n_cov": "<i8", "n_lik": "<i8", "n_failed": "<i8",
}  # fmt: skip
TRACED = ("complete_log_likelihood", "n_hyp", "n_cov", "n_lik")


@dataclass(frozen=True, eq=False)
class JointProgram:
    """Chains of one representation and update as a program of segments.

    An iteration is one sweep over theta and ``n_elliptical`` updates of f; a draw is the last of ``thin``
    iterations. Chain k starts from row k, modulo, of ``start_theta`` (pool, d), or without it from the
    hyperprior's central half; f starts at ``start_latents`` (pool, n), or 0. Chains are advanced one after
    another: each has its own factorisations.
    """

    model: JointModel
    representation: Representation
    update: HyperparameterUpdate
    n_elliptical: int = 10
    thin: int = 1
    start_theta: np.ndarray | None = None
    start_latents: np.ndarray | None = None
    X_new: np.ndarray | None = None
    keep_latents: bool = True
    shortcuts: bool = True

    stats: ClassVar[dict[str, str]] = STATS
    traced: ClassVar[tuple[str, ...]] = TRACED

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        given = {"theta": self.start_theta, "f": self.start_latents, "new": self.X_new}
        arrays = {name: value for name, value in given.items() if value is not None}
        settings = (
            self.representation, self.update, self.n_elliptical, self.thin, self.keep_latents,
            self.shortcuts,
        )  # fmt: skip
        return text_digest(self.model.digest(), array_digest(arrays), repr(settings))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        d, n = self.model.dim, self.model.n_cases
        found: dict[str, tuple[tuple[int, ...], str]] = {"theta": ((d,), "<f8")}
        found |= {name: ((), kind) for name, kind in STATS.items()}
        if self.keep_latents:
            found["latent"] = ((n,), "<f8")
        if self.thin > 1:
            found["trace_theta"] = ((self.thin, d), "<f8")
            found |= {f"trace_{name}": ((self.thin,), STATS[name]) for name in TRACED}
        if self.X_new is not None:
            shape = (len(self.X_new),)
            found |= {f"new_{name}": (shape, "<f8") for name in ("mean", "variance", "response")}
        return found

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points."""
        model = self.model
        states = []
        for k, chain in enumerate(rng.chains):
            generator = rng.generator(k)
            if self.start_theta is None:
                theta = model.draw_prior(generator, central=0.5)
            else:
                theta = self.start_theta[chain % len(self.start_theta)]
            f = np.zeros(model.n_cases)
            if self.start_latents is not None:
                f = self.start_latents[chain % len(self.start_latents)]
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
        return JointWorkspace(self.model, self.representation, self.shortcuts)

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
    model: JointModel, point: Point, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of f at new inputs (m, p) given (theta, f), and the mean response, each (m,).

    With k the covariances with the cases: E = k'Sigma^-1 f, Var = k_** - k'Sigma^-1 k. The mean response is
    E[y] of Gaussian data, the probability of +1, or the expected count, f integrated out.
    """
    cross = model.cross_covariance(point.full[model.free], X_new) / point.sd
    V = solve_triangular(point.factor.dense(), cross.T, lower=True)
    mean = V.T @ point.whiten(point.f)
    variance = np.maximum(point.sd**2 * point.factor.diagonal - (V**2).sum(0), 0.0)
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian):
        return mean, variance, mean.copy()
    if isinstance(likelihood, Poisson):
        return mean, variance, likelihood.exposure * np.exp(mean + point.offset + 0.5 * variance)
    ones, positive = np.ones(len(mean)), np.maximum(variance, 1e-12)
    return mean, variance, np.exp(likelihood.tilted(ones, mean, positive)[0])
