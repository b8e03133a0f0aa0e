"""`gpmcflow new`: a config for a CSV file that is seen for the first time."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpmcflow.analysis.study import RESERVED
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError
from gpmcflow.storage import write_text


def new(
    csv: str | Path,
    target: str,
    *,
    positive: str | None = None,
    area_map: str | None = None,
    neighbours: str | None = None,
    force: bool = False,
) -> list[str]:
    """Write a commented config for a CSV file into this folder; return lines that say what was seen.

    `area_map` and `neighbours` are files of areas, see `suggest`.

    Raises `InputError` where a config of that name is there already, unless ``force``, and `InputErrors` for
    a file that cannot be read.
    """
    name = analysis_name(Path(csv).stem)
    config = Path(f"{name}.yaml")
    if config.exists() and not force:
        raise InputError(f"{config}: is there already; look at it, or overwrite it with --force")
    suggestion = suggest(csv, target, positive=positive, area_map=area_map, neighbours=neighbours)
    write_text(suggestion.text(name, csv=os.path.relpath(csv)), config)
    return [
        *suggestion.summary().splitlines(),
        f"Wrote {config}. Read it, then: gpmcflow check {config}",
    ]


def analysis_name(text: str) -> str:
    """A name that a folder of results can have, made of that of a file or a column."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_") or "analysis"
    return f"my-{name}" if name in RESERVED else name
