"""Rows of finished runs, kept in one table per study, from which its verdict table is rebuilt.

A paper-size study runs for hours, on machines that may not last: each finished run leaves a part, a
line of JSON with its estimates, counts, seconds, settings, seed, checksums and versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import yaml

from gpmcflow.errors import InputError, StorageError, refuse_unfit, unknown_name
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.parts import part_name, parts_of
from gpmcflow.jobs.study import PUBLISHED as PRINTED
from gpmcflow.jobs.study import Study
from gpmcflow.replications.papers import PAPERS
from gpmcflow.storage import write_text

PUBLISHED = workflow_home() / "workflow" / "published"


def collect(study: str, results: str | Path, path: str | Path) -> list[dict]:
    """Write a part for every finished run of a study below ``results`` into the table ``path``.

    Returns these parts. A part of the same run that the table has already is replaced, others stay.
    """
    readers = _study(study).load("readers")
    below = Path(results) / study
    files = [file for pattern in readers for file in sorted(Path(results).glob(pattern))]
    with refuse_unfit(f"{below}: a results file", "delete it and run again"):
        parts = parts_of(dict.fromkeys(files), readers)
    if not parts:
        raise InputError(f"{below}: no finished runs found; run the study first")
    kept = read_parts(path) if Path(path).exists() else []
    with refuse_unfit(f"{path}: a part", "delete its line"):
        by_run = {part_name(part): part for part in [*kept, *parts]}
    write_text("".join(json.dumps(by_run[name]) + "\n" for name in sorted(by_run)), path)
    return parts


def summarise_job(job: Job) -> dict[str, pd.DataFrame]:
    """`summarise` the results files of a job."""
    (published,) = job.sources[PRINTED]
    return summarise(job.settings["study"], job.input, published)


def summarise(
    study: str, paths: Iterable[str | Path], published: str | Path
) -> dict[str, pd.DataFrame]:
    """Tables of a study from its results files; "verdict" has the rows that these fill.

    A run of the workflow ends when all of its config is done: what is missing then is not in the config.
    """
    readers, tables = (_study(study).load(name) for name in ("readers", "tables"))
    frames = tables(parts_of(map(Path, paths), readers), _printed(published))
    verdict = frames["verdict"]
    filled = verdict[verdict["verdict"] != "missing"].reset_index(drop=True)
    return frames | {"verdict": filled}


def read_parts(path: str | Path) -> list[dict]:
    """All parts of a table, in its order."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read ({error}); collect it again") from None
    parts = [_part(line, f"{path}, line {k}") for k, line in enumerate(lines, start=1)]
    if not parts:
        raise InputError(f"{path}: no parts found; collect them from results first")
    return parts


def rebuild(study: str, path: str | Path, published: str | Path) -> dict[str, pd.DataFrame]:
    """Tables of a study ("verdict" among them) from its table of parts; what is missing is marked."""
    tables = _study(study).load("tables")
    parts, printed = read_parts(path), _printed(published)
    with refuse_unfit(f"{path}: a part of study {study}", "collect them again"):
        return tables(parts, printed)


def _printed(published: str | Path) -> dict:
    return yaml.safe_load(Path(published).read_text())


def _study(name: str) -> Study:
    studies = {study.name: study for study in PAPERS}
    if name not in studies:
        raise unknown_name("parts: study", name, studies)
    return studies[name]


def _part(line: str, where: str) -> dict:
    try:
        part = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{where}: no part ({error}); collect it again") from None
    if not isinstance(part, dict):
        raise StorageError(f"{where}: no part (no mapping); collect it again")
    return part
