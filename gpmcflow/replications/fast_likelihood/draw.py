"""Figures of study fast_likelihood from its results files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gpmcflow.jobs.job import Job
from gpmcflow.replications.fast_likelihood.figures import autocorrelation_panels, cost_against_time
from gpmcflow.replications.fast_likelihood.types import METHODS
from gpmcflow.storage import open_results, read_csv

PAPERS_METHODS = ("sod", "tempered")  # of its figure 2


def draw(job: Job) -> Iterator[tuple[str, Figure]]:
    """All figures of a run, by their names."""
    series = shown_series(job.input.series)
    yield "figure_2", autocorrelation_panels(series, job.settings["title"])
    runs = read_csv(job.input.runs, dtype={"problem": str})
    yield "cost", cost_against_time(runs[runs["method"].isin(METHODS)], METHODS)


def shown_series(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Log likelihood of the paper's methods on each data set, (data set, draw), but for the first third.

    Methods that were not run are left out; if none was, the baseline is shown.
    """
    series: dict[str, list[np.ndarray]] = {}
    for path in paths:
        with open_results(path) as tree:
            stats = tree["sample_stats/sum_log_likelihood"]
            present = [m for m in PAPERS_METHODS if m in stats["method"].values] or ["standard"]
            for method in present:
                values = stats.sel({"method": method, "chain": 0}).values
                series.setdefault(method, []).append(values[len(values) // 3 :])
    return {method: np.stack(rows) for method, rows in series.items()}
