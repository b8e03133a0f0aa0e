"""The reference of all config keys, from the schema that configs are checked by."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpmcflow.pipeline.config import describe, load_schema, resolve


def branches(node: dict, schema: dict) -> Iterator[dict]:
    """The node and all that its conditions may add."""
    node = resolve(node, schema)
    yield node
    for branch in ("else", "then"):
        if branch in node:
            yield from branches(node[branch], schema)


def anchor(path: str) -> str:
    """Target of the section of a mapping."""
    return "config-" + "".join(c if c.isalnum() else "-" for c in path)


def children(node: dict, schema: dict) -> dict[str, tuple[dict, bool]]:
    """Keys of a mapping: their nodes, and whether each is required; of two branches the first counts."""
    rows: dict[str, tuple[dict, bool]] = {}
    for branch in branches(node, schema):
        for key, child in branch.get("properties", {}).items():
            rows.setdefault(key, (resolve(child, schema), key in branch.get("required", [])))
        for child in branch.get("patternProperties", {}).values():
            rows.setdefault("<name>", (resolve(child, schema), False))
    return rows


def sections(node: dict, schema: dict, path: str = "") -> Iterator[str]:
    """A table of the keys of each mapping, outer ones first."""
    rows = children(node, schema)
    yield f"({anchor(path)})=\n### {f'`{path}`' if path else 'At the top'}\n"
    comment = resolve(node, schema).get("$comment")
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    below = []
    for key, (child, required) in rows.items():
        here = f"{path}.{key}".lstrip(".")
        name = f"`{key}`"
        if children(child, schema):
            name = f"[{name}](#{anchor(here)})"
            below.append((child, here))
        default = "required" if required else ""
        if "default" in child:
            default = f"`{json.dumps(child['default'], ensure_ascii=False)}`"
        lines.append(
            f"| {name} | {describe(child, schema)} | {default} | {child.get('description', '')} |"
        )
    yield "\n".join(lines) + "\n"
    if comment:
        yield f"Names: {comment}.\n"
    for child, here in below:
        yield from sections(child, schema, here)


def config_reference() -> str:
    """All sections as Markdown."""
    schema = load_schema()
    return "\n".join(sections(schema, schema))
