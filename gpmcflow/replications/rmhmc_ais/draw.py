"""Figures of study rmhmc_ais from its results files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from gpmcflow.jobs.job import Job
from gpmcflow.replications.figures import (
    acceptance_and_step_size,
    effective_size_by_temperature,
    evidence_against_time,
    hyperparameter_map,
    log_weights,
    posterior_summary,
)
from gpmcflow.replications.rmhmc_ais.paper_figures import trajectories
from gpmcflow.storage import load_results, open_results, read_csv


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
