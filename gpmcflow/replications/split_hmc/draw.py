"""Figures of study split_hmc from its results files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from gpmcflow.jobs.job import Job
from gpmcflow.replications.split_hmc import figures as run_panels
from gpmcflow.replications.split_hmc import paper_figures as paper
from gpmcflow.replications.split_hmc.illustrations import COVARIANCE, MEAN
from gpmcflow.storage import load_results, open_results, read_csv

MAX_LAG = 60


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names below its folder."""
    yield "cost", run_panels.cost_comparison(read_csv(job.input.runs))
    chains: dict[str, dict[str, str]] = {}
    for path in map(Path, job.input.chains):
        chains.setdefault(path.parent.name, {})[path.stem] = str(path)
    for problem, paths in chains.items():
        for name, figure in run_figures(paths).items():
            yield f"{problem}/{name}", figure
    for path in job.input.illustrations:
        yield from illustrations(load_results(path)).items()


def illustrations(tree: xr.DataTree) -> dict[str, Figure]:
    """Figures 1-4 from `illustrate`'s data."""
    states = tree["bivariate"].to_dataset()["state"]
    shown = [states.sel({"method": name}).values for name in ("hmc", "rwm_small")]
    curve_of = {k: v.values for k, v in tree["regression"].to_dataset().variables.items()}
    grid, mode, y01 = curve_of["grid"], curve_of["mode"], (curve_of["y"] > 0).astype(int)
    fast = curve_of["fast"].astype(bool)
    curves = [curve_of[k] for k in ("energy", "gaussian_energy", "slope", "gaussian_slope")]
    return {
        "figure_1": paper.trajectories(*shown, MEAN, COVARIANCE),
        "figure_2": paper.data_and_line(curve_of["x"], y01, mode),
        "figure_3": paper.normal_split(grid, *curves, mode[1]),
        "figure_4": paper.data_split(
            curve_of["x"], y01, mode, fast, grid, curve_of["slope"], curve_of["fast_slope"], mode[1]
        ),
    }


def run_figures(paths: Mapping[str, str | Path]) -> dict[str, Figure]:
    """Traces of the first chain and mean autocorrelations of one problem's runs, by method."""
    series = {
        method: open_results(path)["trace/sum_log_likelihood"].values
        for method, path in paths.items()
    }
    label = "log likelihood (nats)"
    max_lag = min(MAX_LAG, min(values.shape[1] for values in series.values()) - 1)
    first = {method: values[0] for method, values in series.items()}
    return {
        "traces": run_panels.traces(first, label),
        "autocorrelation": run_panels.autocorrelations(series, "log likelihood", max_lag),
    }
