"""One self-contained HTML page with what was run, the tables and the figures."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import jinja2
import pandas as pd

import gpmcflow
from gpmcflow.errors import InputError, StorageError, refuse_unfit, visible
from gpmcflow.jobs.job import Job
from gpmcflow.pipeline.config import portable
from gpmcflow.pipeline.studies import studies_of
from gpmcflow.run_page.tables import (
    approximations_table,
    evidence_table,
    lead,
    plain_table,
    summary,
    verdict_table,
    which_method_table,
    which_sampler_table,
)
from gpmcflow.storage import read_csv, require_unchanged, write_result_text

_TABLES = {
    "which_method": which_method_table,
    "which_sampler": which_sampler_table,
    "evidence": evidence_table,
    "approximations": approximations_table,
}


class Answer(NamedTuple):
    """What an analysis of own data found, for the top of the page."""

    title: str
    link: str  # to the analysis's own report, relative to this one
    html: str  # goes onto the page as it is


def report_job(job: Job) -> None:
    """The page of a run, with the tables and figures of its studies and the answers of its analyses."""
    studies = {
        name: {**section, "frames": {Path(path).stem: path for path in section["tables"]}}
        for name, section in job.settings["sections"].items()
    }
    answers = [
        Answer(*answer)
        for study in studies_of(job.config)
        if study.answers
        for answer in study.load("answers")(job.config, ".")
    ]
    page = build_report(studies, title="Results", config=job.settings["config"], answers=answers)
    write_result_text(page, job.output.report)


def build_report(
    studies: Mapping[str, Mapping[str, Any]],
    *,
    title: str,
    config: Mapping[str, Any] | None = None,
    answers: Sequence[Answer] = (),
) -> str:
    """HTML of the report: inline style, embedded figures, no script, nothing loaded from elsewhere.

    ``studies`` maps a study's name to ``title``, ``frames`` (name of a table to its path, in the
    order of the page), ``figures`` (list of (path of a PNG, caption)) and, if wanted, ``n_open``
    (figures that are not folded away; all by default) and ``files`` (paths to name). ``answers`` come
    first, then the studies with figures before tables; folded at the end are the tables ``verdict``
    that have rows, and ``config``, the run's whole config. The same files give the same text: no clock,
    host or absolute path goes in.

    Raises `StorageError` for a file that is missing or unreadable, `InputError` for a table that
    lacks a column.
    """
    page = _environment().from_string(
        resources.files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    )
    frames = {
        name: {kind: read_csv(path) for kind, path in study["frames"].items()}
        for name, study in studies.items()
    }
    shown = _relative(portable(config or {}))
    with refuse_unfit("report: a table of a study", "run the step that writes it again"):
        verdicts = [
            verdict_table(
                frames[name]["verdict"], _shown(study["frames"]["verdict"]), study["title"]
            )
            for name, study in studies.items()
            if "verdict" in frames[name] and len(frames[name]["verdict"])
        ]
        sections = [_section(name, study, frames[name]) for name, study in studies.items()]
    return visible(
        page.render(
            title=title,
            version=gpmcflow.__version__,
            seed=(config or {}).get("seed"),
            config=json.dumps(shown, indent=2, ensure_ascii=False) if shown else "",
            verdicts=verdicts,
            answers=answers,
            sections=sections,
        )
    )


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _section(
    name: str, study: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    figures = [_figure(path, caption) for path, caption in study["figures"]]
    paths = [*study["frames"].values(), *(path for path, _ in study["figures"])]
    tables = [
        _TABLES.get(kind, plain_table)(frame, _shown(study["frames"][kind]))
        for kind, frame in frames.items()
        if kind != "verdict"
    ]
    return {
        "name": name,
        "title": study["title"],
        "lead": lead(frames),
        "summary": summary(frames),
        "tables": tables,
        "figures": figures,
        "n_open": study.get("n_open", len(figures)),
        "files": [_shown(path) for path in dict.fromkeys([*paths, *study.get("files", [])])],
    }


def _figure(path: str | os.PathLike, caption: str) -> dict[str, Any]:
    """PNG as base64 with its size, so that the page does not move while it is shown."""
    require_unchanged(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; run the step that draws it.") from error
    if content[:8] != b"\x89PNG\r\n\x1a\n" or content[12:16] != b"IHDR":
        raise StorageError(f"{path}: not a PNG image; delete it and run again.")
    width, height = struct.unpack(">II", content[16:24])
    data = base64.b64encode(content).decode("ascii")
    return {"data": data, "caption": caption, "width": width, "height": height}


def _shown(path: str | os.PathLike) -> str:
    """Path as given when it is relative; an absolute one from its folder ``results`` on."""
    pure = PurePath(path)
    if not pure.is_absolute():
        return pure.as_posix()
    parts = pure.parts
    if "results" in parts:
        last = len(parts) - 1 - parts[::-1].index("results")
        return PurePath(*parts[last:]).as_posix()
    return pure.name


def _relative(value: Any) -> Any:
    """Config without absolute paths."""
    if isinstance(value, Mapping):
        return {str(key): _relative(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_relative(item) for item in value]
    if isinstance(value, str) and PurePath(value).is_absolute():
        return _shown(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(
        f"report: config value {value!r} has type {type(value).__name__}; "
        "allowed: plain values of YAML."
    )
