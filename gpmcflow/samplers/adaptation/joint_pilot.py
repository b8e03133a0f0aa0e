"""Rounds of a chain that find sites, scale, step and number of steps of `JointSplitHMC`, then frozen."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.errors import NumericalError
from gpmcflow.execution import Execution, run, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.regression_density import CollapsedDensity, density_of
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.program import stacked, state_of

if TYPE_CHECKING:
    from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.adaptation.lengths import Lengths, choose_length
from gpmcflow.samplers.adaptation.step_sizes import StepSize

Density = JointDensity | CollapsedDensity
log = logging.getLogger(__name__)
FIRST_STEP, LARGEST_STEP = 0.3, 1.5
ANGLE = 1.5  # of trajectories before their length is chosen: a quarter of a turn
LONGEST = np.pi  # angle up to which lengths are compared
FACTORS = (0.75, 1.0, 1.35)  # of the tuned step, which are compared
BURN_IN = 2  # rounds after which what the round before found is not forgotten
PRIOR_DRAWS = 5.0  # weight, in draws, of the prior's variance in that of each hyperparameter


class Round(NamedTuple):
    """What one round leaves to the next, or to the chain."""

    x: np.ndarray  #: hyperparameters in normal coordinates (d,)
    latents: np.ndarray  #: (n_latents,), or (0,) where they are integrated out
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
        """The frame that the next round moves in."""
        return Frame(self.center, self.scale, FrozenSites(self.precision, self.shift))


def first_round(model: GPModel, density: Density, x: np.ndarray, f: np.ndarray | None) -> Round:
    """Frame at a start x: sites fitted there, the prior's scale."""
    d = model.dim
    sites = _sites(density, x) if density.n_z else plain_sites(model)
    return Round(x, f, np.zeros(d), np.eye(d), *sites, FIRST_STEP, 1, np.nan, 0, 0)


def adapt(
    rng: np.random.Generator,
    density: Density,
    before: Round,
    settings: JointSplitHMC,
    k: int,
) -> Round:
    """Round k of the pilot.

    All but the last tune the step along trajectories of angle `ANGLE`, and fit sites, mean and scale anew to
    the later part of their draws and, after `BURN_IN` rounds, the frame before; the last compares steps and
    numbers of steps in the frame that stays.
    """
    length = settings.rounds[k]
    target = SplitTarget(density, before.frame)
    state = target.start(rng, before.x, before.latents)
    if k == len(settings.rounds) - 1:
        return _compare(rng, target, state, before, settings, length)
    tuner = StepSize(before.step_size, settings.target_acceptance, LARGEST_STEP)
    draws, infos = [], []
    for _ in range(length):
        n_steps = _steps(ANGLE, tuner.step, settings.max_steps)
        state, info = transition(rng, target, state, tuner.step, n_steps, settings.jitter)
        tuner.update(info.acceptance_rate)
        draws.append(target.x(state))
        infos.append(info)
    earlier = 0.5 * settings.rounds[k - 1] if k > BURN_IN else 0.0
    frame = _refit(density, np.array(draws[length // 3 :]), before.frame, earlier)
    n_steps = _steps(ANGLE, tuner.average, settings.max_steps)
    return _round(target, state, frame, tuner.average, n_steps, infos)


def _compare(rng, target, state, before, settings, length) -> Round:
    """Step and number of steps by the efficiency of the slowest functions per gradient."""
    steps = [min(factor * before.step_size, LARGEST_STEP) for factor in FACTORS]
    lengths = [Lengths(_steps(LONGEST, step, settings.max_steps)) for step in steps]
    infos = []
    for t in range(length):
        watch, step = lengths[t % len(steps)], steps[t % len(steps)]
        state, info = transition(
            rng, target, state, step, watch.largest, settings.jitter, watch=watch
        )
        infos.append(info)
    variance = np.var([start for found in lengths for start in found.starts], axis=0)
    worth = [found.worth(variance, target.dim) for found in lengths]
    k, n_steps = choose_length(worth, [found.acceptance for found in lengths])
    return _round(target, state, before.frame, steps[k], n_steps, infos)._replace(
        acceptance_rate=float(lengths[k].acceptance[n_steps - 1])
    )


def _round(target, state, frame, step, n_steps, infos) -> Round:
    later = infos[len(infos) // 2 :]
    rate = float(np.mean([info.acceptance_rate for info in later]))
    spent = sum(info.n_gradient for info in infos)
    diverging = sum(info.diverging for info in infos)
    own = (frame.center, frame.scale, *frame.sites)
    return Round(target.x(state), state.latents, *own, step, n_steps, rate, spent, diverging)


def _steps(angle: float, step: float, largest: int) -> int:
    return int(np.clip(np.ceil(angle / step), 1, largest))


def _refit(density: Density, draws: np.ndarray, frame: Frame, weight: float) -> Frame:
    """Mean and shrunk scale of draws of x, and sites at that mean; the old sites where a fit fails.

    The old frame counts as ``weight`` draws, and stays where the draws did not move, or along a line only.
    """
    if not np.ptp(draws, axis=0).all():
        return frame
    from sklearn.covariance import ledoit_wolf  # here: it takes long to load

    m, mean = len(draws), draws.mean(0)
    sd = np.sqrt((m * draws.var(0) + PRIOR_DRAWS) / (m + PRIOR_DRAWS))
    correlation, _ = ledoit_wolf((draws - mean) / sd, assume_centered=True)
    share, gap = weight / (m + weight), frame.center - mean
    center = mean + share * gap
    covariance = (1.0 - share) * (sd[:, None] * correlation * sd + share * np.outer(gap, gap))
    covariance += share * frame.scale @ frame.scale.T
    try:
        scale = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return frame
    sites = frame.sites
    if density.n_z:
        try:
            sites = _sites(density, center)
        except NumericalError as error:
            log.warning("joint split HMC: a pilot round keeps its sites, since %s", error)
    return Frame(center, scale, sites)


@dataclass(frozen=True, eq=False)
class PilotProgram:
    """Pilots of chains as a program whose draws are rounds."""

    problem: JointProblem
    settings: JointSplitHMC

    @property
    def model(self) -> GPModel:
        """The model."""
        return self.problem.target

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        return text_digest(self.problem.digest(), repr(self.settings))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each round gives."""
        d, n = self.model.dim, self.model.n_cases
        n_latents = 0 if self.model.likelihood.conjugate else self.model.n_latents
        shapes = {"x": (d,), "latents": (n_latents,), "center": (d,), "scale": (d, d)}
        shapes |= {"precision": (n,), "shift": (n,)}
        outputs = {name: (shape, "<f8") for name, shape in shapes.items()}
        outputs |= {name: ((), "<f8") for name in ("step_size", "acceptance_rate")}
        return outputs | {name: ((), "<i8") for name in ("n_steps", "n_gradient", "n_diverging")}

    def start(self, rng) -> dict[str, np.ndarray]:
        """Rounds of no transitions at the starting points."""
        model, rounds = self.model, []
        for k, chain in enumerate(rng.chains):
            generator = rng.generator(k)
            given = self.problem.start(generator, chain)
            x, f = model.parameters.to_normal(given["theta"]), given.get(model.latent_variable)
            density = density_of(model, plain_sites(model))
            found = first_round(model, density, x, f)
            if f is None:
                state = SplitTarget(density, found.frame).start(generator, x, None)
                found = found._replace(latents=state.latents)
            rounds.append(found)
        return stacked(rounds)

    def advance(self, rng, carry, start: int, stop: int):
        """Rounds start..stop-1."""
        chains = []
        for c in range(len(carry["x"])):
            found, rows = state_of(Round, carry, c), []
            density = density_of(self.model, found.frame.sites)
            for k in range(start, stop):
                found = adapt(rng.generator(c), density, found, self.settings, k)
                rows.append(found)
            chains.append(stacked(rows))
        out = {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}
        return {name: values[:, -1].copy() for name, values in out.items()}, out


def run_pilots(
    program: PilotProgram, *, n_chains: int, seed: int, key: tuple, execution: Execution
) -> dict[str, np.ndarray]:
    """All rounds of all chains, (chain, round, ...) by the names of `PilotProgram.outputs`."""
    label = execution.label and f"{execution.label}, pilots"
    rounds = run(
        program,
        n_chains=n_chains,
        length=len(program.settings.rounds),
        seed=seed,
        key=(*key, program.problem.stream, "pilot"),
        execution=replace(
            execution.inside("pilot"), segment_length=1, compute=True, progress=label or False
        ),
    )
    return {name: np.asarray(v.compute(scheduler="synchronous")) for name, v in rounds.items()}


def pilot_group(model: GPModel, rounds: dict[str, np.ndarray]) -> xr.Dataset:
    """What the pilots chose and cost, by round, and what each chain's last one froze.

    Normal coordinates are x = center + scale y; the sites have precision and shift.
    """
    by_round = ("step_size", "n_steps", "acceptance_rate", "n_gradient", "n_diverging")
    frozen = {
        "center": ("chain", "theta_dim"), "scale": ("chain", "theta_dim", "scale_dim"),
        "precision": ("chain", "case"), "shift": ("chain", "case"),
    }  # fmt: skip
    values: dict[str, Any] = {name: (("chain", "round"), rounds[name]) for name in by_round}
    values |= {name: (dims, rounds[name][:, -1]) for name, dims in frozen.items()}
    n_chains, n_rounds = rounds["step_size"].shape
    coords = {"chain": np.arange(n_chains), "round": np.arange(n_rounds)}
    coords |= {"theta_dim": np.array(model.names), "scale_dim": np.arange(model.dim)}
    return xr.Dataset(values, coords | {"case": np.arange(model.n_cases)})


def _sites(density: Density, x: np.ndarray) -> FrozenSites:
    return frozen_sites(density.model, density.coordinates.theta(x)[0])


def plain_sites(model: GPModel) -> FrozenSites:
    """Sites that know nothing of the data, to build a density with before any are fitted."""
    return FrozenSites(np.ones(model.n_cases), np.zeros(model.n_cases))
