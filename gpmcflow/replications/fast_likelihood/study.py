"""Study fast_likelihood as the workflow sees it: exact samplers of GP regression through fast stand-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.jobs import study as frame
from gpmcflow.jobs.resources import small
from gpmcflow.replications.fast_likelihood.types import (
    REAL_CASES,
    data_sets,
    fast_likelihood_types,
)

NAME = "fast_likelihood"
# One job has one chain of every method on one data set, which they share, and the pilot of them all.
# Data sets can be added later: their number is in no job's settings.
TUNE = frame.results_stage(
    NAME, "fast_likelihood.runs:tune_job", "{type}/tuning.nc", ask=small(1500, 30)
)
REPLICATE = frame.results_stage(
    NAME,
    "fast_likelihood.runs:replicate_job",
    "{type}/replicate_{replicate}.nc",
    ask=small(1500, 30),
)
TABLES = frame.tables_stage(
    NAME,
    {
        "verdict": "Printed numbers and claims beside those of this run.",
        "runs": "One row for each type and method: autocorrelation time with its standard error, "
        "acceptance, calls of each density, and costs with the pilot, also relative to standard slice "
        "sampling.",
    },
)
PAPERS_FIGURE = 2  # whose type is that of the paper's figure 2


def check(config: Mapping[str, Any], where: str, folder: Path) -> None:
    """Refuse what does not go together."""
    path = f"{where}: studies.{NAME}"
    for name, settings in fast_likelihood_types(config["studies"][NAME]).items():
        place = f"{path}.types.{name}"
        if settings["data"] == "diabetes" and settings["n"] > REAL_CASES:
            raise InputError(f"{place}.n: found {settings['n']}; allowed: at most {REAL_CASES}")
        if not settings["methods"]:
            raise InputError(
                f"{place}.methods: none of them has a size in the paper for this type; give sizes, or "
                "other methods"
            )
        if "standard" not in settings["methods"]:
            raise InputError(
                f"{place}.methods: found without standard, to which all others are compared; add it"
            )
        for key, size in settings["sizes"].items():
            sizes = size if isinstance(size, list) else [] if size is None else [size]
            if len(sizes) > 2:
                raise InputError(f"{place}.sizes.{key}: found {len(sizes)}; allowed: one or two")
            if max(sizes, default=0) > settings["n"]:
                raise InputError(
                    f"{place}.sizes.{key}: found {size}; allowed: at most n = {settings['n']}"
                )


def jobs(config: Mapping[str, Any]) -> Iterator[frame.PlannedJob]:
    """The tuning and the data sets of each type, then tables and figures."""
    study = config["studies"][NAME]
    types, runs, tunings = fast_likelihood_types(study), {}, []
    for name, settings in types.items():
        own = {key: value for key, value in settings.items() if key not in ("replicates", "more")}
        shared = {key: value for key, value in own.items() if key != "iterations"}
        tune = TUNE.job({}, {"settings": shared, "tuning": study["tuning"]}, type=name)
        yield tune
        tunings.append(tune.output)
        runs[name] = []
        for k, data_set in enumerate(data_sets(settings)):
            inputs, stated = {"tuning": tune.output}, {"settings": own | data_set}
            run = REPLICATE.job(inputs, stated, type=name, replicate=str(k))
            yield run
            runs[name].append(run.output)
    every = [path for paths in runs.values() for path in paths]
    inputs = {"tunings": tunings, "runs": every, frame.PUBLISHED: frame.published_file(NAME)}
    yield TABLES.job(inputs, {"study": NAME})
    shown = next((n for n in types if types[n]["data"] == PAPERS_FIGURE), next(iter(types)))
    captions = {
        "figure_2": f"{shown}: autocorrelation of the log likelihood for the discretizing chain, and for "
        "tempered transitions where they were run; a thin line a data set.",
        "cost": "What an iteration costs against the autocorrelation time, a panel a type; on a dashed "
        "line an effective draw costs the same, on the solid one as much as by standard slice sampling.",
    }
    inputs = {"runs": TABLES.outputs["runs"], "series": runs[shown]}
    yield frame.figures_stage(NAME, captions).job(inputs, {"title": shown})


STUDY = frame.paper_study(
    NAME,
    check,
    jobs,
    "Fast likelihood approximations (Wang & Neal 2013)",
    runs=lambda settings: sum(
        sum(len(data_set["methods"]) for data_set in data_sets(kind))
        for kind in fast_likelihood_types(settings).values()
    ),
)
