"""Trajectories of HMC and RMHMC on a mixture of Gaussians."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gpmcflow.errors import InputError
from gpmcflow.figures.style import Look, legend_below, looks, new_figure, styled
from gpmcflow.studies.rmhmc_ais.gaussian_mixture import GaussianMixture

NAMES = {"hmc": "HMC, mass $I$", "rmhmc": "RMHMC"}
_NEEDED = (
    "trajectory", "acceptance_rate", "squared_jump", "step_size", "weight", "mean", "covariance",
)  # fmt: skip
_LEVELS = (1.0, 2.0, 4.0, 7.0)  # nats below the highest density
_MARGIN, _GRID = 0.6, 161


@styled
def trajectories(data: xr.Dataset) -> Figure:
    """One trajectory of each method from the same start, and how far trajectories get with each step.

    ``data`` is group ``mixture`` of the illustration: trajectory (method, step, coordinate),
    acceptance_rate and squared_jump (method, chain, step), step_size (method), and the mixture
    (weight, mean, covariance). Contours lie 1, 2, 4 and 7 nats below the highest density. Titles give
    means over the chains of whole trajectories, +- one standard error; the panel below the expected
    squared jump of trajectories that end after fewer steps. Raises `InputError` for a missing variable
    or values of a trajectory that are not finite.
    """
    where = "rmhmc illustration"
    for name in _NEEDED:
        if name not in data:
            raise InputError(f"{where}: the data have no variable {name!r}; found: {list(data)}")
    if not np.isfinite(data["trajectory"].values).all():
        raise InputError(f"{where}: a trajectory has values that are not finite")
    mixture = GaussianMixture(*(data[n].values for n in ("weight", "mean", "covariance")))
    methods = list(data["method"].values)
    figure = new_figure(7.3)
    rows = figure.add_gridspec(2, len(methods), height_ratios=(2.2, 1.0))
    below = figure.add_subplot(rows[1, :])
    x, y = _ranges(mixture, data["trajectory"].values)
    for column, (method, look) in enumerate(looks(methods).items()):
        one, axes = data.sel({"method": method}), figure.add_subplot(rows[0, column])
        _contours(axes, mixture, x, y)
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
        Line2D([], [], label=NAMES.get(method, method), **look.line(), **_small(look))
        for method, look in looks(methods).items()
    ]
    marks = [
        Line2D([], [], linestyle="none", label="start", **_START),
        Line2D([], [], linestyle="none", label="end", **_END),
        Line2D([], [], color="0.5", linewidth=1.0, label=f"{_text(_LEVELS)} nats below the top"),
    ]
    legend_below(figure, [*names, *marks], columns=3)
    return figure


_START = {
    "marker": "D", "markersize": 10, "markerfacecolor": "white", "markeredgecolor": "black",
    "markeredgewidth": 1.5,
}  # fmt: skip
_END = {
    "marker": "*", "markersize": 13, "markerfacecolor": "black", "markeredgecolor": "white",
    "markeredgewidth": 0.8,
}  # fmt: skip


def _text(levels: tuple[float, ...]) -> str:
    *first, last = (f"{level:g}" for level in levels)
    return f"{', '.join(first)} and {last}"


def _title(one: xr.Dataset, method: str) -> str:
    parts = [
        f"{NAMES.get(method, method)}: {one.sizes['step'] - 1} steps of {one['step_size']:.2g}"
    ]
    for name, label in (("acceptance_rate", "acceptance"), ("squared_jump", "squared jump")):
        values = one[name].values[:, -1]
        error = values.std(ddof=1) / np.sqrt(len(values))
        parts.append(f"{label} {values.mean():.2f} $\\pm$ {error:.2f}")
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


def _contours(
    axes: Axes, mixture: GaussianMixture, x: tuple[float, float], y: tuple[float, float]
) -> None:
    grid = np.meshgrid(np.linspace(*x, _GRID), np.linspace(*y, _GRID))
    points = np.column_stack([g.ravel() for g in grid])
    depth = mixture.log_density(points).reshape(_GRID, _GRID)
    depth = depth - depth.max()
    axes.contour(*grid, depth, levels=[-level for level in _LEVELS[::-1]], colors="0.5",
                 linewidths=(0.6, 0.8, 1.0, 1.3), linestyles="-", zorder=1)  # fmt: skip


def _path(axes: Axes, path: np.ndarray, look: Look) -> None:
    axes.plot(*path.T, color=look.color, linewidth=1.2, zorder=2, **_small(look))
    axes.plot(*path[0], zorder=4, **_START)
    axes.plot(*path[-1], zorder=5, **_END)


def _jumps(axes: Axes, one: xr.Dataset, look: Look) -> None:
    values = one["squared_jump"].values
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    axes.errorbar(
        one["step"].values, values.mean(0), error, linewidth=1.2, elinewidth=0.8, ecolor=look.color,
        color=look.color, linestyle=look.linestyle, **_small(look),
    )  # fmt: skip


def _small(look: Look) -> dict:
    return {**look.points(), "markersize": 4.0}
