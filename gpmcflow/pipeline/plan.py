"""The jobs a config stands for, from which the rules of the workflow are made. Imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.execution.code import code_digest
from gpmcflow.jobs.installation import REPORT_TEMPLATE
from gpmcflow.jobs.study import Files, PlannedJob, Stage, listed
from gpmcflow.pipeline.config import portable
from gpmcflow.pipeline.studies import STUDIES, studies_of
from gpmcflow.storage.checksums import read_sha256
from gpmcflow.storage.input_files import user_path

PREPARE = Stage(
    "prepare",
    "gpmcflow.replications.stages:prepare_job",
    {"results": "results/data/{dataset}.nc"},
    local=True,
)
REPORT = Stage(
    "build_report",
    "gpmcflow.run_page.page:report_job",
    {"report": "results/report.html"},
    local=True,
    code=tuple(study.answers.partition(":")[0] for study in STUDIES if study.answers),
)


def planned_jobs(config: dict[str, Any]) -> list[PlannedJob]:
    """Return the jobs of a checked config, each after those it needs."""
    own = {study: list(study.jobs(config)) for study in studies_of(config)}
    jobs = [job for planned in own.values() for job in planned]
    needed = {path for job in jobs for path in job.needs}
    names = dict.fromkeys(problem["dataset"] for problem in config["problems"].values())
    prepared = [_prepare(config, name) for name in names]
    prepared = [job for job in prepared if job.output in needed]
    outputs = [path for job in jobs for path in job.outputs.values()]
    tables = [path for path in outputs if path.endswith(".csv")]
    shown = {
        "tables": [path for path in tables if Path(path).parent.name not in config["analyses"]],
        "figures": [p for p in outputs if p.endswith(".png")],
        "answers": [p for p in outputs if p.endswith("/report.html")],
        "template": str(REPORT_TEMPLATE),
    }
    sections = {s.name: s.section(config, planned) for s, planned in own.items() if s.title}
    settings = {"sections": sections, "config": portable(config)}
    return [*prepared, *jobs, REPORT.job(shown, settings)]


def _prepare(config: dict[str, Any], dataset: str) -> PlannedJob:
    settings = config["datasets"].get(dataset)
    inputs = {"csv": str(user_path(settings["csv"]))} if settings and "csv" in settings else {}
    return PREPARE.job(inputs, {"dataset": settings}, dataset=dataset)


def count_runs(config: Mapping[str, Any]) -> int:
    """Return how many times the papers' studies of a config run a method on a problem."""
    return sum(
        study.runs(config["studies"][study.name]) for study in studies_of(config) if study.runs
    )


def outputs_of(jobs: Iterable[PlannedJob]) -> list[str]:
    """All files that jobs write, sidecars among them."""
    return [path.format(**job.wildcards) for job in jobs for path in job.stage.files.values()]


def optional_outputs_of(jobs: Iterable[PlannedJob]) -> list[str]:
    """All files that jobs write for some settings and data alone."""
    return [path.format(**job.wildcards) for job in jobs for path in job.stage.optional]


def certificate_table(analysis: str) -> str:
    """The table of a certificate, which `gpmcflow certify` makes and no job."""
    return f"results/{analysis}/certificate.csv"


class Plan:
    """The jobs of a checked config as rules of Snakemake ask for them: by stage and wildcards.

    Snakemake does not get files that no job makes as inputs, because it compares times, and `mv` and `unzip`
    keep those. Their content decides: their digests are among the params of the jobs. Raises `StorageError`
    for one that cannot be read.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.jobs = config, planned_jobs(config)
        self._jobs = {self._key(job.stage, job.wildcards): job for job in self.jobs}
        self._made = set(self.outputs)
        self._codes: dict[str, str] = {}
        needed = {
            path for job in self.jobs for files in job.inputs.values() for path in listed(files)
        }
        self._digests = {path: read_sha256(path) for path in sorted(needed - self._made)}

    @staticmethod
    def _key(stage: Stage, wildcards: Mapping[str, str]) -> tuple:
        return stage.rule, *sorted(wildcards.items())

    @property
    def stages(self) -> list[Stage]:
        """Each once, in the order of the jobs."""
        return list({job.rule: job.stage for job in self.jobs}.values())

    @property
    def outputs(self) -> list[str]:
        """All files the jobs write: one that was deleted comes back, whatever was made of it."""
        return outputs_of(self.jobs)

    def constraints(self, stage: Stage) -> dict[str, str]:
        """Wildcard -> expression of its values."""
        values = [job.wildcards for job in self.jobs if job.rule == stage.rule]
        return {
            name: "|".join(sorted({re.escape(own[name]) for own in values})) for name in values[0]
        }

    def inputs(self, stage: Stage) -> Callable[[Any], dict[str, Any]]:
        """Files of other jobs by name, as a function of wildcards."""

        def inputs(wildcards: Any) -> dict[str, Files]:
            own = self._job(stage, wildcards).inputs
            return {name: files for name, files in own.items() if self._made >= set(listed(files))}

        return inputs

    def sources(self, stage: Stage) -> Callable[[Any], dict[str, dict[str, str]]]:
        """Path -> SHA-256 of all other files by name, as a function of wildcards."""

        def sources(wildcards: Any) -> dict[str, dict[str, str]]:
            own = self._job(stage, wildcards).inputs
            return {
                name: {path: self._digests[path] for path in listed(files)}
                for name, files in own.items()
                if not self._made >= set(listed(files))
            }

        return sources

    def code(self, stage: Stage) -> Callable[[Any], str]:
        """Digest of the code of a stage, made when a job of it asks: the process of a job makes one alone."""

        def code(wildcards: Any) -> str:
            if stage.rule not in self._codes:
                self._codes[stage.rule] = code_digest(stage.entry, *stage.code)
            return self._codes[stage.rule]

        return code

    def settings(self, stage: Stage) -> Callable[[Any], dict[str, Any]]:
        """What the job is told, as a function of wildcards."""
        return lambda wildcards: dict(self._job(stage, wildcards).settings)

    def threads(self, stage: Stage) -> Callable[[Any], int]:
        """As a function of wildcards."""
        return lambda wildcards: stage.ask.threads(self.config, self._job(stage, wildcards))

    def megabytes(self, stage: Stage) -> Callable[[Any, int, int], int]:
        """As a function of wildcards, threads and attempt."""
        ask = stage.ask.megabytes
        return lambda wildcards, threads, attempt: ask(
            self.config, self._job(stage, wildcards), threads, attempt
        )

    def minutes(self, stage: Stage) -> Callable[[Any, int], int]:
        """As a function of wildcards and attempt."""
        return lambda wildcards, attempt: stage.ask.minutes(attempt)

    def _job(self, stage: Stage, wildcards: Any) -> PlannedJob:
        return self._jobs[self._key(stage, dict(wildcards.items()))]
