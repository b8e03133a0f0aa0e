"""What split HMC costs and how its chains move: figures of the split HMC study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpmcflow.diagnostics.autocorrelation import autocorrelation, mean_and_error
from gpmcflow.errors import InputError
from gpmcflow.figures.estimates import INTERVAL, require_columns
from gpmcflow.figures.style import (
    Look,
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
def cost_comparison(table: pd.DataFrame, *, methods: Sequence[str] | None = None) -> Figure:
    """Cost of one effective draw, in gradients over all cases: ours beside the printed one.

    Panels: tau g of the log likelihood and tau_beta g of the sum of squared slopes, logarithmic.
    ``table`` has one row per problem and method, with columns problem, method, and for both costs c
    = tau_g, tau_beta_g: c, c_mcse and printed_c. Ours are filled, with a 95 % interval of +-1.96
    c_mcse; printed ones are hollow; what is not finite is left out. Problems and methods stand in
    the order of the table; ``methods`` keeps a method's look the same in every figure. Raises
    `InputError` for a missing column, an empty table, a pair that occurs twice, and a cost of zero
    or less.
    """
    where = "cost_comparison"
    needed = [f"{a}{c}{b}" for c in _COSTS for a, b in (("", ""), ("", "_mcse"), ("printed_", ""))]
    require_columns(table, ["problem", "method", *needed], where)
    _check_costs(table, where)
    problems = list(dict.fromkeys(table["problem"]))
    present = list(dict.fromkeys(table["method"]))
    look = looks([*(methods or []), *present])
    figure = new_figure(0.24 * len(problems) * (len(present) + 1) + 0.1 * len(present) + 1.5)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    lane = _LANE / len(present)
    for axes, (cost, label) in zip(panels, _COSTS.items(), strict=True):
        for row in table.to_dict("records"):
            place = problems.index(row["problem"]) - _LANE / 2
            place += lane * (present.index(row["method"]) + 0.5)
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
    legend_below(figure, _cost_handles(look, present))
    return figure


@styled
def autocorrelations(
    series: Mapping[str, np.ndarray | xr.DataArray],
    label: str,
    max_lag: int,
    *,
    title: str = "",
    methods: Sequence[str] | None = None,
) -> Figure:
    """Autocorrelation of each method's series, mean over chains with a band of +-2 standard errors.

    ``series`` maps a method to (chain, draw); ``label`` names what it holds. Lags, in draws, run to
    ``max_lag``. A single chain has no band; chains that never moved have no autocorrelation, are
    left out and counted in the legend. For ``methods`` see `cost_comparison`. Raises `InputError`
    for no series, other shapes, and as `gpmcflow.diagnostics.autocorrelation` does.
    """
    _check_series(series, ("chain", "draw"), "autocorrelations")
    figure = new_figure(3.7 + 0.19 * len(series) / 2)
    axes = figure.subplots()
    look = looks([*(methods or []), *series])
    axes.axhline(0.0, color="0.45", linewidth=0.9)
    handles = []
    for k, (name, values) in enumerate(series.items()):
        rho = autocorrelation(_values(values, ("chain", "draw")), max_lag)
        moved = np.isfinite(rho[:, 0])
        if moved.any():
            _draw_band(axes, rho[moved], look[name], k)
        text = name if moved.all() else f"{name} ({(~moved).sum()} of {len(rho)} never moved)"
        handles.append(Line2D([], [], label=text, **look[name].line(), **look[name].points()))
    axes.set(xlabel="lag (draws)", ylabel=f"autocorrelation:\n{label}", xlim=(0, max(max_lag, 1)))
    axes.set_ylim(top=1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend_below(figure, handles)
    if title:
        figure.suptitle(title)
    return figure


@styled
def traces(
    series: Mapping[str, np.ndarray | xr.DataArray], label: str, *, title: str = ""
) -> Figure:
    """First 500 draws of one chain of each method, one above the other on shared axes.

    ``series`` maps a method to (draw,); ``label`` names what it holds, with its unit. Raises
    `InputError` for no series, other shapes, and values that are not finite.
    """
    _check_series(series, ("draw",), "traces")
    figure = new_figure(0.95 * len(series) + 1.1)
    panels = figure.subplots(len(series), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    longest = 1
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        shown = _values(values, ("draw",))[:TRACE_DRAWS]
        if not np.isfinite(shown).all():
            raise InputError(
                f"traces: {(~np.isfinite(shown)).sum()} of the first {len(shown)} draws of {name!r} "
                "are not finite; give finite draws only."
            )
        axes.plot(np.arange(len(shown)), shown, color="black", linewidth=0.7)
        axes.set_title(name, fontsize=9, loc="left", pad=2)
        axes.locator_params(axis="y", nbins=3)
        longest = max(longest, len(shown))
    panels[-1].set(xlabel="draw", xlim=(0, longest))
    figure.supylabel(label, fontsize=10)
    if title:
        figure.suptitle(title)
    return figure


def _check_costs(table: pd.DataFrame, where: str) -> None:
    if table.empty:
        raise InputError(f"{where}: the table has no rows; give one per problem and method.")
    twice = table[table.duplicated(["problem", "method"])]
    if len(twice):
        found = twice.iloc[0]
        raise InputError(
            f"{where}: more than one row for problem {found['problem']!r}, method "
            f"{found['method']!r}; give one."
        )
    for column in (f"{start}{cost}" for cost in _COSTS for start in ("", "printed_")):
        wrong = table[table[column] <= 0.0]
        if len(wrong):
            found = wrong.iloc[0]
            raise InputError(
                f"{where}: {column} of problem {found['problem']!r}, method {found['method']!r} is "
                f"{found[column]:g}; a cost is above zero, or nan where there is none."
            )


def _draw_cost(axes: Axes, row: Mapping, cost: str, place: float, look: Look) -> None:
    """Ours and printed on one lane; the larger hollow mark stays visible around ours."""
    printed, ours = row[f"printed_{cost}"], row[cost]
    if np.isfinite(printed):
        axes.plot([printed], [place], linestyle="none", zorder=3, **_printed(look))
    if np.isfinite(ours):
        error = row[f"{cost}_mcse"]
        width = INTERVAL * error if np.isfinite(error) else 0.0
        axes.errorbar(
            [ours],
            [place],
            xerr=[width],
            linestyle="none",
            ecolor=look.color,
            elinewidth=1.2,
            capsize=2.5,
            markersize=5,
            zorder=4,
            **look.points(),
        )


def _printed(look: Look) -> dict:
    return {**look.points(hollow=True), "markersize": 8.5, "markeredgewidth": 1.0}


def _cost_axis(panels: Sequence[Axes], table: pd.DataFrame) -> None:
    """Both panels over the same range, that of all marks and intervals."""
    marks = table[[*_COSTS, *(f"printed_{cost}" for cost in _COSTS)]].to_numpy(dtype=float)
    marks = marks[np.isfinite(marks)]
    if not len(marks):
        for axes in panels:
            unused(axes, "no cost was found")
        return
    errors = INTERVAL * table[[f"{cost}_mcse" for cost in _COSTS]].to_numpy(dtype=float)
    ours = table[list(_COSTS)].to_numpy(dtype=float)
    ends = np.concatenate([marks, (ours - errors).ravel(), (ours + errors).ravel()])
    # An interval that reaches down to zero has no end on a logarithmic axis.
    ends = ends[np.isfinite(ends) & (ends > marks.min() / 3.0)]
    log_axis(panels[0], ends.min(), ends.max())


def _cost_handles(look: Mapping[str, Look], present: Sequence[str]) -> list[Line2D]:
    handles = [Line2D([], [], linestyle="none", label=m, **look[m].points()) for m in present]
    grey = Look("0.3", "o", "none")
    filled = Line2D([], [], markersize=5, color="0.3", label="ours, 95 % interval", **grey.points())
    hollow = Line2D([], [], linestyle="none", label="printed", **_printed(grey))
    return [*handles, filled, hollow]


def _draw_band(axes: Axes, rho: np.ndarray, look: Look, k: int) -> None:
    """Mean of (chain, lag) and its band; markers of the k-th method stand at places of their own."""
    mean, error = mean_and_error(rho, axis=0)
    lag = np.arange(rho.shape[1])
    if len(rho) > 1:
        axes.fill_between(
            lag, mean - 2 * error, mean + 2 * error, color=look.color, alpha=0.2, linewidth=0
        )
    every = max(1, len(lag) // _N_MARKERS)
    start = (k * every) // 3 % every
    axes.plot(lag, mean, markevery=(start, every), markersize=5, **look.line(), **look.points())


def _check_series(
    series: Mapping[str, np.ndarray | xr.DataArray], dims: tuple[str, ...], where: str
) -> None:
    if not series:
        raise InputError(f"{where}: no series; give at least one method.")
    for name, values in series.items():
        if np.ndim(values) != len(dims) or not np.size(values):
            raise InputError(
                f"{where}: series {name!r} has shape {np.shape(values)}, expected ({', '.join(dims)})."
            )


def _values(values: np.ndarray | xr.DataArray, dims: tuple[str, ...]) -> np.ndarray:
    if isinstance(values, xr.DataArray):
        values = values.transpose(*dims)
    return np.asarray(values, dtype=np.float64)
