"""Digests that say whether settings, code or arrays are the same.

Only the standard library is imported, since a Snakefile is parsed again for each cluster job.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError, StorageError, unknown_name
from gpmcflow.storage.files import write_text

_PACKAGE = Path(__file__).resolve().parents[1]
_PARSED = Path(".snakemake", "gpmcflow_code.json")


def canonical_json(settings: Any, where: str = "settings") -> str:
    """Return the one JSON text of plain settings: keys sorted, no spaces, finite numbers only.

    Raises `InputError` for anything but dict (with str keys), list, str, int, float, bool and None.
    NumPy scalars, paths, sets and tuples are refused: what cannot come from YAML is not a setting.
    """
    _require_plain(settings, where)
    return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def settings_digest(settings: Any) -> str:
    """Return the SHA-256 (hex) of `canonical_json(settings)`."""
    return hashlib.sha256(canonical_json(settings).encode()).hexdigest()


def _require_plain(value: Any, where: str) -> None:
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise InputError(f"{where}: key {key!r} is not a str; use a str key.")
            _require_plain(item, f"{where}.{key}")
    elif kind is list:
        for position, item in enumerate(value):
            _require_plain(item, f"{where}[{position}]")
    elif kind is float and not abs(value) < float("inf"):
        raise InputError(f"{where}: {value!r} is not a finite number; give one, or null.")
    elif value is not None and kind not in (str, int, float, bool):
        raise InputError(
            f"{where}: {kind.__module__}.{kind.__qualname__} is not a plain value "
            "(allowed: dict, list, str, int, float, bool, null); convert it first."
        )


def text_digest(*parts: str) -> str:
    """Return the SHA-256 (hex) of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def code_digest(*subpackages: str, root: str | Path | None = None) -> str:
    """Return the SHA-256 (hex) of the parsed code of subpackages, docstrings and comments left out.

    `subpackages` are names under `gpmcflow`, such as "samplers", "studies.own_data" or "errors".
    The digest is of `ast.dump`, so it holds for one minor version of Python. `root` is the folder
    they are looked up in (the package itself by default). What was parsed once is not parsed again by
    the same Python: beside Snakemake's own notes lies what became of which bytes.
    """
    folder = _PACKAGE if root is None else Path(root)
    digest, known = hashlib.sha256(), len(_parsed())
    for name in sorted(set(subpackages)):
        for path in _sources(folder, name):
            code = _digest_of_source(path.read_bytes())
            digest.update(f"{path.relative_to(folder).as_posix()}\0{code}\0".encode())
    if len(_parsed()) > known and _PARSED.parent.is_dir():
        with contextlib.suppress(StorageError):
            write_text(json.dumps(_parsed()), _PARSED)
    return digest.hexdigest()


def _digest_of_source(source: bytes) -> str:
    key = f"{sys.version_info[0]}.{sys.version_info[1]} {hashlib.sha256(source).hexdigest()}"
    if key not in _parsed():
        dump = ast.dump(_without_docstrings(ast.parse(source)))
        _parsed()[key] = hashlib.sha256(dump.encode()).hexdigest()
    return _parsed()[key]


@functools.cache
def _parsed() -> dict[str, str]:
    """Python and SHA-256 of a source -> SHA-256 of its parsed code."""
    try:
        return dict(json.loads(_PARSED.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _sources(folder: Path, name: str) -> list[Path]:
    base = folder.joinpath(*name.split("."))
    if base.is_dir():
        return sorted(base.rglob("*.py"), key=lambda path: path.relative_to(base).parts)
    if base.with_suffix(".py").is_file():
        return [base.with_suffix(".py")]
    modules = (path for path in folder.rglob("*.py") if path.name != "__init__.py")
    packages = (path.parent for path in folder.rglob("__init__.py") if path.parent != folder)
    known = {
        ".".join(path.relative_to(folder).with_suffix("").parts) for path in (*modules, *packages)
    }
    raise unknown_name("code_digest: subpackage", name, known)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


def array_digest(arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of named arrays: names, dtypes, shapes and bytes, in order of name.

    Takes NumPy, xarray or Dask arrays (computed by Dask's current scheduler, one at a time).
    Equal digests mean equal bits; the order of the mapping and of memory does not count.
    """
    import numpy as np

    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if array.dtype.hasobject:
            raise InputError(f"array_digest: {name!r} holds Python objects, which have no bytes.")
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
