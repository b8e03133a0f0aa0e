"""`gpmcflow new`: a config for a CSV file that is seen for the first time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from gpmcflow.analysis.study import RESERVED
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError
from gpmcflow.storage import write_text
from gpmcflow.storage.input_files import MOST_BYTES


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
    with np.errstate(over="ignore", invalid="ignore"):  # the summary reports a cell of 1e308
        suggestion = suggest(
            csv, target, positive=positive, area_map=area_map, neighbours=neighbours
        )
    text = suggestion.text(name, csv=os.path.relpath(csv))
    if len(text) > MOST_BYTES:
        raise InputError(
            f"{csv}: its columns make a config of {len(text):,} characters; allowed: {MOST_BYTES:,}; keep a "
            "few thousand columns at most"
        )
    write_text(text, config)
    return [
        *suggestion.summary().splitlines(),
        f"Wrote {config}. Read it, then: gpmcflow check {config}",
    ]


def analysis_name(text: str) -> str:
    """A name that a folder of results can have, made of that of a file or a column."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_") or "analysis"
    return f"my-{name}" if name in RESERVED else name
