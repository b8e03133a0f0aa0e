"""Whether predictions hold on rows that the model has not seen: what is counted, and pictures of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy  # scipy.stats is loaded on first use, as it takes longest of all to load
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from gpmcflow.errors import InputError
from gpmcflow.plot.style import (
    ACCENT,
    DASHES,
    INK,
    MUTED,
    Frame,
    few_ticks,
    log_ticks,
    percent_axis,
    plain,
    top_left,
    wrapped,
)

# Predictions held against outcomes: groups of probabilities, quantiles, counts, and a verdict.

_LEVELS = {"q025": 0.025, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q975": 0.975}
N_GROUPS = 5
FEWEST_AT_RISK = 5  # rows that were followed further
DOUBTFUL = 0.05  # a verdict is withheld below this probability of what was seen


class Group(NamedTuple):
    """Rows of similar probability: the mean promised, and how many of them came out so."""

    promised: float
    seen: int
    n: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Share of the group that came out positive."""
        return self.seen / self.n


class QuantileShare(NamedTuple):
    """Share of outcomes below the predicted quantile of this level, with two standard errors."""

    level: float
    share: float
    low: float
    high: float


class CountBin(NamedTuple):
    """Rows with this count: seen, expected, and the 95 % interval of the number expected."""

    name: str
    seen: int
    expected: float
    low: float
    high: float

    @property
    def outside(self) -> bool:
        """Whether the number seen lies outside the interval."""
        return not self.low <= self.seen <= self.high


def probability_groups(judged: pd.DataFrame) -> list[Group]:
    """Five groups of equal size from low to high probability (fewer where there are few rows)."""
    order = judged.sort_values("probability", kind="stable")
    n_groups = max(1, min(N_GROUPS, len(order) // 5))
    groups = []
    for part in np.array_split(np.arange(len(order)), n_groups):
        rows = order.iloc[part]
        seen, n = int(rows["outcome"].sum()), len(rows)
        low, high = share_interval(seen, n)
        groups.append(Group(float(rows["probability"].mean()), seen, n, low, high))
    return groups


def probabilities_fit(judged: pd.DataFrame) -> tuple[bool, int]:
    """Whether the groups' numbers are such as the probabilities promise, and the worst group.

    The sum over groups of (seen - expected)^2 / variance is compared with chi-square.
    """
    order = judged.sort_values("probability", kind="stable")
    terms = []
    for group in np.array_split(np.arange(len(order)), len(probability_groups(judged))):
        rows = order.iloc[group]
        p = rows["probability"].to_numpy(float)
        terms.append((rows["outcome"].sum() - p.sum()) ** 2 / max((p * (1 - p)).sum(), 1e-9))
    return bool(scipy.stats.chi2.sf(sum(terms), len(terms)) >= DOUBTFUL), int(np.argmax(terms))


def share_interval(seen: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson's score interval)."""
    interval = scipy.stats.binomtest(int(seen), int(n)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def n_inside(judged: pd.DataFrame, lower: str, upper: str) -> int:
    """Number of outcomes inside an interval, ends included."""
    return int(((judged[lower] <= judged["outcome"]) & (judged["outcome"] <= judged[upper])).sum())


def inside_as_promised(inside: int, n: int, promised: float, *, discrete: bool = False) -> bool:
    """Whether so many inside are what an interval of this probability gives by chance.

    The interval of a count promises at least its probability, so only too few are a fault.
    """
    side = "less" if discrete else "two-sided"
    return bool(scipy.stats.binomtest(inside, n, promised, alternative=side).pvalue >= DOUBTFUL)


def quantile_shares(judged: pd.DataFrame) -> list[QuantileShare]:
    """Share of outcomes below each stored quantile."""
    n, shares = len(judged), []
    for column, level in _LEVELS.items():
        share = float((judged["outcome"] < judged[column]).mean())
        spread = 2 * np.sqrt(level * (1 - level) / n)
        shares.append(
            QuantileShare(level, share, max(share - spread, 0.0), min(share + spread, 1.0))
        )
    return shares


def survival_shares(judged: pd.DataFrame) -> list[QuantileShare]:
    """Share of rows that ended before the predicted quantiles, allowing for those that were not seen to end.

    If the model is right, 1 - S of its own time is uniform, where S is the predicted probability of lasting
    longer: its distribution by Kaplan & Meier (1958), with Greenwood's errors. Levels that hardly any row
    was followed to are left out.
    """
    u = 1.0 - judged["survival"].to_numpy(float)
    event = (judged["event"] != 0).to_numpy(float)
    order = np.lexsort((-event, u))
    u, event = u[order], event[order]
    at_risk = np.arange(len(u), 0, -1)
    longer = np.cumprod(1.0 - event / at_risk)
    terms = np.divide(event, at_risk * (at_risk - event), out=np.zeros(len(u)), where=at_risk > 1)
    spread = 2.0 * longer * np.sqrt(np.cumsum(terms))
    shares = []
    for level in _LEVELS.values():
        k = int(np.searchsorted(u, level, side="right"))
        if len(u) - k < FEWEST_AT_RISK:
            break
        share, error = (1.0 - longer[k - 1], spread[k - 1]) if k else (0.0, 0.0)
        shares.append(QuantileShare(level, share, max(share - error, 0.0), min(share + error, 1.0)))
    return shares


def times_fit(judged: pd.DataFrame) -> tuple[bool, float]:
    """Whether as many ends were seen as the model expects until each row was left, and how many those are.

    The sum of the cumulative hazards -log S has the variance of the number of ends.
    """
    expected = float(-np.log(judged["survival"].clip(lower=1e-300)).sum())
    seen = float((judged["event"] != 0).sum())
    chance = 2.0 * min(
        scipy.stats.poisson.cdf(seen, expected), scipy.stats.poisson.sf(seen - 1, expected)
    )
    return bool(chance >= DOUBTFUL), expected


def count_bins(judged: pd.DataFrame) -> list[CountBin]:
    """Rows with 0, 1, ... and more: seen, and what the rows' own probabilities expect."""
    names = [column for column in judged if column.startswith("p_")]
    singles = [int(column[2:]) for column in names if column != "p_more"]
    bins = []
    for column in names:
        if column == "p_more":
            name, seen = f"{max(singles) + 1}+", int((judged["outcome"] > max(singles)).sum())
        else:
            name, seen = column[2:], int((judged["outcome"] == int(column[2:])).sum())
        bins.append(_bin(name, seen, judged[column]))
    return bins


def grade_bins(judged: pd.DataFrame, levels: Sequence[str]) -> list[CountBin]:
    """Rows with each grade: seen, and what the rows' own probabilities expect."""
    outcome = judged["outcome"]
    return [_bin(level, int((outcome == level).sum()), judged[f"p_{level}"]) for level in levels]


def _bin(name: str, seen: int, chances: pd.Series) -> CountBin:
    p = chances.to_numpy(float).clip(0, 1)
    distribution = np.cumsum(_sum_of_chances(p))
    low, high = (int(np.searchsorted(distribution, q - 1e-12)) for q in (0.025, 0.975))
    return CountBin(name, seen, float(p.sum()), low, high)


def _sum_of_chances(p: np.ndarray) -> np.ndarray:
    """Distribution of the number of successes of independent chances (Poisson binomial)."""
    distribution = np.zeros(len(p) + 1)
    distribution[0] = 1.0
    for index, chance in enumerate(p):
        distribution[1 : index + 2] = (
            distribution[1 : index + 2] * (1 - chance) + distribution[: index + 1] * chance
        )
        distribution[0] *= 1 - chance
    return distribution


# Pictures that hold predictions against outcomes: calibration, quantiles, counts, a scatter.

MOST_POINTS = 400  # of a scatter; a sample beyond
CALIBRATION = Frame(300, left=52, right=20)
QUANTILES = Frame(270, left=52, right=20)
ROOTOGRAM = Frame(270, left=46)
SCATTER = Frame(270)


def calibration(axes: Axes, groups: list[Group], share_name: str) -> None:
    """Share seen against probability promised, a dot a group with its 95 % interval."""
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=DASHES)
    for group in groups:
        axes.plot([group.promised] * 2, [group.low, group.high], color=ACCENT, linewidth=1.8)
        axes.plot(group.promised, group.share, "o", color=ACCENT, markersize=6)
    for group, at, side in zip(groups, *_places(groups), strict=True):
        axes.annotate(
            f"{group.seen} of {group.n}",
            xy=(group.promised, at),
            xytext=(0, 3 if side == "bottom" else -3),
            textcoords="offset points",
            ha="center",
            va=side,
            fontsize=10,
        )
    _of_shares(axes, [0, 0.25, 0.5, 0.75, 1])
    top_left(axes, share_name)
    axes.set_xlabel("probability the model gave")


def quantiles(axes: Axes, shares: list[QuantileShare]) -> None:
    """Share of rows below each stored quantile against what it promises."""
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=DASHES)
    for share in shares:
        axes.plot([share.level] * 2, [share.low, share.high], color=ACCENT, linewidth=1.8)
        axes.plot(share.level, share.share, "o", color=ACCENT, markersize=6)
    _of_shares(axes, [0.025, 0.25, 0.5, 0.75, 0.975])
    top_left(axes, "share of outcomes below the quantile")
    axes.set_xlabel("predicted quantile")


def _of_shares(axes: Axes, ticks: Sequence[float]) -> None:
    """Both axes from 0 to 100 %."""
    for limit, axis in ((axes.set_xlim, axes.xaxis), (axes.set_ylim, axes.yaxis)):
        limit(-0.04, 1.04)
        axis.set_major_locator(FixedLocator(ticks))
        percent_axis(axis)


def rootogram(axes: Axes, bins: list[CountBin], outcome: str) -> None:
    """Rows by their count: seen as dots, expected as lines with bands, on a square-root axis."""
    x = np.arange(len(bins), dtype=float)
    root = np.sqrt
    low, high = root([b.low for b in bins]), root([b.high for b in bins])
    seen, expected = root([b.seen for b in bins]), root([b.expected for b in bins])
    axes.bar(x, high - low, bottom=low, width=0.86, color=ACCENT, alpha=0.18, linewidth=0)
    axes.hlines(expected, x - 0.43, x + 0.43, color=ACCENT, linewidth=1.8)
    axes.vlines(x, 0, seen, color=INK, linewidth=1)
    axes.plot(x, seen, "o", color=INK, markersize=4.5)
    top = float(max(high.max(), seen.max()))
    step = max(1, int(np.ceil(top / 6)))
    ticks = np.arange(0, top + 1, step)
    axes.set_yticks(ticks, [f"{tick**2:.0f}" for tick in ticks])
    axes.set_ylim(-0.04 * top, 1.04 * top)
    axes.set_xticks(x, [b.name for b in bins])
    top_left(axes, "number of rows")
    axes.set_xlabel(wrapped(outcome, 48, 1))


def scatter(
    axes: Axes,
    judged: pd.DataFrame,
    outcome: str,
    *,
    counted: bool = False,
    logarithmic: bool = False,
    residual: bool = False,
) -> None:
    """Outcome against prediction, with the 95 % interval of each row; open circles lie outside.

    ``residual``: both less the prediction.
    """
    part = sample(judged)
    x, y = part["mean"].to_numpy(float), part["outcome"].to_numpy(float)
    low, high = part["q025"].to_numpy(float), part["q975"].to_numpy(float)
    inside = (low <= y) & (y <= high)
    if residual:
        low, y, high = low - x, y - x, high - x
    gap = np.full(len(x), np.nan)
    axes.plot(
        np.column_stack([x, x, gap]).ravel(),
        np.column_stack([low, high, gap]).ravel(),
        color=ACCENT,
        alpha=0.25,
        linewidth=1,
    )
    axes.plot(x[inside], y[inside], ".", color=INK, markersize=3.5)
    axes.plot(
        x[~inside], y[~inside], "o", markerfacecolor="none", markeredgecolor=INK, markersize=5
    )
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            log_ticks(axis)
    else:
        few_ticks(axes)
    ends = np.array(axes.get_xlim())
    axes.plot(
        ends,
        0.0 * ends if residual else ends,
        color=MUTED,
        linewidth=1,
        linestyle=DASHES,
        scalex=False,
        scaley=False,
    )
    seen = f"{'counted' if counted else 'measured'} {outcome}"
    top_left(axes, f"{seen} less the prediction" if residual else seen)
    axes.set_xlabel(plain(f"predicted {outcome}"))


def sample(judged: pd.DataFrame) -> pd.DataFrame:
    """All rows, or evenly spaced ones of a table too long to draw."""
    if len(judged) <= MOST_POINTS:
        return judged
    return judged.iloc[np.linspace(0, len(judged) - 1, MOST_POINTS).astype(int)]


def _places(groups: list[Group]) -> tuple[list[float], list[str]]:
    """Height and side of each label: above or below its bar, where it crosses least."""
    wide, tall = 0.11, 0.07  # half a label's width and its height, in units of the axes
    taken = [
        (group.promised - 0.01, group.promised + 0.01, group.low, group.high) for group in groups
    ]
    heights, sides = [], []
    for index, group in enumerate(groups):
        boxes = {
            "bottom": (group.high, group.high + tall),
            "top": (group.low - tall, group.low),
        }
        crossed = {}
        for side, (low, high) in boxes.items():
            others = [box for k, box in enumerate(taken) if k != index]
            crossed[side] = sum(
                box[0] < group.promised + wide
                and box[1] > group.promised - wide
                and box[2] < high
                and box[3] > low
                for box in others
            ) + 10 * (low < -0.04 or high > 1.04)
        side = min(crossed, key=crossed.__getitem__)
        taken.append((group.promised - wide, group.promised + wide, *boxes[side]))
        heights.append(group.high if side == "bottom" else group.low)
        sides.append(side)
    return heights, sides


# Predictions of any source as rows: outcome, mean, quantiles, the probability of labels, of counts each.

_MOST_COUNTS = 20  # that have a bin of their own


def judged_rows(predictions: Any, y: Any, who: str) -> pd.DataFrame:
    """Rows of predictions beside outcomes: a table, a result of predict with ``y``, or replicates."""
    if isinstance(predictions, pd.DataFrame):
        return _of_table(predictions, y, who)
    if isinstance(predictions, xr.Dataset) and "response_quantile" in predictions:
        return _of_prediction(predictions, y, who)
    groups = getattr(predictions, "children", {})
    if "observed_data" in groups:
        for name in ("posterior_predictive", "prior_predictive"):
            if name in groups and y is None:
                return _of_replicates(predictions[name]["y"], predictions["observed_data"]["y"])
    raise InputError(
        f"{who}: found {type(predictions).__name__}; allowed: a result of gp.predict with its y, draws of "
        "gp.sample or gp.simulate without, or analysis.predictions"
    )


def _of_table(table: pd.DataFrame, y: Any, who: str) -> pd.DataFrame:
    if y is not None or not {"outcome", "mean"} <= set(table):
        raise InputError(
            f"{who}: a table has columns outcome and mean, and no y beside it; give analysis.predictions"
        )
    if pd.api.types.is_numeric_dtype(table["outcome"]):
        return table
    raise InputError(f"{who}: the outcomes are words; draw those of two classes, or numbers")


def _of_prediction(predictions: xr.Dataset, y: Any, who: str) -> pd.DataFrame:
    outcome = None if y is None else np.asarray(y)
    n = predictions.sizes["new_case"]
    if outcome is None or outcome.shape != (n,) or outcome.dtype.kind not in "biuf":
        found = "missing" if outcome is None else f"{outcome.dtype} of shape {outcome.shape}"
        raise InputError(
            f"{who}: y is {found}; allowed: a number or a boolean for each of {n} rows"
        )
    table = pd.DataFrame({"outcome": outcome.astype(float)})
    table["mean"] = predictions["response_mean"].values
    table["sd"] = predictions["response_sd"].values
    for name, level in _LEVELS.items():
        if level in predictions["quantile"].values:
            table[name] = predictions["response_quantile"].sel(quantile=level).values
    if set(table["outcome"]) <= {-1.0, 0.0, 1.0} and table["mean"].between(0.0, 1.0).all():
        table["outcome"] = (table["outcome"] > 0.0).astype(int)
        table["probability"] = table["mean"]
    return table


def _of_replicates(drawn: xr.DataArray, observed: xr.DataArray) -> pd.DataFrame:
    replicates = drawn.stack(sample=("chain", "draw")).transpose("sample", ...).values
    outcome = observed.values.astype(float)
    if replicates.ndim != 2:
        raise InputError("plot: replicates of several outcomes; give those of one")
    if set(np.unique(replicates)) | set(outcome) <= {-1.0, 1.0}:
        probability = (replicates > 0.0).mean(0)
        return pd.DataFrame(
            {
                "outcome": (outcome > 0.0).astype(int),
                "mean": probability,
                "probability": probability,
            }
        )
    table = pd.DataFrame({"outcome": outcome, "mean": replicates.mean(0), "sd": replicates.std(0)})
    for name, level in _LEVELS.items():
        table[name] = np.quantile(replicates, level, axis=0)
    if (replicates == np.floor(replicates)).all() and min(replicates.min(), outcome.min()) >= 0.0:
        most = int(min(outcome.max(), _MOST_COUNTS))
        for count in range(most + 1):
            table[f"p_{count}"] = (replicates == count).mean(0)
        table["p_more"] = (replicates > most).mean(0)
    return table
