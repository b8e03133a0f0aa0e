"""What happened along the ladder: effective sizes, acceptance rates and step sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.special import logsumexp

from gpmcflow.diagnostics.importance_weights import (
    MIN_EFFECTIVE_SIZE,
    effective_size,
    normalised_weights,
)
from gpmcflow.replications.figures.estimates import (
    annealing_groups,
    betas_reached,
    cumulated_weights,
    direction_sign,
    ladder_label,
    longest_ladders,
)
from gpmcflow.replications.figures.style import (
    Look,
    handle,
    legend_below,
    looks,
    new_figure,
    styled,
)

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
