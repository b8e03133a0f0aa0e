"""Figures of the fast-likelihood paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpmcflow.diagnostics.autocorrelation import autocorrelation
from gpmcflow.jobs.job import Job
from gpmcflow.replications.fast_likelihood.types import METHODS
from gpmcflow.replications.figures.style import (
    Look,
    handle,
    legend_below,
    log_axis,
    looks,
    new_figure,
    styled,
    unused,
)
from gpmcflow.storage import open_results, read_csv

# Autocorrelation and cost of exact samplers with fast stand-ins: figures of the fast-likelihood study.

MAX_LAG = 40
_PANELS = 3  # in a row
_SAME_COST = {"color": "0.35", "linewidth": 1.1}
_OTHER_COST = {"color": "0.75", "linewidth": 0.7, "linestyle": (0, (2, 2))}


@styled
def autocorrelation_panels(series: Mapping[str, np.ndarray], title: str) -> Figure:
    """Sample autocorrelation of each method's series, a panel each, at lags 0 to 40.

    ``series`` maps a method to (data set, draw): thin lines are single data sets, the thick one their
    mean; dashed lines are at +-1.96 / sqrt(N), within which 95 % of the lags of white noise lie. A chain
    that never moved has no autocorrelation; how many there are is told.

    Source: Wang & Neal (2013), figure 2.
    """
    figure = new_figure(3.0)
    panels = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    look = looks(list(series))
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        lag = min(MAX_LAG, values.shape[1] - 1)
        moved = np.ptp(values, axis=1) > 0.0
        stuck = int((~moved).sum())
        axes.set_title(name if not stuck else f"{name} ({stuck} of {len(moved)} never moved)")
        axes.set_xlabel("lag (iterations)")
        if not moved.any():
            unused(axes, "never moved")
            continue
        rho = autocorrelation(values[moved], lag)
        lags, limit = np.arange(rho.shape[1]), 1.96 / np.sqrt(values.shape[1])
        for row in rho:
            axes.plot(lags, row, color=look[name].color, linewidth=0.6, alpha=0.45)
        axes.plot(lags, rho.mean(0), color=look[name].color, linewidth=2.0)
        axes.axhline(0.0, color="0.45", linewidth=0.9)
        for level in (-limit, limit):
            axes.axhline(level, color="0.3", linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set_xlim(0, max(lag, 1))
    panels[0].set_ylabel("autocorrelation of the\nlog likelihood")
    panels[0].set_ylim(top=1.02)
    figure.suptitle(title, fontsize=10)
    return figure


@styled
def cost_against_time(table: pd.DataFrame, methods: Sequence[str]) -> Figure:
    """Cost of an iteration against autocorrelation time, a panel a type, a marker a method.

    ``table`` has one row per problem and method, with columns problem, method, ACT, ACT_mcse,
    pi_equivalents (exact evaluations an iteration) and pilot (the same, before the first). Lines join
    points of equal cost per effective draw, tau times pi-equivalents, that of the method ``standard``
    the darker one: what is below and left of it is better. Methods with a chain of infinite cost, that
    never moved or stays far from the others, are named. ``methods``, all that a study knows, keeps a
    method's look the same in every figure.
    """
    problems, look = list(table["problem"].unique()), looks(methods)
    present = [name for name in methods if name in set(table["method"])]
    columns = min(_PANELS, len(problems))
    n_rows = -(-len(problems) // columns)
    figure = new_figure(2.5 * n_rows + 0.19 * (len(present) / 4) + 0.6)
    panels = figure.subplots(n_rows, columns, squeeze=False).ravel()
    for axes, problem in zip(panels, problems, strict=False):
        _draw_problem(axes, table[table["problem"] == problem], look)
        axes.set_title(problem)
    for axes in panels[len(problems) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("pi-equivalents an iteration")
    for axes in panels[max(0, len(problems) - columns) : len(problems)]:
        axes.set_xlabel(r"$\tau$ (iterations)")
    handles = [handle(name, linestyle="none", **look[name].points()) for name in present]
    legend_below(figure, handles, columns=4)
    return figure


def _draw_problem(axes: Axes, table: pd.DataFrame, look: Mapping[str, Look]) -> None:
    finite = table[np.isfinite(table["ACT"]) & (table["ACT"] > 0)]
    stuck = table.loc[~np.isfinite(table["ACT"]), "method"]
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if len(finite):
        log_axis(axes, finite["ACT"].min(), finite["ACT"].max())
    for row in finite.to_dict("records"):
        place, of_method = (row["ACT"], row["pi_equivalents"]), look[row["method"]]
        axes.plot(*place, linestyle="none", zorder=3, **of_method.points())
        if np.isfinite(row["ACT_mcse"]):
            error = min(1.96 * row["ACT_mcse"], 0.9 * row["ACT"])
            axes.errorbar(*place, xerr=error, color=of_method.color, linewidth=0.9, zorder=2)
    if len(finite):
        _equal_costs(axes, finite)
    if len(stuck):
        text = "infinite cost:\n" + "\n".join(stuck)
        axes.annotate(
            text, (0.98, 0.45), xycoords="axes fraction", ha="right", va="center", fontsize=7, zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip


def _equal_costs(axes: Axes, table: pd.DataFrame) -> None:
    """Lines of equal tau times pi-equivalents: through the baseline, and at powers of 4 of it."""
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    base = table[table["method"] == "standard"]
    row = (base if len(base) else table).iloc[0]
    cost = row["ACT"] * row["pi_equivalents"]
    x = np.array([low, high])
    for power in range(-5, 6):
        style = _SAME_COST if power == 0 else _OTHER_COST
        axes.plot(x, cost * 4.0**power / x, zorder=1, **style)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)


# Figures of study fast_likelihood from its results files.

PAPERS_METHODS = ("sod", "tempered")  # of its figure 2


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names."""
    series = shown_series(job.input.series)
    yield "figure_2", autocorrelation_panels(series, job.settings["title"])
    runs = read_csv(job.input.runs, dtype={"problem": str})
    yield "cost", cost_against_time(runs[runs["method"].isin(METHODS)], METHODS)


def shown_series(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Log likelihood of the paper's methods on each data set, (data set, draw), but for the first third.

    Methods that were not run are left out; if none was, the baseline is shown.
    """
    series: dict[str, list[np.ndarray]] = {}
    for path in paths:
        with open_results(path) as tree:
            stats = tree["sample_stats/sum_log_likelihood"]
            present = [m for m in PAPERS_METHODS if m in stats["method"].values] or ["standard"]
            for method in present:
                values = stats.sel({"method": method, "chain": 0}).values
                series.setdefault(method, []).append(values[len(values) // 3 :])
    return {method: np.stack(rows) for method, rows in series.items()}
