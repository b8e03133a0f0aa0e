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
from gpmcflow.storage import write_text
from gpmcflow.studies.frame.installation import workflow_home
from gpmcflow.studies.frame.registry import PAPERS
from gpmcflow.studies.frame.study import Study

PUBLISHED = workflow_home() / "workflow" / "published"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def collect(study: str, results: str | Path, folder: str | Path) -> list[Path]:
    """Write a part for every finished run of a study below ``results`` into ``folder``.

    Returns the files. A part that is there already is replaced.
    """
    with refuse_unfit(f"{Path(results) / study}: a results file", "delete it and run again"):
        parts = _study(study).load("collect")(Path(results) / study)
    if not parts:
        raise InputError(f"{Path(results) / study}: no finished runs found; run the study first")
    return [_write(part, Path(folder)) for part in parts]


def read_parts(folder: str | Path) -> list[dict]:
    """All parts of a folder, by file name."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no parts (*.json) found; collect them from results first")
    return [_read(path) for path in paths]


def rebuild(study: str, folder: str | Path, published: str | Path) -> dict[str, pd.DataFrame]:
    """Tables of a study ("verdict" among them) from the parts of a folder; what is missing is marked."""
    tables = _study(study).load("tables")
    kept, printed = read_parts(folder), yaml.safe_load(Path(published).read_text())
    with refuse_unfit(f"{folder}: a part of study {study}", "collect them again"):
        return tables(kept, printed)


def _study(name: str) -> Study:
    studies = {study.name: study for study in PAPERS}
    if name not in studies:
        raise unknown_name("parts: study", name, studies)
    return studies[name]


def _write(part: dict, folder: Path) -> Path:
    names: Iterable[str] = (part[key] for key in ("problem", "method", "part") if key in part)
    name = ".".join(names).replace(" ", "-")
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
