"""What split HMC costs and how its chains move: figures of the split HMC study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpmcflow.diagnostics.autocorrelation import autocorrelation, mean_and_error
from gpmcflow.replications.figures.estimates import INTERVAL
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

TRACE_DRAWS = 500
_N_MARKERS = 6
_COSTS = {  # column -> horizontal label
    "tau_g": r"$\tau\,g$ of the log likelihood",
    "tau_beta_g": r"$\tau_\beta\,g$ of the squared slopes",
}
_LANE = 0.8  # part of a problem's height that its methods share


@styled
def cost_comparison(table: pd.DataFrame) -> Figure:
    """Cost of one effective draw, in gradients over all cases: ours beside the printed one.

    Panels: tau g of the log likelihood and tau_beta g of the sum of squared slopes, logarithmic.
    ``table`` has one row per problem and method, with columns problem, method, and for both costs c
    = tau_g, tau_beta_g: c, c_mcse and printed_c. Ours are filled, with a 95 % interval of +-1.96
    c_mcse; printed ones are hollow; what is not finite is left out. Problems and methods stand in
    the order of the table.
    """
    problems, methods = (list(table[name].unique()) for name in ("problem", "method"))
    look = looks(methods)
    figure = new_figure(0.24 * len(problems) * (len(methods) + 1) + 0.1 * len(methods) + 1.5)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    lane = _LANE / len(methods)
    for axes, (cost, label) in zip(panels, _COSTS.items(), strict=True):
        for row in table.to_dict("records"):
            place = problems.index(row["problem"]) - _LANE / 2
            place += lane * (methods.index(row["method"]) + 0.5)
            _draw_cost(axes, row, cost, place, look[row["method"]])
        axes.set_xlabel(f"{label}\n(gradients per effective draw)")
        axes.grid(False, axis="y")
        for border in range(len(problems) - 1):
            axes.axhline(border + 0.5, color="0.8", linewidth=0.8)
    panels[0].set_yticks(range(len(problems)), problems)
    panels[0].tick_params(axis="y", length=0)
    panels[1].tick_params(axis="y", length=0, labelleft=False)
    panels[0].set_ylim(len(problems) - 0.5, -0.5)  # the first problem on top
    panels[0].set_ylabel("problem")
    _cost_axis(panels, table)
    grey = Look("0.3", "o", "none")
    times = np.isfinite(table[list(_COSTS)]).any(axis=1).groupby(table["method"]).any()
    words = {name: name if times[name] else f"{name} (no finite time)" for name in methods}
    handles = [handle(words[name], linestyle="none", **look[name].points()) for name in methods]
    handles += [
        handle("ours, 95 % interval", markersize=5, color="0.3", **grey.points()),
        handle("printed", linestyle="none", **_printed(grey)),
    ]
    legend_below(figure, handles)
    return figure


@styled
def autocorrelations(series: Mapping[str, np.ndarray], label: str, max_lag: int) -> Figure:
    """Autocorrelation of each method's series, mean over chains with a band of +-2 standard errors.

    ``series`` maps a method to (chain, draw); ``label`` names what it holds. Lags, in draws, run to
    ``max_lag``. A single chain has no band; chains that never moved have no autocorrelation, are
    left out and counted in the legend. Raises `InputError` as
    `gpmcflow.diagnostics.autocorrelation` does.
    """
    figure = new_figure(3.7 + 0.19 * len(series) / 2)
    axes = figure.subplots()
    axes.axhline(0.0, color="0.45", linewidth=0.9)
    handles: list[Line2D] = []
    for name, look in looks(list(series)).items():
        rho = autocorrelation(series[name], max_lag)
        moved = np.isfinite(rho[:, 0])
        if moved.any():
            _draw_band(axes, rho[moved], look, len(handles))
        text = name if moved.all() else f"{name} ({(~moved).sum()} of {len(rho)} never moved)"
        handles.append(handle(text, **look.line(), **look.points()))
    axes.set(xlabel="lag (draws)", ylabel=f"autocorrelation:\n{label}", xlim=(0, max(max_lag, 1)))
    axes.set_ylim(top=1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend_below(figure, handles)
    return figure


@styled
def traces(series: Mapping[str, np.ndarray], label: str) -> Figure:
    """First 500 draws of one chain of each method, one above the other on shared axes.

    ``series`` maps a method to (draw,); ``label`` names what it holds, with its unit.
    """
    figure = new_figure(0.95 * len(series) + 1.1)
    panels = figure.subplots(len(series), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        axes.plot(values[:TRACE_DRAWS], color="black", linewidth=0.7)
        axes.set_title(name, fontsize=9, loc="left", pad=2)
        axes.locator_params(axis="y", nbins=3)
    panels[-1].set(xlabel="draw", xlim=(0, min(max(map(len, series.values())), TRACE_DRAWS)))
    figure.supylabel(label, fontsize=10)
    return figure


def _draw_cost(axes: Axes, row: Mapping, cost: str, place: float, look: Look) -> None:
    """Ours and printed on one lane; the larger hollow mark stays visible around ours."""
    printed, ours = row[f"printed_{cost}"], row[cost]
    if np.isfinite(printed):
        axes.plot([printed], [place], linestyle="none", zorder=3, **_printed(look))
    if np.isfinite(ours):
        width = np.nan_to_num(INTERVAL * row[f"{cost}_mcse"], posinf=0.0)
        bar = {"ecolor": look.color, "elinewidth": 1.2, "capsize": 2.5, "markersize": 5}
        axes.errorbar(
            [ours], [place], xerr=[width], linestyle="none", zorder=4, **bar, **look.points()
        )


def _printed(look: Look) -> dict:
    return {**look.points(hollow=True), "markersize": 8.5, "markeredgewidth": 1.0}


def _cost_axis(panels: Sequence[Axes], table: pd.DataFrame) -> None:
    """Both panels over the same range, that of all marks and intervals."""
    ours, printed = (
        table[list(_COSTS)].to_numpy(),
        table[[f"printed_{c}" for c in _COSTS]].to_numpy(),
    )
    errors = INTERVAL * table[[f"{cost}_mcse" for cost in _COSTS]].to_numpy()
    marks = np.stack([ours, printed])
    marks = marks[np.isfinite(marks)]
    if not len(marks):
        for axes in panels:
            unused(axes, "no cost was found")
        return
    ends = np.concatenate([marks, (ours - errors).ravel(), (ours + errors).ravel()])
    # An interval that reaches down to zero has no end on a logarithmic axis.
    ends = ends[np.isfinite(ends) & (ends > marks.min() / 3.0)]
    log_axis(panels[0], ends.min(), ends.max())


def _draw_band(axes: Axes, rho: np.ndarray, look: Look, k: int) -> None:
    """Mean of (chain, lag) and its band; markers of the k-th method stand at places of their own."""
    mean, error = mean_and_error(rho, axis=0)
    lag = np.arange(rho.shape[1])
    if len(rho) > 1:
        band = {"color": look.color, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(lag, mean - 2 * error, mean + 2 * error, **band)
    every = max(1, len(lag) // _N_MARKERS)
    start = (k * every) // 3 % every
    axes.plot(lag, mean, markevery=(start, every), markersize=5, **look.line(), **look.points())
