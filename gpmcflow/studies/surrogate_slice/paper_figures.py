"""Figures 1 and 2 of the surrogate-slice paper: what is coupled when latents, or what whitens them, stay."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpmcflow.errors import InputError
from gpmcflow.figures.style import legend_below, log_axis, looks, new_figure, styled

PROPOSALS = {"prior-white": "prior-white", "surr-site": "surrogate data"}


@styled
def figure_1(tree: xr.DataTree) -> Figure:
    """Functions of one whitened draw at three length scales, and what each says of the length scale.

    ``tree`` has group ``whitened``: latent (length, x), density (length, other_length), the latter summing
    to 1 for each length. Raises `InputError` for a missing group or variable.
    Source: Murray & Adams (2010), figure 1.
    """
    data = _group(tree, "whitened", ("latent", "density"))
    lengths, others = data["length"].values, data["other_length"].values
    figure = new_figure(3.3)
    left, right = figure.subplots(1, 2)
    handles = []
    for length, look in looks([f"{v:g}" for v in lengths]).items():
        one = data.sel({"length": float(length)})
        left.plot(data["x"].values, one["latent"].values, linewidth=1.8, **look.line())
        right.plot(others, one["density"].values, linewidth=1.8, **look.line())
        right.axvline(float(length), color="0.6", linewidth=0.8, zorder=1)
        handles.append(Line2D([], [], linewidth=1.8, label=rf"$\ell = {length}$", **look.line()))
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
    bars are two standard deviations of the noise about the observations. Raises `InputError` for a missing
    group or variable. Source: Murray & Adams (2010), figure 2.
    """
    needed = ("y", "current", "proposed", "noise_sd", "lengths")
    data = _group(tree, "proposals", needed)
    x, y = data["x"].values, data["y"].values
    before, after = (f"{v:g}" for v in data["lengths"].values)
    figure = new_figure(3.8)
    axes = figure.subplots()
    bars = axes.errorbar(
        x, y, 2.0 * float(data["noise_sd"]), linestyle="none", color="0.72", elinewidth=3.0,
        marker=".", markersize=4.0, markeredgecolor="0.35", markerfacecolor="0.35", zorder=1,
        label=r"observations $\pm\,2\sigma$",
    )  # fmt: skip
    methods = [str(name) for name in data["method"].values]
    names = [rf"current $f$, $\ell = {before}$"]
    names += [rf"{PROPOSALS.get(m, m)} proposal, $\ell' = {after}$" for m in methods]
    curves = [data["current"].values, *data["proposed"].values]
    handles = []
    for (name, look), curve in zip(looks(names).items(), curves, strict=True):
        (line,) = axes.plot(x, curve, linewidth=2.0, label=name, zorder=3, **look.line())
        handles.append(line)
    axes.set(xlabel="$x$", ylabel="observations, latents")
    axes.margins(x=0.01)
    legend_below(figure, [*handles, bars], columns=2)
    return figure


def _group(tree: xr.DataTree, name: str, needed: Iterable[str]) -> xr.Dataset:
    if name not in tree.children:
        raise InputError(
            f"surrogate illustration: the data have no group {name!r}; found: {list(tree.children)}"
        )
    data = tree[name].to_dataset()
    missing = [variable for variable in needed if variable not in data]
    if missing:
        raise InputError(
            f"surrogate illustration: group {name!r} has no variable {missing[0]!r}; found: {list(data)}"
        )
    return data
