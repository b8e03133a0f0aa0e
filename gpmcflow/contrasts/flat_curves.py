"""Whether a curve is flat: the chance of so large a difference between its values, were it so."""

from __future__ import annotations

import numpy as np

LEAST_SPREAD = 1e-4  # of a difference, by the levels' own: smaller ones are rounding errors
N_FLAT, N_BLOCKS = 20_000, 10  # draws of the largest difference about a flat curve, in blocks
N_SEARCHED, RARE = 2_000, 0.01  # draws, and the chance at which pairs are set off against a trend
MOST_COMPARED = 32  # values of a curve whose differences are looked at


def flat_chance(draws: np.ndarray, values: np.ndarray | None = None) -> float:
    """Chance of a largest difference like that of draws (draw, g) of a curve, were the curve flat.

    A difference between two values is measured in its own posterior standard deviation; the largest over all
    pairs is compared with the largest of curves that vary about a flat one as the draws do about their mean.
    With the numbers ``values`` (g,) that the curve is at, its straight trend counts as a difference, too; the
    pairs have to exceed it by what the largest of so many exceeds one by chance, so that a steady rise has at
    most about twice the chance that it would have if nothing else had been looked for.
    The posterior is shrunk towards a flat curve, so that the chance is rather too large than too small.
    """
    some = np.unique(np.linspace(0, draws.shape[1] - 1, MOST_COMPARED).astype(int))
    draws = draws[:, some]
    if len(draws) < 2:
        return 1.0
    centred = draws - draws.mean(0)
    i, j = np.triu_indices(draws.shape[1], 1)
    spread = (centred[:, i] - centred[:, j]).std(0, ddof=1)
    pairs = spread > LEAST_SPREAD * centred.std(0).max(initial=0.0)
    if not pairs.any():
        return 1.0
    i, j, spread = i[pairs], j[pairs], spread[pairs]
    level = draws.mean(0)
    largest = np.abs((level[i] - level[j]) / spread).max()
    # as many normals a curve as it has values, not as there are draws: the covariance is the same
    root = np.linalg.qr(centred, mode="r") / np.sqrt(len(draws) - 1.0)
    rng, below = np.random.default_rng(0), 0
    steady, ahead = None, 0.0
    if values is not None:
        weights = np.asarray(values, dtype=float)[some]
        weights = weights - weights.mean()
        steady = weights / np.linalg.norm(root @ weights)
        flat = np.random.default_rng(1).standard_normal((N_SEARCHED, len(root))) @ root
        most = np.max(np.abs(flat[:, i] - flat[:, j]) / spread, axis=1)
        ahead = np.quantile(most, 1.0 - RARE) - np.quantile(np.abs(flat @ steady), 1.0 - RARE)
        largest = max(np.abs(level @ steady), largest - ahead)
    for _ in range(N_BLOCKS):
        flat = rng.standard_normal((N_FLAT // N_BLOCKS, len(root))) @ root
        if steady is not None:
            flat = flat[np.abs(flat @ steady) < largest]
        for first in np.unique(i):
            own = i == first
            gaps = np.abs(flat[:, [first]] - flat[:, j[own]])
            flat = flat[(gaps < (largest + ahead) * spread[own]).all(1)]
        below += len(flat)
    above = N_FLAT - below
    return (above + 1.0) / (N_FLAT + 1.0)
