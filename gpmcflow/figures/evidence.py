"""Log evidence against what it cost: Figure 2 of the RMHMC-AIS paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.figures.estimates import (
    combine_replicates,
    focus,
    require_columns,
    series_name,
)
from gpmcflow.figures.style import (
    ALARM_LABEL,
    Look,
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


@styled
def evidence_against_time(
    evidence: pd.DataFrame,
    approximations: pd.DataFrame,
    problem: str,
    *,
    methods: Sequence[str] | None = None,
) -> Figure:
    """Log evidence (nats) against compute seconds and against floating-point operations.

    One curve per method over the lengths of its ladder; a point is the log of the average evidence
    over replicates with its 95 % interval (see `combine_replicates`), small dots are the replicates.
    Points whose estimate raised an alarm are hollow. The vertical axis shows the trusted estimates
    (`focus`); what lies outside stands with its value in a lane per method beyond the edge.
    Horizontal lines are EP, corrected EP and Laplace.

    ``evidence`` and ``approximations`` are the tables of a study (evidence.csv,
    approximations.csv); ``methods``, all names of the study in order, keeps a method's look the same
    in every figure. Raises `InputError` for an unknown problem or a missing column.

    Source: the paper's Figure 2.
    """
    require_columns(approximations, ["problem", *_LINES], "approximations table")
    require_columns(evidence, ["problem"], "evidence table")
    rows = evidence[evidence["problem"] == problem]
    if rows.empty:
        raise unknown_name("evidence table: problem", problem, evidence["problem"].unique())
    lines = _line_values(approximations, problem)
    points = combine_replicates(rows)
    points["series"] = _series(points)
    rows = rows.assign(series=_series(rows))
    look = _series_looks(points, methods)
    limits = focus(points, [lines["log_evidence_ep"], lines["log_evidence_corrected"]])
    points["side"] = [_side(value, limits) for value in points["log_evidence"]]
    lanes = {
        side: list(points.loc[points["side"] == side, "series"].unique())
        for side in ("above", "below")
    }
    handles = _handles(points, look, lines, limits)
    figure, axes = _panels(lanes, n_handles=len(handles))
    for column, x in enumerate(("seconds", "gigaflops")):
        panel = {name: row[column] for name, row in axes.items()}
        _draw_lines(panel["main"], lines, limits)
        for name in look:
            _draw_series(panel["main"], points[points["series"] == name], look[name], x)
            _draw_replicates(panel["main"], rows, points[points["series"] == name], look[name], x)
        panel["main"].set_ylim(limits)
        for side, names in lanes.items():
            if names:
                _draw_lanes(panel[side], points[points["side"] == side], names, look, x)
        _finish_x(panel, points[x])
    _label(axes, problem)
    legend_below(figure, handles)
    return figure


def _series(frame: pd.DataFrame) -> list[str]:
    return [series_name(m, d) for m, d in zip(frame["method"], frame["direction"], strict=True)]


def _series_looks(points: pd.DataFrame, methods: Sequence[str] | None) -> dict[str, Look]:
    present = list(dict.fromkeys(points["series"]))
    order = looks([*(methods or []), *present])
    return {name: order[name] for name in present}


def _side(value: float, limits: tuple[float, float]) -> str:
    if value > limits[1]:
        return "above"
    return "inside" if value >= limits[0] else "below"


def _line_values(approximations: pd.DataFrame, problem: str) -> dict[str, float]:
    rows = approximations[approximations["problem"] == problem]
    if len(rows) != 1:
        raise InputError(
            f"approximations table: found {len(rows)} rows for problem {problem!r}, expected one; "
            "run the step that writes the table again."
        )
    return {name: float(rows[name].iloc[0]) for name in _LINES}


def _panels(lanes: dict[str, list[str]], n_handles: int) -> tuple[Figure, dict[str, list[Axes]]]:
    """Two panels with a shared vertical axis, and strips of off-scale lanes where they are needed."""
    heights = {
        "above": _LANE * len(lanes["above"]),
        "main": _PANEL,
        "below": _LANE * len(lanes["below"]),
    }
    heights = {name: height for name, height in heights.items() if height}
    legend = 0.19 * ((n_handles + 1) // 2) + 0.2
    figure = new_figure(sum(heights.values()) + legend + 0.85)
    figure.get_layout_engine().set(hspace=0.0, h_pad=0.045)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=list(heights.values()))
    axes: dict[str, list[Axes]] = {}
    main = list(heights).index("main")
    first = [figure.add_subplot(grid[main, 0])]
    axes["main"] = [*first, figure.add_subplot(grid[main, 1], sharey=first[0])]
    for i, name in enumerate(heights):
        if name != "main":
            axes[name] = [figure.add_subplot(grid[i, k], sharex=axes["main"][k]) for k in (0, 1)]
    return figure, axes


def _draw_lines(axes: Axes, lines: dict[str, float], limits: tuple[float, float]) -> None:
    for name, (_, style) in _LINES.items():
        if limits[0] <= lines[name] <= limits[1]:
            axes.axhline(lines[name], zorder=1.5, **style)


def _draw_series(axes: Axes, points: pd.DataFrame, look: Look, x: str) -> None:
    points = points[np.isfinite(points[x]) & (points[x] > 0)].sort_values(x)
    axes.plot(points[x], points["log_evidence"], **look.line(), alpha=0.8)
    for hollow in (False, True):
        some = points[(points["alarm"] != "") == hollow]
        if some.empty:
            continue
        error = some["interval"]
        axes.errorbar(
            some[x],
            some["log_evidence"],
            yerr=error,
            linestyle="none",
            ecolor=look.color,
            elinewidth=1.0,
            capsize=2.5,
            zorder=3,
            **look.points(hollow),
        )


def _draw_replicates(
    axes: Axes, rows: pd.DataFrame, points: pd.DataFrame, look: Look, x: str
) -> None:
    """Replicates as dots at the place of their average: their spread shows beside its interval."""
    for point in points[(points["n_replicates"] > 1) & (points[x] > 0)].itertuples():
        same = (rows["series"] == point.series) & (rows["n_temperatures"] == point.n_temperatures)
        values = rows.loc[same, "log_evidence"]
        axes.plot(
            np.full(len(values), getattr(point, x)), values, ".", ms=3, color=look.color, zorder=4
        )


def _draw_lanes(
    axes: Axes, points: pd.DataFrame, names: list[str], look: dict[str, Look], x: str
) -> None:
    """One lane per method: its off-scale points with their values, labels in turn below and above."""
    for lane, name in enumerate(reversed(names)):
        some = points[(points["series"] == name) & (points[x] > 0)].sort_values(x)
        for k, point in enumerate(some.itertuples()):
            place = getattr(point, x)
            axes.plot(
                [place],
                [lane],
                linestyle="none",
                markersize=5,
                **look[name].points(point.alarm != ""),
            )
            text = f"{point.log_evidence:.1f}".replace("-", "−")
            shift = (0, -11) if k % 2 == 0 else (0, 5)
            axes.annotate(
                text, (place, lane), shift, textcoords="offset points", ha="center", fontsize=8
            )
    axes.set_ylim(-0.55, len(names) - 0.45)
    axes.set_yticks([])
    axes.grid(False)
    axes.set_facecolor("0.96")


def _finish_x(panel: dict[str, Axes], values: pd.Series) -> None:
    values = values[np.isfinite(values) & (values > 0)]
    if values.empty:
        unused(panel["main"], "no cost was recorded")
        return
    log_axis(panel["main"], values.min(), values.max())
    order = [name for name in ("above", "main", "below") if name in panel]
    for name in order[:-1]:
        panel[name].tick_params(axis="x", which="both", labelbottom=False, length=0)


def _label(axes: dict[str, list[Axes]], problem: str) -> None:
    bottom = axes[[name for name in ("above", "main", "below") if name in axes][-1]]
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
    points: pd.DataFrame,
    look: dict[str, Look],
    lines: dict[str, float],
    limits: tuple[float, float],
) -> list[Line2D]:
    handles = []
    for name in look:
        some = points[points["series"] == name]
        untimed = "" if (some["seconds"] > 0).any() else " (not timed)"
        label = f"{name}{untimed}"
        handles.append(Line2D([], [], label=label, **look[name].line(), **look[name].points()))
    for column, (label, style) in _LINES.items():
        value = lines[column]
        if not np.isfinite(value):
            continue
        text = f"{label}: {value:.3f}".replace("-", "−")
        outside = not limits[0] <= value <= limits[1]
        handles.append(
            Line2D([], [], label=f"{text} (off scale)", linestyle="none")
            if outside
            else Line2D([], [], label=text, **style)
        )
    if (points["alarm"] != "").any():
        hollow = Look("0.3", "o", "none")
        handles.append(Line2D([], [], label=ALARM_LABEL, linestyle="none", **hollow.points(True)))
    return handles
