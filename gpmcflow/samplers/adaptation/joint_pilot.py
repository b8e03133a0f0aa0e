"""The pilot of `JointSplitHMC`: mode and curvature, rounds that fit the frame, and the step in it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.search import Density
from gpmcflow.errors import NumericalError
from gpmcflow.execution import Execution, array_digest, run, text_digest
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.samplers.adaptation.joint_mode import (
    curvature_scale,
    find_mode,
    plain_sites,
    sites_at,
)
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.program import stacked, state_of

if TYPE_CHECKING:
    from gpmcflow.samplers.joint.split_hmc import JointSplitHMC

log = logging.getLogger(__name__)
FIRST_STEP, LARGEST_STEP = 0.3, 1.0
ANGLE = 2.0  # of trajectories: measured best, for counts and labels; 1.4 and 2.8 give 0.7 of it
LABELS = 0.25  # of the fitted precisions, for labels: a balance between hyperparameters and latents
CLASSES = 1.0 / 12.0  # of several classes: worst latents gain 1.7 to 2 times over a quarter (iris)
FEW = 5  # hyperparameters up to which the plain covariance of their draws is taken
FEW_ROUNDS, MANY_ROUNDS = (100, 300, 300), (60, 120)  # and, of many, one round of 8 d
LAST_ROUND = 60  # transitions, which settle the step
LOCAL = (None, "synchronous", "threads", "processes")


class Stage(NamedTuple):
    """What one stage leaves to the next, or to the chains."""

    x: np.ndarray  #: hyperparameters in normal coordinates (d,)
    latents: np.ndarray  #: u of `PriorStructure`; empty where they are integrated out
    center: np.ndarray  #: of the frame (d,)
    scale: np.ndarray  #: (d, d)
    precision: np.ndarray  #: of its sites (n,)
    shift: np.ndarray  #: (n,)
    step_size: float
    n_steps: int
    acceptance_rate: float
    n_gradient: int
    n_diverging: int

    @property
    def frame(self) -> Frame:
        """The frame that the next stage moves in."""
        return Frame(self.center, self.scale, FrozenSites(self.precision, self.shift))

    def with_frame(self, frame: Frame) -> Stage:
        """The same at another frame."""
        (precision, shift) = frame.sites
        return self._replace(
            center=frame.center, scale=frame.scale, precision=precision, shift=shift
        )


class Earlier(NamedTuple):
    """What the pilot of earlier draws found in normal coordinates."""

    center: np.ndarray  #: (d,)
    scale: np.ndarray  #: (d, d)
    step_size: float


def round_lengths(settings: JointSplitHMC, d: int) -> tuple[int, ...]:
    """Transitions of the rounds after the search for the mode; with an earlier pilot the last one is left."""
    if settings.rounds is not None:
        return settings.rounds
    if settings.earlier is not None:
        return (LAST_ROUND,)
    return (*(FEW_ROUNDS if d <= FEW else (*MANY_ROUNDS, 8 * d)), LAST_ROUND)


def site_factor(model: GPModel) -> float:
    """Times which fitted precisions are taken: less than 1 for labels under a dense covariance, and classes.

    Their likelihoods are walls rather than bells: a reference narrower than the posterior is left by
    diffusion only. Labels under other structures have sites that are far from walls, of which weaker ones
    gain nothing; classes gain there, too (worst weights twofold, iris).
    """
    if not model.likelihood.relative_sites or model.kronecker:
        return 1.0
    if len(model.likelihood.functions) > 1:
        return LABELS if model.basis else CLASSES
    return 1.0 if model.basis else LABELS


def require_factor(model: GPModel) -> None:
    """Raise `NumericalError` where draws of integrated latents would find no factor of the covariance."""
    if model.likelihood.conjugate and not model.basis:
        model.filled_factor(model.full(model.prior_median()))


def first_stage(density: Density, starts: list[np.ndarray], rng: np.random.Generator) -> Stage:
    """Mode, and the frame of the curvature there."""
    mode, model = find_mode(density, starts), density.model
    scale = curvature_scale(density, mode.x)
    frame = Frame(mode.x, scale, mode.sites.scaled(site_factor(model)))
    state = SplitTarget(density, frame).start(rng, mode.x, None)
    spent = mode.n_gradient + 2 * model.dim
    return Stage(mode.x, state.latents, *frame[:2], *frame.sites, FIRST_STEP, 1, np.nan, spent, 0)


def later_stage(density: Density, earlier: Earlier, rng: np.random.Generator) -> Stage:
    """The frame of an earlier pilot, with sites fitted in its centre."""
    sites = sites_at(density, earlier.center).scaled(site_factor(density.model))
    frame = Frame(earlier.center, earlier.scale, sites)
    state = SplitTarget(density, frame).start(rng, earlier.center, None)
    step = earlier.step_size
    return Stage(earlier.center, state.latents, *frame[:2], *frame.sites, step, 1, np.nan, 0, 0)


def run_round(
    rng: np.random.Generator, density: Density, before: Stage, settings: JointSplitHMC, length: int
) -> tuple[Stage, np.ndarray]:
    """A round of trajectories of angle `ANGLE` that tunes their step; and its draws of x (length, d)."""
    target = SplitTarget(density, before.frame)
    state = target.start(rng, before.x, before.latents)
    tuner = StepSize(before.step_size, settings.target_acceptance, LARGEST_STEP)
    draws, infos = [], []
    for _ in range(length):
        n_steps = _steps(tuner.step, settings.max_steps)
        state, info = transition(rng, target, state, tuner.step, n_steps, settings.jitter)
        tuner.update(info.acceptance_rate)
        draws.append(target.x(state))
        infos.append(info)
    later = infos[length // 2 :]
    stage = before._replace(
        x=target.x(state),
        latents=state.latents,
        step_size=tuner.average,
        n_steps=_steps(tuner.average, settings.max_steps),
        acceptance_rate=float(np.mean([info.acceptance_rate for info in later])),
        n_gradient=sum(info.n_gradient for info in infos),
        n_diverging=sum(info.diverging for info in infos),
    )
    return stage, np.array(draws)


def _steps(step: float, largest: int) -> int:
    return int(np.clip(round(ANGLE / step), 1, largest))


def refit(density: Density, draws: np.ndarray, frame: Frame, weight: float) -> Frame:
    """Mean and scale of draws of x (m, d), and sites at that mean.

    The old frame counts as ``weight`` draws; it stays where the draws did not move, or along a line only,
    and its sites where a fit fails.
    """
    if not np.ptp(draws, axis=0).all():
        return frame
    m, mean = len(draws), draws.mean(0)
    share, gap = weight / (m + weight), frame.center - mean
    center = mean + share * gap
    covariance = (1.0 - share) * (_covariance(draws - mean) + share * np.outer(gap, gap))
    covariance += share * frame.scale @ frame.scale.T
    try:
        scale = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return frame
    sites = frame.sites
    if density.n_z:
        try:
            fitted = sites_at(density, center, sites, quiet=False)
            sites = fitted.scaled(site_factor(density.model))
        except NumericalError as error:
            log.warning("joint split HMC: a pilot round keeps its sites, since %s", error)
    return Frame(center, scale, sites)


def _covariance(centred: np.ndarray) -> np.ndarray:
    """Covariance of centred draws (m, d), its correlations shrunk where there are many."""
    if centred.shape[1] <= FEW:
        return centred.T @ centred / len(centred)
    from sklearn.covariance import ledoit_wolf  # here: it takes long to load

    sd = centred.std(0)
    return sd[:, None] * ledoit_wolf(centred / sd, assume_centered=True)[0] * sd


@dataclass(frozen=True, eq=False)
class PilotProgram:
    """The pilot as a program: a chain is a pilot, its draws are stages."""

    problem: JointProblem
    settings: JointSplitHMC

    @property
    def model(self) -> GPModel:
        """Model whose hyperparameters and latents are sampled."""
        return self.problem.target

    @property
    def lengths(self) -> tuple[int, ...]:
        """Transitions of the rounds."""
        return round_lengths(self.settings, self.model.dim)

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        earlier = self.settings.earlier
        parts = [] if earlier is None else [array_digest(earlier._asdict())]
        return text_digest(self.problem.digest(), repr(self.settings), repr(self.lengths), *parts)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each stage gives."""
        d, n = self.model.dim, self.model.n_sites
        n_latents = 0 if self.model.likelihood.conjugate else self.model.n_latents
        shapes = {"x": (d,), "latents": (n_latents,), "center": (d,), "scale": (d, d)}
        shapes |= {"precision": (n,), "shift": (n,)}
        shapes |= {name: () for name in ("step_size", "acceptance_rate")}
        outputs = {name: (shape, "<f8") for name, shape in shapes.items()}
        return outputs | {name: ((), "<i8") for name in ("n_steps", "n_gradient", "n_diverging")}

    def start(self, rng) -> dict[str, np.ndarray]:
        """First stage of each pilot: centre, scale and sites at a mode that it climbs to, or earlier ones."""
        density = density_of(self.model, plain_sites(self.model))
        stages = []
        for k, pilot in enumerate(rng.chains):
            generator = rng.generator(k)
            if self.settings.earlier is not None:
                stages.append(later_stage(density, self.settings.earlier, generator))
                continue
            starts = self.problem.pilot_starts(generator, pilot)
            stages.append(first_stage(density, starts, generator))
        return stacked(stages)

    def advance(self, rng, carry, start: int, stop: int):
        """Stages start..stop-1, the first of which is the mode that `start` gave."""
        pilots = [
            self._stages(rng.generator(k), state_of(Stage, carry, k), start, stop)
            for k in range(len(rng.chains))
        ]
        rows = {name: np.stack([p[name] for p in pilots]) for name in Stage._fields}
        return {name: values[:, -1].copy() for name, values in rows.items()}, rows

    def _stages(
        self, generator: np.random.Generator, stage: Stage, start: int, stop: int
    ) -> dict[str, np.ndarray]:
        density, stages = density_of(self.model, stage.frame.sites), []
        lengths, d = self.lengths, self.model.dim
        for k in range(start, stop):
            if k > 0:
                stage, draws = run_round(generator, density, stage, self.settings, lengths[k - 1])
            if 0 < k < len(lengths):
                used = draws[lengths[0] // 3 :] if k == 1 else draws
                weight = 10.0 + d if k == 1 else 0.5 * lengths[k - 2]
                frame = refit(density, used, stage.frame, weight)
                stage = stage.with_frame(frame)
            stages.append(stage)
        return stacked(stages)


def run_pilots(
    program: PilotProgram, *, seed: int, key: tuple, execution: Execution, n_pilots: int = 1
) -> dict[str, np.ndarray]:
    """All stages of independent pilots, (pilot, stage, ...) by the names of `PilotProgram.outputs`.

    Their streams follow from seed, key and number alone. Where chains run on this machine a single one runs
    in this process.
    """
    label = execution.label and f"{execution.label}, pilot"
    here = n_pilots == 1 and (execution.scheduler is None or execution.scheduler in LOCAL)
    stages = run(
        program,
        n_chains=n_pilots,
        length=1 + len(program.lengths),
        seed=seed,
        key=(*key, program.problem.stream, "pilot"),
        execution=replace(
            execution.inside("pilot"), segment_length=1, block_size=1, compute=True, progress=label or False,
            **({"workers": 1, "scheduler": None} if here else {}),
        ),
    )  # fmt: skip
    return {name: np.asarray(v.compute(scheduler="synchronous")) for name, v in stages.items()}


def pilot_group(model: GPModel, stages: dict[str, np.ndarray]) -> xr.Dataset:
    """What the pilot chose and cost, by stage, and what it froze.

    Normal coordinates are x = center + scale y; the sites have precision and shift. Attribute ``chosen`` says
    it in words; ``structure`` says why the latents are weights of functions, where that was not asked for, or
    the cells of a grid.
    """
    by_stage = ("step_size", "n_steps", "acceptance_rate", "n_gradient", "n_diverging")
    frozen = {
        "center": ("theta_dim",), "scale": ("theta_dim", "scale_dim"),
    }  # fmt: skip
    values: dict[str, Any] = {name: ("stage", stages[name][0]) for name in by_stage}
    values |= {name: (dims, stages[name][0, -1]) for name, dims in frozen.items()}
    several = len(model.likelihood.functions) > 1
    n_sites = model.n_cases if several else model.n_sites
    site = "cell_dim" if model.latent_variable == "cell" else "case"
    for name in ("precision", "shift"):
        rows = stages[name][0, -1].reshape(-1, n_sites)
        values[name] = (("function", site), rows) if several else (site, rows[0])
    n_stages = stages["step_size"].shape[1]
    names = ["mode", *(f"round {k}" for k in range(1, n_stages - 1)), "step"]
    coords: dict[str, Any] = {"stage": np.array(names), "theta_dim": np.array(model.names)}
    coords |= {"scale_dim": np.arange(model.dim), site: np.arange(n_sites)}
    coords |= {"function": np.array(model.likelihood.functions)} if several else {}
    group = xr.Dataset(values, coords)
    chosen = model.chose_basis or model.kronecker
    by_itself = {"structure": model.structure_in_words} if chosen else {}
    return group.assign_attrs(chosen=_in_words(model, group), **by_itself)


def _in_words(model: GPModel, group: xr.Dataset) -> str:
    n_steps, step = int(group["n_steps"][-1]), float(group["step_size"][-1])
    words = f"{n_steps} steps of {step:.3g}, together an angle of about {ANGLE:g}"
    if model.likelihood.conjugate:
        return f"{words}; latents integrated out"
    factor = site_factor(model)
    if factor == 1.0:
        return f"{words}; sites as they were fitted"
    return (
        f"{words}; sites of {factor:g} times their fitted precision, as labels are walls, not bells"
    )
