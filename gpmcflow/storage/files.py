"""Tables, texts and figures, written whole or not at all, and without a clock inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage.atomic import atomic_path
from gpmcflow.storage.checksums import recorded_path, require_unchanged

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd

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


def csv_text(frame: pd.DataFrame) -> str:
    """Return a table as CSV, full precision, lines ended by a line feed on every system."""
    return frame.to_csv(index=False, lineterminator="\n")


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
        return pd.read_csv(path, **{"keep_default_na": False, "na_values": ["", "nan"], **options})
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


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
