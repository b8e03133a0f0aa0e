"""Figures of the RMHMC-AIS paper."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from scipy.special import logsumexp

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.diagnostics.importance_weights import (
    MIN_EFFECTIVE_SIZE,
    effective_size,
    normalised_weights,
)
from gpmcflow.jobs.job import Job
from gpmcflow.replications.figures.estimates import (
    annealing_groups,
    betas_reached,
    combine_replicates,
    cumulated_weights,
    direction_sign,
    focus,
    ladder_label,
    longest_ladders,
    series_name,
)
from gpmcflow.replications.figures.style import (
    ALARM_LABEL,
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
from gpmcflow.replications.rmhmc_ais.illustration import GaussianMixture
from gpmcflow.storage import load_results, open_results, read_csv

# Map of the EP evidence, its correction and the hardness of annealing over hyperparameters.

_LENGTH, _SIGNAL = "log_length_scale", "log_signal_sd"
_PANELS = {  # variable -> label
    "log_evidence_ep": "EP log evidence (nats)",
    "correction": "correction of EP (nats)",
    "ratio_sd": "sd of u under EP (nats)",
}
_DEPTH = 100.0  # nats below the maximum that the colours of the evidence tell apart


@styled
def hyperparameter_map(tree: xr.DataTree) -> Figure:
    """Three maps over log length scale and log signal sd: evidence, correction, hardness.

    ``tree`` has a group ``map`` (log_length_scale, log_signal_sd) with log_evidence_ep, correction
    (second order, of EP's log evidence) and ratio_sd (standard deviation under EP of u, the log
    ratio of posterior and EP Gaussian: of plain importance sampling's log weights). Its attribute
    ``marked``, a JSON string {name: [log_length_scale, log_signal_sd]}, names settings to mark. A
    star is the largest evidence; hatched cells have no value.
    """
    data = tree["map"].to_dataset()
    figure = new_figure(3.9)
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    x, y = data[_LENGTH].values, data[_SIGNAL].values
    for axes, (name, label) in zip(panels, _PANELS.items(), strict=True):
        values = data[name].transpose(_SIGNAL, _LENGTH).values.astype(float)
        norm, extend = _norm(name, values)
        axes.grid(False)
        axes.patch.set(hatch="////", edgecolor="0.6", facecolor="white")
        mesh = axes.pcolormesh(x, y, values, norm=norm, cmap="cividis", shading="nearest")
        mesh.set_edgecolor("face")
        if min(values.shape) >= 2 and np.isfinite(values).sum() >= 4:
            _contours(axes, x, y, values, name, norm)
        bar = figure.colorbar(mesh, ax=axes, orientation="horizontal", extend=extend, pad=0.02)
        bar.set_label(label, fontsize=9)
        bar.ax.tick_params(labelsize=8)
        axes.set_xlabel("log length scale", fontsize=9)
        _mark(axes, json.loads(data.attrs["marked"]))
    panels[0].set_ylabel("log signal sd")
    _mark_maximum(panels[0], data)
    return figure


def _norm(name: str, values: np.ndarray) -> tuple[Normalize, str]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Normalize(0.0, 1.0), "neither"
    low, high = float(finite.min()), float(finite.max())
    if name == "log_evidence_ep":
        cut = high - low > _DEPTH
        return Normalize(high - _DEPTH if cut else low, high), "min" if cut else "neither"
    if low > 0.0 and high > 20.0 * low:
        return LogNorm(low, high), "neither"
    return Normalize(low, high), "neither"


def _contours(
    axes: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, name: str, norm: Normalize
) -> None:
    if name == "log_evidence_ep":
        levels = np.nanmax(values) - np.array([60.0, 30.0, 10.0, 3.0, 1.0])
    elif isinstance(norm, LogNorm):
        levels = np.geomspace(norm.vmin, norm.vmax, 7)[1:-1]
    else:
        levels = np.linspace(norm.vmin, norm.vmax, 7)[1:-1]
    if np.all(np.diff(levels) > 0):
        style = {"colors": "white", "linewidths": 0.9, "linestyles": "solid"}
        lines = axes.contour(x, y, np.ma.masked_invalid(values), levels, **style)
        lines.set(path_effects=[withStroke(linewidth=1.8, foreground="0.25")])


def _mark(axes: Axes, marked: dict[str, list[float]]) -> None:
    outline = [withStroke(linewidth=2.5, foreground="white")]
    text = {"textcoords": "offset points", "fontsize": 9, "fontweight": "bold"}
    for name, place in marked.items():
        axes.plot(*place, "o", color="black", markeredgecolor="white", markersize=7, clip_on=False)
        side, shift = ("right", -6) if place[0] > np.mean(axes.get_xlim()) else ("left", 6)
        axes.annotate(name, place, (shift, 5), ha=side, path_effects=outline, **text)


def _mark_maximum(axes: Axes, data: xr.Dataset) -> None:
    evidence = data["log_evidence_ep"]
    if evidence.notnull().any():
        best = evidence.isel(evidence.argmax(dim=[_LENGTH, _SIGNAL]))
        star = mark("*", 12, 1.0)
        axes.plot([float(best[_LENGTH])], [float(best[_SIGNAL])], clip_on=False, **star)


# Whether posterior draws can be trusted, on one page.

MAX_RHAT = 1.01
WANTED_EFFECTIVE_SIZE = 400.0
_DRAWN_CHAINS = 8
_DRAWN_POINTS = 2000


@styled
def posterior_summary(tree: xr.DataTree, title: str) -> Figure:
    """Rank-normalised R-hat, effective sizes over all latents, and traces of the log likelihood.

    ``tree`` follows ArviZ's schema: ``posterior`` (chain, draw, ...) and ``sample_stats`` with
    sum_log_likelihood (chain, draw). Effective sizes are those of bulk and tail. Dashed lines: R-hat
    1.01 and effective size 400.

    Source: Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), computed by arviz_stats.
    """
    posterior = tree["posterior"].to_dataset().load()
    trace = tree["sample_stats/sum_log_likelihood"].transpose("chain", "draw").load()
    figure = new_figure(4.9)
    grid = figure.add_gridspec(2, 2)
    _rhat_panel(figure.add_subplot(grid[0, 0]), posterior)
    _effective_size_panel(figure.add_subplot(grid[0, 1]), posterior)
    _trace_panel(figure.add_subplot(grid[1, :]), trace)
    figure.suptitle(title)
    return figure


def _values(statistic: xr.Dataset) -> np.ndarray:
    return np.concatenate([np.ravel(array.values) for array in statistic.data_vars.values()])


def _rhat_panel(axes: Axes, posterior: xr.Dataset) -> None:
    axes.set(xlabel="R-hat (rank-normalised)", ylabel="latents")
    if posterior.sizes["chain"] < 2:
        unused(axes, "R-hat needs two chains or more")
        return
    values = _values(arviz_stats.rhat(posterior))
    values = values[np.isfinite(values)]
    if not len(values):
        unused(axes, "R-hat could not be computed")
        return
    above = int((values > MAX_RHAT).sum())
    axes.hist(values, 30, color="#0072B2")
    axes.axvline(MAX_RHAT, color="black", linestyle=(0, (4, 2)), linewidth=1.2)
    axes.set_xlim(min(values.min(), 1.0) - 0.001, max(values.max(), MAX_RHAT) + 0.001)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(
        f"largest {values.max():.4f}; {above} of {len(values)} above {MAX_RHAT}", fontsize=9
    )


def _effective_size_panel(axes: Axes, posterior: xr.Dataset) -> None:
    axes.set(xlabel="effective size (draws)", ylabel="latents")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # latents that did not move
        bulk = _values(arviz_stats.ess(posterior, method="bulk"))
        tail = _values(arviz_stats.ess(posterior, method="tail"))
    bulk, tail = bulk[np.isfinite(bulk)], tail[np.isfinite(tail)]
    if not len(bulk) or not len(tail):
        unused(axes, "effective sizes could not be computed")
        return
    edges = np.linspace(0.0, max(bulk.max(), tail.max(), 1.2 * WANTED_EFFECTIVE_SIZE), 31)
    axes.hist(bulk, edges, color="#56B4E9", label="bulk")
    axes.hist(tail, edges, histtype="step", color="black", linewidth=1.3, label="tail")
    axes.axvline(WANTED_EFFECTIVE_SIZE, color="black", linestyle=(0, (4, 2)), linewidth=1.2)
    axes.locator_params(axis="x", nbins=5)
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    smallest = min(bulk.min(), tail.min())
    axes.set_title(f"smallest {smallest:.0f} of {total} draws", fontsize=9)
    axes.legend(loc="best")


def _trace_panel(axes: Axes, trace: xr.DataArray) -> None:
    """Chains one over the other; long ones are thinned, as a page has no more points."""
    n_chains, n_draws = trace.shape
    every = max(1, -(-n_draws // _DRAWN_POINTS))
    shown = min(n_chains, _DRAWN_CHAINS)
    for k, look in enumerate(looks(list(map(str, range(shown)))).values()):
        chain = trace.isel(chain=k, draw=slice(None, None, every))
        axes.plot(chain["draw"], chain, color=look.color, linewidth=0.7, alpha=0.8)
    number = f"{shown} chains" if shown == n_chains else f"{shown} of {n_chains} chains"
    thinned = "" if every == 1 else f", one draw in {every}"
    axes.set(xlabel="draw", ylabel="log likelihood (nats)", xmargin=0.01)
    axes.set_title(f"{number}{thinned}", fontsize=9)


_N_MARKERS = 7


@styled
def effective_size_by_temperature(
    trees: Mapping[str, xr.DataTree], title: str, methods: Sequence[str]
) -> Figure:
    """Effective size of the cumulated weights along the longest ladder of each method.

    ESS_t / P with ESS_t = (sum w_t)^2 / sum w_t^2, w_t the weight after increment t, averaged over
    replicates; against the share of the ladder done, and against the inverse temperature reached.
    A dotted line marks the effective size below which an estimate raises its alarm (of the
    smallest number of particles). For ``methods`` see `evidence_against_time`.
    """
    groups = longest_ladders(trees)
    figure = new_figure(3.6 + 0.19 * len(groups) / 2)
    left, right = figure.subplots(1, 2, sharey=True)
    look = looks(methods)
    lowest, fewest = 1.0, np.inf
    for name, group in groups.items():
        cumulated = direction_sign(group) * cumulated_weights(group)
        n_particles, n_temperatures = cumulated.shape[-2:]
        sizes = effective_size(np.moveaxis(cumulated, -1, 0))
        sizes = sizes.reshape(n_temperatures, -1).mean(axis=1) / n_particles
        lowest, fewest = min(lowest, sizes.min()), min(fewest, n_particles)
        done = np.arange(1, n_temperatures + 1) / n_temperatures
        _curve(left, done, sizes, look[name])
        _curve(right, betas_reached(group), sizes, look[name])
    left.set(xlabel="share of the ladder done", ylabel="effective size / particles", xlim=(0, 1))
    _beta_axis(right, groups.values())
    if lowest < 0.2:
        left.set_yscale("log")
        left.set_ylim(0.7 * lowest, 1.4)
        for axes in (left, right):
            axes.axhline(MIN_EFFECTIVE_SIZE / fewest, color="black", linestyle=":", linewidth=1.0)
        place = (0.02, MIN_EFFECTIVE_SIZE / fewest)
        text = f"alarm: effective size {MIN_EFFECTIVE_SIZE:g}"
        left.annotate(text, place, (0, 3), textcoords="offset points", fontsize=8)
    else:
        left.set_ylim(0, 1.05)
    return _finish(figure, look, groups, title)


@styled
def acceptance_and_step_size(
    trees: Mapping[str, xr.DataTree], title: str, methods: Sequence[str]
) -> Figure:
    """Mean acceptance rate and tuned step size against inverse temperature, longest ladders.

    Temperatures without a transition (the last one, runs without a sampler) are left out. For
    ``methods`` see `evidence_against_time`.
    """
    groups = longest_ladders(trees)
    figure = new_figure(3.5 + 0.19 * len(groups) / 2)
    left, right = figure.subplots(1, 2)
    look = looks(methods)
    for name, group in groups.items():
        rate = group["acceptance_rate"]
        rate = rate.mean([dim for dim in rate.dims if dim != "temperature"]).values
        moved = np.isfinite(rate)
        beta = betas_reached(group)[moved]
        _curve(left, beta, rate[moved], look[name])
        step_size = np.broadcast_to(group["step_size"].values, len(moved))
        _curve(right, beta, step_size[moved], look[name])
    for axes in (left, right):
        _beta_axis(axes, groups.values())
    left.set(ylabel="mean acceptance rate", ylim=(0, 1.05))
    right.set_ylabel("step size")
    sizes = np.concatenate([line.get_ydata() for line in right.lines])
    if len(sizes) and sizes.min() > 0 and sizes.max() > 20 * sizes.min():
        right.set_yscale("log")
    else:
        right.set_ylim(0, 1.08 * max(sizes, default=1.0))
    return _finish(figure, look, groups, title)


def _curve(axes: Axes, x: np.ndarray, y: np.ndarray, look: Look) -> None:
    """A line with a few markers on it: enough to tell it from the others in grey."""
    every = max(1, len(x) // _N_MARKERS)
    start = (every * sum(map(ord, look.marker)) // 7) % every  # not at the same place as the others
    axes.plot(x, y, markevery=(start, every), **look.line(), **look.points())


def _beta_axis(axes: Axes, groups: Iterable[xr.Dataset]) -> None:
    """Label the inverse temperature; logarithmic when a ladder starts with tiny steps."""
    positive = [beta[beta > 0] for beta in map(betas_reached, groups)]
    lowest = min((beta.min() for beta in positive if len(beta)), default=1.0)
    if lowest < 0.02:
        axes.set_xscale("log")
        axes.set_xlim(lowest / 1.5, 1.5)
    else:
        axes.set_xlim(0, 1.02)
    axes.set_xlabel("inverse temperature β")


def _finish(
    figure: Figure, look: Mapping[str, Look], groups: Mapping[str, xr.Dataset], title: str
) -> Figure:
    """Add legend (method, length of its ladder) and title."""
    handles = [
        handle(f"{name} ({ladder_label(group)})", **look[name].line(), **look[name].points())
        for name, group in groups.items()
    ]
    legend_below(figure, handles)
    figure.suptitle(title)
    return figure


# Final log weights of annealing runs: whether an estimate rests on few particles.

_COLUMNS = 2
_MEAN_WEIGHT = {"color": "#D55E00", "linewidth": 1.5}
_MEAN_LOG_WEIGHT = {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 2))}


@styled
def log_weights(tree: xr.DataTree, title: str) -> Figure:
    """Distribution of the final log weights (nats), one panel per length of the ladder.

    Grey: the particles of all replicates. Outline: the same particles by their share of the total
    weight; an estimate is sound where the two overlap, and rests on a few particles where the
    outline stands alone at the edge. Solid line: log of the mean weight, the log evidence; dashed:
    mean log weight, a lower bound of it (an upper bound for reverse runs).

    ``tree`` has groups annealing* (replicate, chain, temperature: log_weight_increment).
    """
    groups = annealing_groups(tree)
    n_rows = -(-len(groups) // _COLUMNS)
    figure = new_figure(1.75 * n_rows + 0.9)
    panels = figure.subplots(n_rows, _COLUMNS, squeeze=False)
    for axes, group in zip(panels.flat, groups, strict=False):
        weights = cumulated_weights(group)[..., -1].ravel()
        _weight_panel(axes, ladder_label(group), direction_sign(group), weights)
    for axes in panels.flat[len(groups) :]:
        axes.remove()
    for axes in panels.flat[max(len(groups) - _COLUMNS, 0) : len(groups)]:
        axes.set_xlabel("final log weight (nats)")
    figure.supylabel("share of particles, or of weight", fontsize=10)
    figure.suptitle(title)
    handles = [
        Patch(color="0.78", label="particles"),
        Patch(facecolor="none", edgecolor="#0072B2", linewidth=1.5, label="share of the weight"),
        handle("log mean weight", **_MEAN_WEIGHT),
        handle("mean log weight", **_MEAN_LOG_WEIGHT),
    ]
    legend_below(figure, handles)
    return figure


def _weight_panel(axes: Axes, label: str, sign: float, values: np.ndarray) -> None:
    values = values[np.isfinite(values)]
    if not len(values):
        axes.set_title(f"{label}: no finite weight")
        return
    estimate = sign * (logsumexp(sign * values) - np.log(len(values)))
    span = max(np.ptp(values), 1e-9)
    n_bins = int(np.clip(2.0 * len(values) ** (1 / 3), 8, 30))
    edges = np.linspace(values.min() - 0.02 * span, values.max() + 0.02 * span, n_bins + 1)
    share = np.full(len(values), 1.0 / len(values))
    axes.hist(values, edges, weights=share, color="0.78")
    weights = normalised_weights(sign * values)
    axes.hist(values, edges, weights=weights, histtype="step", color="#0072B2", linewidth=1.5)
    axes.axvline(estimate, **_MEAN_WEIGHT)
    axes.axvline(values.mean(), **_MEAN_LOG_WEIGHT)
    fraction = float(effective_size(sign * values)) / len(values)
    spread = f"sd {values.std(ddof=1):.2g}" if len(values) > 1 else "one particle"
    effective = f"{100 * fraction:.0f}" if fraction >= 0.1 else f"{100 * fraction:.2g}"
    axes.set_title(f"{label}: {spread}, effective {effective} %", fontsize=9)
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=4)


_LINES = {  # column -> label, line
    "log_evidence_ep": ("EP", {"color": "black", "linestyle": (0, (6, 2)), "linewidth": 1.1}),
    "log_evidence_corrected": ("EP, corrected", {"color": "black", "linewidth": 1.1}),
    "log_evidence_laplace": ("Laplace", {"color": "0.35", "linestyle": ":", "linewidth": 1.5}),
}
_LANE = 0.42  # inches of an off-scale lane
_PANEL = 3.1
_ONE, _RANGE = 0.145, 0.36  # shares of the axis that labels of a lane take, about
_EDGE = 0.15  # nearer to an end of the axis labels begin or end at their place


@styled
def evidence_against_time(
    evidence: pd.DataFrame, approximations: pd.DataFrame, problem: str, methods: Sequence[str]
) -> Figure:
    """Log evidence (nats) against compute seconds and against floating-point operations.

    One curve per method over the lengths of its ladder; a point is the log of the average evidence
    over replicates with its 95 % interval (see `combine_replicates`), small dots are the replicates.
    Points whose estimate raised an alarm are hollow. The vertical axis shows the trusted estimates
    (`focus`); what lies outside stands with its value in a lane per method beyond the edge.
    Horizontal lines are EP, corrected EP and Laplace.

    ``evidence`` and ``approximations`` are the tables of a study (evidence.csv,
    approximations.csv); ``methods``, all names of the study in order, keeps a method's look the same
    in every figure.

    Source: the paper's Figure 2.
    """
    rows = evidence[evidence["problem"] == problem]
    lines = approximations.set_index("problem").loc[problem]
    points = combine_replicates(rows)
    points["series"] = _series(points)
    rows = rows.assign(series=_series(rows))
    present = points["series"].unique()
    looks_of_all = looks([*methods, *present])
    look = {name: looks_of_all[name] for name in present}
    low, high = limits = focus(points, [lines["log_evidence_ep"], lines["log_evidence_corrected"]])
    values = points["log_evidence"]
    points["side"] = np.select([values > high, values >= low], ["above", "main"], "below")
    lanes = {
        side: list(points.loc[points["side"] == side, "series"].unique())
        for side in ("above", "below")
    }
    handles = _handles(points, look, lines, limits)
    figure, axes = _panels(lanes, n_handles=len(handles))
    for column, x in enumerate(("seconds", "gigaflops")):
        panel = {name: row[column] for name, row in axes.items()}
        timed = points[np.isfinite(points[x]) & (points[x] > 0)].sort_values(x)
        _draw_lines(panel["main"], lines, limits)
        for name in look:
            some = timed[timed["series"] == name]
            _draw_series(panel["main"], some, look[name], x)
            _draw_replicates(panel["main"], rows, some, look[name], x)
        panel["main"].set_ylim(limits)
        _finish_x(panel, timed[x])
        for side, names in lanes.items():
            if names:
                _draw_lanes(panel[side], timed[timed["side"] == side], names, look, x)
    _label(axes, problem)
    legend_below(figure, handles)
    return figure


def _series(frame: pd.DataFrame) -> list[str]:
    return [series_name(m, d) for m, d in zip(frame["method"], frame["direction"], strict=True)]


def _panels(lanes: dict[str, list[str]], n_handles: int) -> tuple[Figure, dict[str, list[Axes]]]:
    """Two panels with a shared vertical axis, and strips of off-scale lanes where they are needed."""
    heights = {"main": _PANEL} | {side: _LANE * len(names) for side, names in lanes.items()}
    heights = {name: heights[name] for name in ("above", "main", "below") if heights[name]}
    legend = 0.19 * ((n_handles + 1) // 2) + 0.2
    figure = new_figure(sum(heights.values()) + legend + 0.85)
    figure.get_layout_engine().set(hspace=0.0, h_pad=0.045)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=list(heights.values()))
    main = list(heights).index("main")
    first = [figure.add_subplot(grid[main, 0])]
    axes = {"main": [*first, figure.add_subplot(grid[main, 1], sharey=first[0])]}
    for i, name in enumerate(heights):
        if name != "main":
            axes[name] = [figure.add_subplot(grid[i, k], sharex=axes["main"][k]) for k in (0, 1)]
    return figure, {name: axes[name] for name in heights}


def _draw_lines(axes: Axes, lines: pd.Series, limits: tuple[float, float]) -> None:
    for name, (_, style) in _LINES.items():
        if limits[0] <= lines[name] <= limits[1]:
            axes.axhline(lines[name], zorder=1.5, **style)


def _draw_series(axes: Axes, points: pd.DataFrame, look: Look, x: str) -> None:
    axes.plot(points[x], points["log_evidence"], **look.line(), alpha=0.8)
    bar = {"linestyle": "none", "ecolor": look.color, "elinewidth": 1.0, "capsize": 2.5}
    for alarmed, some in points.groupby(points["alarm"] != ""):
        centre, error = some["log_evidence"], some["interval"]
        axes.errorbar(some[x], centre, yerr=error, zorder=3, **bar, **look.points(alarmed))


def _draw_replicates(
    axes: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Look, x: str
) -> None:
    """Replicates as dots at the place of their average: their spread shows beside its interval."""
    places = points.loc[points["n_replicates"] > 1, ["series", "n_temperatures", x]]
    for _, dots in rows.drop(columns=x).merge(places).groupby("n_temperatures"):
        axes.plot(dots[x], dots["log_evidence"], ".", ms=3, color=look.color, zorder=4)


def _draw_lanes(
    axes: Axes, points: pd.DataFrame, names: list[str], look: dict[str, Look], x: str
) -> None:
    """One lane per method: its off-scale points with their values below or above it.

    Points for whose labels there is no room share one, with their lowest and highest value.
    """
    low, high = np.log(axes.get_xlim()) if len(points) else (0.0, 1.0)
    for lane, name in enumerate(reversed(names)):
        rows = points[points["series"] == name]
        for point in rows.to_dict("records"):
            style = look[name].points(point["alarm"] != "")
            axes.plot([point[x]], [lane], linestyle="none", markersize=5, **style)
        share = (np.log(rows[x].to_numpy()) - low) / (high - low)
        for height, group in _labels(share):
            values = rows["log_evidence"].iloc[group]
            ends = dict.fromkeys(f"{value:.1f}" for value in (values.min(), values.max()))
            middle = (share[group[0]] + share[group[-1]]) / 2
            axes.annotate(
                " to ".join(ends).replace("-", "−"),
                (np.exp(low + middle * (high - low)), lane),
                (0, height),
                textcoords="offset points",
                ha="left" if middle < _EDGE else "right" if middle > 1.0 - _EDGE else "center",
                fontsize=8,
            )
    axes.set_ylim(-0.55, len(names) - 0.45)
    axes.set_yticks([])
    axes.grid(False)
    axes.set_facecolor("0.96")


def _labels(places: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Height (points) of each label of ascending places (shares of the axis), and what it is for.

    As many as stand beside each other, below and above in turn; places are joined across their least gaps.
    """
    groups: list[np.ndarray] = []
    by_gap = np.argsort(-np.diff(places), kind="stable")
    for n in range(len(places), 0, -1):
        groups = np.split(np.arange(len(places)), np.sort(by_gap[: n - 1]) + 1)
        spans = [_span(places[group]) for group in groups]
        if all(left[1] <= right[0] for left, right in zip(spans, spans[2:], strict=False)):
            break
    return [((-11, 5)[k % 2], group) for k, group in enumerate(groups)]


def _span(places: np.ndarray) -> tuple[float, float]:
    """Left and right end of the label of a group of places."""
    middle, width = (places[0] + places[-1]) / 2, _ONE if len(places) == 1 else _RANGE
    left = middle - width * (0.0 if middle < _EDGE else 1.0 if middle > 1.0 - _EDGE else 0.5)
    return left, left + width


def _finish_x(panel: dict[str, Axes], values: pd.Series) -> None:
    if values.empty:
        unused(panel["main"], "no cost was recorded")
        return
    log_axis(panel["main"], values.min(), values.max())
    for axes in list(panel.values())[:-1]:
        axes.tick_params(axis="x", which="both", labelbottom=False, length=0)


def _label(axes: dict[str, list[Axes]], problem: str) -> None:
    bottom = list(axes.values())[-1]
    bottom[0].set_xlabel("compute time (seconds)")
    bottom[1].set_xlabel("floating-point operations (10$^9$)")
    axes["main"][0].set_ylabel("log evidence (nats)")
    axes["main"][1].tick_params(axis="y", labelleft=False)
    axes["main"][0].figure.suptitle(problem)
    for name, arrow in (("above", "↑"), ("below", "↓")):
        if name in axes:
            text = f"off scale {arrow}"
            axes[name][0].set_ylabel(text, rotation=0, ha="right", va="center", fontsize=9)


def _handles(
    points: pd.DataFrame, look: dict[str, Look], lines: pd.Series, limits: tuple[float, float]
) -> list[Line2D]:
    handles = []
    for name in look:
        timed = (points.loc[points["series"] == name, "seconds"] > 0).any()
        label = name if timed else f"{name} (not timed)"
        handles.append(handle(label, **look[name].line(), **look[name].points()))
    for column, (label, style) in _LINES.items():
        value = lines[column]
        if not np.isfinite(value):
            continue
        text = f"{label}: {value:.3f}".replace("-", "−")
        inside = limits[0] <= value <= limits[1]
        handles.append(
            handle(text, **style) if inside else handle(f"{text} (off scale)", linestyle="none")
        )
    if (points["alarm"] != "").any():
        hollow = Look("0.3", "o", "none")
        handles.append(handle(ALARM_LABEL, linestyle="none", **hollow.points(True)))
    return handles


# Trajectories of HMC and RMHMC on a mixture of Gaussians.

NAMES = {"hmc": "HMC, mass $I$", "rmhmc": "RMHMC"}
_START = mark("D", 10, 1.5)
_END = mark("*", 13, 0.8, face="black", edge="white")
_LEVELS = (1.0, 2.0, 4.0, 7.0)  # nats below the highest density
_MARGIN, _GRID = 0.6, 161


@styled
def trajectories(data: xr.Dataset) -> Figure:
    """One trajectory of each method from the same start, and how far trajectories get with each step.

    ``data`` is group ``mixture`` of the illustration: trajectory (method, step, coordinate),
    acceptance_rate and squared_jump (method, chain, step), step_size (method), and the mixture
    (weight, mean, covariance). Contours lie 1, 2, 4 and 7 nats below the highest density. Titles give
    means over the chains of whole trajectories, +- one standard error; the panel below the expected
    squared jump of trajectories that end after fewer steps.
    """
    mixture = GaussianMixture(*(data[n].values for n in ("weight", "mean", "covariance")))
    methods = list(data["method"].values)
    figure = new_figure(7.3)
    rows = figure.add_gridspec(2, len(methods), height_ratios=(2.2, 1.0))
    below = figure.add_subplot(rows[1, :])
    x, y = _ranges(mixture, data["trajectory"].values)
    for column, (method, look) in enumerate(looks(methods).items()):
        one, axes = data.sel({"method": method}), figure.add_subplot(rows[0, column])
        _density_contours(axes, mixture, x, y)
        _path(axes, one["trajectory"].values, look)
        axes.set(title=_title(one, method), xlabel="$x_1$", aspect="equal", xlim=x, ylim=y)
        axes.grid(False)
        if column == 0:
            axes.set_ylabel("$x_2$")
        _jumps(below, one, look)
    steps = data.sizes["step"] - 1
    below.set(xlabel="steps of the trajectory", ylabel="squared jump", xlim=(0, steps + 0.4))
    below.set_ylim(bottom=0.0)
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    names = [
        handle(NAMES[method], **look.line(), **_small(look))
        for method, look in looks(methods).items()
    ]
    *first, last = (f"{level:g}" for level in _LEVELS)
    contours = f"{', '.join(first)} and {last} nats below the top"
    marks = [handle("start", **_START), handle("end", **_END)]
    marks.append(handle(contours, color="0.5", linewidth=1.0))
    legend_below(figure, [*names, *marks], columns=3)
    return figure


def _title(one: xr.Dataset, method: str) -> str:
    parts = [f"{NAMES[method]}: {one.sizes['step'] - 1} steps of {one['step_size']:.2g}"]
    for name, label in (("acceptance_rate", "acceptance"), ("squared_jump", "squared jump")):
        mean, error = mean_and_error(one[name].values[:, -1])
        parts.append(f"{label} {mean:.2f} $\\pm$ {error:.2f}")
    return "\n".join(parts)


def _ranges(
    mixture: GaussianMixture, paths: np.ndarray
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Horizontal and vertical range that holds the paths and three deviations of each component."""
    deviations = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    points = paths.reshape(-1, 2)
    low = np.minimum((mixture.means - 3.0 * deviations).min(0), points.min(0) - _MARGIN)
    high = np.maximum((mixture.means + 3.0 * deviations).max(0), points.max(0) + _MARGIN)
    return (low[0], high[0]), (low[1], high[1])


def _density_contours(
    axes: Axes, mixture: GaussianMixture, x: tuple[float, float], y: tuple[float, float]
) -> None:
    grid = np.meshgrid(np.linspace(*x, _GRID), np.linspace(*y, _GRID))
    points = np.column_stack([g.ravel() for g in grid])
    depth = mixture.log_density(points).reshape(_GRID, _GRID)
    depth = depth - depth.max()
    style = {"colors": "0.5", "linewidths": (0.6, 0.8, 1.0, 1.3), "linestyles": "-", "zorder": 1}
    axes.contour(*grid, depth, levels=[-level for level in _LEVELS[::-1]], **style)


def _path(axes: Axes, path: np.ndarray, look: Look) -> None:
    axes.plot(*path.T, color=look.color, linewidth=1.2, zorder=2, **_small(look))
    axes.plot(*path[0], zorder=4, **_START)
    axes.plot(*path[-1], zorder=5, **_END)


def _jumps(axes: Axes, one: xr.Dataset, look: Look) -> None:
    mean, error = mean_and_error(one["squared_jump"].values, axis=0)
    bar = {"linewidth": 1.2, "elinewidth": 0.8, "ecolor": look.color}
    axes.errorbar(one["step"].values, mean, error, **bar, **look.line(), **_small(look))


def _small(look: Look) -> dict:
    return {**look.points(), "markersize": 4.0}


# Figures of study rmhmc_ais from its results files.


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names below its folder."""
    methods = job.settings["methods"]
    evidence, approximations = (read_csv(path) for path in job.input.tables)
    for problem, paths in _by_problem(job.input.evidence).items():
        points = evidence_against_time(evidence, approximations, problem, list(methods))
        yield f"{problem}/evidence_against_time", points
        kinds = {name: methods[name]["kind"] for name in paths}
        annealed = {name: open_results(paths[name]) for name in paths if kinds[name] == "ais"}
        if annealed:
            names = (problem, list(methods))
            yield f"{problem}/effective_size", effective_size_by_temperature(annealed, *names)
            yield f"{problem}/acceptance", acceptance_and_step_size(annealed, *names)
        for name, path in paths.items():
            if kinds[name] in ("ais", "importance_sampling"):
                with open_results(path) as tree:
                    yield f"{problem}/log_weights_{name}", log_weights(tree, f"{problem}: {name}")
    for path in job.input.posterior:
        problem = Path(path).parent.name
        yield f"{problem}/posterior", posterior_summary(load_results(path), problem)
    if "map" in job.input.keys():  # noqa: SIM118 (a named list, no mapping)
        yield "map", hyperparameter_map(load_results(job.input.map))
    if "illustration" in job.input.keys():  # noqa: SIM118
        mixture = load_results(job.input.illustration)["mixture"].to_dataset()
        yield "figure_1", trajectories(mixture)


def _by_problem(paths: list[str]) -> dict[str, dict[str, str]]:
    """Problem -> method -> file, which is in a folder of its own below that of the problem."""
    files: dict[str, dict[str, str]] = {}
    for path in map(Path, paths):
        files.setdefault(path.parents[1].name, {})[path.stem] = str(path)
    return files
