"""The config of the workflow: read, checked against its schema, every complaint in one line."""

from __future__ import annotations

import copy
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from gpmcflow.analysis.study import KEYS, expanded, is_single
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.pipeline.studies import studies_of
from gpmcflow.replications.papers import PAPERS
from gpmcflow.storage.input_files import is_file, load_yaml, user_path

# What a JSON schema finds wrong, and what it allows, in words.

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
        if kind == "array" and node.get("minItems", 0) > 1:
            word += f" of {node['minItems']}{'' if 'maxItems' in node else ' or more'}"
        if kind == "array" and "items" in node:
            word += f", each {describe(node['items'], schema)}"
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
    if error.validator in ("minItems", "minProperties", "minLength") and not value:
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


# Check a config: JSON schema, then what refers to what. One error at a time, in one line.
#
# Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.

# How the machine does it is no part of what is computed.
_OF_THE_MACHINE = ("data_dir", "memory_limit_gb", "config_file")
_OF_SEVERAL = (
    "analyses",
    "problems",
    "datasets",
    "studies",
)  # keys beside which no analysis is at the top
_OF_THE_NUMBERS = ("block_size",)  # among the keys of `execution`

_MOST_VALUES, _MOST_LEVELS = 100_000, 30  # of a config
_CONTROL = ("Cc", "Cs", "Zl", "Zp")  # Unicode's line breaks, other control characters, surrogates

SHAHBABA_CASES = 10000  # of the data set that comes without a seed

# JSON schema takes 128.0 for an integer; code that counts does not.
_Validator = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def load_schema(folder: str | Path | None = None) -> dict:
    """Return the schema of the config with those of all studies, by default of the package's own workflow."""
    folder = Path(folder or workflow_home() / "workflow" / "schemas")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # by libyaml ten times as fast

    def read(name: str) -> dict:
        return loader((folder / name).read_text(encoding="utf-8")).get_single_data()

    schema = read("config.schema.yaml")
    sections = {study.name: read(f"studies/{study.name}.yaml") for study in PAPERS}
    schema["properties"]["studies"]["properties"] = sections
    return schema


def check_config(
    config: dict,
    schemas: str | Path | None = None,
    *,
    where: str = "config",
    folder: str | Path = ".",
    path: str | Path | None = None,
) -> dict:
    """Return a copy of the config with all defaults filled in, keys in the order of the schema.

    ``path`` is that of the file, whose name an analysis at the top of it gets.
    Relative paths of CSV files start at ``folder``, where the workflow runs. Raises `InputError` with
    the path of the first key that is wrong, what was found and what is allowed; `where` starts its
    message.
    """
    schema = load_schema(schemas)
    problems = config_problems(config, schemas, where=where, path=path)
    if problems:
        raise InputError(problems[0])
    filled = _filled(expanded(config, path, where), schema, schema)
    catalogue = schema["$defs"]["catalogue"]["enum"]
    _check_datasets(filled, catalogue, where, Path(folder))
    _check_problems(filled, catalogue, where)
    for study in studies_of(filled):
        study.check(filled, where, Path(folder))
    if not studies_of(filled):
        raise InputError(
            f"{where}: nothing to run found; give data and models (see gpmcflow new), or studies"
        )
    return filled


def load_config(path: str | Path, *, quick: bool = False) -> dict:
    """Return the config of a file as it is written, or as ``--quick`` changes it.

    Raises `InputError` for a quick one of a file that is not of one analysis, with its keys at the top.
    """
    config = load_yaml(path)
    if quick and not is_single(config):
        raise InputError(
            f"{path}: --quick is for a file of one analysis, with data and models at its top; leave "
            "it out, or write quick: true into the analyses that are to be quick"
        )
    return config | ({"quick": True} if quick else {})


def config_problems(
    config: dict,
    schemas: str | Path | None = None,
    *,
    where: str = "config",
    path: str | Path | None = None,
) -> list[str]:
    """Return all that the schema finds wrong with a config, a line each, the first to mend first."""
    schema, single = load_schema(schemas), is_single(config)
    lines: dict[str, None] = {}
    try:
        _require_yaml_values(config, where)
        if single:  # else the message would not name the keys of an analysis
            known = (*KEYS, *(key for key in schema["properties"] if key not in _OF_SEVERAL))
            strange = [key for key in config if key not in (*known, *schema["properties"])]
            lines = {str(unknown_name(f"{where}: key", key, known)): None for key in strange}
            config = {key: value for key, value in config.items() if key not in strange}
        config = expanded(config, path, where)
    except InputError as error:
        return [str(error)]
    errors = sorted(_Validator(schema).iter_errors(config), key=order)
    lines |= dict.fromkeys(str(as_input_error(error, schema, where)) for error in errors)
    if single:  # its keys stand at the top
        (name,) = config["analyses"]
        return [line.replace(f"{where}: analyses.{name}.", f"{where}: ") for line in lines]
    return list(lines)


def portable(config: Mapping[str, Any]) -> dict:
    """Return the config without the keys that do not change the numbers."""
    settings = {key: value for key, value in config.items() if key not in _OF_THE_MACHINE}
    if "execution" in settings:
        execution = settings["execution"].items()
        settings["execution"] = {key: value for key, value in execution if key in _OF_THE_NUMBERS}
    return settings


def _require_yaml_values(config: Any, where: str) -> None:
    """Refuse what the schema cannot, or what it would take too long over.

    That is keys that are not text of one line, numbers that are not finite or that no 64 bits hold, values
    that are none of YAML's own, and a config that is too deep or, with its aliases followed, too long.
    """
    left, n_values = [(config, where, 0)], 0
    while left:
        value, path, depth = left.pop()
        n_values += 1
        if n_values > _MOST_VALUES or depth > _MOST_LEVELS:
            raise InputError(
                f"{where}: more than {_MOST_VALUES} values, or {_MOST_LEVELS} levels, with its aliases "
                "followed; give a smaller config"
            )
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InputError(f"{path}: key {shown(key)} is not text; put it in quotes")
                if any(unicodedata.category(letter) in _CONTROL for letter in key):
                    raise InputError(f"{path}: key {key!r} is not one line of text; rename it")
                left.append((item, joined(path, [key]), depth + 1))
        elif isinstance(value, list):
            left += [(item, joined(path, [k]), depth + 1) for k, item in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{path}: found {value}; allowed: a finite number")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"{path}: found a number of more than 64 bits; give a smaller one")
        elif not isinstance(value, (str, int, float, NoneType)):
            raise InputError(f"{path}: found {shown(value)}; put it in quotes to have it as text")


def _filled(value: Any, node: dict, schema: dict) -> Any:
    """Return a copy of `value` with the defaults of a schema node, all the way down."""
    node = resolve(node, schema)
    if not isinstance(value, dict):
        return copy.deepcopy(value)
    filled = {}
    for branch in _branches(value, node, schema):
        for key, child in branch.get("properties", {}).items():
            child = resolve(child, schema)
            if key in value or "default" in child:
                filled[key] = _filled(value.get(key, child.get("default")), child, schema)
        for pattern, child in branch.get("patternProperties", {}).items():
            names = [key for key in value if re.search(pattern, key)]
            filled |= {key: _filled(value[key], child, schema) for key in names}
    # what the schema leaves open stays as it is
    return filled | {key: copy.deepcopy(value[key]) for key in value if key not in filled}


def _branches(value: Any, node: dict, schema: dict) -> Iterator[dict]:
    """Yield a node and those of its `then` and `else` that apply to a value."""
    node = resolve(node, schema)
    yield node
    if "if" in node:
        branch = "then" if _Validator(node["if"]).is_valid(value) else "else"
        yield from _branches(value, node.get(branch, {}), schema)


def _check_datasets(config: dict, catalogue: list[str], where: str, folder: Path) -> None:
    for name, settings in config["datasets"].items():
        path = f"{where}: datasets.{name}"
        if name in catalogue:
            raise InputError(f"{path}: the name of a catalogue data set; choose another one")
        drawn = settings.get("shahbaba_simulated", {})
        if drawn and drawn["seed"] is None and drawn["n"] > SHAHBABA_CASES:
            raise InputError(
                f"{path}.shahbaba_simulated.n: found {drawn['n']} without a seed; allowed: at most "
                f"{SHAHBABA_CASES}, the size of the paper's data; give a seed for others"
            )
        if "csv" in settings and not is_file(user_path(settings["csv"], folder)):
            raise InputError(
                f"{path}.csv: no file {settings['csv']!r}; a relative path starts at the folder "
                f"the workflow runs in, here {folder.resolve()}"
            )


def _check_problems(config: dict, catalogue: list[str], where: str) -> None:
    known = [*catalogue, *config["datasets"]]
    for name, problem in config["problems"].items():
        if problem["dataset"] not in known:
            raise unknown_name(f"{where}: problems.{name}.dataset", problem["dataset"], known)
