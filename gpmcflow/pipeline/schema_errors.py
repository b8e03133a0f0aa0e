"""What a JSON schema finds wrong, and what it allows, in words."""

from __future__ import annotations

import json
import re
from typing import Any

from jsonschema import ValidationError

from gpmcflow.errors import InputError, unknown_name

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}
_BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "exclusiveMaximum": "below",
    "maximum": "at most",
}


def resolve(node: dict, schema: dict) -> dict:
    """Return the schema node that a `$ref` into `$defs` stands for."""
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return node


def describe(node: dict, schema: dict) -> str:
    """Return in words what a schema node allows, for messages and for config/README.md."""
    node = resolve(node, schema)
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    words = []
    for kind in kinds:
        word = _TYPES[kind]
        if kind in ("number", "integer"):
            bounds = [f"{text} {node[key]:g}" for key, text in _BOUNDS.items() if key in node]
            word = " ".join([word, " and ".join(bounds)]).strip()
        if kind == "array" and "items" in node:
            word = f"a list, each {describe(node['items'], schema)}"
        words.append(word)
    if "enum" in node:
        words = [f"one of {', '.join(str(value) for value in node['enum'])}"]
    return " or ".join(words)


def order(error: ValidationError) -> tuple:
    """Unknown names first, as others say which keys are known; a mistyped key is missing, too."""
    rank = {"enum": 0, "additionalProperties": 1, "required": 3}.get(error.validator, 2)
    return rank, [str(part) for part in error.absolute_path]


def as_input_error(error: ValidationError, schema: dict, where: str) -> InputError:
    """What a schema finds wrong, in one line: where, what was found, what is allowed."""
    node, value = error.schema, error.instance
    path = joined(where, error.absolute_path)
    if error.validator == "additionalProperties":
        patterns = node.get("patternProperties", {})
        known = node.get("properties", {})
        key = next(
            key
            for key in value
            if key not in known and not any(re.search(p, key) for p in patterns)
        )
        if patterns:
            return InputError(f"{path}: name {key!r} found; allowed: {node['$comment']}; rename it")
        return unknown_name(f"{path}: key", key, known)
    if error.validator == "required":
        key = next(key for key in error.validator_value if key not in value)
        wanted = describe(node["properties"][key], schema)
        return InputError(f"{joined(path, [key])}: missing; give {wanted}")
    if error.validator == "enum" and isinstance(value, str):
        return unknown_name(path, value, node["enum"])
    if error.validator == "uniqueItems":
        twice = next(item for item in value if value.count(item) > 1)
        return InputError(f"{path}: {shown(twice)} found twice; list each once")
    if error.validator == "maxProperties":
        return InputError(f"{path}: found {', '.join(sorted(value))}; give one of them")
    if error.validator in ("minItems", "minProperties", "minLength"):
        return InputError(f"{path}: nothing found; give one at least")
    if error.validator == "pattern":
        return InputError(f"{path}: found {shown(value)}; allowed: {node['description']}")
    return InputError(
        f"{path}: found {shown(value)}; allowed: {describe(node, schema)}{_hint(value)}"
    )


def joined(where: str, parts: Any) -> str:
    """`config: studies.rmhmc_ais.methods.a.temperatures[0]`."""
    path = where
    for part in parts:
        separator = "." if ": " in path else ": "
        path += f"[{part}]" if isinstance(part, int) else f"{separator}{part}"
    return path


def shown(value: Any) -> str:
    """Return a value as YAML would have it, cut short."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def _hint(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", value):
        return f" (YAML takes {value} for text; write {value.lower().replace('e', '.0e', 1)})"
    return ""
