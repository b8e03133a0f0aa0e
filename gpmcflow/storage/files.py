"""Tables, texts, figures and sidecars, written whole or not at all, and without a clock inside."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import threadpoolctl

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage.atomic import atomic_path
from gpmcflow.storage.checksums import (
    OF_FILE,
    parse_sidecar,
    recorded_path,
    require_unchanged,
    sidecar_of,
    sidecar_text,
)

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd


# The one JSON text of plain settings.
#
# Only the standard library is imported, since a Snakefile is parsed again for each cluster job.


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


# Tables, texts and figures, written whole or not at all, and without a clock inside.

_METADATA = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Creator": None, "Date": None},
}


def write_text(text: str, path: str | os.PathLike) -> None:
    """Write text as UTF-8, line ends as they are. Raises `StorageError` as `atomic_path` does."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode())


def write_result_text(text: str, path: str | os.PathLike) -> None:
    """Write a page or another text that is a result: as `write_text`, with its checksum."""
    with recorded_path(path) as temporary:
        temporary.write_bytes(text.encode())


# Text that a spreadsheet takes for a formula, after marks that were set before it; a number is none.
_FORMULA = re.compile("'*[=+\\-@\uff1d\uff0b\uff0d\uff20\x00-\x1f].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?%?|[+-](inf|nan)", re.IGNORECASE)


def csv_text(frame: pd.DataFrame, *, raw: bool = False) -> str:
    """Return a table as CSV, full precision, lines ended by a line feed on every system.

    A name or a cell with text that a spreadsheet would run as a formula, as it begins with =, +, -, @ or a
    control character and is no number, gets an apostrophe before it, which `read_csv` takes away; not with
    ``raw``.
    """
    if not raw:
        frame = _with_texts(frame, _as_text)
    return frame.to_csv(index=False, lineterminator="\n")


def _as_text(text: Any) -> Any:
    if isinstance(text, str) and _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _as_it_was(text: Any) -> Any:
    if isinstance(text, str) and text.startswith("'") and _FORMULA.match(text[1:]):
        return text[1:]
    return text


def _with_texts(frame: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with its names and all cells that hold text changed."""
    texts = {}
    for k in range(frame.shape[1]):
        if frame.dtypes.iloc[k].kind == "O":
            before = list(frame.iloc[:, k])
            after = [change(cell) for cell in before]
            if any(new is not old for new, old in zip(after, before, strict=True)):
                texts[k] = after
    changed = frame.rename(columns=change)
    for k, cells in texts.items():
        changed.isetitem(k, cells)
    return changed


def write_csv(frame: pd.DataFrame, path: str | os.PathLike) -> None:
    """Write a table of results as CSV, with its checksum."""
    write_result_text(csv_text(frame), path)


def read_csv(path: str | os.PathLike, **options: Any) -> pd.DataFrame:
    """Read a table that `write_csv` wrote; ``options`` go to pandas. Empty cells and "nan" are missing.

    Raises `StorageError` for a file that is missing, damaged or no table.
    """
    import pandas as pd

    require_unchanged(path)
    try:
        table = pd.read_csv(path, **{"keep_default_na": False, "na_values": ["", "nan"], **options})
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return _with_texts(table, _as_it_was)


def write_figure(figure: matplotlib.figure.Figure, path: str | os.PathLike) -> None:
    """Write a figure as .png, .pdf or .svg, by its suffix: the same bytes each time, and their checksum."""
    import matplotlib as mpl

    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in _METADATA:
        raise InputError(f"{path}: suffix {kind!r} is unknown (allowed: {', '.join(_METADATA)}).")
    with mpl.rc_context({"svg.hashsalt": "gpmcflow"}), recorded_path(path) as temporary:
        figure.savefig(temporary, format=kind, metadata=_METADATA[kind])


def _unreadable(path: str | os.PathLike, error: Exception) -> StorageError:
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{path}: no such file; run the step that writes it.")
    text = " ".join(str(error).split())
    return StorageError(f"{path}: cannot be read ({text}); delete it and run again.")


# The JSON file beside a results file: what may differ between two runs of the same config.

_PACKAGES = ("gpmcflow", "numpy", "scipy", "xarray", "dask", "h5netcdf", "h5py")


def write_sidecar(path: str | os.PathLike, facts: dict, checksum: str) -> None:
    """Write `<path>.json`, atomically: `facts` (timings and the like), the SHA-256 of the results
    file, versions, threads, host, and a SHA-256 of its own."""
    write_text(sidecar_text({**environment(), **facts, OF_FILE: checksum}), sidecar_of(path))


def read_sidecar(path: str | os.PathLike) -> dict:
    """Content of `<path>.json`. Raises `StorageError` if it is missing or not what was written."""
    return parse_sidecar(sidecar_of(path))


def origin(attributes: Mapping[str, Any], facts: dict) -> dict:
    """Where the numbers of a results file come from: seed, data, settings, and its sidecar's facts."""
    note = {"seed": int(attributes["seed"]), "data_checksum": attributes["data_checksum"]}
    return note | {"settings": json.loads(attributes["settings"]), "facts": facts}


def environment() -> dict:
    """Return host, platform, time, versions and thread counts of this process."""
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **_versions()},
        "threads": {
            f"{pool.get('user_api')}:{pool.get('internal_api')}:{pool.get('version')}": pool.get(
                "num_threads"
            )
            for pool in threadpoolctl.threadpool_info()
        },
        "cpus": os.cpu_count(),
    }


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions
