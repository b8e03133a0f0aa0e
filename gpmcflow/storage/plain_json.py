"""The one JSON text of plain settings.

Only the standard library is imported, since a Snakefile is parsed again for each cluster job.
"""

from __future__ import annotations

import json
from typing import Any

from gpmcflow.errors import InputError


def canonical_json(settings: Any, where: str = "settings") -> str:
    """Return the one JSON text of plain settings: keys sorted, no spaces, finite numbers only.

    Raises `InputError` for anything but dict (with str keys), list, str, int, float, bool and None.
    NumPy scalars, paths, sets and tuples are refused: what cannot come from YAML is not a setting.
    """
    _require_plain(settings, where)
    return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


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
