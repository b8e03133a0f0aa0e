"""What is kept of a finished run, in one form for every study: its numbers, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.storage import origin, read_sidecar

IDENTITY = ("problem", "method", "replicate")
Reader = Callable[[Path], dict]


def make_part(
    study: str,
    kind: str,
    path: str | Path,
    attributes: Mapping[str, Any],
    values: dict,
    problem: str = "",
) -> dict:
    """Part of one results file with these attributes.

    Keys study, kind, problem, method and replicate (if it is of one), seed, data_checksum, settings, facts
    (the sidecar's), values.
    """
    source = origin(attributes, read_sidecar(path))
    part = {"study": study, "kind": kind, "problem": problem or attributes["problem"]}
    if "method" in attributes:
        part["method"] = attributes["method"]
    if "replicate" in source["settings"]:
        part["replicate"] = int(source["settings"]["replicate"])
    return {**part, **source, "values": values}


def parts_of(paths: Iterable[Path], readers: Mapping[str, Reader]) -> list[dict]:
    """Parts of results files, each read by the first pattern it matches; a file may match none."""
    first = ((path, next(filter(path.match, readers), None)) for path in paths)
    return [readers[pattern](path) for path, pattern in first if pattern is not None]


def part_name(part: dict) -> str:
    """Name of the run that a part is of: problem, method, kind and replicate."""
    kind = f"{part['kind']}_{part['replicate']}" if "replicate" in part else part["kind"]
    names = (part["problem"], part.get("method"), kind)
    return ".".join(filter(None, names)).replace(" ", "-")


def rows_of(parts: Iterable[dict], kind: str) -> list[dict]:
    """Values of the parts of a kind, each with what it is of, its settings, seed and checksum."""
    keys = (*IDENTITY, "settings", "seed", "data_checksum")
    return [
        {key: part[key] for key in keys if key in part} | part["values"]
        for part in parts
        if part["kind"] == kind
    ]


def grouped(parts: Iterable[dict], kind: str) -> dict[str, dict[str, list[dict]]]:
    """Rows of a kind by problem and method ("" where a run has all), in the order of their replicates."""
    problems: dict[str, dict[str, list[dict]]] = {}
    for row in rows_of(parts, kind):
        problems.setdefault(row["problem"], {}).setdefault(row.get("method", ""), []).append(row)
    for methods in problems.values():
        for rows in methods.values():
            rows.sort(key=lambda row: row.get("replicate", 0))
    return problems
