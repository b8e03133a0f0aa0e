"""Rounds of a chain that find sites, scale, step and number of steps of `JointSplitHMC`, then frozen."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.errors import NumericalError
from gpmcflow.execution import array_digest, text_digest
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import FrozenSites, JointDensity
from gpmcflow.models.regression_density import CollapsedDensity, density_of
from gpmcflow.samplers.joint_program import starting_point
from gpmcflow.samplers.joint_split_hmc import (
    Frame,
    JointSplitHMC,
    SplitTarget,
    transition,
)
from gpmcflow.samplers.joint_split_lengths import Lengths, choose_length

Density = JointDensity | CollapsedDensity
log = logging.getLogger(__name__)
FIRST_STEP, LARGEST_STEP = 0.3, 1.5
ANGLE = 1.5  # of trajectories before their length is chosen: a quarter of a turn
LONGEST = np.pi  # angle up to which lengths are compared
FACTORS = (0.75, 1.0, 1.35)  # of the tuned step, which are compared
BURN_IN = 2  # rounds after which what the round before found is not forgotten
PRIOR_DRAWS = 5.0  # weight, in draws, of the prior's variance in that of each hyperparameter


class StepAverage:
    """Step size by dual averaging of the log. Source: Hoffman & Gelman (2014), section 3.2."""

    def __init__(self, step: float, target: float) -> None:
        self.step, self.target = step, target
        self._origin, self._bias, self._mean, self._count = np.log(2.0 * step), 0.0, 0.0, 0

    def update(self, rate: float) -> None:
        """Take the acceptance rate of one more trajectory into account."""
        self._count += 1
        k = self._count
        self._bias += (self.target - rate - self._bias) / (k + 10.0)
        level = min(self._origin - np.sqrt(k) / 0.05 * self._bias, np.log(LARGEST_STEP))
        weight = k**-0.75
        self._mean = weight * level + (1.0 - weight) * self._mean
        self.step = float(np.exp(level))

    @property
    def average(self) -> float:
        """The step to freeze."""
        return float(np.exp(self._mean))


class Round(NamedTuple):
    """What one round leaves to the next, or to the chain."""

    x: np.ndarray
    latents: np.ndarray
    frame: Frame
    step_size: float
    n_steps: int
    acceptance_rate: float
    n_gradient: int
    n_diverging: int


def first_round(model: GPModel, density: Density, x: np.ndarray, f: np.ndarray | None) -> Round:
    """Frame at a start x: sites fitted there, the prior's scale."""
    d = model.dim
    sites = _sites(density, x) if density.n_z else plain_sites(model)
    return Round(x, f, Frame(np.zeros(d), np.eye(d), sites), FIRST_STEP, 1, np.nan, 0, 0)


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
    tuner = StepAverage(before.step_size, settings.target_acceptance)
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
    return Round(target.x(state), state.latents, frame, step, n_steps, rate, spent, diverging)


def _steps(angle: float, step: float, largest: int) -> int:
    return int(np.clip(np.ceil(angle / step), 1, largest))


def _refit(density: Density, draws: np.ndarray, frame: Frame, weight: float) -> Frame:
    """Mean and shrunk scale of draws of x, and sites at that mean; the old sites where a fit fails.

    The old frame counts as ``weight`` draws.
    """
    from sklearn.covariance import ledoit_wolf  # here: it takes long to load

    m, mean = len(draws), draws.mean(0)
    sd = np.sqrt((m * draws.var(0) + PRIOR_DRAWS) / (m + PRIOR_DRAWS))
    correlation, _ = ledoit_wolf((draws - mean) / sd, assume_centered=True)
    share, gap = weight / (m + weight), frame.center - mean
    center = mean + share * gap
    covariance = (1.0 - share) * (sd[:, None] * correlation * sd + share * np.outer(gap, gap))
    covariance += share * frame.scale @ frame.scale.T
    sites = frame.sites
    if density.n_z:
        try:
            sites = _sites(density, center)
        except NumericalError as error:
            log.warning("joint split HMC: a pilot round keeps its sites, since %s", error)
    return Frame(center, np.linalg.cholesky(covariance), sites)


@dataclass(frozen=True, eq=False)
class PilotProgram:
    """Pilots of chains as a program whose draws are rounds; chains start as those of `JointProgram`."""

    model: GPModel
    settings: JointSplitHMC
    start_theta: np.ndarray | None = None
    start_latents: np.ndarray | None = None

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        given = {"theta": self.start_theta, "f": self.start_latents}
        arrays = {name: value for name, value in given.items() if value is not None}
        return text_digest(self.model.digest(), array_digest(arrays), repr(self.settings))

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each round gives."""
        d, n = self.model.dim, self.model.n_cases
        n_latents = 0 if self.model.likelihood.conjugate else n
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
            theta, f = starting_point(self, generator, chain)
            x = model.parameters.to_normal(theta)
            density = density_of(model, plain_sites(model))
            found = first_round(model, density, x, f)
            if f is None:
                state = SplitTarget(density, found.frame).start(generator, x, None)
                found = found._replace(latents=state.latents)
            rounds.append(as_arrays(found))
        return {name: np.stack([r[name] for r in rounds]) for name in rounds[0]}

    def advance(self, rng, carry, start: int, stop: int):
        """Rounds start..stop-1."""
        chains = []
        for c in range(len(carry["x"])):
            found, rows = as_round(carry, c), []
            density = density_of(self.model, found.frame.sites)
            for k in range(start, stop):
                found = adapt(rng.generator(c), density, found, self.settings, k)
                rows.append(as_arrays(found))
            chains.append({name: np.stack([row[name] for row in rows]) for name in rows[0]})
        out = {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}
        return {name: values[:, -1].copy() for name, values in out.items()}, out


def _sites(density: Density, x: np.ndarray) -> FrozenSites:
    return frozen_sites(density.model, density.coordinates.theta(x)[0])


def plain_sites(model: GPModel) -> FrozenSites:
    """Sites that know nothing of the data, to build a density with before any are fitted."""
    return FrozenSites(np.ones(model.n_cases), np.zeros(model.n_cases))


def as_arrays(found: Round) -> dict[str, np.ndarray]:
    """A round as arrays by the names of `PilotProgram.outputs`."""
    values = found._asdict()
    frame = values.pop("frame")
    values |= {"center": frame.center, "scale": frame.scale}
    values |= {"precision": frame.sites.precision, "shift": frame.sites.shift}
    return {name: np.asarray(value) for name, value in values.items()}


def as_round(arrays: dict[str, np.ndarray], chain: int) -> Round:
    """Inverse of `as_arrays`, of one chain."""
    row = {name: value[chain] for name, value in arrays.items()}
    sites = FrozenSites(row.pop("precision"), row.pop("shift"))
    frame = Frame(row.pop("center"), row.pop("scale"), sites)
    numbers = {
        name: (float if row[name].dtype.kind == "f" else int)(row.pop(name))
        for name in ("step_size", "n_steps", "acceptance_rate", "n_gradient", "n_diverging")
    }
    return Round(frame=frame, **row, **numbers)
