"""Log evidence against what it cost: Figure 2 of the RMHMC-AIS paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpmcflow.replications.figures.estimates import combine_replicates, focus, series_name
from gpmcflow.replications.figures.style import (
    ALARM_LABEL,
    Look,
    handle,
    legend_below,
    log_axis,
    looks,
    new_figure,
    styled,
    unused,
)

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
