"""Rows of finished runs, kept one file each, from which a study's verdict table is rebuilt.

A paper-size study runs for hours, on machines that may not last: each finished run leaves a part, a
JSON file with its estimates, counts, seconds, settings, seed, checksums and versions.
"""

from __future__ import annotations

import json
import re
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
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def collect(study: str, results: str | Path, folder: str | Path) -> list[Path]:
    """Write a part for every finished run of a study below ``results`` into ``folder``.

    Returns the files. A part that is there already is replaced.
    """
    readers = _study(study).load("readers")
    below = Path(results) / study
    paths = [path for pattern in readers for path in sorted(Path(results).glob(pattern))]
    with refuse_unfit(f"{below}: a results file", "delete it and run again"):
        parts = parts_of(dict.fromkeys(paths), readers)
    if not parts:
        raise InputError(f"{below}: no finished runs found; run the study first")
    return [_write(part, Path(folder)) for part in parts]


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


def read_parts(folder: str | Path) -> list[dict]:
    """All parts of a folder, by file name."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no parts (*.json) found; collect them from results first")
    return [_read(path) for path in paths]


def rebuild(study: str, folder: str | Path, published: str | Path) -> dict[str, pd.DataFrame]:
    """Tables of a study ("verdict" among them) from the parts of a folder; what is missing is marked."""
    tables = _study(study).load("tables")
    parts, printed = read_parts(folder), _printed(published)
    with refuse_unfit(f"{folder}: a part of study {study}", "collect them again"):
        return tables(parts, printed)


def _printed(published: str | Path) -> dict:
    return yaml.safe_load(Path(published).read_text())


def _study(name: str) -> Study:
    studies = {study.name: study for study in PAPERS}
    if name not in studies:
        raise unknown_name("parts: study", name, studies)
    return studies[name]


def _write(part: dict, folder: Path) -> Path:
    name = part_name(part)
    if not _NAME.fullmatch(name):  # it comes from attributes of a results file
        raise StorageError(f"{folder}: {name!r} is no name of a part; run the study again")
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(json.dumps(part, indent=1, allow_nan=True) + "\n", path)
    return path


def _read(path: Path) -> dict:
    try:
        part = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{path}: cannot be read as a part ({error}); collect it again"
        ) from None
    if not isinstance(part, dict):
        raise StorageError(f"{path}: cannot be read as a part (no mapping); collect it again")
    return part
