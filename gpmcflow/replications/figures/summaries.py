"""Maps of hyperparameters and posterior summaries as figures."""

from __future__ import annotations

import json
import warnings

import arviz_stats
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gpmcflow.replications.figures.style import looks, mark, new_figure, styled, unused

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
MIN_EFFECTIVE_SIZE = 400.0
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
    edges = np.linspace(0.0, max(bulk.max(), tail.max(), 1.2 * MIN_EFFECTIVE_SIZE), 31)
    axes.hist(bulk, edges, color="#56B4E9", label="bulk")
    axes.hist(tail, edges, histtype="step", color="black", linewidth=1.3, label="tail")
    axes.axvline(MIN_EFFECTIVE_SIZE, color="black", linestyle=(0, (4, 2)), linewidth=1.2)
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
