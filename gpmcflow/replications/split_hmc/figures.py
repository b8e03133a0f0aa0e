"""Figures of the split HMC paper and of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import chi2

from gpmcflow.diagnostics.autocorrelation import autocorrelation, mean_and_error
from gpmcflow.jobs.job import Job
from gpmcflow.replications.figures.estimates import INTERVAL
from gpmcflow.replications.figures.style import (
    Look,
    handle,
    legend_below,
    log_axis,
    looks,
    mark,
    new_figure,
    styled,
    unused,
)
from gpmcflow.replications.split_hmc.illustrations import COVARIANCE, MEAN
from gpmcflow.storage import load_results, open_results, read_csv

# What split HMC costs and how its chains move: figures of the split HMC study.

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
def autocorrelations(series: Mapping[str, np.ndarray], max_lag: int) -> Figure:
    """Autocorrelation of each method's log likelihood, mean over chains with a band of +-2 standard errors.

    ``series`` maps a method to (chain, draw). Lags, in draws, run to ``max_lag``. A single chain has no
    band; chains that never moved have no autocorrelation, are left out and counted in the legend. Raises
    `InputError` as `gpmcflow.diagnostics.autocorrelation` does.
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
    axes.set(
        xlabel="lag (draws)", ylabel="autocorrelation:\nlog likelihood", xlim=(0, max(max_lag, 1))
    )
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


# How split HMC works, on two parameters: Figures 1 to 4 of the split HMC paper.

CONTOUR = 0.95  # probability inside the contour of the normal
_CLASSES = {1: Look("#0072B2", "o", "none"), 0: Look("#D55E00", "^", "none")}
_FULL, _PART = {"color": "black"}, {"color": "#D55E00", "linestyle": (0, (5, 1.5))}
_LINE = {"color": "black", "linewidth": 1.5}
_EVEN = "probability 1/2 at the MAP"  # of the line
_MODE = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}
_STRIP = "0.86"
_CONTOUR_LINE = {"color": "0.45", "linewidth": 1.5}
_START = mark("*", 13, 1.2)


@styled
def trajectories(
    hmc_states: np.ndarray, rwm_states: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> Figure:
    """States of HMC and of random walk Metropolis on a bivariate normal, each joined to the next.

    The ellipse holds 95 % of N(``mean`` (2,), ``covariance`` (2, 2)). States are (n, 2), the first
    one the start; the paper shows 30 of each, those of random walk Metropolis one in 20 updates.

    Source: the paper's Figure 1.
    """
    states = {"HMC": hmc_states, "random walk Metropolis": rwm_states}
    angle = np.linspace(0.0, 2.0 * np.pi, 241)
    circle = np.sqrt(chi2.ppf(CONTOUR, 2)) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    contour = mean + circle @ np.linalg.cholesky(covariance).T
    figure = new_figure(4.1)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, look) in zip(panels, looks(list(states)).items(), strict=True):
        path = states[name]
        axes.plot(*contour.T, **_CONTOUR_LINE)
        axes.plot(*path.T, **look.points(), color=look.color, linewidth=0.8, markersize=4)
        axes.plot(*path[0], **_START, zorder=4)
        axes.set(title=f"{name}: {len(path)} states", xlabel="$q_1$", aspect="equal")
    panels[0].set_ylabel("$q_2$")
    inside = f"holds {100 * CONTOUR:g} % of the normal"
    legend_below(figure, [handle(inside, **_CONTOUR_LINE), handle("start", **_START)])
    return figure


@styled
def data_and_line(x: np.ndarray, y: np.ndarray, theta_map: np.ndarray) -> Figure:
    """Cases of two classes, and the line on which both have probability 1/2 at the MAP.

    ``x`` (n, 2) features, ``y`` (n,) of 0 and 1, ``theta_map`` (3,) = (alpha, beta_1, beta_2); the
    line is alpha + beta_1 x_1 + beta_2 x_2 = 0.

    Source: the paper's Figure 2.
    """
    figure = new_figure(4.6)
    axes = figure.subplots()
    _case_axes(axes, x)
    _map_line(axes, x, theta_map)
    for label, look in _CLASSES.items():
        axes.plot(*x[y == label].T, linestyle="none", **look.points(hollow=label == 0))
    handles = [_class_handle(1), _class_handle(0, hollow=True), handle(_EVEN, **_LINE)]
    legend_below(figure, handles, columns=3)
    return figure


@styled
def normal_split(
    grid: np.ndarray,
    energy: np.ndarray,
    gaussian_energy: np.ndarray,
    slope: np.ndarray,
    gaussian_slope: np.ndarray,
    mode: float,
) -> Figure:
    """Energy U and its Gaussian part U_0 (nats) against beta_1, and their derivatives.

    All arrays are (g,): values at the ``grid`` of beta_1, the other parameters at the MAP; ``mode``
    is beta_1 there. U_0 has a constant of its own: with U(MAP) added it touches U at the mode. The
    derivative of U_0 is a straight line through zero at the mode.

    Source: the paper's Figure 3.
    """
    figure = new_figure(3.4)
    left, right = figure.subplots(1, 2)
    _curves(left, grid, (energy, gaussian_energy), mode)
    left.set_ylabel("energy (nats)")
    _slopes(right, grid, (slope, gaussian_slope), mode)
    legend_below(figure, _curve_handles("$U_0$, normal"), columns=3)
    return figure


@styled
def data_split(
    x: np.ndarray,
    y: np.ndarray,
    theta_map: np.ndarray,
    fast: np.ndarray,
    grid: np.ndarray,
    slope: np.ndarray,
    fast_slope: np.ndarray,
    mode: float,
) -> Figure:
    """The fast cases R_0 nearest to the MAP line, and derivatives of U and of their part U_0.

    ``x``, ``y``, ``theta_map`` as in `data_and_line`; ``fast`` (n,) is true for the cases in R_0,
    which are filled, and lie in the shaded strip |alpha + beta_1 x_1 + beta_2 x_2| <= the largest
    such value of theirs. Right: ``slope`` and ``fast_slope`` (g,) at the ``grid`` of beta_1, in nats
    per unit of beta_1, the other parameters at the MAP; ``mode`` is beta_1 there.

    Source: the paper's Figure 4.
    """
    reach = np.abs(theta_map[0] + x[fast] @ theta_map[1:]).max()
    figure = new_figure(4.35)
    left, right = figure.subplots(1, 2)
    _case_axes(left, x)
    edges = [_segment(x, theta_map, side * reach) for side in (-1.0, 1.0)]
    left.fill(*np.concatenate([edges[0], edges[1][::-1]]).T, color=_STRIP, zorder=0.5)
    _map_line(left, x, theta_map)
    for label, look in _CLASSES.items():
        for some, hollow in ((fast, False), (~fast, True)):
            shown = x[(y == label) & some]
            left.plot(*shown.T, linestyle="none", **look.points(hollow), markersize=5)
    _slopes(right, grid, (slope, fast_slope), mode)
    right.set_box_aspect(1.0)
    strip = Patch(color=_STRIP, label=f"fast: {fast.sum()} of {len(x)} cases, filled")
    # Columns fill downwards: what the left panel shows stands under it.
    handles = [_class_handle(1), _class_handle(0), handle(_EVEN, **_LINE), strip]
    legend_below(figure, [*handles, *_curve_handles("$U_0$, fast cases")])
    return figure


def _case_axes(axes: Axes, x: np.ndarray) -> None:
    """Square panel around the cases: lines may then run to any length."""
    centre, half = 0.5 * (x.min(axis=0) + x.max(axis=0)), 0.56 * np.ptp(x, axis=0).max()
    axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    axes.set_xlim(centre[0] - half, centre[0] + half)
    axes.set_ylim(centre[1] - half, centre[1] + half)


def _segment(x: np.ndarray, theta_map: np.ndarray, level: float) -> np.ndarray:
    """Ends (2, 2) of alpha + beta x = level, beyond the panel on both sides."""
    slope = theta_map[1:]
    middle = x.mean(axis=0)
    nearest = middle + slope * (level - theta_map[0] - slope @ middle) / (slope @ slope)
    along = np.array([-slope[1], slope[0]]) / np.hypot(*slope)
    return nearest + 4.0 * np.ptp(x, axis=0).max() * np.array([[-1.0], [1.0]]) * along


def _map_line(axes: Axes, x: np.ndarray, theta_map: np.ndarray) -> None:
    axes.plot(*_segment(x, theta_map, 0.0).T, **_LINE)


def _curves(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    for values, style in zip(pair, (_FULL, _PART), strict=True):
        axes.plot(grid, values, **style)
    axes.axvline(mode, **_MODE)
    axes.set(xlabel=r"$\beta_1$", xmargin=0.02)


def _slopes(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    _curves(axes, grid, pair, mode)
    axes.set_ylabel(r"derivative by $\beta_1$ (nats per unit)")


def _curve_handles(label: str) -> list[Line2D]:
    return [
        handle("$U$, all", **_FULL),
        handle(label, **_PART),
        handle(r"MAP of $\beta_1$", **_MODE),
    ]


def _class_handle(label: int, hollow: bool = False) -> Line2D:
    return handle(f"$y = {label}$", linestyle="none", **_CLASSES[label].points(hollow))


# Figures of study split_hmc from its results files.

MAX_LAG = 60


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names below its folder."""
    yield "cost", cost_comparison(read_csv(job.input.runs))
    chains: dict[str, dict[str, str]] = {}
    for path in map(Path, job.input.chains):
        chains.setdefault(path.parent.name, {})[path.stem] = str(path)
    for problem, paths in chains.items():
        for name, figure in run_figures(paths).items():
            yield f"{problem}/{name}", figure
    for path in job.input.illustrations:
        yield from illustrations(load_results(path)).items()


def illustrations(tree: xr.DataTree) -> dict[str, Figure]:
    """Figures 1-4 from `illustrate`'s data."""
    states = tree["bivariate"].to_dataset()["state"]
    shown = [states.sel({"method": name}).values for name in ("hmc", "rwm_small")]
    curve_of = {k: v.values for k, v in tree["regression"].to_dataset().variables.items()}
    grid, mode, y01 = curve_of["grid"], curve_of["mode"], (curve_of["y"] > 0).astype(int)
    fast = curve_of["fast"].astype(bool)
    curves = [curve_of[k] for k in ("energy", "gaussian_energy", "slope", "gaussian_slope")]
    return {
        "figure_1": trajectories(*shown, MEAN, COVARIANCE),
        "figure_2": data_and_line(curve_of["x"], y01, mode),
        "figure_3": normal_split(grid, *curves, mode[1]),
        "figure_4": data_split(
            curve_of["x"], y01, mode, fast, grid, curve_of["slope"], curve_of["fast_slope"], mode[1]
        ),
    }


def run_figures(paths: Mapping[str, str | Path]) -> dict[str, Figure]:
    """Traces of the first chain and mean autocorrelations of one problem's runs, by method."""
    series = {
        method: open_results(path)["trace/sum_log_likelihood"].values
        for method, path in paths.items()
    }
    label = "log likelihood (nats)"
    max_lag = min(MAX_LAG, min(values.shape[1] for values in series.values()) - 1)
    first = {method: values[0] for method, values in series.items()}
    return {
        "traces": traces(first, label),
        "autocorrelation": autocorrelations(series, max_lag),
    }
