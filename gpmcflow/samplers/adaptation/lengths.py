"""Steps and lengths of trajectories compared by what the points on their way are worth."""

from __future__ import annotations

import numpy as np

from gpmcflow.samplers.joint.split_dynamics import SplitState, SplitTarget

SLOWEST = 0.1  # quantile of the efficiencies of a kind of function that a length is chosen by
CLOSE = 0.85  # of the best efficiency: from there on the longest trajectory is taken
LEAST_ACCEPTANCE = 0.65  # of what is chosen: narrow places that the pilot has not seen accept fewer
MOST_ACCEPTANCE = 0.93  # of steps, over all lengths, that are compared where there are others


class Lengths:
    """What trajectories of 1, 2, .. ``largest`` steps are worth, from the points on the way of the largest.

    For functions h of the state with variance V, a trajectory cut after l steps and accepted with
    probability alpha_l has lag-one autocorrelation rho_l = 1 - E[alpha_l (h_l - h_0)^2] / (2 V), and one draw
    of it is worth (1 - rho_l) / (1 + rho_l) independent ones; negative rho_l count as 0. h are the
    hyperparameters and their squares, the latents, and the complete log likelihood.
    """

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.starts: list[np.ndarray] = []
        self._jumps: np.ndarray | float = 0.0
        self._rates = np.zeros(largest)

    def __call__(
        self, target: SplitTarget, start: SplitState, points: list, rates: list[float]
    ) -> None:
        """Take a trajectory into account: its points, and alpha_l."""
        first = _functions(target, start)
        jumps = np.zeros((self.largest, len(first)))
        for m, (point, rate) in enumerate(zip(points, rates, strict=True)):
            self._rates[m] += rate
            if rate > 0.0:
                jumps[m] = rate * (_functions(target, point) - first) ** 2
        self._jumps = self._jumps + jumps
        self.starts.append(first)

    @property
    def acceptance(self) -> np.ndarray:
        """Mean alpha_l (largest,)."""
        return self._rates / max(len(self.starts), 1)

    def worth(self, variance: np.ndarray, d: int) -> np.ndarray:
        """Independent draws a trajectory is worth, by its steps (largest,), of the slowest kind of h."""
        if not self.starts:
            return np.zeros(self.largest)
        scale = 2.0 * len(self.starts) * np.maximum(variance, 1e-300)
        share = np.minimum(self._jumps / scale, 1.0)
        kinds = np.split(share / (2.0 - share), [2 * d, share.shape[1] - 1], axis=1)
        return np.min([np.quantile(kind, SLOWEST, axis=1) for kind in kinds if kind.size], axis=0)


def _functions(target: SplitTarget, state: SplitState) -> np.ndarray:
    y = state.position[: target.dim]
    return np.concatenate([target.x(state), y * y, state.latents, [state.complete]])


def choose_length(worth: list[np.ndarray], acceptance: list[np.ndarray]) -> tuple[int, int]:
    """Index of the step, and the number of steps, from `Lengths.worth` and `Lengths.acceptance` of each step.

    Of steps that are not smaller than they need be the best worth per gradient; of those `CLOSE` to it the
    longest, whose draws are worth most. (0, 1) where all accept too few.
    """
    rates = [float(rate.mean()) for rate in acceptance]
    useful = [k for k, rate in enumerate(rates) if rate <= MOST_ACCEPTANCE] or range(len(worth))
    found = [
        (float(value / (m + 1)), float(value), k, m + 1)
        for k in useful
        for m, value in enumerate(worth[k])
        if acceptance[k][m] >= LEAST_ACCEPTANCE
    ]
    if not found:
        return 0, 1
    best = max(found)[0]
    _, k, n_steps = max(row[1:] for row in found if row[0] >= CLOSE * best)
    return k, n_steps
