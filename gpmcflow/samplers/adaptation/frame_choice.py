"""Which strength of the sites lets chains travel: by how soon functions forget where they started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition

FACTORS = (0.5, 0.1)  # of the fitted sites' precisions
N_STATES, N_TRANSITIONS, N_TUNE = 30, 6, 50
ANGLE = 1.4  # of the trajectories that are compared
QUANTILE = 0.9  # of the latents' correlations, of which the largest are noise
LEAST, MOST = 0.01, 0.99  # of a correlation that so few states can tell


class FrameWorth(NamedTuple):
    """What one strength of the sites is worth."""

    correlation: float  #: of the slowest kind of function with its value N_TRANSITIONS before
    worth: float  #: effective draws of that kind for each gradient
    step_size: float
    n_gradient: int


def comparison_transitions() -> int:
    """Transitions that a comparison of all `FACTORS` takes, for a forecast."""
    return len(FACTORS) * (N_TUNE + N_STATES * N_TRANSITIONS)


def frame_worth(
    rng: np.random.Generator,
    target: SplitTarget,
    states: Sequence[tuple[np.ndarray, np.ndarray]],
    step: float,
    target_acceptance: float,
    max_steps: int,
    jitter: float,
    largest_step: float,
) -> FrameWorth:
    """Compare functions of states (x, u) with what they are six trajectories of angle `ANGLE` later.

    For h among hyperparameters, latents and T the correlation is the slope of h_6 on h_0 over the states; a
    kind of function has the largest of the hyperparameters', the 0.9 quantile of the latents', or T's, and
    is worth (1 - r) / (1 + r) draws a trajectory, r = rho^(1/6). Jumps of one trajectory are blind to
    directions that a chain only diffuses along.
    """
    tuner, spent = StepSize(step, target_acceptance, largest_step), 0

    def steps(size: float) -> int:
        return int(np.clip(np.ceil(ANGLE / size), 1, max_steps))

    state = target.start(rng, *states[-1])
    for _ in range(N_TUNE):
        state, info = transition(rng, target, state, tuner.step, steps(tuner.step), jitter)
        tuner.update(info.acceptance_rate)
        spent += info.n_gradient
    size, before, after = tuner.average, [], []
    n_steps = steps(size)
    for x, latents in states:
        state = target.start(rng, x, latents)
        before.append(_functions(target, state))
        for _ in range(N_TRANSITIONS):
            state, info = transition(rng, target, state, size, n_steps, jitter)
            spent += info.n_gradient
        after.append(_functions(target, state))
    rho = slowest_correlation(np.array(before), np.array(after), target.dim)
    root = rho ** (1.0 / N_TRANSITIONS)
    return FrameWorth(rho, (1.0 - root) / (1.0 + root) / n_steps, size, spent)


def slowest_correlation(before: np.ndarray, after: np.ndarray, d: int) -> float:
    """Largest of the kinds' correlations of functions (state, d + latents + 1), within what can be told."""
    centred = before - before.mean(0)
    rho = (centred * (after - before.mean(0))).sum(0) / np.maximum((centred**2).sum(0), 1e-300)
    kinds = rho[:d].max(), np.quantile(rho[d:-1], QUANTILE), rho[-1]
    return float(np.clip(max(kinds), LEAST, MOST))


def scaled(frame: Frame, factor: float) -> Frame:
    """The frame with ``factor`` times its sites' precisions."""
    return frame._replace(sites=frame.sites.scaled(factor))


def _functions(target: SplitTarget, state) -> np.ndarray:
    return np.concatenate([target.x(state), state.latents, [state.complete]])
