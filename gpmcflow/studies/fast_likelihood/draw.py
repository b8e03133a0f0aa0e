"""Figures of study fast_likelihood from its results files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gpmcflow.storage import open_results, read_csv
from gpmcflow.studies.fast_likelihood.figures import autocorrelation_panels, cost_against_time
from gpmcflow.studies.fast_likelihood.types import METHODS
from gpmcflow.studies.frame.job import Job


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names."""
    series = shown_series(job.input.series)
    yield "figure_2", autocorrelation_panels(series, title=job.settings["title"])
    runs = read_csv(job.input.runs, dtype={"problem": str})
    yield "cost", cost_against_time(runs[runs["method"].isin(METHODS)], methods=METHODS)


def shown_series(
    paths: Sequence[str | Path], methods: Sequence[str] = ("sod", "tempered")
) -> dict[str, np.ndarray]:
    """Log likelihood of each method on each data set, (data set, draw), the first third left out.

    Methods that were not run are left out; if none was, the baseline is shown.
    """
    series_of: dict[str, list[np.ndarray]] = {}
    for path in paths:
        tree = open_results(path)
        stats = tree["sample_stats/log_likelihood"]
        present = [m for m in methods if m in stats["method"].values] or ["standard"]
        for method in present:
            series = stats.sel({"method": method, "chain": 0}).values
            series_of.setdefault(method, []).append(series[len(series) // 3 :])
        tree.close()
    return {method: np.stack(rows) for method, rows in series_of.items()}
