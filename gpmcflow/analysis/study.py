"""The analysis of own data as a study of the workflow: its config, its jobs, its files.

Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.jobs.resources import Ask, analysis_memory_mb, one_thread
from gpmcflow.jobs.study import PlannedJob, Stage, Study
from gpmcflow.storage.checksums import read_sha256, recorded_checksum
from gpmcflow.storage.input_files import is_file, user_path

KEYS = (  # of an analysis, which stand at the top of the config of one
    "title", "data", "units", "likelihood", "models", "priors", "quick", "share", "sampling", "evidence",
)  # fmt: skip
_OTHERS = (path.parent.name for path in Path(__file__).parents[1].glob("replications/*/study.py"))
RESERVED = ("data", "logs", "benchmarks", *sorted(_OTHERS))
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
AT_MAXIMUM = ("temperatures", "particles")  # settings of the evidence at the best hyperparameters
AVERAGED = ("route", "draws", "target_error")  # and of that averaged over them
TEST_FRACTION = 0.2  # where none is stated, as `TableSettings` has it
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
    """The files an analysis reads."""
    return [str(user_path(path)) for _, path in _stated(settings["data"])]


def _stated(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys and paths of the files that are stated."""
    yield from ((key, data[key]) for key in ("csv", "new", "map") if data.get(key))
    for key in ("graphs", "correlations"):
        yield from ((f"{key}.{name}", path) for name, path in (data.get(key) or {}).items())


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
        for key, given in _stated(data):
            if not is_file(user_path(given, folder)):
                raise InputError(
                    f"{path}.data.{key}: no file {given!r}; a relative path starts at {folder.resolve()}"
                )


def averages(settings: Mapping[str, Any]) -> bool:
    """Whether evidences are averaged over the hyperparameters: from draws, where there are enough."""
    enough = settings["sampling"]["draws"] >= FEWEST_DRAWS
    return enough and not settings["quick"] and settings["evidence"]["route"] != "maximum"


def kinds_of(settings: Mapping[str, Any]) -> list[str]:
    """The results files of each model of an analysis; of a quick one only fit."""
    kinds = ["fit"] if settings["quick"] else ["fit", "posterior", "summary"]
    return kinds + ["evidence"] * averages(settings)


def holds_out(settings: Mapping[str, Any]) -> bool:
    """Whether rows are held out: then the shown model is fitted again, to all rows, for the answer."""
    return held_out_share(settings) > 0.0


def held_out_share(settings: Mapping[str, Any]) -> float:
    """Share of the rows that scores are kept from learning."""
    return float(settings["data"].get("test_fraction", TEST_FRACTION))


def final_kinds(settings: Mapping[str, Any]) -> list[str]:
    """The results files of the fit to all rows, if there is one."""
    if not holds_out(settings):
        return []
    return ["final"] if settings["quick"] else ["final_posterior", "final"]


def made_of(folder: Path, results: Sequence[str]) -> dict[str, str | None]:
    """SHA-256 of the settings, the data and results files of an analysis, by their paths in its folder."""
    recorded = {path: recorded_checksum(folder / path) for path in ("data.nc", *results)}
    return recorded | {"config.yaml": read_sha256(folder / "config.yaml")}


def settings_of(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """What a step of a model has to know of the settings of an analysis."""
    own = {key: settings[key] for key in ("models", "likelihood", "priors", *keys)}
    return own | {"scores_alone": holds_out(settings)}


def evidence_settings(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The same for a step that makes an evidence, which has these settings."""
    own = {key: settings["evidence"][key] for key in keys}
    return {**settings_of(settings), "evidence": own}


def ladder_threads(config: Mapping[str, Any], job: PlannedJob) -> int:
    """As many as chains where a ladder may be run; the values of a bridge are few."""
    return 1 if job.settings["evidence"]["route"] == "two_ended" else draw_threads(config, job)


def draw_threads(config: Mapping[str, Any], job: PlannedJob) -> int:
    """As many as chains, each of which is a block of its own; a cluster's workers are elsewhere."""
    chains = config["analyses"][job.problem]["sampling"]["chains"]
    return 1 if config["execution"]["scheduler"] else int(chains)


def _megabytes(config: Mapping[str, Any], job: PlannedJob, threads: int) -> int:
    structure = job.settings["models"][job.method]["structure"]
    return analysis_memory_mb(config, job.inputs["data"], threads, structure)


def _final_megabytes(config: Mapping[str, Any], job: PlannedJob, threads: int) -> int:
    """Of the largest model, with the held-out rows."""
    learning = 1.0 - held_out_share(config["analyses"][job.problem])
    structures = {model["structure"] for model in job.settings["models"].values()}
    data = job.inputs["data"]
    return max(analysis_memory_mb(config, data, threads, own, learning) for own in structures)


def _stage(kind: str, file: str, threads: Callable[..., int] = one_thread) -> Stage:
    """A stage of each model, or of the shown one fitted to all rows: `steps.<kind>`."""
    megabytes = _megabytes if file.startswith("{model}") else _final_megabytes
    return Stage(
        f"analysis_{kind}",
        f"gpmcflow.analysis.steps:{kind}",
        {"results": f"results/{{analysis}}/{file}.nc"},
        ask=Ask(threads, megabytes, 30),
    )


READ = Stage(
    "analysis_read",
    "gpmcflow.analysis.reading:read",
    {
        "results": "results/{analysis}/data.nc",
        "rows": "results/{analysis}/rows.csv",
        "columns": "results/{analysis}/columns.csv",
        "new": "results/{analysis}/new_rows.csv",
    },
    local=True,
)
FIT = _stage("fit", "{model}/fit")
DRAW = _stage("draw", "{model}/posterior", draw_threads)
SUMMARISE = _stage("summarise", "{model}/summary")
EVIDENCE = _stage("evidence", "{model}/evidence", ladder_threads)
FINAL_DRAW = _stage("final_draw", "final_posterior", draw_threads)
FINAL = _stage("final", "final")
TABLES = ("effects", "rug", "hyperparameters", "checks")
OPTIONAL_TABLES = (
    *("evidence", "ladder", "predictions_test", "predictions_loo", "predictions_new"),
    *("map", "curve", "points", "reach", "survival", "grades", "explanations"),
    *("areas", "outlines", "coefficients", "interactions", "pairs", "together"),
)
REPORT = Stage(
    "analysis_report",
    "gpmcflow.analysis.report:report",
    {
        "report": "results/{analysis}/report.html",
        "info": "results/{analysis}/info.json",
        "models": "results/{analysis}/models.csv",
        "relevance": "results/{analysis}/relevance.csv",
        **{name: f"results/{{analysis}}/{name}.csv" for name in TABLES},
        "config": "results/{analysis}/config.yaml",
    },
    local=True,
    optional=tuple(f"results/{{analysis}}/{name}.csv" for name in OPTIONAL_TABLES),
)


def jobs(config: Mapping[str, Any]) -> Iterator[PlannedJob]:
    """Read the file, then fit, draw and summarise each model, and weigh its evidence, then report."""
    for name, settings in config["analyses"].items():
        read = READ.job({"files": files_of(settings)}, {"data": settings["data"]}, analysis=name)
        yield read
        data, own = {"data": read.output}, evidence_settings(settings, *AT_MAXIMUM)
        results = [FIT.job(data, own, analysis=name, model=model) for model in settings["models"]]
        fits = {"fits": [job.output for job in results]}
        for model in settings["models"]:
            names = {"analysis": name, "model": model}
            if not settings["quick"]:
                draw = DRAW.job(data | fits, settings_of(settings, "sampling"), **names)
                drawn = data | {"draws": draw.output}
                results += [draw, SUMMARISE.job(drawn, own, **names)]
            if averages(settings):
                averaged = evidence_settings(settings, *AVERAGED)
                results.append(EVIDENCE.job(drawn, averaged, **names))
        if holds_out(settings):
            whole = {"data": read.output, "results": [job.output for job in results]}
            if not settings["quick"]:
                draw = FINAL_DRAW.job(whole, settings_of(settings, "sampling"), analysis=name)
                whole, results = whole | {"draws": draw.output}, [*results, draw]
            results.append(FINAL.job(whole, settings_of(settings, "quick"), analysis=name))
        yield from results
        inputs = {"data": read.output, "tables": list(read.outputs.values())[1:]}
        inputs["results"] = [job.output for job in results]
        yield REPORT.job(inputs, settings, analysis=name)


ANALYSIS = Study(
    "analysis",
    check,
    jobs,
    costs="gpmcflow.analysis.costs:COSTS",
    answers="gpmcflow.analysis.page.page:answers",
)
