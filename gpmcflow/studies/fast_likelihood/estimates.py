"""Estimates over the data sets of a type: means, paired ratios, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.studies.fast_likelihood.types import TYPES


@dataclass(frozen=True)
class TypeRuns:
    """All data sets of one type of the config: its settings, and the methods' estimates on each."""

    name: str
    settings: dict
    replicates: tuple[dict, ...]
    eigen: tuple[tuple[float, int], ...] = ()  #: seconds over an exact evaluation's, and m

    @property
    def data(self) -> int | str:
        """Number of the type in the paper, or the real data's name."""
        return self.settings["data"]

    @property
    def methods(self) -> list[str]:
        """Methods that were run on every data set, in order."""
        return [m for m in self.replicates[0] if all(m in found for found in self.replicates)]

    def of(self, method: str) -> list[dict]:
        """A method's estimates, one a data set."""
        return [found[method] for found in self.replicates]

    @property
    def is_paper(self) -> bool:
        """Whether size, sizes of stand-ins, and defaults are those of the paper's type."""
        kind = TYPES.get(self.data)
        if kind is None or self.settings["n"] != kind.n:
            return False
        sizes = self.settings["sizes"]
        tempered = None if kind.tempered is None else list(kind.tempered)
        wanted = {"sod": kind.sod, "nystrom": kind.nystrom, "tempered": tempered}
        same = all(value is None or sizes[name] == value for name, value in wanted.items())
        plain = (self.settings["noise"], self.settings["constant"], self.settings["prior"])
        return same and plain == (0.2, 10.0, "centred")


def type_runs(parts: Iterable[dict]) -> dict[str, TypeRuns]:
    """Group the parts of replicates by type, both in order: the paper's types first."""
    grouped: dict[str, list[dict]] = {}
    for part in parts:
        if part["kind"] == "replicate":
            grouped.setdefault(part["problem"], []).append(part)
    found = {}
    for name, here in grouped.items():
        here = sorted(here, key=lambda part: part["replicate"])
        settings = here[-1]["settings"]["type"]
        eigen = tuple((part["eigen"][0], part["eigen"][1]) for part in here if "eigen" in part)
        found[name] = TypeRuns(name, settings, tuple(part["methods"] for part in here), eigen)
    return {name: found[name] for name in sorted(found, key=lambda name: _place(found[name]))}


def _place(runs: TypeRuns) -> tuple:
    """Place of a type in a table, whatever the order of the parts."""
    real = not isinstance(runs.data, int)
    return real, 0 if real else runs.data, runs.name


def log_ratio(found: TypeRuns, method: str, base: str, key: str) -> tuple[float, float]:
    """Mean and standard error of the paired log ratio of a cost to another method's, over data sets."""
    if base not in found.methods or method not in found.methods:
        return math.nan, math.nan
    ours = np.array([run[key] for run in found.of(method)])
    theirs = np.array([run[key] for run in found.of(base)])
    with np.errstate(invalid="ignore"):
        return mean_and_error(np.log(ours) - np.log(theirs))


def interval(centre: float, error: float, n: int) -> tuple[float, float]:
    """95 % interval of a mean of n values, by Student's t; the whole line for a single one."""
    if n < 2 or not math.isfinite(error):
        return -math.inf, math.inf
    half = float(student_t.ppf(0.975, n - 1)) * error
    return centre - half, centre + half
