"""Files that people edit, read as plain values: nothing in them is executed.

Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage.checksums import require_unchanged

MOST_BYTES = 400_000  # of a YAML file; three seconds of reading
# What PyYAML raises beside its own errors, such as for the date 2020-13-45.
_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a key that stands twice where it would take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """Return the mapping of a node."""
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            line, own = key.start_mark.line + 1, (key.tag, key.value)
            if own in lines:
                raise yaml.YAMLError(
                    f"key {key.value!r} in line {lines[own]} and in line {line}: keep one of them"
                )
            lines[own] = line
        return super().construct_mapping(node, deep)


def is_file(path: str | Path) -> bool:
    """Return whether there is a file of that path; False, too, for what cannot be a path."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def user_path(path: str | Path, folder: str | Path = ".") -> Path:
    """Return a path as a person writes it, a relative one from a folder on, ``~`` being their home.

    Raises `InputError` for the home of a person who is not known here.
    """
    try:
        return Path(folder) / Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path}: no home of that name; write the whole path") from None


def load_yaml(path: str | Path) -> dict:
    """Return the mapping a YAML file holds; raise `InputError` or `StorageError` in one line.

    A file that is a result, and has a checksum, is compared with it.
    """
    require_unchanged(path)
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"{path}: more than {MOST_BYTES} characters; give a config, not data")
        content = _Loader(text).get_single_data()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except InputError:
        raise
    except RecursionError:
        raise InputError(
            f"{path}: not valid YAML (nested too deeply); correct the brackets"
        ) from None
    except (yaml.YAMLError, *_ODD) as error:
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else repr(content)[:60]
        raise InputError(f"{path}: found {kind}, allowed: a mapping of keys to values")
    return content


def load_json(path: str | Path) -> dict:
    """Return the mapping a JSON file of a finished run holds, compared with its checksum.

    Raises `StorageError` in one line.
    """
    require_unchanged(path)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); run again") from None
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}: damaged ({error}); delete it and run again") from None
    if not isinstance(content, dict):
        raise StorageError(f"{path}: damaged (no mapping); delete it and run again")
    return content
