"""Figures of the surrogate-slice study: effective samples per unit of cost, intensities of Cox processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from gpmcflow.errors import InputError
from gpmcflow.figures.estimates import require_columns
from gpmcflow.figures.style import legend_below, new_figure, styled, unused

BASE = "surr-site"  # bars are relative to it
TOP = 4.0  # of the vertical axes in the paper
LARGEST = 8.0  # bars that are higher are cut, their height written on them
PANELS = {
    "per_n_lik": "likelihood evaluation",
    "per_n_cov": "covariance construction",
    "per_second": "second",
}
GROUP = 0.84  # width of a group of bars; groups are 1 apart


@dataclass(frozen=True)
class _Fill:
    face: str
    hatch: str


# Lightness and hatch tell any two apart without colour; a site method is darker than its taylor kin.
_FILLS = {
    "fixed": _Fill("#FFFFFF", ""),
    "prior-white": _Fill("#E3E3E3", "...."),
    "surr-site": _Fill("#0B3C66", ""),
    "post-site": _Fill("#D98C3A", ""),
    "surr-taylor": _Fill("#9CC3E0", "////"),
    "post-taylor": _Fill("#F6DDBB", "\\\\\\\\"),
    "joint-split": _Fill("#4F8F5B", "xx"),
}
_OTHERS = (
    _Fill("#BBBBBB", "--"),
    _Fill("#777777", ""),
    _Fill("#EEEEEE", "++"),
    _Fill("#555555", "oo"),
)


@styled
def figure_3(efficiency: pd.DataFrame, *, methods: Sequence[str] | None = None) -> Figure:
    """Effective samples per unit of cost, relative to surr-site: a panel a cost, a bar a method.

    ``efficiency`` has one row per problem and method, with columns problem, method, representation, plain
    (whether it is one of the six as in the paper, or joint split HMC as it sets itself up), and per_n_lik,
    per_n_cov, per_second with their standard errors (..._mcse) over the chains. Bars are means, error bars
    one standard error, both over the mean of surr-site; the number below a group is that mean. The axis
    ends at 4, or above the highest bar, but at 8 at most: bars that reach higher with their error are cut,
    and their height is written on them.
    ``methods`` are those shown: by default the plain ones. Problems without surr-site are left out.

    Raises `InputError` for a missing column.
    Source: Murray & Adams (2010), figure 3.
    """
    where = "figure_3"
    needed = [name for panel in PANELS for name in (panel, f"{panel}_mcse")]
    identity = ["problem", "method", "representation", "plain"]
    require_columns(efficiency, [*identity, *needed], where)
    table = _shown(efficiency, methods)
    problems = list(dict.fromkeys(table.loc[table["method"] == BASE, "problem"]))
    table = table[table["problem"].isin(problems)]
    if not problems:
        figure = new_figure(2.0)
        unused(figure.subplots(), f"no problem was run with {BASE}, which bars are relative to")
        return figure
    here = list(dict.fromkeys(table["method"]))
    names = [name for name in _FILLS if name in here]
    names += [name for name in here if name not in _FILLS]
    figure = new_figure(6.8)
    panels = figure.subplots(len(PANELS), 1)
    for axes, (column, what) in zip(panels, PANELS.items(), strict=True):
        _bars(axes, table, column, problems, names)
        axes.set_title(f"per {what}", loc="left")
        axes.set_ylabel("relative")
    title = (
        f"Effective samples of the complete log likelihood per unit of cost, over those of {BASE};"
    )
    figure.suptitle(f"{title}\nbelow each group: those of {BASE} itself", fontsize=10)
    handles = [Patch(label=name, **_patch(name, names)) for name in names]
    legend_below(figure, handles, columns=3)
    return figure


def _shown(efficiency: pd.DataFrame, methods: Sequence[str] | None) -> pd.DataFrame:
    """Rows of the methods shown, the plain ones by the name of their representation."""
    if methods is not None:
        return efficiency[efficiency["method"].isin(methods)]
    plain = efficiency[efficiency["plain"].astype(bool)]
    plain = plain.assign(method=plain["representation"])
    return plain.drop_duplicates(["problem", "method"])


def _patch(name: str, names: Sequence[str]) -> dict:
    others = [n for n in names if n not in _FILLS]
    fill = _FILLS[name] if name in _FILLS else _OTHERS[others.index(name) % len(_OTHERS)]
    return {"facecolor": fill.face, "hatch": fill.hatch, "edgecolor": "black", "linewidth": 0.8}


def _bars(axes: Axes, table: pd.DataFrame, column: str, problems: list, names: list) -> None:
    """One panel: a group of bars a problem."""
    rows = {(row["problem"], row["method"]): row for row in table.to_dict("records")}
    width, top, ticks = GROUP / len(names), TOP, []
    for k, problem in enumerate(problems):
        base = rows[problem, BASE][column]
        ticks.append(f"{problem}\n{float(f'{base:.2g}'):g}")
        for j, name in enumerate(names):
            row = rows.get((problem, name))
            if row is None or not (np.isfinite(row[column]) and base > 0.0):
                continue  # the method does not apply
            height, error = row[column] / base, row[f"{column}_mcse"] / base
            at = k + (j + 0.5) * width - 0.5 * GROUP
            cut = height + (error if np.isfinite(error) else 0.0) > LARGEST
            axes.bar(at, min(height, LARGEST), width, zorder=2, **_patch(name, names))
            if cut:
                _written(axes, at, height, error)
                height = LARGEST
            elif np.isfinite(error):
                axes.errorbar(
                    at, height, error, color="black", capsize=2.0, linewidth=1.1, zorder=3
                )
                _light_error(axes, at, height, error, name)
                height += error
            top = max(top, min(1.04 * height, LARGEST))
    axes.axhline(1.0, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set(xlim=(-0.5, len(problems) - 0.5), ylim=(0.0, top), xticks=range(len(problems)))
    axes.set_xticklabels(ticks)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def _written(axes: Axes, at: float, height: float, error: float) -> None:
    """Height of a bar that is cut, with its error, on its upper part."""
    known = np.isfinite(error) and error > 0.0
    decimals = -int(np.floor(np.log10(error if known else 0.1 * height)))
    parts = [round(value, decimals) for value in ((height, error) if known else (height,))]
    text = " ± ".join(f"{value:.{max(decimals, 0)}f}" for value in parts)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(at, 0.97 * LARGEST, text, rotation=90, ha="center", va="top", fontsize=7.5,
              bbox=box, zorder=5)  # fmt: skip


def _light_error(axes: Axes, at: float, height: float, error: float, name: str) -> None:
    """The part of an error bar that is inside a dark bar, in white."""
    if name == BASE:
        low = max(height - error, 0.0)
        axes.plot([at, at], [low, height], color="white", linewidth=1.1, zorder=4)


@styled
def intensity(tree: xr.DataTree, *, title: str = "") -> Figure:
    """Posterior intensity of a Cox process over its events: a band along a line, or a map of a plane.

    ``tree`` has groups ``intensity`` (case: mean, lower, upper of the expected counts exp(f + c), with
    5 % and 95 % limits), ``constant_data`` (X: case, feature), and ``observed_data`` (y: case, counts;
    events: event, feature, where they are known). Along a line: band and mean over counts, events as a
    rug. In a plane: mean, and the width of the interval over the mean, with the events, or with dots
    whose area is the count. Darker is more. With more features: as along a line, cases by their mean.

    Raises `InputError` for a missing group.
    """
    data = _checked_intensity(tree)
    n_features = data["X"].shape[1]
    if n_features == 2:
        return _plane(data, title)
    if n_features == 1:
        return _line(data, title, "x")
    places = np.argsort(np.argsort(data["mean"], kind="stable"))[:, None]
    return _line(data | {"X": places, "events": None}, title, "case, by posterior mean")


def _checked_intensity(tree: xr.DataTree) -> dict[str, np.ndarray | None]:
    where = "intensity"
    for group in ("intensity", "constant_data", "observed_data"):
        if group not in tree.children:
            raise InputError(
                f"{where}: the results have no group {group!r} (found: {', '.join(tree.children)}); give "
                "those of a Poisson problem of the surrogate-slice study"
            )
    X = np.asarray(tree["constant_data/X"].values, dtype=np.float64)
    found = {name: tree[f"intensity/{name}"].values for name in ("mean", "lower", "upper")}
    observed = tree["observed_data"].to_dataset()
    events = observed["events"].values.reshape(-1, X.shape[1]) if "events" in observed else None
    return found | {"X": X, "y": observed["y"].values, "events": events}


def _line(data: dict, title: str, label: str) -> Figure:
    order = np.argsort(data["X"][:, 0])
    x, y = data["X"][order, 0], data["y"][order]
    mean, lower, upper = (data[name][order] for name in ("mean", "lower", "upper"))
    figure = new_figure(3.4)
    axes = figure.subplots()
    axes.fill_between(x, lower, upper, color="#9CC3E0", linewidth=0.0, zorder=1)
    axes.plot(x, mean, color="#0B3C66", linewidth=2.0, zorder=3)
    axes.plot(x, y, linestyle="none", marker="o", markersize=4.5, markerfacecolor="white",
              markeredgecolor="black", markeredgewidth=0.9, zorder=4)  # fmt: skip
    handles = [
        Patch(facecolor="#9CC3E0", label="5 % to 95 %"),
        Line2D([], [], color="#0B3C66", linewidth=2.0, label="posterior mean"),
        Line2D([], [], linestyle="none", marker="o", markersize=4.5, markerfacecolor="white",
               markeredgecolor="black", markeredgewidth=0.9, label="count of a bin"),
    ]  # fmt: skip
    top = max(float(upper.max()), float(y.max()))
    axes.set_ylim(-0.06 * top, 1.05 * top)
    if data["events"] is not None:
        at = axes.get_xaxis_transform()
        axes.vlines(data["events"][:, 0], 0.0, 0.045, transform=at, color="black", linewidth=0.7)
        handles.append(Line2D([], [], linestyle="none", marker="|", color="black", label="event"))
    axes.set(xlabel=label, ylabel="events in a bin", title=title)
    axes.margins(x=0.01)
    legend_below(figure, handles, columns=4)
    return figure


def _plane(data: dict, title: str) -> Figure:
    relative = (data["upper"] - data["lower"]) / data["mean"]
    figure = new_figure(4.2)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _map(figure, left, data["X"], data["mean"], "posterior mean, events in a bin")
    _map(figure, right, data["X"], relative, "5 % to 95 % over the mean")
    left.set_ylabel("$x_2$")
    if data["events"] is not None:
        points, sizes, label = data["events"], 7.0, "event"
    else:
        some = data["y"] > 0
        points, sizes = data["X"][some], 7.0 * data["y"][some]
        label = "count of a bin, by area"
    left.scatter(*points.T, s=sizes, facecolor="white", edgecolor="black", linewidth=0.7, zorder=3)
    mark = Line2D([], [], linestyle="none", marker="o", markersize=3.5, markerfacecolor="white",
                  markeredgecolor="black", markeredgewidth=0.7, label=label)  # fmt: skip
    legend_below(figure, [mark], columns=1)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _map(figure: Figure, axes: Axes, X: np.ndarray, values: np.ndarray, label: str) -> None:
    """Cells of a grid in grey, or dots where the cases are none."""
    xs, ys = np.unique(X[:, 0]), np.unique(X[:, 1])
    if len(xs) * len(ys) == len(X) and min(len(xs), len(ys)) > 1:
        cells = np.empty((len(ys), len(xs)))
        cells[np.searchsorted(ys, X[:, 1]), np.searchsorted(xs, X[:, 0])] = values
        drawn = axes.pcolormesh(xs, ys, cells, cmap="Greys", vmin=0.0, shading="nearest", zorder=1)
    else:
        drawn = axes.scatter(*X.T, c=values, cmap="Greys", vmin=0.0, s=16, zorder=1)
    axes.set(xlabel="$x_1$", aspect="equal")
    axes.grid(visible=False)
    figure.colorbar(drawn, ax=axes, label=label, location="top", shrink=0.85)
