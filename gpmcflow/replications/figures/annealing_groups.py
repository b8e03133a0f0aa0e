"""Annealing groups of an evidence tree, as the figures read them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import xarray as xr

_GROUP = re.compile(r"annealing(_.+)?")


def annealing_groups(tree: xr.DataTree) -> list[xr.Dataset]:
    """Annealing groups of an evidence tree, shortest ladder first, forward before reverse."""
    groups = [
        node.to_dataset() for name, node in tree.children.items() if _GROUP.fullmatch(str(name))
    ]
    return sorted(groups, key=lambda group: (group.sizes["temperature"], -direction_sign(group)))


def longest_ladders(trees: Mapping[str, xr.DataTree]) -> dict[str, xr.Dataset]:
    """Longest forward ladder of each method."""
    return {
        name: [group for group in annealing_groups(tree) if direction_sign(group) > 0][-1]
        for name, tree in trees.items()
    }


def direction_sign(group: xr.Dataset) -> float:
    """-1 for a reverse run, whose weights enter by their inverse, else 1."""
    return -1.0 if group.attrs.get("direction") == "reverse" else 1.0


def cumulated_weights(group: xr.Dataset) -> np.ndarray:
    """Log weights (..., chain, temperature) after each increment."""
    increments = group["log_weight_increment"].transpose(..., "chain", "temperature")
    return np.cumsum(increments.values, axis=-1)


def betas_reached(group: xr.Dataset) -> np.ndarray:
    """Inverse temperature that each increment leads to, and its transition is made at."""
    beta = np.asarray(group["beta"].values, dtype=float)
    return beta if direction_sign(group) > 0 else np.append(beta[1:], 0.0)


def ladder_label(group: xr.Dataset) -> str:
    """Length of the ladder, and whether the run went in reverse."""
    label = f"{group.sizes['temperature']} temperatures"
    return label if direction_sign(group) > 0 else f"{label}, reverse"
