"""The pilot of `JointSplitHMC`: mode, curvature, rounds, strength of the sites, step and number of steps."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.errors import NumericalError
from gpmcflow.execution import Execution, run, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.regression_density import density_of
from gpmcflow.samplers.adaptation.frame_choice import (
    FACTORS,
    N_STATES,
    FrameWorth,
    frame_worth,
    scaled,
)
from gpmcflow.samplers.adaptation.joint_mode import (
    Density,
    curvature_scale,
    find_mode,
    plain_sites,
    sites_at,
)
from gpmcflow.samplers.adaptation.lengths import Lengths, choose_length
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitState, SplitTarget, transition
from gpmcflow.samplers.program import stacked, state_of

if TYPE_CHECKING:
    from gpmcflow.samplers.joint.split_hmc import JointSplitHMC

log = logging.getLogger(__name__)
FIRST_STEP, LARGEST_STEP = 0.3, 1.5
ANGLE = 1.5  # of trajectories before their length is chosen: a quarter of a turn
LONGEST = np.pi  # angle up to which lengths are compared
STEPS = (0.75, 1.0, 1.35)  # times the tuned step, which are compared
FEW = (
    5  # hyperparameters up to which two rounds find a scale, by the plain covariance of their draws
)
SHORT, LAST = (100, 300), 240  # transitions of these rounds, and of the comparison of lengths
SETTLING = 4  # a quarter of the last round's transitions settle the step
SLOW = 0.9  # correlation over six trajectories above which chains only diffuse
LOCAL = (None, "synchronous", "threads", "processes")


class Stage(NamedTuple):
    """What one stage leaves to the next, or to the chains."""

    x: np.ndarray  #: hyperparameters in normal coordinates (d,)
    latents: np.ndarray  #: u of `PriorStructure`; empty where they are integrated out
    center: np.ndarray  #: of the frame (d,)
    scale: np.ndarray  #: (d, d)
    precision: np.ndarray  #: of its sites (n,)
    shift: np.ndarray  #: (n,)
    factor: float  #: times which the fitted sites' precisions were taken
    step_size: float
    n_steps: int
    acceptance_rate: float
    correlation: np.ndarray  #: of the slowest functions over six trajectories, by `FACTORS`; or nan
    worth: np.ndarray  #: effective draws for each gradient, by `FACTORS`; or nan
    n_gradient: int
    n_diverging: int

    @property
    def frame(self) -> Frame:
        """The frame that the next stage moves in."""
        return Frame(self.center, self.scale, FrozenSites(self.precision, self.shift))


def round_lengths(settings: JointSplitHMC, d: int) -> tuple[int, ...]:
    """Transitions of the rounds after the search for the mode."""
    if settings.rounds is not None:
        return settings.rounds
    return (*(SHORT if d <= FEW else (60, 120, 8 * d)), LAST)


def first_stage(density: Density, starts: list[np.ndarray], rng: np.random.Generator) -> Stage:
    """Mode, and the frame of the curvature there."""
    mode = find_mode(density, starts)
    scale = curvature_scale(density, mode.x)
    frame, factor = Frame(mode.x, scale, mode.sites), 1.0
    if weakened(density.model):
        factor = min(FACTORS)  # in which chains travel most freely
        frame = scaled(frame, factor)
    state = SplitTarget(density, frame).start(rng, mode.x, None)
    spent = mode.n_gradient + 2 * density.model.dim
    unknown = np.full(len(FACTORS), np.nan)
    return Stage(
        mode.x, state.latents, *frame[:2], *frame.sites, factor, FIRST_STEP, 1, np.nan, unknown, unknown,
        spent, 0,
    )  # fmt: skip


def weakened(model: GPModel) -> bool:
    """Whether sites may be too narrow, so that strengths are compared: those of labels, which are walls.

    On grids, where sites of rank-one precision are far from walls, weaker ones gained nothing.
    """
    return model.likelihood.relative_sites and not model.kronecker


def fit_frame(
    rng: np.random.Generator,
    density: Density,
    before: Stage,
    settings: JointSplitHMC,
    length: int,
    weight: float,
    first: bool,
    last: bool,
) -> Stage:
    """A round that tunes the step along trajectories of angle `ANGLE`, and then fits the frame anew.

    The frame before counts as ``weight`` draws; a third of the draws of the ``first`` round are dropped.
    After the ``last`` strengths of the sites are compared from its draws, where that has a point.
    """
    target = SplitTarget(density, before.frame)
    state = target.start(rng, before.x, before.latents)
    tuner = StepSize(before.step_size, settings.target_acceptance, LARGEST_STEP)
    states, infos = [], []
    for _ in range(length):
        n_steps = _steps(ANGLE, tuner.step, settings.max_steps)
        state, info = transition(rng, target, state, tuner.step, n_steps, settings.jitter)
        tuner.update(info.acceptance_rate)
        states.append((target.x(state), state.latents))
        infos.append(info)
    x = np.array([own for own, _ in states[length // 3 if first else 0 :]])
    frame = _refit(density, x, before.frame, before.factor, weight)
    stage = _stage(target, state, frame, tuner.average, infos, before)
    stage = stage._replace(n_steps=_steps(ANGLE, tuner.average, settings.max_steps))
    if last and weakened(density.model):
        stage = _choose_factor(rng, density, stage, states, settings)
    return stage


def _choose_factor(rng, density, stage: Stage, states: list, settings: JointSplitHMC) -> Stage:
    """The strength of the sites whose slowest functions are worth most for each gradient."""
    rows = np.linspace(len(states) // 4, len(states) - 1, min(N_STATES, len(states))).astype(int)
    chosen = [states[k] for k in rows]
    worths: list[FrameWorth] = []
    for factor in FACTORS:
        frame = scaled(stage.frame, factor / stage.factor)
        worths.append(
            frame_worth(
                rng, SplitTarget(density, frame), chosen, stage.step_size,
                settings.target_acceptance, settings.max_steps, settings.jitter, LARGEST_STEP,
            )
        )  # fmt: skip
    k = int(np.argmax([own.worth for own in worths]))
    if worths[k].correlation > SLOW:
        log.warning(
            "joint split HMC: over six trajectories the slowest function keeps %.2f of itself: chains only "
            "diffuse; take more draws, or narrower hyperpriors", worths[k].correlation,
        )  # fmt: skip
    frame = scaled(stage.frame, FACTORS[k] / stage.factor)
    return stage._replace(
        precision=frame.sites.precision,
        shift=frame.sites.shift,
        factor=FACTORS[k],
        step_size=worths[k].step_size,
        correlation=np.array([own.correlation for own in worths]),
        worth=np.array([own.worth for own in worths]),
        n_gradient=stage.n_gradient + sum(own.n_gradient for own in worths),
    )


def choose_steps(
    rng: np.random.Generator, density: Density, before: Stage, settings: JointSplitHMC, length: int
) -> Stage:
    """The last round: settle the step, then compare steps and numbers of steps in the frame that stays.

    By the efficiency of the slowest functions per gradient.
    """
    target = SplitTarget(density, before.frame)
    state = target.start(rng, before.x, before.latents)
    tuner = StepSize(before.step_size, settings.target_acceptance, LARGEST_STEP)
    infos = []
    for _ in range(length // SETTLING):
        n_steps = _steps(ANGLE, tuner.step, settings.max_steps)
        state, info = transition(rng, target, state, tuner.step, n_steps, settings.jitter)
        tuner.update(info.acceptance_rate)
        infos.append(info)
    steps = [min(factor * tuner.average, LARGEST_STEP) for factor in STEPS]
    lengths = [Lengths(_steps(LONGEST, step, settings.max_steps)) for step in steps]
    for t in range(length - len(infos)):
        watch, step = lengths[t % len(steps)], steps[t % len(steps)]
        state, info = transition(
            rng, target, state, step, watch.largest, settings.jitter, watch=watch
        )
        infos.append(info)
    variance = np.var([start for own in lengths for start in own.starts], axis=0)
    worth = [own.worth(variance, target.dim) for own in lengths]
    k, n_steps = choose_length(worth, [own.acceptance for own in lengths])
    stage = _stage(target, state, before.frame, steps[k], infos, before)
    rate = float(lengths[k].acceptance[n_steps - 1])
    return stage._replace(n_steps=n_steps, acceptance_rate=rate)


def _stage(target, state: SplitState, frame: Frame, step, infos, before: Stage) -> Stage:
    later = infos[len(infos) // 2 :]
    return before._replace(
        x=target.x(state),
        latents=state.latents,
        center=frame.center,
        scale=frame.scale,
        precision=frame.sites.precision,
        shift=frame.sites.shift,
        step_size=step,
        acceptance_rate=float(np.mean([info.acceptance_rate for info in later])),
        n_gradient=sum(info.n_gradient for info in infos),
        n_diverging=sum(info.diverging for info in infos),
    )


def _steps(angle: float, step: float, largest: int) -> int:
    return int(np.clip(np.ceil(angle / step), 1, largest))


def _refit(
    density: Density, draws: np.ndarray, frame: Frame, factor: float, weight: float
) -> Frame:
    """Mean and scale of draws of x, and sites at that mean, ``factor`` times as precise as they are fitted.

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
            sites = sites_at(density, center, sites.scaled(1.0 / factor)).scaled(factor)
        except NumericalError as error:
            log.warning("joint split HMC: a pilot round keeps its sites, since %s", error)
    return Frame(center, scale, sites)


def _covariance(centred: np.ndarray) -> np.ndarray:
    """Covariance of centred draws (m, d), its correlations shrunk where there are many."""
    if centred.shape[1] < FEW:
        return centred.T @ centred / len(centred)
    from sklearn.covariance import ledoit_wolf  # here: it takes long to load

    sd = centred.std(0)
    return sd[:, None] * ledoit_wolf(centred / sd, assume_centered=True)[0] * sd


@dataclass(frozen=True, eq=False)
class PilotProgram:
    """The pilot as a program of one chain whose draws are stages."""

    problem: JointProblem
    settings: JointSplitHMC

    @property
    def model(self) -> GPModel:
        """The model."""
        return self.problem.target

    @property
    def lengths(self) -> tuple[int, ...]:
        """Transitions of the rounds."""
        return round_lengths(self.settings, self.model.dim)

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        return text_digest(self.problem.digest(), repr(self.settings), repr(self.lengths))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each stage gives."""
        d, n = self.model.dim, self.model.n_cases
        n_latents = 0 if self.model.likelihood.conjugate else n
        shapes = {"x": (d,), "latents": (n_latents,), "center": (d,), "scale": (d, d)}
        shapes |= {"precision": (n,), "shift": (n,)}
        shapes |= {name: (len(FACTORS),) for name in ("correlation", "worth")}
        shapes |= {name: () for name in ("factor", "step_size", "acceptance_rate")}
        outputs = {name: (shape, "<f8") for name, shape in shapes.items()}
        return outputs | {name: ((), "<i8") for name in ("n_steps", "n_gradient", "n_diverging")}

    def start(self, rng) -> dict[str, np.ndarray]:
        """The mode."""
        density = density_of(self.model, plain_sites(self.model))
        generator = rng.generator(0)
        return stacked([first_stage(density, self.problem.pilot_starts(generator), generator)])

    def advance(self, rng, carry, start: int, stop: int):
        """Stages start..stop-1, the first of which is the mode that `start` gave."""
        stage, stages, generator = state_of(Stage, carry, 0), [], rng.generator(0)
        density = density_of(self.model, stage.frame.sites)
        lengths, d = self.lengths, self.model.dim
        for k in range(start, stop):
            if k == len(lengths):
                stage = choose_steps(generator, density, stage, self.settings, lengths[-1])
            elif k > 0:
                weight = 10.0 + d if k == 1 else 0.5 * lengths[k - 2]
                stage = fit_frame(
                    generator, density, stage, self.settings, lengths[k - 1], weight,
                    first=k == 1, last=k == len(lengths) - 1,
                )  # fmt: skip
            stages.append(stage)
        rows = {name: values[None] for name, values in stacked(stages).items()}
        return {name: values[:, -1].copy() for name, values in rows.items()}, rows


def run_pilot(
    program: PilotProgram, *, seed: int, key: tuple, execution: Execution
) -> dict[str, np.ndarray]:
    """All stages of the pilot, (1, stage, ...) by the names of `PilotProgram.outputs`.

    Its stream follows from seed and key alone. Where chains run on this machine it runs in this process.
    """
    label = execution.label and f"{execution.label}, pilot"
    here = execution.scheduler is None or execution.scheduler in LOCAL
    stages = run(
        program,
        n_chains=1,
        length=1 + len(program.lengths),
        seed=seed,
        key=(*key, program.problem.stream, "pilot"),
        execution=replace(
            execution.inside("pilot"), segment_length=1, compute=True, progress=label or False,
            **({"workers": 1, "scheduler": None} if here else {}),
        ),
    )  # fmt: skip
    return {name: np.asarray(v.compute(scheduler="synchronous")) for name, v in stages.items()}


def pilot_group(model: GPModel, stages: dict[str, np.ndarray]) -> xr.Dataset:
    """What the pilot chose and cost, by stage, and what it froze.

    Normal coordinates are x = center + scale y; the sites have precision and shift, ``factor`` times the
    fitted precision. Attribute ``chosen`` says it in words.
    """
    by_stage = ("step_size", "n_steps", "acceptance_rate", "n_gradient", "n_diverging", "factor")
    frozen = {
        "center": ("theta_dim",), "scale": ("theta_dim", "scale_dim"),
        "precision": ("case",), "shift": ("case",),
    }  # fmt: skip
    values: dict[str, Any] = {name: ("stage", stages[name][0]) for name in by_stage}
    values |= {name: (dims, stages[name][0, -1]) for name, dims in frozen.items()}
    values |= {name: ("candidate", stages[name][0, -1]) for name in ("correlation", "worth")}
    n_stages = stages["step_size"].shape[1]
    names = ["mode", *(f"round {k}" for k in range(1, n_stages - 1)), "steps"]
    coords: dict[str, Any] = {"stage": np.array(names), "candidate": np.array(FACTORS)}
    coords |= {"theta_dim": np.array(model.names), "scale_dim": np.arange(model.dim)}
    group = xr.Dataset(values, coords | {"case": np.arange(model.n_cases)})
    return group.assign_attrs(chosen=_in_words(group))


def _in_words(group: xr.Dataset) -> str:
    last = group.isel(stage=-1)
    steps = f"{int(last.n_steps)} steps of {float(last.step_size):.3g}"
    if np.isnan(group["worth"].values).all():
        return f"{steps}; sites as they were fitted, as this model's are never too narrow"
    rows = zip(group.candidate.values, group.correlation.values, group.worth.values, strict=True)
    told = [
        f"{1000 * worth:.3g} effective draws a 1000 gradients with {factor:g} of the fitted precision "
        f"(correlation over six trajectories {rho:.2f})"
        for factor, rho, worth in rows
    ]
    return f"{steps}; sites of {float(last.factor):g} times the fitted precision: {', '.join(told)}"
