"""u at draws of the posterior and of the reference of `JointPath`: of chains, or of draws there are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence.joint_tempering import JointPath
from gpmcflow.execution import array_digest, chain_generators, text_digest
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.description import data_of, describe
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers.adaptation.joint_mode import plain_sites, sites_at
from gpmcflow.samplers.adaptation.joint_pilot import (
    FIRST_STEP,
    Stage,
    first_stage,
    require_factor,
    site_factor,
)
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import SplitInfo
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC, SplitTransition, TunedSplitHMC
from gpmcflow.samplers.problem import Outputs
from gpmcflow.samplers.program import stacked


class EndsProblem(JointProblem):
    """As `JointProblem`, with u at each draw, and at ``per_draw`` of the reference."""

    stream = "model_evidence"
    per_draw: ClassVar[int] = 4  # of values only, which cost little beside a trajectory

    @property
    def recorded(self) -> Outputs:
        """theta, latents, log likelihoods, u of the draw, and of those of the reference."""
        ends: Outputs = {"log_ratio": ((), "<f8"), "reference": ((self.per_draw,), "<f8")}
        return super().recorded | ends


class GivenEnds(EndsProblem):
    """Of draws that are there already, which cost a value each."""

    per_draw = 2


class EndsSampler(TunedSplitHMC):
    """`TunedSplitHMC` whose chains record u."""

    def bind(self, target: GPModel, chain: int = 0) -> EndsTransition:
        """Transitions of one chain in the frame of its pilot."""
        return EndsTransition(target, self.stage(chain), self.settings)

    def digest(self) -> str:
        """That of the pilots, and what is recorded."""
        return f"{self.tuned_by} {EndsProblem.per_draw}"


class EndsTransition(SplitTransition):
    """Trajectories of one chain, with u at each draw in the frame whose sites are as they were fitted."""

    def __init__(self, model: GPModel, pilot: Stage, settings: JointSplitHMC) -> None:
        super().__init__(model, pilot, settings)
        self.path = JointPath(model, pilot)

    def record(self, rng: np.random.Generator, state: Any) -> dict[str, Any]:
        """What `SplitTransition` records, and u."""
        ends = _ends(rng, self.path, self.target.x(state), state.latents, EndsProblem.per_draw)
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

    def evenly(self, most: int) -> GivenDraws:
        """At most so many of a chain, evenly spaced."""
        step = -(-self.theta.shape[1] // most)
        return GivenDraws(
            *(values if values is None else values[:, ::step] for values in vars(self).values())
        )


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
        return text_digest(super().digest(), str(GivenEnds.per_draw), self.draws.digest())

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
            **_ends(rng, self.path, model.parameters.to_normal(theta), latents, GivenEnds.per_draw),
        }


def _ends(
    rng: np.random.Generator, path: JointPath, x: np.ndarray, latents: np.ndarray, per_draw: int
) -> dict[str, Any]:
    reference = np.array([path.reference(rng) for _ in range(per_draw)])
    return {"log_ratio": path.posterior(rng, x, latents), "reference": reference}


LEAST_DRAWS = 100  # of a chain
_WHERE = "model_evidence: draws"


def draws_of(tree: xr.DataTree, model: GPModel) -> tuple[GivenDraws, dict[str, np.ndarray] | None]:
    """The draws in results of `sample`, and what their pilot found, if any, as a stage.

    A pilot of `PseudoMarginalHMC` lends its frame, in whose center sites are fitted. The pilot's reference
    was frozen before the first of these draws, which a reference must be: one fitted to draws that are then
    bridged is biased (Overstall & Forster, 2010).

    Raises `InputError` for draws without latents, of another model or other data, and fewer than 100 a chain.
    """
    groups = getattr(tree, "children", {})
    if "posterior" not in groups or "theta" not in tree["posterior"]:
        raise InputError(
            f"{_WHERE}: found no group posterior with theta; allowed: what sample(model) returns"
        )
    _require_same(tree, model)
    posterior = tree["posterior"].to_dataset().transpose("chain", "draw", ...)
    n_draws = posterior.sizes["draw"]
    if n_draws < LEAST_DRAWS:
        raise InputError(
            f"{_WHERE}: found {n_draws} draws a chain; allowed: {LEAST_DRAWS} or more; run longer chains"
        )
    theta = posterior["theta"].values
    stage = _stage_of(tree["pilot"].to_dataset(), model) if "pilot" in groups else None
    if model.likelihood.conjugate:
        return GivenDraws(theta), stage
    name = model.latent_variable
    if name not in posterior:
        raise InputError(f"{_WHERE}: found no {name}; sample with keep_latents=True")
    stats = tree["sample_stats"].to_dataset().transpose("chain", "draw", ...)
    latents = posterior[name].values.reshape(*theta.shape[:2], -1)
    return GivenDraws(theta, latents, stats["sum_log_likelihood"].values), stage


def as_drawn(model: GPModel, tree: xr.DataTree) -> GPModel:
    """The model, without its exact basis where a sampler had to do without it."""
    settings = json.loads(getattr(tree, "attrs", {}).get("settings", "{}"))
    dense = settings.get("model", {}).get("structure") == "dense"
    return model.dense_if_exact() if dense else model


def _require_same(tree: xr.DataTree, model: GPModel) -> None:
    settings = json.loads(tree.attrs.get("settings", "{}"))
    own = json.loads(json.dumps(describe(model)))
    checksums = [array_digest({"X": model.X, "y": model.y})]
    if model.likelihood.conjugate:  # draws of a log density name that
        checksums.append(text_digest(RegressionDensity(model).digest()))
    if tree.attrs.get("data_checksum") not in checksums:
        raise InputError(f"{_WHERE}: they are of other data than the model; draw from this model")
    constants = data_of(model)["constant_data"].drop_vars("X")
    stored = tree["constant_data"].to_dataset() if "constant_data" in tree.children else {}
    for name, values in constants.items():
        if name in stored and not np.array_equal(
            stored[name].values, values.values, equal_nan=True
        ):
            raise InputError(f"{_WHERE}: they are of another {name}; draw from this model")
    for name, value in own.items():
        if name in settings.get("model", {}) and settings["model"][name] != value:
            raise InputError(
                f"{_WHERE}: they are of another model, whose {name} is {settings['model'][name]}, not "
                f"{value}; draw from this model"
            )


def _stage_of(pilot: xr.Dataset, model: GPModel) -> dict[str, np.ndarray] | None:
    """Fields of `Stage` by name, one row; None of a pilot without a frame."""
    if "precision" in pilot:
        return _last_stage(pilot)
    if "center" not in pilot:
        return None
    return _about(pilot["center"].values, pilot["scale"].values, model)


def _about(center: np.ndarray, scale: np.ndarray, model: GPModel) -> dict[str, np.ndarray] | None:
    """A stage with sites fitted at a center (d,) and a step that is not tuned; None where no fit is found."""
    try:
        sites = sites_at(density_of(model, plain_sites(model)), center).scaled(site_factor(model))
    except NumericalError:
        return None
    stage = Stage(
        center, np.empty(0), center, scale, *sites, FIRST_STEP, 1, np.nan, n_gradient=0, n_diverging=0
    )  # fmt: skip
    return stacked([stage])


def stage_at_mode(problem: JointProblem, seed: int, key: tuple) -> dict[str, np.ndarray] | None:
    """The first stage of a pilot, mode and curvature with a step that is not tuned; None without a mode."""
    model = problem.target
    rng = chain_generators(seed, *key, problem.stream, "mode", chains=[0]).generator(0)
    density = density_of(model, plain_sites(model))
    try:
        require_factor(model)
        return stacked([first_stage(density, problem.pilot_starts(rng), rng)])
    except NumericalError:
        return None


def _last_stage(pilot: xr.Dataset) -> dict[str, np.ndarray]:
    """The last stage of a pilot of `JointSplitHMC`."""
    site = "cell_dim" if "cell_dim" in pilot.dims else "case"
    pilot = pilot.transpose("stage", "theta_dim", "scale_dim", ..., site)
    for name in ("precision", "shift"):  # of several functions one row each
        pilot[name] = "site", pilot[name].values.ravel()
    last = pilot.isel(stage=-1)
    names = (
        "center", "scale", "precision", "shift", "step_size", "n_steps", "acceptance_rate", "n_gradient",
        "n_diverging",
    )  # fmt: skip
    row = {name: last[name].values[None] for name in names}
    return row | {"x": row["center"], "latents": np.empty((1, 0))}
