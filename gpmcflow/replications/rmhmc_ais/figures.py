"""Figures of the RMHMC-AIS paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.jobs.job import Job
from gpmcflow.replications.figures.evidence import evidence_against_time
from gpmcflow.replications.figures.style import (
    Look,
    handle,
    legend_below,
    looks,
    mark,
    new_figure,
    styled,
)
from gpmcflow.replications.figures.summaries import hyperparameter_map, posterior_summary
from gpmcflow.replications.figures.temperatures import (
    acceptance_and_step_size,
    effective_size_by_temperature,
    log_weights,
)
from gpmcflow.replications.rmhmc_ais.illustration import GaussianMixture
from gpmcflow.storage import load_results, open_results, read_csv

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


def _contours(
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
