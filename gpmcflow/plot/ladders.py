"""The ladder of temperatures from a fitted Gaussian to the posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from gpmcflow.plot.numbers import number
from gpmcflow.plot.style import ACCENT, DASHES, INK, MUTED, PAPER, Frame, few_ticks, plain, top_left

# u along a ladder of temperatures, whose mean over the ladder is the log evidence.

ROOM = 1.0  # heights of the ladder's own range that are shown below and above it
ENDS = {"reference": "s", "posterior": "o"}


LADDER = Frame(230, 58, 30, 14, 44)


def ladder(axes: Axes, rows: pd.DataFrame, log_evidence: float, title: str) -> None:
    """Mean and standard deviation of u at each temperature, and at the draws of both ends.

    ``rows`` has of ("ladder", "reference", "posterior"), beta, mean and sd. An end far off the ladder, as a
    reference with a heavy tail may be, is marked at the edge with its mean.
    """
    steps = rows[rows["of"] == "ladder"].sort_values("beta")
    low, high = _limits(rows)
    axes.set(xlim=(-0.04, 1.04), ylim=(low, high))
    beta, mean, sd = (steps[name].to_numpy() for name in ("beta", "mean", "sd"))
    axes.axhline(log_evidence, color=MUTED, linewidth=1, linestyle=DASHES)
    axes.errorbar(
        beta, mean, sd, color=ACCENT, linewidth=1.8, elinewidth=1.2, marker=".", markersize=7
    )
    for end, shape in ENDS.items():
        for row in rows[rows["of"] == end].itertuples():
            _end(axes, shape, row.beta, row.mean, row.sd)
    few_ticks(axes, x=6, y=5)
    axes.set_xlabel("inverse temperature: 0 fitted Gaussian, 1 posterior")
    top_left(axes, plain(f"{title}: u, nats"))


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """The range of the ladder above its first step, and as much again for ends that are not far off."""
    ladder = rows[(rows["of"] == "ladder") & (rows["beta"] > 0.0)]
    low, high = (ladder["mean"] - ladder["sd"]).min(), (ladder["mean"] + ladder["sd"]).max()
    room = ROOM * (high - low)
    near = rows[rows["mean"].between(low - room, high + room)]
    bottom = max((near["mean"] - near["sd"]).min(), low - room)
    top = min((near["mean"] + near["sd"]).max(), high + room)
    margin = 0.06 * (top - bottom)
    return float(bottom - margin), float(top + margin)


def _end(axes: Axes, shape: str, beta: float, mean: float, sd: float) -> None:
    """Draws of an end, beside the ladder's own; at the edge if they are off the picture."""
    low, high = axes.get_ylim()
    place = float(np.clip(mean, low, high))
    beside = beta + (0.02 if beta < 0.5 else -0.02)
    if place == mean:
        axes.errorbar(
            *(beside, mean, sd), fmt=shape, color=INK, elinewidth=1, markersize=6, markerfacecolor=PAPER
        )  # fmt: skip
        return
    shape = "v" if mean < low else "^"
    axes.plot(beside, place, shape, color=INK, markersize=7, markerfacecolor=PAPER, clip_on=False)
    offset = (9, 5 if mean < low else -12)
    axes.annotate(number(mean), (beside, place), offset, textcoords="offset points", color=INK)
