"""Estimates over the data sets of a type: means, paired ratios, and rows of claims about them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpmcflow.jobs.parts import grouped
from gpmcflow.replications.fast_likelihood.types import TYPES
from gpmcflow.replications.judgement import (
    Estimate,
    claim_row,
    combined,
    joined,
    side,
    verdict,
)

COSTS = {  # of an effective draw
    "run_cost": "tau x pi-equivalents",
    "efficiency": "tau x CPU",
    "cost": "tau x pi-equivalents, pilots charged",
}
FAR = 4.0  # posterior standard deviations of the log likelihood


@dataclass(frozen=True)
class TypeRuns:
    """All data sets of one type of the config: its settings, and the methods' estimates on each.

    Some data sets may have fewer methods: what compares two methods takes those that have both. Some may
    not be timed: they have autocorrelation times, and no costs.
    """

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
        """Methods that were run on a data set or more, in order."""
        return list(dict.fromkeys(method for methods in self.replicates for method in methods))

    def has(self, *methods: str) -> bool:
        """Whether some data set has all of the methods."""
        return self.count(*methods) > 0

    def count(self, *methods: str) -> int:
        """Data sets that have all of the methods."""
        return sum(set(methods) <= set(replicate) for replicate in self.replicates)

    def number(self, *methods: str) -> str:
        """Data sets that have all of the methods, and how many of them were timed, in words."""
        n, timed = self.count(*methods), len(self.values(methods[0], "cost"))
        return f"{n} data sets" + (f", {timed} of them timed" if timed < n else "")

    def of(self, method: str) -> list[dict]:
        """A method's estimates, one for each data set that has it."""
        return [methods[method] for methods in self.replicates if method in methods]

    def values(self, method: str, key: str) -> list[float]:
        """One of a method's estimates on each data set that has it."""
        return [run[key] for run in self.of(method) if key in run]

    def mean(self, method: str, key: str) -> Estimate:
        """Mean over the data sets of one of a method's estimates."""
        return Estimate.of(self.values(method, key))

    def infinitely_costly(self, method: str) -> str:
        """Words for a method's chains that cost infinitely much, "" where there are none."""
        infinite = [run for run in self.of(method) if math.isinf(run["tau"])]
        far = sum("far" in run for run in infinite)
        counts = {"never moved": len(infinite) - far, "stayed far from the others": far}
        n = self.count(method)
        return joined(*(f"{k} of {n} chains {what}" for what, k in counts.items() if k))

    def log_ratio(self, method: str, base: str, key: str) -> Estimate:
        """Mean of the paired log ratio of a cost to another method's, over data sets that have both.

        A cost is tau times that of an iteration: the mean of the latter is over the K data sets that were
        timed, that of tau over all N. In logs, w = (N - K) / N: mean_K(cost ratio - w tau ratio)
        + w mean_(N - K)(tau ratio), a sum of independent means. Source: double sampling, Cochran (1977),
        Sampling Techniques, chapter 12.
        """
        both = [
            (methods[method], methods[base])
            for methods in self.replicates
            if {method, base} <= set(methods)
        ]
        timed = [pair for pair in both if all(key in run for run in pair)]
        others = [pair for pair in both if any(key not in run for run in pair)]
        if not timed:
            return Estimate(math.nan, math.nan, 0.0)
        costs, taus = _log_ratios(timed, key), _log_ratios(others, "tau")
        stuck = not np.all(np.isfinite([*costs, *taus]))
        if stuck or not others:
            with np.errstate(invalid="ignore"):
                return Estimate.of([*costs, *taus])
        weight = len(others) / len(both)
        first = Estimate.of(costs - weight * _log_ratios(timed, "tau"))
        return combined((first, 1.0), (Estimate.of(taus), weight))

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


def _log_ratios(pairs: list[tuple[dict, dict]], key: str) -> np.ndarray:
    own, other = (np.array([pair[k][key] for pair in pairs]) for k in (0, 1))
    with np.errstate(invalid="ignore"):
        return np.log(own) - np.log(other)


def type_runs(parts: Iterable[dict]) -> dict[str, TypeRuns]:
    """Group the parts of replicates by type: the paper's types first, in order."""
    types = {}
    for name, methods in grouped(parts, "replicate").items():
        (replicates,) = methods.values()
        eigen = tuple((row["eigen"][0], row["eigen"][1]) for row in replicates if "eigen" in row)
        settings = replicates[0]["settings"]["type"]
        of_methods = tuple(_costing_infinitely(row["methods"]) for row in replicates)
        types[name] = TypeRuns(name, settings, of_methods, eigen)
    return {name: types[name] for name in sorted(types, key=lambda name: _place(types[name]))}


def _costing_infinitely(methods: dict[str, dict]) -> dict[str, dict]:
    """A data set's estimates, where a chain that stays elsewhere costs infinitely much, as if it never moved.

    Such as at another mode: its mean log likelihood is `FAR` from the median of all methods. How well a
    chain mixes says nothing of where.
    """
    centre, sd = (
        np.median([run[key] for run in methods.values()])
        for key in ("mean_log_likelihood", "sd_log_likelihood")
    )
    return {
        name: {**run, **dict.fromkeys({"tau", *COSTS} & set(run), math.inf), "far": True}
        if abs(run["mean_log_likelihood"] - centre) > FAR * sd and math.isfinite(run["tau"])
        else run
        for name, run in methods.items()
    }


def _place(runs: TypeRuns) -> tuple:
    """Place of a type in a table, whatever the order of the parts."""
    real = not isinstance(runs.data, int)
    return real, 0 if real else runs.data, runs.name


def below_one(
    claim: str, runs: TypeRuns, pair: tuple[str, str], key: str, why: str = "", row: str = ""
) -> dict:
    """Row of a claim that one method costs less than another, by paired log ratios: an order.

    A chain that never moved, or stays far from the others, costs infinitely much.
    """
    log_ratio = runs.log_ratio(*pair, key)
    note = (
        f"{runs.number(*pair)}, n = {runs.settings['n']}, {runs.settings['iterations']} iterations"
    )
    known = math.isfinite(log_ratio.centre)
    note = joined(*(() if known else map(runs.infinitely_costly, pair)), why, note)
    cells = log_ratio.exp().cells() if known else {}
    judged = verdict((side(log_ratio, 0.0), "below"))
    column = f"{COSTS[key]}: {pair[0]} / {pair[1]}"
    return claim_row(
        claim, row or runs.name, column, printed="< 1", verdict=judged, why=note, **cells
    )
