"""What the first page of a run shows of its analyses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.storage import read_result_text
from gpmcflow.studies.analysis.page.page import answer_of


def answers(config: Mapping[str, Any], folder: str | Path) -> Iterator[tuple[str, str, str]]:
    """(title, link, HTML) of each analysis: its answer and its picture, and its own report."""
    for name in config["analyses"]:
        place = Path(folder, "results", name)
        facts = json.loads(read_result_text(place / "info.json"))
        title, html = answer_of(place, facts)
        yield title, f"{name}/report.html", html
