"""Tables, texts and figures, written whole or not at all, and without a clock inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage.atomic import atomic_path

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


def write_csv(frame: pd.DataFrame, path: str | os.PathLike, *, index: bool = False) -> None:
    """Write a table as CSV, full precision, lines ended by a line feed on every system."""
    write_text(frame.to_csv(index=index, lineterminator="\n"), path)


def read_csv(path: str | os.PathLike, **options: Any) -> pd.DataFrame:
    """Read a table that `write_csv` wrote; ``options`` go to pandas, the empty cell is missing.

    Raises `StorageError` for a file that is missing or no table.
    """
    import pandas as pd

    try:
        return pd.read_csv(path, **{"keep_default_na": False, "na_values": [""], **options})
    except FileNotFoundError:
        raise StorageError(f"{path}: no such file; run the step that writes it.") from None
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise StorageError(
            f"{path}: not a readable table ({text}); delete it and run again."
        ) from error


def write_figure(figure: matplotlib.figure.Figure, path: str | os.PathLike) -> None:
    """Write a figure as .png, .pdf or .svg, by its suffix; two writes give the same bytes."""
    import matplotlib as mpl

    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in _METADATA:
        raise InputError(f"{path}: suffix {kind!r} is unknown (allowed: {', '.join(_METADATA)}).")
    with mpl.rc_context({"svg.hashsalt": "gpmcflow"}), atomic_path(path) as temporary:
        figure.savefig(temporary, format=kind, metadata=_METADATA[kind])
