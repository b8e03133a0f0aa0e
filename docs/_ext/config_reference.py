"""The reference of all config keys, from the schema that configs are checked by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

WORDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
    "null": "null",
}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def resolved(node: dict, schema: dict) -> dict:
    """The node that a `$ref` stands for, with what is said beside the reference."""
    while "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        node = schema["$defs"][name] | {k: v for k, v in node.items() if k != "$ref"}
    return node


def branches(node: dict, schema: dict) -> Iterator[dict]:
    """The node and all that its conditions may add."""
    node = resolved(node, schema)
    yield node
    for branch in ("else", "then"):
        if branch in node:
            yield from branches(node[branch], schema)


def kind(node: dict, schema: dict) -> str:
    """Type of a value in words, with its bounds or the words it may be."""
    node = resolved(node, schema)
    alternatives = [*node.get("oneOf", []), *node.get("anyOf", [])]
    if alternatives and "type" not in node:
        return " or ".join(dict.fromkeys(kind(each, schema) for each in alternatives))
    if "enum" in node:
        return "one of " + ", ".join(f"`{value}`" for value in node["enum"])
    types = node.get("type", "object")
    text = " or ".join(WORDS[name] for name in ([types] if isinstance(types, str) else types))
    bounds = [f"{words} {node[key]}" for key, words in BOUNDS.items() if key in node]
    if "items" in node:
        bounds.append(f"of {kind(node['items'], schema)}")
    return ", ".join([text, *bounds])


def anchor(path: str) -> str:
    """Target of the section of a mapping."""
    return "config-" + "".join(c if c.isalnum() else "-" for c in path)


def children(node: dict, schema: dict) -> dict[str, tuple[dict, bool]]:
    """Keys of a mapping: their nodes, and whether each is required; of two branches the first counts."""
    rows: dict[str, tuple[dict, bool]] = {}
    for branch in branches(node, schema):
        for key, child in branch.get("properties", {}).items():
            rows.setdefault(key, (resolved(child, schema), key in branch.get("required", [])))
        for child in branch.get("patternProperties", {}).values():
            rows.setdefault("<name>", (resolved(child, schema), False))
    return rows


def sections(node: dict, schema: dict, path: str = "") -> Iterator[str]:
    """A table of the keys of each mapping, outer ones first."""
    rows = children(node, schema)
    yield f"({anchor(path)})=\n### {f'`{path}`' if path else 'At the top'}\n"
    comment = resolved(node, schema).get("$comment")
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
            f"| {name} | {kind(child, schema)} | {default} | {child.get('description', '')} |"
        )
    yield "\n".join(lines) + "\n"
    if comment:
        yield f"Names: {comment}.\n"
    for child, here in below:
        yield from sections(child, schema, here)


def config_reference(folder: Path) -> str:
    """All sections as Markdown, from the schema of the config and those of the studies."""
    schema = yaml.safe_load((folder / "config.schema.yaml").read_text(encoding="utf-8"))
    schema["properties"]["studies"]["properties"] = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted((folder / "studies").glob("*.yaml"))
    }
    return "\n".join(sections(schema, schema))
