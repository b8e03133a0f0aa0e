"""Figures of the surrogate-slice paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from gpmcflow.jobs.job import Job
from gpmcflow.replications.figures.style import (
    handle,
    legend_below,
    log_axis,
    looks,
    mark,
    new_figure,
    styled,
    unused,
)
from gpmcflow.replications.surrogate_slice.settings import BASELINE
from gpmcflow.storage import load_results, open_results, read_csv

# Figures of the surrogate-slice study: cost, intensities of Cox processes, the paper's illustrations.

TOP = 4.0  # of the vertical axes in the paper
LARGEST = 8.0  # bars that are higher are cut, their height written on them
PROPOSALS = {"prior-white": "prior-white", "surr-site": "surrogate data"}
PANELS = {
    "per_n_lik": "likelihood evaluation",
    "per_n_cov": "covariance construction",
    "per_second": "second",
}
GROUP = 0.84  # width of a group of bars; groups are 1 apart


# Face and hatch: lightness and hatch tell any two apart without colour; a site method is darker than its
# taylor kin.
FILLS = {
    "fixed": ("#FFFFFF", ""),
    "prior-white": ("#E3E3E3", "...."),
    "surr-site": ("#0B3C66", ""),
    "post-site": ("#D98C3A", ""),
    "surr-taylor": ("#9CC3E0", "////"),
    "post-taylor": ("#F6DDBB", "\\\\\\\\"),
    "joint-split": ("#4F8F5B", "xx"),
}
DARK, PALE = FILLS["surr-site"][0], FILLS["surr-taylor"][0]
COUNT = mark("o", 4.5, 0.9)


@styled
def figure_3(efficiency: pd.DataFrame) -> Figure:
    """Effective samples per unit of cost, relative to surr-site: a panel a cost, a bar a plain method.

    ``efficiency`` has one row per problem and method, with columns problem, method, representation, plain
    (whether it is one of the six as in the paper, or joint split HMC as it sets itself up), and per_n_lik,
    per_n_cov, per_second with their standard errors (..._mcse) over the chains. Bars are means, error bars
    one standard error, both over the mean of surr-site; the number below a group is that mean. The axis
    ends at 4, or above the highest bar, but at 8 at most: bars that reach higher with their error are cut,
    and their height is written on them. Problems without surr-site are left out.

    Source: Murray & Adams (2010), figure 3.
    """
    plain = efficiency[efficiency["plain"].astype(bool)]
    table = plain.assign(method=plain["representation"]).drop_duplicates(["problem", "method"])
    problems = list(table.loc[table["method"] == BASELINE, "problem"].unique())
    table = table[table["problem"].isin(problems)]
    if not problems:
        figure = new_figure(2.0)
        unused(figure.subplots(), f"no problem was run with {BASELINE}, which bars are relative to")
        return figure
    names = [name for name in FILLS if name in set(table["method"])]
    figure = new_figure(6.8)
    panels = figure.subplots(len(PANELS), 1)
    for axes, (column, what) in zip(panels, PANELS.items(), strict=True):
        _bars(axes, table, column, problems, names)
        axes.set_title(f"per {what}", loc="left")
        axes.set_ylabel("relative")
    figure.suptitle(
        f"Effective samples of the complete log likelihood per unit of cost, over those of {BASELINE};\n"
        f"below each group: those of {BASELINE} itself",
        fontsize=10,
    )
    legend_below(figure, [Patch(label=name, **_patch(name)) for name in names], columns=3)
    return figure


def _patch(name: str) -> dict:
    face, hatch = FILLS[name]
    return {"facecolor": face, "hatch": hatch, "edgecolor": "black", "linewidth": 0.8}


def _bars(axes: Axes, table: pd.DataFrame, column: str, problems: list, names: list) -> None:
    """One panel: a group of bars a problem."""
    rows = {(row["problem"], row["method"]): row for row in table.to_dict("records")}
    width, top, ticks = GROUP / len(names), TOP, []
    for k, problem in enumerate(problems):
        base = rows[problem, BASELINE][column]
        ticks.append(f"{problem}\n{float(f'{base:.2g}'):g}")
        for j, name in enumerate(names):
            row = rows.get((problem, name))
            if row is None or not (np.isfinite(row[column]) and base > 0.0):
                continue  # the method does not apply
            height, error = row[column] / base, row[f"{column}_mcse"] / base
            at = k + (j + 0.5) * width - 0.5 * GROUP
            cut = height + (error if np.isfinite(error) else 0.0) > LARGEST
            axes.bar(at, min(height, LARGEST), width, zorder=2, **_patch(name))
            if cut:
                _written(axes, at, height, error)
                height = LARGEST
            elif np.isfinite(error):
                bar = {"color": "black", "capsize": 2.0, "linewidth": 1.1}
                axes.errorbar(at, height, error, zorder=3, **bar)
                if name == BASELINE:  # the part of an error bar that is inside a dark bar, in white
                    low = max(height - error, 0.0)
                    axes.plot([at, at], [low, height], color="white", linewidth=1.1, zorder=4)
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
    style = {"rotation": 90, "ha": "center", "va": "top", "fontsize": 7.5, "zorder": 5}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(at, 0.97 * LARGEST, text, bbox=box, **style)


@styled
def intensity(tree: xr.DataTree) -> Figure:
    """Posterior intensity of a Cox process over its events: a band along a line, or a map of a plane.

    ``tree`` has groups ``intensity`` (case: mean, lower, upper of the expected counts exp(f + c), with
    5 % and 95 % limits), ``constant_data`` (X: case, feature), and ``observed_data`` (y: case, counts;
    events: event, feature, where they are known). Along a line: band and mean over counts, events as a
    rug. In a plane: mean, and the width of the interval over the mean, with the events, or with dots
    whose area is the count. Darker is more. With more features: as along a line, cases by their mean.
    """
    X, observed = tree["constant_data/X"].values, tree["observed_data"].to_dataset()
    rates = tree["intensity"].to_dataset().assign(y=observed["y"])
    events = observed["events"].values if "events" in observed else None
    if X.shape[1] == 2:
        return _plane(X, rates, events)
    if X.shape[1] == 1:
        return _line(X[:, 0], rates, events, "x")
    places = np.argsort(np.argsort(rates["mean"].values, kind="stable"))
    return _line(places, rates, None, "case, by posterior mean")


def _line(x: np.ndarray, rates: xr.Dataset, events: np.ndarray | None, label: str) -> Figure:
    order = np.argsort(x)
    x, sorted_rates = x[order], rates.isel(case=order)
    mean, lower, upper, y = (sorted_rates[name].values for name in ("mean", "lower", "upper", "y"))
    figure = new_figure(3.4)
    axes = figure.subplots()
    axes.fill_between(x, lower, upper, color=PALE, linewidth=0.0, zorder=1)
    axes.plot(x, mean, color=DARK, linewidth=2.0, zorder=3)
    axes.plot(x, y, **COUNT, zorder=4)
    handles = [
        Patch(facecolor=PALE, label="5 % to 95 %"),
        handle("posterior mean", color=DARK, linewidth=2.0),
        handle("count of a bin", **COUNT),
    ]
    top = max(float(upper.max()), float(y.max()))
    axes.set_ylim(-0.06 * top, 1.05 * top)
    if events is not None:
        at = axes.get_xaxis_transform()
        axes.vlines(events[:, 0], 0.0, 0.045, transform=at, color="black", linewidth=0.7)
        handles.append(handle("event", linestyle="none", marker="|", color="black"))
    axes.set(xlabel=label, ylabel="events in a bin")
    axes.margins(x=0.01)
    legend_below(figure, handles, columns=4)
    return figure


def _plane(X: np.ndarray, rates: xr.Dataset, events: np.ndarray | None) -> Figure:
    mean, y = rates["mean"].values, rates["y"].values
    relative = (rates["upper"] - rates["lower"]).values / mean
    figure = new_figure(4.2)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _map(figure, left, X, mean, "posterior mean, events in a bin")
    _map(figure, right, X, relative, "5 % to 95 % over the mean")
    left.set_ylabel("$x_2$")
    if events is not None:
        points, sizes, label = events, 7.0, "event"
    else:
        points, sizes, label = X[y > 0], 7.0 * y[y > 0], "count of a bin, by area"
    left.scatter(*points.T, s=sizes, facecolor="white", edgecolor="black", linewidth=0.7, zorder=3)
    legend_below(figure, [handle(label, **mark("o", 3.5, 0.7))], columns=1)
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


@styled
def figure_1(tree: xr.DataTree) -> Figure:
    """Functions of one whitened draw at three length scales, and what each says of the length scale.

    ``tree`` has group ``whitened``: latent (length, x), density (length, other_length), the latter summing
    to 1 for each length. Source: Murray & Adams (2010), figure 1.
    """
    data = tree["whitened"].to_dataset()
    lengths, others = data["length"].values, data["other_length"].values
    figure = new_figure(3.3)
    left, right = figure.subplots(1, 2)
    handles = []
    for length, look in looks([f"{v:g}" for v in lengths]).items():
        one = data.sel({"length": float(length)})
        left.plot(data["x"].values, one["latent"].values, linewidth=1.8, **look.line())
        right.plot(others, one["density"].values, linewidth=1.8, **look.line())
        right.axvline(float(length), color="0.6", linewidth=0.8, zorder=1)
        handles.append(handle(rf"$\ell = {length}$", linewidth=1.8, **look.line()))
    left.set(xlabel="$x$", ylabel=r"$f = L_\ell\,\nu$", xlim=(0, 1))
    left.set_title(r"one draw of $\nu$", loc="left")
    log_axis(right, others.min(), others.max())
    right.set_xlim(others.min(), others.max())
    right.set(xlabel=r"length scale $\ell'$", ylabel=r"$p(\log \ell' \mid f)$")
    right.set_ylim(bottom=0.0)
    right.set_title(r"given each $f$", loc="left")
    legend_below(figure, handles, columns=3)
    return figure


@styled
def figure_2(tree: xr.DataTree) -> Figure:
    """Latents at the current length scale, and what two representations propose at a longer one.

    ``tree`` has group ``proposals``: y, current (x), proposed (method, x), noise_sd, lengths (state). Grey
    bars are two standard deviations of the noise about the observations.
    Source: Murray & Adams (2010), figure 2.
    """
    data = tree["proposals"].to_dataset()
    x, y = data["x"].values, data["y"].values
    before, after = (f"{v:g}" for v in data["lengths"].values)
    figure = new_figure(3.8)
    axes = figure.subplots()
    style = mark(".", 4.0, 1.0, "0.35", "0.35") | {"color": "0.72", "elinewidth": 3.0, "zorder": 1}
    noise, text = 2.0 * float(data["noise_sd"]), r"observations $\pm\,2\sigma$"
    bars = axes.errorbar(x, y, noise, label=text, **style)
    methods = [str(name) for name in data["method"].values]
    names = [rf"current $f$, $\ell = {before}$"]
    names += [rf"{PROPOSALS.get(m, m)} proposal, $\ell' = {after}$" for m in methods]
    curves = [data["current"].values, *data["proposed"].values]
    for (name, look), curve in zip(looks(names).items(), curves, strict=True):
        axes.plot(x, curve, linewidth=2.0, label=name, zorder=3, **look.line())
    axes.set(xlabel="$x$", ylabel="observations, latents")
    axes.margins(x=0.01)
    legend_below(figure, [*axes.lines[1:], bars], columns=2)
    return figure


# Figures of study surrogate_slice from its results files.


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names below its folder."""
    yield "figure_3", figure_3(read_csv(job.input.efficiency, dtype={"problem": str}))
    for path in map(Path, job.input.intensities):
        with open_results(path) as tree:
            yield f"{path.parents[1].name}/intensity", intensity(tree)
    if "illustrations" in job.input.keys():  # noqa: SIM118 (a named list, no mapping)
        tree = load_results(job.input.illustrations)
        yield "figure_1", figure_1(tree)
        yield "figure_2", figure_2(tree)
