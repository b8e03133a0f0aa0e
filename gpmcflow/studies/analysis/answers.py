"""What the first page of a run shows of its analyses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.storage.input_files import load_json
from gpmcflow.studies.analysis.page.page import answer_of


def answers(config: Mapping[str, Any], folder: str | Path) -> Iterator[tuple[str, str, str]]:
    """(title, link, HTML) of each analysis: its answer and its picture, and its own report."""
    for name in config["analyses"]:
        place = Path(folder, "results", name)
        title, html = answer_of(place, load_json(place / "info.json"))
        yield title, f"{name}/report.html", html
