"""Digests that say whether settings or arrays are the same.

Only the standard library is imported, since a Snakefile is parsed again for each cluster job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gpmcflow.errors import InputError


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
