"""What the first page of a run shows of the analyses in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.analysis.page.page import answer_of
from gpmcflow.errors import GpmcflowError
from gpmcflow.storage.input_files import load_json


def answers(config: Mapping[str, Any], folder: str | Path) -> Iterator[tuple[str, str, str]]:
    """(title, link, HTML) of each analysis: its answer and its picture, and its own report.

    The analyses of the config come first, then those that other configs left in the same folder.
    """
    results, own = Path(folder, "results"), list(config["analyses"])
    for name in own:
        title, html = answer_of(results / name, load_json(results / name / "info.json"))
        yield title, f"{name}/report.html", html
    for report in sorted(results.glob("*/report.html")):
        place = report.parent
        if place.name in own or not (place / "info.json").is_file():
            continue
        try:
            title, html = answer_of(place, load_json(place / "info.json"))
        except GpmcflowError:  # of another version, or half removed: its own report still stands
            title, html = place.name, ""
        yield title, f"{place.name}/report.html", html
