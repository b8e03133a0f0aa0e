"""Models to start from for files of thousands of rows: sums of curves and surfaces of few functions each.

The text of a config alone: a model with ``structure: basis`` is made of at most 400 functions, as many as the
shortest length scale of its terms needs on the range of their columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpmcflow.data.columns import Column, as_argument, term_names
from gpmcflow.data.target import Target

MANY_ROWS = 2000
MOST_FUNCTIONS = 380  # of a model: 400 is the limit, and held-out rows change ranges a little
MOST_OF_A_COLUMN = 80  # more are for a few values far away
FEWEST_VALUES = 5  # of a column that gets a curve; of fewer a slope says nearly as much
WIDTHS = 2.33  # standard deviations of the central 98 % of a hyperprior on each side
REACH = (0.5, 0.5)  # mean, sd of the log length scale of curves, in units of the column's sd
SURFACE_SPREAD = 0.25  # standard deviation of the log length scale of a surface
OF_A_SEASON = 60  # functions of a periodic term with its default hyperprior, and some to spare
STRAIGHT = "linear() + constant(signal_sd=2.0)"


def is_large(n_rows: int, target: Target) -> bool:
    """Whether dense covariances take too long: by the rows times the latent functions of each.

    Of classes these are one fewer than there are classes.
    """
    functions_of_a_row = len(target.levels) - 1 if target.kind == "classes" else 1
    return n_rows * functions_of_a_row > MANY_ROWS


class LargeModels:
    """Covariances by the name of the model, and what their hyperpriors are.

    Attributes
    ----------
    covariances:
        Name -> covariance, each of which is for ``structure: basis``.
    priors:
        Name -> mean and standard deviation of a normal distribution of the log length scale.
    straight:
        Columns of numbers for which no functions are left.

    ``wave`` is the term of a season, as text, that a model "seasons" has beside the curves.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        inputs: Sequence[str],
        places: Sequence[str],
        wave: str | None = None,
    ):
        halves = {name: half for name in inputs if (half := half_range(columns[name]))}
        curved, left = [], MOST_FUNCTIONS - (OF_A_SEASON if wave else 0)
        for name, half in halves.items():
            needed = functions(half, *REACH, 1)
            if needed <= min(left, MOST_OF_A_COLUMN):
                curved.append(name)
                left -= needed
        self.straight = [name for name in halves if name not in curved]
        self.covariances: dict[str, str] = {}
        self.priors: dict[str, tuple[float, float]] = {}
        pair = list(places) or (list(halves) if len(halves) == 2 else [])
        if len(pair) == 2 and all(name in halves for name in pair):
            surface = _surface([halves[name] for name in pair])
            if surface is not None:
                self.priors["wide"] = surface
                shown = ", ".join(map(as_argument, pair))
                self.covariances["map" if places else "surface"] = (
                    f"squared_exponential({shown}, ard=True, length_scale=wide) + linear()"
                )
        if curved:
            self.priors["reach"] = REACH
            terms = [
                f"squared_exponential({as_argument(column)}, length_scale=reach, name={name!r})"
                for column, name in term_names(curved).items()
            ]
            self.covariances["curves"] = " + ".join([*terms, "linear()"])
            if wave:
                self.covariances["seasons"] = " + ".join([*terms, wave, "linear()"])
        self.covariances["plain"] = STRAIGHT


def half_range(column: Column) -> float:
    """Half of the range of a column of numbers or dates in its standard deviations, 0 of others."""
    if column.values is None or column.kind not in ("number", "whole", "date"):
        return 0.0
    values = column.values[np.isfinite(column.values)]
    if len(np.unique(values)) < FEWEST_VALUES:
        return 0.0
    return float(0.5 * np.ptp(values) / values.std())


def functions(half: float, mean: float, sd: float, n_columns: int) -> int:
    """Functions of one column of a squared exponential for a log length scale of N(mean, sd^2).

    As many as leave 1 % of the variance out: in the spectrum of the shortest, at the ends of the box of the
    longest.
    """
    shortest, longest = (math.exp(mean + side * WIDTHS * sd) for side in (-1.0, 1.0))
    share = 0.01 / n_columns
    box = max(1.2 * half, half + 0.5 * longest * math.sqrt(-2.0 * math.log(share)))
    tail = {1: 2.576, 2: 2.807}[n_columns]  # standard deviations that leave the share outside
    return math.ceil(2.0 * box * tail / (math.pi * shortest))


def _surface(halves: Sequence[float]) -> tuple[float, float] | None:
    """The shortest log length scales whose functions are few enough."""
    for mean in np.arange(-1.0, 2.05, 0.1).round(1).tolist():
        sizes = [functions(half, mean, SURFACE_SPREAD, 2) for half in halves]
        if math.prod(sizes) <= MOST_FUNCTIONS:
            return mean, SURFACE_SPREAD
    return None
