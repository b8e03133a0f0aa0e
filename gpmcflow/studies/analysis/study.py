"""The analysis of own data as a study of the workflow: its config, its jobs, its files.

Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.storage.input_files import is_file, user_path
from gpmcflow.studies.frame.study import PlannedJob, Study

KEYS = (  # of an analysis, which stand at the top of the config of one
    "title", "data", "units", "likelihood", "models", "priors", "quick", "share", "sampling", "evidence",
)  # fmt: skip
RESERVED = (
    "data", "logs", "benchmarks", "rmhmc_ais", "split_hmc", "fast_likelihood", "surrogate_slice",
)  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
AT_MAXIMUM = ("temperatures", "particles")  # settings of the evidence at the best hyperparameters
AVERAGED = ("route", "draws", "target_error")  # and of that averaged over them
FEWEST_DRAWS = 100  # of a chain, for an evidence averaged over the hyperparameters


def is_single(config: Mapping[str, Any]) -> bool:
    """Whether a config is that of one analysis, with its keys at the top."""
    return "data" in config or "models" in config


def expanded(config: Mapping[str, Any], path: str | Path | None, where: str) -> dict[str, Any]:
    """The config with an analysis at its top under ``analyses``, by the name of the file it is in.

    Raises `InputError` for a file name that cannot be one of a folder of results.
    """
    if not is_single(config):
        return dict(config)
    name = Path(path).stem if path is not None else "analysis"
    if not NAME.fullmatch(name) or name in RESERVED:
        raise InputError(
            f"{where}: the file is named {name!r}, and so would the results be; allowed: letters, digits, - "
            f"and _, and none of {', '.join(RESERVED)}; rename it"
        )
    if "analyses" in config:
        raise InputError(
            f"{where}: analyses beside data and models; allowed: one analysis at the top, or several under "
            "analyses"
        )
    rest = {key: value for key, value in config.items() if key not in KEYS}
    return {**rest, "analyses": {name: {key: config[key] for key in KEYS if key in config}}}


def files_of(settings: Mapping[str, Any]) -> list[str]:
    """The CSV files an analysis reads."""
    return [settings["data"][key] for key in ("csv", "new") if settings["data"].get(key)]


def check(config: Mapping[str, Any], where: str, folder: Path) -> None:
    """Refuse names that other results have, and files that are not there."""
    for name, settings in config["analyses"].items():
        path = f"{where}: analyses.{name}"
        if name in RESERVED:
            raise InputError(f"{path}: the name of other results; rename it")
        data = settings["data"]
        if ("csv" in data) == ("table" in data):
            raise InputError(
                f"{path}.data: allowed: csv or table, one of them; give the path as csv"
            )
        if "use" in data and "drop" in data:
            raise InputError(f"{path}.data: found use and drop; give one of them")
        for key in ("csv", "new"):
            given = data.get(key)
            if given is not None and not is_file(user_path(given, folder)):
                raise InputError(
                    f"{path}.data.{key}: no file {given!r}; a relative path starts at {folder.resolve()}"
                )


def averages(settings: Mapping[str, Any]) -> bool:
    """Whether evidences are averaged over the hyperparameters: from draws, where there are enough."""
    enough = settings["sampling"]["draws"] >= FEWEST_DRAWS
    return enough and not settings["quick"] and settings["evidence"]["route"] != "maximum"


def result_files(name: str, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files of each model of an analysis by kind; of a quick one only fit."""
    kinds = ["fit"] if settings["quick"] else ["fit", "posterior", "summary"]
    kinds += ["evidence"] * averages(settings)
    return {
        kind: [f"results/{name}/{model}/{kind}.nc" for model in settings["models"]]
        for kind in kinds
    }


def settings_of(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """What a step of a model has to know of the settings of an analysis."""
    return {key: settings[key] for key in ("models", "likelihood", "priors", *keys)}


def evidence_settings(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The same for a step that makes an evidence, which has these settings."""
    own = {key: settings["evidence"][key] for key in keys}
    return {**settings_of(settings), "evidence": own}


def ladder_threads(config: Mapping[str, Any], name: str) -> int:
    """As many as chains where a ladder may be run; the values of a bridge are few."""
    route = config["analyses"][name]["evidence"]["route"]
    return 1 if route == "two_ended" else draw_threads(config, name)


def draw_threads(config: Mapping[str, Any], name: str) -> int:
    """As many as chains, each of which is a block of its own; a cluster's workers are elsewhere."""
    chains = config["analyses"][name]["sampling"]["chains"]
    return 1 if config["execution"]["scheduler"] else int(chains)


def jobs(config: Mapping[str, Any]) -> Iterator[PlannedJob]:
    """Read the file, then fit, draw and summarise each model, and weigh its evidence, then report."""
    for name, settings in config["analyses"].items():
        folder, files = f"results/{name}", result_files(name, settings)
        data = f"{folder}/data.nc"
        yield PlannedJob("analysis_read", data, name)
        for k, model in enumerate(settings["models"]):
            yield PlannedJob("analysis_fit", files["fit"][k], name, model, (data,))
            if not settings["quick"]:
                draws, summary = files["posterior"][k], files["summary"][k]
                yield PlannedJob("analysis_draw", draws, name, model, (data,))
                yield PlannedJob("analysis_summarise", summary, name, model, (data, draws))
            if averages(settings):
                output = files["evidence"][k]
                yield PlannedJob("analysis_evidence", output, name, model, (data, draws))
        needs = (data, *(path for paths in files.values() for path in paths))
        yield PlannedJob("analysis_report", f"{folder}/report.html", name, needs=needs)


ANALYSIS = Study(
    key="analyses",
    check=check,
    jobs=jobs,
    costs="gpmcflow.studies.analysis.costs:COSTS",
    answers="gpmcflow.studies.analysis.answers:answers",
)
