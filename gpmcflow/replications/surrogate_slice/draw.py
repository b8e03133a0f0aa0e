"""Figures of study surrogate_slice from its results files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from gpmcflow.jobs.job import Job
from gpmcflow.replications.surrogate_slice.figures import figure_1, figure_2, figure_3, intensity
from gpmcflow.storage import load_results, open_results, read_csv


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
