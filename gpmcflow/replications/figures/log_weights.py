"""Final log weights of annealing runs: whether an estimate rests on few particles."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.special import logsumexp

from gpmcflow.diagnostics.importance_weights import effective_size, normalised_weights
from gpmcflow.replications.figures.estimates import (
    annealing_groups,
    cumulated_weights,
    direction_sign,
    ladder_label,
)
from gpmcflow.replications.figures.style import handle, legend_below, new_figure, styled

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
