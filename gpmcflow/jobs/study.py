"""A study as the workflow sees it: one object that says what to check, run, forecast and show.

Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.jobs.resources import Ask, small

# What the checks of several studies ask of a config.


def require_problem(name: str, problems: Mapping[str, Any], model: str, place: str) -> None:
    """Refuse a problem that is not there, or has another kind of model."""
    if name not in problems:
        raise unknown_name(place, name, problems)
    kind = problems[name]["model"]
    if kind != model:
        raise InputError(
            f"{place}: found {name!r}, which has model: {kind}; allowed: problems with model: {model}"
        )


Files = str | Sequence[str]
PUBLISHED = "published"  # name of the input with the printed numbers of a paper


def listed(files: Files) -> list[str]:
    """The paths of one input of a job."""
    return [files] if isinstance(files, str) else list(files)


@dataclass(frozen=True)
class Stage:
    """Jobs of one rule of Snakemake: what they call, what they write and what they ask a machine for.

    Attributes
    ----------
    rule:
        Its name, which begins with that of the study.
    entry:
        "module:function", called with a `frame.job.Job`. It returns what is written: a tree, or
        (tree, facts of the sidecar), for an output named results; a table for each output by its name;
        pairs of a path and a figure; or None where it has written by itself.
    outputs:
        Name -> path with wildcards in braces. An output named results has a sidecar beside it.
    captions:
        Path of an output -> what it shows, for the reports.
    ask:
        Threads, memory and time.
    local:
        Whether it runs where Snakemake does, as it takes seconds.
    in_blocks:
        Whether the size of blocks of chains is part of what its numbers depend on.
    code:
        Modules that the function calls without an import of them.
    optional:
        Paths, with wildcards, of files that it writes for some settings and data alone.
    """

    rule: str
    entry: str
    outputs: Mapping[str, str]
    captions: Mapping[str, str] = field(default_factory=dict)
    ask: Ask = field(default_factory=small)
    local: bool = False
    in_blocks: bool = False
    code: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """All outputs, sidecars among them."""
        sidecar = (
            {"sidecar": f"{self.outputs['results']}.json"} if "results" in self.outputs else {}
        )
        return {**self.outputs, **sidecar}

    @property
    def folder(self) -> str:
        """Folder of results that its outputs lie in."""
        return PurePosixPath(next(iter(self.outputs.values()))).parts[1]

    @property
    def log(self) -> str:
        """Path of the log, by the first output, or by the rule where that has no name for them all."""
        return self._beside("logs", ".log")

    @property
    def benchmark(self) -> str:
        """Path of Snakemake's own measurement."""
        return self._beside("benchmarks", ".tsv")

    def _beside(self, folder: str, suffix: str) -> str:
        path = PurePosixPath(next(iter(self.outputs.values()))).relative_to("results")
        if path.suffix != ".nc":  # one of several tables, figures or pages
            path = path.parent / re.sub(f"^({path.parts[0]}|analysis)_", "", self.rule)
        return f"results/{folder}/{path.with_suffix(suffix)}"

    def job(
        self,
        inputs: Mapping[str, Files] | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        about: str | None = None,
        **wildcards: str,
    ) -> PlannedJob:
        """One of its jobs."""
        return PlannedJob(self, inputs or {}, settings or {}, wildcards, about)


@dataclass(frozen=True)
class PlannedJob:
    """One job of Snakemake: its stage, the files it waits for, and what it is told."""

    stage: Stage
    inputs: Mapping[str, Files]
    settings: Mapping[str, Any]
    wildcards: Mapping[str, str]
    about: str | None = None  #: the problem that it works on, where no wildcard is one

    @property
    def rule(self) -> str:
        """Name of its rule."""
        return self.stage.rule

    @property
    def outputs(self) -> dict[str, str]:
        """Name -> file, without sidecars."""
        return {name: path.format(**self.wildcards) for name, path in self.stage.outputs.items()}

    @property
    def log(self) -> str:
        """Path of its log."""
        return self.stage.log.format(**self.wildcards)

    @property
    def output(self) -> str:
        """The first file it declares."""
        return next(iter(self.outputs.values()))

    @property
    def needs(self) -> tuple[str, ...]:
        """Files of other jobs that it waits for."""
        paths = (path for files in self.inputs.values() for path in listed(files))
        return tuple(path for path in paths if path.startswith("results/"))

    @property
    def problem(self) -> str | None:
        """Problem, or analysis, that it works on."""
        return self.about or self.wildcards.get("problem") or self.wildcards.get("analysis")

    @property
    def method(self) -> str | None:
        """Method, type of data or model that it runs."""
        names = (self.wildcards.get(key) for key in ("method", "type", "model"))
        return next((name for name in names if name), None)


Check = Callable[[Mapping[str, Any], str, Path], None]
Jobs = Callable[[Mapping[str, Any]], Iterator[PlannedJob]]


@dataclass(frozen=True)
class Study:
    """A kind of study. All that walks studies asks these, never for a study by its name.

    Attributes
    ----------
    name:
        Of its folder of the package and of its folder of results.
    check:
        Called with the checked config, the start of messages and the folder that the workflow runs in; raises
        `InputError` for what a schema cannot see.
    jobs:
        Called with the checked config, gives the jobs it stands for, each after those it needs.
    costs:
        "module:name" of the mapping from rule to the function (context, job) that forecasts its cost.
    answers:
        "module:function" called with the config and the folder of the run, which gives what the first page
        shows of it: pairs of a folder of results and its facts. "" for none.
    title:
        Of its section of the report; "" for none.
    open_figures:
        How many figures of the section are not folded away, by its settings; all by default.
    readers, tables:
        "module:name" of kept results: a function for each pattern of results files that makes parts of one,
        and that which makes tables, "verdict" among them, of parts and printed numbers. "" for none.
    runs:
        How many times it runs a method on a problem, by its settings.
    """

    name: str
    check: Check
    jobs: Jobs
    costs: str
    answers: str = ""
    title: str = ""
    open_figures: Callable[[Mapping[str, Any]], int] | None = None
    readers: str = ""
    tables: str = ""
    runs: Callable[[Mapping[str, Any]], int] | None = None

    def load(self, attribute: str) -> Any:
        """What an attribute of the form "module:name" names."""
        return load(getattr(self, attribute))

    def section(self, config: Mapping[str, Any], jobs: Sequence[PlannedJob]) -> dict[str, Any]:
        """Title, tables and figures of its section of the report, of its jobs."""
        tables = [path for job in jobs for path in job.outputs.values() if path.endswith(".csv")]
        captions = {path: text for job in jobs for path, text in job.stage.captions.items()}
        figures = [[path, text] for path, text in captions.items() if path.endswith(".png")]
        section = {"title": self.title, "tables": tables, "figures": figures}
        if self.open_figures:
            section["n_open"] = self.open_figures(config["studies"][self.name])
        return section


def load(name: str) -> Any:
    """What "module:name" names."""
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)


def results_stage(study: str, entry: str, path: str, **options: Any) -> Stage:
    """Jobs that write one results file each, at a path below the folder of their study.

    ``entry`` is "module:step_job" below the package of studies; the rule is named by study and step.
    """
    rule = f"{study}_{entry.partition(':')[2].removesuffix('_job')}"
    outputs = {"results": f"results/{study}/{path}"}
    return Stage(rule, f"gpmcflow.replications.{entry}", outputs, **options)


def tables_stage(study: str, tables: Mapping[str, str]) -> Stage:
    """The tables of a study, name -> what it shows, made of its parts by its function ``tables.tables``."""
    outputs = {name: f"results/{study}/{name}.csv" for name in tables}
    captions = {outputs[name]: text for name, text in tables.items()}
    return Stage(
        f"{study}_summarise",
        "gpmcflow.replications.parts:summarise_job",
        outputs,
        captions,
        local=True,
        code=(f"gpmcflow.replications.{study}.tables",),
    )


def figures_stage(study: str, figures: Mapping[str, str]) -> Stage:
    """All figures of a study, name below its folder -> what it shows, drawn by ``figures.draw``."""
    captions = {f"results/{study}/figures/{name}.png": text for name, text in figures.items()}
    outputs = {re.sub(r"\W", "_", name): path for name, path in zip(figures, captions, strict=True)}
    entry = f"gpmcflow.replications.{study}.figures:draw"
    return Stage(f"{study}_figures", entry, outputs, captions, local=True)


def paper_study(name: str, check: Check, jobs: Jobs, title: str, **options: Any) -> Study:
    """Study of a paper, with the names that the rooms of its folder have."""
    folder = f"gpmcflow.replications.{name}"
    rooms = {"costs": "forecast:COSTS", "readers": "tables:READERS", "tables": "tables:tables"}
    named = {attribute: f"{folder}.{room}" for attribute, room in rooms.items()}
    return Study(name, check, jobs, title=title, **named, **options)


def published_file(study: str) -> str:
    """File of the numbers a paper has in print."""
    return str(workflow_home() / "workflow" / "published" / f"{study}.yaml")


def data_file(config: Mapping[str, Any], problem: str) -> str:
    """Where the data set of a problem is written."""
    return f"results/data/{config['problems'][problem]['dataset']}.nc"
